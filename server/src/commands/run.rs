//! Running a batch: one command after the other, and neighbours that add or look up in one store together.

use std::sync::atomic::Ordering;

use tokio::task::block_in_place;

use super::table::command;
use super::{Answers, Command, Context, Refusal, Reply, name_of, transaction, wrong_number};
use crate::request::{Batch, Request};
use crate::server::Server;
use crate::session::Session;

/// Items that are looked at on a thread that others wait for. More of them go where waiting harms nobody.
const FEW: usize = 64;

/// Runs all requests of a batch, in order.
pub fn run_batch(server: &Server, session: &mut Session, batch: &Batch) -> Answers {
    let arguments: usize = (0..batch.len()).map(|number| batch.get(number).len()).sum();
    match arguments > FEW {
        true => block_in_place(|| run_all(server, session, batch)),
        false => run_all(server, session, batch),
    }
}

fn run_all(server: &Server, session: &mut Session, batch: &Batch) -> Answers {
    let mut answers = Answers::default();
    answers.replies.reserve(batch.len());
    let mut number = 0;
    while number < batch.len() && !session.ends {
        let many = run_of_one_command(session, batch, number);
        let replies = answers.replies.len();
        let mut context = Context {
            server,
            session,
            unsettled: &mut answers.unsettled,
            places: replies..replies + many,
        };
        let replies = match many {
            0 => Vec::new(),
            1 => vec![context.answer(batch.get(number))],
            _ => context.answer_many(batch, number..number + many),
        };
        let protocol = session.protocol;
        answers
            .replies
            .extend(replies.into_iter().map(|reply| (reply, protocol)));
        number += many.max(1);
    }
    answers
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
    if request.len() != 3 || session.transaction.is_some() {
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

impl Context<'_> {
    fn answer(&mut self, request: Request<'_>) -> Reply {
        let found = match self.permitted(request) {
            Ok(found) => found,
            Err(refusal) => {
                if let Some(transaction) = &mut self.session.transaction {
                    transaction.is_refused = true;
                }
                return refusal.into();
            }
        };
        if let Some(open) = &mut self.session.transaction
            && !transaction::runs_at_once(found.name)
        {
            open.queued.push(request.to_owned());
            return Reply::simple("QUEUED");
        }
        if found.name == "exec" {
            return transaction::exec(self).unwrap_or_else(Reply::from);
        }
        let server = self.server;
        let _order = server
            .order
            .read()
            .unwrap_or_else(|poison| poison.into_inner());
        self.run(found, request)
    }

    /// Runs a command, whoever holds the order.
    pub fn run(&mut self, command: &Command, request: Request<'_>) -> Reply {
        command.runs.fetch_add(1, Ordering::Relaxed);
        (command.run)(self, request).unwrap_or_else(Reply::from)
    }

    /// Returns the command that a request names, if it has the arguments that it needs and may be run.
    pub fn permitted(&self, request: Request<'_>) -> Result<&'static Command, Refusal> {
        let Some(found) = command(request.arg(0)) else {
            return Err(unknown(request));
        };
        let has = i32::try_from(request.len()).unwrap_or(i32::MAX);
        let fits = match found.arity {
            least if least < 0 => has >= -least,
            exact => has == exact,
        };
        if !fits {
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
        let server = self.server;
        let _order = server
            .order
            .read()
            .unwrap_or_else(|poison| poison.into_inner());
        let replies = run_many(self, &name, &items);
        assert_eq!(replies.len(), many, "one answer for each command");
        replies
    }
}

/// Returns the answer to a command that there is not, as Redis words it.
fn unknown(request: Request<'_>) -> Refusal {
    const MOST: usize = 128;
    let text = |argument: &[u8]| {
        let shown = &argument[..argument.len().min(MOST)];
        String::from_utf8_lossy(shown).into_owned()
    };
    let mut arguments = String::new();
    for argument in request.from(1) {
        if arguments.len() >= MOST {
            break;
        }
        arguments.push_str(&format!("'{}' ", text(argument)));
    }
    Refusal::of(&format!(
        "ERR unknown command '{}', with args beginning with: {arguments}",
        text(request.arg(0))
    ))
}
