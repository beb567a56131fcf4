//! What the workers told, as tables.

use std::fmt::Write;

use everseen_benches::cgroup::Memory;
use everseen_benches::numbers::median;

/// The disk's own pace, in bytes and in reads of a page a second.
#[derive(Clone, Copy, Debug)]
pub struct Disk {
    pub write: f64,
    pub read: f64,
    pub one_at_once: f64,
    pub many_at_once: f64,
}

/// How many reads at once make the disk's best pace.
pub const AT_ONCE: u64 = 64;

/// All runs of a variant at one size.
#[derive(Clone, Debug)]
pub struct Row {
    pub ratio: f64,
    pub name: &'static str,
    /// Keys that were to be inserted, and to be looked up.
    pub keys: u64,
    pub lookups: u64,
    pub runs: Vec<Run>,
}

/// One run. Times are in nanoseconds.
#[derive(Clone, Debug)]
pub struct Run {
    inserted: Inserted,
    /// One at a time with nothing in memory, then in batches, then one at a time with as much of the
    /// filter in memory as there is room for.
    cold: LookedUp,
    batches: LookedUp,
    warm: LookedUp,
    memory: Option<Memory>,
}

#[derive(Clone, Copy, Debug)]
struct Inserted {
    keys: f64,
    time: f64,
    /// In the last third of the time.
    late_keys: f64,
    late_time: f64,
    /// From the last insert until all is on the disk.
    settling: f64,
    pages: f64,
    /// Pages with settling included.
    read: f64,
    written: f64,
}

#[derive(Clone, Copy, Debug)]
struct LookedUp {
    keys: f64,
    time: f64,
    pages: f64,
    faults: f64,
}

impl Inserted {
    fn rate(&self) -> f64 {
        self.keys / self.time * 1e9
    }

    fn late_rate(&self) -> f64 {
        if self.late_keys == 0.0 {
            return self.rate();
        }
        self.late_keys / self.late_time * 1e9
    }

    fn time_a_key(&self) -> f64 {
        (self.time + self.settling) / self.keys
    }

    /// Seconds for all keys: measured, or at the pace of the last third.
    fn seconds_for(&self, keys: u64) -> f64 {
        let rest = (keys as f64 - self.keys).max(0.0);
        (self.time + self.settling) / 1e9 + rest / self.late_rate()
    }

    /// The share of the time, settling included, that the disk takes to read and write as much in
    /// order.
    fn disk_share(&self, disk: &Disk) -> f64 {
        let seconds = (self.read / disk.read + self.written / disk.write) * 4096.0;
        seconds * 1e9 / (self.time + self.settling)
    }
}

impl LookedUp {
    fn of(told: &[u64]) -> Result<Self, String> {
        let [keys, time, pages, faults] = told[..] else {
            return Err(format!("a worker told {told:?}"));
        };
        Ok(Self {
            keys: keys as f64,
            time: time as f64,
            pages: pages as f64,
            faults: faults as f64,
        })
    }

    fn time_a_key(&self) -> f64 {
        self.time / self.keys
    }

    fn pages_a_second(&self) -> f64 {
        self.pages / self.time * 1e9
    }
}

impl Run {
    /// From the lines that a worker told.
    pub fn of(
        inserted: &[u64],
        looked_up: &[Vec<u64>; 3],
        memory: Option<Memory>,
    ) -> Result<Self, String> {
        let [
            keys,
            time,
            late_keys,
            late_time,
            settling,
            pages,
            read,
            written,
        ] = inserted[..]
        else {
            return Err(format!("a worker told {inserted:?}"));
        };
        let [cold, batches, warm] = looked_up;
        Ok(Self {
            inserted: Inserted {
                keys: keys as f64,
                time: time as f64,
                late_keys: late_keys as f64,
                late_time: late_time as f64,
                settling: settling as f64,
                pages: pages as f64,
                read: read as f64,
                written: written as f64,
            },
            cold: LookedUp::of(cold)?,
            batches: LookedUp::of(batches)?,
            warm: LookedUp::of(warm)?,
            memory,
        })
    }
}

impl Row {
    fn median(&self, value: impl Fn(&Run) -> f64) -> f64 {
        median(self.runs.iter().map(value))
    }
}

/// Prints the tables.
pub fn print(rows: &[Row], disks: &[Disk]) {
    let disk = |value: fn(&Disk) -> f64| median(disks.iter().map(value));
    println!();
    println!("| the disk, past the page cache | |");
    println!("|---|---|");
    println!(
        "| pages/s at random, 1 at once | {:.0} |",
        disk(|it| it.one_at_once)
    );
    println!(
        "| pages/s at random, {AT_ONCE} at once | {:.0} |",
        disk(|it| it.many_at_once)
    );
    println!("| MB/s read in order | {:.0} |", disk(|it| it.read) / 1e6);
    println!(
        "| MB/s written in order | {:.0} |",
        disk(|it| it.write) / 1e6
    );
    print_inserts(rows, disks);
    print_lookups(rows, disks);
    print_memory(rows);
}

