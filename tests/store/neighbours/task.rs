//! What a child is to do, and what it tells.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use everseen::Kind;
use everseen::testing::{LEAST_BUFFER, Options};

/// Where a child finds its task.
pub const VARIABLE: &str = "EVERSEEN_NEIGHBOUR_TASK";

const DAY: Duration = Duration::from_secs(86_400);

/// The store's name in its folder, and another that a neighbour may give it.
pub const NAME: &str = "store";
pub const ALIAS: &str = "alias";

/// By which path a worker opens the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Direct,
    /// By a symbolic link in another folder.
    Link,
    /// By a relative path, and then into another folder.
    Relative,
    /// By the name that a neighbour may have given it, if there is one.
    Alias,
}

const WAYS: [Way; 4] = [Way::Direct, Way::Link, Way::Relative, Way::Alias];

/// Keys below this are everybody's; the others are each worker's own.
pub const SHARED: u64 = 1500;
const OWN: u64 = 1_000_000;

#[derive(Debug, Clone)]
pub struct Task {
    pub kind: Kind,
    pub transactional: bool,
    /// In a day: later than any round takes.
    pub forgets: bool,
    pub background: bool,
    pub exclusive: bool,
    /// Makes a store where there is none.
    pub creates: bool,
    /// Only reads and verifies.
    pub reads: bool,
    pub way: Way,
    /// Which run it is: its keys and its writer's name.
    pub run: u64,
    pub seed: u64,
    pub steps: u64,
    pub root: PathBuf,
}

impl Task {
    pub fn encode(&self) -> String {
        let way = WAYS.iter().position(|way| *way == self.way).unwrap();
        let Self {
            kind,
            transactional,
            forgets,
            background,
            exclusive,
            creates,
            reads,
            run,
            seed,
            steps,
            root,
            ..
        } = self;
        let root = root.to_str().unwrap();
        format!(
            "{kind} {transactional} {forgets} {background} {exclusive} {creates} {reads} {way} {run} {seed} {steps} {root}"
        )
    }

    pub fn decode(text: &str) -> Self {
        let mut fields = text.splitn(12, ' ');
        let mut next = || fields.next().unwrap();
        let kind = next().parse().unwrap();
        let [
            transactional,
            forgets,
            background,
            exclusive,
            creates,
            reads,
        ] = std::array::from_fn(|_| next().parse().unwrap());
        let [way, run, seed, steps] = std::array::from_fn(|_| next().parse::<u64>().unwrap());
        Self {
            kind,
            transactional,
            forgets,
            background,
            exclusive,
            creates,
            reads,
            way: WAYS[way as usize],
            run,
            seed,
            steps,
            root: next().into(),
        }
    }

    /// The rate is so low that no false positive is to be expected.
    pub fn options(&self) -> Options {
        let capacity = match self.kind {
            Kind::Scalable => 1000,
            _ => 40_000,
        };
        let options = Options::new()
            .kind(self.kind)
            .capacity(capacity)
            .fpr(1e-9)
            .measured(false)
            // Several segments, merged in several steps.
            .segment_pages(2)
            .step_segments(2)
            .least_run(if self.transactional { 16 } else { 8192 })
            .least_at_once(if self.transactional { 1 } else { 32_768 })
            .transactional(self.transactional)
            .background(self.background)
            .exclusive(self.exclusive)
            .buffer(LEAST_BUFFER)
            .writer(&format!("w{}", self.run))
            .timeout(Duration::from_secs(4));
        match self.forgets {
            true => options.forget_after(DAY),
            false => options,
        }
    }

    pub fn own_key(&self, number: u64) -> u64 {
        (1 + self.run) * OWN + number
    }
}

/// The bytes of a key.
pub fn key(number: u64) -> [u8; 8] {
    crate::support::numbers::key(number).to_le_bytes()
}

/// The time, as all processes here see it.
pub fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    since.as_nanos() as u64
}

/// Which file it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id(pub u64, pub u64);

impl Id {
    /// What is at the end of all links.
    pub fn of(path: &Path) -> Option<Self> {
        let found = std::fs::metadata(path).ok()?;
        Some(Self(found.dev(), found.ino()))
    }

    /// What has this very name.
    pub fn at(path: &Path) -> Option<Self> {
        let found = std::fs::symlink_metadata(path).ok()?;
        Some(Self(found.dev(), found.ino()))
    }
}

