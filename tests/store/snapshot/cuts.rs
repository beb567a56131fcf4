//! Power cuts while a delta is applied, and while a copy is made: of what was not synced each sector is old or new.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use everseen::testing::storage::{Storage, StorageFile, disk};
use everseen::testing::{Map, Options};
use everseen::{Error, FormatError, Kind};

use super::setting::{KINDS, assert_same, assert_whole, insert, options, store};
use crate::support::files::{beside, place};
use crate::support::numbers::Random;

/// What was done to the one file that matters.
#[derive(Debug, Clone)]
enum Event {
    Write { offset: usize, bytes: Vec<u8> },
    SetLength(usize),
    Sync,
}

/// The disk, with a tape of what is done to one file.
#[derive(Debug)]
struct Recorder {
    path: PathBuf,
    tape: Arc<Mutex<Vec<Event>>>,
}

impl Recorder {
    fn file(&self, file: Arc<dyn StorageFile>, path: &Path) -> Arc<dyn StorageFile> {
        match path == self.path {
            true => Arc::new(File {
                file,
                tape: Arc::clone(&self.tape),
            }),
            false => file,
        }
    }
}

impl Storage for Recorder {
    fn create_new(&self, path: &Path) -> io::Result<Arc<dyn StorageFile>> {
        disk().create_new(path).map(|file| self.file(file, path))
    }
    fn open(&self, path: &Path, write: bool) -> io::Result<Arc<dyn StorageFile>> {
        disk().open(path, write).map(|file| self.file(file, path))
    }
    fn publish(&self, from: &Path, to: &Path) -> io::Result<()> {
        disk().publish(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        disk().remove(path)
    }
    fn sync_folder(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }
    fn exists(&self, path: &Path) -> io::Result<bool> {
        disk().exists(path)
    }
}

#[derive(Debug)]
struct File {
    file: Arc<dyn StorageFile>,
    tape: Arc<Mutex<Vec<Event>>>,
}

impl File {
    fn note(&self, event: Event) {
        self.tape.lock().unwrap().push(event);
    }
}

impl StorageFile for File {
    fn length(&self) -> io::Result<u64> {
        self.file.length()
    }
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(bytes, offset)
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let written = self.file.write_at(bytes, offset)?;
        self.note(Event::Write {
            offset: offset as usize,
            bytes: bytes[..written].to_vec(),
        });
        Ok(written)
    }
    fn set_length(&self, length: u64) -> io::Result<()> {
        self.note(Event::SetLength(length as usize));
        self.file.set_length(length)
    }
    fn allocate(&self, length: u64) -> io::Result<()> {
        self.file.allocate(length)
    }
    fn sync(&self) -> io::Result<()> {
        self.note(Event::Sync);
        Ok(())
    }
    fn map(&self, offset: u64, length: u64) -> io::Result<Map> {
        self.file.map(offset, length)
    }
}

/// What the disk may hold after a cut behind so many events: what was synced, and of the rest what chance kept. With
/// `lost`, a sync that did nothing.
fn image(
    before: &[u8],
    tape: &[Event],
    cut: usize,
    lost: Option<usize>,
    random: &mut Random,
) -> Vec<u8> {
    let is_sync =
        |(index, event): (usize, &Event)| matches!(event, Event::Sync) && lost != Some(index);
    let events = tape[..cut].iter().enumerate();
    let synced = events.clone().rfind(|event| is_sync(*event));
    let synced = synced.map_or(0, |(index, _)| index);
    let most = random.below(9);
    let mut bytes = before.to_vec();
    for (index, event) in events {
        let keeps = |random: &mut Random| index < synced || random.below(8) < most;
        match event {
            Event::Sync => {}
            Event::SetLength(length) => {
                if keeps(random) {
                    bytes.resize(*length, 0);
                }
            }
            Event::Write {
                offset,
                bytes: written,
            } => {
                let mut from = 0;
                while from < written.len() {
                    let at = offset + from;
                    let to = (from + 512 - at % 512).min(written.len());
                    if keeps(random) {
                        let end = offset + to;
                        bytes.resize(bytes.len().max(end), 0);
                        bytes[at..end].copy_from_slice(&written[from..to]);
                    }
                    from = to;
                }
            }
        }
    }
    bytes
}

struct Setting {
    _folder: tempfile::TempDir,
    kind: Kind,
    old: PathBuf,
    new: PathBuf,
    delta: PathBuf,
}

/// Of a growing store, the second layer is begun by the delta, with keys in few of its pages. Of one of segments, the new
/// ones lie where the old ones were, and behind them is free room.
fn setting(kind: Kind) -> Setting {
    let options = match kind {
        Kind::Scalable => options(kind).growth(16),
        _ => options(kind),
    };
    let (folder, path, store) = store(&options, 0..1000);
    let [old, new, delta] = ["-old", "-new", "-delta"].map(|name| beside(&path, name));
    store.snapshot(&old).unwrap();
    insert(&store, 1000..4000);
    store.checkpoint().unwrap();
    let last = match kind {
        Kind::Fingerprint => 12_000,
        _ => 4005,
    };
    insert(&store, 4000..last);
    store.snapshot_since(&delta, &old).unwrap();
    store.snapshot(&new).unwrap();
    Setting {
        _folder: folder,
        kind,
        old,
        new,
        delta,
    }
}

/// Applies the delta to a copy with these bytes, and answers the tape.
fn record(setting: &Setting, before: &[u8]) -> Vec<Event> {
    let (_work, copy) = place();
    fs::write(&copy, before).unwrap();
    let tape: Arc<Mutex<Vec<Event>>> = Arc::default();
    let recorder = Recorder {
        path: copy.clone(),
        tape: Arc::clone(&tape),
    };
    let options = options(setting.kind).storage(Arc::new(recorder));
    options.apply(&setting.delta, &copy).unwrap();
    assert_same(&copy, &setting.new);
    tape.lock().unwrap().clone()
}

