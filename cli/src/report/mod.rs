//! The page that `everseen report` writes: one file, no script, nothing from a network.

mod ages;
mod charts;
pub(crate) mod pages;

use everseen::{KeysByAge, Kind, Measured, Stats, VerifyReport};

use crate::commands::verify::damaged_pages;
use crate::output::format::{
    bits_per_key, bytes, hex, many, planned_for, plural, rate, thousands, utc,
};
use crate::process::openers::Opener;
use crate::report::pages::{Census, cell};

/// How each report begins.
pub const BEGINNING: &str = "<!doctype html>\n<html lang=\"en\">\n<!-- everseen report -->\n";

/// Among others a policy that forbids the page to load or run anything.
const HEAD: &str = include_str!("head.html");

const STYLE: &str = include_str!("style.css");

/// Everything that a report says.
pub struct Facts {
    pub name: String,
    pub stats: Stats,
    pub measured: Option<Measured>,
    pub by_age: Option<KeysByAge>,
    pub verified: VerifyReport,
    pub census: Census,
    /// Whether other processes have the store open, and those of them that this user may see.
    pub in_use: bool,
    pub openers: Option<Vec<Opener>>,
    pub on_disk: Option<u64>,
    /// Seconds since 1970.
    pub now: u64,
}

impl Facts {
    pub fn page(&self) -> String {
        let name = escaped(&self.name);
        let body = [
            self.head(),
            self.cards(),
            self.growth(),
            self.ages(),
            self.fill(),
            self.map(),
            self.layers(),
            self.commits(),
            self.users(),
        ]
        .concat();
        format!(
            "{BEGINNING}<head>\n{HEAD}<title>{name} – Everseen</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n\
             {body}<footer>Everseen {}, <code>everseen report</code></footer>\n</main>\n</body>\n</html>\n",
            env!("CARGO_PKG_VERSION")
        )
    }

    fn head(&self) -> String {
        let stats = &self.stats;
        let transactional = if stats.transactional {
            ", transactional"
        } else {
            ""
        };
        format!(
            "<header><h1>{}</h1>\n<p>{}{transactional}, hash {}, created {}. As of {}.<br><small>id {}</small></p></header>\n",
            escaped(&self.name),
            stats.kind,
            stats.hash,
            utc(stats.created),
            utc(self.now),
            hex(&stats.store_id),
        )
    }

    fn cards(&self) -> String {
        let stats = &self.stats;
        let share = 100.0 * stats.keys as f64 / stats.key_limit.max(1) as f64;
        let keys = match stats.capacity {
            Some(limit) if !self.has_layers() => format!("grows to {}", thousands(limit)),
            Some(_) => format!("{share:.1} % of {}", thousands(stats.key_limit)),
            None => "grows".to_owned(),
        };
        let on_disk = self
            .on_disk
            .map(|room| format!("{} on the disk", bytes(room)));
        let per_key = bits_per_key(stats.bytes, planned_for(stats), stats.keys);
        let size = Vec::from_iter([per_key, on_disk].into_iter().flatten()).join(", ");
        let target = format!("target {}", rate(stats.fpr_target));
        let mut cards = card("Keys", &thousands(stats.keys), &keys, "");
        let over = if stats.fpr_now > stats.fpr_target {
            "bad"
        } else {
            ""
        };
        cards += &card("False positive rate", &rate(stats.fpr_now), &target, over);
        cards += &card("Size", &bytes(stats.bytes), &size, "");
        let log = format!("{} in the log", bytes(stats.log_bytes));
        cards += &card("Generation", &thousands(stats.generation), &log, "");
        cards += &self.damage();
        if let Some(measured) = &self.measured {
            cards += &measured_card(measured, stats.fpr_target);
        }
        format!("<section class=\"cards\">{cards}</section>\n")
    }

