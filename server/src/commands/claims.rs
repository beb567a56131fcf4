//! EV.*: what Bloom commands can't say. A connection claims items, does what they ask for, and commits: without the commit,
//! they are given back.

use std::sync::Arc;
use std::time::Duration;

use everseen::{ClaimOptions, ForgetBy, Store, Verdict};

use super::arguments::{double, integer};
use super::{Context, ITEM_EXISTS, NOT_FOUND, Refusal, SYNTAX, WRONG_TYPE, bools, name_of};
use crate::database::{Claimant, Design, Name, OpenStore};
use crate::reply::{Outcome, Reply};
use crate::request::Request;

fn check(store: &OpenStore) -> Result<(), Refusal> {
    match store.design.is_set() {
        true => Ok(()),
        false => Err(WRONG_TYPE),
    }
}

/// EV.CREATE key [FPR p] [FORGET-AFTER seconds] [FORGET-BY first | last] [PLAIN]: a store for claims, whose items count once
/// they are committed; a plain one takes items at once.
pub fn create(context: &mut Context<'_>, request: Request<'_>) -> Outcome {
    let name = name_of(request.arg(1))?;
    let mut options = Design::Claims.create_options();
    let (mut forgets, mut forget_by) = (false, None);
    let mut at = 2;
    while at < request.len() {
        let value = || request.get(at + 1).ok_or(SYNTAX);
        options = match request.arg(at).to_ascii_uppercase().as_slice() {
            b"PLAIN" => {
                at += 1;
                options = options.transactional(false);
                continue;
            }
            b"FPR" => options.fpr(rate_of(value()?)?),
            b"FORGET-AFTER" => {
                forgets = true;
                options.forget_after(seconds_of(value()?)?)
            }
            b"FORGET-BY" => {
                let by = match value()?.to_ascii_lowercase().as_slice() {
                    b"first" => ForgetBy::First,
                    b"last" => ForgetBy::Last,
                    _ => return Err(SYNTAX),
                };
                forget_by = Some(by);
                options.forget_by(by)
            }
            _ => return Err(SYNTAX),
        };
        at += 2;
    }
    if forget_by.is_some() && !forgets {
        return Err(Refusal::new("ERR FORGET-BY needs FORGET-AFTER"));
    }
    match context.server.database.create_with(&name, options)? {
        None => Err(ITEM_EXISTS),
        Some(store) => {
            context.changed(&store);
            Ok(Reply::OK)
        }
    }
}

fn rate_of(argument: &[u8]) -> Result<f64, Refusal> {
    match double(argument) {
        Some(rate) if rate > 0.0 && rate < 1.0 => Ok(rate),
        _ => Err(Refusal::new("ERR FPR is a number between 0 and 1")),
    }
}

fn seconds_of(argument: &[u8]) -> Result<Duration, Refusal> {
    match integer(argument).and_then(|seconds| u64::try_from(seconds).ok()) {
        Some(seconds) if seconds > 0 => Ok(Duration::from_secs(seconds)),
        _ => Err(Refusal::new(
            "ERR FORGET-AFTER is a number of seconds, at least 1",
        )),
    }
}

/// Works in the connection's own handle of a store, which commits what it did, or, where nothing waits for a commit, in the
/// handle of all.
fn in_own_handle<T>(
    context: &mut Context<'_>,
    name: &Name,
    store: &Arc<OpenStore>,
    work: impl FnOnce(&Store) -> T,
) -> Result<T, Refusal> {
    if store.is_transactional {
        let claimant = own_handle(context, name)?;
        return Ok(work(&claimant.store));
    }
    let _at_work = store.work();
    let done = work(&store.store);
    context.changed(store);
    Ok(done)
}

/// Returns whether a handle has uncommitted items. Refuses more of them than it may have: a client should commit those it
/// has, and not lose them to an error.
fn expect_room(handle: &Store, items: usize) -> Result<bool, Refusal> {
    let uncommitted = handle.uncommitted()?;
    let items = u64::try_from(items).unwrap_or(u64::MAX);
    if uncommitted.keys.saturating_add(items) <= uncommitted.most {
        return Ok(uncommitted.keys > 0);
    }
    Err(Refusal::of(&format!(
        "ERR a connection may have {} uncommitted items of a key: it has {}, and this command {items}; EV.COMMIT, or send fewer",
        uncommitted.most, uncommitted.keys
    )))
}

