//! What the workers told, and what follows from it.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use super::deeds::{Deeds, Span};
use super::neighbour::AWAY;
use super::task::{Call, Id, Told, What};

/// All that one child told, in its order.
#[derive(Debug, Default)]
pub struct Run {
    pub told: Vec<Told>,
    /// By when it was gone.
    pub ended: u64,
    pub transactional: bool,
    pub reads: bool,
}

/// One opening of the store by a worker, to the end of the handle. An attempt is one too: it may have held others back.
#[derive(Debug, Clone)]
struct Session {
    run: usize,
    file: Option<Id>,
    name: String,
    span: Span,
}

/// A key that was acknowledged.
#[derive(Debug, Clone, Copy)]
pub struct Kept {
    pub number: u64,
    pub run: usize,
    /// Since when: in a transactional store, since its commit.
    pub since: u64,
    pub new: bool,
    /// When it was in the pages, by the word of a call that had it brought there.
    pub settled: Option<Settled>,
}

#[derive(Debug, Clone, Copy)]
pub struct Settled {
    at: u64,
    /// When the handle was opened that had it done: since then it was in the memory that it shares.
    open_since: u64,
}

#[derive(Debug, Default)]
pub struct Evidence {
    pub kept: BTreeMap<Id, Vec<Kept>>,
    /// Keys whose removal was acknowledged, which no worker inserts again.
    pub removed: BTreeMap<Id, Vec<Kept>>,
    pub complaints: Vec<String>,
    /// Whether anybody but a reader got an error, or did not come to its end.
    pub somebody_was_told: bool,
    pub errors: HashMap<String, u64>,
}

/// A call that brings all keys of before into the pages.
struct Settling {
    file: Id,
    span: Span,
    open_since: u64,
}

/// The name of a resolved path, as deeds have it.
fn name_of(place: &str) -> String {
    let path = Path::new(place);
    let name = path.file_name().map(|name| name.to_string_lossy());
    match path
        .parent()
        .is_some_and(|folder| folder.ends_with("stash"))
    {
        true => AWAY.to_owned(),
        false => name.map_or(String::new(), |name| name.into_owned()),
    }
}

/// The error's name, and that of its cause.
pub fn kind_of(error: &str) -> String {
    let words = error.split(|c: char| !c.is_alphanumeric());
    let names: Vec<_> = words
        .filter(|word| word.starts_with(|c: char| c.is_ascii_uppercase()) && word.len() > 1)
        .take(if error.starts_with("Poisoned") { 2 } else { 1 })
        .collect();
    let action = error.split("action: \"").nth(1);
    let action = action.and_then(|rest| rest.split('"').next());
    let source = ["Missing", "Foreign", "Header", "Kind("];
    let source = source.iter().find(|word| error.contains(**word));
    format!(
        "{} {}{}",
        names.join(" "),
        action.unwrap_or(""),
        source.unwrap_or(&"")
    )
}

impl Evidence {
    pub fn of(runs: &[Run], deeds: &Deeds) -> Self {
        let mut evidence = Self::default();
        let mut sessions = Vec::new();
        let mut checkpoints = Vec::new();
        let mut closes = Vec::new();
        for (number, run) in runs.iter().enumerate() {
            evidence.hear(
                number,
                run,
                deeds,
                &mut sessions,
                &mut checkpoints,
                &mut closes,
            );
        }
        let is_last = |session: &Session, close: &Span| {
            sessions.iter().all(|other: &Session| {
                let same = other.file.is_none_or(|file| Some(file) == session.file);
                let itself = other.run == session.run && other.span.from == session.span.from;
                !same || itself || other.span.to < close.from || other.span.from > close.to
            })
        };
        for (session, close) in &closes {
            let session: &Session = session;
            if let Some(file) = session.file
                && is_last(session, close)
            {
                checkpoints.push(Settling {
                    file,
                    span: *close,
                    open_since: session.span.from,
                });
            }
        }
        checkpoints.sort_by_key(|settling| settling.span.to);
        for (file, kept) in evidence.kept.iter_mut().chain(&mut evidence.removed) {
            for key in kept {
                let settled = checkpoints
                    .iter()
                    .find(|one| one.file == *file && one.span.from > key.since);
                key.settled = settled.map(|one| Settled {
                    at: one.span.to,
                    open_since: one.open_since,
                });
            }
        }
        evidence
    }

