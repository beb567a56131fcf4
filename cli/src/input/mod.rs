//! The sources of items: files and standard input, which a thread reads ahead.

pub(crate) mod compressed;
pub(crate) mod feed;
mod file_lists;
mod foreign_text;
mod gzip_members;
pub(crate) mod headers;
pub(crate) mod keying;
mod keys_ahead;
pub(crate) mod line_spool;
mod members;
pub(crate) mod own_files;
pub(crate) mod pages;
pub(crate) mod read_ahead;
pub(crate) mod reading;
pub(crate) mod record_blocks;
pub(crate) mod records;
pub(crate) mod urls;
pub(crate) mod window_limit;
mod xz_streams;

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io::{self, ErrorKind, IsTerminal, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use everseen::Store;
use everseen::hash::KeyHasher;
use everseen_keys::rule::Part;

use crate::error::{CliError, KeyError};
use crate::input::compressed::{Format, Meter, Stream};
use crate::input::feed::{Event, Feed, thread_failed};
use crate::input::keying::{Keying, Strays};
use crate::input::own_files::{Found, Purpose};
use crate::input::reading::Reading;
use crate::input::record_blocks::{Block, SplitError, Splitter};
use crate::input::records::KeyOptions;
use crate::input::window_limit::{DEFAULT_LOG, LARGEST_LOG, WindowTooLarge};
use crate::options::units as size;
use crate::output::format as human;
use crate::output::tell;
use crate::process::shared_stream::SharedStream;
use crate::process::{handle, memory, pipe, side_files};

/// Maximum number of blocks between the reading thread and the working one, which bounds the memory.
const BLOCKS: usize = 4;

/// What messages call the input that has no name.
pub const STDIN: &str = "standard input";

/// What they call the keys of the command line.
const KEYS: &str = "--key";

/// The part of the command line that says what to read.
#[derive(clap::Args)]
pub struct Items {
    /// Files to read, in this order; `-`, or no file, is standard input
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,

    /// Read the files named in this list as well; `-` is standard input
    ///
    /// One name a line, or between NUL bytes if the list has any.
    #[arg(long, value_name = "LIST", conflicts_with = "given")]
    pub files_from: Option<PathBuf>,

    /// Take this key as the only item, and read nothing; may be repeated
    ///
    /// It is the key itself, and no record, where the store compares records. Given several times, each is an item. The
    /// exit status of `check` and `dedup` answers.
    #[arg(long = "key", value_name = "KEY", conflicts_with = "files")]
    pub given: Vec<OsString>,

    /// Separate items by NUL bytes, not line feeds, in input and output
    #[arg(short = '0', long)]
    pub null: bool,

    /// The longest item to accept; a longer one is an error
    ///
    /// The error is reported after everything before it is done. Up to four items of this length may be in memory.
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = size::positive_size)]
    pub max_line: u64,

    /// Skip items longer than --max-line, and count them
    ///
    /// The first one is reported.
    #[arg(long)]
    pub skip_long: bool,

    /// Read gzip, zstd, xz and bzip2 data as it is
    ///
    /// By default, what begins so is decompressed, whatever its name.
    #[arg(long)]
    pub no_decompress: bool,

    /// Allow decoders 2^N bytes of past text (31 without N) [default: 27]
    ///
    /// --long=31 reads what `zstd --long=31` has written. Decoders of zstd and xz take that much memory where a file
    /// asks for it; 2^27 is 128 MiB.
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "31", conflicts_with = "no_decompress", value_parser = clap::value_parser!(u32).range(10..=i64::from(LARGEST_LOG)))]
    pub long: Option<u32>,

    #[command(flatten)]
    pub keys: KeyOptions,
}

/// Inputs that existed when they were checked.
pub struct Input {
    sources: Vec<Source>,
    separator: u8,
    pub longest: u64,
    skip_long: bool,
    pub purpose: Purpose,
    /// The largest window of a decoder, as a power of two; none where nothing is decompressed.
    window_log: Option<u32>,
    /// What the command line says of keys.
    keys: KeyOptions,
    /// Whether items are keys, rather than records that have one.
    are_keys: bool,
    /// How lines become keys.
    pub reading: Reading,
    /// Total bytes of the inputs, if all are regular files.
    pub total: Option<u64>,
    /// How many of them have been read.
    pub meter: Arc<Meter>,
    /// Whether to show no progress and no warnings.
    pub quiet: bool,
}

