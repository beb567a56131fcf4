//! What a store owes after all that was done to it.

use std::collections::BTreeSet;

/// Lines are numbers; all are equally long, so that a torn one shows.
pub fn line(number: u32) -> String {
    format!("https://example.org/{number:07}\n")
}

/// Returns the lines of a list, as a file has them.
pub fn text(numbers: &[u32]) -> Vec<u8> {
    numbers
        .iter()
        .flat_map(|number| line(*number).into_bytes())
        .collect()
}

/// Returns the numbers of whole lines, and what is left of a torn one.
pub fn parse(bytes: &[u8]) -> Result<(Vec<u32>, &[u8]), String> {
    let end = bytes
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |at| at + 1);
    let (whole, torn) = bytes.split_at(end);
    let numbers = whole.split_inclusive(|byte| *byte == b'\n').map(|one| {
        let text = String::from_utf8_lossy(one);
        let number = text.trim_end().strip_prefix("https://example.org/");
        match number.map(str::parse::<u32>) {
            Some(Ok(number)) if text == line(number) => Ok(number),
            _ => Err(format!("{text:?} was never in a list")),
        }
    });
    Ok((numbers.collect::<Result<_, _>>()?, torn))
}

/// Returns the first occurrences, in order.
pub fn firsts(numbers: &[u32]) -> Vec<u32> {
    let mut seen = BTreeSet::new();
    let first = |number: &&u32| seen.insert(**number);
    numbers.iter().filter(first).copied().collect()
}

/// What is known of a store, and of the output that belongs to it.
#[derive(Clone, Debug, Default)]
pub struct Model {
    /// Lines that the store remembers for sure.
    pub known: BTreeSet<u32>,
    /// Lines that it may remember besides: those of runs that were killed or failed.
    pub maybe: BTreeSet<u32>,
    /// Whether a run ended before its time since the last one that ended well: the store may have logs.
    pub cut_off: bool,
}

impl Model {
    /// Takes what a run to a pipe printed that ended well.
    pub fn printed(&mut self, list: &[u32], out: &[u8]) -> Result<(), String> {
        let (printed, torn) = parse(out)?;
        if !torn.is_empty() {
            return Err(format!("the last line is torn: {torn:?}"));
        }
        let mut owed = firsts(list);
        owed.retain(|number| !self.known.contains(number));
        let got: BTreeSet<_> = printed.iter().copied().collect();
        if got.len() != printed.len() {
            return Err("a line was printed twice".into());
        }
        // What the store may have remembered may be missing; the rest comes in the list's order.
        owed.retain(|number| got.contains(number) || !self.maybe.contains(number));
        if owed != printed {
            let owed: BTreeSet<_> = owed.into_iter().collect();
            let lost: Vec<_> = owed.difference(&got).take(5).collect();
            let again: Vec<_> = got.difference(&owed).take(5).collect();
            return Err(format!("not printed {lost:?}, printed again {again:?}"));
        }
        self.remember(list);
        Ok(())
    }

    /// Takes that a run ended well on a list.
    pub fn remember(&mut self, list: &[u32]) {
        self.known.extend(list);
        self.cut_off = false;
        self.maybe.retain(|number| !self.known.contains(number));
    }

    /// Takes that a run on a list ended before its time.
    pub fn interrupt(&mut self, list: &[u32]) {
        let new = list.iter().filter(|number| !self.known.contains(number));
        self.maybe.extend(new);
        self.cut_off = true;
    }
}

/// What an output file holds, from the lines that `-o` wrote.
#[derive(Clone, Debug, Default)]
pub struct Output {
    /// All of it, when the last run ended.
    pub content: Vec<u8>,
    /// The lines of a run that was cut off may follow.
    pub open: bool,
    /// Lines that the store knew when the user began this file: they are in the one before.
    pub elsewhere: BTreeSet<u32>,
}

impl Output {
    /// Takes the file as a run left it that ended well. `twice` lines may be in it twice, since their store was put back.
    pub fn ended(
        &mut self,
        list: &[u32],
        now: Vec<u8>,
        twice: &BTreeSet<u32>,
    ) -> Result<(), String> {
        if !now.starts_with(&self.content) {
            return Err(format!(
                "of {} bytes that were committed, some were changed or cut away; now {}",
                self.content.len(),
                now.len()
            ));
        }
        let (lines, torn) = parse(&now)?;
        if !torn.is_empty() {
            return Err(format!("the output ends in a torn line: {torn:?}"));
        }
        let mut seen = BTreeSet::new();
        for number in &lines {
            if !seen.insert(*number) && !twice.contains(number) {
                return Err(format!("{number} is in the output twice"));
            }
        }
        let is_there = |number: &u32| seen.contains(number) || self.elsewhere.contains(number);
        if let Some(lost) = list.iter().find(|number| !is_there(number)) {
            return Err(format!("{lost} is missing in the output"));
        }
        self.content = now;
        self.open = false;
        Ok(())
    }
}
