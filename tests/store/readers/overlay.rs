//! A store in a lower layer of an overlay file system, as in a container's image: the first writer's opening copies the
//! file to the upper layer. A reader's map still shows the lower file from then on, and its reads the upper one.
//!
//! Where a user may not mount, only the twin runs: a disk whose maps and reads come apart in the same way.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use everseen::testing::storage::{Storage, StorageFile, disk};
use everseen::testing::{Map, Options};
use everseen::{Error, Kind, Store};

use super::{KINDS, look_until_it_fails, options};
use crate::support::files::{held, keys, place};

/// Where a child finds the folder to work in, and how to mount.
const VARIABLE: &str = "EVERSEEN_OVERLAY";

fn expect_replaced(error: &Error, path: &Path) {
    assert!(
        matches!(error, Error::Replaced { path: got } if got == path),
        "{error:?}"
    );
}

/// Readers that opened the store before the first writer came.
fn read_beside_the_first_writer(options: &Options, path: &Path) {
    let old = keys(0..2000);
    let open = |follow: bool| {
        let opened = options.clone().follow(follow).open_read_only(path);
        opened.unwrap()
    };
    let still = [(); 4].map(|()| open(false));
    let following = [(); 2].map(|()| open(true));
    for reader in still.iter().chain(&following) {
        assert_eq!(held(reader, &old), 2000);
    }
    let writer = options.open(path).unwrap();
    writer.insert_batch(&keys(2000..3000)).unwrap();
    // What a writer acknowledges is seen at once by those that follow.
    assert_eq!(held(&following[0], &keys(0..4000)), 3000);
    // The others notice when they work, when they close, and when anything looks damaged.
    expect_replaced(&look_until_it_fails(&still[0], &old), path);
    expect_replaced(&still[0].close().unwrap_err(), path);
    expect_replaced(&still[1].close().unwrap_err(), path);
    for round in 3..8 {
        writer
            .insert_batch(&keys(round * 1000..round * 1000 + 1000))
            .unwrap();
        writer.checkpoint().unwrap();
    }
    expect_replaced(&still[2].verify().unwrap_err(), path);
    expect_no_damage(&still[3], path);
    assert_eq!(held(&following[1], &keys(0..9000)), 8000);
    writer.close().unwrap();
    for reader in following {
        assert_eq!(held(&reader, &keys(0..9000)), 8000);
        assert!(reader.verify().unwrap().is_ok());
        reader.close().unwrap();
    }
}

/// A reader that has not noticed yet may still answer; what it says if it fails is what is so.
fn expect_no_damage(reader: &Store, path: &Path) {
    match reader.contains_batch(&keys(0..9000)) {
        Ok(_) | Err(Error::Ended) => {}
        Err(error) => expect_replaced(&error, path),
    }
}

/// Calls `each` for each kind: readers find out by the clock.
fn at_once(each: impl Fn(Kind) + Sync) {
    std::thread::scope(|scope| {
        for kind in KINDS {
            let each = &each;
            scope.spawn(move || each(kind));
        }
    });
}

fn make(options: &Options, path: &Path) {
    let store = options.create(path).unwrap();
    store.insert_batch(&keys(0..2000)).unwrap();
    store.close().unwrap();
}

#[test]
#[ignore = "not a test: what the other test starts again in a mount namespace of its own"]
fn read_in_an_overlay() {
    let Ok(task) = std::env::var(VARIABLE) else {
        return;
    };
    let (options, folder) = task.split_once(' ').unwrap();
    let folder = Path::new(folder);
    let at = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let upper = match options {
        // Layers of two file systems, whose numbers can't be kept apart.
        "xino=off" => tempfile::tempdir_in("/dev/shm").unwrap(),
        _ => tempfile::tempdir_in(folder).unwrap(),
    };
    let above = |name: &str| {
        let path = upper.path().join(name);
        fs::create_dir(&path).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let layers = format!(
        "{options},lowerdir={},upperdir={},workdir={}",
        at("lower"),
        above("upper"),
        above("work")
    );
    let mount = Command::new("mount")
        .args(["-t", "overlay", "overlay", "-o", &layers, &at("merged")])
        .status();
    if !mount.is_ok_and(|status| status.success()) {
        println!("SKIPPED: no overlay can be mounted with {options}");
        return;
    }
    at_once(|kind| {
        let path = folder.join("merged").join(kind.to_string());
        let before = fs::metadata(&path).unwrap();
        let options = super::options(kind);
        read_beside_the_first_writer(&options, &path);
        // The number of a file that is open tells nothing.
        assert_eq!(fs::metadata(&path).unwrap().ino(), before.ino(), "{kind}");
    });
    assert!(
        Command::new("umount")
            .arg(at("merged"))
            .status()
            .unwrap()
            .success()
    );
    println!("READ IN AN OVERLAY");
}

#[test]
#[cfg_attr(everseen_portable, ignore = "only Linux has overlays")]
fn a_copy_to_the_upper_layer_is_noticed_and_no_damage() {
    for options in ["xino=auto", "xino=off"] {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("lower")).unwrap();
        fs::create_dir(folder.path().join("merged")).unwrap();
        for kind in KINDS {
            let path = folder.path().join("lower").join(kind.to_string());
            make(&super::options(kind), &path);
        }
        let child = Command::new("unshare")
            .arg("--mount")
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "readers::overlay::read_in_an_overlay"])
            .args(["--ignored", "--nocapture"])
            .env(VARIABLE, format!("{options} {}", folder.path().display()))
            .output();
        let Ok(child) = child else {
            println!("SKIPPED: no `unshare` on this computer");
            return;
        };
        let said = String::from_utf8_lossy(&child.stdout).into_owned();
        let complaint = String::from_utf8_lossy(&child.stderr);
        if complaint.contains("unshare failed") {
            println!("SKIPPED: {complaint}");
            return;
        }
        println!("{said}");
        assert!(child.status.success(), "{options}: {said}{complaint}");
        assert!(
            said.contains("SKIPPED") || said.contains("READ IN AN OVERLAY"),
            "{said}{complaint}"
        );
    }
}

