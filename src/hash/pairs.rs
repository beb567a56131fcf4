//! Hashes many keys, two at a time.

/// Passes on the hashes of keys, in their order, using a function that hashes two keys at once. If the number of keys
/// is odd, the function receives the last one twice.
#[inline]
pub(crate) fn in_pairs<K: Copy>(
    keys: impl IntoIterator<Item = K>,
    hash: impl Fn([K; 2]) -> [u64; 2],
    mut each: impl FnMut(u64),
) {
    let mut keys = keys.into_iter();
    while let Some(first) = keys.next() {
        let second = keys.next();
        let hashes = hash([first, second.unwrap_or(first)]);
        each(hashes[0]);
        if second.is_some() {
            each(hashes[1]);
        }
    }
}
