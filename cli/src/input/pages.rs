//! The rules for URLs beyond the standard, for every command that takes items.

use everseen_keys::url::pages::{PageRules, query_name};

/// The part of the command line that says what of a URL doesn't count beyond the standard.
#[derive(clap::Args, Clone, Default)]
pub struct Pages {
    /// Ignore these names of a query: names, globs with *, @tracking
    ///
    /// With their values. @tracking stands for well-known ones such as utm_*, gclid and fbclid. See `everseen help
    /// urls`.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = query_name, conflicts_with_all = ["no_url", "keep_query"], help_heading = "URLs")]
    pub drop_query: Vec<String>,

    /// Ignore all names of a query but these
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = query_name, conflicts_with = "no_url", help_heading = "URLs")]
    pub keep_query: Vec<String>,

    /// Ignore ;jsessionid=… in a path
    #[arg(long, conflicts_with = "no_url", help_heading = "URLs")]
    pub drop_session_path: bool,

    /// Take http for https
    #[arg(long, conflicts_with = "no_url", help_heading = "URLs")]
    pub ignore_scheme: bool,

    /// Ignore slashes at the end of a path: /a/ is /a
    #[arg(long, conflicts_with = "no_url", help_heading = "URLs")]
    pub drop_trailing_slash: bool,

    /// Ignore the case of ASCII letters in a path
    #[arg(long, conflicts_with = "no_url", help_heading = "URLs")]
    pub lower_path: bool,
}

impl Pages {
    /// Returns what these options say.
    pub fn rules(&self) -> PageRules {
        PageRules {
            drop_query: self.drop_query.clone(),
            keep_query: self.keep_query.clone(),
            drop_session_path: self.drop_session_path,
            ignore_scheme: self.ignore_scheme,
            drop_trailing_slash: self.drop_trailing_slash,
            lower_path: self.lower_path,
        }
    }

    /// Returns the first given option.
    pub fn first_given(&self) -> Option<&'static str> {
        self.contradicting(&PageRules::default())
    }

    /// Returns the first given option that says something else than these rules.
    pub fn contradicting(&self, kept: &PageRules) -> Option<&'static str> {
        let differs = |asked: &[String], kept: &[String]| !asked.is_empty() && asked != kept;
        let all = [
            ("--drop-query", differs(&self.drop_query, &kept.drop_query)),
            ("--keep-query", differs(&self.keep_query, &kept.keep_query)),
            (
                "--drop-session-path",
                self.drop_session_path && !kept.drop_session_path,
            ),
            ("--ignore-scheme", self.ignore_scheme && !kept.ignore_scheme),
            (
                "--drop-trailing-slash",
                self.drop_trailing_slash && !kept.drop_trailing_slash,
            ),
            ("--lower-path", self.lower_path && !kept.lower_path),
        ];
        let given = all.into_iter().find(|(_, is_given)| *is_given);
        given.map(|(option, _)| option)
    }
}
