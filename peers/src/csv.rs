//! Each figure of each round, for plots.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result};

use crate::outcome::{Outcome, PHASES};
use crate::run::Size;
use crate::variants::Variant;

/// A file of rows, or none.
pub struct Csv(Option<BufWriter<File>>);

impl Csv {
    pub fn create(path: Option<&Path>) -> Result<Self> {
        let Some(path) = path else {
            return Ok(Self(None));
        };
        let file = File::create(path).with_context(|| path.display().to_string())?;
        let mut out = BufWriter::new(file);
        writeln!(
            out,
            "variant,keys,fpr,phase,ns,round,asked,done,filter_bytes,memory_bytes"
        )?;
        Ok(Self(Some(out)))
    }

    /// A row for each phase that was begun. `filter_bytes` is the size of a classic filter for so
    /// many keys, whatever the variant takes; `memory_bytes` is what the machine has.
    pub fn add(
        &mut self,
        variant: &Variant,
        size: &Size,
        round: u64,
        outcome: &Outcome,
    ) -> Result<()> {
        let Some(out) = &mut self.0 else {
            return Ok(());
        };
        for (name, phase) in PHASES {
            let timed = phase(outcome);
            if timed.done == 0 {
                continue;
            }
            writeln!(
                out,
                "{},{},{},{name},{:.3},{round},{},{},{},{}",
                variant.name,
                size.keys,
                size.fpr,
                timed.each(),
                timed.asked,
                timed.done,
                size.filter_bytes(),
                size.memory.unwrap_or(0),
            )?;
        }
        // What is there outlives a run that is ended early.
        Ok(out.flush()?)
    }
}
