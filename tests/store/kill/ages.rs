//! When the keys of a store that forgets came.

use crate::support::ages::is_remembered;

/// In which step each key of one worker came. They come in the order of their numbers, and so are forgotten in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ages(Vec<Came>);

/// Keys of one step: those below `next` that are not of an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Came {
    step: u64,
    next: u64,
}

impl Ages {
    /// The keys below `next` have come by this step.
    pub fn add(&mut self, next: u64, step: u64) {
        match self.0.last_mut() {
            Some(last) if last.next >= next => {}
            Some(last) if last.step == step => last.next = next,
            _ if next > 0 => self.0.push(Came { step, next }),
            _ => {}
        }
    }

    /// How many keys are forgotten in this step, from the first one on.
    pub fn forgotten(&self, now: u64) -> u64 {
        let gone = self.0.iter().rev();
        let mut gone = gone.skip_while(|came| is_remembered(came.step, now));
        gone.next().map_or(0, |came| came.next)
    }

    /// Returns the step in which a key came.
    pub fn of(&self, index: u64) -> Option<u64> {
        let place = self.0.partition_point(|came| came.next <= index);
        self.0.get(place).map(|came| came.step)
    }

    pub fn encode(&self) -> String {
        let borders = self.0.iter();
        let borders = borders.map(|came| format!("{}:{}", came.step, came.next));
        format!("[{}", borders.collect::<Vec<_>>().join(","))
    }

    pub fn decode(text: &str) -> Self {
        let borders = text[1..].split(',').filter(|border| !border.is_empty());
        Self(
            borders
                .map(|border| {
                    let (step, next) = border.split_once(':').unwrap();
                    Came {
                        step: step.parse().unwrap(),
                        next: next.parse().unwrap(),
                    }
                })
                .collect(),
        )
    }
}
