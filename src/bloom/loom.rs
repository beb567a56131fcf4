//! Pages that readers check while a checkpoint writes them, in every order (see docs/evidence.md).
//!
//! A write to the file consists of relaxed stores to the words of the map: a reader may see any of them before any
//! other.

use std::ops::Range;
use std::sync::Arc;

use ::loom::thread;

use super::layer_pages::LayerPages;
use super::page as bloom_page;
use crate::codec::u64_at;
use crate::file::layout::FIRST_PAGE;
use crate::file::{FormatError, Layer};
use crate::page::write_window::WriteWindow;
use crate::page::{Binding, PAGE_BYTES};
use crate::sizing::Cell;
use crate::sys::sync::{AtomicBool, Ordering};
use crate::sys::{Map, Region, explore};

const WORDS: usize = PAGE_BYTES / 8;
/// One probe per key, so that as few words as possible change.
const PROBES: u32 = 1;

/// The contents of a page before or after a checkpoint.
pub(crate) enum Page<'a> {
    Blank,
    Keys(&'a [u64]),
    /// The keys, plus a flipped bit that belongs to none of them.
    Damaged(&'a [u64]),
}

impl Page<'_> {
    fn keys(&self) -> u64 {
        match self {
            Page::Keys(keys) | Page::Damaged(keys) => keys.len() as u64,
            Page::Blank => 0,
        }
    }

    fn words(&self, number: u64) -> Vec<u64> {
        let mut bytes = vec![0; PAGE_BYTES];
        if let Page::Keys(keys) | Page::Damaged(keys) = self {
            let occupancy = bloom_page::apply(&mut bytes, PROBES, keys);
            Binding::NONE.seal(number, keys.len() as u64, occupancy, &mut bytes);
        }
        if matches!(self, Page::Damaged(_)) {
            bytes[PAGE_BYTES - 1] ^= 0x80;
        }
        (0..WORDS).map(|word| u64_at(&bytes, word * 8)).collect()
    }
}

/// The pages of a layer in a file, and what a checkpoint turns them into.
pub(crate) struct File {
    pub(crate) layer: Layer,
    map: Map,
    after: Vec<u64>,
}

impl File {
    pub(crate) fn of(first_page: u64, pages: &[(Page<'_>, Page<'_>)]) -> Self {
        let words = |after: bool| -> Vec<u64> {
            let pages = (first_page..).zip(pages);
            let chosen = pages.map(|(number, (old, new))| {
                let page = if after { new } else { old };
                page.words(number)
            });
            chosen.flatten().collect()
        };
        let (before, after) = (words(false), words(true));
        let changing = (0..before.len()).filter(|word| before[*word] != after[*word]);
        let changing: Vec<usize> = changing.collect();
        let layer = Layer {
            cell: Cell::Bit,
            first_page,
            pages: pages.len() as u64,
            capacity: 1000,
            keys: pages.iter().map(|(old, _)| old.keys()).sum(),
            fpr: 0.01,
            probes: PROBES,
            all_written: false,
        };
        Self {
            layer,
            map: Map::of(before, changing),
            after,
        }
    }

    /// Returns a handle's view of the pages, none of which is checked yet.
    pub(crate) fn pages(&self) -> LayerPages {
        LayerPages::of(0, &self.layer, Binding::NONE, self.map.clone()).expect("memory")
    }

    /// Returns the page numbers in the file.
    pub(crate) fn numbers(&self, pages: Range<u64>) -> Range<u64> {
        self.layer.first_page + pages.start..self.layer.first_page + pages.end
    }

    /// Writes what a checkpoint writes.
    pub(crate) fn write(&self, pages: Range<u64>) {
        self.write_words(pages.start as usize * WORDS..pages.end as usize * WORDS);
    }

    fn write_words(&self, words: Range<usize>) {
        for word in words {
            self.map.store(word, self.after[word]);
        }
    }
}

struct Scene {
    file: File,
    pages: LayerPages,
    words: Region,
    done: AtomicBool,
}

impl Scene {
    fn of(pages: &[(Page<'_>, Page<'_>)]) -> Arc<Self> {
        let file = File::of(FIRST_PAGE, pages);
        Arc::new(Self {
            pages: file.pages(),
            file,
            words: Region::private(WriteWindow::WORDS as u64).unwrap(),
            done: AtomicBool::new(false),
        })
    }

    fn window(&self) -> WriteWindow<'_> {
        WriteWindow::new(self.words.words())
    }

    fn contains(&self, hash: u64) -> Result<bool, FormatError> {
        self.pages.contains(hash, self.window())
    }

    fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire)
    }

    fn checkpoint(&self, chunks: &[Range<u64>]) {
        for chunk in chunks {
            self.window().publish(self.file.numbers(chunk.clone()));
            self.file.write(chunk.clone());
        }
        self.window().publish(0..0);
    }
}

