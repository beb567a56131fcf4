//! Disks that are full, or smaller than what a run would like to have: a file system in memory, mounted where nobody
//! else sees it.
#![cfg(target_os = "linux")]

use std::process::Command;

use crate::support::Lab;

/// Runs a script of `sh` in a folder that has so much room; `everseen` is the binary. `None` if this computer lets
/// nobody mount one.
fn on_disk(size: &str, script: &str) -> Option<String> {
    let lab = Lab::new();
    std::fs::create_dir(lab.path("disk")).unwrap();
    let begin = format!(
        "mount -t tmpfs -o size={size} none disk && cd disk || exit 77
        everseen() {{ \"$EVERSEEN\" \"$@\"; }}\n"
    );
    let output = Command::new("unshare")
        .args(["--map-root-user", "--mount", "sh", "-c"])
        .arg(begin + script)
        .env("EVERSEEN", env!("CARGO_BIN_EXE_everseen"))
        .current_dir(lab.path(""))
        .output();
    let output = output.ok().filter(|output| {
        let told = String::from_utf8_lossy(&output.stderr);
        output.status.code() != Some(77) && !told.starts_with("unshare:")
    });
    let Some(output) = output else {
        eprintln!("skipped: no file system can be mounted here");
        return None;
    };
    let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert_eq!(output.status.code(), Some(0), "{said}");
    Some(said)
}

/// Whoever only reads needs no room, and a writer that has none says so.
#[test]
fn on_a_full_disk_nobody_dies() {
    let script = "
        everseen create a.ever --capacity 8M --fpr 0.01
        seq 100 | everseen add a.ever --buffer 1M || exit 1
        head -c 64M /dev/zero > fill 2>/dev/null
        seq 1000001 1003000 | everseen check a.ever > ../absent
        echo check $? $(wc -l < ../absent)
        everseen verify a.ever
        echo verify $?
        seq 1000 | everseen add a.ever --buffer 1M
        echo add $?
        # Room for side files, and for a part of the pages.
        truncate -s -3M fill
        seq 1000001 1300000 | everseen add a.ever --buffer 1M
        echo add more $?
        for left in a.ever-shm*; do test -e $left && echo left $left; done
        rm fill
        seq 1000001 1300000 | everseen add a.ever --buffer 1M
        seq 1000001 1300000 | everseen check a.ever > /dev/null
        echo again $?
        ls";
    let Some(said) = on_disk("16m", script) else {
        return;
    };
    let has = |line: &str| assert!(said.lines().any(|said| said == line), "{line}: {said}");
    // What only the run itself could use must not go on filling the disk.
    assert!(!said.contains("left a.ever"), "{said}");
    has("verify 0");
    has("add 2");
    has("add more 2");
    has("again 0");
    has("check 1 0");
    assert_eq!(
        said.matches("no space left on the disk").count(),
        2,
        "{said}"
    );
}

/// A buffer of the usual size has no room there: a smaller one does as well, unless it was asked for.
#[test]
fn on_a_small_disk_the_buffer_is_small() {
    let script = "
        seq 3001 | everseen dedup a.ever > ../new || exit 1
        echo new $(wc -l < ../new)
        seq 3005 | everseen dedup a.ever > ../new || exit 1
        echo later $(wc -l < ../new)
        seq 3001 4000 | everseen add a.ever --buffer 64M
        echo large $?
        ls a.ever*";
    let Some(said) = on_disk("24m", script) else {
        return;
    };
    let has = |line: &str| assert!(said.lines().any(|said| said == line), "{line}: {said}");
    has("new 3001");
    has("later 4");
    has("large 2");
    let error = said.lines().find(|line| line.starts_with("everseen: "));
    let error = error.unwrap();
    for part in ["a.ever-shm.", " of 29360128 bytes", "`--buffer`"] {
        assert!(error.contains(part), "{part}: {error}");
    }
}

/// A store's pages take room as they are first written, so one that is larger than the disk can be made, and fails late.
#[test]
fn a_store_that_the_disk_has_no_room_for_is_told_of() {
    let script = "
        everseen create fits.ever --capacity 100k
        everseen create bloom.ever --capacity 100M --json > ../json
        everseen create counts.ever --capacity 100M --kind counting
        everseen create layers.ever --capacity 100M --kind scalable
        everseen create grows.ever --grows-to 100M
        everseen dedup made.ever --capacity 100M < /dev/null
        everseen dedup made.ever --capacity 100M < /dev/null
        everseen dedup quiet.ever --capacity 100M -q < /dev/null
        cat ../json";
    let Some(said) = on_disk("16m", script) else {
        return;
    };
    let warned: Vec<_> = said
        .lines()
        .filter(|line| line.contains("warning"))
        .collect();
    let stores = ["bloom", "counts", "layers", "made"];
    assert_eq!(warned.len(), stores.len(), "{said}");
    for (store, warning) in stores.iter().zip(&warned) {
        let start = format!("everseen: warning: {store}.ever: takes ");
        assert!(warning.starts_with(&start), "{warning}");
        for part in [
            "iB once keys lie in all of its pages, and the disk has 1",
            " keys fill; make room, ",
        ] {
            assert!(warning.contains(part), "{part}: {warning}");
        }
    }
    // Of 88,900 pages some 4 % have keys when the disk is full: as many as there are keys, nearly.
    assert!(warned[0].contains("takes 347.3 MiB"), "{}", warned[0]);
    let keys = warned[0].split("which some ").nth(1);
    let keys = keys.and_then(|rest| rest.split(" keys").next());
    let keys: u64 = keys
        .expect("a number")
        .replace(',', "")
        .parse()
        .expect("one");
    assert!((2_500..=4_200).contains(&keys), "{keys}");
    // For programs.
    let start = said.find('{').expect("JSON");
    let made: serde_json::Value =
        serde_json::from_str(&said[start..=said.rfind('}').unwrap()]).unwrap();
    let [bytes, free] = ["bytes", "disk_free"].map(|field| made[field].as_u64().unwrap());
    assert!(free < 16 << 20 && bytes > 340 << 20, "{made}");
}

/// A store is open, and its buffer reserved, when the rest of the disk fills up. What was reserved is there for keys; where
/// their log has no room, none is promised.
#[test]
fn what_fills_the_disk_after_a_store_was_opened_ends_nobody() {
    // The first session has 2 MiB left for logs and pages, the other one nothing.
    let script = "
        mkfifo lines
        for left in 2M 0; do
            everseen dedup a.ever < lines > ../new 2> ../told &
            run=$!
            exec 3> lines
            until everseen info --json a.ever 2>&1 | grep -q 'buffer_bytes.: [0-9]'; do kill -0 $run || exit 1; done
            head -c 64M /dev/zero > fill 2>/dev/null
            test $left = 0 || truncate -s -$left fill
            case $left in 0) seq 100001 120000 >&3;; *) seq 20000 >&3;; esac
            exec 3>&-
            wait $run
            echo left $left $? $(wc -l < ../new)
            cat ../told
            rm fill
        done
        everseen verify a.ever || exit 1
        seq 20000 | everseen check a.ever | wc -l
        seq 100001 120000 | everseen dedup a.ever | wc -l";
    let Some(said) = on_disk("48m", script) else {
        return;
    };
    let has = |line: &str| assert!(said.lines().any(|said| said == line), "{line}: {said}");
    has("left 2M 0 20000");
    has("left 0 2 0");
    assert!(said.contains("no space left on the disk"), "{said}");
    let counts: Vec<_> = said.lines().rev().take(2).collect();
    assert_eq!(counts, ["20000"; 2], "{said}");
}
