//! What came of it, as tables in Markdown.

use everseen_benches::numbers::median;

use crate::list::Made;
use crate::outcome::{Outcome, PHASES};
use crate::run::{Row, Size};
use crate::variants;

/// Names the variants.
pub fn variants() {
    println!("| name | variant | a kill midway leaves | durable | how it is used |");
    println!("|---|---|---|---|---|");
    for variant in &variants::ALL {
        println!(
            "| `{}` | {} | {} | {} | {} |",
            variant.name, variant.title, variant.killed, variant.durable, variant.about
        );
    }
}

/// Tells of the keys.
pub fn keys(made: &Made) {
    println!("keys: {:.1} bytes each on average", made.mean());
    if made.left_out > 0 {
        println!("{} empty or repeated lines were left out", made.left_out);
    }
}

/// Tells what the next table is of.
pub fn size(size: &Size, rounds: u64) {
    println!();
    println!(
        "{} keys at a rate of {:e}, a classic filter of {}; Everseen's buffer {} MiB; {} look-ups of each kind; medians of {rounds} rounds",
        size.keys,
        size.fpr,
        bytes(size.filter_bytes()),
        size.buffer_mib,
        size.lookups,
    );
}

/// Prints a line for each variant. Ratios are medians of the rounds' own ratios.
pub fn table(rows: &[Row], against: &str, longest: u64) {
    let base = rows.iter().find(|row| row.variant.name == against);
    let base: &[Outcome] = base.map_or(&[], |row| &row.rounds);
    if rows.iter().all(|row| row.rounds.is_empty()) {
        return notes(rows, longest);
    }
    println!();
    println!(
        "| variant | durable | insert, ns | × | present, ns | × | absent, ns | × | peak MiB | MiB on disk | closed | written, bytes a key | false, inserting | false, absent |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|");
    for row in rows.iter().filter(|row| !row.rounds.is_empty()) {
        let rounds = &row.rounds;
        let mut cells = vec![row.variant.title.to_owned(), row.variant.durable.to_owned()];
        for (_, phase) in PHASES {
            if rounds.iter().any(|round| phase(round).done == 0) {
                cells.extend([String::new(), String::new()]);
                continue;
            }
            let each = median(rounds.iter().map(|round| phase(round).each()));
            let stopped = rounds.iter().any(|round| phase(round).stopped());
            cells.push(format!("{each:.0}{}", if stopped { " *" } else { "" }));
            let ratios = rounds
                .iter()
                .zip(base)
                .filter(|(_, base)| phase(base).done > 0)
                .map(|(round, base)| phase(round).each() / phase(base).each());
            let ratios: Vec<f64> = ratios.collect();
            cells.push(if ratios.is_empty() {
                String::new()
            } else {
                ratio(median(ratios))
            });
        }
        let of =
            |value: fn(&Outcome) -> u64| median(rounds.iter().map(|round| value(round) as f64));
        let room = |value: fn(&Outcome) -> u64| match of(value) {
            0.0 => String::new(),
            bytes => format!("{:.1}", mib(bytes as u64)),
        };
        cells.push(room(|round| round.peak));
        cells.push(room(|round| round.disk));
        cells.push(room(|round| round.closed));
        let written = |round: &Outcome| round.written as f64 / round.insert.done.max(1) as f64;
        cells.push(match median(rounds.iter().map(written)) {
            0.0 => String::new(),
            bytes => format!("{bytes:.0}"),
        });
        cells.push(of(|round| round.insert.present).to_string());
        cells.push(if rounds.iter().any(|round| round.absent.done == 0) {
            String::new()
        } else {
            of(|round| round.absent.present).to_string()
        });
        println!("| {} |", cells.join(" | "));
    }
    notes(rows, longest);
}

/// What a reader of the table must know besides.
fn notes(rows: &[Row], longest: u64) {
    let mut notes = Vec::new();
    for row in rows {
        let title = row.variant.title;
        if let Some(reason) = &row.left_out {
            notes.push(format!("Not run: {title}: {reason}."));
        }
        let stopped = row.rounds.iter().flat_map(|round| {
            let phases = PHASES.iter().map(|(name, phase)| (name, phase(round)));
            phases.filter(|(_, timed)| timed.stopped())
        });
        if let Some((name, timed)) = stopped.into_iter().next() {
            notes.push(format!(
                "\\* {title}: stopped in \"{name}\" after {longest} s, at {} keys of {}.",
                timed.done, timed.asked
            ));
        }
        let lost: u64 = row.rounds.iter().map(Outcome::lost).sum();
        if lost > 0 {
            notes.push(format!(
                "WRONG: {title} called {lost} keys absent that it had been given."
            ));
        }
    }
    if !notes.is_empty() {
        println!();
    }
    for note in notes {
        println!("{note}");
    }
}

/// Bytes with a fitting unit.
pub fn bytes(bytes: u64) -> String {
    match mib(bytes) {
        mib @ ..1024.0 => format!("{mib:.1} MiB"),
        mib => format!("{:.1} GiB", mib / 1024.0),
    }
}

pub fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Three digits, or as many as there are before the point.
fn ratio(value: f64) -> String {
    let digits = match value {
        ..1.0 => 3,
        1.0..10.0 => 2,
        10.0..100.0 => 1,
        _ => 0,
    };
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_a_unit() {
        assert_eq!(bytes(36 << 20), "36.0 MiB");
        assert_eq!(bytes(3 << 29), "1.5 GiB");
    }

    #[test]
    fn ratios_have_three_digits() {
        let told: Vec<_> = [0.5, 1.0, 9.5, 12.34, 999.6].map(ratio).into();
        assert_eq!(told, ["0.500", "1.00", "9.50", "12.3", "1000"]);
    }
}