struct Source {
    /// For messages.
    name: String,
    /// The same, byte for byte.
    raw_name: OsString,
    origin: Origin,
    metadata: Metadata,
    /// What file of Everseen it is, if it is a regular file.
    found: Option<Found>,
}

impl Source {
    /// Returns the name under which it was given, if it has one.
    fn path(&self) -> Option<&str> {
        Some(&*self.name).filter(|name| ![STDIN, KEYS].contains(name))
    }
}

enum Origin {
    Open(File),
    /// A regular file is reopened when its turn comes, so that many thousands can be named.
    Path(PathBuf),
}

impl Input {
    /// Opens every input, so that a wrong name is reported before any work begins, and before a store is created.
    pub fn open(items: &Items, purpose: Purpose) -> Result<Self, CliError> {
        let mut input = Input {
            sources: Vec::new(),
            separator: if items.null { 0 } else { b'\n' },
            longest: items.max_line,
            skip_long: items.skip_long,
            purpose,
            window_log: (!items.no_decompress && items.given.is_empty())
                .then(|| items.long.unwrap_or(DEFAULT_LOG)),
            keys: items.keys.clone(),
            are_keys: !items.given.is_empty(),
            reading: Reading::asked(&items.keys)?,
            total: Some(0),
            meter: Arc::default(),
            quiet: false,
        };
        for path in &items.files {
            input.add(path)?;
        }
        if !items.given.is_empty() {
            input.add_keys(&items.given)?;
        } else if items.files.is_empty() {
            input.add(Path::new("-"))?;
        }
        input.refuse_own_files()?;
        Ok(input)
    }

    /// Refuses inputs that are files of Everseen. Those whose bytes come later are looked at when they come.
    fn refuse_own_files(&self) -> Result<(), CliError> {
        // A text that was taken for the store is reported as that.
        if !self.purpose.has_other_file() {
            self.refuse_store(&self.purpose.store)?;
        }
        let own = self
            .sources
            .iter()
            .find_map(|source| Some((source, source.found?)));
        match own {
            Some((source, Found { kind, format })) => {
                Err(self.purpose.refusal(source.path(), kind, format))
            }
            None => Ok(()),
        }
    }

    /// Refuses to read the store's own files.
    fn refuse_store(&self, store: &Path) -> Result<(), CliError> {
        let is_own = |source: &&Source| side_files::owns(store, &source.metadata);
        match self.sources.iter().find(is_own) {
            Some(source) => Err(CliError::InputIsStore {
                name: source.name.clone(),
            }),
            None => Ok(()),
        }
    }

    fn add(&mut self, path: &Path) -> Result<(), CliError> {
        let is_stdin = path == Path::new("-");
        let raw_name = match is_stdin {
            true => OsStr::new(STDIN),
            false => path.as_os_str(),
        };
        let name = raw_name.display().to_string();
        let fail = |source| CliError::Input {
            name: name.clone(),
            source,
        };

        let mut file = if is_stdin {
            handle::file_of(&io::stdin())
        } else {
            File::open(path)
        }
        .map_err(fail)?;
        let metadata = file.metadata().map_err(fail)?;
        pipe::widen(&file);
        if metadata.is_dir() {
            return Err(CliError::InputIsFolder { name });
        }
        let place = bytes_before(&mut file, &metadata);
        self.total = self
            .total
            .zip(place)
            .map(|(sum, place)| sum + metadata.len().saturating_sub(place));
        let found = match (place, is_stdin) {
            (Some(_), false) => own_files::found_in(&file, path, self.window_log),
            (Some(place), true) => own_files::kind_at(&file, place).map(Found::plain),
            (None, _) => None,
        };
        let origin = if metadata.is_file() && !is_stdin {
            Origin::Path(path.to_owned())
        } else {
            Origin::Open(file)
        };
        self.sources.push(Source {
            name,
            raw_name: raw_name.to_owned(),
            origin,
            metadata,
            found,
        });
        Ok(())
    }

