//! How a store is opened, and opened again: by a forked child, or on the other side of a pickle.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use everseen::{CreateOptions, ForgetBy, OnDamage, OpenOptions, OptionDifference, Result, Store};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::{OrRaise, own};
use crate::times;
use crate::warnings::warn;

/// The options that a handle has, and that one has that goes on for it. All others are of a new store, and are in its header
/// from then on.
const LASTING: [&str; 7] = [
    "at",
    "buffer",
    "writer",
    "background",
    "timeout",
    "on_damage",
    "follow",
];

/// The arguments of `_reopen`, in Python.
pub(crate) type Reopening<'py> = (
    Py<PyAny>,
    &'static str,
    Bound<'py, PyDict>,
    Option<SystemTime>,
);

/// What `open` is to do, as the modes of Python's own `open` say it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Opens the store, or creates it.
    OpenOrCreate,
    /// Creates the store.
    Create,
    /// Opens the store.
    Open,
    /// Opens the store to read.
    Read,
}

impl Mode {
    fn of(name: &str) -> PyResult<Self> {
        match name {
            "a" => Ok(Self::OpenOrCreate),
            "x" => Ok(Self::Create),
            "r+" => Ok(Self::Open),
            "r" => Ok(Self::Read),
            _ => Err(PyValueError::new_err(format!(
                "mode {name:?}: there are 'a' (open, or create), 'x' (create), 'r+' (open) and 'r' (read)"
            ))),
        }
    }
}

pub(crate) struct Opening {
    /// From the root: a process may change its folder.
    pub(crate) path: PathBuf,
    pub(crate) exclusive: bool,
    pub(crate) writer: String,
    mode: Mode,
    options: StoreOptions,
    /// The latest time that the caller has told: where the handle that replaces this one goes on.
    told: Mutex<Option<SystemTime>>,
    /// Whether `at` was given, so that time stands still in between.
    stands_still: bool,
    /// The lasting options, as they were given.
    given: Py<PyDict>,
}

impl Opening {
    pub(crate) fn of(path: PathBuf, mode: &str, given: &Bound<'_, PyDict>) -> PyResult<Self> {
        let lasting = PyDict::new(given.py());
        if given.contains("times")? && !given.contains("like")? {
            return Err(PyValueError::new_err(
                "`times` makes a store so many times as large as another one: name that by `like`",
            ));
        }
        let (mut exclusive, mut writer, mut at) = (false, "default".to_owned(), None);
        for (name, value) in given {
            let name: String = name.extract()?;
            match name.as_str() {
                "exclusive" => exclusive = value.extract()?,
                "writer" => writer = value.extract()?,
                "at" => at = Some(times::time("at", &value)?),
                _ => {}
            }
            if LASTING.contains(&name.as_str()) {
                lasting.set_item(name, value)?;
            }
        }
        let mode = Mode::of(mode)?;
        if exclusive && mode == Mode::Read {
            return Err(PyValueError::new_err(
                "`exclusive` keeps others out, which a handle of mode 'r' can't: use mode 'r+'",
            ));
        }
        Ok(Self {
            path: std::path::absolute(path)?,
            exclusive,
            writer,
            mode,
            options: StoreOptions::of(given)?,
            told: Mutex::new(at),
            stands_still: at.is_some(),
            given: lasting.unbind(),
        })
    }

    pub(crate) fn open(&self) -> Result<Store> {
        let path: &Path = &self.path;
        match self.mode {
            Mode::OpenOrCreate => self.options.to_create().open_or_create(path),
            Mode::Create => self.options.to_create().create(path),
            Mode::Open => self.options.open.open(path),
            Mode::Read => self.options.open.open_read_only(path),
        }
    }

    /// Refuses a time for a store that is to be created and keeps its keys for ever.
    pub(crate) fn check_time(&self) -> PyResult<()> {
        let creates = match self.mode {
            Mode::OpenOrCreate => !self.path.exists(),
            Mode::Create => true,
            Mode::Open | Mode::Read => false,
        };
        match creates && !self.options.may_forget && self.at().is_some() {
            true => Err(PyValueError::new_err(
                "`at` is for stores that forget, and a new one keeps its keys for ever without `forget_after`",
            )),
            false => Ok(()),
        }
    }

