//! What came of it, as a table in Markdown.

use everseen_benches::numbers::{grouped, median};

use super::args::Durability;
use super::load::Done;
use super::work::Work;

/// What a figure counts, and whether more of it is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    PerSecond,
    Mebibytes,
    Milliseconds,
}

/// A line: one or two figures, and what to add about each.
pub struct Row {
    durability: Option<Durability>,
    title: String,
    unit: Unit,
    figures: Vec<f64>,
    /// The median of the rounds' ratios, Everseen's to Redis'.
    ratio: Option<f64>,
    /// In microseconds: half of all waits are within this, and 99 of 100.
    waits: Vec<[f64; 2]>,
}

impl Row {
    pub fn of_rounds(durability: Durability, work: &Work, rounds: &[Vec<Done>]) -> Self {
        let servers = rounds.first().map_or(0, Vec::len);
        let of = |server: usize| rounds.iter().map(move |round| &round[server]);
        let wait = |server: usize, percent: f64| {
            let microseconds = |done: &Done| {
                let within = done.waits.percentile(percent);
                within.unwrap_or(done.waits.max()) as f64 / 1e3
            };
            median(of(server).map(microseconds))
        };
        Row {
            durability: Some(durability),
            title: work.title.to_owned(),
            unit: Unit::PerSecond,
            figures: (0..servers)
                .map(|server| median(of(server).map(Done::rate)))
                .collect(),
            ratio: (servers == 2)
                .then(|| median(rounds.iter().map(|round| round[0].rate() / round[1].rate()))),
            waits: (0..servers)
                .map(|server| [wait(server, 50.0), wait(server, 99.0)])
                .collect(),
        }
    }

    pub fn of_figures(title: &str, unit: Unit, figures: Vec<f64>) -> Self {
        Row {
            durability: None,
            title: title.to_owned(),
            unit,
            ratio: match *figures {
                [ours, theirs] => Some(ours / theirs),
                _ => None,
            },
            figures,
            waits: Vec::new(),
        }
    }
}

/// Prints the head of the table.
pub fn head(has_redis: bool) {
    let redis = if has_redis {
        " Redis | × | Redis waits, µs |"
    } else {
        ""
    };
    println!("| keys | durable | what | Everseen | waits, µs |{redis}");
    println!(
        "|---|---|---|---|---|{}",
        if has_redis { "---|---|---|" } else { "" }
    );
}

/// Prints a line, as soon as it is known.
pub fn line(keys: u64, row: &Row) {
    let durable = row.durability.map_or("", |durability| match durability {
        Durability::Off => "off",
        Durability::No => "no",
        Durability::Second => "second",
        Durability::Always => "always",
    });
    let mut cells = vec![grouped(keys as f64), durable.to_owned(), row.title.clone()];
    for (server, figure) in row.figures.iter().enumerate() {
        cells.push(match row.unit {
            Unit::PerSecond => format!("{}/s", grouped(*figure)),
            Unit::Mebibytes => format!("{figure:.1} MiB"),
            Unit::Milliseconds => format!("{figure:.1} ms"),
        });
        if server == 1 {
            cells.push(
                row.ratio
                    .map_or(String::new(), |ratio| format!("{ratio:.2}")),
            );
        }
        cells.push(row.waits.get(server).map_or(String::new(), |[half, most]| {
            format!("{}, {}", grouped(*half), grouped(*most))
        }));
    }
    println!("| {} |", cells.join(" | "));
}

/// Prints what a reader of the table must know besides.
pub fn legend() {
    println!(
        "\nItems a second, medians of the rounds, and the median of each round's ratio, Everseen's to Redis': above 1 is faster, or more memory. \
         Waits are from a connection's commands to their last answer: half of them within the first, 99 of 100 within the second. \
         \"off\" is Redis without a log, beside Everseen's \"no\"."
    );
}
