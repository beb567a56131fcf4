//! Running a batch: one command after the other, and neighbours that add or look up in one store together.

use std::sync::atomic::Ordering;

use tokio::task::block_in_place;

use super::table::command;
use super::{
    Answers, Command, Context, Refusal, Reply, Rights, name_of, transaction, wrong_number,
};
use crate::request::{Batch, Request};
use crate::server::Server;
use crate::session::{Answering, Session};

/// Arguments of a batch that runs on a thread which other connections share: at most about a millisecond's work. To move a
/// batch away costs more than to run a small one.
const FEW: usize = 2048;

/// Stores that a batch has to commit before its answers are sent: they stay open until then.
const MOST_UNSETTLED: usize = 64;
/// Bytes of answers after which they are sent before more commands are run.
const MOST_BYTES: usize = 1 << 20;

/// Runs the requests of a batch from one on, in order, and returns how many: all, unless their answers become large.
pub fn run_batch(
    server: &Server,
    session: &mut Session,
    batch: &Batch,
    first: usize,
) -> (Answers, usize) {
    let arguments: usize = (first..batch.len())
        .map(|number| batch.get(number).len())
        .sum();
    match arguments > FEW {
        true => block_in_place(|| run_from(server, session, batch, first)),
        false => run_from(server, session, batch, first),
    }
}

fn run_from(
    server: &Server,
    session: &mut Session,
    batch: &Batch,
    first: usize,
) -> (Answers, usize) {
    let mut answers = Answers::default();
    let mut number = first;
    let mut bytes = 0;
    // Each wrong password delays the answers, and the requests behind it.
    while number < batch.len()
        && !session.ends
        && session.denials == 0
        && bytes < MOST_BYTES
        && answers.unsettled.len() < MOST_UNSETTLED
    {
        let many = run_of_one_command(session, batch, number);
        let replies = answers.replies.len();
        let mut context = Context {
            server,
            session,
            unsettled: &mut answers.unsettled,
            places: replies..replies + many,
        };
        let answering = context.session.answers;
        let replies = match many {
            0 => Vec::new(),
            1 => vec![context.answer(batch.get(number))],
            _ => context.answer_many(batch, number..number + many),
        };
        bytes += replies.iter().map(Reply::size).sum::<usize>();
        let is_silent = !replies.is_empty() && is_silent(session, answering);
        let protocol = session.protocol;
        answers
            .replies
            .extend(replies.into_iter().map(|reply| match is_silent {
                true => (Reply::Nothing, protocol),
                false => (reply, protocol),
            }));
        number += many.max(1);
    }
    if session.is_http {
        // A page in a browser may make it send what looks like commands. Nothing is answered, as in Redis.
        for (reply, _) in &mut answers.replies {
            *reply = Reply::Nothing;
        }
    }
    (answers, number - first)
}

/// Returns how many requests from one on are the same command for the same key with one item each; 0 for an empty one.
fn run_of_one_command(session: &Session, batch: &Batch, first: usize) -> usize {
    let request = batch.get(first);
    if request.is_empty() {
        return 0;
    }
    let is_alike = |number: usize| {
        let other = batch.get(number);
        other.len() == 3
            && other.arg(0).eq_ignore_ascii_case(request.arg(0))
            && other.arg(1) == request.arg(1)
    };
    let is_plain = session.transaction.is_none() && session.answers == Answering::All;
    if request.len() != 3 || !is_plain {
        return 1;
    }
    if first + 1 == batch.len() || !is_alike(first + 1) {
        return 1;
    }
    if command(request.arg(0)).is_none_or(|command| command.run_many.is_none()) {
        return 1;
    }
    let others = (first + 1..batch.len()).take_while(|&number| is_alike(number));
    1 + others.count()
}

/// Returns whether a command's answer is left out, by CLIENT REPLY before it or in it.
fn is_silent(session: &mut Session, before: Answering) -> bool {
    match (before, session.answers) {
        (Answering::All, Answering::All) | (_, Answering::All) => false,
        // SKIP: its own answer is left out, and then the next.
        (Answering::AfterNext, Answering::AfterNext) => {
            session.answers = Answering::All;
            true
        }
        (_, Answering::AfterNext | Answering::None) => true,
    }
}

