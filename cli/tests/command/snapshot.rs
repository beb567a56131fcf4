//! `snapshot` and `apply`, beside others who write.

use std::fs;

use crate::support::{Lab, distinct_lines, feed, wait};

fn lines(from: usize, to: usize) -> Vec<u8> {
    let all = distinct_lines(to);
    let skip = all.split_inclusive(|byte| *byte == b'\n').take(from);
    let skip: usize = skip.map(<[u8]>::len).sum();
    all[skip..].to_vec()
}

#[test]
fn a_copy_is_made_kept_up_to_date_and_refused_when_it_must_be() {
    let lab = Lab::new();
    let create = ["create", "store", "--kind", "scalable", "--transactional"];
    lab.run(&create).expect(0);
    lab.run_on(&["dedup", "store"], &lines(0, 5000)).expect(0);
    let made = lab.run(&["snapshot", "store", "copy"]);
    assert!(made.err.contains("5,000 keys"), "{}", made.err);
    assert!(made.expect(0).is_empty());
    assert!(!lab.path("copy-lock").exists());
    lab.run(&["verify", "copy"]).expect(0);
    fs::copy(lab.path("copy"), lab.path("older")).expect("a copy of the copy");

    lab.run_on(&["dedup", "store"], &lines(5000, 7000))
        .expect(0);
    let delta = ["snapshot", "store", "delta", "--since", "copy"];
    let made = lab.run(&delta);
    assert!(made.err.contains(" pages, "), "{}", made.err);
    made.expect(0);
    lab.run(&delta).expect_error("already exists");
    let applied = lab.run(&["apply", "delta", "copy"]);
    assert!(applied.err.contains("7,000 keys"), "{}", applied.err);
    applied.expect(0);
    let again = lab.run(&["apply", "delta", "copy"]);
    assert!(again.err.contains("already"), "{}", again.err);
    again.expect(0);
    lab.run(&["verify", "copy"]).expect(0);
    lab.run_on(&["check", "-v", "copy"], &lines(0, 7000))
        .expect(1);

    lab.run(&["snapshot", "none", "copy2"])
        .expect_error("none: no such store; check the name");
    lab.run(&["snapshot", "store", "copy"])
        .expect_error("already exists");
    lab.run(&["snapshot", "store", "delta2", "--since", "store"])
        .expect_error("was not made by `everseen snapshot`");
    lab.run(&["apply", "store", "copy"])
        .expect_error("not a delta");
    lab.run(&["apply", "delta", "store"])
        .expect_error("was not made by `everseen snapshot`");
    let mut damaged = fs::read(lab.path("delta")).unwrap();
    let content = damaged.len() / 2;
    damaged[content] ^= 1;
    lab.write("damaged", &damaged);
    lab.run(&["apply", "damaged", "older"])
        .expect_error("content is damaged");
    lab.run(&["apply", "delta", "older"]).expect(0);
}

#[test]
fn a_copy_has_all_lines_that_two_processes_had_printed() {
    for kind in ["scalable", "fingerprint"] {
        copies_have_all_lines(kind);
    }
}

fn copies_have_all_lines(kind: &str) {
    let lab = Lab::new();
    lab.run(&["create", "store", "--fpr", "1e-3", "--kind", kind])
        .expect(0);
    let runs = [(0, 30_000), (30_000, 60_000)].map(|(from, to)| {
        let mut child = lab.start(&["add", "store"]);
        let feeder = feed(&mut child, lines(from, to));
        (child, feeder)
    });
    // However far they are: no copy is anything but whole, and keys never go.
    let mut keys = 0;
    for round in 0..4 {
        let copy = format!("copy{round}");
        lab.run(&["snapshot", "store", &copy]).expect(0);
        lab.run(&["verify", &copy]).expect(0);
        let info = crate::support::json(&lab.run(&["info", "--json", &copy]).expect(0));
        let now = info["keys"].as_u64().unwrap();
        assert!(now >= keys);
        keys = now;
    }
    for (child, feeder) in runs {
        drop(feeder.join());
        assert!(wait(child).0.success());
    }
    lab.run(&["snapshot", "store", "last"]).expect(0);
    lab.run_on(&["check", "-v", "last"], &lines(0, 60_000))
        .expect(1);
}

