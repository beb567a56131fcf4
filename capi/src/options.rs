//! How a store is opened, and what a new one is like.

use std::ffi::c_char;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use everseen::{CreateOptions, ForgetBy, Kind, OnDamage, OpenOptions};

use crate::border::{In, Object};
use crate::code::{
    Code, EVERSEEN_ERROR_INVALID_ARGUMENT, EVERSEEN_ERROR_NULL_POINTER, EVERSEEN_OK,
};
use crate::failure::{Failure, Outcome, caught};

/// A Bloom filter, for a number of keys that is known.
pub const EVERSEEN_KIND_BLOOM: i32 = 1;
/// A multiset: keys are counted, up to 15, and can be removed.
pub const EVERSEEN_KIND_COUNTING: i32 = 2;
/// Bloom filters in layers, which grows.
pub const EVERSEEN_KIND_SCALABLE: i32 = 3;
/// A packed set of fingerprints, which grows, and whose keys can be removed.
pub const EVERSEEN_KIND_FINGERPRINT: i32 = 4;

/// A key is forgotten some time after it was accepted as new.
pub const EVERSEEN_FORGET_BY_FIRST: i32 = 1;
/// A key is forgotten some time after it was last inserted.
pub const EVERSEEN_FORGET_BY_LAST: i32 = 2;

/// A call that meets a damaged page fails.
pub const EVERSEEN_ON_DAMAGE_ERROR: i32 = 0;
/// The keys of a damaged page were never seen.
pub const EVERSEEN_ON_DAMAGE_NEVER_SEEN: i32 = 1;
/// The keys of a damaged page were seen.
pub const EVERSEEN_ON_DAMAGE_SEEN: i32 = 2;

/// Options of a handle, and of a new store. One thread at a time may use them.
#[derive(Default)]
pub struct Options {
    pub(crate) create: CreateOptions,
    pub(crate) open: OpenOptions,
}

impl Options {
    /// Returns the options with which `everseen_create` creates a store.
    pub(crate) fn to_create(&self) -> CreateOptions {
        self.create.clone().open_options(self.open.clone())
    }
}

fn set(mut options: Object<Options>, change: impl FnOnce(&mut Options) -> Outcome) -> Code {
    let changed = caught(|| match options.get_mut() {
        Some(options) => change(options),
        None => Err(Failure::new(
            EVERSEEN_ERROR_NULL_POINTER,
            "options: a null pointer".to_owned(),
        )),
    });
    changed.map_or_else(Failure::noted, |()| EVERSEEN_OK)
}

fn set_create(
    options: Object<Options>,
    change: impl FnOnce(CreateOptions) -> CreateOptions,
) -> Code {
    set(options, |options| {
        options.create = change(std::mem::take(&mut options.create));
        Ok(())
    })
}

fn set_open(options: Object<Options>, change: impl FnOnce(OpenOptions) -> OpenOptions) -> Code {
    set(options, |options| {
        options.open = change(std::mem::take(&mut options.open));
        Ok(())
    })
}

/// Returns what a number stands for.
fn choice<T: Copy>(option: &str, number: i32, choices: &[(i32, T)]) -> Result<T, Failure> {
    let chosen = choices.iter().find(|(known, _)| *known == number);
    chosen.map(|(_, choice)| *choice).ok_or_else(|| {
        Failure::new(
            EVERSEEN_ERROR_INVALID_ARGUMENT,
            format!("{option}: {number} stands for no choice"),
        )
    })
}

/// Returns new options, all of which have their defaults. `everseen_options_free` frees them; a store that was opened with
/// them doesn't need them any more.
///
/// Setting an option fails with `EVERSEEN_ERROR_NULL_POINTER` for no options, and with
/// `EVERSEEN_ERROR_INVALID_ARGUMENT` for a number that stands for no choice. A value out of range is an error of the call
/// that opens the store.
#[unsafe(no_mangle)]
pub extern "C" fn everseen_options_new() -> *mut Options {
    Box::into_raw(Box::default())
}

