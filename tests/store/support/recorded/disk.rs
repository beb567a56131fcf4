//! What a disk holds after a power cut, given what was done to it and what chance kept.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use super::fates::Keep;
use super::{Promises, Remark};
use crate::support::numbers::Random;

/// A file, whatever its name: a rename changes the name alone.
pub type Inode = usize;

/// A disk writes this many bytes whole or not at all.
const SECTOR: usize = 512;
/// Images are written in blocks of this size, those of zeros left out.
const BLOCK: usize = 4096;

/// Something that was done to a folder, or a remark of who did it.
#[derive(Debug, Clone)]
pub enum Event<R> {
    Create {
        name: String,
        inode: Inode,
    },
    Write {
        inode: Inode,
        offset: u64,
        bytes: Arc<[u8]>,
    },
    SetLength {
        inode: Inode,
        length: u64,
    },
    Allocate {
        inode: Inode,
        length: u64,
    },
    /// Events before `covers` that concern the file are durable. Others may have come while the
    /// sync was under way.
    Sync {
        inode: Inode,
        covers: usize,
    },
    /// A sync of the file failed. Of what was written before, the disk has taken some; the rest it
    /// never will, unless it is written again.
    SyncFailed {
        inode: Inode,
    },
    Publish {
        from: String,
        to: String,
        inode: Inode,
    },
    Remove {
        name: String,
        inode: Inode,
    },
    SyncFolder {
        covers: usize,
    },
    Mark(R),
}

impl<R: Remark> Event<R> {
    /// Whether a cut just before or after it is likely to matter.
    pub fn turns(&self) -> bool {
        !matches!(self, Event::Write { .. } | Event::Mark(_))
    }

    /// The file whose bytes or length it changes.
    fn changes(&self) -> Option<Inode> {
        match self {
            Event::Write { inode, .. }
            | Event::SetLength { inode, .. }
            | Event::Allocate { inode, .. } => Some(*inode),
            _ => None,
        }
    }

    /// Whether it changes what names there are.
    pub fn names(&self) -> bool {
        matches!(
            self,
            Event::Create { .. } | Event::Publish { .. } | Event::Remove { .. }
        )
    }

    /// The file concerned, for fates that files share.
    pub fn inode(&self) -> Inode {
        match self {
            Event::Create { inode, .. }
            | Event::Publish { inode, .. }
            | Event::Remove { inode, .. } => *inode,
            other => other.changes().unwrap_or_default(),
        }
    }

    /// For people.
    pub fn describe(&self) -> String {
        match self {
            Event::Write {
                inode,
                offset,
                bytes,
            } => format!("write file {inode} at {offset}, {} bytes", bytes.len()),
            Event::Mark(mark) => mark.describe(),
            other => format!("{other:?}"),
        }
    }
}

/// The files of a folder, durable all of them.
pub type Image = BTreeMap<String, Vec<u8>>;

/// Writes an image into an empty folder.
pub fn write_image(image: &Image, folder: &Path) -> io::Result<()> {
    for (name, bytes) in image {
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(folder.join(name))?;
        file.set_len(bytes.len() as u64)?;
        let mut start = 0;
        while start < bytes.len() {
            let blank = |at: usize| {
                let block = &bytes[at..bytes.len().min(at + BLOCK)];
                block.iter().all(|byte| *byte == 0)
            };
            let mut end = start;
            while end < bytes.len() && !blank(end) {
                end += BLOCK;
            }
            let end = end.min(bytes.len());
            file.write_all_at(&bytes[start..end], start as u64)?;
            start = end.max(start + BLOCK);
        }
    }
    Ok(())
}

/// The names in a folder.
pub fn names_in(folder: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

#[derive(Debug, Default)]
struct File {
    /// What is durable.
    bytes: Vec<u8>,
    /// What was done since, by place in the journal.
    pending: Vec<usize>,
}

/// Goes forward through a journal and knows at each point what is durable, and what was promised.
pub struct Player<'a, P: Promises> {
    events: &'a [Event<P::Remark>],
    at: usize,
    files: Vec<File>,
    names: BTreeMap<String, Inode>,
    pending_names: Vec<usize>,
    pub model: P,
}

impl<'a, P: Promises> Player<'a, P> {
    /// Begins with the files of an image, numbered in the order of their names.
    pub fn new(image: &Image, model: P, events: &'a [Event<P::Remark>]) -> Self {
        let files = image.values().map(|bytes| File {
            bytes: bytes.clone(),
            pending: Vec::new(),
        });
        Self {
            events,
            at: 0,
            files: files.collect(),
            names: image.keys().cloned().zip(0..).collect(),
            pending_names: Vec::new(),
            model,
        }
    }

