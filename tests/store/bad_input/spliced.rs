//! Pages of another store of the same layout, put where the store's own were. Nothing about them is wrong but the store
//! that they are bound to.

use std::fs;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use everseen::testing::Options;
use everseen::{Error, FormatError, Kind, Merge, OnDamage, Store};
use tempfile::TempDir;

use crate::support::files::{beside, held, keys, small};
use crate::support::forge::{self, SUPERBLOCKS, page_crc, u32_at, u64_at};
use crate::support::segments::{from, newest};

const KINDS: [Kind; 4] = [
    Kind::Bloom,
    Kind::Scalable,
    Kind::Counting,
    Kind::Fingerprint,
];
const PAGE: usize = 4096;
const OWN: Range<u64> = 0..2500;
const OTHER: Range<u64> = 5000..7500;
/// The bit of `incompatible` that binds pages, FORMAT.md, "Header".
const BOUND_PAGES: u8 = 4;

fn options(kind: Kind) -> Options {
    let fpr = if kind == Kind::Fingerprint {
        1e-12
    } else {
        1e-9
    };
    small().kind(kind).capacity(4000).fpr(fpr)
}

/// Two closed stores, with keys of their own.
struct Pair {
    _folder: TempDir,
    kind: Kind,
    own: PathBuf,
    other: PathBuf,
    /// What the pages of keys and of the directory are: the same in both.
    named: Vec<Range<u64>>,
}

impl Pair {
    fn new(kind: Kind) -> Self {
        let folder = TempDir::new().unwrap();
        let [own, other] = [("own", OWN), ("other", OTHER)].map(|(name, numbers)| {
            let path = folder.path().join(name);
            let store = options(kind).create(&path).unwrap();
            store.insert_batch(&keys(numbers)).unwrap();
            store.close().unwrap();
            path
        });
        let pages = named(&own);
        assert_eq!(pages, named(&other), "{kind}: not of one layout");
        Self {
            _folder: folder,
            kind,
            own,
            other,
            named: pages,
        }
    }

    /// Takes the bit away, and seals all pages as builds without it did.
    fn unbind(&self) {
        for path in [&self.own, &self.other] {
            let mut file = fs::read(path).unwrap();
            let header = file[..256].to_vec();
            let mut plain = header.clone();
            plain[32] &= !BOUND_PAGES;
            assert_ne!(header, plain);
            for number in self.named.iter().cloned().flatten() {
                let page = &mut file[number as usize * PAGE..][..PAGE];
                assert_eq!(page_crc(&header, number, page), u32_at(page, 0));
                let crc = page_crc(&plain, number, page);
                page[..4].copy_from_slice(&crc.to_le_bytes());
            }
            fs::write(path, file).unwrap();
            forge::header(path, 32, &plain[32..33]);
        }
    }

    /// Puts pages of the other store where they lie there.
    fn splice(&self, pages: Range<u64>) {
        let other = fs::read(&self.other).unwrap();
        let bytes = pages.start as usize * PAGE..pages.end as usize * PAGE;
        // In place: a handle may have the file open.
        let file = fs::File::options().write(true).open(&self.own).unwrap();
        file.write_all_at(&other[bytes.clone()], bytes.start as u64)
            .unwrap();
    }

    fn open(&self) -> Store {
        options(self.kind).open(&self.own).unwrap()
    }

    /// The error of a page that was spliced in.
    fn fault(&self, number: u64) -> FormatError {
        let file = fs::read(&self.own).unwrap();
        let page = &file[number as usize * PAGE..][..PAGE];
        let (expected, got) = (page_crc(&file, number, page), u32_at(page, 0));
        assert_ne!(expected, got);
        match self.kind {
            Kind::Fingerprint => FormatError::SegmentDamaged {
                page: number,
                reason: format!("page {number} is damaged: CRC {got:08x}, expected {expected:08x}"),
            },
            _ => FormatError::PageDamaged {
                layer: 0,
                page: number - self.named[0].start,
                expected,
                got,
            },
        }
    }

    /// The pages that `verify` calls damaged.
    fn damaged(&self, store: &Store) -> Vec<u64> {
        let report = store.verify().unwrap();
        let of_layers = report.damaged.iter().map(|damage| {
            assert_eq!(damage.layer, 0);
            self.named[0].start + damage.page
        });
        let of_segments = report.segments.iter().map(|damage| {
            let reason = &damage.reason;
            assert_eq!(
                FormatError::SegmentDamaged {
                    page: damage.page,
                    reason: reason.clone()
                },
                self.fault(damage.page)
            );
            damage.page
        });
        let mut pages: Vec<u64> = of_layers.chain(of_segments).collect();
        pages.sort_unstable();
        pages
    }

    /// Looks all own keys up. Returns how many are answered with "seen"; all others meet one of these pages.
    fn ask(&self, store: &Store, spliced: &Range<u64>) -> usize {
        let faults: Vec<_> = spliced.clone().map(|page| self.fault(page)).collect();
        let mut seen = 0;
        for key in keys(OWN) {
            match store.contains(&key) {
                Ok(found) => {
                    assert!(found, "{}: a key is lost", self.kind);
                    seen += 1;
                }
                Err(error) => self.is_one_of(&error, &faults),
            }
        }
        match store.contains_batch(&keys(OWN)) {
            Ok(found) => assert!(found.iter().all(|found| *found) && seen == found.len()),
            Err(error) => self.is_one_of(&error, &faults),
        }
        seen
    }

    #[track_caller]
    fn is_one_of(&self, error: &Error, faults: &[FormatError]) {
        let Error::Format { path, source } = error else {
            panic!("{}: {error:?}", self.kind);
        };
        assert!(
            *path == self.own && faults.contains(source),
            "{}: {error:?}",
            self.kind
        );
    }
}

