//! Rules beyond the standard: what of a URL doesn't say which page it is. Each is a choice, and wrong for some site.
//!
//! They hold for http and https; those of the query hold for every scheme.

use std::ops::Range;

/// The version of these rules, [`TRACKING`] included.
pub const PAGE_RULES: u32 = 1;

/// The name of a set of names, for [`PageRules::drop_query`].
pub const TRACKING_SET: &str = "@tracking";

/// Names in queries by which visitors and campaigns are told apart, and no page is.
pub const TRACKING: [&str; 29] = [
    "utm_*",
    "gclid",
    "gclsrc",
    "dclid",
    "gbraid",
    "wbraid",
    "srsltid",
    "_ga",
    "_gl",
    "fbclid",
    "igshid",
    "msclkid",
    "twclid",
    "ttclid",
    "yclid",
    "ysclid",
    "li_fat_id",
    "epik",
    "mc_cid",
    "mc_eid",
    "_hsenc",
    "_hsmi",
    "mkt_tok",
    "vero_id",
    "oly_anon_id",
    "oly_enc_id",
    "wickedid",
    "rb_clickid",
    "s_cid",
];

/// The parameter of a path segment that holds a session, before `=`.
const SESSION: &str = ";jsessionid=";

/// What of a URL doesn't count beyond the standard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageRules {
    /// The names that go from the query, with their values. `*` stands for any characters. Names are compared as they are
    /// written, case included.
    pub drop_query: Vec<String>,
    /// The names that stay in the query; none means all.
    pub keep_query: Vec<String>,
    /// Whether `;jsessionid=…` goes from segments of the path, in any case.
    pub drop_session_path: bool,
    /// Whether http is https.
    pub ignore_scheme: bool,
    /// Whether slashes at the end of the path go, but for the only one.
    pub drop_trailing_slash: bool,
    /// Whether ASCII letters of the path are small.
    pub lower_path: bool,
}

impl PageRules {
    /// Returns whether only the standard counts.
    pub fn is_standard(&self) -> bool {
        *self == PageRules::default()
    }

    /// Rewrites a URL that is written by the standard, without a fragment.
    pub(super) fn apply(&self, url: &mut String) {
        if self.is_standard() {
            return;
        }
        if !self.drop_query.is_empty() || !self.keep_query.is_empty() {
            self.query(url);
        }
        if url.starts_with("http://") && self.ignore_scheme {
            url.insert(4, 's');
            // The default port of https is no part of it.
            let host = authority(url);
            if url[host.clone()].ends_with(":443") {
                url.replace_range(host.end - 4..host.end, "");
            }
        }
        if !url.starts_with("http://") && !url.starts_with("https://") {
            return;
        }
        if self.drop_session_path {
            drop_sessions(url);
        }
        let mut path = path(url);
        if self.drop_trailing_slash {
            let kept = url[path.clone()].trim_end_matches('/').len().max(1);
            url.replace_range(path.start + kept..path.end, "");
            path.end = path.start + kept;
        }
        if self.lower_path {
            url[path].make_ascii_lowercase();
        }
    }

    fn query(&self, url: &mut String) {
        let Some(mark) = url.find('?') else { return };
        let stays = |part: &&str| {
            let name = part.split_once('=').map_or(*part, |(name, _)| name);
            let keeps = self.keep_query.is_empty() || is_any(&self.keep_query, name);
            keeps && !is_any(&self.drop_query, name)
        };
        let parts = url[mark + 1..].split('&');
        let kept: Vec<_> = parts.clone().filter(stays).collect();
        if kept.len() == parts.count() {
            return;
        }
        let kept = kept.join("&");
        // An empty query that was not made here stays one: by the standard it is another URL.
        url.truncate(if kept.is_empty() { mark } else { mark + 1 });
        url.push_str(&kept);
    }
}

fn is_any(patterns: &[String], name: &str) -> bool {
    patterns.iter().any(|pattern| match &**pattern {
        TRACKING_SET => TRACKING.iter().any(|pattern| is_like(pattern, name)),
        pattern => is_like(pattern, name),
    })
}

/// Returns whether a name is like a pattern, in which `*` stands for any characters.
fn is_like(pattern: &str, name: &str) -> bool {
    let mut pieces = pattern.split('*');
    let Some(mut rest) = pieces.next().and_then(|first| name.strip_prefix(first)) else {
        return false;
    };
    let Some(last) = pieces.next_back() else {
        return rest.is_empty();
    };
    for piece in pieces {
        match rest.find(piece) {
            Some(at) => rest = &rest[at + piece.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// Where the authority of an http or https URL is.
fn authority(url: &str) -> Range<usize> {
    let start = url.find("://").map_or(0, |at| at + 3);
    let length = url[start..].find('/').unwrap_or(url.len() - start);
    start..start + length
}

/// Where its path is. It has at least one slash.
fn path(url: &str) -> Range<usize> {
    let start = authority(url).end;
    let length = url[start..].find('?').unwrap_or(url.len() - start);
    start..start + length
}

fn drop_sessions(url: &mut String) {
    let mut from = path(url).start;
    loop {
        let path = path(url);
        let rest = &url[from.min(path.end)..path.end];
        let found = rest
            .as_bytes()
            .windows(SESSION.len())
            .position(|part| part.eq_ignore_ascii_case(SESSION.as_bytes()));
        let Some(found) = found else { return };
        let start = from + found;
        let segment = url[path.start..start]
            .rsplit('/')
            .next()
            .unwrap_or_default();
        if is_dots(segment) {
            // Without it, the segment would name another folder.
            from = start + 1;
            continue;
        }
        let behind = &url[start + 1..path.end];
        let length = behind.find(['/', ';']).map_or(behind.len(), |at| at) + 1;
        url.replace_range(start..start + length, "");
        from = start;
    }
}

/// Returns whether a segment is `.` or `..`, in any spelling.
fn is_dots(segment: &str) -> bool {
    let dots = segment.to_ascii_lowercase().replace("%2e", ".");
    dots == "." || dots == ".."
}

/// Why a name can't be one of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("names are characters of a query, with * for any; the only set is @tracking")]
pub struct WrongName;

/// Parses a name of a query, with `*` for any characters, or the name of a set.
///
/// # Errors
/// It is no name.
pub fn query_name(text: &str) -> Result<String, WrongName> {
    let is_set = text.starts_with('@') && text != TRACKING_SET;
    let is_name = |byte: u8| byte.is_ascii_graphic() && !b"&=#,".contains(&byte);
    match !text.is_empty() && text.len() <= 100 && !is_set && text.bytes().all(is_name) {
        true => Ok(text.to_owned()),
        false => Err(WrongName),
    }
}
