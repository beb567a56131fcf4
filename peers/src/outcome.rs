//! What a child tells of one variant in one round.

use anyhow::{Result, bail};

/// Keys that were handed over, how long that took, and how many of them were called present.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Timed {
    /// How many keys there were to hand over.
    pub asked: u64,
    /// How many were, before time was up.
    pub done: u64,
    pub nanoseconds: u64,
    pub present: u64,
}

impl Timed {
    /// Nanoseconds a key.
    pub fn each(&self) -> f64 {
        self.nanoseconds as f64 / self.done.max(1) as f64
    }

    /// Whether time was up before it was through.
    pub fn stopped(&self) -> bool {
        self.done < self.asked
    }
}

/// One variant in one round.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Outcome {
    pub insert: Timed,
    /// Look-ups of keys that were inserted. None were made if the insertion was stopped.
    pub present: Timed,
    /// Look-ups of keys that were not.
    pub absent: Timed,
    /// The most bytes of memory beyond those of the keys themselves; 0 if unknown.
    pub peak: u64,
    /// Bytes on disk when the insertion was done.
    pub disk: u64,
    /// Bytes on disk when it was closed.
    pub closed: u64,
    /// Bytes of files' pages that it made dirty while it inserted, by writes and by maps: each is written once or more.
    pub written: u64,
}

/// A thing that is timed: its name in the csv, and where its figures are.
type Phase = (&'static str, fn(&Outcome) -> &Timed);

/// All that is timed.
pub const PHASES: [Phase; 3] = [
    ("insert", |outcome| &outcome.insert),
    ("present", |outcome| &outcome.present),
    ("absent", |outcome| &outcome.absent),
];

impl Outcome {
    /// A line of numbers.
    pub fn to_line(self) -> String {
        let mut numbers = Vec::new();
        for (_, phase) in PHASES {
            let timed = phase(&self);
            numbers.extend([timed.asked, timed.done, timed.nanoseconds, timed.present]);
        }
        numbers.extend([self.peak, self.disk, self.closed, self.written]);
        let numbers: Vec<_> = numbers.iter().map(u64::to_string).collect();
        numbers.join(" ")
    }

    /// Such a line.
    pub fn of(numbers: &[u64]) -> Result<Self> {
        let (chunks, &[]) = numbers.as_chunks::<4>() else {
            bail!("a child told {numbers:?}");
        };
        let [insert, present, absent, [peak, disk, closed, written]] = chunks else {
            bail!("a child told {numbers:?}");
        };
        let timed = |told: &[u64; 4]| Timed {
            asked: told[0],
            done: told[1],
            nanoseconds: told[2],
            present: told[3],
        };
        Ok(Self {
            insert: timed(insert),
            present: timed(present),
            absent: timed(absent),
            peak: *peak,
            disk: *disk,
            closed: *closed,
            written: *written,
        })
    }

    /// Keys that were inserted and not found again.
    pub fn lost(&self) -> u64 {
        self.present.done - self.present.present
    }

    pub fn stopped(&self) -> bool {
        PHASES.iter().any(|(_, phase)| phase(self).stopped())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_all() {
        let numbers: Vec<u64> = (1..=16).collect();
        let outcome = Outcome::of(&numbers).unwrap();
        assert_eq!(outcome.absent.nanoseconds, 11);
        assert_eq!((outcome.closed, outcome.written), (15, 16));
        let line = outcome.to_line();
        assert_eq!(line, "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16");
        assert!(Outcome::of(&numbers[1..]).is_err());
    }
}
