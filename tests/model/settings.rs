use super::explorer::explore;
use super::setting::{Broken, Op, Setting};
use Op::{Checkpoint, Commit, Contains, Insert};

const PLAIN: Setting = Setting {
    name: "plain",
    transactional: false,
    growing: false,
    programs: &[&[Insert(0), Commit], &[Insert(0), Contains(0)]],
    after: &[Insert(0), Commit],
    generations: 2,
    full: true,
    begun: false,
    power_cuts: true,
    broken: None,
};

fn run(setting: &Setting) {
    let begun = std::time::Instant::now();
    let found = explore(setting);
    println!(
        "{} {:?}: {} states, depth {}, {} ends, {:?}",
        setting.name, setting.broken, found.states, found.depth, found.ends, begun.elapsed()
    );
    if let Some(trace) = found.violation {
        println!("{trace}");
    }
}

#[test]
fn first() {
    run(&PLAIN);
    run(&Setting { transactional: true, ..PLAIN });
    run(&Setting { growing: true, generations: 3, ..PLAIN });
    run(&PLAIN.breaking(Broken::TrustSuperblock));
    run(&Setting{power_cuts:false, begun: true, generations:3, programs: &[&[Insert(0)], &[Contains(0)], &[Checkpoint, Checkpoint]], ..PLAIN});
}