    fn complain(&mut self, run: usize, what: String) {
        self.complaints.push(format!("run {run}: {what}"));
    }

    /// Goes through what one child told.
    fn hear(
        &mut self,
        number: usize,
        run: &Run,
        deeds: &Deeds,
        sessions: &mut Vec<Session>,
        checkpoints: &mut Vec<Settling>,
        closes: &mut Vec<(Session, Span)>,
    ) {
        let mut begun: HashMap<Call, u64> = HashMap::new();
        let mut session: Option<Session> = None;
        // Claimed and not committed.
        let mut open = Vec::new();
        // About to be removed, and removed and not committed.
        let (mut leaving, mut left) = (Vec::new(), Vec::new());
        for told in &run.told {
            let at = told.at;
            match &told.what {
                What::Begins(call) => {
                    begun.insert(*call, at);
                }
                What::Opened(file, place) => {
                    let from = begun[&Call::Open];
                    open.clear();
                    left.clear();
                    session = Some(Session {
                        run: number,
                        file: *file,
                        name: name_of(place),
                        span: Span {
                            from,
                            to: run.ended,
                        },
                    });
                }
                What::Answer(new, seen) => {
                    let Some(file) = session.as_ref().and_then(|session| session.file) else {
                        continue;
                    };
                    let kept = self.kept.entry(file).or_default();
                    let key = |number_: &u64, new| Kept {
                        number: *number_,
                        run: number,
                        since: at,
                        new,
                        settled: None,
                    };
                    kept.extend(seen.iter().map(|number| key(number, false)));
                    match run.transactional {
                        true => open.extend(new.iter().map(|number| key(number, true))),
                        false => kept.extend(new.iter().map(|number| key(number, true))),
                    }
                }
                What::Failed(call, error) => {
                    *self.errors.entry(kind_of(error)).or_default() += 1;
                    self.somebody_was_told |= !run.reads;
                    if *call == Call::Open && !run.reads {
                        sessions.push(Session {
                            run: number,
                            file: None,
                            name: String::new(),
                            span: Span {
                                from: begun[call],
                                to: at,
                            },
                        });
                    }
                }
                What::Done(call) => {
                    let span = Span {
                        from: begun.get(call).copied().unwrap_or(at),
                        to: at,
                    };
                    let ended = matches!(call, Call::Close | Call::Drop);
                    if let Some(session) = &session
                        && let Some(file) = session.file
                        && !run.reads
                    {
                        self.expect_noticed(number, *call, session, file, span, deeds);
                        match call {
                            Call::Commit => {
                                let kept = self.kept.entry(file).or_default();
                                kept.extend(open.drain(..).map(|key| Kept { since: at, ..key }));
                                let removed = self.removed.entry(file).or_default();
                                removed.extend(left.drain(..).map(|key| Kept { since: at, ..key }));
                            }
                            Call::Remove => {
                                let keys = leaving.drain(..).map(|gone| Kept {
                                    number: gone,
                                    run: number,
                                    since: at,
                                    new: false,
                                    settled: None,
                                });
                                match run.transactional {
                                    true => left.extend(keys),
                                    false => self.removed.entry(file).or_default().extend(keys),
                                }
                            }
                            Call::Checkpoint => checkpoints.push(Settling {
                                file,
                                span,
                                open_since: session.span.from,
                            }),
                            Call::Close => closes.push((session.clone(), span)),
                            _ => {}
                        }
                    }
                    if ended && let Some(mut session) = session.take() {
                        session.span.to = at;
                        if !run.reads {
                            sessions.push(session);
                        }
                    }
                }
                What::Removes(keys) => {
                    leaving.clone_from(keys);
                    let is_going = |key: &Kept| key.run == number && keys.contains(&key.number);
                    open.retain(|key| !is_going(key));
                    // Whether they are there is open until the removal is acknowledged.
                    for kept in self.kept.values_mut() {
                        kept.retain(|key| !is_going(key));
                    }
                }
                What::Gone(number_) | What::Back(number_) => {
                    let file = session.as_ref().and_then(|session| session.file);
                    let excused = file.is_none_or(|file| deeds.shortened.contains(&file))
                        || !deeds.memory_hits.is_empty();
                    if !excused {
                        let what = match &told.what {
                            What::Back(_) => "is back in",
                            _ => "is gone from",
                        };
                        self.complain(number, format!("key {number_} {what} its own handle"));
                    }
                }
                What::Damaged(what) => {
                    let file = session.as_ref().and_then(|session| session.file);
                    let excused = file.is_none_or(|file| {
                        deeds.shortened.contains(&file) || deeds.copies.contains(&file)
                    });
                    if !excused {
                        self.complain(number, format!("a reader found damage: {what}"));
                    }
                }
                What::End => {}
            }
        }
        // It was killed in the midst of it.
        if !run.reads {
            let died = !matches!(run.told.last(), Some(told) if told.what == What::End);
            self.somebody_was_told |= died;
            match session {
                Some(session) => sessions.push(session),
                None if died => sessions.push(Session {
                    run: number,
                    file: None,
                    name: String::new(),
                    span: Span {
                        from: begun.get(&Call::Open).copied().unwrap_or(0),
                        to: run.ended,
                    },
                }),
                None => {}
            }
        }
    }

