//! A worker, under the memory limit: makes a filter, inserts, looks up, and tells how it went.

use std::error::Error;
use std::fmt;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::{Duration, Instant};

use everseen::Store;
use everseen_benches::keys::hash;
use everseen_benches::machine::number;
use everseen_benches::mapped::MappedFilter;
use everseen_benches::raw::{drop_from_cache, read_through};
use everseen_benches::worker::{tell, wait_for_start, wait_to_go_on};

use super::filters::Filter;
use super::{VARIANTS, Variant};

/// What a worker is to do.
#[derive(Clone, Debug)]
pub struct Task {
    pub variant: Variant,
    /// Of the filter.
    pub bytes: u64,
    /// Memory for Everseen's buffers.
    pub buffer: u64,
    /// Keys of one call of Everseen's, when inserting.
    pub batch: u64,
    pub keys: u64,
    pub lookups: u64,
    /// What each part may take.
    pub time: Duration,
    pub path: PathBuf,
}

/// What a worker says when it has inserted its keys; then it waits, so that its memory can be looked
/// at.
pub const INSERTED: &str = "inserted";

/// Keys that are never inserted begin here.
const ABSENT: u64 = 1 << 40;

impl Task {
    pub fn run(&self) -> Result<(), Box<dyn Error>> {
        wait_for_start()?;
        match self.variant {
            Variant::Everseen { .. } => self.measure::<Store>(),
            Variant::Mapped { .. } => self.measure::<MappedFilter>(),
        }
    }

    fn measure<F: Filter>(&self) -> Result<(), Box<dyn Error>> {
        F::make(self)?;
        // As it would be after a while of use: as much in memory as there is room for.
        read_through(&self.path)?;
        self.insert(&F::open(self)?)?;
        // What is mapped can't be dropped, so nobody has it open now.
        drop_from_cache(&self.path)?;
        let filter = F::open(self)?;
        let each = |keys: &[u64]| {
            keys.iter().try_fold(
                0,
                |found, key| Ok(found + u64::from(filter.contains(*key)?)),
            )
        };
        self.look_up(ABSENT, 1, each)?;
        self.look_up(ABSENT * 2, F::BATCH, |keys| filter.count(keys))?;
        read_through(&self.path)?;
        self.look_up(ABSENT * 3, 1, each)
    }

    /// Inserts new keys until they are all there or the time is over; then has them settled. Tells
    /// keys and nanoseconds, those of the last third of the time, nanoseconds of settling, pages read
    /// while inserting, and pages read and written in all.
    fn insert<F: Filter>(&self, filter: &F) -> Result<(), Box<dyn Error>> {
        let before = Usage::now()?;
        let begun = Instant::now();
        let mut new = 0;
        let mut done = 0;
        let mut steps = Vec::new();
        let most = F::inserted_at_once(self);
        while done < self.keys && begun.elapsed() < self.time {
            let end = self.keys.min(done + most);
            let batch: Vec<u64> = (done..end).map(hash).collect();
            new += filter.insert(&batch)?;
            done = end;
            steps.push((begun.elapsed(), done));
        }
        let inserted = begun.elapsed();
        let used = Usage::now()?.since(before);
        tell(INSERTED)?;
        wait_to_go_on()?;
        let begun = Instant::now();
        filter.settle()?;
        let settling = begun.elapsed();
        let all = Usage::now()?.since(before);
        if new.abs_diff(done) > done / 1000 + 1 {
            return Err(format!("{new} keys were new, of {done}").into());
        }
        let late = steps.iter().find(|(at, _)| *at >= inserted * 2 / 3);
        let (at, before_late) = late.copied().unwrap_or_default();
        let (late_keys, late_time) = (done - before_late, inserted - at);
        tell(&format!(
            "{done} {} {late_keys} {} {} {} {} {}",
            inserted.as_nanos(),
            late_time.as_nanos(),
            settling.as_nanos(),
            used.bytes / 4096,
            all.bytes / 4096,
            all.written / 4096,
        ))?;
        Ok(())
    }

    /// Looks up absent keys, this many a call. Reports keys, nanoseconds, pages read and major faults.
    fn look_up(
        &self,
        first: u64,
        batch: u64,
        count: impl Fn(&[u64]) -> everseen::Result<u64>,
    ) -> Result<(), Box<dyn Error>> {
        let before = Usage::now()?;
        let begun = Instant::now();
        let (mut done, mut found) = (0, 0);
        while done < self.lookups && begun.elapsed() < self.time {
            let end = self.lookups.min(done + batch);
            let keys: Vec<u64> = (first + done..first + end).map(hash).collect();
            found += count(&keys)?;
            done = end;
        }
        let took = begun.elapsed().as_nanos();
        let used = Usage::now()?.since(before);
        if found > done / 1000 + 1 {
            return Err(format!("{found} of {done} absent keys were found").into());
        }
        tell(&format!(
            "{done} {took} {} {}",
            used.bytes / 4096,
            used.faults
        ))?;
        Ok(())
    }
}

/// What this process has had read from the disk, and written to it.
#[derive(Clone, Copy, Debug)]
struct Usage {
    bytes: u64,
    written: u64,
    /// Faults that had to wait for the disk.
    faults: u64,
}

impl Usage {
    fn now() -> io::Result<Self> {
        let missing = || io::Error::other("the system does not tell what was read");
        let io = |name| number("/proc/self/io", name).ok_or_else(missing);
        let stat = fs::read_to_string("/proc/self/stat")?;
        // The twelfth field; the second is a name in parentheses, which may have spaces in it.
        let rest = stat.rsplit(')').next().unwrap_or_default();
        let faults = rest.split_whitespace().nth(9);
        let faults = faults.and_then(|text| text.parse().ok());
        Ok(Self {
            bytes: io("read_bytes")?,
            written: io("write_bytes")?,
            faults: faults.ok_or_else(missing)?,
        })
    }

    fn since(self, before: Self) -> Self {
        Self {
            bytes: self.bytes - before.bytes,
            written: self.written - before.written,
            faults: self.faults - before.faults,
        }
    }
}

impl fmt::Display for Task {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let variant = VARIANTS.iter().position(|(_, it)| *it == self.variant);
        write!(
            out,
            "{},{},{},{},{},{},{},{}",
            variant.unwrap_or(0),
            self.bytes,
            self.buffer,
            self.batch,
            self.keys,
            self.lookups,
            self.time.as_millis(),
            self.path.display()
        )
    }
}

impl FromStr for Task {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("no task: {text}");
        let parts: Vec<&str> = text.splitn(8, ',').collect();
        let [numbers @ .., path] = &parts[..] else {
            return Err(wrong());
        };
        let numbers: Result<Vec<u64>, _> = numbers.iter().map(|part| part.parse()).collect();
        let [variant, bytes, buffer, batch, keys, lookups, ms] = numbers.map_err(|_| wrong())?[..]
        else {
            return Err(wrong());
        };
        let (_, variant) = VARIANTS.get(variant as usize).ok_or_else(wrong)?;
        Ok(Self {
            variant: *variant,
            bytes,
            buffer,
            batch,
            keys,
            lookups,
            time: Duration::from_millis(ms),
            path: PathBuf::from(path),
        })
    }
}
