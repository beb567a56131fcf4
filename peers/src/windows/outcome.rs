//! What a child tells of one variant.

use anyhow::{Result, bail};

/// Declares the figures once, for the line that tells them and the one who reads it.
macro_rules! figures {
    ($($(#[$about:meta])* $name:ident),* $(,)?) => {
        /// The figures of a stream.
        #[derive(Clone, Copy, Debug, Default, PartialEq)]
        pub struct Outcome {
            $($(#[$about])* pub $name: u64,)*
        }

        impl Outcome {
            /// A line of numbers.
            pub fn to_line(self) -> String {
                [$(self.$name.to_string()),*].join(" ")
            }

            /// Such a line.
            pub fn of(numbers: &[u64]) -> Result<Self> {
                let [$($name),*] = *numbers else {
                    bail!("a child told {numbers:?}");
                };
                Ok(Self { $($name),* })
            }
        }
    };
}

figures! {
    /// Keys that were brought since the first window was full, and the time that took.
    brought,
    brought_ns,
    /// Look-ups since then, and the time that they took.
    looked_up,
    looked_up_ns,
    /// Keys that are under the window in the end.
    live,
    /// The most bytes of memory; 0 if unknown.
    peak,
    /// Bytes on disk in the end.
    disk,
    /// Keys that never came before, and how many of them were called seen.
    never,
    false_seen,
    /// Keys that came again under the window, and how many of them were called new.
    under,
    lost,
    /// Keys that came again past the window, and how many of them were called seen.
    past,
    kept,
    /// Ages at which keys were forgotten, in thousandths of the window: the least, the median, the most.
    age_least,
    age_median,
    age_most,
    /// Keys that were not forgotten up to the end.
    never_forgotten,
    /// How long the longest step took, in thousandths of the window.
    longest_step,
    /// When the stream began, in milliseconds since 1970.
    begun,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_all() {
        let numbers: Vec<u64> = (1..=19).collect();
        let outcome = Outcome::of(&numbers).unwrap();
        assert_eq!((outcome.brought_ns, outcome.begun), (2, 19));
        assert_eq!(Outcome::of(&numbers[1..]).ok(), None);
        let line = outcome.to_line();
        assert!(line.starts_with("1 2 3 ") && line.ends_with(" 18 19"));
    }
}