/// What the newest superblock names: its only layer, or the only segment and both copies of the directory.
fn named(path: &Path) -> Vec<Range<u64>> {
    let file = fs::read(path).unwrap();
    if let Some(named) = newest(&from(&file)).filter(|_| file[44] == 4) {
        assert_eq!(named.segments.len(), 1);
        return named.pages;
    }
    let superblock = &file[SUPERBLOCKS[forge::newest(path)]..];
    assert_eq!(u32_at(superblock, 308), 1);
    let (first, pages) = (u64_at(superblock, 320), u64_at(superblock, 328));
    assert!(pages > 2);
    let is_blank = |number: u64| {
        let page = &file[number as usize * PAGE..][..PAGE];
        page.iter().all(|byte| *byte == 0)
    };
    assert!(!(first..first + pages).any(is_blank));
    std::iter::once(first..first + pages).collect()
}

#[test]
fn pages_of_another_store_are_damage() {
    for kind in KINDS {
        let pair = Pair::new(kind);
        let own = fs::read(&pair.own).unwrap();
        let keys_lie_in = pair.named[0].clone();
        let (first, second) = (keys_lie_in.start, keys_lie_in.start + 1);
        for spliced in [keys_lie_in.clone(), first..second, second..keys_lie_in.end] {
            fs::write(&pair.own, &own).unwrap();
            pair.splice(spliced.clone());
            for reads_only in [false, true] {
                let store = match reads_only {
                    false => pair.open(),
                    true => options(kind).open_read_only(&pair.own).unwrap(),
                };
                let damaged = pair.damaged(&store);
                assert_eq!(damaged, spliced.clone().collect::<Vec<_>>(), "{kind}");
                let seen = pair.ask(&store, &spliced);
                let is_all = spliced == keys_lie_in;
                // Without its fences, which lie in its last page, no page of a segment can be found.
                let is_none_left =
                    is_all || kind == Kind::Fingerprint && spliced.end == keys_lie_in.end;
                assert_eq!(seen == 0, is_none_left, "{kind}, {spliced:?}: {seen} seen");
                assert!(seen < keys(OWN).len());
            }
        }
    }
}

/// The pages spliced in above are wrong in nothing else: where they are bound to no store, they pass, and so the other
/// store's keys.
#[test]
fn pages_that_are_bound_to_no_store_pass_in_any() {
    for kind in KINDS {
        let pair = Pair::new(kind);
        pair.unbind();
        let store = pair.open();
        assert!(store.verify().unwrap().is_ok(), "{kind}");
        assert_eq!(held(&store, &keys(OWN)), keys(OWN).len());
        drop(store);
        for pages in pair.named.clone() {
            // Both copies of the directory too, which say the same.
            pair.splice(pages);
        }
        let store = pair.open();
        assert!(store.verify().unwrap().is_ok(), "{kind}");
        assert_eq!(held(&store, &keys(OWN)), 0, "{kind}");
        assert_eq!(held(&store, &keys(OTHER)), keys(OTHER).len(), "{kind}");
    }
}

#[test]
fn a_directory_of_another_store_is_damage() {
    let pair = Pair::new(Kind::Fingerprint);
    let [_, one, other] = &pair.named[..] else {
        panic!("{:?}", pair.named);
    };
    pair.splice(one.clone());
    let store = pair.open();
    assert_eq!(pair.damaged(&store), one.clone().collect::<Vec<_>>());
    assert_eq!(held(&store, &keys(OWN)), keys(OWN).len());
    drop(store);
    pair.splice(other.clone());
    for outcome in [
        options(Kind::Fingerprint).open(&pair.own),
        options(Kind::Fingerprint).open_read_only(&pair.own),
    ] {
        pair.is_one_of(&outcome.unwrap_err(), &[pair.fault(one.start)]);
    }
}

/// Neither a checkpoint nor a copy, a union or a repair takes them for the store's own.
#[test]
fn pages_of_another_store_are_not_carried_on() {
    for kind in KINDS {
        let pair = Pair::new(kind);
        let page = pair.named[0].start..pair.named[0].start + 1;
        let store = pair.open();
        store
            .insert_batch(&keys(OTHER.end..OTHER.end + 500))
            .unwrap();
        store.commit().unwrap();
        pair.splice(page.clone());
        let fault = [pair.fault(page.start)];
        pair.is_one_of(&store.checkpoint().unwrap_err(), &fault);
        drop(store);

        let pair = Pair::new(kind);
        pair.splice(page.clone());
        let fault = [pair.fault(page.start)];
        let store = pair.open();
        // Segments are checked in the copy, and named by its path.
        let copied = store.snapshot(beside(&pair.own, "-copy"));
        match copied.unwrap_err() {
            Error::Format { source, .. } => assert_eq!([source], fault, "{kind}"),
            other => panic!("{kind}: {other:?}"),
        }
        drop(store);
        if kind != Kind::Counting {
            let united = Merge::new().union(beside(&pair.own, "-union"), &[&pair.own]);
            pair.is_one_of(&united.unwrap_err(), &fault);
        }
        let store = pair.open();
        let repaired = store.repair(OnDamage::NeverSeen).unwrap();
        assert_eq!(repaired.pages.len() + repaired.segments.len(), 1, "{kind}");
        assert!(store.verify().unwrap().is_ok());
        assert_eq!(held(&store, &keys(OTHER)), 0, "{kind}");
        let left = held(&store, &keys(OWN));
        assert!(left > 0 && left < keys(OWN).len(), "{kind}: {left}");
    }
}