fn own_handle(context: &mut Context<'_>, name: &Name) -> Result<Arc<Claimant>, Refusal> {
    let claimant = context.session.claimant(&context.server.database, name)?;
    claimant.ok_or(NOT_FOUND)
}

/// EV.CLAIM key item …
pub fn claim(context: &mut Context<'_>, request: Request<'_>) -> Outcome {
    let name = name_of(request.arg(1))?;
    let items: Vec<&[u8]> = request.from(2).collect();
    let store = context
        .server
        .database
        .get_or_create(&name, &Design::Claims)?;
    check(&store)?;
    let claimed = in_own_handle(context, &name, &store, |handle| {
        let had_claims = expect_room(handle, items.len())?;
        let claimed = handle.claim_batch(&items, ClaimOptions::new());
        Ok::<_, Refusal>((had_claims, claimed))
    })?;
    let (had_claims, claimed) = claimed?;
    match claimed {
        Ok(verdicts) => {
            let words = verdicts.into_iter().map(|verdict| match verdict {
                Verdict::New => "new",
                Verdict::Seen => "seen",
                Verdict::Pending => "pending",
            });
            Ok(Reply::Array(words.map(Reply::simple).collect()))
        }
        Err(error) => {
            // What was claimed before the error is given back with the rest: no answer tells of it.
            context.session.give_claims_back(&name, had_claims);
            Err(Refusal::of_error(&error.error))
        }
    }
}

/// EV.COMMIT key [TAG tag]
pub fn commit(context: &mut Context<'_>, request: Request<'_>) -> Outcome {
    let name = name_of(request.arg(1))?;
    let tag = match request.len() {
        2 => &b""[..],
        4 if request.is_word(2, "TAG") => request.arg(3),
        _ => return Err(SYNTAX),
    };
    let claimant = own_handle(context, &name)?;
    let committed = tokio::task::block_in_place(|| claimant.store.commit_with(tag));
    Ok(Reply::count(committed?))
}

/// EV.LAST key [WRITER name]
pub fn last(context: &mut Context<'_>, request: Request<'_>) -> Outcome {
    let name = name_of(request.arg(1))?;
    let writer = match request.len() {
        2 => context.session.writer().to_owned(),
        4 if request.is_word(2, "WRITER") => String::from_utf8_lossy(request.arg(3)).into_owned(),
        _ => return Err(SYNTAX),
    };
    let store = context.server.database.get(&name)?.ok_or(NOT_FOUND)?;
    match store.store.last_commit(&writer)? {
        None => Ok(Reply::Null),
        Some(commit) => Ok(Reply::Array(vec![
            Reply::count(commit.sequence),
            Reply::bulk(commit.tag),
        ])),
    }
}

/// EV.REMOVE key item …
pub fn remove(context: &mut Context<'_>, request: Request<'_>) -> Outcome {
    let name = name_of(request.arg(1))?;
    let items: Vec<&[u8]> = request.from(2).collect();
    let Some(store) = context.server.database.get(&name)? else {
        return Ok(Reply::Array(vec![Reply::Bool(false); items.len()]));
    };
    check(&store)?;
    let removed = in_own_handle(context, &name, &store, |handle| {
        expect_room(handle, items.len())?;
        let removed = handle.remove_batch(&items);
        removed.map_err(|error| Refusal::of_error(&error.error))
    })?;
    Ok(Reply::Array(bools(removed?)))
}

/// EV.INFO key
pub fn info(context: &mut Context<'_>, request: Request<'_>) -> Outcome {
    let name = name_of(request.arg(1))?;
    let store = context.server.database.get(&name)?.ok_or(NOT_FOUND)?;
    let stats = store.store.stats()?;
    let seconds = |window: Duration| Reply::count(window.as_secs());
    let fields = [
        ("kind", Reply::simple(stats.kind.name())),
        ("keys", Reply::count(store.keys()?)),
        ("fpr", Reply::Double(stats.fpr_target)),
        ("bytes", Reply::count(stats.bytes)),
        ("transactional", Reply::Bool(stats.transactional)),
        (
            "forget_after_seconds",
            stats
                .forgetting
                .map_or(Reply::Null, |forgetting| seconds(forgetting.window)),
        ),
    ];
    let pairs = fields
        .into_iter()
        .map(|(name, value)| (Reply::simple(name), value));
    Ok(Reply::Map(pairs.collect()))
}
