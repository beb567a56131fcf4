//! What calls have answered, and what must hold because of that.

use super::setting::{KEYS, NUMBERS, Setting};
use super::state::{State, Violation};

/// Nothing of this exists in a store: it is the memory of an observer. Masks of keys.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Promises {
    /// In the store for all to see, whoever is killed: inserts of it have returned, and in a
    /// transactional store somebody was told that it is there for good.
    pub returned: u8,
    /// Durable: a commit that covers it has returned, or a recovery that found it has ended.
    pub promised: u8,
    /// A complete record says that it counts: no key outside may come to be in the store.
    pub recorded: u8,
    /// Some call was told that it was first.
    pub won: u8,
    /// Whose uncommitted key it is, by handle number plus 1.
    pub claims: [u8; KEYS],
    /// Keys of a mark whose commit has not returned, for each handle: all of them may come to
    /// count, or none.
    pub in_flight: [u8; NUMBERS],
    /// Somebody was killed, or the power cut, in this session or before.
    pub killed: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub enum Verdict {
    #[default]
    New,
    Seen,
    Pending,
}

impl Promises {
    pub fn claimed_by(&self, number: u8) -> u8 {
        (0..KEYS)
            .filter(|key| self.claims[*key] == number + 1)
            .fold(0, |keys, key| keys | 1 << key)
    }

    pub fn release(&mut self, number: u8) {
        for claim in &mut self.claims {
            if *claim == number + 1 {
                *claim = 0;
            }
        }
    }
}

impl State {
    /// Whether a `contains` that begins now must find the key.
    pub fn must_find(&self, key: u8) -> bool {
        self.promises.returned & 1 << key != 0 || self.promises.claims[usize::from(key)] != 0
    }

    /// A slot is claimed. Who was told before that the key is there, or has committed it, must
    /// not see another win it.
    pub fn check_claim(&self, setting: &Setting, key: u8) -> Result<(), Violation> {
        let promises = &self.promises;
        let committed = if setting.transactional {
            promises.recorded
        } else {
            0
        };
        if (promises.returned | committed) & 1 << key != 0 {
            return Err(Violation("I2: a key that is there is claimed"));
        }
        Ok(())
    }

    /// An insert returns.
    pub fn answer_insert(
        &mut self,
        setting: &Setting,
        number: u8,
        key: u8,
        verdict: Verdict,
    ) -> Result<(), Violation> {
        let bit = 1 << key;
        let promises = &mut self.promises;
        let claim = &mut promises.claims[usize::from(key)];
        match verdict {
            Verdict::New if setting.transactional => {
                if *claim != 0 {
                    return Err(Violation("I2: claimed twice at a time"));
                }
                *claim = number + 1;
            }
            Verdict::New => {
                if promises.won & bit != 0 {
                    return Err(Violation("I2: a key was new twice"));
                }
                promises.won |= bit;
                promises.returned |= bit;
            }
            Verdict::Seen if setting.transactional && *claim == number + 1 => {}
            Verdict::Seen => promises.returned |= bit,
            Verdict::Pending => {}
        }
        Ok(())
    }

    /// What must hold in each state that handles work in, as seen by who looks at everything at
    /// once.
    pub fn check(&self, setting: &Setting) -> Result<(), Violation> {
        if !self.ready {
            return Ok(());
        }
        for key in 0..KEYS as u8 {
            if self.must_find(key) && !self.is_visible(setting, key) {
                return Err(Violation("I1: a key is nowhere to be found"));
            }
        }
        Ok(())
    }

    /// What must hold when all programs have come to their end.
    pub fn check_end(&self, setting: &Setting) -> Result<(), Violation> {
        if self.promises.killed || setting.transactional {
            return Ok(());
        }
        let inserted = setting.programs.iter().copied().flatten();
        for op in inserted {
            if let super::setting::Op::Insert(key) = op
                && self.promises.won & 1 << key == 0
            {
                return Err(Violation("I2: an inserted key was new to nobody"));
            }
        }
        Ok(())
    }

    /// What a recovery has found is held against what was promised, and is a promise from now on.
    pub fn check_recovered(&mut self, setting: &Setting, present: u8) -> Result<(), Violation> {
        let promises = &mut self.promises;
        if promises.promised & !present != 0 {
            return Err(Violation("I4: a committed key is lost"));
        }
        if promises.returned & !present != 0 {
            return Err(Violation("I3: a kill lost a key"));
        }
        if present & !promises.recorded != 0 {
            return Err(Violation("I12: a key is there that nobody committed"));
        }
        if setting.transactional {
            for keys in promises.in_flight {
                let kept = keys & present & !promises.returned;
                if kept != 0 && kept != keys & !promises.returned {
                    return Err(Violation("I12: half of a transaction is there"));
                }
            }
        }
        *promises = Promises {
            returned: present,
            promised: present,
            recorded: present,
            won: present,
            killed: true,
            ..Promises::default()
        };
        Ok(())
    }
}