/// A call that a worker makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Call {
    Open,
    Insert,
    Remove,
    Commit,
    Checkpoint,
    Close,
    /// The handle is dropped after an error.
    Drop,
    Look,
    Verify,
}

const CALLS: [(Call, &str); 9] = [
    (Call::Open, "open"),
    (Call::Insert, "insert"),
    (Call::Remove, "remove"),
    (Call::Commit, "commit"),
    (Call::Checkpoint, "checkpoint"),
    (Call::Close, "close"),
    (Call::Drop, "drop"),
    (Call::Look, "look"),
    (Call::Verify, "verify"),
];

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    Begins(Call),
    Done(Call),
    Failed(Call, String),
    /// An open has succeeded: which file it is, if that is certain, and its name in the end.
    Opened(Option<Id>, String),
    /// Keys that were new, and keys that were there.
    Answer(Vec<u64>, Vec<u64>),
    /// Keys that are about to be removed.
    Removes(Vec<u64>),
    /// A key that this handle had removed is there.
    Back(u64),
    /// A key that this handle had acknowledged is not there.
    Gone(u64),
    /// What a reader's verify found.
    Damaged(String),
    /// It has ended well.
    End,
}

#[derive(Debug, Clone)]
pub struct Told {
    pub at: u64,
    pub what: What,
}

impl Told {
    pub fn encode(&self) -> String {
        let call = |call: &Call| CALLS.iter().find(|(one, _)| one == call).unwrap().1;
        let list = |keys: &[u64]| {
            let keys: Vec<_> = keys.iter().map(u64::to_string).collect();
            keys.join(",")
        };
        let what = match &self.what {
            What::Begins(one) => format!("B {}", call(one)),
            What::Done(one) => format!("D {}", call(one)),
            What::Failed(one, error) => format!("F {} {}", call(one), error.replace('\n', " ")),
            What::Opened(Some(id), place) => format!("O {} {} {place}", id.0, id.1),
            What::Opened(None, place) => format!("U {place}"),
            What::Answer(new, seen) => format!("A {};{}", list(new), list(seen)),
            What::Removes(keys) => format!("R {}", list(keys)),
            What::Back(number) => format!("K {number}"),
            What::Gone(number) => format!("G {number}"),
            What::Damaged(what) => format!("V {}", what.replace('\n', " ")),
            What::End => "E".to_owned(),
        };
        format!("{} {what}\n", self.at)
    }

    pub fn decode(line: &str) -> Self {
        let mut fields = line.trim_end().splitn(3, ' ');
        let at = fields.next().unwrap().parse().unwrap();
        let letter = fields.next().unwrap();
        let rest = fields.next().unwrap_or("");
        let call = |name: &str| CALLS.iter().find(|(_, one)| *one == name).unwrap().0;
        let list = |text: &str| -> Vec<u64> {
            let words = text.split(',').filter(|word| !word.is_empty());
            words.map(|word| word.parse().unwrap()).collect()
        };
        let what = match letter {
            "B" => What::Begins(call(rest)),
            "D" => What::Done(call(rest)),
            "F" => {
                let (one, error) = rest.split_once(' ').unwrap();
                What::Failed(call(one), error.to_owned())
            }
            "O" => {
                let words: Vec<_> = rest.splitn(3, ' ').collect();
                let id = Id(words[0].parse().unwrap(), words[1].parse().unwrap());
                What::Opened(Some(id), words[2].to_owned())
            }
            "U" => What::Opened(None, rest.to_owned()),
            "A" => {
                let (new, seen) = rest.split_once(';').unwrap();
                What::Answer(list(new), list(seen))
            }
            "R" => What::Removes(list(rest)),
            "K" => What::Back(rest.parse().unwrap()),
            "G" => What::Gone(rest.parse().unwrap()),
            "V" => What::Damaged(rest.to_owned()),
            "E" => What::End,
            _ => panic!("a child told {line}"),
        };
        Self { at, what }
    }
}

/// The child's end of the pipe.
#[derive(Debug)]
pub struct Pipe(pub File);

impl Pipe {
    /// Tells the parent. Without one there is nothing left to do.
    pub fn tell(&self, what: What) {
        let told = Told { at: now(), what };
        if (&self.0).write_all(told.encode().as_bytes()).is_err() {
            std::process::exit(1);
        }
    }
}
