//! A block list that is checked often, and corrected where it blocks what it should not.
//!
//! ```sh
//! cargo run --release --example blocklist
//! ```

use std::error::Error;

use everseen::CreateOptions;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("blocked.ever");
    // A rate of one in twenty, so that there is something to correct.
    let store = CreateOptions::new()
        .capacity(10_000)
        .fpr(0.05)
        .create(&path)?;
    let blocked: Vec<String> = (0..10_000)
        .map(|host| format!("spam-{host}.example"))
        .collect();
    store.insert_batch(&blocked)?;
    store.checkpoint()?;

    // Hosts that must never be blocked: those that the filter takes for blocked become exceptions.
    let good: Vec<String> = (0..1_000)
        .map(|host| format!("good-{host}.example"))
        .collect();
    let is_blocked = store.contains_batch(&good)?;
    let wrong: Vec<_> = good
        .iter()
        .zip(is_blocked)
        .filter(|(_, blocked)| *blocked)
        .collect();
    let wrong: Vec<&String> = wrong.into_iter().map(|(host, _)| host).collect();
    let report = store.exempt(&wrong)?;
    println!(
        "{} of {} good hosts were blocked by mistake, {} are exempt now",
        wrong.len(),
        good.len(),
        report.exempted
    );

    if store.contains_batch(&good)?.contains(&true) {
        return Err("a good host is still blocked".into());
    }
    if store.contains_batch(&blocked)?.contains(&false) {
        return Err("a blocked host is not blocked any more".into());
    }
    store.close()?;
    Ok(())
}
