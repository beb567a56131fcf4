//! What several commands have in common: `everseen help buffer` and its like.

use std::ffi::OsString;

/// The names of the topics, and what is said of each. Blocks that are indented are not to be filled again.
pub const TOPICS: [(&str, &str); 5] = [
    ("buffer", ABOUT_BUFFER),
    ("keys", ABOUT_KEYS),
    ("urls", ABOUT_URLS),
    ("wait", ABOUT_WAIT),
    ("windows", ABOUT_WINDOWS),
];

const ABOUT_BUFFER: &str = "\
Memory for what is new (--buffer)

Every command that writes keeps what is new in a buffer, and the store's pages take it from
there. Most of a buffer is two files beside the store while it is open.

By default a buffer begins with the size of the filter, from 64M to 256M; in a store of kind
fingerprint with 64M, of which a short run uses 1M. Later buffers grow up to four times the
filter's size, but at most an eighth of the memory, a fourth of the available memory and of the
free disk, and half of what the kernel lets lie unwritten (all of it, for a filter that is half
as large or larger).

Where the address space is limited (`ulimit -v`), buffers take an eighth of what is left of it
at the start. Lines that wait for each other take more: `everseen help windows`.";

const ABOUT_KEYS: &str = "\
Which part of a line is its key

By default lines are compared as a whole. --json-key, --csv-key and --key-field name a part of a
record instead. The whole record is printed, byte for byte.

  everseen dedup --json-key meta.url pages.ever pages.jsonl
  everseen dedup --csv-key id rows.ever rows.csv
  everseen dedup --key-field 7 --key-field 1 hits.ever access.log

Given several times, an option makes one key of all values together, in this order. Numbers
count from 1.

The header of CSV files is printed once, and not again in a file that begins with it; one that
begins otherwise is refused.
A second file may have the same header, or none.

A store that a command creates keeps how its lines are compared: the part, --no-key, --trim,
--crlf, --ignore-case, and the options of URLs. Later commands follow it without being told, and
an option that contradicts it is an error. Only --no-key, --not-url and, where columns are numbers,
--no-header can be chosen each time.
`everseen info` shows it. docs/guide/records.md has the details.";

const ABOUT_URLS: &str = "\
Lines that are URLs (--url)

URLs are compared as the WHATWG standard has them, whatever their spelling: case of scheme and
host, default ports, /a/../b and the like, and without the fragment. --sort-query and --drop-www
ignore more. With --json-key and its like, the value is the URL.

The options from --drop-query on are none of the standard. They hold for http and https, those of
the query for every scheme.

The set @tracking, of --drop-query and --keep-query, has the names by which visitors and campaigns
are told apart:
utm_*, gclid, gclsrc, dclid, gbraid, wbraid, srsltid, _ga, _gl, fbclid, igshid, msclkid, twclid,
ttclid, yclid, ysclid, li_fat_id, epik, mc_cid, mc_eid, _hsenc, _hsmi, mkt_tok, vero_id,
oly_anon_id, oly_enc_id, wickedid, rb_clickid, s_cid.
Session ids are not in it: --drop-query '@tracking,PHPSESSID,sid'. Names in a query are compared
with their case, ;jsessionid= in a path (--drop-session-path) without it.

A store that a command creates keeps these options, and later commands follow them: `everseen
help keys`.";

const ABOUT_WAIT: &str = "\
Lines that another run holds (--wait)

Several runs may share a transactional store. If another run has claimed a line and not
committed it, this one waits. If that run commits, the line was seen; if it dies, the line is
new.

Lines that are still pending after that are skipped: neither printed nor remembered, but
reported at the end with exit status 3. After one wait in vain, the command does not wait again
for as long.";

const ABOUT_WINDOWS: &str = "\
Lines that wait for each other (--sieve, --window, --max-delay)

Where the filter is not in memory, each line by itself costs a read at a random place of the
disk. So lines wait for each other, and one sweep over the filter answers many of them: where
the disk, as measured, makes that faster (--sieve auto), always, or never.

Lines that wait take 13 bytes of memory each, in addition to --buffer; their text lies in an
unlinked file beside the store: 16G at most, and a fourth of what the disk has free. By default
they take as much as --buffer, but at most 64M, or a fourth of it where that is more (--window).
Without --buffer, and where the store takes more than half of what is available, they take a
fourth of what is available, 4G at most: fewer sweeps are needed.

A line from a pipe waits about as long as a sweep takes, or as --max-delay says. No line waits
while the input pauses, or while lines come no faster than they are answered.";

/// Returns what is said of the topic that a command line asks for.
pub fn asked<'a>(mut arguments: impl Iterator<Item = &'a OsString>) -> Option<&'static str> {
    let (help, topic) = (arguments.next()?, arguments.next()?);
    if help != "help" || arguments.next().is_some() {
        return None;
    }
    let found = TOPICS.iter().find(|(name, _)| *topic == **name);
    found.map(|(_, text)| *text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use everseen_keys::url::pages::TRACKING;

    #[test]
    fn the_help_of_urls_lists_the_tracking_set() {
        let listed = ABOUT_URLS.split("told apart:\n").nth(1).unwrap_or_default();
        let listed = listed.split('.').next().unwrap_or_default();
        let names: Vec<_> = listed.split(',').map(str::trim).collect();
        assert_eq!(names, TRACKING);
    }
}