fn print_inserts(rows: &[Row], disks: &[Disk]) {
    println!();
    println!(
        "| new keys: filter ÷ memory | variant | keys in the time | keys/s | in the last third | pages read a key | s until on disk | keys/s, all counted in | s for all keys | disk's own time for as much, % |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    for row in rows {
        let of = |value: fn(&Inserted) -> f64| row.median(|run| value(&run.inserted));
        let stopped = row
            .runs
            .iter()
            .any(|run| run.inserted.keys < row.keys as f64);
        let seconds = row.median(|run| run.inserted.seconds_for(row.keys));
        let pairs = row.runs.iter().zip(disks);
        let disk = median(pairs.map(|(run, disk)| run.inserted.disk_share(disk)));
        println!(
            "| {} | {} | {:.0} | {:.0} | {:.0} | {:.2} | {:.2} | {:.0} | {seconds:.1}{} | {:.0} |",
            row.ratio,
            row.name,
            of(|it| it.keys),
            of(Inserted::rate),
            of(Inserted::late_rate),
            of(|it| it.pages / it.keys),
            of(|it| it.settling / 1e9),
            of(|it| 1e9 / it.time_a_key()),
            if stopped { ", extrapolated" } else { "" },
            disk * 100.0,
        );
    }
    println!();
    println!(
        "Stopped when the time was over; \"extrapolated\" goes on at the pace of the last third. \
         \"All counted in\" is with the final commit and checkpoint, or msync."
    );
}

fn print_lookups(rows: &[Row], disks: &[Disk]) {
    println!();
    println!(
        "| absent keys: filter ÷ memory | variant | cold: µs each | pages read | major faults | batches: µs a key | pages/s | × disk, 1 at once | × disk, {AT_ONCE} at once | warm: µs each | pages read |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|");
    for row in rows {
        let of = |value: fn(&Run) -> f64| row.median(value);
        // Each round against the disk as it was in that round.
        let against = |pace: fn(&Disk) -> f64| {
            let pairs = row.runs.iter().zip(disks);
            median(pairs.map(|(run, disk)| run.batches.pages_a_second() / pace(disk)))
        };
        println!(
            "| {} | {} | {:.2} | {:.3} | {:.3} | {:.2} | {:.0} | {:.2} | {:.2} | {:.2} | {:.3} |",
            row.ratio,
            row.name,
            of(|run| run.cold.time_a_key() / 1e3),
            of(|run| run.cold.pages / run.cold.keys),
            of(|run| run.cold.faults / run.cold.keys),
            of(|run| run.batches.time_a_key() / 1e3),
            of(|run| run.batches.pages_a_second()),
            against(|disk| disk.one_at_once),
            against(|disk| disk.many_at_once),
            of(|run| run.warm.time_a_key() / 1e3),
            of(|run| run.warm.pages / run.warm.keys),
        );
    }
}

fn print_memory(rows: &[Row]) {
    println!();
    println!(
        "| MiB after inserting: filter ÷ memory | variant | most ever | anonymous | page cache | of it mapped | of it dirty |"
    );
    println!("|---|---|---|---|---|---|---|");
    for row in rows {
        let of = |value: fn(&Memory) -> u64| {
            row.median(|run| run.memory.as_ref().map_or(0, value) as f64) / 1_048_576.0
        };
        println!(
            "| {} | {} | {:.0} | {:.1} | {:.1} | {:.1} | {:.1} |",
            row.ratio,
            row.name,
            of(|it| it.peak),
            of(|it| it.anonymous),
            of(|it| it.cache),
            of(|it| it.mapped),
            of(|it| it.dirty),
        );
    }
}

/// Nanoseconds a key in each round, as `scripts/plot.py` reads them.
pub fn csv(rows: &[Row], memory: u64) -> String {
    let mut text = "variant,phase,filter_bytes,memory_bytes,asked,done,ns\n".to_owned();
    for row in rows {
        let name = row.name.replace(", ", "-").replace("MADV_RANDOM", "random");
        let bytes = (memory as f64 * row.ratio) as u64;
        for run in &row.runs {
            let inserted = &run.inserted;
            let phases = [
                ("insert", inserted.keys, inserted.time_a_key()),
                ("single", run.cold.keys, run.cold.time_a_key()),
                ("batches", run.batches.keys, run.batches.time_a_key()),
            ];
            for (phase, done, ns) in phases {
                let asked = if phase == "insert" {
                    row.keys
                } else {
                    row.lookups
                };
                let _ = writeln!(
                    text,
                    "{name},{phase},{bytes},{memory},{asked},{done},{ns:.1}"
                );
            }
        }
    }
    text
}