    /// Tells a store that was opened the time that was asked for, and warns if it is later there. `is_again` spares the
    /// warning where another process goes on with a handle: time may have gone on, too.
    pub(crate) fn tell_time(&self, py: Python<'_>, store: &Store, is_again: bool) -> PyResult<()> {
        let Some(at) = self.told() else {
            return Ok(());
        };
        store.advance_to(at).or_raise(py)?;
        let forgetting = store.stats().or_raise(py)?.forgetting;
        if let Some(has) = forgetting.filter(|has| at + has.window / has.steps <= has.now)
            && !is_again
        {
            let message = format!(
                "{} is at {} already, in seconds since 1970: an earlier `at` has no effect; \
                 `everseen.repair` sets a wrong time back (`set_clock`)",
                self.path.display(),
                times::seconds_since_1970(has.now)
            );
            warn(py, "NoEffectWarning", message, 3)?;
        }
        Ok(())
    }

    /// Notes that the caller has gone on to a time.
    pub(crate) fn advance_to(&self, time: SystemTime) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        *told = Some(told.map_or(time, |before| before.max(time)));
    }

    fn told(&self) -> Option<SystemTime> {
        *self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time at which another handle stands still.
    fn at(&self) -> Option<SystemTime> {
        self.told().filter(|_| self.stands_still)
    }

    /// The time from which on another handle follows the system's clock, unless that is later.
    pub(crate) fn advanced_to(&self) -> Option<SystemTime> {
        self.told().filter(|_| !self.stands_still)
    }

    /// Compares a store that existed before with the options for a new one. Refuses one that is less, and warns of what
    /// has no effect since it is more.
    pub(crate) fn compare(&self, py: Python<'_>, store: &Store) -> PyResult<()> {
        if self.mode == Mode::Create {
            return Ok(());
        }
        let path = self.path.display();
        let found = self.options.create.differences(store).or_raise(py)?;
        if let Some(unmet) = found.iter().find(|found| found.is_unmet) {
            let OptionDifference { option, has, .. } = unmet;
            let message = format!(
                "{path}: exists already, and has {has}; leave out `{option}`, or name another store"
            );
            let error = own(py, "UnmetOptionError", message);
            error.value(py).setattr("option", option)?;
            return Err(error);
        }
        for OptionDifference { option, has, .. } in found {
            let message = format!(
                "{path} was created with {has}: `{option}` has no effect on a store that exists"
            );
            // The one that called `everseen.open`, which calls a function that calls this.
            warn(py, "NoEffectWarning", message, 3)?;
        }
        Ok(())
    }

    /// Opens the store that [`open`](Self::open) has opened before.
    pub(crate) fn reopen(&self) -> Result<Store> {
        let mut options = self.options.open.clone();
        if let Some(at) = self.at() {
            options = options.clock(at);
        }
        let store = match self.mode {
            Mode::Read => options.open_read_only(&self.path),
            _ => options.open(&self.path),
        }?;
        if let Some(time) = self.advanced_to() {
            store.advance_to(time)?;
        }
        Ok(store)
    }

    pub(crate) fn mode_to_reopen(&self) -> &'static str {
        match self.mode {
            Mode::Read => "r",
            _ => "r+",
        }
    }

    pub(crate) fn options_to_reopen<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let given = self.given.bind(py).copy()?;
        if let Some(at) = self.at() {
            given.set_item("at", at)?;
        }
        Ok(given)
    }
}

fn forget_by(name: &str) -> PyResult<ForgetBy> {
    match name {
        "first" => Ok(ForgetBy::First),
        "last" => Ok(ForgetBy::Last),
        _ => Err(PyValueError::new_err(format!(
            "forget_by {name:?}: there are 'first' and 'last'"
        ))),
    }
}

/// The library's options: of a handle, and of a new store.
pub(crate) struct StoreOptions {
    pub(crate) open: OpenOptions,
    create: CreateOptions,
    growth: u32,
    tightening: f64,
    /// Whether a new store forgets, or is like another one, which may.
    may_forget: bool,
}

