//! What a store takes for a key.

use std::borrow::Cow;

use crate::hash::{HashedKey, KeyHasher};

/// What a store takes for a key: bytes, or something that stands for them.
///
/// - **Bytes**: `[u8]`, `str`, and what owns them. The store hashes them. `"a"`, `b"a"` and `String::from("a")` are one key.
/// - **[`HashedKey`]**: bytes that this store's [`hasher`](crate::Store::hasher) has hashed, perhaps on another thread;
///   hashing is half the work of a large batch. Whether it was this store's is not checked: the hashes of another
///   store's hasher stand for different keys here.
/// - **`u64`**: a hash of the caller's own, or a number that is the key. A bijective mixer spreads it, so it need not be
///   evenly distributed, but equal hashes are equal keys. It has nothing in common with the key of its eight bytes.
///
/// The trait is sealed: no other type can implement it.
pub trait Key: sealed::AsForm {}

pub(crate) mod sealed {
    use crate::hash::HashedKey;

    /// What stands for a key.
    #[derive(Debug, Clone, Copy)]
    pub enum Form<'k> {
        /// The key's bytes.
        Bytes(&'k [u8]),
        /// Its hash by the store's hasher.
        Hashed(HashedKey),
        /// A hash of the caller's own.
        Own(u64),
    }

    /// Threads may share keys: a sweep looks them up on two.
    pub trait AsForm: Sync {
        fn form(&self) -> Form<'_>;
    }
}

use sealed::{AsForm, Form};

/// Hashes a key to its 64 bits in a store.
#[inline]
pub(crate) fn bits_of<K: Key + ?Sized>(hasher: &KeyHasher, key: &K) -> u64 {
    bits_of_form(hasher, key.form())
}

/// Hashes two keys at once, which for bytes is faster than one after the other.
#[inline]
pub(crate) fn bits_of_two<K: Key + ?Sized>(hasher: &KeyHasher, [a, b]: [&K; 2]) -> [u64; 2] {
    match (a.form(), b.form()) {
        (Form::Bytes(a), Form::Bytes(b)) => hasher.hash_two([a, b]),
        (a, b) => [bits_of_form(hasher, a), bits_of_form(hasher, b)],
    }
}

#[inline]
fn bits_of_form(hasher: &KeyHasher, form: Form<'_>) -> u64 {
    match form {
        Form::Bytes(bytes) => hasher.hash(bytes),
        Form::Hashed(key) => key.bits(),
        Form::Own(hash) => hasher.mix(hash),
    }
}

impl Key for [u8] {}
impl AsForm for [u8] {
    #[inline]
    fn form(&self) -> Form<'_> {
        Form::Bytes(self)
    }
}

impl<const N: usize> Key for [u8; N] {}
impl<const N: usize> AsForm for [u8; N] {
    #[inline]
    fn form(&self) -> Form<'_> {
        Form::Bytes(self)
    }
}

impl Key for Vec<u8> {}
impl AsForm for Vec<u8> {
    #[inline]
    fn form(&self) -> Form<'_> {
        Form::Bytes(self)
    }
}

impl Key for str {}
impl AsForm for str {
    #[inline]
    fn form(&self) -> Form<'_> {
        Form::Bytes(self.as_bytes())
    }
}

impl Key for String {}
impl AsForm for String {
    #[inline]
    fn form(&self) -> Form<'_> {
        Form::Bytes(self.as_bytes())
    }
}

impl Key for HashedKey {}
impl AsForm for HashedKey {
    #[inline]
    fn form(&self) -> Form<'_> {
        Form::Hashed(*self)
    }
}

impl Key for u64 {}
impl AsForm for u64 {
    #[inline]
    fn form(&self) -> Form<'_> {
        Form::Own(*self)
    }
}

impl<K: Key + ?Sized> Key for &K {}
impl<K: AsForm + ?Sized> AsForm for &K {
    #[inline]
    fn form(&self) -> Form<'_> {
        (**self).form()
    }
}

impl<K: Key + ?Sized> Key for Box<K> {}
impl<K: AsForm + ?Sized> AsForm for Box<K> {
    #[inline]
    fn form(&self) -> Form<'_> {
        (**self).form()
    }
}

impl<K: Key + ToOwned + ?Sized> Key for Cow<'_, K> where K::Owned: Sync {}
impl<K: AsForm + ToOwned + ?Sized> AsForm for Cow<'_, K>
where
    K::Owned: Sync,
{
    #[inline]
    fn form(&self) -> Form<'_> {
        (**self).form()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::Hash;

    #[test]
    fn bytes_are_one_key_whatever_holds_them() {
        let hasher = KeyHasher::new(Hash::default(), &[5; 32]);
        let bits = hasher.hash(b"key");
        assert_eq!(bits_of(&hasher, b"key"), bits);
        assert_eq!(bits_of(&hasher, &b"key"[..]), bits);
        assert_eq!(bits_of(&hasher, "key"), bits);
        assert_eq!(bits_of(&hasher, &"key".to_owned()), bits);
        assert_eq!(bits_of(&hasher, &b"key".to_vec()), bits);
        assert_eq!(bits_of(&hasher, &Box::<str>::from("key")), bits);
        assert_eq!(bits_of(&hasher, &Cow::Borrowed("key")), bits);
        assert_eq!(bits_of(&hasher, &&&"key"), bits);
        assert_eq!(bits_of(&hasher, &hasher.key(b"key")), bits);
    }

    #[test]
    fn two_keys_at_once_have_the_bits_of_each() {
        let hasher = KeyHasher::new(Hash::default(), &[5; 32]);
        let [one, two] = ["one", "another key, longer than a block of the hash"];
        let each = [bits_of(&hasher, one), bits_of(&hasher, two)];
        assert_eq!(bits_of_two(&hasher, [one, two]), each);
        let keys = [hasher.key(one.as_bytes()), hasher.key(two.as_bytes())];
        assert_eq!(bits_of_two(&hasher, [&keys[0], &keys[1]]), each);
        assert_eq!(
            bits_of_two(&hasher, [&7_u64, &8]),
            [hasher.mix(7), hasher.mix(8)]
        );
        assert_ne!(
            bits_of(&hasher, &7_u64),
            bits_of(&hasher, &7_u64.to_le_bytes())
        );
    }
}
