//! What came of it, as a table in Markdown.

use std::time::Duration;

use super::Row;
use super::peers::ALL;
use super::stream::{STEPS, Stream};

/// The most that a key of Everseen may live, in thousandths of the window: a fifteenth longer, rounded up.
const OURS_AT_MOST: u64 = 1067;

/// What a step takes that ends before the next is due, or soon after, in thousandths of the window.
const IN_TIME: u64 = 1500 / STEPS;

/// Names the variants.
pub fn variants() {
    println!("| name | variant | a power cut leaves | how it is used |");
    println!("|---|---|---|---|");
    for variant in &ALL {
        println!(
            "| `{}` | {} | {} | {} |",
            variant.name, variant.title, variant.durable, variant.about
        );
    }
}

/// Tells of the stream.
pub fn stream(stream: &Stream, steps: u64, fpr: f64) {
    println!(
        "{} new names of 20 bytes, {} windows of {} steps, about {} keys alive; filters made for {fpr:e}\n",
        stream.fresh() * steps,
        steps / STEPS,
        STEPS,
        stream.accepted(),
    );
}

/// Prints the head of the table.
pub fn head() {
    println!(
        "| variant | a power cut leaves | known after kill -9 | under W, called new | forgotten at, × W: least, median, most | past W, called seen | false \"seen\" | memory, bytes a live key | disk | disk, closed | inserts, M/s | look-ups, M/s |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|");
}

/// Prints the line of a variant, as soon as it is known.
pub fn line(row: &Row) {
    println!("| {} |", cells(row).join(" | "));
}

/// Prints what a reader of the table must know besides.
pub fn legend(rows: &[Row], window: Duration) {
    println!("\nSteps are W / {STEPS}, so ages are that exact. \"Past W\" is from one to two W.");
    if rows.iter().any(|row| row.variant.is_server) {
        println!(
            "Redis goes by the system's clock, with a W of {} s; the others by the stream's.",
            window.as_secs_f64()
        );
    }
    for row in rows {
        let longest = row.outcome.longest_step;
        if longest > IN_TIME {
            println!(
                "{}: it fell behind. A step took up to {:.2} W, and ages are only that exact.",
                row.variant.title,
                longest as f64 / 1e3
            );
        }
        let left = row.outcome.never_forgotten;
        if left > 0 {
            println!("{}: {left} keys were not forgotten.", row.variant.title);
        }
        if row.asked == 0 {
            println!(
                "{}: all keys were past W when it was open again.",
                row.variant.title
            );
        }
    }
}

fn cells(row: &Row) -> Vec<String> {
    let outcome = &row.outcome;
    let live = outcome.live.max(1) as f64;
    let bytes = |bytes: u64| match bytes {
        0 => String::new(),
        bytes => format!("{:.1}", bytes as f64 / live),
    };
    let millions = |count: u64, ns: u64| format!("{:.2}", count as f64 * 1e3 / ns.max(1) as f64);
    let age = |thousandths: u64| format!("{:.2}", thousandths as f64 / 1e3);
    vec![
        row.variant.title.to_owned(),
        row.variant.durable.to_owned(),
        share(row.known, row.asked),
        share(outcome.lost, outcome.under),
        [outcome.age_least, outcome.age_median, outcome.age_most]
            .map(age)
            .join(", "),
        share(outcome.kept, outcome.past),
        format!("{} of {:.1e}", outcome.false_seen, outcome.never as f64),
        bytes(outcome.peak),
        bytes(outcome.disk),
        bytes(row.closed),
        millions(outcome.brought, outcome.brought_ns),
        millions(outcome.looked_up, outcome.looked_up_ns),
    ]
}

/// A share in percent, or as a count if it is that small. All and none are exact.
fn share(part: u64, whole: u64) -> String {
    match (part, whole) {
        (_, 0) => "–".to_owned(),
        (0, _) => "0".to_owned(),
        (part, whole) if part == whole => "100 %".to_owned(),
        (part, whole) => {
            let percent = part as f64 * 100.0 / whole as f64;
            match percent {
                0.01..99.99 => format!("{percent:.2} %"),
                _ => format!("{part} of {whole}"),
            }
        }
    }
}

/// Promises of this project that a row breaks.
pub fn broken(row: &Row) -> Vec<String> {
    let outcome = &row.outcome;
    let checks = [
        (outcome.under == 0, "no key came again under the window"),
        (outcome.lost > 0, "keys under the window were called new"),
        (outcome.age_least < 1000, "keys were forgotten too early"),
        (
            outcome.age_most > OURS_AT_MOST,
            "keys were forgotten too late",
        ),
        (outcome.never_forgotten > 0, "keys were not forgotten"),
        (row.asked == 0, "no key was looked for after the kill"),
        (row.known < row.asked, "a kill lost acknowledged keys"),
    ];
    let broken = checks.iter().filter(|(is_broken, _)| *is_broken);
    let broken = broken.filter(|_| row.variant.is_ours);
    broken
        .map(|(_, what)| format!("{}: {what}", row.variant.title))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::windows::outcome::Outcome;

    fn row(number: usize) -> Row {
        Row {
            variant: &ALL[number],
            outcome: Outcome {
                under: 10,
                age_least: 1000,
                age_most: 1067,
                ..Outcome::default()
            },
            asked: 5,
            known: 5,
            closed: 0,
        }
    }

    #[test]
    fn shares_are_exact_at_both_ends() {
        let told = [
            (0, 7),
            (7, 7),
            (1, 3),
            (1, 100_000),
            (99_999, 100_000),
            (1, 0),
        ];
        let told = told.map(|(part, whole)| share(part, whole));
        let expected = [
            "0",
            "100 %",
            "33.33 %",
            "1 of 100000",
            "99999 of 100000",
            "–",
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn a_broken_promise_is_told_of_ours_alone() {
        assert!(broken(&row(0)).is_empty());
        let breaks: [fn(&mut Row); 7] = [
            |row| row.outcome.under = 0,
            |row| row.outcome.lost = 1,
            |row| row.outcome.age_least = 999,
            |row| row.outcome.age_most = 1068,
            |row| row.outcome.never_forgotten = 1,
            |row| (row.asked, row.known) = (0, 0),
            |row| row.known = 4,
        ];
        for spoil in breaks {
            let (mut ours, mut other) = (row(0), row(3));
            spoil(&mut ours);
            spoil(&mut other);
            assert_eq!(broken(&ours).len(), 1);
            assert!(broken(&other).is_empty());
        }
    }
}