#[cfg(unix)]
#[test]
fn kills_and_signals_leave_store_and_copy_good() {
    use rustix::process::{Pid, Signal, kill_process};
    let lab = Lab::new();
    lab.run(&["create", "store", "--capacity", "2M", "--fpr", "1e-3"])
        .expect(0);
    lab.run_on(&["add", "store"], &lines(0, 2000)).expect(0);
    lab.run(&["snapshot", "store", "kept"]).expect(0);
    lab.run_on(&["add", "store"], &lines(2000, 4000)).expect(0);
    let mut random = fastrand::Rng::with_seed(7);
    for round in 0..8 {
        let signal = [Signal::KILL, Signal::INT][round % 2];
        let since = ["snapshot", "store", "made", "--since", "kept"];
        let args = &since[..if round % 4 < 2 { 3 } else { 5 }];
        let child = lab.start(args);
        for _ in 0..random.u32(0..2_000_000) {
            std::hint::spin_loop();
        }
        // It may be through already.
        let _ = kill_process(Pid::from_child(&child), signal);
        let (status, err) = wait(child);
        let made = lab.path("made").exists();
        assert!(made || !status.success(), "{err}");
        if signal == Signal::INT && status.code() == Some(130) {
            assert!(!made && !lab.path("made-part").exists(), "{err}");
        }
        lab.run_on(&["check", "-v", "store"], &lines(0, 4000))
            .expect(1);
        if made {
            fs::remove_file(lab.path("made")).unwrap();
        }
        lab.run(args).expect(0);
        fs::remove_file(lab.path("made")).unwrap();
    }
    lab.run(&["snapshot", "store", "delta", "--since", "kept"])
        .expect(0);
    lab.run(&["snapshot", "store", "whole"]).expect(0);
    for _ in 0..8 {
        fs::copy(lab.path("kept"), lab.path("copy")).unwrap();
        let mut child = lab.start(&["apply", "delta", "copy"]);
        for _ in 0..random.u32(0..2_000_000) {
            std::hint::spin_loop();
        }
        let _ = child.kill();
        wait(child);
        // It opens whole or is refused.
        let verified = lab.run(&["verify", "copy"]);
        if verified.code != Some(0) {
            verified.expect_error("a delta was applied only in part to this copy, from generation");
        }
        lab.run(&["apply", "delta", "copy"]).expect(0);
        let same = fs::read(lab.path("copy")).unwrap() == fs::read(lab.path("whole")).unwrap();
        assert!(same);
    }
}

/// Of a store of fingerprints too, with lines removed between the deltas.
#[test]
fn a_copy_of_fingerprints_is_kept_up_to_date() {
    let lab = Lab::new();
    let dedup = ["dedup", "--kind", "fingerprint", "store"];
    lab.run_on(&dedup, &lines(0, 5000)).expect(0);
    lab.run(&["snapshot", "store", "copy"]).expect(0);
    for (round, keys) in ["5,500 keys", "6,000 keys", "6,500 keys"]
        .into_iter()
        .enumerate()
    {
        let new = 5000 + round * 1000;
        lab.run_on(&dedup, &lines(new, new + 1000)).expect(0);
        let gone = lines(round * 500, round * 500 + 500);
        lab.run_on(&["remove", "store"], &gone).expect(0);
        let [delta, whole] = ["delta", "whole"].map(|name| format!("{name}{round}"));
        let made = lab.run(&["snapshot", "store", &delta, "--since", "copy"]);
        assert!(made.err.contains(" pages, "), "{}", made.err);
        made.expect(0);
        let applied = lab.run(&["apply", &delta, "copy"]);
        assert!(applied.err.contains(keys), "{keys}: {}", applied.err);
        applied.expect(0);
        lab.run(&["snapshot", "store", &whole]).expect(0);
        assert!(fs::read(lab.path("copy")).unwrap() == fs::read(lab.path(&whole)).unwrap());
        lab.run(&["verify", "copy"]).expect(0);
        lab.run_on(&["check", "copy"], &gone).expect(1);
    }
    let again = lab.run(&["apply", "delta0", "copy"]);
    again.expect_error("apply deltas in order, each once");
}

/// A backup that is protected from writing is copied like any other. Only root could write a copy that is protected as well.
#[test]
fn a_copy_of_a_protected_store_can_be_written() {
    use std::os::unix::fs::PermissionsExt;
    let lab = Lab::new();
    lab.run_on(&["dedup", "store"], b"a\n").expect(0);
    for (mode, expected) in [
        (0o444, 0o644),
        (0o440, 0o640),
        (0o400, 0o600),
        (0o660, 0o660),
    ] {
        let protected = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(lab.path("store"), protected).expect("it is ours");
        for args in [
            &["snapshot", "-q", "store", "copy"][..],
            &["union", "copy", "store"],
        ] {
            lab.run(args).expect(0);
            let copy = std::fs::metadata(lab.path("copy")).expect("a copy");
            assert_eq!(
                copy.permissions().mode() & 0o777,
                expected,
                "{args:?}, {mode:o}"
            );
            std::fs::remove_file(lab.path("copy")).expect("a copy");
        }
    }
}
