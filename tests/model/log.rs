//! A log: records in a chain, of which a beginning is durable.

use super::setting::KEYS;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Record {
    Insert {
        number: u8,
        key: u8,
    },
    Commit {
        number: u8,
    },
    Cut {
        /// No log follows.
        last: bool,
    },
}

/// Up to sixteen complete records, four bits each. What is torn is no record: the chain ends there.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Records(u64);

const COMMIT: u8 = 9;
const CUT: u8 = 13;
const LAST_CUT: u8 = 14;

impl Records {
    pub fn len(self) -> u8 {
        (64 - self.0.leading_zeros()).div_ceil(4) as u8
    }

    pub fn push(&mut self, record: Record) {
        let code = match record {
            Record::Insert { number, key } => 1 + number * KEYS as u8 + key,
            Record::Commit { number } => COMMIT + number,
            Record::Cut { last: false } => CUT,
            Record::Cut { last: true } => LAST_CUT,
        };
        let at = self.len();
        assert!(at < 16, "a log of the model has room for sixteen records");
        self.0 |= u64::from(code) << (4 * at);
    }

    pub fn truncate(&mut self, length: u8) {
        if length < 16 {
            self.0 &= (1 << (4 * length)) - 1;
        }
    }

    /// The chain: it ends behind a cut, whatever may follow.
    pub fn chain(self) -> impl Iterator<Item = Record> {
        let mut closed = false;
        self.from(0).take_while(move |record| {
            let counts = !closed;
            closed |= matches!(record, Record::Cut { .. });
            counts
        })
    }

    /// All records from one on.
    pub fn from(self, first: u8) -> impl Iterator<Item = Record> {
        (first..self.len()).map(move |at| match (self.0 >> (4 * at)) as u8 & 15 {
            CUT => Record::Cut { last: false },
            LAST_CUT => Record::Cut { last: true },
            code if code >= COMMIT => Record::Commit {
                number: code - COMMIT,
            },
            code => Record::Insert {
                number: (code - 1) / KEYS as u8,
                key: (code - 1) % KEYS as u8,
            },
        })
    }

    pub fn is_closed(self) -> bool {
        self.chain()
            .any(|record| matches!(record, Record::Cut { .. }))
    }

    pub fn is_last(self) -> bool {
        self.chain()
            .any(|record| record == Record::Cut { last: true })
    }

    pub fn has_marks(self) -> bool {
        self.chain()
            .any(|record| matches!(record, Record::Commit { .. }))
    }

    /// The keys that count: in a transactional store those that a mark of the same handle follows.
    pub fn committed(self, transactional: bool) -> u8 {
        let mut pending = [0; 8];
        let mut committed = 0;
        for record in self.chain() {
            match record {
                Record::Insert { key, .. } if !transactional => committed |= 1 << key,
                Record::Insert { number, key } => pending[usize::from(number)] |= 1 << key,
                Record::Commit { number } => committed |= pending[usize::from(number)],
                Record::Cut { .. } => {}
            }
        }
        committed
    }
}

/// A log file. Names and headers are durable on their own; so is a beginning of the records.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Log {
    pub name: bool,
    pub name_durable: bool,
    pub header: bool,
    pub header_durable: bool,
    pub records: Records,
    pub synced: u8,
}

impl Log {
    /// A new file under the name; one that was there is gone. On disk the name stays what it was
    /// until the folder is synced.
    pub fn make(&mut self) {
        *self = Self {
            name: true,
            name_durable: self.name_durable,
            ..Self::default()
        };
    }

    /// Everything in the file is durable.
    pub fn sync(&mut self) {
        self.header_durable = self.header;
        self.synced = self.records.len();
    }

    /// The name is durable as it is, or gone for good.
    pub fn sync_name(&mut self) {
        self.name_durable = self.name;
        if !self.name {
            *self = Self::default();
        }
    }

    /// What a power cut may leave of it.
    pub fn remains(self) -> Vec<Self> {
        let mut all = Vec::new();
        if !(self.name && self.name_durable) {
            all.push(Self::default());
        }
        if self.name || self.name_durable {
            if !self.header_durable {
                let bare = Self {
                    name: true,
                    name_durable: true,
                    ..Self::default()
                };
                all.push(bare);
            }
            if self.header {
                for length in self.synced..=self.records.len() {
                    let mut records = self.records;
                    records.truncate(length);
                    all.push(Self {
                        name: true,
                        name_durable: true,
                        header: true,
                        header_durable: true,
                        records,
                        synced: length,
                    });
                }
            }
        }
        all
    }
}
