//! What tells people how to use the command: pages of the repository, completions, manual pages.

mod completions;
mod guides;
