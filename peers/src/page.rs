//! What came of all sizes, as the page that others may cite: docs/peers.md.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use everseen_benches::numbers::median;

use crate::outcome::{Outcome, PHASES, Timed};
use crate::run::{Row, Size};
use crate::variants::Variant;

/// What is between these lines is written anew; the text around them stays as it is.
const BEGIN: &str = "<!-- peers -->\n";
const END: &str = "<!-- end -->";

/// Writes the tables into a page.
pub fn write(path: &Path, machine: &str, sizes: &[(Size, Vec<Row>)], rounds: u64) -> Result<()> {
    let page = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let Some((before, rest)) = page.split_once(BEGIN) else {
        bail!("{} has no line {BEGIN:?}", path.display());
    };
    let Some((_, after)) = rest.split_once(END) else {
        bail!("{} has no line {END:?}", path.display());
    };
    let tables = tables(machine, sizes, rounds);
    fs::write(path, format!("{before}{BEGIN}{tables}{END}{after}"))?;
    Ok(())
}

fn tables(machine: &str, sizes: &[(Size, Vec<Row>)], rounds: u64) -> String {
    let taken = match rounds {
        1 => "one round".to_owned(),
        rounds => format!("medians of {rounds} rounds"),
    };
    let mut page = format!("{machine}; {taken}.\n");
    page +=
        "\n| | after `kill -9` there is | safe from a power cut | processes |\n|---|---|---|---|\n";
    let variants = sizes.first().into_iter().flat_map(|(_, rows)| rows);
    for Variant {
        title,
        killed,
        durable,
        processes,
        ..
    } in variants.map(|row| row.variant)
    {
        page += &format!("| {title} | {killed} | {durable} | {processes} |\n");
    }
    for (size, rows) in sizes {
        let (keys, fpr) = (thousands(size.keys), size.fpr);
        page += &format!("\n### {keys} keys\n\nFilters are made for a rate of {fpr:e}.\n\n");
        page += "| | insert, ns | present, ns | absent, ns | bytes a key on disk, closed | memory, MiB |\n";
        page += "|---|---|---|---|---|---|\n";
        for row in rows {
            page += &format!("| {} | {} |\n", row.variant.title, cells(row).join(" | "));
        }
    }
    page
}

fn cells(row: &Row) -> Vec<String> {
    if let Some(reason) = &row.left_out {
        let mut cells = vec![String::new(); 5];
        cells[0].clone_from(reason);
        return cells;
    }
    let of = |value: &dyn Fn(&Outcome) -> f64| median(row.rounds.iter().map(value));
    let times = PHASES.iter().map(|(_, phase)| {
        let done = of(&|round| phase(round).done as f64);
        let is_stopped = row.rounds.iter().any(|round| phase(round).stopped());
        match (done, is_stopped) {
            (0.0, _) => "not tried".to_owned(),
            (_, true) => format!("{}, stopped", thousands(each(row, *phase))),
            (_, false) => thousands(each(row, *phase)),
        }
    });
    let mut cells: Vec<_> = times.collect();
    // What a stopped one has written is of no use.
    let is_whole = row.rounds.iter().all(|round| !round.insert.stopped());
    cells.push(match of(&|round| round.closed as f64) {
        0.0 => String::new(),
        _ if !is_whole => String::new(),
        closed => format!(
            "{:.1}",
            closed / of(&|round| round.insert.done.max(1) as f64)
        ),
    });
    cells.push(thousands(
        (of(&|round| round.peak as f64) / f64::from(1 << 20)) as u64,
    ));
    cells
}

/// Nanoseconds a key.
fn each(row: &Row, phase: fn(&Outcome) -> &Timed) -> u64 {
    median(row.rounds.iter().map(|round| phase(round).each())).round() as u64
}

/// A number with a comma before each three digits.
fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let comma = |at: usize| at > 0 && (digits.len() - at).is_multiple_of(3);
    let each = digits.char_indices();
    each.flat_map(|(at, digit)| comma(at).then_some(',').into_iter().chain([digit]))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::variants;

    #[test]
    fn a_page_keeps_its_text_and_tells_what_was_stopped() {
        let timed = |done| Timed {
            asked: 1000,
            done,
            nanoseconds: done * 1234,
            present: done,
        };
        let whole = Outcome {
            insert: timed(1000),
            present: timed(1000),
            absent: timed(1000),
            peak: 3 << 20,
            closed: 4500,
            ..Outcome::default()
        };
        let stopped = Outcome {
            insert: timed(500),
            ..Outcome::default()
        };
        let row = |at: usize, rounds: Vec<Outcome>, left_out| Row {
            variant: &variants::ALL[at],
            rounds,
            left_out,
        };
        let rows = vec![
            row(0, vec![whole], None),
            row(1, vec![stopped], None),
            row(2, Vec::new(), Some("takes too much".to_owned())),
        ];
        let size = Size::plain(1000, 1e-6);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("page.md");
        fs::write(&path, format!("before\n{BEGIN}old\n{END}\nafter\n")).unwrap();
        write(&path, "a machine", &[(size, rows)], 1).unwrap();
        let page = fs::read_to_string(&path).unwrap();
        assert!(
            page.starts_with("before\n") && page.ends_with(">\nafter\n"),
            "{page}"
        );
        for line in [
            "a machine; one round.",
            "| Everseen, batches | everything | at the end | any number, all write |",
            "### 1,000 keys",
            "| Everseen, batches | 1,234 | 1,234 | 1,234 | 4.5 | 3 |",
            "| Everseen, large batches | 1,234, stopped | not tried | not tried |  | 0 |",
            "| Everseen, batches, commits | takes too much |  |  |  |  |",
        ] {
            assert!(page.contains(&format!("{line}\n")), "{line}\n{page}");
        }
        assert!(!page.contains("old"));
        fs::write(&path, "no place").unwrap();
        assert!(write(&path, "a machine", &[], 1).is_err());
    }
}
