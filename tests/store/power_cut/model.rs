//! What was promised, and so what a store may hold after a crash.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::ages::{Ages, Came};
use crate::support::recorded::{Promises, Remark, disk, tape};

/// A set of key numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Keys(Vec<u64>);

impl Keys {
    pub fn insert(&mut self, number: u32) {
        let word = number as usize / 64;
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= 1 << (number % 64);
    }

    pub fn remove(&mut self, number: u32) {
        if let Some(word) = self.0.get_mut(number as usize / 64) {
            *word &= !(1 << (number % 64));
        }
    }

    pub fn contains(&self, number: u32) -> bool {
        let word = self.0.get(number as usize / 64);
        word.is_some_and(|word| word & (1 << (number % 64)) != 0)
    }

    pub fn count(&self) -> u64 {
        self.0.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// One past the highest number.
    pub fn end(&self) -> u32 {
        let highest = self.0.iter().rposition(|word| *word != 0);
        highest.map_or(0, |place| {
            place as u32 * 64 + 64 - self.0[place].leading_zeros()
        })
    }

    /// The numbers that are in `self` and in `other`, or in `self` and not in `other`.
    fn and(&self, other: &Keys, wanted: bool) -> Keys {
        let words = self.0.iter().enumerate().map(|(place, word)| {
            let theirs = other.0.get(place).copied().unwrap_or(0);
            word & if wanted { theirs } else { !theirs }
        });
        Keys(words.collect())
    }

    fn insert_all(&mut self, other: &Keys) {
        let words = self.0.len().max(other.0.len());
        self.0.resize(words, 0);
        for (word, theirs) in self.0.iter_mut().zip(&other.0) {
            *word |= theirs;
        }
    }

    /// A number in `self` that is not in `other`.
    fn beyond(&self, other: &Keys) -> Option<u32> {
        self.0.iter().zip(0..).find_map(|(word, place)| {
            let extra = word & !other.0.get(place).copied().unwrap_or(0);
            (extra != 0).then(|| place as u32 * 64 + extra.trailing_zeros())
        })
    }
}

/// Each writer's last commit: its sequence and tag, by name.
pub type Commits = BTreeMap<String, (u64, Vec<u8>)>;

/// What a store holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Contents {
    pub keys: Keys,
    pub commits: Commits,
    /// When its keys came, in a store that forgets; in one that is not transactional, only as a store is found.
    pub came: Came,
}

/// What the user of a store did, as it stands in the journal between the events of the disk.
#[derive(Debug, Clone)]
pub enum Mark {
    CreateBegun,
    Created,
    /// These are about to be inserted.
    Insert(Arc<[u32]>),
    /// It is this step from now on, in a store that forgets.
    Passed(u64),
    /// `insert` has returned.
    Inserted(Arc<[u32]>),
    /// These are about to be removed.
    Remove(Arc<[u32]>),
    /// `remove` has returned.
    Removed(Arc<[u32]>),
    CommitBegun {
        writer: &'static str,
        sequence: u64,
        tag: Arc<[u8]>,
    },
    Committed,
    /// `checkpoint` or `close` has returned.
    Settled,
    /// The store was opened, and this is what it held.
    Opened(Arc<Contents>),
    /// Another handle goes on after one whose sync failed, finds this, and commits it.
    Resumed {
        found: Arc<Contents>,
        writer: &'static str,
        sequence: u64,
    },
}

impl Remark for Mark {
    fn describe(&self) -> String {
        match self {
            Mark::Insert(keys) => format!("-- insert {} keys from {}", keys.len(), keys[0]),
            Mark::Inserted(keys) => format!("-- inserted {} keys", keys.len()),
            Mark::Remove(keys) => format!("-- remove {} keys from {}", keys.len(), keys[0]),
            Mark::Removed(keys) => format!("-- removed {} keys", keys.len()),
            Mark::CommitBegun { sequence, tag, .. } => {
                format!("-- commit {sequence} with {} bytes", tag.len())
            }
            Mark::Resumed { found, .. } => {
                format!("-- another handle goes on with {} keys", found.keys.count())
            }
            Mark::Opened(contents) => format!("-- opened with {} keys", contents.keys.count()),
            other => format!("-- {other:?}"),
        }
    }

