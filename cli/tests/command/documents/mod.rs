//! What tells people how to use the command: pages of the repository, completions, manual pages, JSON.

mod completions;
mod guides;
mod help;
mod json;
mod report;
