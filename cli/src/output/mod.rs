//! Output that detects every failure, and messages on standard error that can't fail.

pub(crate) mod exact_file;
pub(crate) mod format;
pub(crate) mod progress;

use std::fmt::Display;
use std::fs::{File, Metadata};
use std::io::{self, BufWriter, Write};
use std::ops::Range;

use everseen::{Escaped, FileKind};

use crate::error::{CliError, KeyError};
use crate::input::compressed::{LONGEST_MAGIC, format_of};
use crate::input::headers::without_ends;
use crate::input::keying::shown;
use crate::input::record_blocks::{Block, Place};
use crate::output::exact_file::Sink;
use crate::process::at_start as begun;
use crate::process::handle::{self, Before, file_of};
use crate::process::pipe::OutputPipe;
use crate::process::shared_stream::SharedStream;

/// Longer runs of items go to the system directly from their block.
const BUFFER: usize = 128 << 10;

/// What is said of a file that may end in the middle of a line.
const UNKNOWN_END: &str = "everseen: standard output: the file can't be read, so whether its last line is ended is \
                           unknown; what is printed begins with a line end";

/// The destination of printed items.
pub struct Output {
    to: Option<BufWriter<SharedStream>>,
    /// Present for a regular file: only that can be synced, and needs it.
    regular: Option<Metadata>,
    pipe: Option<OutputPipe>,
    unsynced: bool,
    /// The file's current last byte, until something is printed.
    before: Before,
    /// Whether to print no warnings.
    quiet: bool,
    /// Present for a named file: it notes the file's length.
    sink: Option<Sink>,
    numbers: Numbers,
}

/// What precedes each printed item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbers {
    None,
    /// Its line number.
    Line,
    /// The name of its input too.
    FileAndLine,
}

impl Output {
    /// Creates an output to standard output.
    pub fn stdout() -> Result<Self, CliError> {
        let file = stdout()?;
        Self::file_output(file, None).map_err(CliError::Output)
    }

    /// Creates an output that appends to a named file.
    pub fn to_file(sink: Sink) -> Result<Self, CliError> {
        let file = sink.file().map_err(|error| failure(Some(&sink), error))?;
        let begin = beginning(&file, LONGEST_MAGIC);
        refuse_compressed(&file, begin.as_deref(), Some(&sink))?;
        let output = Self::file_output(file, Some(sink.clone()));
        output.map_err(|error| failure(Some(&sink), error))
    }

    fn file_output(file: File, sink: Option<Sink>) -> io::Result<Self> {
        let regular = Some(file.metadata()?).filter(Metadata::is_file);
        let before = match regular {
            Some(_) => handle::before(&file),
            None => Before::Nothing,
        };
        Ok(Output {
            before,
            pipe: OutputPipe::of(&file),
            to: Some(BufWriter::with_capacity(BUFFER, SharedStream::of(file))),
            regular,
            unsynced: false,
            sink,
            numbers: Numbers::None,
            quiet: false,
        })
    }

    /// Creates an output that prints nothing.
    pub fn none() -> Self {
        Output {
            before: Before::Nothing,
            quiet: false,
            to: None,
            regular: None,
            pipe: None,
            unsynced: false,
            sink: None,
            numbers: Numbers::None,
        }
    }

    /// Puts the place of each item before it.
    pub fn number(self, numbers: Numbers) -> Self {
        Output { numbers, ..self }
    }

    /// Prints no warnings if `quiet`.
    pub fn quiet(self, quiet: bool) -> Self {
        Output { quiet, ..self }
    }

    pub fn prints(&self) -> bool {
        self.to.is_some()
    }

    /// Returns whether it prints to standard output.
    pub fn is_stdout(&self) -> bool {
        self.prints() && self.sink.is_none()
    }

    /// Returns the regular file that grows with the output.
    pub fn file(&self) -> Option<&Metadata> {
        self.regular.as_ref()
    }

    /// Returns the named file.
    pub fn sink(&self) -> Option<&Sink> {
        self.sink.as_ref()
    }

