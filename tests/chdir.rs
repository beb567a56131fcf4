//! A program that changes its folder while stores are open by relative paths. Alone in its process: the folder is all
//! threads'.

use std::path::Path;

use everseen::Verdict;
use everseen::testing::Options;

#[test]
fn a_store_that_was_opened_by_a_relative_path_stays_where_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let (here, there) = (folder.path().join("here"), folder.path().join("there"));
    std::fs::create_dir_all(&here).unwrap();
    std::fs::create_dir_all(&there).unwrap();
    std::env::set_current_dir(&here).unwrap();
    let options = Options::new()
        .capacity(100_000)
        .transactional(true)
        .measured(false)
        // No checkpoint goes on while the files are copied.
        .background(false)
        .buffer(everseen::testing::LEAST_BUFFER);
    let names = |folder: &Path| std::fs::read_dir(folder).unwrap().count();
    let key = |number: u64| number.to_le_bytes();
    let one = options.clone().writer("one").create("store").unwrap();
    let other = options.clone().writer("other").open("./store").unwrap();
    std::env::set_current_dir(&there).unwrap();
    for number in 0..20_000 {
        let (store, beside) = if number % 2 == 0 {
            (&one, &other)
        } else {
            (&other, &one)
        };
        assert_eq!(store.claim(key(number)).unwrap(), Verdict::New, "{number}");
        // A handle is not taken for dead because its name is not found from here.
        let verdict = beside.claim(key(number)).unwrap();
        assert_eq!(verdict, Verdict::Pending, "{number}");
        if number % 100 == 99 {
            one.commit().unwrap();
            other.commit().unwrap();
        }
    }
    assert_eq!(
        names(&there),
        0,
        "something was left where the process went"
    );
    one.commit().unwrap();
    other.commit().unwrap();
    // As a kill leaves them.
    let killed = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(&here).unwrap() {
        let entry = entry.unwrap();
        if !entry.file_name().to_string_lossy().contains("-shm") {
            std::fs::copy(entry.path(), killed.path().join(entry.file_name())).unwrap();
        }
    }
    for store in [&one, &other] {
        store.close().unwrap();
    }
    for path in [killed.path().join("store"), here.join("store")] {
        let store = options.open(&path).unwrap();
        assert!((0..20_000).all(|number| store.contains(key(number)).unwrap()));
        store.close().unwrap();
        assert_eq!(names(path.parent().unwrap()), 1);
    }
    std::env::set_current_dir("/").unwrap();
}
