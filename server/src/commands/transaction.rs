//! MULTI, EXEC, DISCARD: commands that nobody else's come between.

use super::{Context, Outcome, Refusal, Reply};
use crate::request::Request;
use crate::session::Transaction;

/// Returns whether a command is run between MULTI and EXEC, and not queued.
pub fn runs_at_once(name: &str) -> bool {
    matches!(
        name,
        "multi" | "exec" | "discard" | "watch" | "unwatch" | "quit" | "reset"
    )
}

pub fn multi(context: &mut Context<'_>, _: Request<'_>) -> Outcome {
    if context.session.transaction.is_some() {
        return Err(Refusal::new("ERR MULTI calls can not be nested"));
    }
    context.session.transaction = Some(Transaction::default());
    Ok(Reply::OK)
}

pub fn discard(context: &mut Context<'_>, _: Request<'_>) -> Outcome {
    match context.session.transaction.take() {
        Some(_) => Ok(Reply::OK),
        None => Err(Refusal::new("ERR DISCARD without MULTI")),
    }
}

/// WATCH is not there: EXEC would have to know of every change by anyone.
pub fn watch(context: &mut Context<'_>, _: Request<'_>) -> Outcome {
    match &context.session.transaction {
        Some(_) => Err(Refusal::new("ERR WATCH inside MULTI is not allowed")),
        None => Err(Refusal::new("ERR WATCH is not supported")),
    }
}

pub fn unwatch(_: &mut Context<'_>, _: Request<'_>) -> Outcome {
    Ok(Reply::OK)
}

/// Stands in the table; `exec` is called by whoever holds no order.
pub fn exec_in_table(context: &mut Context<'_>, _: Request<'_>) -> Outcome {
    exec(context)
}

/// Runs what MULTI gathered, alone.
pub fn exec(context: &mut Context<'_>) -> Outcome {
    let Some(transaction) = context.session.transaction.take() else {
        return Err(Refusal::new("ERR EXEC without MULTI"));
    };
    if transaction.is_refused {
        return Err(Refusal::new(
            "EXECABORT Transaction discarded because of previous errors.",
        ));
    }
    let server = context.server;
    let _order = server
        .order
        .write()
        .unwrap_or_else(|poison| poison.into_inner());
    let replies = transaction.queued.iter().map(|queued| {
        let request = queued.get(0);
        // Rights may have gone since.
        match context.permitted(request) {
            Ok(command) => context.run(command, request),
            Err(refusal) => refusal.into(),
        }
    });
    Ok(Reply::Array(replies.collect()))
}
