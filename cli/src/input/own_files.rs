//! Files of Everseen where a list of lines, or a file for lines, is expected: two arguments were swapped, or another
//! command was meant.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use everseen::FileKind;

use crate::error::CliError;
use crate::input::compressed::{self, Format, Stream};
use crate::input::{STDIN, unreadable};
use crate::process::handle;

/// What the lists of a command are read for.
#[derive(Clone)]
pub struct Purpose {
    pub command: &'static str,
    pub store: PathBuf,
}

impl Purpose {
    pub fn new(command: &'static str, store: &Path) -> Self {
        Purpose {
            command,
            store: store.to_owned(),
        }
    }

    /// Returns the error of an input that is a file of Everseen, perhaps in compressed data. An input without a `name`
    /// is standard input.
    pub fn refusal(&self, name: Option<&str>, kind: FileKind, format: Option<Format>) -> CliError {
        CliError::InputIsOwnFile {
            name: name.unwrap_or(STDIN).to_owned(),
            kind,
            format,
            meant: match format {
                None => self.meant(name, kind),
                Some(_) => "decompress it to use it as one".to_owned(),
            },
        }
    }

    fn meant(&self, name: Option<&str>, kind: FileKind) -> String {
        let (command, store) = (self.command, self.store.display());
        let other = name.unwrap_or("OTHER");
        match (kind, command) {
            // It has no store of the user's own.
            (FileKind::Store, "count") => {
                format!("`everseen info {other}` says how many keys it has")
            }
            (FileKind::Store, _) if !self.has_store() && name.is_some() => {
                format!("did you mean `everseen {command} {other} {store}`?")
            }
            (FileKind::Store, "dedup" | "add") => {
                format!("`everseen union NEW {store} {other}` makes a store with the keys of both")
            }
            (FileKind::Store, "check") => {
                format!(
                    "`everseen intersect --count {store} {other}` counts the keys that both have"
                )
            }
            (FileKind::Store, "remove") => {
                format!("`everseen difference NEW {store} {other}` makes a store without its keys")
            }
            (FileKind::Delta, _) => {
                let delta = name.unwrap_or("DELTA");
                format!("`everseen apply {delta} COPY` brings a copy up to date")
            }
            _ => "name a list of lines".to_owned(),
        }
    }

    /// Refuses an input whose bytes, decompressed if need be, are a file of Everseen. `name` is what messages call it.
    pub fn refuse_stream(&self, name: &str, stream: Stream) -> Result<Stream, CliError> {
        let Stream { format, bytes } = stream;
        let looked = look(bytes);
        let Looked { kind, bytes } = match looked {
            Ok(looked) => looked,
            Err(source) => return Err(unreadable(name, format, source)),
        };
        match kind {
            Some(kind) => Err(self.refusal(Some(name).filter(|name| *name != STDIN), kind, format)),
            None => Ok(Stream { format, bytes }),
        }
    }

    /// Refuses an output that is a file of Everseen.
    pub fn refuse_output(&self, path: &Path) -> Result<(), CliError> {
        let Some(kind) = kind_of(path) else {
            return Ok(());
        };
        let (command, store) = (self.command, self.store.display());
        Err(CliError::OutputIsOwnFile {
            name: path.display().to_string(),
            kind,
            meant: match kind {
                FileKind::Store if !self.has_store() => {
                    format!(
                        "did you mean `everseen {command} -o {store} {}`?",
                        path.display()
                    )
                }
                _ => "name another file to print to".to_owned(),
            },
        })
    }

    /// Returns whether there is a store where the command expects one.
    fn has_store(&self) -> bool {
        kind_of(&self.store) == Some(FileKind::Store)
    }

    /// Returns whether nothing or a text is where the command expects a store.
    pub fn has_other_file(&self) -> bool {
        let length = self.store.metadata().map_or(0, |file| file.len());
        length > 0 && kind_of(&self.store).is_none()
    }
}

/// Returns what a regular file of Everseen is.
fn kind_of(path: &Path) -> Option<FileKind> {
    if !path.metadata().is_ok_and(|file| file.is_file()) {
        return None;
    }
    kind_at(&File::open(path).ok()?, 0)
}

/// Returns what a regular file of Everseen is whose bytes begin at `place`.
pub fn kind_at(file: &File, place: u64) -> Option<FileKind> {
    FileKind::of(&head_at(file, place))
}

/// Returns the first bytes of a regular file that begins at `place`.
fn head_at(file: &File, place: u64) -> Vec<u8> {
    let mut head = vec![0; FileKind::HEAD_BYTES];
    while !head.is_empty() && handle::read_at(file, &mut head, place).is_err() {
        head.pop();
    }
    head
}

/// What a file of Everseen is, and how it is packed.
#[derive(Clone, Copy)]
pub struct Found {
    pub kind: FileKind,
    pub format: Option<Format>,
}

impl Found {
    pub fn plain(kind: FileKind) -> Self {
        Found { kind, format: None }
    }
}

/// Returns what a regular file of Everseen is that was opened by its name, or is packed in one.
pub fn found_in(file: &File, path: &Path, window_log: Option<u32>) -> Option<Found> {
    let head = head_at(file, 0);
    if window_log.is_none() || compressed::format_of(&head).is_none() {
        return FileKind::of(&head).map(Found::plain);
    }
    // What can't be decompressed is reported in its turn.
    let again = File::open(path).ok()?;
    let Stream { format, bytes } = compressed::open(again, window_log, &Arc::default()).ok()?;
    let kind = look(bytes).ok()?.kind?;
    Some(Found { kind, format })
}

/// A stream whose first bytes were looked at.
pub struct Looked {
    pub kind: Option<FileKind>,
    /// The whole stream.
    pub bytes: Box<dyn Read>,
}

/// Reads as many first bytes of a stream as it takes to know whether it is a file of Everseen. A line of a text waits
/// for no other one.
pub fn look(mut bytes: Box<dyn Read>) -> io::Result<Looked> {
    let mut head = [0; FileKind::HEAD_BYTES];
    let mut filled = 0;
    while FileKind::may_begin(&head[..filled]) && !head[..filled].contains(&b'\n') {
        match bytes.read(&mut head[filled..]) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Ok(0) => break,
            count => filled += count?,
        }
    }
    Ok(Looked {
        kind: FileKind::of(&head[..filled]),
        bytes: match filled {
            0 => bytes,
            _ => Box::new(io::Cursor::new(head[..filled].to_vec()).chain(bytes)),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns its bytes one by one, and panics if it is asked after all of them.
    struct Slow(Vec<u8>);

    impl Read for Slow {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            assert!(!self.0.is_empty(), "asked for more than it takes to decide");
            into[0] = self.0.remove(0);
            Ok(1)
        }
    }

    #[test]
    fn no_byte_is_waited_for_that_is_not_needed() {
        for (text, kind) in [
            (&b"x"[..], None),
            (b"\n", None),
            (b"EVE\n", None),
            (b"EVERSEEN\n", None),
            (b"EVERSEEN\x01\0\0\0\0\x01\0\0", Some(FileKind::Store)),
        ] {
            let looked = look(Box::new(Slow(text.to_vec()))).expect("reads");
            assert_eq!(looked.kind, kind);
            let mut again = vec![0; text.len()];
            let mut bytes = looked.bytes;
            bytes.read_exact(&mut again).expect("what was looked at");
            assert_eq!(again, text);
        }
        let looked = look(Box::new(&b"EVERSEEN"[..])).expect("reads");
        assert_eq!(looked.kind, None);
    }
}
