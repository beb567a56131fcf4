//! Stores of fingerprints, damaged. The judge is what was known of each key before: damage to the store file never
//! changes an answer without an error, since each page that is named has a CRC and nothing is ever torn. Damage to a log
//! may take what is in it, as in all kinds, and there [`judge`](super::judge) says when; here keys that a log names may
//! be anything once it is damaged.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use everseen::Store;
use everseen::testing::Options;
use tempfile::TempDir;

use super::child::{BEGINS, PEAK, SUM, Task, WRONG, Work};
use super::image::{Image, STORE};
use super::memory::{self, FIXED, bounded};
use super::mutation::{Filling, Mutation};
use super::random::number;
use super::segment_stores::{Known, all};
use super::{image, parent};
use crate::support::files::small;
use crate::support::forge::{SUPERBLOCKS, u32_at, u64_at};
use crate::support::numbers::{Random, finalise, key};
use crate::support::unsynced::Unsynced;

/// Images unless `EVERSEEN_MUTATIONS` says otherwise.
const FEW: u64 = 400;
const PAGE: usize = 4096;
/// Keys that are inserted into what is left, from this number on.
const NEW: Range<u64> = 1 << 50..(1 << 50) + 12;
/// What a checkpoint holds beside the file: a segment, merged, and its draft.
const CHECKPOINT: u64 = 2 << 20;

/// Where in a store file things lie, by FORMAT.md.
struct Parts {
    superblocks: [Range<usize>; 2],
    copies: [Range<usize>; 2],
    /// Pages of segments with their fences.
    extents: Vec<Range<usize>>,
}

impl Parts {
    fn of(store: &[u8]) -> Self {
        let superblocks = SUPERBLOCKS.map(|start| {
            let length = u32_at(store, start + 12).min(57_344) as usize;
            start..start + length
        });
        let newest = SUPERBLOCKS
            .into_iter()
            .max_by_key(|start| u64_at(store, start + 16))
            .unwrap();
        let entry = &store[newest + 320..newest + 384];
        let segments = u64_at(entry, 16) as usize;
        let copies = [0, 8].map(|at| {
            let start = u64_at(entry, at) as usize * PAGE;
            start..start + segments.div_ceil(102) * PAGE
        });
        let extents = (0..segments).map(|index| {
            let entry = copies[0].start + index / 102 * PAGE + 16 + index % 102 * 40;
            let pages = u32_at(store, entry + 32) as usize;
            let first = u64_at(store, entry + 8) as usize;
            first * PAGE..(first + pages + pages.div_ceil(510)) * PAGE
        });
        Self {
            superblocks,
            extents: extents.collect(),
            copies,
        }
    }

    /// A part that means something.
    fn draw(&self, random: &mut Random) -> Range<usize> {
        let one = |random: &mut Random, two: &[Range<usize>; 2]| {
            let which = random.below(2) as usize;
            two[which].clone()
        };
        match random.below(8) {
            0 => 0..256,
            1 => 4096..4104,
            2 | 3 => one(random, &self.superblocks),
            4 | 5 => one(random, &self.copies),
            _ => {
                let which = random.below(self.extents.len() as u64) as usize;
                self.extents[which].clone()
            }
        }
    }

    /// Whether there are two of what lies here, so that one alone may be damaged without harm.
    fn are_twice(&self, place: usize) -> bool {
        let within = |range: &Range<usize>| range.contains(&place);
        self.superblocks.iter().any(within) || self.copies.iter().any(within)
    }
}