/// What is wrong with what a cut has left, if anything is; and whether it is half applied.
fn judge(setting: &Setting, image: &[u8]) -> Result<bool, String> {
    let (_work, copy) = place();
    fs::write(&copy, image).unwrap();
    let half = match Options::new().open_read_only(&copy) {
        Ok(opened) => {
            let verified = opened.verify().map_err(|error| error.to_string())?;
            if !verified.is_ok() {
                return Err(format!("{} pages damaged", verified.damaged.len()));
            }
            let keys = opened.stats().unwrap().keys;
            let whole = |path: &Path| {
                let whole = Options::new().open_read_only(path).unwrap();
                (whole.stats().unwrap().keys, path.to_owned())
            };
            let (_, same) = [whole(&setting.old), whole(&setting.new)]
                .into_iter()
                .find(|(count, _)| *count == keys)
                .ok_or("neither the old keys nor the new ones")?;
            let twin = fs::read(same).unwrap();
            let differs = |(a, b): (&u8, &u8)| a != b;
            let pages = 131_072..twin.len();
            if image.len() < twin.len()
                || image[pages.clone()].iter().zip(&twin[pages]).any(differs)
            {
                return Err("opens, and its pages are of neither moment".to_owned());
            }
            false
        }
        Err(Error::Format {
            source: FormatError::HalfApplied { .. },
            ..
        }) => true,
        Err(error) => return Err(format!("does not open: {error}")),
    };
    let applied = options(setting.kind).apply(&setting.delta, &copy);
    applied.map_err(|error| format!("can't be applied again: {error}"))?;
    if fs::read(&copy).unwrap() != fs::read(&setting.new).unwrap() {
        return Err("applied again it is not the new one".to_owned());
    }
    Ok(half)
}

const IMAGES: u64 = 6;
const SEED: u64 = 5;

fn seed() -> u64 {
    let told = std::env::var("EVERSEEN_SEED").ok();
    let seed = told.and_then(|seed| seed.parse().ok()).unwrap_or(SEED);
    println!("EVERSEEN_SEED={seed}");
    seed
}

#[test]
fn no_power_cut_leaves_a_copy_that_is_neither_nor() {
    let mut random = Random::new(seed());
    for kind in KINDS {
        let setting = setting(kind);
        let before = fs::read(&setting.old).unwrap();
        let tape = record(&setting, &before);
        let (mut half, mut images) = (0, 0);
        for cut in 0..=tape.len() {
            for _ in 0..IMAGES {
                let left = image(&before, &tape, cut, None, &mut random);
                let judged = judge(&setting, &left);
                half += u64::from(judged.unwrap_or_else(|wrong| panic!("cut {cut}: {wrong}")));
                images += 1;
                // And cut again while that is seen to.
                if random.below(8) == 0 {
                    let tape = record(&setting, &left);
                    let cut = random.below(tape.len() as u64 + 1) as usize;
                    let left = image(&left, &tape, cut, None, &mut random);
                    judge(&setting, &left).unwrap_or_else(|wrong| panic!("second cut: {wrong}"));
                }
            }
        }
        assert!(half > images / 10, "{half} of {images} images were half");
    }
}

#[test]
fn each_sync_of_applying_is_needed() {
    for kind in [Kind::Scalable, Kind::Fingerprint] {
        need_each_sync(&setting(kind));
    }
}

fn need_each_sync(setting: &Setting) {
    let mut before = fs::read(&setting.old).unwrap();
    // What an interrupted checkpoint may leave behind the layers.
    before.extend_from_slice(&[7; 300_000]);
    let tape = record(setting, &before);
    let syncs: Vec<_> = (0..tape.len())
        .filter(|index| matches!(tape[*index], Event::Sync))
        .collect();
    // The last one makes it durable that all is done, which is all that would be missed.
    let (last, mut needed) = syncs.split_last().unwrap();
    assert_eq!(*last, tape.len() - 1);
    assert_eq!(needed.len(), 4);
    if setting.kind == Kind::Fingerprint {
        // The first one makes the file's length durable. What lay behind its end is no blank page of a layer here: it is
        // written over, or zeroed.
        needed = &needed[1..];
    }
    for sync in needed {
        let mut random = Random::new(seed());
        let missed = (0..40).any(|_| {
            (*sync + 1..=tape.len()).any(|cut| {
                let left = image(&before, &tape, cut, Some(*sync), &mut random);
                judge(setting, &left).is_err()
            })
        });
        assert!(
            missed,
            "{}: sync {sync} of {syncs:?} can be left out",
            setting.kind
        );
    }
}

#[test]
fn a_copy_has_its_name_when_it_is_durable() {
    let (_folder, path, _) = store(&options(Kind::Bloom), 0..1000);
    let copy = beside(&path, "-copy");
    let tape = Arc::default();
    let recorder = Recorder {
        path: beside(&copy, "-part"),
        tape: Arc::clone(&tape),
    };
    let store = options(Kind::Bloom)
        .storage(Arc::new(recorder))
        .open(&path)
        .unwrap();
    store.snapshot(&copy).unwrap();
    let tape = tape.lock().unwrap();
    assert!(
        matches!(tape.last(), Some(Event::Sync)),
        "{:?}",
        tape.last()
    );
    // Whatever the cut leaves, what was synced before the name is all of it.
    let left = image(&[], &tape, tape.len(), None, &mut Random::new(seed()));
    assert!(left == fs::read(&copy).unwrap());
    assert_whole(&copy, 0..1000);
}