/// A disk on which each file that was opened before some moment is mapped from a copy.
#[derive(Debug)]
struct Layered {
    lower: PathBuf,
    is_copied: Arc<AtomicBool>,
}

#[derive(Debug)]
struct LayeredFile {
    upper: Arc<dyn StorageFile>,
    /// Of a file that was opened before the copy.
    lower: Option<Arc<dyn StorageFile>>,
}

impl Storage for Layered {
    fn create_new(&self, path: &Path) -> io::Result<Arc<dyn StorageFile>> {
        disk().create_new(path)
    }

    fn open(&self, path: &Path, write: bool) -> io::Result<Arc<dyn StorageFile>> {
        let is_lower = !self.is_copied.load(Ordering::SeqCst);
        let lower = is_lower.then(|| disk().open(&self.lower, false));
        Ok(Arc::new(LayeredFile {
            upper: disk().open(path, write)?,
            lower: lower.transpose()?,
        }))
    }

    fn publish(&self, from: &Path, to: &Path) -> io::Result<()> {
        disk().publish(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        disk().remove(path)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        disk().sync_folder(folder)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        disk().exists(path)
    }
}

impl StorageFile for LayeredFile {
    fn length(&self) -> io::Result<u64> {
        self.upper.length()
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        self.upper.read_at(bytes, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.upper.write_at(bytes, offset)
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.upper.set_length(length)
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        self.upper.allocate(length)
    }

    fn sync(&self) -> io::Result<()> {
        self.upper.sync()
    }

    fn map(&self, offset: u64, length: u64) -> io::Result<Map> {
        self.lower
            .as_ref()
            .unwrap_or(&self.upper)
            .map(offset, length)
    }
}

/// The twin. A map tells no more of a superblock than it shows, so a reader of a disk that doesn't say what it is finds
/// out when it works, not at the next call.
#[test]
fn a_map_that_shows_an_older_file_than_reads_do_is_noticed_and_no_damage() {
    at_once(|kind| {
        let (folder, path) = place();
        let writing = options(kind);
        make(&writing, &path);
        let lower = folder.path().join("lower");
        fs::copy(&path, &lower).unwrap();
        let is_copied = Arc::new(AtomicBool::new(false));
        let disk = Layered {
            lower,
            is_copied: Arc::clone(&is_copied),
        };
        let reading = options(kind).storage(Arc::new(disk));
        let still = [(); 3].map(|()| reading.open_read_only(&path).unwrap());
        let following = reading.clone().follow(true).open_read_only(&path).unwrap();
        let old = keys(0..2000);
        assert_eq!(held(&following, &old), 2000);
        is_copied.store(true, Ordering::SeqCst);
        let writer = writing.open(&path).unwrap();
        for round in 2..6 {
            writer
                .insert_batch(&keys(round * 1000..round * 1000 + 1000))
                .unwrap();
            writer.checkpoint().unwrap();
        }
        expect_replaced(&look_until_it_fails(&still[0], &old), &path);
        expect_replaced(&still[1].close().unwrap_err(), &path);
        expect_no_damage(&still[2], &path);
        let begun = std::time::Instant::now();
        while held(&following, &keys(0..6000)) < 6000 {
            assert!(begun.elapsed() < super::HUNG, "nothing was noticed");
        }
        writer.close().unwrap();
        following.close().unwrap();
    });
}
