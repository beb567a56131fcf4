//! Keys that connections watch: WATCH asks for EXEC to do nothing if one of them was changed in between.
//!
//! What this server's clients change is noticed. What another program does to a store's file is not.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::name::Name;

/// The most keys that one connection watches.
const MOST_WATCHED: usize = 10_000;

type Flag = Arc<AtomicBool>;

/// Who watches which key.
#[derive(Debug, Default)]
pub struct Watches {
    /// How many keys are watched: nearly always none, and then a change costs one look at this.
    count: AtomicUsize,
    flags: Mutex<HashMap<Name, Vec<Flag>>>,
}

/// The keys that one connection watches, until it is dropped.
#[derive(Debug)]
pub struct Watch {
    watches: Arc<Watches>,
    names: HashSet<Name>,
    is_changed: Flag,
}

impl Watches {
    fn flags(&self) -> MutexGuard<'_, HashMap<Name, Vec<Flag>>> {
        self.flags.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether any key is watched.
    pub fn are_any(&self) -> bool {
        self.count.load(Ordering::SeqCst) > 0
    }

    /// Notes a change of a key.
    pub fn note(&self, name: &Name) {
        if !self.are_any() {
            return;
        }
        for flag in self.flags().get(name).into_iter().flatten() {
            flag.store(true, Ordering::SeqCst);
        }
    }
}

impl Watch {
    pub fn new(watches: &Arc<Watches>) -> Self {
        Watch {
            watches: Arc::clone(watches),
            names: HashSet::new(),
            is_changed: Arc::default(),
        }
    }

    /// Watches one more key, and returns whether it may.
    pub fn add(&mut self, name: Name) -> bool {
        if self.names.contains(&name) {
            return true;
        }
        if self.names.len() == MOST_WATCHED {
            return false;
        }
        let mut flags = self.watches.flags();
        let watchers = flags.entry(name.clone()).or_default();
        watchers.push(Arc::clone(&self.is_changed));
        self.watches.count.store(flags.len(), Ordering::SeqCst);
        self.names.insert(name)
    }

    pub fn is_changed(&self) -> bool {
        self.is_changed.load(Ordering::SeqCst)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut flags = self.watches.flags();
        for name in &self.names {
            if let Some(watchers) = flags.get_mut(name) {
                watchers.retain(|flag| !Arc::ptr_eq(flag, &self.is_changed));
                if watchers.is_empty() {
                    flags.remove(name);
                }
            }
        }
        self.watches.count.store(flags.len(), Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{Watch, Watches};
    use crate::database::Name;

    #[test]
    fn a_watch_sees_its_keys_and_leaves_nothing_behind() {
        let watches = Arc::new(Watches::default());
        let [a, b, c] = [b"a", b"b", b"c"].map(|name| Name::new(name).unwrap());
        let (mut one, mut other) = (Watch::new(&watches), Watch::new(&watches));
        assert!(one.add(a.clone()) && one.add(a.clone()));
        assert!(other.add(a.clone()) && other.add(b.clone()));
        watches.note(&c);
        assert!(!one.is_changed() && !other.is_changed());
        watches.note(&b);
        assert!(!one.is_changed() && other.is_changed());
        drop(other);
        watches.note(&a);
        assert!(one.is_changed());
        drop(one);
        assert!(watches.flags().is_empty());
    }

    #[test]
    fn a_connection_watches_so_many_keys_and_no_more() {
        let watches = Arc::new(Watches::default());
        let mut watch = Watch::new(&watches);
        let name = |number: usize| Name::new(number.to_string().as_bytes()).unwrap();
        assert!((0..super::MOST_WATCHED).all(|number| watch.add(name(number))));
        assert!(watch.add(name(7)) && !watch.add(name(super::MOST_WATCHED)));
    }
}