impl Context<'_> {
    fn answer(&mut self, request: Request<'_>) -> Reply {
        let found = match self.permitted(request) {
            Ok(found) => found,
            Err(refusal) => {
                if request.is_word(0, "POST") || request.is_word(0, "HOST:") {
                    self.session.is_http = true;
                    self.session.ends = true;
                }
                return transaction::refused(self, request, refusal).into();
            }
        };
        if let Some(open) = &mut self.session.transaction
            && !transaction::runs_at_once(found.name)
        {
            let queued = open.queue(self.server, request);
            return queued.map_or_else(Reply::from, |()| Reply::simple("QUEUED"));
        }
        if found.name == "exec" {
            // It runs the others alone, and would wait for itself.
            return self.run(found, request);
        }
        self.in_order(found, |context| context.run(found, request), Reply::is_gone)
    }

    /// Runs a command beside others, or alone if no other may be under way. One that met a store which was closed under it,
    /// as its time had come, has done nothing: it is run again, alone.
    fn in_order<T>(
        &mut self,
        command: &Command,
        mut run: impl FnMut(&mut Self) -> T,
        is_gone: impl Fn(&T) -> bool,
    ) -> T {
        let server = self.server;
        if !is_alone(command.name) {
            // A command that waits to be alone holds up all others. It must not wait for a copy of a whole store.
            let _order = (!takes_long(command.name)).then(|| server.beside_others());
            let done = run(self);
            if !is_gone(&done) {
                return done;
            }
        }
        let _order = server.alone();
        run(self)
    }

    /// Runs a command. The caller sees to it that those run alone which must.
    pub fn run(&mut self, command: &Command, request: Request<'_>) -> Reply {
        command.runs.fetch_add(1, Ordering::Relaxed);
        let outcome = (command.run)(self, request);
        if command.rights == Rights::Write {
            self.note_changes(command, request, outcome.is_ok());
        }
        outcome.unwrap_or_else(Reply::from)
    }

    /// Tells who watches a key that it was changed: each command that writes counts if it ran, whatever it did.
    fn note_changes(&self, command: &Command, request: Request<'_>, ran: bool) {
        // It says that there is no such item, and still counts in Redis.
        let counts = ran || command.name == "cf.del";
        if !counts || !self.server.database.watches().are_any() {
            return;
        }
        for place in command.key_places(request.len()) {
            if let Ok(name) = name_of(request.arg(place)) {
                self.server.database.watches().note(&name);
            }
        }
    }

    /// Returns the command that a request names, if it has the arguments that it needs and may be run.
    pub fn permitted(&self, request: Request<'_>) -> Result<&'static Command, Refusal> {
        let Some(found) = command(request.arg(0)) else {
            return Err(unknown(request));
        };
        // A module counts its arguments when it is run.
        let is_queued = self.session.transaction.is_some() && found.module().is_some();
        if !is_queued && !found.takes(request.len()) {
            return Err(wrong_number(found.name));
        }
        self.session.check(found)?;
        Ok(found)
    }

    fn answer_many(&mut self, batch: &Batch, numbers: std::ops::Range<usize>) -> Vec<Reply> {
        let request = batch.get(numbers.start);
        let many = numbers.len();
        let name = name_of(request.arg(1));
        let (found, name) = match (self.permitted(request), name) {
            (Ok(found), Ok(name)) => (found, name),
            (Err(refusal), _) | (_, Err(refusal)) => return vec![refusal.into(); many],
        };
        let runs = u64::try_from(many).unwrap_or(u64::MAX);
        found.runs.fetch_add(runs, Ordering::Relaxed);
        let run_many = found.run_many.expect("looked at before");
        let items: Vec<&[u8]> = numbers.map(|number| batch.get(number).arg(2)).collect();
        let replies = self.in_order(
            found,
            |context| run_many(context, &name, &items),
            |replies| replies.iter().any(Reply::is_gone),
        );
        if found.rights == Rights::Write {
            self.server.database.watches().note(&name);
        }
        assert_eq!(replies.len(), many, "one answer for each command");
        replies
    }
}

/// Returns whether a command reads all of a store, and needs no order: a store that is closed under it is an answer.
fn takes_long(name: &str) -> bool {
    matches!(name, "bf.scandump" | "cf.scandump")
}

/// Returns whether no other command may be under way: a store goes, or its file gets another name.
fn is_alone(name: &str) -> bool {
    matches!(
        name,
        "del" | "unlink" | "rename" | "renamenx" | "flushall" | "flushdb" | "debug"
    )
}

/// Returns the answer to a command that there is not, as Redis words it.
fn unknown(request: Request<'_>) -> Refusal {
    const MOST: usize = 128;
    let text = |argument: &[u8], most: usize| {
        let shown = &argument[..argument.len().min(most)];
        // Where C's strings end.
        let shown = shown.split(|&byte| byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(shown).into_owned()
    };
    let mut arguments = String::new();
    for argument in request.from(1) {
        if arguments.len() >= MOST {
            break;
        }
        let most = MOST - arguments.len();
        arguments.push_str(&format!("'{}' ", text(argument, most)));
    }
    Refusal::of(&format!(
        "ERR unknown command '{}', with args beginning with: {arguments}",
        text(request.arg(0), MOST)
    ))
}
