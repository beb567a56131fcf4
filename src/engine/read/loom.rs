//! Checks readers while generations come and go, in every order (see docs/evidence.md).
//!
//! The code under test is the real [`look_up`], [`View`], [`Coordination`], buffers and pages. The rest is modelled:
//! files are relaxed words, and each handle has a view of its own, as if each reader were a process, which learns of a
//! change only from the shared words.

use std::cell::RefCell;
use std::sync::Arc;

use ::loom::thread;

use crate::bloom::layer_pages::LayerPages;
use crate::bloom::loom::{File, Page};
use crate::engine::read::point::{Found, look_up};
use crate::engine::view::Mapped;
use crate::engine::view::{Turn, View};
use crate::error::{Error, Result};
use crate::file::Superblock;
use crate::file::layout::FIRST_PAGE;
use crate::filter::Filter;
use crate::generation::Generation;
use crate::memtable::{Buffer, COMMITTED, Presence};
use crate::page_io::probe::Probe;
use crate::shm::buffer_sizes::BufferSizes;
use crate::shm::coordination::Coordination;
use crate::storefile::section_set::SectionSet;
use crate::sys::sync::{AtomicBool, AtomicU64, Ordering, yield_now};
use crate::sys::{FileId, explore};

/// In the pages from the beginning.
const OLD: u64 = 1;
/// In generation 1, and in the pages once that generation is settled.
const KEY: u64 = 2;
/// Inserted into generation 2.
const NEW: u64 = 3;
const HANDLE: u64 = 7;

/// Where generation 1 settles.
#[derive(Clone, Copy)]
enum Settles {
    Nowhere,
    /// Into the page in which `OLD` is.
    IntoThePage,
    /// Into the first page, which is empty.
    IntoABlankPage,
    /// Into a layer of its own.
    IntoANewLayer,
}

struct Store {
    shared: Coordination,
    /// By number, beginning with 1.
    generations: Vec<Arc<Generation>>,
    /// A bit for each generation whose buffer's file is gone.
    removed: AtomicU64,
    files: Vec<File>,
    /// By generation, beginning with 1.
    superblocks: Vec<Superblock>,
    /// The generation of the newest superblock.
    newest: AtomicU64,
    inserted: AtomicBool,
}

impl Store {
    fn new(settles: Settles) -> Self {
        let files = match settles {
            Settles::Nowhere => Vec::new(),
            Settles::IntoThePage => vec![File::of(
                FIRST_PAGE,
                &[(Page::Keys(&[OLD]), Page::Keys(&[OLD, KEY]))],
            )],
            Settles::IntoABlankPage => {
                vec![File::of(FIRST_PAGE, &[(Page::Blank, Page::Keys(&[KEY]))])]
            }
            Settles::IntoANewLayer => vec![
                File::of(FIRST_PAGE, &[(Page::Keys(&[OLD]), Page::Keys(&[OLD]))]),
                File::of(FIRST_PAGE + 16, &[(Page::Blank, Page::Keys(&[KEY]))]),
            ],
        };
        let superblock = |generation: u64| {
            let mut layers: Vec<_> = files.iter().map(|file| file.layer).collect();
            if generation == 1 {
                layers.truncate(1);
            } else if let Some(last) = layers.last_mut() {
                last.all_written = true;
                last.keys += 1;
            }
            Superblock {
                sequence: generation,
                generation,
                log_expected: true,
                commit_sequence: 0,
                layers,
                directory: None,
                partly_merged: None,
                sections: Vec::new(),
                commits: Default::default(),
                moment: 0,
                clock: 0,
                earliest: 0,
                runs: None,
            }
        };
        let shared = Coordination::private().unwrap();
        let file = FileId {
            device: 0,
            inode: 0,
        };
        shared.begin(&[0; 16], file, BufferSizes::default(), (1, 1));
        Self {
            shared,
            generations: (1..=3)
                .map(|number| Arc::new(Generation::new(Buffer::small(number))))
                .collect(),
            removed: AtomicU64::new(0),
            superblocks: (1..=2).map(superblock).collect(),
            files,
            newest: AtomicU64::new(1),
            inserted: AtomicBool::new(false),
        }
    }

