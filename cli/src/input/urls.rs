//! `--url`, for every command that takes items.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use everseen_keys::rule::{NotUrl, UrlRule};

use crate::error::{CliError, KeyError};

/// The part of the command line that makes items URLs.
#[derive(clap::Args, Clone, Copy, Default)]
pub struct Urls {
    /// Compare items as URLs, whatever their spelling
    ///
    /// They are printed as they came. See `everseen help urls`.
    #[arg(long, help_heading = "URLs")]
    pub url: bool,

    /// Compare items byte by byte, as by default
    ///
    /// It is an error if the store was created with --url.
    #[arg(long, conflicts_with = "url", help_heading = "URLs")]
    pub no_url: bool,

    /// Ignore the order of a query's names: ?b=2&a=1 is ?a=1&b=2
    #[arg(long, conflicts_with = "no_url", help_heading = "URLs")]
    pub sort_query: bool,

    /// Ignore a leading www.: www.example.org is example.org
    #[arg(long, conflicts_with = "no_url", help_heading = "URLs")]
    pub drop_www: bool,

    /// Items that are not URLs: pass or drop [default: as created]
    ///
    /// Pass them on, compared byte by byte, or drop them. They are counted, and the first ones reported. A store keeps
    /// what it was created with, which is otherwise pass.
    #[arg(
        long,
        value_name = "WHAT",
        value_parser = not_url(),
        conflicts_with = "no_url",
        help_heading = "URLs"
    )]
    pub not_url: Option<NotUrl>,
}

fn not_url() -> impl TypedValueParser<Value = NotUrl> {
    let names = [NotUrl::Pass, NotUrl::Drop].map(NotUrl::name);
    PossibleValuesParser::new(names).map(|name| NotUrl::of_name(&name).unwrap_or_default())
}

impl Urls {
    /// Returns whether any of these options is given.
    pub fn is_given(&self) -> bool {
        self.url || self.no_url || self.refinement().is_some()
    }

    /// Returns the first given option that says how URLs are compared.
    pub fn refinement(&self) -> Option<&'static str> {
        let options = [
            ("--sort-query", self.sort_query),
            ("--drop-www", self.drop_www),
            ("--not-url", self.not_url.is_some()),
        ];
        let given = options.into_iter().find(|(_, is_given)| *is_given);
        given.map(|(option, _)| option)
    }

    /// Refuses an option that says how URLs are compared where nothing says that lines are URLs.
    pub fn ensure_url(&self) -> Result<(), CliError> {
        match self.refinement() {
            Some(option) if !self.url => Err(KeyError::NeedsUrl { option }.into()),
            _ => Ok(()),
        }
    }

    /// Returns what these options say, if they say that items are URLs.
    pub fn rule(&self) -> Option<UrlRule> {
        self.url.then(|| UrlRule {
            sort_query: self.sort_query,
            drop_www: self.drop_www,
            not_url: self.not_url.unwrap_or_default(),
            ..UrlRule::default()
        })
    }
}
