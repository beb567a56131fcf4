//! Changes to the files of a store.

use super::image::{Image, STORE};
use crate::support::numbers::Random;

/// Blocks are swapped and copied in these sizes.
const BLOCKS: [u64; 3] = [512, 4096, 65_536];
const LONGEST_RUN: u64 = 9000;
/// Where the pages of a store begin.
const PAGES: usize = 131_072;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Filling {
    Zeros,
    Ones,
    Noise(u64),
}

/// One change to one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mutation {
    Flip {
        file: String,
        offset: usize,
        mask: u8,
    },
    Fill {
        file: String,
        offset: usize,
        length: usize,
        with: Filling,
    },
    /// `length` bytes at `from` also come to lie at `to`.
    Copy {
        file: String,
        from: usize,
        to: usize,
        length: usize,
    },
    Swap {
        file: String,
        one: usize,
        other: usize,
        length: usize,
    },
    Truncate {
        file: String,
        length: usize,
    },
    Extend {
        file: String,
        by: usize,
        with: Filling,
    },
    /// Becomes a file of another store.
    Replace {
        file: String,
        scenario: usize,
        by: String,
    },
    /// A log is lost.
    Remove {
        file: String,
    },
    /// Pages of the store become those of another store, in the same place.
    Splice {
        scenario: usize,
        at: usize,
        length: usize,
    },
}

impl Mutation {
    /// One of those that make sense for the image. `others` are images whose files may take the place of its own.
    pub fn draw(random: &mut Random, image: &Image, others: &[Image]) -> Self {
        let pick = |random: &mut Random, image: &Image| {
            let index = random.below(image.0.len() as u64) as usize;
            image.0.keys().nth(index).unwrap().clone()
        };
        let file = pick(random, image);
        let bytes = &image.0[&file];
        let length = bytes.len() as u64;
        match random.below(22) {
            0..7 => Self::Flip {
                offset: place(random, bytes),
                mask: 1 << random.below(8),
                file,
            },
            7..11 => {
                let longest = 1 + random.below(LONGEST_RUN);
                Self::Fill {
                    offset: place(random, bytes),
                    length: 1 + random.below(longest) as usize,
                    with: filling(random),
                    file,
                }
            }
            11..13 => {
                let size = BLOCKS[random.below(3) as usize];
                Self::Copy {
                    from: block(random, bytes, size),
                    to: block(random, bytes, size),
                    length: size as usize,
                    file,
                }
            }
            13..15 => {
                let size = BLOCKS[random.below(3) as usize];
                Self::Swap {
                    one: block(random, bytes, size),
                    other: block(random, bytes, size),
                    length: size as usize,
                    file,
                }
            }
            15..17 => Self::Truncate {
                length: match random.below(2) {
                    0 => random.below(length + 1) as usize,
                    _ => place(random, bytes),
                },
                file,
            },
            17 => Self::Extend {
                by: 1 + random.below(3 * 4096) as usize,
                with: filling(random),
                file,
            },
            18 if file != STORE => Self::Remove { file },
            20.. => splice(random, others),
            _ => {
                let scenario = random.below(others.len() as u64) as usize;
                let by = pick(random, &others[scenario]);
                // A log in the place of the store, and the other way round, one time in many.
                match (by == STORE) == (file == STORE) || random.below(8) == 0 {
                    true => Self::Replace { file, scenario, by },
                    false => Self::Flip {
                        offset: place(random, bytes),
                        mask: 0xFF,
                        file,
                    },
                }
            }
        }
    }

