//! What the workers told, as a table.

use everseen_benches::numbers::median;

use super::Scenario;

/// One run of a scenario.
#[derive(Clone, Debug)]
pub struct Run {
    /// From the start of the first worker to the end of the last, in nanoseconds.
    span: u64,
    /// Keys asked about.
    pub judged: u64,
    /// Those that were new.
    pub new: u64,
    /// How often the writer lock was taken.
    taken: u64,
    /// Nanoseconds that were waited for it, of those that the workers worked, all together.
    waited: u64,
    worked: u64,
}

impl Run {
    /// From a line of numbers for each worker.
    pub fn of(told: &[Vec<u64>]) -> Result<Self, String> {
        let mut run = Self {
            span: 0,
            judged: 0,
            new: 0,
            taken: 0,
            waited: 0,
            worked: 0,
        };
        let (mut first, mut last) = (u64::MAX, 0);
        for line in told {
            let [begun, ended, judged, new, taken, waited] = line[..] else {
                return Err(format!("a worker told {line:?}"));
            };
            first = first.min(begun);
            last = last.max(ended);
            run.judged += judged;
            run.new += new;
            run.taken += taken;
            run.waited += waited;
            run.worked += ended - begun;
        }
        run.span = last - first;
        Ok(run)
    }

    /// Keys a second, in millions.
    fn rate(&self) -> f64 {
        self.judged as f64 / self.span as f64 * 1e3
    }
}

/// Prints a line for each scenario. The ratio is the median of the rounds' own ratios.
pub fn print(scenarios: &[&Scenario], runs: &[Vec<Run>]) {
    println!();
    println!(
        "| scenario | million keys/s | best | × one | ns a key | waits for the lock | µs a time taken | keys a time |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    let mut one: &[Run] = &[];
    for (scenario, runs) in scenarios.iter().zip(runs) {
        if scenario.is_measure() {
            one = runs;
        }
        let ratios = runs
            .iter()
            .zip(one)
            .map(|(run, one)| run.rate() / one.rate());
        let ratio = if scenario.is_measure() || one.is_empty() {
            String::new()
        } else {
            format!("{:.2}", median(ratios))
        };
        let of = |value: fn(&Run) -> f64| median(runs.iter().map(value));
        println!(
            "| {} | {:.2} | {:.2} | {ratio} | {:.0} | {:.1} % | {:.2} | {:.0} |",
            scenario.name,
            of(Run::rate),
            runs.iter().map(Run::rate).fold(0.0, f64::max),
            of(|run| run.worked as f64 / run.judged as f64),
            of(|run| 100.0 * run.waited as f64 / run.worked as f64),
            of(|run| run.waited as f64 / run.taken.max(1) as f64 / 1e3),
            of(|run| run.judged as f64 / run.taken.max(1) as f64),
        );
    }
}
