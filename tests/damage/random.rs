//! One to four mutations at once, of every kind.

use super::child::{Plan, Task, Work};
use super::image::Image;
use super::mutation::Mutation;
use super::parent;
use crate::support::numbers::{Random, finalise};

/// Images unless `EVERSEEN_MUTATIONS` says otherwise.
const FEW: u64 = 500;

/// What image number `number` of a seed gets.
pub fn plan(images: &[Image], seed: u64, number: u64) -> Plan {
    let mut random = Random::new(finalise(seed).wrapping_add(finalise(number)));
    let scenario = random.below(images.len() as u64) as usize;
    let mut image = images[scenario].clone();
    let most = 1 + random.below(4);
    let count = 1 + random.below(most);
    let mutations = (0..count)
        .map(|_| {
            let mutation = Mutation::draw(&mut random, &image, images);
            mutation.apply(&mut image, images);
            mutation
        })
        .collect();
    Plan {
        scenario,
        mutations,
    }
}

pub fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().expect("a number"))
}

#[test]
fn mutated_stores_answer_right_or_with_an_error() {
    let seed = number("EVERSEEN_SEED").unwrap_or(1);
    let images = number("EVERSEEN_MUTATIONS").unwrap_or(FEW);
    let (first, end) = match number("EVERSEEN_MUTATION") {
        Some(one) => (one, one + 1),
        None => (0, images),
    };
    println!("EVERSEEN_SEED={seed} EVERSEEN_MUTATIONS={images}");
    parent::share(Task {
        work: Work::Mutate,
        seed,
        first,
        end,
        step: 1,
    });
}
