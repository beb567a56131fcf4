//! Plans the result of a merge: its header and its superblock.

use std::path::Path;

use super::input::Input;
use crate::config::create_options::CreateOptions;
use crate::error::{Error, Result};
use crate::file::label::set_label;
use crate::file::layout::LAST_WRITABLE;
use crate::file::superblock::Superblock;
use crate::file::{Header, Layer};
use crate::filter::design::{first_superblock, now, random};
use crate::filter::has_segments;
use crate::filter::merge::{self as filter, LayerPlan, Part};
use crate::storefile::still_file::StillFile;

/// The store to create.
pub(crate) struct Design {
    pub(crate) header: Header,
    pub(crate) superblock: Superblock,
    /// The parts that go into each layer.
    pub(crate) parts: Vec<Vec<Part>>,
}

impl Design {
    pub(crate) fn union(inputs: &[Input], options: &CreateOptions, out: &Path) -> Result<Self> {
        check_fit(inputs)?;
        check_labels(inputs)?;
        let plan = LayerPlan::union(&as_opened(inputs), options.fpr, out)?;
        Self::of(inputs, options, plan)
    }

    pub(crate) fn fold(
        inputs: &[Input],
        options: &CreateOptions,
        out: &Path,
        factor: u64,
    ) -> Result<Self> {
        let plan = LayerPlan::fold(inputs[0].as_opened(), options.fpr, out, factor)?;
        Self::of(inputs, options, plan)
    }

    fn of(inputs: &[Input], options: &CreateOptions, plan: LayerPlan) -> Result<Self> {
        let mut header = new_header(inputs, options, &plan.header)?;
        let superblock = result_superblock(inputs, &mut header, plan.layers);
        Ok(Self {
            header,
            superblock,
            parts: plan.parts,
        })
    }

    /// Checks that the result keeps its bound with the number of keys that its layers record.
    pub(crate) fn check_bound(&self, out: &Path) -> Result<()> {
        filter::check_bound(&self.header, &self.superblock.layers, out)
    }
}

fn as_opened(inputs: &[Input]) -> Vec<StillFile<'_>> {
    inputs.iter().map(Input::as_opened).collect()
}

/// Returns the superblock of a result with these layers, and gives it the label that all inputs have.
pub(crate) fn result_superblock(
    inputs: &[Input],
    header: &mut Header,
    layers: Vec<Layer>,
) -> Superblock {
    let mut superblock = first_superblock(layers);
    if let [input] = inputs {
        superblock.commits = input.superblock.commits.clone();
        superblock.commit_sequence = input.superblock.commit_sequence;
        if superblock.commit_sequence > LAST_WRITABLE {
            renumber(&mut superblock);
        }
    }
    // A mark that follows must be newer than all that are there.
    let newest = superblock.commits.values().map(|commit| commit.sequence);
    assert!(newest.max() <= Some(superblock.commit_sequence));
    set_label(header, &mut superblock, common_label(inputs));
    superblock
}

/// Counts the commits from 1 on, in their order.
fn renumber(superblock: &mut Superblock) {
    let mut commits: Vec<_> = superblock.commits.values_mut().collect();
    commits.retain(|commit| commit.sequence > 0);
    commits.sort_by_key(|commit| commit.sequence);
    superblock.commit_sequence = commits.len() as u64;
    for (number, commit) in (1..).zip(commits) {
        commit.sequence = number;
    }
}

pub(crate) fn new_header(
    inputs: &[Input],
    options: &CreateOptions,
    model: &Header,
) -> Result<Header> {
    let all = inputs.iter().all(|input| input.header().transactional);
    Ok(Header {
        transactional: options.transactional.unwrap_or(all),
        store_id: random()?,
        created: now(),
        compatible: 0,
        read_only_compatible: model.known_to_writers(),
        has_bound_pages: true,
        ..model.clone()
    })
}

/// Refuses inputs that have a key's bits in different places from the first one.
pub(crate) fn check_fit(inputs: &[Input]) -> Result<()> {
    let first = &inputs[0];
    let wrong =
        |input: &Input, other: &Input, field, expected: &dyn ToString, got: &dyn ToString| {
            Err(Error::Mismatch {
                path: input.path.clone(),
                other: other.path.clone(),
                field,
                expected: expected.to_string(),
                got: got.to_string(),
            })
        };
    let model = first.header();
    for input in inputs {
        let own = input.header();
        filter::expect_mergeable(input.as_opened())?;
        if own.kind != model.kind {
            return wrong(input, first, "kind", &model.kind, &own.kind);
        }
        if own.hash != model.hash {
            return wrong(input, first, "hash", &model.hash, &own.hash);
        }
        if own.seed != model.seed {
            // Seeds are never disclosed.
            return wrong(input, first, "seed", &"the other's", &"another");
        }
        if own.probes != model.probes {
            return wrong(input, first, "probes", &model.probes, &own.probes);
        }
    }
    if has_segments(model) {
        check_labels(inputs)?;
    }
    filter::check_fit(&as_opened(inputs))
}

/// Refuses inputs of different labels, whose keys may mean different things. An input without a label fits all.
pub(crate) fn check_labels(inputs: &[Input]) -> Result<()> {
    let mut labelled = inputs.iter().filter(|input| input.label().is_some());
    let Some(first) = labelled.next() else {
        return Ok(());
    };
    match labelled.find(|input| input.label() != first.label()) {
        Some(other) => Err(Error::Mismatch {
            path: other.path.clone(),
            other: first.path.clone(),
            field: "label",
            expected: shown(first.label()),
            got: shown(other.label()),
        }),
        None => Ok(()),
    }
}

/// Returns the start of a label in a form that a message can hold.
fn shown(label: Option<&[u8]>) -> String {
    const MAX_SHOWN: usize = 80;
    let label = label.unwrap_or_default();
    let more = if label.len() > MAX_SHOWN { "…" } else { "" };
    let start = label[..label.len().min(MAX_SHOWN)].escape_ascii();
    format!("\"{start}\"{more}")
}

/// Returns the label that all inputs have; empty if one of them has none.
fn common_label(inputs: &[Input]) -> &[u8] {
    let label = inputs[0].label().unwrap_or_default();
    match inputs.iter().all(|input| input.label() == Some(label)) {
        true => label,
        false => &[],
    }
}