/// Frees options; a null pointer is none.
#[unsafe(no_mangle)]
pub extern "C" fn everseen_options_free(options: Object<Options>) {
    drop(options.take());
}

/// Of a new store: how many keys it is for. Without a capacity it grows.
#[unsafe(no_mangle)]
pub extern "C" fn everseen_options_set_capacity(options: Object<Options>, keys: u64) -> Code {
    set_create(options, |create| create.capacity(keys))
}

/// Of a new store of fingerprints: how many keys it may grow to; 2^36 by default. Each doubling takes one bit a key.
#[unsafe(no_mangle)]
pub extern "C" fn everseen_options_set_grows_to(options: Object<Options>, keys: u64) -> Code {
    set_create(options, |create| create.grows_to(keys))
}

/// Of a new store: the highest share of absent keys that it may call seen, above 0 and below 1; 1e-6 by default.
#[unsafe(no_mangle)]
pub extern "C" fn everseen_options_set_fpr(options: Object<Options>, rate: f64) -> Code {
    set_create(options, |create| create.fpr(rate))
}

/// Of a new store: its kind, `EVERSEEN_KIND_…`. By default `EVERSEEN_KIND_BLOOM` with a capacity and no time after
/// which it forgets, else `EVERSEEN_KIND_FINGERPRINT`.
#[unsafe(no_mangle)]
pub extern "C" fn everseen_options_set_kind(options: Object<Options>, kind: i32) -> Code {
    let kinds = [
        (EVERSEEN_KIND_BLOOM, Kind::Bloom),
        (EVERSEEN_KIND_COUNTING, Kind::Counting),
        (EVERSEEN_KIND_SCALABLE, Kind::Scalable),
        (EVERSEEN_KIND_FINGERPRINT, Kind::Fingerprint),
    ];
    set(options, |options| {
        let kind = choice("kind", kind, &kinds)?;
        options.create = std::mem::take(&mut options.create).kind(kind);
        Ok(())
    })
}

/// Of a new store: whether only a commit makes inserts and removes count. What a handle has not committed is dropped
/// when it is closed, or when its process dies. False by default.
#[unsafe(no_mangle)]
pub extern "C" fn everseen_options_set_transactional(options: Object<Options>, yes: bool) -> Code {
    set_create(options, |create| create.transactional(yes))
}

/// Of a new store: after how many milliseconds it forgets a key, one second to a thousand years. By default it keeps keys
/// for ever.
#[unsafe(no_mangle)]
pub extern "C" fn everseen_options_set_forget_after(
    options: Object<Options>,
    milliseconds: u64,
) -> Code {
    let window = Duration::from_millis(milliseconds);
    set_create(options, |create| create.forget_after(window))
}

/// Of a new store that forgets: in how many steps it counts ages, 1 to 255; 15 by default. A key is seen for the window,
/// and for one step more at most.
#[unsafe(no_mangle)]
pub extern "C" fn everseen_options_set_forget_steps(options: Object<Options>, steps: u32) -> Code {
    set_create(options, |create| create.forget_steps(steps))
}

/// Of a new store that forgets: what the window of a key begins with, `EVERSEEN_FORGET_BY_FIRST` (by default) or
/// `EVERSEEN_FORGET_BY_LAST`.
#[unsafe(no_mangle)]
pub extern "C" fn everseen_options_set_forget_by(options: Object<Options>, by: i32) -> Code {
    let events = [
        (EVERSEEN_FORGET_BY_FIRST, ForgetBy::First),
        (EVERSEEN_FORGET_BY_LAST, ForgetBy::Last),
    ];
    set(options, |options| {
        let by = choice("forget_by", by, &events)?;
        options.create = std::mem::take(&mut options.create).forget_by(by);
        Ok(())
    })
}

/// Of the handle: the bytes of memory for both write buffers and all scratch, 131,072 or more. By default memory follows
/// the filter, from 64 MiB up.
#[unsafe(no_mangle)]
pub extern "C" fn everseen_options_set_buffer(options: Object<Options>, bytes: u64) -> Code {
    set_open(options, |open| open.buffer(bytes))
}

