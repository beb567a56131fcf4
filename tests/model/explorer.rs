//! Goes through all states, breadth first, so that a violation is found by a shortest way.
//!
//! Of each state that was seen 128 bits are kept: that any two of ten million states fall together
//! has a probability below 1e-24. The way to a state is kept as the turn that led there, and told
//! by walking it once more.

use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::hash::{BuildHasherDefault, Hash, Hasher};

use super::setting::Setting;
use super::state::{State, Violation};
use super::walk::{TURNS, Turn};

/// Two lanes of multiplying and shifting, eight bytes at a time. States are all of one length.
#[derive(Default)]
struct Fingerprint {
    a: u64,
    b: u64,
    word: u64,
    bytes: u32,
}

impl Fingerprint {
    fn mix(&mut self, word: u64) {
        self.a = (self.a ^ word ^ 0x5851_F42D).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.a ^= self.a >> 32;
        self.b = (self.b.rotate_left(23) ^ word ^ 0x1405_7B7E).wrapping_mul(0xD6E8_FEB8_6659_FD93);
        self.b ^= self.b >> 29;
    }

    fn of(what: &impl Hash) -> u128 {
        let mut hasher = Self::default();
        what.hash(&mut hasher);
        let last = hasher.word;
        hasher.mix(last);
        hasher.mix(!last);
        u128::from(hasher.a) << 64 | u128::from(hasher.b)
    }
}

impl Hasher for Fingerprint {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u8(*byte);
        }
    }

    fn write_u8(&mut self, value: u8) {
        self.word = self.word << 8 | u64::from(value);
        self.bytes += 1;
        if self.bytes.is_multiple_of(8) {
            let word = self.word;
            self.mix(word);
        }
    }

    fn write_u64(&mut self, value: u64) {
        self.mix(value);
    }

    /// The number of a variant.
    fn write_isize(&mut self, value: isize) {
        self.write_u8(value as u8);
    }

    /// The length of an array, always the same.
    fn write_usize(&mut self, _: usize) {}

    fn finish(&self) -> u64 {
        self.a
    }
}

/// Fingerprints are random already.
#[derive(Default)]
struct Taken(u64);

impl Hasher for Taken {
    fn write(&mut self, _: &[u8]) {
        unreachable!("fingerprints are words");
    }

    fn write_u128(&mut self, value: u128) {
        self.0 = value as u64;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

type Seen = HashSet<u128, BuildHasherDefault<Taken>>;

/// What was found.
pub struct Found {
    pub states: usize,
    /// Steps from the first state to the last ones.
    pub depth: usize,
    /// States in which nobody alive has anything left to do.
    pub ends: usize,
    pub violation: Option<Trace>,
}

/// The way to a violation.
pub struct Trace {
    pub violation: Violation,
    pub steps: Vec<(Turn, &'static str)>,
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (turn, did) in &self.steps {
            let who = match turn {
                Turn::Go(handle, _) | Turn::Kill(handle) => format!("handle {handle}"),
                Turn::Begin(handle) => format!("checkpoint of {handle}"),
                Turn::Settle => "checkpoint".to_owned(),
                Turn::Open => "handle 0".to_owned(),
                Turn::Cut(_) => "disk".to_owned(),
            };
            writeln!(f, "  {who:>15}  {did}")?;
        }
        write!(f, "  {}", self.violation.0)
    }
}

/// Where a state came from.
#[derive(Clone, Copy)]
struct Origin {
    parent: u32,
    turn: Turn,
}

struct Explorer<'a> {
    setting: &'a Setting,
    seen: Seen,
    /// What a power cut leaves depends on the disk and on the promises alone.
    cut: Seen,
    origins: Vec<Origin>,
    frontier: VecDeque<(u32, State)>,
}

/// Visits every state of a setting, or ends at the first violation.
pub fn explore(setting: &Setting) -> Found {
    let first = State::first(setting);
    let mut explorer = Explorer {
        setting,
        seen: Seen::default(),
        cut: Seen::default(),
        origins: vec![Origin {
            parent: 0,
            turn: Turn::Open,
        }],
        frontier: VecDeque::new(),
    };
    explorer.seen.insert(Fingerprint::of(&first));
    explorer.frontier.push_back((0, first));
    let (mut depth, mut ends, mut level) = (0, 0, 1);
    while let Some((index, state)) = explorer.frontier.pop_front() {
        match explorer.expand(index, &state) {
            Ok(is_end) => ends += usize::from(is_end),
            Err((at, turn, violation)) => {
                return Found {
                    states: explorer.origins.len(),
                    depth,
                    ends,
                    violation: Some(explorer.trace(at, turn, violation)),
                };
            }
        }
        level -= 1;
        if level == 0 {
            level = explorer.frontier.len();
            depth += usize::from(level > 0);
        }
    }
    Found {
        states: explorer.origins.len(),
        depth,
        ends,
        violation: None,
    }
}

type Wrong = (u32, Option<Turn>, Violation);

impl Explorer<'_> {
    /// Adds what can come after a state; answers whether it is one in which all is done.
    fn expand(&mut self, index: u32, state: &State) -> Result<bool, Wrong> {
        let mut works = false;
        for turn in TURNS {
            if !state.may_take(turn) {
                continue;
            }
            let mut next = state.clone();
            match next.take(self.setting, turn) {
                Ok(None) => continue,
                Ok(Some(_)) => {}
                Err(violation) => return Err((index, Some(turn), violation)),
            }
            works |= turn.is_work();
            self.add(index, turn, next);
        }
        if self.setting.power_cuts
            && self.cut.insert(Fingerprint::of(&(state.disk(), &state.promises)))
        {
            for (which, next) in state.power_cuts().into_iter().enumerate() {
                self.add(index, Turn::Cut(which), next);
            }
        }
        if works {
            return Ok(false);
        }
        if !state.is_finished() {
            let violation = Violation("I3: nobody can go on, and not all is done");
            return Err((index, None, violation));
        }
        let checked = state.check_end(self.setting);
        checked.map_err(|violation| (index, None, violation))?;
        Ok(true)
    }

    fn add(&mut self, parent: u32, turn: Turn, state: State) {
        if self.seen.insert(Fingerprint::of(&state)) {
            let index = self.origins.len() as u32;
            self.origins.push(Origin { parent, turn });
            self.frontier.push_back((index, state));
        }
    }

    fn trace(&self, at: u32, last: Option<Turn>, violation: Violation) -> Trace {
        let mut turns: Vec<Turn> = last.into_iter().collect();
        let mut index = at;
        while index != 0 {
            let origin = self.origins[index as usize];
            turns.push(origin.turn);
            index = origin.parent;
        }
        turns.reverse();
        let mut state = State::first(self.setting);
        let mut steps = Vec::new();
        for turn in turns {
            let did = state.take(self.setting, turn).ok().flatten();
            steps.push((turn, did.unwrap_or("here")));
        }
        Trace { violation, steps }
    }
}
