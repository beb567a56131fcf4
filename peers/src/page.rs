//! What came of all sizes, as the page that others may cite: docs/peers.md.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use everseen_benches::numbers::{grouped, median};

use crate::outcome::{Outcome, PHASES, Timed};
use crate::report::mib;
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
        let (keys, fpr) = (grouped(size.keys as f64), size.fpr);
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
    let of = |value: fn(&Outcome) -> f64| median(row.rounds.iter().map(value));
    let times = PHASES.iter().map(|(_, phase)| {
        let rounds = row.rounds.iter().map(phase);
        let each = grouped(median(rounds.clone().map(Timed::each)));
        match (
            rounds.clone().any(Timed::stopped),
            rounds.clone().all(|timed| timed.done == 0),
        ) {
            (_, true) => "not tried".to_owned(),
            (true, _) => format!("{each}, stopped"),
            (false, _) => each,
        }
    });
    let mut cells: Vec<_> = times.collect();
    // What a stopped one has written says nothing of its size.
    let is_whole = row.rounds.iter().all(|round| !round.insert.stopped());
    let bytes = of(|round| round.closed as f64 / round.insert.asked.max(1) as f64);
    let has_file = is_whole && bytes > 0.0;
    cells.push(if has_file {
        format!("{bytes:.1}")
    } else {
        String::new()
    });
    cells.push(grouped(of(|round| mib(round.peak))));
    cells
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