/// What image number `number` of a seed gets, and of which store it is.
fn plan(images: &[Image], seed: u64, number: u64) -> (usize, Vec<Mutation>) {
    let mut random = Random::new(finalise(seed).wrapping_add(finalise(number)));
    let which = random.below(images.len() as u64) as usize;
    let mut image = images[which].clone();
    if random.below(2) == 0 {
        let part = Parts::of(image.store()).draw(&mut random);
        let offset = part.start + random.below(part.len().max(1) as u64) as usize;
        let file = STORE.to_owned();
        let mutation = match random.below(3) {
            0 => Mutation::Fill {
                file,
                offset,
                length: 1 + random.below((part.end.max(offset + 1) - offset) as u64) as usize,
                with: Filling::Noise(random.next()),
            },
            _ => Mutation::Flip {
                file,
                offset,
                mask: 1 << random.below(8),
            },
        };
        return (which, vec![mutation]);
    }
    let most = 1 + random.below(4);
    let count = 1 + random.below(most);
    let mutations = (0..count).map(|_| {
        let mutation = Mutation::draw(&mut random, &image, images);
        mutation.apply(&mut image, images);
        mutation
    });
    (which, mutations.collect())
}

/// What may be said of keys.
struct Trial {
    /// Whether each key is there; `None` if nobody can tell.
    truth: BTreeMap<u64, Option<bool>>,
    /// Whether an error is an answer.
    may_fail: bool,
    errors: u64,
}

impl Trial {
    fn fails<T>(&mut self, outcome: everseen::Result<T>, what: &str) -> Result<Option<T>, String> {
        match outcome {
            Ok(value) => Ok(Some(value)),
            Err(error) if !self.may_fail => Err(format!("{what}: {error:?}")),
            Err(_) => {
                self.errors += 1;
                Ok(None)
            }
        }
    }

    fn ask(&mut self, store: &Store, when: &str) -> Result<(), String> {
        let keys: Vec<u64> = self.truth.keys().copied().collect();
        let together = self.fails(store.contains_batch(&keys), when)?;
        for (index, raw) in keys.iter().enumerate() {
            let alone = self.fails(store.contains(*raw), when)?;
            let both = [alone, together.as_ref().map(|found| found[index])];
            for got in both.into_iter().flatten() {
                if self.truth[raw].is_some_and(|expected| expected != got) {
                    let expected = !got;
                    return Err(format!("{when}, key {raw:x}: {got}, expected {expected}"));
                }
            }
        }
        Ok(())
    }

    fn change(&mut self, store: &Store, raw: u64, insert: bool) -> Result<(), String> {
        let outcome = match insert {
            true => store.insert(raw),
            false => store.remove(raw),
        };
        let outcome = self.fails(outcome, "a change")?;
        let truth = self.truth.entry(raw).or_insert(Some(false));
        if let (Some(changed), Some(there)) = (outcome, *truth)
            && changed == (there == insert)
        {
            return Err(format!("key {raw:x}, insert {insert}: {changed}"));
        }
        *truth = outcome.map(|_| insert);
        Ok(())
    }

    /// Opens for reading, then for writing, changes some keys, and reads them once more.
    fn run(&mut self, options: &Options, path: &Path) -> Result<(), String> {
        if let Some(store) = self.fails(options.open_read_only(path), "opening to read")? {
            self.ask(&store, "at first")?;
            let _ = store.verify();
            let _ = store.stats();
        }
        if let Some(store) = self.fails(options.open(path), "opening")? {
            self.ask(&store, "opened")?;
            let keys: Vec<u64> = self.truth.keys().copied().step_by(7).collect();
            let changes = keys.into_iter().chain(NEW.map(key)).zip(0..);
            let changes: Vec<(u64, bool)> =
                changes.map(|(raw, turn)| (raw, turn % 3 > 0)).collect();
            for (raw, insert) in &changes {
                self.change(&store, *raw, *insert)?;
            }
            let committed = self.fails(store.commit(), "a commit")?;
            if committed.is_none() {
                for (raw, _) in &changes {
                    self.truth.insert(*raw, None);
                }
            }
            self.ask(&store, "after changes")?;
            let _ = store.verify();
            self.fails(store.checkpoint(), "a checkpoint")?;
            self.ask(&store, "after a checkpoint")?;
            self.fails(store.close(), "closing")?;
        }
        if let Some(store) = self.fails(options.open_read_only(path), "opening at last")? {
            self.ask(&store, "at last")?;
        }
        Ok(())
    }
}