    fn generation(&self, number: u64) -> &Arc<Generation> {
        &self.generations[number as usize - 1]
    }

    fn insert(&self, generation: u64, key: u64) {
        self.generation(generation).buffer.put(key, COMMITTED);
    }

    /// Runs the checkpoint of generation 1, in the engine's order.
    fn checkpoint(&self) {
        if let Some(file) = self.files.last() {
            self.shared.window().publish(file.numbers(0..1));
            file.write(0..1);
            self.shared.window().publish(0..0);
        }
        self.newest.store(2, Ordering::Relaxed);
        self.shared.set_checkpointed(2);
        self.removed.store(1 << 1, Ordering::Relaxed);
    }

    fn attach(&self, number: u64) -> Result<Arc<Generation>> {
        if self.removed.load(Ordering::Relaxed) & (1 << number) != 0 {
            return Err(Error::Closed);
        }
        Ok(Arc::clone(self.generation(number)))
    }

    fn map(&self, superblock: &Superblock, held: &[Arc<LayerPages>]) -> Vec<Arc<LayerPages>> {
        let layers = superblock.layers.iter().enumerate();
        let mapped = layers.map(|(index, layer)| {
            let pages = match held.get(index) {
                Some(pages) => Arc::clone(pages),
                None => Arc::new(self.files[index].pages()),
            };
            pages.update(layer);
            pages
        });
        mapped.collect()
    }
}

/// A handle, with the view it has had since generation 1 was the first.
struct Reader<'a> {
    store: &'a Store,
    view: RefCell<Arc<View>>,
}

impl<'a> Reader<'a> {
    fn of(store: &'a Store) -> Self {
        let superblock = store.superblocks[0].clone();
        let view = View {
            active: Arc::clone(store.generation(1)),
            sealed: None,
            filter: Filter::Bloom(store.map(&superblock, &[])),
            sections: SectionSet::default(),
            lease: None,
            superblock,
            clock: None,
        };
        Self {
            store,
            view: RefCell::new(Arc::new(view)),
        }
    }

    /// Returns the current view, renewed if necessary.
    fn view(&self) -> Result<Box<Arc<View>>> {
        let store = self.store;
        loop {
            let old = Arc::clone(&self.view.borrow());
            if old.is_current(&store.shared) {
                return Ok(Box::new(old));
            }
            let turn = Turn::of(&store.shared);
            let newest = store.newest.load(Ordering::Relaxed);
            let superblock = store.superblocks[newest as usize - 1].clone();
            let find = |number| store.attach(number);
            let map = |superblock: &Superblock| {
                Ok(Mapped {
                    filter: Filter::Bloom(store.map(superblock, old.filter.layers())),
                    sections: SectionSet::default(),
                })
            };
            if let Ok(Some(view)) = old.next(turn, superblock, find, map) {
                *self.view.borrow_mut() = Arc::new(view);
            } else {
                yield_now();
            }
        }
    }

    fn contains(&self, key: u64) -> bool {
        let shared = &self.store.shared;
        let probe = |view: &View| match view.sealed_says(key, 0) {
            Some(found) => Ok(Probe::of(found)),
            None => view
                .filter
                .probe((key, 0), shared.window(), &|_, _, fault| panic!("{fault}")),
        };
        // Nothing is removed here, and layers never become stale.
        let there = |presence| (presence != Presence::Absent).then_some(true);
        match look_up(key, shared, |_| self.view(), |_| (), there, probe).unwrap() {
            Found::Present => true,
            Found::Absent(_) => false,
            other => panic!("{other:?}"),
        }
    }
}

/// Checks that everything certain to be present is found.
fn look(reader: &Reader) {
    let inserted = reader.store.inserted.load(Ordering::Acquire);
    assert!(reader.contains(KEY), "a key that was there is not");
    if inserted {
        assert!(reader.contains(NEW), "a key that was inserted is not there");
    }
}

/// Seals a generation with a key that waits for its checkpoint.
fn freeze(store: &Store) {
    store.insert(1, KEY);
    store.shared.set_active(2);
}

