//! What a store knows of an output, and what that makes of the bytes that it doesn't know.

use everseen::Commit;

use crate::output::exact_file::note::Note;
use crate::output::exact_file::tag::{Moment, Standing, Tag};

/// What the store knows of an output.
pub struct Known {
    /// The last commit under the file's name.
    pub own: Option<Tag>,
    /// All moments of outputs that the store knows: the file may have been renamed since.
    moments: Vec<Moment>,
}

/// The last commit of another output, which may be this one under another name.
pub struct Other {
    pub writer: String,
    pub tag: Tag,
    /// Whether the store knows nothing younger under the file's own name.
    pub is_youngest: bool,
}

impl Other {
    /// Returns the beginning of its file's name.
    pub fn name(&self) -> &str {
        name_of(&self.writer)
    }

    /// Returns whether it is of a file of the same name as that of `writer`, in another folder: one of them may have been
    /// moved, or copied, to be the other.
    pub fn may_have_moved(&self, writer: &str) -> bool {
        self.name() == name_of(writer)
    }
}

fn name_of(writer: &str) -> &str {
    writer.rsplit_once('#').map_or(writer, |(name, _)| name)
}

/// What the bytes are that the store doesn't know.
#[derive(Debug, PartialEq)]
pub enum Rest {
    /// There are none, or others may have appended them after the last run.
    Nothing,
    /// The last run ended, and left a longer file, of this length.
    Shorter(u64),
    /// The last run was killed, and left them behind this length. Their lines come again.
    OfKilledRun(u64),
    /// They may be good lines.
    Unknown(&'static str),
}

const OLDER_STORE: &str =
    "the file's last run is unknown to this store, which may have been restored from a copy";
const OTHER_FILE: &str = "it is another file";
const OTHER_STORE: &str = "runs with another store, or another copy of it, wrote to it since";
const ONLY_OTHER_STORE: &str =
    "runs with another store wrote to it, and none with this one: is it the store that is meant?";
const NO_NOTE: &str = "the file does not say that its last run was cut off, so this store may have been restored from a \
                       copy, or another one wrote to the file since";

impl Known {
    /// Returns what these commits say of the file of the writer `own`, and the last commits to files of other names, the
    /// oldest first. Returns `None` if the file's own tag can't be read.
    pub fn of(commits: &[Commit], own: &str) -> Option<(Self, Vec<Other>)> {
        let mut known = Known {
            own: None,
            moments: Vec::new(),
        };
        let mut others: Vec<Other> = Vec::new();
        let mut commits: Vec<&Commit> = commits.iter().collect();
        commits.sort_unstable_by_key(|commit| commit.sequence);
        for commit in commits {
            let is_own = commit.writer == own;
            let Some(tag) = Tag::decode(&commit.tag) else {
                if is_own {
                    return None;
                }
                continue;
            };
            known.moments.push(tag.moment());
            if is_own {
                known.own = Some(tag);
                for other in &mut others {
                    other.is_youngest = false;
                }
                continue;
            }
            others.push(Other {
                writer: commit.writer.clone(),
                tag,
                is_youngest: true,
            });
        }
        Some((known, others))
    }

    /// Returns the tag of the last run, if that did not end.
    pub fn unfinished(&self) -> Option<&Tag> {
        self.own.as_ref().filter(|tag| !tag.ended)
    }

    /// Returns how long the file was at the last commit.
    pub fn length(&self) -> Option<u64> {
        self.own.map(|tag| tag.standing.length)
    }

    /// Returns the last moment of the file that the store knows, under whatever name.
    pub fn moment(&self, found: Option<&Note>) -> Option<Moment> {
        let renamed = || {
            let found = found?;
            let both = [found.next, found.last].into_iter().flatten();
            both.into_iter()
                .find(|moment| self.moments.contains(moment))
        };
        self.own.map(|tag| tag.moment()).or_else(renamed)
    }

    /// Says what the bytes of a file are that the store doesn't know. `found` is the note of the file, and `own` one of
    /// this store.
    pub fn rest(&self, now: &Standing, found: Option<&Note>, own: &Note) -> Rest {
        if let Some(tag) = self.unfinished() {
            return rest_of_unfinished(tag, now, found, own);
        }
        let of_this_store = found.filter(|found| found.store == own.store);
        if let Some(found) = of_this_store
            && !self.knows(found)
            // A file that is shorter was emptied, or replaced, on purpose.
            && found.last.is_none_or(|last| now.length >= last.length)
            && now.length > 0
        {
            return Rest::Unknown(OLDER_STORE);
        }
        // A misspelt store is new, and prints everything again.
        if found.is_some_and(|found| found.store != own.store)
            && self.moment(found).is_none()
            && now.length > 0
        {
            return Rest::Unknown(ONLY_OTHER_STORE);
        }
        match self.own {
            Some(tag) if (1..tag.standing.length).contains(&now.length) => {
                Rest::Shorter(tag.standing.length)
            }
            _ => Rest::Nothing,
        }
    }

    /// Returns whether the store knows the last run of which the file has this note.
    fn knows(&self, found: &Note) -> bool {
        let knows = |moment| self.moments.contains(&moment);
        match (found.last, found.next) {
            // A run that was killed before its first commit has printed nothing.
            (None, None) => true,
            (None, Some(next)) => self.own.is_none() || knows(next),
            (Some(last), next) => knows(last) || next.is_some_and(knows),
        }
    }
}

fn rest_of_unfinished(tag: &Tag, now: &Standing, found: Option<&Note>, own: &Note) -> Rest {
    let length = tag.standing.length;
    // Of another file, nothing was committed.
    let is_same = tag.standing.is_same_file(now.id);
    if now.length <= length || !is_same && length == 0 {
        return Rest::Nothing;
    }
    if !is_same {
        return Rest::Unknown(OTHER_FILE);
    }
    let Some(found) = found else {
        return Rest::Unknown(NO_NOTE);
    };
    let here = Some(tag.moment());
    let is_last = found.last == here
        // A copy of the store, put back after a kill during the next commit, may lack that commit. It has another inode.
        && (found.next.is_none() || found.inode == own.inode);
    match found.ended {
        false if is_last || found.next == here => Rest::OfKilledRun(length),
        _ if found.store == own.store => Rest::Unknown(OLDER_STORE),
        _ => Rest::Unknown(OTHER_STORE),
    }
}