    fn committing(&self) -> Option<bool> {
        match self {
            Mark::CommitBegun { .. } => Some(true),
            Mark::Committed => Some(false),
            _ => None,
        }
    }
}

/// The recorded disk, with these remarks on its tape.
pub type Event = disk::Event<Mark>;
pub type Tape = tape::Tape<Mark>;
pub type Recorder = tape::Recorder<Mark>;

/// How far the making of the store has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Birth {
    Unborn,
    Begun,
    Done,
}

/// What a store was through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crash {
    /// The process was killed, or the store closed: what returned is there.
    Kill,
    /// What is durable is there.
    Power,
}

/// The promises of a store that one thread uses.
#[derive(Debug, Clone)]
pub struct Model {
    pub transactional: bool,
    pub birth: Birth,
    /// Keys that were there, or may have been, at any time since the last durable state.
    pub may: Keys,
    /// Keys whose insert has begun, and whose removal has not returned.
    now: Keys,
    pub(super) ages: Ages,
    /// Keys whose insert has returned, and whose removal has not begun.
    pub done: Keys,
    /// Keys of a plain store that power loss may not take, whatever commit it goes back to.
    pub(super) must: Keys,
    /// Keys whose removal has begun since the last commit that has returned: in a plain store that commit does not
    /// say that they are there.
    unsure: Keys,
    /// The state at the last commit that has returned.
    pub last: Arc<Contents>,
    /// The state at a commit that has begun since.
    pub(super) begun: Option<Arc<Contents>>,
    /// The state at a commit before that one, whose sync failed: it may or may not count.
    pub(super) doubtful: Option<Arc<Contents>>,
    /// One past the highest number ever used.
    pub top: u32,
}

impl Promises for Model {
    type Remark = Mark;

    fn take(&mut self, mark: &Mark) {
        match mark {
            Mark::CreateBegun => self.birth = Birth::Begun,
            Mark::Created => self.birth = Birth::Done,
            Mark::Passed(step) => self.pass(*step),
            Mark::Insert(keys) => {
                self.begin_ages(keys);
                for number in keys.iter() {
                    self.may.insert(*number);
                    self.now.insert(*number);
                }
                self.top = self.top.max(self.may.end());
            }
            Mark::Inserted(keys) => {
                keys.iter().for_each(|number| self.done.insert(*number));
                self.end_ages(keys);
            }
            Mark::Remove(keys) => {
                for number in keys.iter() {
                    self.done.remove(*number);
                    self.must.remove(*number);
                    self.unsure.insert(*number);
                }
            }
            Mark::Removed(keys) => keys.iter().for_each(|number| self.now.remove(*number)),
            Mark::CommitBegun {
                writer,
                sequence,
                tag,
            } => {
                let mut commits = self.last.commits.clone();
                commits.insert((*writer).to_owned(), (*sequence, tag.to_vec()));
                let (keys, came) = (self.done.clone(), self.ages_of_commit());
                self.begun = Some(Arc::new(Contents {
                    keys,
                    commits,
                    came,
                }));
            }
            Mark::Resumed {
                found,
                writer,
                sequence,
            } => {
                // What the failed handle has removed may be back.
                let back = self.may.and(&self.unsure, true);
                // Nothing is synced yet, so what is found may be older again, too.
                let there = &found.keys;
                let may_be = |number| back.contains(number) || there.contains(number);
                self.take_ages(found, may_be);
                self.may = found.keys.clone();
                self.may.insert_all(&back);
                self.now = found.keys.clone();
                self.done = found.keys.clone();
                let keys = found.keys.clone();
                let mut commits = found.commits.clone();
                commits.insert((*writer).to_owned(), (*sequence, Vec::new()));
                self.doubtful = self.begun.take();
                let came = found.came.clone();
                self.begun = Some(Arc::new(Contents {
                    keys,
                    commits,
                    came,
                }));
            }
            Mark::Committed => {
                self.doubtful = None;
                if let Some(begun) = self.begun.take() {
                    self.must = begun.keys.clone();
                    self.last = begun;
                }
                self.may = self.now.clone();
                self.unsure = Keys::default();
                self.settle_ages();
            }
            Mark::Settled => {
                if !self.transactional {
                    self.settle_ages();
                }
                self.must = self.done.clone();
                self.may = self.now.clone();
            }
            Mark::Opened(contents) => {
                self.birth = Birth::Done;
                self.take_ages(contents, |_| false);
                self.unsure = Keys::default();
                self.may = contents.keys.clone();
                self.now = contents.keys.clone();
                self.done = contents.keys.clone();
                self.must = contents.keys.clone();
                self.last = Arc::clone(contents);
                self.begun = None;
                self.doubtful = None;
            }
        }
    }
}

