//! When each step was, in steps: as told, or by the system's clock.

use std::time::{Duration, Instant};

use crate::windows::stream::STEPS;

/// The time of the stream.
pub struct Clock {
    real: Option<Real>,
    begins: Vec<f64>,
    ends: Vec<f64>,
}

struct Real {
    begun: Instant,
    window: Duration,
}

impl Clock {
    /// Time is what the stream says: a step takes none.
    pub fn told() -> Self {
        Self {
            real: None,
            begins: Vec::new(),
            ends: Vec::new(),
        }
    }

    /// The system's, from now on, with a window of this length.
    pub fn real(window: Duration) -> Self {
        let begun = Instant::now();
        Self {
            real: Some(Real { begun, window }),
            ..Self::told()
        }
    }

    /// Begins the next step, once it is time.
    pub fn begin(&mut self) -> u64 {
        let step = self.begins.len() as u64;
        if let Some(real) = &self.real {
            let due = real.window.mul_f64(step as f64 / STEPS as f64);
            std::thread::sleep(due.saturating_sub(real.begun.elapsed()));
        }
        self.begins.push(self.now(step));
        step
    }

    /// Ends the step that was begun last.
    pub fn end(&mut self) {
        let step = self.begins.len() as u64 - 1;
        self.ends.push(self.now(step));
    }

    fn now(&self, step: u64) -> f64 {
        match &self.real {
            None => step as f64,
            Some(real) => real.begun.elapsed().div_duration_f64(real.window) * STEPS as f64,
        }
    }

    /// The age of a key of a step in another one, at most.
    pub fn oldest(&self, born: u64, step: u64) -> f64 {
        self.ends[step as usize] - self.begins[born as usize]
    }

    /// The age of a key of a step in another one, at least.
    pub fn youngest(&self, born: u64, step: u64) -> f64 {
        self.begins[step as usize] - self.ends[born as usize]
    }

    /// The time that the longest step took.
    pub fn longest_step(&self) -> f64 {
        let steps = self.begins.iter().zip(&self.ends);
        steps.map(|(begin, end)| end - begin).fold(0.0, f64::max)
    }

    /// When each step began, a line each.
    pub fn to_lines(&self) -> String {
        self.begins
            .iter()
            .map(|begin| format!("{begin}\n"))
            .collect()
    }

    /// The age of a key of a step by now, at most.
    pub fn age(&self, born: u64) -> f64 {
        let step = self.begins.len() as u64 - 1;
        self.now(step) - self.begins[born as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_of_told_time_takes_none() {
        let mut clock = Clock::told();
        for step in 0..3 {
            assert_eq!(clock.begin(), step);
            clock.end();
        }
        assert_eq!(clock.oldest(0, 2), 2.0);
        assert_eq!(clock.youngest(0, 2), 2.0);
        assert_eq!(clock.age(1), 1.0);
        assert_eq!(clock.longest_step(), 0.0);
        assert_eq!(clock.to_lines(), "0\n1\n2\n");
    }

    #[test]
    fn by_the_systems_clock_steps_take_their_time() {
        let mut clock = Clock::real(Duration::from_nanos(60));
        for step in 0..20 {
            assert_eq!(clock.begin(), step);
            clock.end();
        }
        assert!(clock.youngest(3, 9) >= 5.0);
        assert!(clock.longest_step() >= clock.oldest(3, 3));
        assert!(clock.oldest(3, 9) > clock.youngest(3, 9));
        assert!(clock.age(3) >= clock.oldest(3, 19));
    }
}