    /// Prints the kept items from `first` on, in as few writes as possible.
    ///
    /// If a killed run has left an unfinished item at the end of the file, or may have, the method first ends that item,
    /// so that the next one does not continue it.
    pub fn print(&mut self, block: &Block, first: usize, keep: &[bool]) -> Result<(), CliError> {
        let Some(to) = &mut self.to else {
            return Ok(());
        };
        let mut at = 0;
        for run in keep.chunk_by(|a, b| a == b) {
            let range = first + at..first + at + run.len();
            at += run.len();
            if run[0] {
                let separator = block.run(range.clone()).last().copied();
                let before = std::mem::replace(&mut self.before, Before::Nothing);
                if before == Before::Unknown && !self.quiet {
                    tell(UNKNOWN_END);
                }
                let is_ended = match before {
                    Before::Nothing => true,
                    Before::Byte(byte) => Some(byte) == separator,
                    Before::Unknown => false,
                };
                let written = match is_ended {
                    true => Ok(()),
                    false => to.write_all(separator.as_slice()),
                };
                let printed = written.and_then(|()| print_run(to, block, range, self.numbers));
                printed.map_err(|error| failure(self.sink.as_ref(), error))?;
                self.unsynced = true;
            }
        }
        Ok(())
    }

    /// Prints the header of CSV at the start of an output, unless items have numbers. Refuses an output that begins with
    /// another one.
    pub fn print_header(&mut self, header: &[u8]) -> Result<(), CliError> {
        if self.before != Before::Nothing {
            return self.expect_header(header);
        }
        let Some(to) = self.to.as_mut() else {
            return Ok(());
        };
        if self.numbers == Numbers::None {
            let written = to.write_all(header);
            written.map_err(|error| failure(self.sink.as_ref(), error))?;
            self.unsynced = true;
        }
        Ok(())
    }

    /// Refuses a file whose first line is not this header: rows behind it would be taken for others. That may as well be the
    /// first record of a file without a header, which would be left out.
    fn expect_header(&self, header: &[u8]) -> Result<(), CliError> {
        let Some(to) = self.to.as_ref().filter(|_| self.numbers == Numbers::None) else {
            return Ok(());
        };
        let Some((separator, header)) = header.split_last() else {
            return Ok(());
        };
        let header = without_ends(header);
        // Room for its end, and for a mark before it.
        let Some(begin) = beginning(to.get_ref().file(), header.len() + 8) else {
            return Ok(());
        };
        let found = without_ends(&begin);
        let is_header = found.strip_prefix(header).is_some_and(|rest| {
            let rest = rest.strip_prefix(b"\r").unwrap_or(rest);
            rest.first().is_none_or(|byte| byte == separator)
        });
        if is_header {
            return Ok(());
        }
        let line = found.split(|byte| byte == separator).next();
        let error = KeyError::OutputHasOtherHeader {
            name: name_of(self.sink.as_ref()),
            found: shown(without_ends(line.unwrap_or_default())),
            header: shown(header),
        };
        Err(error.into())
    }

    /// Passes everything printed so far to the system.
    pub fn flush(&mut self) -> Result<(), CliError> {
        let flushed = self.to.as_mut().map_or(Ok(()), BufWriter::flush);
        flushed.map_err(|error| failure(self.sink.as_ref(), error))
    }

    /// Makes everything printed so far durable, as far as the destination supports that. Of what stands in a pipe, its
    /// reader has taken all but as much as a pipe of the usual size holds.
    pub fn sync(&mut self) -> Result<(), CliError> {
        self.flush()?;
        if let Some(sink) = self.sink.as_ref().filter(|_| self.unsynced) {
            sink.sync()?;
            self.unsynced = false;
            return Ok(());
        }
        let synced = match (&self.to, self.pipe) {
            (Some(to), _) if self.regular.is_some() && self.unsynced => {
                to.get_ref().file().sync_data()
            }
            (Some(to), Some(pipe)) if self.unsynced => pipe.wait_until_read(to.get_ref().file()),
            _ => Ok(()),
        };
        synced.map_err(|error| failure(self.sink.as_ref(), error))?;
        self.unsynced = false;
        Ok(())
    }
}

/// Prints neighbouring items: as they lie there, or each behind its place.
fn print_run(
    to: &mut impl Write,
    block: &Block,
    range: Range<usize>,
    numbers: Numbers,
) -> io::Result<()> {
    if numbers == Numbers::None {
        return to.write_all(block.run(range));
    }
    for item in range {
        let Place { input, line } = block.place(item);
        match numbers {
            Numbers::FileAndLine => {
                to.write_all(input.as_encoded_bytes())?;
                write!(to, ":{line}:")?;
            }
            _ => write!(to, "{line}:")?,
        }
        to.write_all(block.run(item..item + 1))?;
    }
    Ok(())
}