impl Model {
    pub fn new(transactional: bool) -> Self {
        Self {
            transactional,
            birth: Birth::Unborn,
            may: Keys::default(),
            now: Keys::default(),
            ages: Ages::default(),
            done: Keys::default(),
            must: Keys::default(),
            unsure: Keys::default(),
            last: Arc::default(),
            begun: None,
            doubtful: None,
            top: 0,
        }
    }

    /// Whatever says which keys are there or may be, but the states of commits and what power loss may not take.
    pub(super) fn all_keys(&mut self) -> impl Iterator<Item = &mut Keys> {
        [&mut self.may, &mut self.now, &mut self.done].into_iter()
    }

    /// The sequence that the next commit has.
    pub fn next_sequence(&self) -> u64 {
        let highest = self.last.commits.values().map(|(sequence, _)| *sequence);
        highest.max().unwrap_or(0) + 1
    }

    /// Whether a store may hold this.
    pub fn check(&self, got: &Contents, crash: Crash) -> Result<(), String> {
        let doubtful = self.doubtful.as_ref();
        let allowed = [Some(&self.last), self.begun.as_ref(), doubtful];
        let named = allowed
            .into_iter()
            .flatten()
            .find(|state| state.commits == got.commits);
        let Some(named) = named else {
            let sequences = |commits: &Commits| {
                let mut text = String::new();
                for (name, (sequence, tag)) in commits {
                    text += &format!(" {name}: {sequence} ({} bytes)", tag.len());
                }
                text
            };
            return Err(format!(
                "commits are{}; returned had{}; under way was{}",
                sequences(&got.commits),
                sequences(&self.last.commits),
                self.begun
                    .as_ref()
                    .map_or("none".to_owned(), |begun| sequences(&begun.commits)),
            ));
        };
        self.check_ages(got, named, crash)?;
        let missing = |must: &Keys, why: &str| match must.beyond(&got.keys) {
            Some(number) => Err(format!("key {number} is missing, which {why}")),
            None => Ok(()),
        };
        if self.transactional {
            missing(&named.keys, "the last commit covers")?;
            return match got.keys.beyond(&named.keys) {
                Some(number) => Err(format!("key {number} is there, and was not committed")),
                None => Ok(()),
            };
        }
        let covered = named.keys.and(&self.unsure, false);
        missing(&covered, "the last commit covers")?;
        missing(&self.must, "was durable")?;
        if crash == Crash::Kill {
            missing(&self.done, "was inserted")?;
        }
        let may = match crash {
            Crash::Kill => &self.now,
            Crash::Power => &self.may,
        };
        match got.keys.beyond(may) {
            Some(number) => Err(format!(
                "key {number} is there, and was not inserted, or is removed"
            )),
            None => Ok(()),
        }
    }
}
