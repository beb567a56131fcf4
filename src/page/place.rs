//! From a hash to its page (FORMAT.md, "From hash to page"). Pure arithmetic.

/// Returns the page among `pages` to which a hash belongs, given by the hash's high bits. The function is monotone, so
/// that sorting by hash sorts by page (FORMAT.md, "From hash to page").
#[inline]
pub(crate) fn page_of(hash: u64, pages: u64) -> u64 {
    debug_assert!(pages > 0);
    ((u128::from(hash) * u128::from(pages)) >> 64) as u64
}

/// Returns the page that holds the keys of `page` after a fold to `factor` times fewer pages. Since `floor(floor(x f) /
/// f) = floor(x)`, it is the page where [`page_of`] would have put them (FORMAT.md, "Folding and merging").
#[inline]
pub(crate) fn folded(page: u64, factor: u64) -> u64 {
    debug_assert!(factor > 0);
    page / factor
}

/// Returns the smallest hash that belongs to `page` among `pages`, or `None` if no hash is that high.
pub(crate) fn first_hash_of(page: u64, pages: u64) -> Option<u64> {
    // No page is behind the end, where a range may end.
    assert!(page <= pages, "page {page} of {pages}");
    let least = (u128::from(page) << 64).div_ceil(u128::from(pages));
    u64::try_from(least).ok()
}

/// Returns the greatest hash that belongs to a page below `page_end`, which is at least 1.
pub(crate) fn last_hash_below(page_end: u64, pages: u64) -> u64 {
    // Below page 0 there is no hash. In a release the subtraction would wrap, and the range hold all of them.
    assert!(page_end > 0);
    match first_hash_of(page_end, pages) {
        Some(hash) => hash - 1,
        None => u64::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The slow twin looks up the smaller filter's page directly.
        #[test]
        fn a_folded_page_is_that_of_the_smaller_filter(
            pages in 1_u64..1 << 40,
            factor in 1_u64..1000,
            hash in any::<u64>(),
        ) {
            let large = page_of(hash, pages * factor);
            prop_assert_eq!(folded(large, factor), page_of(hash, pages));
        }

        /// The slow twin walks the pages: the hash's page precedes the first one that begins above the hash, at `k *
        /// 2^64 / pages` rounded up.
        #[test]
        fn equals_a_walk_over_the_pages(pages in 1_u64..300, at in any::<u64>()) {
            let begins = |page: u64| {
                let product = u128::from(page) * (1 << 64);
                let rounded = product % u128::from(pages) != 0;
                product / u128::from(pages) + u128::from(rounded)
            };
            let mut twin = 0;
            while twin + 1 < pages && begins(twin + 1) <= u128::from(at) {
                twin += 1;
            }
            prop_assert_eq!(page_of(at, pages), twin);
            prop_assert_eq!(first_hash_of(twin, pages).map(u128::from), Some(begins(twin)));
            let last = begins(twin + 1) - 1;
            prop_assert_eq!(u128::from(last_hash_below(twin + 1, pages)), last);
            prop_assert_eq!(first_hash_of(pages, pages), None);
        }

        #[test]
        fn ranges_of_hashes_are_ranges_of_pages(pages in 1..(1_u64 << 50), at in any::<u64>()) {
            let page = page_of(at, pages);
            prop_assert!(page < pages);
            let first = first_hash_of(page, pages).unwrap();
            let last = last_hash_below(page + 1, pages);
            prop_assert!(first <= at && at <= last);
            prop_assert_eq!(page_of(first, pages), page);
            prop_assert_eq!(page_of(last, pages), page);
            if page > 0 {
                prop_assert_eq!(page_of(first - 1, pages), page - 1);
            }
            if page + 1 < pages {
                prop_assert_eq!(page_of(last + 1, pages), page + 1);
            } else {
                prop_assert_eq!(last, u64::MAX);
            }
        }
    }
}