    fn damage(&self) -> String {
        let report = &self.verified;
        let damaged = damaged_pages(report);
        let mut faults: Vec<String> = report.sections.iter().map(ToString::to_string).collect();
        faults.extend(
            report
                .superblock
                .iter()
                .map(|fault| format!("a superblock: {fault}")),
        );
        let of = format!("of {} read", thousands(report.pages));
        let said = match faults.is_empty() {
            true => of,
            false => format!("{of}; {}", faults.join("; ")),
        };
        let grade = if report.is_ok() { "good" } else { "bad" };
        card("Damaged pages", &thousands(damaged), &said, grade)
    }

    fn growth(&self) -> String {
        figure(
            "Rate over growth",
            "How often the store takes a new key for a seen one, by the number of keys it holds. The dot is today; the \
             dashed line is the target.",
            &charts::growth(&self.stats, cell(self.stats.kind)),
        )
    }

    fn ages(&self) -> String {
        match (&self.stats.forgetting, &self.by_age) {
            (Some(forgetting), Some(by_age)) => ages::section(forgetting, by_age),
            _ => String::new(),
        }
    }

    fn fill(&self) -> String {
        let layers = self.stats.layers.iter().zip(&self.census.layers);
        let largest = layers.enumerate().max_by_key(|(_, (layer, _))| layer.pages);
        let Some((number, (layer, pages))) = largest else {
            return String::new();
        };
        let which = match self.stats.layers.len() {
            1 => String::new(),
            _ => format!(" of layer {number}, the largest"),
        };
        let said = format!(
            "How full the {}. The line shows what chance makes of {}: {:.1} % on average. Keys in \
             the log are in no page yet.",
            match layer.pages {
                1 => format!("only page{which} is"),
                more => format!("{} pages{which} are", thousands(more)),
            },
            many(layer.keys, "key"),
            100.0 * pages.expected.mean,
        );
        figure("Fill of pages", &said, &charts::histogram(pages))
    }

    fn map(&self) -> String {
        if !self.has_layers() {
            return String::new();
        }
        let census = &self.census;
        let sum = |of: fn(&pages::Spot) -> u64| census.spots.iter().map(of).sum::<u64>();
        let (hot, cold) = (sum(|spot| spot.hot), sum(|spot| spot.cold));
        let each = match census.pages_a_spot {
            1 => "Each square is a page".to_owned(),
            pages => format!("Each square is {} pages", thousands(pages)),
        };
        let odd = match (hot, cold) {
            (0, 0) => "None is fuller or emptier than chance would make it".to_owned(),
            _ => format!(
                "{} {} fuller and {} {} emptier than chance would make them",
                thousands(hot),
                is_are(hot),
                thousands(cold),
                is_are(cold),
            ),
        };
        let said = format!("{each}, in the order of the file. {odd}.");
        let key = [
            ("empty", "never written"),
            ("fill1", "below 20 % set"),
            ("fill2", "20 to 40 %"),
            ("fill3", "40 to 60 %"),
            ("fill4", "above"),
            ("hot", "too full"),
            ("cold", "too empty"),
            ("damaged", "damaged"),
        ]
        .map(|(class, name)| format!("<span><i class=\"{class}\"></i>{name}</span>"));
        let picture = format!(
            "{}<p class=\"key\">{}</p>",
            charts::map(census),
            key.concat()
        );
        figure("Map of pages", &said, &picture)
    }

    /// Pages of fingerprints are packed to the brim, and lie in no layer: there is no fill to draw.
    fn has_layers(&self) -> bool {
        self.stats.kind != Kind::Fingerprint
    }

    fn layers(&self) -> String {
        if !self.has_layers() {
            return String::new();
        }
        let rows = self.stats.layers.iter().enumerate().map(|(number, layer)| {
            vec![
                number.to_string(),
                thousands(layer.capacity),
                thousands(layer.keys),
                thousands(layer.pages),
                layer.k.to_string(),
                format!("{:.1} %", 100.0 * layer.fill),
                rate(layer.fpr),
            ]
        });
        let head = ["layer", "capacity", "keys", "pages", "k", "fill", "rate"];
        table("Layers", &head, rows.collect())
    }

