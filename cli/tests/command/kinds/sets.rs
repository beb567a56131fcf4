//! Stores of kind fingerprint as sets: `union`, `intersect`, `difference`, and what they would have.

use crate::support::{Lab, json};

fn lab() -> Lab {
    let lab = Lab::new();
    lab.run(&["create", "mon", "--kind", "fingerprint"])
        .expect(0);
    lab.run(&["create", "tue", "--like", "mon"]).expect(0);
    lab.run_on(&["add", "mon"], b"a\nb\nc\n").expect(0);
    lab.run_on(&["add", "tue"], b"b\nc\nd\n").expect(0);
    lab
}

#[test]
fn the_operations_of_sets_make_stores() {
    let lab = lab();
    for (operation, kept, count) in [
        ("union", "a\nb\nc\nd\n", "4 keys\n"),
        ("intersect", "b\nc\n", "2 keys\n"),
        ("difference", "a\n", "1 key\n"),
    ] {
        let counted = lab.run(&[operation, "--count", "mon", "tue"]).expect(0);
        assert_eq!(String::from_utf8_lossy(&counted), count);
        let counted = lab
            .run(&[operation, "--count", "--json", "mon", "tue"])
            .expect(0);
        let keys = json(&counted)["keys"].as_u64().unwrap();
        assert_eq!(keys, kept.lines().count() as u64);
        lab.run(&[operation, operation, "mon", "tue"]).expect(0);
        let seen = lab
            .run_on(&["check", operation], b"a\nb\nc\nd\ne\n")
            .expect(0);
        assert_eq!(String::from_utf8_lossy(&seen), kept, "{operation}");
        lab.run(&["verify", operation]).expect(0);
    }
}

#[test]
fn what_is_no_set_is_refused() {
    let lab = lab();
    lab.run(&["create", "bits", "--capacity", "100"]).expect(0);
    let expected = "only stores of kind fingerprint can be intersected";
    lab.run(&["intersect", "out", "bits", "bits"])
        .expect_error(expected);
    let expected = "only stores of kind fingerprint can be counted together";
    lab.run(&["union", "--count", "bits"])
        .expect_error(expected);
    // There is no result that could be like this.
    for option in ["--fpr=0.5", "--transactional", "--no-transactional"] {
        let ran = lab.run(&["union", "--count", option, "mon", "tue"]);
        assert_eq!(ran.code, Some(2));
        assert!(ran.err.contains("cannot be used with"), "{}", ran.err);
    }
    lab.run(&["create", "other", "--kind", "fingerprint"])
        .expect(0);
    lab.run(&["union", "out", "mon", "other"])
        .expect_error("seed");
    let larger = ["create", "larger", "--like", "mon", "--times", "2"];
    lab.run(&larger).expect_error("1 for a store that grows");
}