    /// Goes on until the first `cut` events have happened.
    pub fn advance(&mut self, cut: usize) {
        let events = self.events;
        for (index, event) in events.iter().enumerate().take(cut).skip(self.at) {
            match event {
                Event::Mark(mark) => self.model.take(mark),
                Event::Sync { inode, covers } => {
                    let File { bytes, pending } = self.file(*inode);
                    let after = pending.partition_point(|index| index < covers);
                    for index in pending.drain(..after) {
                        apply(bytes, &events[index], Keep::Whole);
                    }
                }
                Event::SyncFailed { inode } => {
                    let mut random = Random::new(index as u64);
                    let most = random.below(9);
                    let File { bytes, pending } = self.file(*inode);
                    for index in std::mem::take(pending) {
                        match &events[index] {
                            Event::Write { .. } if random.below(8) >= most => {}
                            event => apply(bytes, event, Keep::Whole),
                        }
                    }
                }
                Event::SyncFolder { covers } => {
                    let after = self.pending_names.partition_point(|index| index < covers);
                    for index in self.pending_names.drain(..after) {
                        rename(&mut self.names, &events[index]);
                    }
                }
                event if event.names() => {
                    self.file(event.inode());
                    self.pending_names.push(index);
                }
                event => self.file(event.inode()).pending.push(index),
            }
        }
        self.at = cut;
    }

    fn file(&mut self, inode: Inode) -> &mut File {
        if self.files.len() <= inode {
            self.files.resize_with(inode + 1, File::default);
        }
        &mut self.files[inode]
    }

    /// What is not durable at this point, by place in the journal.
    pub fn pending(&self) -> Vec<usize> {
        let files = self.files.iter().flat_map(|file| &file.pending);
        let mut pending: Vec<_> = files.chain(&self.pending_names).copied().collect();
        pending.sort_unstable();
        pending
    }

    /// The disk after a cut here, if of what is pending each has its fate.
    pub fn image(&self, pending: &[usize], fates: &[Keep]) -> Image {
        let fate = |index: &usize| {
            let place = pending.binary_search(index);
            place.map_or(Keep::Whole, |place| fates[place])
        };
        let mut names = self.names.clone();
        for index in &self.pending_names {
            if fate(index) == Keep::Whole {
                rename(&mut names, &self.events[*index]);
            }
        }
        names
            .into_iter()
            .map(|(name, inode)| {
                let file = &self.files[inode];
                let mut bytes = file.bytes.clone();
                for index in &file.pending {
                    apply(&mut bytes, &self.events[*index], fate(index));
                }
                (name, bytes)
            })
            .collect()
    }
}

fn rename<R>(names: &mut BTreeMap<String, Inode>, event: &Event<R>) {
    match event {
        Event::Create { name, inode } => {
            names.insert(name.clone(), *inode);
        }
        Event::Publish { from, to, inode } => {
            names.remove(from);
            names.insert(to.clone(), *inode);
        }
        Event::Remove { name, .. } => {
            names.remove(name);
        }
        _ => {}
    }
}

fn grow(bytes: &mut Vec<u8>, length: usize) {
    if bytes.len() < length {
        bytes.resize(length, 0);
    }
}

fn apply<R>(bytes: &mut Vec<u8>, event: &Event<R>, keep: Keep) {
    match event {
        Event::SetLength { length, .. } if keep == Keep::Whole => bytes.resize(*length as usize, 0),
        Event::Allocate { length, .. } if keep == Keep::Whole => grow(bytes, *length as usize),
        Event::Write {
            offset,
            bytes: written,
            ..
        } => write(bytes, *offset as usize, written, keep),
        _ => {}
    }
}

fn write(bytes: &mut Vec<u8>, offset: usize, written: &[u8], keep: Keep) {
    let end = offset + written.len();
    match keep {
        Keep::Lost => {}
        // The length reached the disk, what lies there did not.
        Keep::Length => grow(bytes, end),
        Keep::Whole => {
            grow(bytes, end);
            bytes[offset..end].copy_from_slice(written);
        }
        Keep::Sectors { seed, of_eight } => {
            let mut random = Random::new(seed);
            if random.below(2) == 0 {
                grow(bytes, end);
            }
            let mut from = offset;
            while from < end {
                let to = ((from / SECTOR + 1) * SECTOR).min(end);
                if random.below(8) < of_eight {
                    grow(bytes, to);
                    bytes[from..to].copy_from_slice(&written[from - offset..to - offset]);
                }
                from = to;
            }
        }
    }
}
