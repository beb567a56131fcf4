//! Who may use whom: modules, and the rooms of the engine, in one direction, and few files in a circle.

use super::imports::{imports, reached};
use super::{assert_holds, code_lines, sources};

/// A module may use those above it in this list, never those below; `error` may be used by all that
/// do I/O. `codec`, `escaped` and `sys` know nothing of the store.
const ORDER: [&[&str]; 15] = [
    &["codec", "escaped", "sys"],
    &["hash", "sizing"],
    &["page"],
    &["file", "memtable"],
    &["wal"],
    &["shm"],
    &["config"],
    &["storefile"],
    &["generation", "prefetch"],
    &["page_io"],
    &["bloom", "fingerprint"],
    &["filter"],
    &["engine"],
    &["api"],
    &["fuzzing", "stages", "testing"],
];

/// The rooms of `src/engine`: each may use those above it in this list, never those below.
const ROOMS: [&str; 9] = [
    "view",
    ENGINE,
    "read",
    "checkpoint",
    "write",
    "open",
    "backup",
    "check",
    "merge",
];
/// The room of the files that lie in `src/engine` itself.
const ENGINE: &str = "the engine";

/// Files that may import each other in a circle.
const LARGEST_CIRCLE: usize = 4;

/// The module of the library that a file belongs to.
fn module(path: &str) -> Option<&str> {
    let rest = path.strip_prefix("src/")?;
    let name = rest.split('/').next()?;
    Some(name.strip_suffix(".rs").unwrap_or(name))
}

fn level(module: &str) -> Option<usize> {
    ORDER.iter().position(|level| level.contains(&module))
}

fn arrows_go_one_way(path: &str, text: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    let Some(from) = module(path) else {
        return complaints;
    };
    let Some(own) = level(from) else {
        return complaints;
    };
    for (number, line) in code_lines(text) {
        for used in line.split("crate::").skip(1) {
            let end = used.find(|c: char| !c.is_alphanumeric() && c != '_');
            let used = &used[..end.unwrap_or(used.len())];
            let allowed = match level(used) {
                // Rigs' options are for tests, and for doors of the same kind.
                Some(_) if used == "testing" => is_of_tests(path, text, number) || own > 13,
                Some(level) => used == from || level < own,
                None => used != "error" || own >= 3,
            };
            if !allowed {
                complaints.push(format!("{path}:{number}: {from} may not use {used}"));
            }
        }
    }
    complaints
}

/// Whether a line is in the tests of a file, or in a file of tests.
fn is_of_tests(path: &str, text: &str, number: usize) -> bool {
    const FILES: [&str; 3] = ["/tests.rs", "overtaken.rs", "/one_fingerprint/"];
    let before = text.lines().take(number);
    FILES.iter().any(|file| path.contains(file))
        || before
            .into_iter()
            .any(|line| line.starts_with("#[cfg(") && line.contains("test"))
}

/// The room of the engine that a file belongs to.
fn room(path: &str) -> Option<usize> {
    let rest = path.strip_prefix("src/engine/")?;
    let name = rest.split_once('/').map_or(ENGINE, |(name, _)| name);
    ROOMS.iter().position(|room| *room == name)
}

/// The room that a path of an import, from `crate::engine::` on, leads to.
fn room_used(path: &str) -> Option<usize> {
    let name = path.split("::").next().unwrap_or("");
    let room = ROOMS.iter().position(|room| *room == name);
    room.or_else(|| ROOMS.iter().position(|room| *room == ENGINE))
}

fn rooms_import_downward(path: &str, text: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    let Some(own) = room(path) else {
        return complaints;
    };
    for (number, line) in code_lines(text) {
        for used in line.split("crate::engine::").skip(1) {
            if room_used(used).is_none_or(|used| used > own) {
                complaints.push(format!(
                    "{path}:{number}: {} reaches up: {line}",
                    ROOMS[own]
                ));
            }
        }
    }
    complaints
}

fn the_engine_is_opened_up_in_its_room_alone(path: &str, text: &str) -> Vec<String> {
    let outside = path.starts_with("src/") && path != "src/engine/mod.rs";
    let lines = code_lines(text).filter(|(_, line)| outside && line.starts_with("impl Engine"));
    lines
        .map(|(number, _)| format!("{path}:{number}: borrow the parts of the engine instead"))
        .collect()
}

#[test]
fn the_arrows_go_one_way() {
    assert_holds(arrows_go_one_way);
    let bad = arrows_go_one_way("src/page/mod.rs", "use crate::engine::Engine;");
    assert_eq!(bad, ["src/page/mod.rs:1: page may not use engine"]);
    let bad = arrows_go_one_way("src/sys/map.rs", "let e = crate::error::Error::Closed;");
    assert_eq!(bad, ["src/sys/map.rs:1: sys may not use error"]);
    let good = arrows_go_one_way("src/wal/mod.rs", "use crate::file::Layer;");
    assert!(good.is_empty());
    let testing = "use crate::testing::Options;";
    assert_eq!(arrows_go_one_way("src/engine/mod.rs", testing).len(), 1);
    let in_tests = format!("#[cfg(test)]\nmod tests {{\n{testing}");
    assert!(arrows_go_one_way("src/engine/mod.rs", &in_tests).is_empty());
}

#[test]
fn every_module_has_its_place_in_the_order() {
    for (path, _) in sources() {
        if let Some(module) = module(&path) {
            let known = level(module).is_some() || matches!(module, "lib" | "error");
            assert!(known, "{path}: name it in ORDER");
        }
    }
}

#[test]
fn rooms_of_the_engine_use_those_above_them() {
    assert_holds(rooms_import_downward);
    let up = "use crate::engine::write::guard::WriteGuard;";
    assert_eq!(rooms_import_downward("src/engine/view/mod.rs", up).len(), 1);
    assert!(rooms_import_downward("src/engine/open/create.rs", up).is_empty());
    let whole = "use crate::engine::Engine;";
    assert_eq!(
        rooms_import_downward("src/engine/view/mod.rs", whole).len(),
        1
    );
    assert!(rooms_import_downward("src/engine/read/mod.rs", whole).is_empty());
    for (path, _) in sources() {
        let known = !path.starts_with("src/engine/");
        assert!(
            known || room(&path).is_some(),
            "{path}: name its room in ROOMS"
        );
    }
}

#[test]
fn only_its_own_room_implements_the_engine() {
    assert_holds(the_engine_is_opened_up_in_its_room_alone);
    let text = "impl Engine {";
    assert!(the_engine_is_opened_up_in_its_room_alone("src/engine/mod.rs", text).is_empty());
    assert_eq!(
        the_engine_is_opened_up_in_its_room_alone("src/engine/read/point.rs", text).len(),
        1
    );
}

#[test]
fn few_files_import_each_other_in_a_circle() {
    let graph = imports();
    let from_api = reached(&graph, "api::store");
    assert!(
        from_api.contains("sys::storage"),
        "imports are not understood"
    );
    for file in graph.keys() {
        let circle: Vec<_> = reached(&graph, file)
            .into_iter()
            .filter(|other| reached(&graph, other).contains(file.as_str()))
            .collect();
        assert!(circle.len() <= LARGEST_CIRCLE, "{circle:?}");
    }
}
