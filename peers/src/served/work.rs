//! What the servers are asked to do.

use std::io::Write;

use everseen_benches::keys::hash;

use super::args::Args;
use super::load::Load;

/// The filter.
pub const KEY: &str = "k";
/// Bytes of an item.
pub const ITEM_BYTES: usize = 20;

/// A kind of command, and how it comes.
#[derive(Debug)]
pub struct Work {
    pub title: &'static str,
    pub command: &'static str,
    /// Items are new, in their order; else any of those that are there.
    pub adds: bool,
    pub connections: usize,
    /// Commands that a connection has under way.
    pub depth: u64,
    /// Items of a command.
    pub items: u64,
    /// Items in all, unless the time is over before.
    pub count: u64,
}

const fn add(title: &'static str, connections: usize, depth: u64, count: u64) -> Work {
    Work {
        title,
        command: "BF.ADD",
        adds: true,
        connections,
        depth,
        items: 1,
        count,
    }
}

const fn exists(title: &'static str, connections: usize, depth: u64, count: u64) -> Work {
    Work {
        command: "BF.EXISTS",
        adds: false,
        ..add(title, connections, depth, count)
    }
}

static FILLING: Work = Work {
    command: "BF.MADD",
    items: 1000,
    ..add("filling: MADD of 1,000, pipelines of 4", 1, 4, 0)
};

static ALL: [Work; 9] = [
    add("ADD, 1 connection", 1, 1, 20_000),
    add("ADD, 50 connections", 50, 1, 100_000),
    add("ADD, pipelines of 100", 1, 100, 200_000),
    Work {
        command: "BF.MADD",
        items: 1000,
        ..add("MADD of 1,000", 1, 1, 500_000)
    },
    Work {
        command: "BF.MADD",
        items: 1000,
        ..add("MADD of 1,000, 4 connections", 4, 1, 500_000)
    },
    exists("EXISTS, 1 connection", 1, 1, 20_000),
    exists("EXISTS, 50 connections", 50, 1, 100_000),
    exists("EXISTS, pipelines of 100", 1, 100, 200_000),
    Work {
        command: "BF.MEXISTS",
        items: 1000,
        ..exists("MEXISTS of 1,000", 1, 1, 500_000)
    },
];

/// All that is measured, and how much of it.
pub fn all(args: &Args) -> impl Iterator<Item = (&'static Work, Load)> {
    ALL.iter().map(|work| {
        let count = if args.quick {
            work.count / 50
        } else {
            work.count
        };
        (work, Load::new(work, count, args.longest))
    })
}

/// To begin with: as many keys, however long it takes.
pub fn filling(keys: u64) -> (&'static Work, Load) {
    (&FILLING, Load::new(&FILLING, keys, f64::INFINITY))
}

/// Keys that all rounds add at most.
pub fn growth(args: &Args) -> u64 {
    let once: u64 = all(args).map(|(work, load)| work.fresh(&load)).sum();
    once * args.rounds() * args.durabilities().len() as u64
}

impl Work {
    /// How many new numbers it takes.
    pub fn fresh(&self, load: &Load) -> u64 {
        if self.adds { load.count } else { 0 }
    }

    /// Appends the command for some items.
    pub fn write(&self, numbers: impl Iterator<Item = u64>, out: &mut Vec<u8>) {
        let words = 2 + self.items;
        let (name, key) = (self.command, KEY);
        // A buffer in memory takes all.
        let _ = write!(
            out,
            "*{words}\r\n${}\r\n{name}\r\n${}\r\n{key}\r\n",
            name.len(),
            key.len()
        );
        for number in numbers {
            let _ = write!(out, "${ITEM_BYTES}\r\n{}\r\n", item(number));
        }
    }

    /// Bytes of an answer: a digit for each item, each on its line, behind their number where there may be several.
    pub fn answer_bytes(&self) -> usize {
        let each = ":0\r\n".len();
        match self.items {
            1 => each,
            many => format!("*{many}\r\n").len() + each * many as usize,
        }
    }
}

/// The item of a number, as no two numbers have it.
pub fn item(number: u64) -> String {
    format!("item{:016x}", hash(number))
}
