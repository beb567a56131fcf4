//! MULTI, EXEC, DISCARD: commands between which no others run. WATCH: only if no others ran before.

use super::{Context, Outcome, Refusal, Reply, name_of};
use crate::database::Watch;
use crate::request::Request;
use crate::session::Transaction;

/// Returns whether a command is run between MULTI and EXEC, and not queued.
pub fn runs_at_once(name: &str) -> bool {
    matches!(
        name,
        "multi" | "exec" | "discard" | "watch" | "quit" | "reset"
    )
}

pub fn multi(context: &mut Context<'_>, _: Request<'_>) -> Outcome {
    if context.session.transaction.is_some() {
        return Err(Refusal::new("ERR MULTI calls can not be nested"));
    }
    context.session.transaction = Some(Transaction::default());
    Ok(Reply::OK)
}

/// Notes that a command was refused while MULTI gathers: then none is run. EXEC itself gives up at once.
pub fn refused(context: &mut Context<'_>, request: Request<'_>, refusal: Refusal) -> Refusal {
    if request.is_word(0, "EXEC") {
        end(context);
        let text = refusal.text();
        let reason = text.strip_prefix("ERR ").unwrap_or(text);
        return Refusal::of(&format!(
            "EXECABORT Transaction discarded because of: {reason}"
        ));
    }
    if let Some(transaction) = &mut context.session.transaction {
        transaction.is_refused = true;
    }
    refusal
}

/// Ends MULTI and WATCH, and returns what was gathered.
fn end(context: &mut Context<'_>) -> Option<(Transaction, Option<Watch>)> {
    let transaction = context.session.transaction.take()?;
    Some((transaction, context.session.watch.take()))
}

pub fn discard(context: &mut Context<'_>, _: Request<'_>) -> Outcome {
    match end(context) {
        Some(_) => Ok(Reply::OK),
        None => Err(Refusal::new("ERR DISCARD without MULTI")),
    }
}

/// WATCH key …: the next EXEC does nothing if a client of this server changes one of the keys before it.
pub fn watch(context: &mut Context<'_>, request: Request<'_>) -> Outcome {
    if context.session.transaction.is_some() {
        return Err(Refusal::new("ERR WATCH inside MULTI is not allowed"));
    }
    let watches = context.server.database.watches();
    let watch = context
        .session
        .watch
        .get_or_insert_with(|| Watch::new(watches));
    for argument in request.from(1) {
        if !watch.add(name_of(argument)?) {
            return Err(Refusal::new("OOM too many watched keys"));
        }
    }
    Ok(Reply::OK)
}

pub fn unwatch(context: &mut Context<'_>, _: Request<'_>) -> Outcome {
    context.session.watch = None;
    Ok(Reply::OK)
}

/// Runs what MULTI gathered, alone.
pub fn exec(context: &mut Context<'_>, _: Request<'_>) -> Outcome {
    let Some((transaction, watch)) = end(context) else {
        return Err(Refusal::new("ERR EXEC without MULTI"));
    };
    if transaction.is_refused {
        return Err(Refusal::new(
            "EXECABORT Transaction discarded because of previous errors.",
        ));
    }
    let server = context.server;
    // From here on nothing else changes.
    let _order = server.alone();
    if watch.is_some_and(|watch| watch.is_changed()) {
        return Ok(Reply::NullArray);
    }
    let mut bytes = 0;
    let replies = transaction.queued.iter().map(|queued| {
        let request = queued.get(0);
        // Rights may have gone since.
        let reply = match context.permitted(request) {
            Ok(command) => context.run(command, request),
            Err(refusal) => refusal.into(),
        };
        bytes += reply.size();
        // An answer may be a thousand times as long as its command. All commands run, but not all answers are kept.
        match bytes > server.limits.request {
            true => Refusal::new("OOM replies to this EXEC exceed --max-request").into(),
            false => reply,
        }
    });
    Ok(Reply::Array(replies.collect()))
}
