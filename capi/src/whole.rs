//! What concerns a store as a whole: what it says about itself, checkpoints, copies, time.

use std::ffi::{c_char, c_int, c_void};
use std::ops::ControlFlow;
use std::time::{SystemTime, UNIX_EPOCH};

use everseen::{ForgetBy, Kind};

use crate::border::{In, Object, Out};
use crate::code::Code;
use crate::handle::{Handle, on};
use crate::open::path_of;
use crate::options::{
    EVERSEEN_FORGET_BY_FIRST, EVERSEEN_FORGET_BY_LAST, EVERSEEN_KIND_BLOOM, EVERSEEN_KIND_COUNTING,
    EVERSEEN_KIND_FINGERPRINT, EVERSEEN_KIND_SCALABLE, time_at,
};

/// What a store knows about itself. Later versions add fields at the end.
#[repr(C)]
pub struct Stats {
    /// Keys that the store holds: in the file and in the write buffer, uncommitted ones included.
    pub keys: u64,
    /// The most keys that it takes.
    pub key_limit: u64,
    /// Keys left until that limit.
    pub keys_left: u64,
    /// Keys that it was created for, or may grow to; 0 if it grows in layers.
    pub capacity: u64,
    /// The bound on the share of absent keys that it calls seen, from its creation.
    pub fpr_target: f64,
    /// That share now, as expected of the keys that the file holds.
    pub fpr_now: f64,
    /// Bytes of the store file.
    pub bytes: u64,
    /// Filter bits per key of capacity, or per key in the file if the store grows.
    pub bits_per_key: f64,
    /// Bytes of records in the logs.
    pub log_bytes: u64,
    /// Bytes of memory of the write buffers, which all handles share.
    pub buffer_bytes: u64,
    /// The number of checkpoints, plus one.
    pub generation: u64,
    /// When the store was created, in seconds since 1970.
    pub created: u64,
    /// After how many milliseconds it forgets a key; 0 if it keeps keys for ever.
    pub forget_after: u64,
    /// The time of a store that forgets, in milliseconds since 1970; else 0.
    pub now: u64,
    /// In how many steps it counts ages; 0 if it keeps keys for ever.
    pub forget_steps: u32,
    /// `EVERSEEN_FORGET_BY_…`; 0 if it keeps keys for ever.
    pub forget_by: i32,
    /// `EVERSEEN_KIND_…`; 0 for a kind that this version doesn't name.
    pub kind: i32,
    /// 1 if only a commit makes inserts count, else 0.
    pub transactional: u32,
    /// A random number that tells the store from all others; its copies have it, too.
    pub store_id: [u8; 16],
}

/// The numbers of a choice in C.
fn kind_number(kind: Kind) -> i32 {
    match kind {
        Kind::Bloom => EVERSEEN_KIND_BLOOM,
        Kind::Counting => EVERSEEN_KIND_COUNTING,
        Kind::Scalable => EVERSEEN_KIND_SCALABLE,
        Kind::Fingerprint => EVERSEEN_KIND_FINGERPRINT,
        _ => 0,
    }
}

fn milliseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

impl From<everseen::Stats> for Stats {
    fn from(stats: everseen::Stats) -> Self {
        let forgetting = stats.forgetting;
        Self {
            keys: stats.keys,
            key_limit: stats.key_limit,
            keys_left: stats.keys_left,
            capacity: stats.capacity.unwrap_or(0),
            fpr_target: stats.fpr_target,
            fpr_now: stats.fpr_now,
            bytes: stats.bytes,
            bits_per_key: stats.bits_per_key,
            log_bytes: stats.log_bytes,
            buffer_bytes: stats.buffer_bytes,
            generation: stats.generation,
            created: stats.created,
            forget_after: forgetting.map_or(0, |has| {
                u64::try_from(has.window.as_millis()).unwrap_or(u64::MAX)
            }),
            now: forgetting.map_or(0, |has| milliseconds(has.now)),
            forget_steps: forgetting.map_or(0, |has| has.steps),
            forget_by: forgetting.map_or(0, |has| match has.by {
                ForgetBy::Last => EVERSEEN_FORGET_BY_LAST,
                _ => EVERSEEN_FORGET_BY_FIRST,
            }),
            kind: kind_number(stats.kind),
            transactional: stats.transactional.into(),
            store_id: stats.store_id,
        }
    }
}

/// Says what a store knows about itself, without reading its pages. `size` is `sizeof *stats`: a library that knows fewer
/// fields sets those behind them to 0, and one that knows more leaves out what there is no room for.
#[unsafe(no_mangle)]
pub extern "C" fn everseen_stats(
    store: Object<Handle>,
    mut stats: Out<Stats>,
    size: usize,
) -> Code {
    on(&store, |store| {
        stats.begin_of(&store.stats()?.into(), size, "stats")
    })
}

/// Moves all that is committed from log and buffer into the file, and waits until it is there. Nothing needs this call:
/// a checkpoint runs by itself when the buffer is full.
#[unsafe(no_mangle)]
pub extern "C" fn everseen_checkpoint(store: Object<Handle>) -> Code {
    on(&store, |store| Ok(store.checkpoint()?))
}

/// Learns from time to time how many bytes of a copy are done, and of how many. Any value but 0 ends the call early. It must
/// return: a C++ exception or a `longjmp` out of it ends the process, or does worse.
pub type Progress = Option<extern "C" fn(done: u64, total: u64, context: *mut c_void) -> c_int>;

/// Copies a store to a new file at `dest`, while other threads and processes go on using it. The copy holds all that was
/// acknowledged before the call, of a transactional store all that was committed.
///
/// `progress` is called in this thread, with `context`; both may be null. If it ends the call, that fails with
/// `EVERSEEN_ERROR_CANCELLED`. After any error there is nothing at `dest`.
#[unsafe(no_mangle)]
pub extern "C" fn everseen_snapshot(
    store: Object<Handle>,
    dest: In<c_char>,
    progress: Progress,
    context: *mut c_void,
) -> Code {
    on(&store, |store| {
        store.snapshot_watched(path_of(&dest, "dest")?, |at| match progress {
            Some(progress) if progress(at.done, at.total, context) != 0 => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        })?;
        Ok(())
    })
}

/// Goes on to a later time in a store that forgets, in milliseconds since 1970, for all handles; a handle that only
/// reads does so for itself. An earlier time has no effect. `EVERSEEN_ERROR_NEVER_FORGETS` in other stores.
#[unsafe(no_mangle)]
pub extern "C" fn everseen_advance_to(store: Object<Handle>, milliseconds: u64) -> Code {
    on(&store, |store| {
        let time = time_at(milliseconds)?;
        Ok(store.advance_to(time)?)
    })
}