    /// Adds keys of the command line, as what is read from a pipe.
    fn add_keys(&mut self, keys: &[OsString]) -> Result<(), CliError> {
        let mut items = Vec::new();
        for key in keys {
            let key = key.as_encoded_bytes();
            if key.contains(&self.separator) {
                return Err(CliError::Usage(
                    "--key: has a line end in it, so it is no line; add -0, which separates items by NUL bytes",
                ));
            }
            items.extend_from_slice(key);
            items.push(self.separator);
        }
        let failed = |source| CliError::System {
            action: "pass the keys on",
            source,
        };
        let (reader, mut writer) = io::pipe().map_err(failed)?;
        // It ends with the reader at the latest.
        let writing = thread::Builder::new().spawn(move || writer.write_all(&items));
        writing.map_err(thread_failed)?;
        let file = handle::file_of(&reader).map_err(failed)?;
        self.total = None;
        self.sources.push(Source {
            name: KEYS.to_owned(),
            raw_name: KEYS.into(),
            metadata: file.metadata().map_err(failed)?,
            origin: Origin::Open(file),
            found: None,
        });
        Ok(())
    }

    /// Reads lines as the store at `path` keeps it, and refuses options that contradict that. Refuses to read the
    /// store's own files as well.
    pub fn follow(&mut self, store: &Store, path: &Path) -> Result<(), CliError> {
        self.refuse_store(path)?;
        self.reading = Reading::of_store(&self.keys, store, path)?;
        Ok(())
    }

    /// Refuses to print into one of the inputs, which would grow while it is read.
    pub fn ensure_apart_from(&self, output: Option<&Metadata>) -> Result<(), CliError> {
        let is_output = |source: &&Source| {
            output.is_some_and(|output| handle::is_same_file(output, &source.metadata))
        };
        match self.sources.iter().find(is_output) {
            Some(source) => Err(CliError::InputIsOutput {
                name: source.name.clone(),
            }),
            None => Ok(()),
        }
    }

    /// Returns the delimiter of CSV, where line ends may be inside of records.
    fn csv_delimiter(&self) -> Option<u8> {
        match &self.reading.rule().part {
            // A key is no record.
            _ if self.are_keys => None,
            Part::Csv(own) if self.separator == b'\n' => Some(own.delimiter()),
            _ => None,
        }
    }

    /// Starts the thread that reads, normalises and hashes.
    pub fn start(self, hasher: KeyHasher) -> Result<Feed, CliError> {
        let (events, feed_events) = channel();
        let (feed_free, free) = channel();
        memory::expect_thread().map_err(thread_failed)?;
        let reading = match self.are_keys {
            true => self.reading.of_keys(),
            false => self.reading.clone(),
        };
        let keying = Keying::new(hasher, &reading, (self.separator, self.longest));
        for _ in 1..BLOCKS {
            // Can't fail: the receiver is alive above. The reader starts with one additional block.
            let _ = feed_free.send(Block::default());
        }
        thread::Builder::new()
            .name("reader".to_owned())
            .spawn(move || {
                let last = match self.read(keying, &events, &free) {
                    Ok(()) => Event::End,
                    Err(error) => Event::Failed(error),
                };
                // A failure means that the receiver has stopped listening.
                let _ = events.send(last);
            })
            .map_err(thread_failed)?;
        Ok(Feed::new(feed_events, feed_free))
    }

    /// Refuses what is compressed in a way that is not read, and says what may be no text.
    fn decompressed(&self, name: &str, stream: Stream) -> Result<Stream, CliError> {
        if self.window_log.is_none() {
            return Ok(stream);
        }
        let name = name.to_owned();
        if let Some(format) = stream.format.filter(|it| it.other_program().is_some()) {
            return Err(CliError::ForeignFormat { name, format });
        }
        let outer = stream.format;
        let inside = compressed::look_inside(stream);
        let inside = inside.map_err(|source| unreadable(&name, outer, source))?;
        if let (Some(outer), Some(inner)) = (outer, inside.format) {
            return Err(CliError::TwiceCompressed { name, outer, inner });
        }
        if inside.is_utf16 && !self.quiet {
            tell(format_args!(
                "everseen: {name}: begins as UTF-16 text, and lines are cut and compared as bytes; convert it first: iconv \
                 -f UTF-16 -t UTF-8"
            ));
        }
        Ok(inside.stream)
    }

