//! Goes through all states, breadth first, so that a violation is found by a shortest way.
//!
//! Of each state that was seen 128 bits are kept: that any two of ten million states fall together
//! has a probability below 1e-24. The way to a state is kept as the turn that led there, and told
//! by walking it once more.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
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

type Seen<V> = HashMap<u128, V, BuildHasherDefault<Taken>>;

/// What was found.
#[derive(Default)]
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
    /// The states seen, with their places among `origins`.
    seen: Seen<u32>,
    /// What a power cut leaves depends on the disk and on the promises alone.
    cut: Seen<()>,
    origins: Vec<Origin>,
    frontier: VecDeque<(u32, State)>,
    /// Which state leads to which without a crash.
    edges: Vec<(u32, u32)>,
}

/// Visits every state of a setting, or ends at the first violation.
pub fn explore(setting: &Setting) -> Found {
    let first = State::first(setting);
    let origin = Origin {
        parent: 0,
        turn: Turn::Open,
    };
    let mut explorer = Explorer {
        setting,
        seen: Seen::default(),
        cut: Seen::default(),
        origins: vec![origin],
        frontier: VecDeque::new(),
        edges: Vec::new(),
    };
    explorer.seen.insert(Fingerprint::of(&first), 0);
    explorer.frontier.push_back((0, first));
    let mut found = Found::default();
    let mut level = 1;
    while let Some((index, state)) = explorer.frontier.pop_front() {
        match explorer.expand(index, &state) {
            Ok(is_end) => found.ends += usize::from(is_end),
            Err((turn, violation)) => {
                found.violation = Some(explorer.trace(index, turn, violation));
                break;
            }
        }
        level -= 1;
        if level == 0 {
            level = explorer.frontier.len();
            found.depth += usize::from(level > 0);
        }
    }
    found.states = explorer.origins.len();
    if found.violation.is_none()
        && let Some(index) = explorer.find_circle()
    {
        let violation = Violation("I3: work that may go on for ever");
        found.violation = Some(explorer.trace(index, None, violation));
    }
    found
}

/// A violation, and the turn in which it came about unless the state itself is wrong.
type Wrong = (Option<Turn>, Violation);

impl Explorer<'_> {
    /// Adds what can come after a state; answers whether it is one in which all is done.
    fn expand(&mut self, index: u32, state: &State) -> Result<bool, Wrong> {
        let mut works = false;
        for turn in TURNS {
            if !state.may_take(turn) {
                continue;
            }
            let mut next = state.clone();
            let taken = next.take(self.setting, turn);
            if taken
                .map_err(|violation| (Some(turn), violation))?
                .is_none()
            {
                continue;
            }
            let to = self.add(index, turn, next);
            if turn.is_work() {
                works = true;
                if self.setting.circles {
                    self.edges.push((index, to));
                }
            }
        }
        if self.setting.power_cuts {
            let disk = Fingerprint::of(&(state.disk(), &state.promises));
            if self.cut.insert(disk, ()).is_none() {
                for (which, next) in state.power_cuts().into_iter().enumerate() {
                    self.add(index, Turn::Cut(which), next);
                }
            }
        }
        if works {
            return Ok(false);
        }
        if !state.is_finished() {
            let violation = Violation("I3: nobody can go on, and not all is done");
            return Err((None, violation));
        }
        let checked = state.check_end(self.setting);
        checked.map_err(|violation| (None, violation))?;
        Ok(true)
    }

    /// The place of a state, which is a new one if it was not seen before.
    fn add(&mut self, parent: u32, turn: Turn, state: State) -> u32 {
        let index = self.origins.len() as u32;
        match self.seen.entry(Fingerprint::of(&state)) {
            Entry::Occupied(seen) => *seen.get(),
            Entry::Vacant(free) => {
                free.insert(index);
                self.origins.push(Origin { parent, turn });
                self.frontier.push_back((index, state));
                index
            }
        }
    }

    /// A state that lies on a circle of work, or behind one. Where there is none, and no state but
    /// a finished one lacks a next step, whoever is not killed comes to the end of what he does.
    fn find_circle(&mut self) -> Option<u32> {
        let states = self.origins.len();
        self.edges.sort_unstable();
        let mut first = vec![0_u32; states + 1];
        let mut before = vec![0_u32; states];
        for (from, to) in &self.edges {
            first[*from as usize + 1] += 1;
            before[*to as usize] += 1;
        }
        for state in 0..states {
            first[state + 1] += first[state];
        }
        let mut free: Vec<usize> = (0..states).filter(|state| before[*state] == 0).collect();
        while let Some(from) = free.pop() {
            for (_, to) in &self.edges[first[from] as usize..first[from + 1] as usize] {
                let waits = &mut before[*to as usize];
                *waits -= 1;
                if *waits == 0 {
                    free.push(*to as usize);
                }
            }
        }
        (0..)
            .zip(before)
            .find(|(_, waits)| *waits > 0)
            .map(|(state, _)| state)
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
            steps.push((turn, did.unwrap_or("and here")));
        }
        Trace { violation, steps }
    }
}
