//! The page that `report` writes, as text and in a browser.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{Lab, distinct_lines, wait};

/// A store with its keys in the pages.
fn lab(create: &str) -> Lab {
    let lab = Lab::new();
    let args = format!("create store {create}");
    lab.run(&args.split_whitespace().collect::<Vec<_>>())
        .expect(0);
    lab.run_on(&["add", "store"], &distinct_lines(5000))
        .expect(0);
    lab
}

fn report(lab: &Lab, code: i32) -> String {
    let page = lab.run(&["report", "store"]).expect(code);
    String::from_utf8(page).expect("text")
}

/// Changes a byte of some pages.
fn damage(lab: &Lab, pages: &[usize]) {
    let mut bytes = fs::read(lab.path("store")).expect("a store");
    for page in pages {
        bytes[131_072 + page * 4096 + 2000] ^= 1;
    }
    lab.write("store", &bytes);
}

/// A picture's parts in a colour that stands for something.
fn count(page: &str, colour: &str) -> usize {
    page.matches(&format!("fill=\"{colour}\" ")).count()
}

#[test]
fn a_page_shows_each_kind_of_store_and_needs_nothing_else() {
    for (create, keys) in [
        ("--capacity 8k", "62.5 % of 8,000"),
        ("--capacity 8k --kind counting", "62.5 % of 8,000"),
        ("--transactional --kind scalable", "grows"),
    ] {
        let lab = lab(create);
        let page = report(&lab, 0);
        assert!(page.starts_with("<!doctype html>\n") && page.ends_with("</html>\n"));
        for part in [
            "<b>5,000</b>",
            keys,
            "target 1e-6",
            "<h2>Rate over growth</h2>",
            "<h2>Fill of pages</h2>",
            "<h2>Map of pages</h2>",
            "<h2>Layers</h2>",
            "<td>default</td>",
            "No process has it open.",
            "prefers-color-scheme: dark",
            "width=device-width",
            "<div class=\"card good\"><h2>Damaged pages</h2><b>0</b>",
        ] {
            assert!(page.contains(part), "{create}: no {part}");
        }
        assert_eq!(page.matches("<svg").count(), 3, "{create}");
        let elsewhere = page.replace("xmlns=\"http://www.w3.org/2000/svg\"", "");
        for part in [
            "http:",
            "https:",
            "<script",
            "@import",
            "url(",
            "could not be drawn",
        ] {
            assert!(!elsewhere.contains(part), "{create}: {part}");
        }
    }
    // One that has never had a key.
    let lab = Lab::new();
    lab.run(&["create", "store", "--capacity", "8k"]).expect(0);
    assert!(report(&lab, 0).contains("0.0 % of 8,000"));
}

#[test]
fn damaged_pages_are_counted_and_on_the_map() {
    let lab = lab("--capacity 8k");
    assert_eq!(count(&report(&lab, 0), "#090909"), 0);
    damage(&lab, &[0, 3, 4]);
    let page = report(&lab, 1);
    assert!(page.contains("<div class=\"card bad\"><h2>Damaged pages</h2><b>3</b>"));
    assert_eq!(count(&page, "#090909"), 3);
}

/// A page that has far more keys than chance gives it, with a good checksum: from a store of another's keys.
#[test]
fn pages_that_chance_does_not_make_stand_out() {
    // One store in some hundred thousand has a page that stands out by chance.
    let lab = lab(&format!("--capacity 8k --seed {}", "00".repeat(32)));
    let whole = report(&lab, 0);
    assert_eq!(count(&whole, "#070707"), 0);
    assert!(whole.contains("None is fuller or emptier than chance would make it."));
    damage(&lab, &[2]);
    // It is now taken for one with every key.
    lab.run(&["repair", "store", "--as", "seen"]).expect(0);
    let page = report(&lab, 0);
    assert_eq!(count(&page, "#070707"), 1);
    assert!(page.contains("1 is fuller and 0 are emptier"));
}

#[test]
fn a_name_is_text_and_no_markup() {
    let lab = Lab::new();
    lab.run(&["create", "<b>&'\".ever"]).expect(0);
    let page = lab.run(&["report", "<b>&'\".ever"]).expect(0);
    let page = String::from_utf8(page).expect("text");
    assert!(page.contains("<h1>&lt;b&gt;&amp;&#39;&quot;.ever</h1>"));
    assert!(!page.contains("<b>&'"));
}