    fn read(
        mut self,
        mut keying: Keying,
        events: &Sender<Event>,
        free: &Receiver<Block>,
    ) -> Result<(), CliError> {
        let csv_delimiter = self.csv_delimiter();
        for source in std::mem::take(&mut self.sources) {
            let Source { name, origin, .. } = source;
            let fail = |source| CliError::Input {
                name: name.clone(),
                source,
            };
            let file = match origin {
                Origin::Open(file) => file,
                Origin::Path(path) => File::open(path).map_err(fail)?,
            };
            // The next call reads already, and would wait without a word.
            if name == STDIN && !self.quiet && file.is_terminal() {
                tell("everseen: reading standard input; end it with Ctrl-D");
            }
            let stream = compressed::open(SharedStream::of(file), self.window_log, &self.meter)
                .map_err(fail)?;
            let stream = self.decompressed(&name, stream)?;
            let mut stream = self.purpose.refuse_stream(&name, stream)?;
            let origin = Arc::new(source.raw_name);
            let longest = usize::try_from(self.longest).unwrap_or(usize::MAX);
            let mut splitter = Splitter::new(self.separator, longest)
                .skip_long(self.skip_long)
                .cut_csv(csv_delimiter);
            keying.begin_input();
            let (mut more, mut line) = (true, 0);
            while more {
                let filled = splitter.fill(&mut stream.bytes);
                more = filled.map_err(|error| match error {
                    SplitError::Read(source) => unreadable(&name, stream.format, source),
                    other => not_split((&name, line + 1), self.longest, &other),
                })?;
                if !splitter.has_lines() {
                    continue;
                }
                let Ok(next) = free.recv() else { return Ok(()) };
                let mut block = splitter.take(next);
                let mut strays = Box::<Strays>::default();
                let lines = block.lines();
                block.come_from(&origin, line);
                let keyed = keying.key(&mut block, (&name, line), &mut strays);
                line += lines;
                if events.send(Event::Block(block, strays)).is_err() {
                    return Ok(());
                }
                keyed?;
            }
        }
        Ok(())
    }
}

/// Explains why an input can't be cut into items, whose next one is at this place.
fn not_split((name, line): (&str, u64), longest: u64, error: &SplitError) -> CliError {
    let name = name.to_owned();
    match error {
        SplitError::OpenQuote => KeyError::OpenQuote { name, line }.into(),
        _ => CliError::ItemTooLong {
            name,
            line,
            limit: human::bytes(longest),
        },
    }
}

/// Explains why an input can't be read further: because of the system, or because of what is in it.
fn unreadable(name: &str, format: Option<Format>, source: io::Error) -> CliError {
    let name = name.to_owned();
    let limit = source.get_ref().and_then(|own| own.downcast_ref());
    if let (Some(format), Some(WindowTooLarge { log })) = (format, limit) {
        let log = *log;
        return CliError::WindowTooLarge { name, format, log };
    }
    match format {
        Some(format) if source.raw_os_error().is_none() => match source.kind() {
            ErrorKind::UnexpectedEof => CliError::CutShort { name, format },
            ErrorKind::OutOfMemory => CliError::Input { name, source },
            // The decoder's own words, which have no kind.
            _ if source.to_string().contains("not enough memory") => CliError::Input {
                name,
                source: ErrorKind::OutOfMemory.into(),
            },
            _ => CliError::NotDecompressed {
                name,
                format,
                source,
            },
        },
        _ => CliError::Input { name, source },
    }
}

/// Returns how many bytes of a regular file come before those that are to be read.
fn bytes_before(file: &mut File, metadata: &Metadata) -> Option<u64> {
    metadata.is_file().then(|| file.stream_position().ok())?
}