/// Whether damage like this is mended by what lies there twice.
fn is_harmless(known: &Known, mutations: &[Mutation]) -> bool {
    let [Mutation::Flip { file, offset, .. }] = mutations else {
        return false;
    };
    known.closed && file == STORE && Parts::of(known.image.store()).are_twice(*offset)
}

/// Tries a damaged image. Answers how many errors there were.
fn try_image(
    known: &Known,
    image: &Image,
    mutations: &[Mutation],
    exclusive: bool,
) -> Result<u64, String> {
    let folder = TempDir::new_in("/dev/shm").or_else(|_| TempDir::new());
    let folder = folder.unwrap();
    image.write(folder.path()).unwrap();
    let replaced = mutations.iter().any(Mutation::replaces_store);
    let hit: BTreeSet<&str> = mutations.iter().map(Mutation::file).collect();
    let is_log_hit = hit.iter().any(|file| *file != STORE);
    let truth = known.truth.iter().map(|(raw, there)| {
        let unknown = replaced || (is_log_hit && known.logged.contains(raw));
        (*raw, (!unknown).then_some(*there))
    });
    let mut trial = Trial {
        truth: truth.collect(),
        may_fail: !is_harmless(known, mutations),
        errors: 0,
    };
    if replaced {
        // Other keys may be there than any that are known.
        NEW.for_each(|number| _ = trial.truth.insert(key(number), None));
    }
    let options = small().exclusive(exclusive).storage(Unsynced::new());
    let path = folder.path().join(STORE);
    let bound = image.bytes() + everseen::testing::LEAST_BUFFER + FIXED + CHECKPOINT;
    let run = || catch_unwind(AssertUnwindSafe(|| trial.run(&options, &path)));
    bounded(bound, run).unwrap_or_else(|_| Err("panicked".to_owned()))?;
    image::clear(folder.path());
    Ok(trial.errors)
}

/// A child's share.
pub fn work(task: &Task) {
    let stores = all();
    let images: Vec<_> = stores.iter().map(|one| one.image.clone()).collect();
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for number in (task.first..task.end).step_by(task.step as usize) {
        println!("{BEGINS}{number}");
        let (which, mutations) = plan(&images, task.seed, number);
        let known = &stores[which];
        let mut image = known.image.clone();
        for mutation in &mutations {
            mutation.apply(&mut image, &images);
        }
        let errors = match try_image(known, &image, &mutations, number % 4 < 2) {
            Ok(errors) => errors,
            Err(wrong) => {
                println!("{WRONG}{number} {}: {mutations:?}: {wrong}", known.name);
                return;
            }
        };
        let mut count = |what: String| *sums.entry(what).or_default() += 1;
        count("images".to_owned());
        count(format!("images of {}", known.name));
        match errors {
            0 => count("images without an error".to_owned()),
            _ => count("images with errors".to_owned()),
        }
        if is_harmless(known, &mutations) {
            count("images of which one of two copies was hit".to_owned());
        }
    }
    println!("{PEAK}{}", memory::peak());
    for (what, count) in sums {
        println!("{SUM}{count} {what}");
    }
}

#[test]
fn damaged_segments_answer_right_or_with_an_error() {
    let seed = number("EVERSEEN_SEED").unwrap_or(1);
    let images = number("EVERSEEN_MUTATIONS").unwrap_or(FEW);
    let (first, end) = match number("EVERSEEN_MUTATION") {
        Some(one) => (one, one + 1),
        None => (0, images),
    };
    println!("EVERSEEN_SEED={seed} EVERSEEN_MUTATIONS={images}");
    parent::share(Task {
        work: Work::Segments,
        seed,
        first,
        end,
        step: 1,
    });
}