    /// Makes the change; what lies beyond the end of its file changes nothing.
    pub fn apply(&self, image: &mut Image, others: &[Image]) {
        let file = self.file();
        let Some(bytes) = image.0.get_mut(file) else {
            return;
        };
        match self {
            Self::Flip { offset, mask, .. } => {
                if let Some(byte) = bytes.get_mut(*offset) {
                    *byte ^= mask;
                }
            }
            Self::Fill {
                offset,
                length,
                with,
                ..
            } => {
                let end = bytes.len().min(offset + length);
                if let Some(run) = bytes.get_mut(*offset..end) {
                    with.fill(run);
                }
            }
            Self::Copy {
                from, to, length, ..
            } => {
                let last = (*from).max(*to);
                let length = (*length).min(bytes.len().saturating_sub(last));
                if length > 0 {
                    bytes.copy_within(*from..from + length, *to);
                }
            }
            Self::Swap {
                one, other, length, ..
            } => {
                let (low, high) = ((*one).min(*other), (*one).max(*other));
                let length = (*length)
                    .min(bytes.len().saturating_sub(high))
                    .min(high - low);
                if length > 0 {
                    let (front, back) = bytes.split_at_mut(high);
                    front[low..low + length].swap_with_slice(&mut back[..length]);
                }
            }
            Self::Truncate { length, .. } => bytes.truncate(*length),
            Self::Extend { by, with, .. } => {
                let end = bytes.len();
                bytes.resize(end + by, 0);
                with.fill(&mut bytes[end..]);
            }
            Self::Replace { scenario, by, .. } => *bytes = others[*scenario].0[by].clone(),
            Self::Remove { .. } => {
                image.0.remove(file);
            }
            Self::Splice {
                scenario,
                at,
                length,
            } => {
                let other = &others[*scenario].0[STORE];
                let end = (at + length).min(other.len()).min(bytes.len());
                if let Some(pages) = bytes.get_mut(*at..end) {
                    pages.copy_from_slice(&other[*at..end]);
                }
            }
        }
    }

    /// The name of the file that changes.
    pub fn file(&self) -> &str {
        match self {
            Self::Flip { file, .. }
            | Self::Fill { file, .. }
            | Self::Copy { file, .. }
            | Self::Swap { file, .. }
            | Self::Truncate { file, .. }
            | Self::Extend { file, .. }
            | Self::Replace { file, .. }
            | Self::Remove { file } => file,
            Self::Splice { .. } => STORE,
        }
    }

    /// Whether the store is another one after it, of whose keys nothing is known.
    pub fn replaces_store(&self) -> bool {
        matches!(self, Self::Replace { file, .. } if file == STORE)
    }
}

impl Filling {
    fn fill(self, bytes: &mut [u8]) {
        match self {
            Self::Zeros => bytes.fill(0),
            Self::Ones => bytes.fill(0xFF),
            Self::Noise(seed) => {
                let mut random = Random::new(seed);
                bytes.fill_with(|| random.next() as u8);
            }
        }
    }
}

/// Pages of another store, and not what comes before them: with header and superblocks it would be that store.
fn splice(random: &mut Random, others: &[Image]) -> Mutation {
    let scenario = random.below(others.len() as u64) as usize;
    let other = &others[scenario].0[STORE];
    let size = BLOCKS[1 + random.below(2) as usize];
    let (at, length) = match random.below(4) {
        0 => (PAGES, other.len() - PAGES),
        _ => (PAGES + block(random, &other[PAGES..], size), size as usize),
    };
    Mutation::Splice {
        scenario,
        at,
        length,
    }
}

fn filling(random: &mut Random) -> Filling {
    match random.below(3) {
        0 => Filling::Zeros,
        1 => Filling::Ones,
        _ => Filling::Noise(random.next()),
    }
}

/// An offset: mostly of a byte near others that are not zero, for the files are zeros for the most part.
fn place(random: &mut Random, bytes: &[u8]) -> usize {
    let length = bytes.len() as u64;
    for _ in 0..200 {
        let at = random.below(length.max(1));
        let around = at as usize / 64 * 64;
        let near = bytes.get(around..(around + 64).min(bytes.len()));
        if near.is_some_and(|near| near.iter().any(|byte| *byte != 0)) {
            return at as usize;
        }
        if random.below(100) == 0 {
            break;
        }
    }
    random.below(length.max(1)) as usize
}

/// The offset of a block, mostly one that is not all zeros.
fn block(random: &mut Random, bytes: &[u8], size: u64) -> usize {
    (place(random, bytes) as u64 / size * size) as usize
}