    fn commits(&self) -> String {
        let rows: Vec<_> = self
            .stats
            .commits
            .iter()
            .map(|commit| {
                let tag = commit.tag.escape_ascii().to_string();
                vec![commit.writer.clone(), thousands(commit.sequence), tag]
            })
            .collect();
        if rows.is_empty() {
            return section("Commits", "<p>None yet.</p>");
        }
        table("Commits", &["writer", "commits", "last tag"], rows)
    }

    fn users(&self) -> String {
        let rows: Vec<_> = self
            .openers
            .iter()
            .flatten()
            .map(|opener| vec![opener.id.to_string(), opener.name.clone()])
            .collect();
        if !rows.is_empty() {
            return table("Open in", &["process", "name"], rows);
        }
        let said = match (self.in_use, &self.openers) {
            (true, _) => "Processes that this user may not see have it open.",
            (false, Some(_)) => "No process has it open.",
            (false, None) => "This system does not tell.",
        };
        section("Open in", &format!("<p>{said}</p>"))
    }
}

fn measured_card(measured: &Measured, target: f64) -> String {
    let (value, grade) = match measured.false_positives {
        0 => ("none lost".to_owned(), ""),
        _ if measured.rate.low > target => (rate(measured.rate.estimate), "bad"),
        _ => (rate(measured.rate.estimate), ""),
    };
    let kept = measured.sampled + measured.false_positives;
    let kept = format!("{} key{}", thousands(kept), plural(kept));
    let said = match measured.false_positives {
        0 if measured.rate.high > target => {
            format!(
                "of {kept} in the sample: too few to measure {}",
                rate(target)
            )
        }
        0 => format!(
            "of {kept} in the sample: at most {} (95 %)",
            rate(measured.rate.high)
        ),
        lost => format!(
            "{} to {} (95 %): {} of {kept} in the sample lost",
            rate(measured.rate.low),
            rate(measured.rate.high),
            thousands(lost),
        ),
    };
    card("Measured rate", &value, &said, grade)
}

fn is_are(number: u64) -> &'static str {
    if number == 1 { "is" } else { "are" }
}

fn card(title: &str, value: &str, said: &str, grade: &str) -> String {
    format!(
        "<div class=\"card {grade}\"><h2>{title}</h2><b>{}</b><p>{}</p></div>\n",
        escaped(value),
        escaped(said)
    )
}

fn section(title: &str, inner: &str) -> String {
    format!("<section><h2>{title}</h2>\n{inner}\n</section>\n")
}

fn figure(title: &str, said: &str, picture: &str) -> String {
    section(title, &format!("<p>{}</p>\n{picture}", escaped(said)))
}

fn table(title: &str, head: &[&str], rows: Vec<Vec<String>>) -> String {
    let cells = |cells: Vec<String>, tag: &str| -> String {
        let cells = cells
            .iter()
            .map(|cell| format!("<{tag}>{}</{tag}>", escaped(cell)));
        format!("<tr>{}</tr>\n", cells.collect::<String>())
    };
    let head = cells(head.iter().map(|name| (*name).to_owned()).collect(), "th");
    let rows: String = rows.into_iter().map(|row| cells(row, "td")).collect();
    let inner = format!(
        "<div class=\"wide\"><table><thead>{head}</thead><tbody>{rows}</tbody></table></div>"
    );
    section(title, &inner)
}

/// Text as HTML shows it: names of files and tags of commits may hold anything.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe += "&amp;",
            '<' => safe += "&lt;",
            '>' => safe += "&gt;",
            '"' => safe += "&quot;",
            '\'' => safe += "&#39;",
            control if control.is_control() => safe.extend(control.escape_default()),
            other => safe.push(other),
        }
    }
    safe
}