/// Runs `look` on another thread while a checkpoint writes chunk after chunk.
fn beside_a_checkpoint(
    preemptions: usize,
    pages: &'static [(Page<'static>, Page<'static>)],
    chunks: &'static [Range<u64>],
    look: fn(&Scene),
) {
    explore(preemptions, move || {
        let scene = Scene::of(pages);
        let reader = {
            let scene = Arc::clone(&scene);
            thread::spawn(move || look(&scene))
        };
        scene.checkpoint(chunks);
        // The superblock, and through it each handle, learns this as soon as it is true.
        scene.pages.set_all_written();
        scene.done.store(true, Ordering::Release);
        reader.join().unwrap();
    });
}

/// Keys of the first page, and of the second where there are two.
const OLD: u64 = 1;
const NEW: u64 = 2;
const SECOND: u64 = u64::MAX;

#[test]
fn a_page_that_is_written_is_never_damage() {
    let pages = &[(Page::Keys(&[OLD]), Page::Keys(&[OLD, NEW]))];
    beside_a_checkpoint(3, pages, &[0..1], |scene| {
        let done = scene.is_done();
        assert_eq!(scene.contains(OLD), Ok(true));
        let new = scene.contains(NEW).unwrap();
        assert!(new || !done, "a key that was written is not there");
    });
}

#[test]
fn nor_is_one_that_was_blank_until_then() {
    let pages = &[(Page::Blank, Page::Keys(&[NEW]))];
    beside_a_checkpoint(3, pages, &[0..1], |scene| {
        let done = scene.is_done();
        let new = scene.contains(NEW).unwrap();
        assert!(new || !done, "a key that was written is not there");
    });
}

#[test]
fn nor_is_one_of_either_chunk() {
    let pages = &[
        (Page::Keys(&[OLD]), Page::Keys(&[OLD, NEW])),
        (Page::Blank, Page::Keys(&[SECOND])),
    ];
    beside_a_checkpoint(1, pages, &[0..1, 1..2], |scene| {
        let done = scene.is_done();
        let second = scene.contains(SECOND).unwrap();
        assert!(second || !done, "a key that was written is not there");
        assert_eq!(scene.contains(OLD), Ok(true));
    });
}

/// Both chunks' windows come and go while the reader checks the page beside them.
#[test]
fn a_damaged_page_beside_the_window_is_damage() {
    let pages = &[
        (Page::Damaged(&[OLD]), Page::Damaged(&[OLD])),
        (Page::Blank, Page::Keys(&[SECOND])),
    ];
    beside_a_checkpoint(3, pages, &[1..2], |scene| {
        let found = scene.contains(OLD);
        let damaged = matches!(found, Err(FormatError::PageDamaged { page: 0, .. }));
        assert!(damaged, "{found:?}");
    });
}

/// A checkpoint that failed half way leaves its window: inside it readers take pages as they are, and outside it damage
/// is damage.
#[test]
fn a_window_that_stays_is_for_its_own_pages() {
    let pages = &[
        (Page::Damaged(&[OLD]), Page::Damaged(&[OLD])),
        (Page::Keys(&[SECOND]), Page::Keys(&[SECOND, SECOND - 1])),
    ];
    explore(2, move || {
        let scene = Scene::of(pages);
        let reader = {
            let scene = Arc::clone(&scene);
            thread::spawn(move || {
                let found = scene.contains(OLD);
                let damaged = matches!(found, Err(FormatError::PageDamaged { page: 0, .. }));
                assert!(damaged, "{found:?}");
                assert_eq!(scene.contains(SECOND), Ok(true));
            })
        };
        scene.window().publish(scene.file.numbers(1..2));
        // All words but the first, which holds the checksum.
        scene.file.write_words(WORDS + 1..2 * WORDS);
        reader.join().unwrap();
    });
}

/// Readers take a page that an interrupted checkpoint left torn as it is, until recovery has repeated the checkpoint.
#[test]
fn a_torn_page_is_read_as_it_is_until_it_is_whole() {
    let pages = &[(Page::Damaged(&[OLD]), Page::Keys(&[OLD, NEW]))];
    explore(1, move || {
        let scene = Scene::of(pages);
        scene.window().set_torn(scene.file.numbers(0..1));
        let reader = {
            let scene = Arc::clone(&scene);
            thread::spawn(move || {
                let done = scene.is_done();
                assert_eq!(scene.contains(OLD), Ok(true));
                let new = scene.contains(NEW).unwrap();
                assert!(new || !done, "a key that was written is not there");
            })
        };
        scene.checkpoint(&[0..1]);
        scene.window().set_torn(0..0);
        scene.done.store(true, Ordering::Release);
        reader.join().unwrap();
    });
}