impl StoreOptions {
    /// Takes the options of a dictionary. What is `None` keeps its default.
    pub(crate) fn of(given: &Bound<'_, PyDict>) -> PyResult<Self> {
        let mut options = Self {
            open: OpenOptions::new(),
            create: CreateOptions::new(),
            growth: CreateOptions::DEFAULT_GROWTH,
            tightening: CreateOptions::DEFAULT_TIGHTENING,
            may_forget: given.contains("forget_after")? || given.contains("like")?,
        };
        for (name, value) in given {
            if !value.is_none() {
                let name: String = name.extract()?;
                options = match LASTING.contains(&&*name)
                    || ["exclusive", "set_clock"].contains(&&*name)
                {
                    true => options.set_open(&name, &value)?,
                    false => options.set_create(&name, &value)?,
                };
            }
        }
        options.create = options.create.layers(options.growth, options.tightening);
        Ok(options)
    }

    fn to_create(&self) -> CreateOptions {
        self.create.clone().open_options(self.open.clone())
    }

    fn set_open(mut self, name: &str, value: &Bound<'_, PyAny>) -> PyResult<Self> {
        let open = self.open;
        self.open = match name {
            "at" | "set_clock" => open.clock(times::time(name, value)?),
            "buffer" => open.buffer(value.extract()?),
            "writer" => open.writer(&value.extract::<String>()?),
            "background" => open.background(value.extract()?),
            "exclusive" => open.exclusive(value.extract()?),
            "timeout" => open.timeout(times::duration(name, value)?),
            "follow" => open.follow(value.extract()?),
            "on_damage" => open.on_damage(on_damage(&value.extract::<String>()?)?),
            _ => return Err(unknown(name)),
        };
        Ok(self)
    }

    fn set_create(mut self, name: &str, value: &Bound<'_, PyAny>) -> PyResult<Self> {
        let create = self.create;
        self.create = match name {
            "capacity" => create.capacity(value.extract()?),
            "grows_to" => create.grows_to(value.extract()?),
            "fpr" => create.fpr(value.extract()?),
            "bits_per_key" => create.bits_per_key(value.extract()?),
            "kind" => create.kind(named(&value.extract::<String>()?)?),
            "growth" => {
                self.growth = value.extract()?;
                create
            }
            "tightening" => {
                self.tightening = value.extract()?;
                create
            }
            "hash" => create.hash(named(&value.extract::<String>()?)?),
            "seed" => create.seed(seed(&value.extract::<Vec<u8>>()?)?),
            "transactional" => create.transactional(value.extract()?),
            "measured" => create.measured(value.extract()?),
            "label" => create.label(&value.extract::<Vec<u8>>()?),
            "forget_after" => create.forget_after(times::duration(name, value)?),
            "forget_steps" => create.forget_steps(value.extract()?),
            "forget_by" => create.forget_by(forget_by(&value.extract::<String>()?)?),
            "foldable" => create.foldable(value.extract()?),
            "times" => create.times(value.extract()?),
            "like" => create.like(value.extract::<PathBuf>()?),
            _ => return Err(unknown(name)),
        };
        Ok(self)
    }
}

fn unknown(name: &str) -> PyErr {
    PyTypeError::new_err(format!("no option {name:?}"))
}

/// Parses the name of a kind or of a hash.
pub(crate) fn named<T: std::str::FromStr<Err: std::fmt::Display>>(name: &str) -> PyResult<T> {
    let parsed = name.parse();
    parsed.map_err(|error: T::Err| PyValueError::new_err(error.to_string()))
}

pub(crate) fn seed(bytes: &[u8]) -> PyResult<[u8; 32]> {
    bytes
        .try_into()
        .map_err(|_| PyValueError::new_err(format!("a seed has 32 bytes, not {}", bytes.len())))
}

pub(crate) fn on_damage(name: &str) -> PyResult<OnDamage> {
    match name {
        "error" => Ok(OnDamage::Error),
        "never_seen" => Ok(OnDamage::NeverSeen),
        "seen" => Ok(OnDamage::Seen),
        _ => Err(PyValueError::new_err(format!(
            "on_damage {name:?}: there are 'error', 'never_seen' and 'seen'"
        ))),
    }
}