/// Checks a reader on another thread, which has seen only generation 1, against `writer`.
fn beside_a_reader(
    preemptions: usize,
    settles: Settles,
    prepare: fn(&Store),
    writer: fn(&Store),
    look: fn(&Reader),
) {
    explore(preemptions, move || {
        let store = Store::new(settles);
        prepare(&store);
        let store = Arc::new(store);
        let reader = {
            let store = Arc::clone(&store);
            thread::spawn(move || look(&Reader::of(&store)))
        };
        writer(&store);
        reader.join().unwrap();
    });
}

/// An open transaction's key moves from the old buffer into the next; then the transaction ends in the old one.
#[test]
fn a_key_that_is_carried_over_is_never_absent() {
    let open = |store: &Store| {
        for number in [1, 2] {
            let buffer = &store.generation(number).buffer;
            let state = buffer.begin_transaction(HANDLE).unwrap();
            if number == 1 {
                buffer.put(KEY, state);
            }
        }
    };
    let rotate = |store: &Store| {
        let [old, next] = [1, 2].map(|number| &store.generation(number).buffer);
        let state_in = |buffer: &Buffer| buffer.open_transactions().next().unwrap().0;
        next.put(KEY, state_in(next));
        store.shared.set_active(2);
        old.abort_transaction(state_in(old));
        next.commit_transaction(state_in(next));
        store.inserted.store(true, Ordering::Release);
    };
    beside_a_reader(8, Settles::Nowhere, open, rotate, |reader| {
        assert!(reader.contains(KEY), "a key that is carried over is lost");
    });
}

#[test]
fn a_key_inserted_after_a_rotation_is_found_through_the_old_view() {
    let prepare = |store: &Store| store.insert(1, KEY);
    let writer = |store: &Store| {
        store.shared.set_active(2);
        store.insert(2, NEW);
        store.inserted.store(true, Ordering::Release);
    };
    beside_a_reader(8, Settles::Nowhere, prepare, writer, look);
}

#[test]
fn a_key_that_is_settled_is_found_in_the_buffer_or_in_the_page() {
    beside_a_reader(5, Settles::IntoThePage, freeze, Store::checkpoint, look);
}

#[test]
fn a_key_that_is_settled_is_found_in_the_buffer_or_in_the_first_page() {
    beside_a_reader(5, Settles::IntoABlankPage, freeze, Store::checkpoint, look);
}

#[test]
fn a_key_that_is_settled_is_found_in_the_layer_that_was_made_for_it() {
    beside_a_reader(5, Settles::IntoANewLayer, freeze, Store::checkpoint, look);
}

#[test]
fn a_key_of_the_first_layer_is_found_while_another_is_made() {
    let prepare = |store: &Store| store.shared.set_active(2);
    let look = |reader: &Reader| {
        assert!(reader.contains(OLD), "a key of the first layer is lost");
    };
    beside_a_reader(5, Settles::IntoANewLayer, prepare, Store::checkpoint, look);
}

/// Rotation, insert, checkpoint and the next rotation all happen while a reader still has the first view.
#[test]
fn a_reader_that_slept_through_it_all_finds_all() {
    let prepare = |store: &Store| store.insert(1, KEY);
    let writer = |store: &Store| {
        store.shared.set_active(2);
        store.insert(2, NEW);
        store.inserted.store(true, Ordering::Release);
        store.checkpoint();
        store.shared.set_active(3);
    };
    beside_a_reader(3, Settles::IntoANewLayer, prepare, writer, look);
}

/// The same with the checkpoint on its own thread.
#[test]
fn so_does_one_beside_a_checkpoint_and_a_writer() {
    explore(3, || {
        let store = Store::new(Settles::IntoThePage);
        store.insert(1, KEY);
        let store = Arc::new(store);
        let beside = |other: fn(&Store)| {
            let store = Arc::clone(&store);
            thread::spawn(move || other(&store))
        };
        let reader = beside(|store| look(&Reader::of(store)));
        store.shared.set_active(2);
        let checkpoint = beside(Store::checkpoint);
        store.insert(2, NEW);
        store.inserted.store(true, Ordering::Release);
        checkpoint.join().unwrap();
        reader.join().unwrap();
    });
}
