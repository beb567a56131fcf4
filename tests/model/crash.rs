//! Kills and power cuts.

use super::setting::{GENERATIONS, KEYS, Setting};
use super::state::{DEAD_OWNER, State, StoreFile};
use super::thread::{Settler, Thread};

impl State {
    /// A process ends between any two steps: its locks of the system are free, and what it did stays. So does the word
    /// of the writer lock, until another takes the lock over.
    pub fn kill(&mut self, setting: &Setting, handle: usize) {
        let number = self.handles[handle].number;
        let keys = self.promises.claimed_by(number);
        self.promises.release(number);
        self.promises.killed = true;
        self.forget_claims(setting, keys);
        self.handles[handle] = Thread {
            number,
            ..Thread::default()
        };
        if self.writer == handle as u8 + 1 {
            self.writer = DEAD_OWNER;
        }
        if self.gate == handle as u8 + 1 {
            self.gate = 0;
        }
        if self.settler.owner == handle as u8 + 1 {
            self.settler = Settler::default();
        }
        if self.alive().next().is_none() {
            self.clear_memory();
        }
    }

    /// What a power cut may leave: of each thing that was not synced, the old or the new.
    pub fn power_cuts(&self) -> Vec<Self> {
        let mut base = self.clone();
        base.clear_memory();
        base.promises.returned = base.promises.promised;
        base.promises.claims = [0; KEYS];
        base.promises.killed = true;
        let mut all: Vec<Self> = self
            .remaining_files()
            .into_iter()
            .map(|file| Self {
                file,
                durable: file,
                ..base.clone()
            })
            .collect();
        for generation in 1..=GENERATIONS as u8 {
            let remains = self.log(generation).remains();
            let with = |state: &Self| {
                let each = remains.iter().map(|log| {
                    let mut state = state.clone();
                    *state.log_mut(generation) = *log;
                    state
                });
                each.collect::<Vec<_>>()
            };
            all = all.iter().flat_map(with).collect();
        }
        all
    }

    /// The store file after a power cut. Superblocks and intents are written alternately to two
    /// places, so that a torn one leaves the one before. Pages are written in any order, and may
    /// be torn.
    fn remaining_files(&self) -> Vec<StoreFile> {
        let (old, new) = (self.durable, self.file);
        let mut all = vec![old];
        let mut either = |differs: bool, change: &dyn Fn(&mut StoreFile)| {
            if differs {
                for at in 0..all.len() {
                    let mut file = all[at];
                    change(&mut file);
                    all.push(file);
                }
            }
        };
        let superblock = |file: &StoreFile| (file.generation, file.log_expected);
        either(superblock(&old) != superblock(&new), &|file| {
            file.generation = new.generation;
            file.log_expected = new.log_expected;
        });
        either(old.intent != new.intent, &|file| file.intent = new.intent);
        for layer in 0..new.pages.len() {
            let bit = 1 << layer;
            let unsynced = new.pages[layer] & !old.pages[layer];
            for key in (0..KEYS).filter(|key| unsynced & 1 << key != 0) {
                either(true, &|file| file.pages[layer] |= 1 << key);
            }
            either((old.torn ^ new.torn) & bit != 0, &|file| file.torn ^= bit);
            either(unsynced != 0 && old.torn & bit == 0, &|file| {
                file.torn |= bit;
            });
        }
        all
    }
}
