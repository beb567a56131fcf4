//! Many keys at once, piece by piece.

use everseen::Error;
use pyo3::prelude::*;

use crate::answers::Answer;
use crate::arrow::BadColumn;
use crate::errors::raised;
use crate::hashes::Hashes;
use crate::keys::{Gathered, Nulls, Source};
use crate::progress::Progress;
use crate::reports::{fields, report};
use crate::session::Session;

/// Why a piece was not done to its end.
enum Stop {
    Store(Error),
    Column(BadColumn),
}

impl Stop {
    fn raise(self, py: Python<'_>) -> PyErr {
        match self {
            Self::Store(error) => raised(py, &error),
            Self::Column(bad) => bad.raise(py),
        }
    }
}

/// Keys, or a table with the names of those of its columns that are the keys.
type Given<'a, 'py> = (&'a Bound<'py, PyAny>, Option<&'a Bound<'py, PyAny>>);

fn source<'py>((keys, columns): Given<'_, 'py>) -> PyResult<Source<'py>> {
    match columns {
        Some(names) => Source::of_table(keys, names),
        None => Source::of(keys),
    }
}

/// A call with many keys.
pub(crate) struct Batch<'a, 'py> {
    session: &'a Session,
    answer: Answer,
    nulls: Nulls,
    progress: Option<&'a Bound<'py, PyAny>>,
}

impl<'a, 'py> Batch<'a, 'py> {
    pub(crate) fn new(
        session: &'a Session,
        answer: Answer,
        nulls: Nulls,
        progress: Option<&'a Bound<'py, PyAny>>,
    ) -> Self {
        Self {
            session,
            answer,
            nulls,
            progress,
        }
    }

    /// Runs `work` on all keys, a piece at a time. It appends its answers, one for each key that it has done.
    pub(crate) fn of_keys(
        &self,
        keys: Given<'_, 'py>,
        work: impl Fn(&everseen::Store, &[&[u8]], &mut Vec<u8>) -> everseen::Result<()> + Sync,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = keys.0.py();
        let mut source = source(keys)?;
        let total = source.total();
        self.run(py, total, |store, answers| {
            let Some(piece) = source.next_piece(py, self.nulls, answers.len())? else {
                return Ok(None);
            };
            let outcome = py.detach(|| {
                let gathered = piece.gather().map_err(Stop::Column)?;
                let mut found = Vec::with_capacity(gathered.keys.len());
                let outcome = work(store, &gathered.keys, &mut found);
                gathered.spread(&found, answers);
                outcome.map_err(Stop::Store)
            });
            Ok(Some(outcome))
        })
    }

    /// Runs `work` on all hashes, as [`of_keys`](Self::of_keys) does.
    pub(crate) fn of_hashes(
        &self,
        hashes: &Bound<'py, PyAny>,
        work: impl Fn(&everseen::Store, &[u64], &mut Vec<u8>) -> everseen::Result<()> + Sync,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = hashes.py();
        let mut source = Hashes::of(hashes)?;
        let total = source.total();
        self.run(py, total, |store, answers| {
            let Some(piece) = source.next_piece(py, self.nulls, answers.len())? else {
                return Ok(None);
            };
            let outcome = py.detach(|| {
                let mut found = Vec::with_capacity(piece.hashes.len());
                let outcome = work(store, &piece.hashes, &mut found);
                let gathered = Gathered::of_hashes(piece.places, piece.rows);
                gathered.spread(&found, answers);
                outcome.map_err(Stop::Store)
            });
            Ok(Some(outcome))
        })
    }

    /// Runs `next` until it has no more. What it raises carries the answers up to there.
    fn run(
        &self,
        py: Python<'py>,
        total: Option<usize>,
        mut next: impl FnMut(&everseen::Store, &mut Vec<u8>) -> PyResult<Option<Result<(), Stop>>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let progress = Progress::of(py, self.progress, "keys")?;
        let mut answers = Vec::with_capacity(total.unwrap_or(0));
        let outcome: PyResult<()> = (|| {
            let opened = self.session.current(py)?;
            while let Some(outcome) = next(&opened.store, &mut answers)? {
                outcome.map_err(|stop| stop.raise(py))?;
                progress.report(answers.len() as u64, total.map(|total| total as u64))?;
                py.check_signals()?;
            }
            Ok(())
        })();
        let closed = progress.close();
        let array = self.answer.array(py, &answers)?;
        match outcome {
            Ok(()) => closed.map(|()| array),
            Err(raised) => {
                // Those keys are done: their answers are given once.
                let _ = raised.value(py).setattr("partial", array);
                Err(raised)
            }
        }
    }
}

/// Exempts keys: all in one call, since each call rewrites all exemptions.
pub(crate) fn exempt<'py>(
    session: &Session,
    keys: &Bound<'py, PyAny>,
    columns: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = keys.py();
    let mut source = source((keys, columns))?;
    let opened = session.current(py)?;
    let store = &opened.store;
    let (mut hashed, mut rows) = (Vec::new(), 0);
    while let Some(piece) = source.next_piece(py, Nulls::Error, rows)? {
        rows += piece.rows;
        let outcome = py.detach(|| {
            let gathered = piece.gather()?;
            store
                .hasher()
                .keys(gathered.keys.iter().copied(), &mut hashed);
            Ok(())
        });
        outcome.map_err(|bad: BadColumn| bad.raise(py))?;
        py.check_signals()?;
    }
    let done = session.call(py, |store| store.exempt(&hashed))?;
    let fields = fields!(py, done, exempted already present);
    report(py, "ExemptReport", &fields)
}
