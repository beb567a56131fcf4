//! Four processes on one store, one of which dies at a checkpoint.

use everseen::Kind;

use super::model::Model;
use super::parent::{CLOSED, Process, names};
use super::task::{Counted, Task, Told, Work};
use crate::support::share::all_some_or;
use crate::support::unsynced::Unsynced;

/// Keys that the three claim; the one that dies claims the next 950.
const KEYS: u64 = 1 << 15;
const VICTIMS: u64 = 950;
/// The one that dies.
const VICTIM: usize = 3;

/// One of four dies at the `stop`th of its points of writing pages; answers whether it came so far.
fn round(kind: Kind, transactional: bool, stop: u64) -> bool {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let task = Task::new(kind, transactional, KEYS, &path);
    let options = match kind {
        Kind::Bloom | Kind::Fingerprint => task.options().capacity(KEYS + KEYS / 4),
        _ => task.options(),
    };
    let options = options.writer("parent").storage(Unsynced::new());
    options.create(&path).unwrap().close().unwrap();
    let mut model = Model::new(transactional, KEYS + VICTIMS, 4);
    let others = [0, 1, 2].map(|slot| {
        let (process, mut lines) = Process::start(&Task {
            slot,
            seed: slot as u64,
            ..task.clone()
        });
        let opened = lines.wait_for(|told| matches!(told, Told::Opened(_)));
        model.note(slot, opened);
        (process, lines)
    });
    // Nobody reads what the three tell: none comes to an end before its pipe is full.
    let (mut victim, lines) = Process::start(&Task {
        slot: VICTIM,
        work: Work::Script,
        stop: Some((Counted::Pages, stop)),
        ..task.clone()
    });
    lines.for_each(|told| model.note(VICTIM, told));
    model.gone(VICTIM);
    let died = victim.ended_by(6);
    let reading = others.map(|(mut process, lines)| {
        std::thread::spawn(move || {
            let told: Vec<_> = lines.collect();
            assert!(process.wait().success());
            told
        })
    });
    for (slot, reading) in reading.into_iter().enumerate() {
        let told = reading.join().unwrap();
        assert_eq!(told.last(), Some(&Told::End));
        // It went on long after the death.
        assert!(told.len() > 20, "{}", told.len());
        told.into_iter().for_each(|told| model.note(slot, told));
    }
    let won = model.acknowledged();
    let theirs = won.iter().copied().take_while(|key| *key < KEYS);
    assert!(theirs.eq(0..KEYS));
    // The checkpoint that the dead one was at has come to its end: neither log nor buffer is left.
    assert_eq!(names(&path), CLOSED);
    let store = options.open(&path).unwrap();
    model.check(&store);
    let report = store.verify().unwrap();
    assert!(report.is_ok(), "{:?}", report.damaged);
    died
}

#[test]
#[cfg_attr(everseen_portable, ignore = "processes share a store on Linux alone")]
fn when_one_of_four_dies_at_a_checkpoint_the_others_finish_it_and_go_on() {
    let mut deaths = 0;
    for kind in [Kind::Bloom, Kind::Scalable, Kind::Fingerprint] {
        for transactional in [false, true] {
            for stop in all_some_or(&[0, 1, 2, 3, 5, 8, 13][..], &[0, 1, 3, 8], &[0, 3]) {
                println!("{kind}, transactional {transactional}, point {stop}");
                deaths += u64::from(round(kind, transactional, *stop));
            }
        }
    }
    // Another may be quicker to begin the checkpoint.
    assert!(deaths > all_some_or(4, 1, 0), "{deaths}");
    eprintln!("{deaths} deaths survived by three");
}