fn failure(sink: Option<&Sink>, source: io::Error) -> CliError {
    match sink {
        Some(sink) => CliError::of_output(sink.path(), source),
        None => CliError::Output(source),
    }
}

/// Returns standard output. Refuses to append to a file of Everseen.
fn stdout() -> Result<File, CliError> {
    begun::check_stdout()?;
    let file = file_of(&io::stdout()).map_err(CliError::Output)?;
    let begin = beginning(&file, LONGEST_MAGIC);
    match begin.as_deref().and_then(FileKind::of) {
        Some(kind) => Err(CliError::OutputIsOwnFile {
            name: "standard output".to_owned(),
            kind,
            meant: "redirect it to another file".to_owned(),
        }),
        None => refuse_compressed(&file, begin.as_deref(), None).map(|()| file),
    }
}

/// Returns the first bytes of a regular file, as far as they can be read.
fn beginning(file: &File, most: usize) -> Option<Vec<u8>> {
    let length = file.metadata().ok().filter(Metadata::is_file)?.len();
    let mut bytes = vec![0; usize::try_from(length).map_or(most, |length| length.min(most))];
    handle::read_at(&handle::reader_of(file)?, &mut bytes, 0).ok()?;
    Some(bytes)
}

/// Refuses to append to a file that begins as compressed data: neither a decoder nor a reader of lines could read what comes
/// of it.
fn refuse_compressed(
    file: &File,
    begin: Option<&[u8]>,
    sink: Option<&Sink>,
) -> Result<(), CliError> {
    match begin.and_then(format_of) {
        Some(format) if handle::before(file) != Before::Nothing => {
            Err(CliError::OutputIsCompressed {
                name: name_of(sink),
                format,
            })
        }
        _ => Ok(()),
    }
}

/// Returns what messages call an output.
fn name_of(sink: Option<&Sink>) -> String {
    match sink {
        Some(sink) => sink.path().display().to_string(),
        None => "standard output".to_owned(),
    }
}

/// Prints a text in one piece. A closed reader is not an error.
pub fn print(text: &str) -> Result<(), CliError> {
    let written = SharedStream::of(stdout()?).write_all(text.as_bytes());
    match written.map_err(CliError::Output) {
        Err(error) if error.is_closed_output() => Ok(()),
        other => other,
    }
}

/// Prints a value as indented JSON.
pub fn print_json(value: &impl serde::Serialize) -> Result<(), CliError> {
    let text =
        serde_json::to_string_pretty(value).map_err(|error| CliError::Output(error.into()))?;
    print(&(without_controls(&text) + "\n"))
}

/// Returns the same JSON without characters that a terminal obeys: JSON escapes some itself. Others can stand in its strings
/// alone.
fn without_controls(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for char in json.chars() {
        match char {
            '\n' => text.push(char),
            // They all have four digits at most.
            char if Escaped(char).to_string().len() > char.len_utf8() => {
                text.push_str(&format!("\\u{:04x}", char as u32));
            }
            char => text.push(char),
        }
    }
    text
}

/// Prints a value as one line of JSON on standard error. Fails as [`sum_up`] does.
pub fn tell_json(value: &impl serde::Serialize) -> Result<(), CliError> {
    let text = serde_json::to_string(value);
    let text = text.map_err(|error| CliError::Summary(error.into()))?;
    write_stderr(&without_controls(&text))
}

/// Prints a summary on standard error, in one line. It is part of what the command was run for, so it may not be lost
/// without notice. A closed reader is not an error.
pub fn sum_up(summary: impl Display) -> Result<(), CliError> {
    write_stderr(&Escaped(summary).to_string())
}

/// Prints a message on standard error, in one line. If that is impossible, the message is dropped: nothing else could tell
/// of it.
pub fn tell(message: impl Display) {
    let _ = write_stderr(&Escaped(message).to_string());
}

/// Prints lines on standard error. If that is impossible, they are dropped.
pub fn tell_lines(lines: &str) {
    let _ = write_stderr(lines);
}

fn write_stderr(text: &str) -> Result<(), CliError> {
    let stderr = file_of(&io::stderr()).map(SharedStream::of);
    // In one piece, so that the messages of several processes don't mix.
    let written = stderr.and_then(|mut stderr| stderr.write_all(format!("{text}\n").as_bytes()));
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(CliError::Summary(error)),
        _ => Ok(()),
    }
}