    /// A commit and a close don't succeed while the file has lost its name from their begin to their end.
    fn expect_noticed(
        &mut self,
        run: usize,
        call: Call,
        session: &Session,
        file: Id,
        span: Span,
        deeds: &Deeds,
    ) {
        if !matches!(call, Call::Commit | Call::Close) {
            return;
        }
        let mut away = deeds.away(file, &session.name).into_iter();
        if let Some(away) = away.find(|away| away.from < span.from && span.to < away.to) {
            self.complain(
                run,
                format!(
                    "{call:?} went well at {span:?} though {} was another file, {away:?}",
                    session.name
                ),
            );
        }
    }

    /// Errors where no neighbour did anything: a handle that wants the store for itself may meet others.
    pub fn without_a_reason(&self) -> Vec<String> {
        let mut errors: Vec<_> = self.errors.keys().collect();
        errors.retain(|error| !error.starts_with("Locked") && !error.starts_with("Busy"));
        let errors = errors.into_iter();
        errors
            .map(|error| format!("an error without a reason: {error}"))
            .collect()
    }

    /// Keys that a file owes.
    pub fn owed(&self, file: Id, deeds: &Deeds, told: bool) -> Vec<Kept> {
        self.owed_of(self.kept.get(&file), file, deeds, told)
    }

    /// Keys that a file may not have.
    pub fn owed_absent(&self, file: Id, deeds: &Deeds, told: bool) -> Vec<Kept> {
        self.owed_of(self.removed.get(&file), file, deeds, told)
    }

    fn owed_of(&self, keys: Option<&Vec<Kept>>, file: Id, deeds: &Deeds, told: bool) -> Vec<Kept> {
        if deeds.shortened.contains(&file) {
            return Vec::new();
        }
        let told = told || self.somebody_was_told;
        let is_owed = |key: &&Kept| {
            let before = |hit: u64| key.settled.is_some_and(|settled| settled.at < hit);
            // Settled from memory, whatever became of the log.
            let lasted = |hit: u64| key.settled.is_some_and(|settled| settled.open_since < hit);
            let logs = |hit: &u64| before(*hit) || lasted(*hit);
            let memory = |hit: &u64| before(*hit) || key.since > *hit;
            let (log_hits, memory_hits) = (&deeds.log_hits, &deeds.memory_hits);
            (!told || log_hits.iter().all(logs)) && memory_hits.iter().all(memory)
        };
        keys.into_iter()
            .flatten()
            .filter(is_owed)
            .copied()
            .collect()
    }

    /// Keys that were new twice in a file, and may not have been.
    pub fn twice(&self, file: Id, deeds: &Deeds, told: bool) -> Vec<(Kept, Kept)> {
        let mut owed = self.owed(file, deeds, told);
        owed.retain(|key| key.new);
        owed.sort_by_key(|key| (key.number, key.since));
        let pairs = owed.windows(2).map(|two| (two[0], two[1]));
        pairs.filter(|(a, b)| a.number == b.number).collect()
    }
}
