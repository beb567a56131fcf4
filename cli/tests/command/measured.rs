//! What `info` tells of the sample, and `create --no-sample`.

use crate::support::{Lab, distinct_lines};

fn info(lab: &Lab) -> (serde_json::Value, String) {
    let json = lab.run(&["info", "store", "--json"]).expect(0);
    let text = lab.run(&["info", "store"]).expect(0);
    (
        serde_json::from_slice(&json).unwrap(),
        String::from_utf8(text).unwrap(),
    )
}

#[test]
fn info_tells_how_often_a_store_was_wrong() {
    let lab = Lab::new();
    let create = ["create", "store", "--capacity", "250000", "--fpr", "0.4"];
    lab.run(&create).expect(0);
    let (json, text) = info(&lab);
    assert_eq!(json["measured"]["one_in"], 4096);
    assert!(text.contains("nothing yet: one key in 4,096"), "{text}");
    lab.run_on(&["add", "store"], &distinct_lines(240_000))
        .expect(0);
    let (json, text) = info(&lab);
    let measured = &json["measured"];
    let number = |field: &str, part: &str| measured[field][part].as_f64().unwrap();
    let lost = 240_000.0 - json["keys"].as_f64().unwrap();
    assert!(
        number("lost", "low") <= lost && lost <= number("lost", "high"),
        "{measured}"
    );
    assert!(measured["sampled"].as_u64().unwrap() > 20, "{measured}");
    assert!(text.contains("(95 %)"), "{text}");
}

#[test]
fn without_a_sample_nothing_is_told() {
    let lab = Lab::new();
    lab.run(&["create", "store", "--no-sample"]).expect(0);
    let (json, text) = info(&lab);
    assert!(json["measured"].is_null());
    assert!(!text.contains("measured"), "{text}");
}
