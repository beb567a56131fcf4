//! A worker: opens the store, makes its keys, waits for the start, inserts them, tells how it went.

use std::error::Error;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

use everseen::testing::Options;
use everseen::{Result, Store};
use everseen_benches::keys::{hash, shuffle, url};
use everseen_benches::worker::{tell, wait_for_start};

use super::{Keys, Scenario};

/// Keys of the warm-up begin here.
const WARM: u64 = 1 << 40;

/// What a worker is to do.
#[derive(Clone, Debug)]
pub struct Task {
    keys: Keys,
    batch: u64,
    /// Numbers of its keys.
    first: u64,
    count: u64,
    /// What tells the order of its keys, and its warm-up.
    index: u64,
    buffer: u64,
    /// Checkpoints come in between, or else none does.
    checkpoints: bool,
    path: PathBuf,
}

impl Task {
    /// The task of worker `index` when all of them together insert this many keys.
    pub fn new(
        scenario: &Scenario,
        (keys, checkpoints): (u64, bool),
        index: u64,
        path: &Path,
    ) -> Self {
        let count = if scenario.same {
            keys
        } else {
            keys / scenario.processes
        };
        Self {
            keys: scenario.keys,
            batch: scenario.batch,
            first: if scenario.same { 0 } else { index * count },
            count,
            index,
            buffer: if checkpoints {
                Self::scant(keys)
            } else {
                Self::ample(keys)
            },
            checkpoints,
            path: path.to_owned(),
        }
    }

    /// The task of a worker that has the store open and does nothing.
    pub fn idle(keys: u64, index: u64, path: &Path) -> Self {
        Self {
            keys: Keys::Hashes,
            batch: 1,
            first: 0,
            count: 0,
            index,
            buffer: Self::ample(keys),
            checkpoints: false,
            path: path.to_owned(),
        }
    }

    /// Two tables, each of which a third of the keys fills: a checkpoint begins early enough to end before they do.
    fn scant(keys: u64) -> u64 {
        keys * 8
    }

    /// Two tables of sixteen bytes a key, twice as large as the keys need.
    fn ample(keys: u64) -> u64 {
        keys * 64 + (16 << 20)
    }

    pub fn run(&self) -> std::result::Result<(), Box<dyn Error>> {
        let store = Options::new().buffer(self.buffer).open(&self.path)?;
        let mut numbers: Vec<u64> = (self.first..self.first + self.count).collect();
        shuffle(&mut numbers, self.index + 1);
        let batch = self.batch as usize;
        let hashes: Vec<u64> = numbers.iter().map(|number| hash(*number)).collect();
        let urls: Vec<String> = match self.keys {
            Keys::Urls => numbers.iter().map(|number| url(*number)).collect(),
            Keys::Hashes => Vec::new(),
        };
        // So that each page of the table has been touched.
        let warm = WARM * (self.index + 1);
        let warm: Vec<u64> = (warm..warm + self.count / 8).map(hash).collect();
        store.insert_batch(&warm)?;
        let before = store.stats()?;
        wait_for_start()?;
        let begun = now();
        let new = match self.keys {
            Keys::Urls if batch == 1 => each(&urls, |key| store.insert(key.as_bytes())),
            Keys::Urls => batches(&urls, batch, |keys| Ok(store.insert_batch(keys)?)),
            Keys::Hashes if batch == 1 => each(&hashes, |key| store.insert(*key)),
            Keys::Hashes => batches(&hashes, batch, |keys| Ok(store.insert_batch(keys)?)),
        }?;
        let ended = now();
        let after = store.stats()?;
        match (after.generation != before.generation, self.checkpoints) {
            (true, false) => return Err("a checkpoint came in between".into()),
            (false, true) => return Err("no checkpoint came in between".into()),
            (true, true) | (false, false) => {}
        }
        let waited = (after.lock_waited - before.lock_waited).as_nanos();
        let taken = after.lock_taken - before.lock_taken;
        let judged = self.count;
        tell(&format!("{begun} {ended} {judged} {new} {taken} {waited}"))?;
        linger(store)
    }
}

/// Waits to be killed: closing would empty the buffer into the pages.
fn linger(_store: Store) -> ! {
    loop {
        std::thread::park();
    }
}

fn each<K>(keys: &[K], insert: impl Fn(&K) -> Result<bool>) -> Result<u64> {
    let mut new = 0;
    for key in keys {
        new += u64::from(insert(key)?);
    }
    Ok(new)
}

fn batches<K>(keys: &[K], batch: usize, insert: impl Fn(&[K]) -> Result<Vec<bool>>) -> Result<u64> {
    let mut new = 0;
    for keys in keys.chunks(batch) {
        let answers = insert(keys)?;
        new += answers.into_iter().map(u64::from).sum::<u64>();
    }
    Ok(new)
}

/// Nanoseconds on the one clock that all processes have in common.
fn now() -> u128 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos())
}

impl fmt::Display for Task {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys = u8::from(self.keys == Keys::Hashes);
        let (batch, first, count) = (self.batch, self.first, self.count);
        let (index, buffer, path) = (self.index, self.buffer, self.path.display());
        let checkpoints = u8::from(self.checkpoints);
        write!(
            out,
            "{keys},{batch},{first},{count},{index},{buffer},{checkpoints},{path}"
        )
    }
}

impl FromStr for Task {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let parts: Vec<&str> = text.splitn(8, ',').collect();
        let number = |place: usize| {
            let part = parts.get(place).and_then(|part| part.parse::<u64>().ok());
            part.ok_or_else(|| format!("no task: {text}"))
        };
        Ok(Self {
            keys: if number(0)? == 1 {
                Keys::Hashes
            } else {
                Keys::Urls
            },
            batch: number(1)?,
            first: number(2)?,
            count: number(3)?,
            index: number(4)?,
            buffer: number(5)?,
            checkpoints: number(6)? == 1,
            path: parts.get(7).map(PathBuf::from).unwrap_or_default(),
        })
    }
}