/// Of the handle: the name under which it commits, UTF-8 of 1 to 255 bytes with a zero at its end; "default" by default.
#[unsafe(no_mangle)]
pub extern "C" fn everseen_options_set_writer(options: Object<Options>, name: In<c_char>) -> Code {
    set(options, |options| {
        let name = utf8(&name, "writer")?;
        options.open = std::mem::take(&mut options.open).writer(name);
        Ok(())
    })
}

/// Of the handle: whether it has the store for itself, which fails with `EVERSEEN_ERROR_LOCKED` while any other handle
/// has it open. False by default.
#[unsafe(no_mangle)]
pub extern "C" fn everseen_options_set_exclusive(options: Object<Options>, yes: bool) -> Code {
    set_open(options, |open| open.exclusive(yes))
}

/// Of the handle: whether checkpoints run on threads of their own. True by default; otherwise they run in the call that
/// fills the buffer.
#[unsafe(no_mangle)]
pub extern "C" fn everseen_options_set_background(options: Object<Options>, yes: bool) -> Code {
    set_open(options, |open| open.background(yes))
}

/// Of the handle: how many milliseconds it waits for others before `EVERSEEN_ERROR_BUSY`; 30,000 by default.
#[unsafe(no_mangle)]
pub extern "C" fn everseen_options_set_timeout(
    options: Object<Options>,
    milliseconds: u64,
) -> Code {
    set_open(options, |open| {
        open.timeout(Duration::from_millis(milliseconds))
    })
}

/// Of the handle: what a damaged page means to it, `EVERSEEN_ON_DAMAGE_…`; an error by default.
#[unsafe(no_mangle)]
pub extern "C" fn everseen_options_set_on_damage(options: Object<Options>, policy: i32) -> Code {
    let policies = [
        (EVERSEEN_ON_DAMAGE_ERROR, OnDamage::Error),
        (EVERSEEN_ON_DAMAGE_NEVER_SEEN, OnDamage::NeverSeen),
        (EVERSEEN_ON_DAMAGE_SEEN, OnDamage::Seen),
    ];
    set(options, |options| {
        let policy = choice("on_damage", policy, &policies)?;
        options.open = std::mem::take(&mut options.open).on_damage(policy);
        Ok(())
    })
}

/// Of a handle that reads: whether it goes on from one writer to the next. False by default.
#[unsafe(no_mangle)]
pub extern "C" fn everseen_options_set_follow(options: Object<Options>, yes: bool) -> Code {
    set_open(options, |open| open.follow(yes))
}

/// Of a handle of a store that forgets: what time it is, in milliseconds since 1970, for replays and tests. Time stands
/// still until `everseen_advance_to`. By default it follows the system's clock.
#[unsafe(no_mangle)]
pub extern "C" fn everseen_options_set_clock(options: Object<Options>, milliseconds: u64) -> Code {
    set(options, |options| {
        let time = time_at(milliseconds)?;
        options.open = std::mem::take(&mut options.open).clock(time);
        Ok(())
    })
}

/// Returns a time that was given in milliseconds since 1970. Windows has none beyond the year 30,828.
pub(crate) fn time_at(milliseconds: u64) -> Result<SystemTime, Failure> {
    let time = UNIX_EPOCH.checked_add(Duration::from_millis(milliseconds));
    time.ok_or_else(|| {
        Failure::new(
            EVERSEEN_ERROR_INVALID_ARGUMENT,
            format!("this system has no time {milliseconds} milliseconds after 1970"),
        )
    })
}

/// Returns a text that must be UTF-8.
pub(crate) fn utf8<'a>(text: &'a In<c_char>, name: &'static str) -> Result<&'a str, Failure> {
    text.text(name)?
        .to_str()
        .map_err(|error| Failure::new(EVERSEEN_ERROR_INVALID_ARGUMENT, format!("{name}: {error}")))
}
