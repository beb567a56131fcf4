//! Exempts keys that were never inserted although the store answers "seen" for them.

use crate::engine::write::Writer;
use crate::engine::write::guard::WriteGuard;
use crate::error::Result;

/// The number of exemptions read at a time.
const EXEMPTIONS_PER_READ: usize = 4096;

/// The result of [`Store::exempt`](crate::Store::exempt), in keys, each counted once.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ExemptReport {
    /// Keys that are exempt from now on.
    pub exempted: u64,
    /// Keys that were already exempt.
    pub already: u64,
    /// Keys in a write buffer, which are certain to have been inserted. They are left unchanged.
    pub present: u64,
}

impl Writer<'_> {
    /// Exempts keys, and waits until the exemptions are durable and every handle sees them.
    pub(crate) fn exempt(&self, mut hashes: Vec<u64>) -> Result<ExemptReport> {
        self.handle.check_writable()?;
        hashes.sort_unstable();
        hashes.dedup();
        let mut guard = self.lock()?;
        let report = guard.pick_out(&mut hashes)?;
        if hashes.is_empty() {
            return Ok(report);
        }
        guard.append_noted(|log, handle| log.exempt(handle, &hashes))?;
        guard.seal_active(false)?;
        if self.file.header.renews() {
            // A renewal goes by the exemptions that are published: meanwhile it would take one of these back.
            guard.finish_checkpoints()?;
        }
        drop(guard);
        self.checkpointer().checkpoint_all(self.options.timeout)?;
        Ok(report)
    }

    /// Returns the exempt hashes from this one on, in ascending order, a few thousand at a time. None are the end.
    pub(crate) fn exempt_from(&self, from: u64) -> Result<Vec<u64>> {
        self.handle.check_usable()?;
        let view = self.views.current()?;
        let mut piece = Vec::new();
        if let Some(exempt) = &view.sections.exempt {
            exempt.query(
                |hashes| hashes.load(from..=u64::MAX, EXEMPTIONS_PER_READ, &mut piece),
                (),
            )?;
        }
        Ok(piece)
    }
}

impl WriteGuard<'_> {
    /// Retains the hashes that are in no buffer and not yet exempt.
    fn pick_out(&self, hashes: &mut Vec<u64>) -> Result<ExemptReport> {
        let mut report = ExemptReport::default();
        let mut failed = None;
        let view = &self.view;
        hashes.retain(|hash| {
            if view.proves_insert(*hash) {
                report.present += 1;
                return false;
            }
            match view
                .sections
                .exempt
                .as_ref()
                .map(|exempt| exempt.contains(*hash))
            {
                Some(Ok(true)) => {
                    report.already += 1;
                    return false;
                }
                Some(Err(error)) => failed = Some(error),
                _ => {}
            }
            report.exempted += 1;
            true
        });
        assert!(failed.is_some() || report.exempted == hashes.len() as u64);
        match failed {
            None => Ok(report),
            Some(error) => Err(error),
        }
    }
}