#[test]
fn only_a_report_is_replaced() {
    let lab = lab("--capacity 8k");
    let args = ["report", "store", "-o", "report.html"];
    for _ in 0..2 {
        assert_eq!(lab.run(&args).expect(0), b"");
    }
    let page = fs::read_to_string(lab.path("report.html")).expect("a page");
    assert!(page.ends_with("</html>\n"));
    lab.write("notes", b"<!doctype html>\nmine\n");
    let message = "already exists and is not a report of `everseen report`; name another file";
    for name in ["notes", "store"] {
        lab.run(&["report", "store", "-o", name])
            .expect_error(&format!("{name}: {message}"));
    }
    assert_eq!(fs::read(lab.path("notes")).expect("notes").len(), 21);
    lab.run(&["report", "store", "-o", "store-log.1"])
        .expect_error("is a name that the store store uses for files of its own");
    lab.run(&["report", "none"]).expect_error("no such store");
}

#[cfg(target_os = "linux")]
/// To learn what is in it, a pipe would have to be read.
#[test]
fn a_pipe_under_a_name_gets_the_page() {
    let lab = lab("--capacity 8k");
    for name in ["/dev/stdout", "/dev/fd/1"] {
        let run = lab.start(&["report", "store", "-o", name]);
        let ran = run.wait_with_output().expect("it ran");
        assert!(ran.status.success(), "{ran:?}");
        assert!(ran.stdout.ends_with(b"</html>\n"));
    }
}

#[test]
fn processes_that_have_it_open_are_named() {
    let lab = lab("--transactional");
    let mut child = lab.start(&["dedup", "store"]);
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(b"new\n").expect("it reads");
    let mut line = String::new();
    let mut out = BufReader::new(child.stdout.take().expect("a pipe"));
    out.read_line(&mut line).expect("text");
    let page = report(&lab, 0);
    let row = format!("<td>{}</td><td>everseen</td>", child.id());
    assert!(page.contains(&row), "no {row}");
    drop(stdin);
    wait(child);
}

/// Lets a browser draw a page, and returns what it complained about.
fn browse(browser: &str, lab: &Lab, page: &Path, picture: &Path, options: &[&str]) -> Vec<String> {
    let output = Command::new(browser)
        .args([
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
        ])
        .arg("--enable-logging=stderr")
        .arg(format!("--user-data-dir={}", lab.path("browser").display()))
        .arg(format!("--screenshot={}", picture.display()))
        .args(options)
        .arg(format!("file://{}", page.display()))
        .output()
        .expect("it was there before");
    let text = String::from_utf8_lossy(&output.stderr);
    let lines = text.lines().filter(|line| line.contains("CONSOLE"));
    lines.map(str::to_owned).collect()
}

/// The pictures stay in the build's folder for temporary files, to be looked at.
#[cfg(unix)]
#[test]
fn a_browser_draws_it_without_a_complaint() {
    let browsers = ["chromium", "chromium-browser", "google-chrome"];
    let is_there = |browser: &&str| Command::new(browser).arg("--version").output().is_ok();
    let Some(browser) = browsers.into_iter().find(is_there) else {
        eprintln!("skipped: no browser here");
        return;
    };
    let lab = lab("--capacity 8k");
    damage(&lab, &[5]);
    lab.run(&["report", "store", "-o", "report.html"]).expect(1);
    let page = lab.path("report.html");
    let pictures = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let mut drawn = Vec::new();
    for (name, options) in [
        ("light", &["--window-size=900,2200"][..]),
        ("dark", &["--window-size=900,2200", "--force-dark-mode"]),
        ("phone", &["--window-size=500,2600"]),
    ] {
        let picture = pictures.join(format!("report-{name}.png"));
        let _ = fs::remove_file(&picture);
        assert_eq!(
            browse(browser, &lab, &page, &picture, options),
            [""; 0],
            "{name}"
        );
        drawn.push(fs::read(&picture).expect("a picture"));
        assert!(
            drawn.last().is_some_and(|bytes| bytes.len() > 20_000),
            "{name}"
        );
    }
    assert!(drawn[0] != drawn[1], "dark is as light");
    // It does complain of what the page forbids.
    let text = fs::read_to_string(&page).expect("a page");
    lab.write(
        "bad.html",
        text.replace("<main>", "<main><script>1</script>")
            .as_bytes(),
    );
    let complaints = browse(
        browser,
        &lab,
        &lab.path("bad.html"),
        &lab.path("bad.png"),
        &[],
    );
    assert!(!complaints.is_empty());
}
