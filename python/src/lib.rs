//! The extension module of the Python package `everseen`.
//!
//! It turns Python's objects into keys and the library's answers into Python's objects, and knows nothing else: all it
//! does to a store goes through the library's public interface. Signatures and documentation are in
//! `python/everseen/*.py` and `*.pyi`.

mod answers;
mod arrow;
mod batch;
mod command;
mod copies;
mod errors;
mod extractor;
mod hashed;
mod hashes;
mod keys;
mod many;
mod merge;
mod normalizer;
mod opening;
mod planning;
mod progress;
mod reports;
mod session;
mod store;
mod times;
mod verdict;
mod warnings;

use pyo3::prelude::*;
use pyo3::types::PyDict;

#[pymodule]
fn _everseen(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<store::Store>()?;
    module.add_class::<verdict::Verdict>()?;
    module.add_class::<normalizer::Normalizer>()?;
    module.add_class::<extractor::Extractor>()?;
    module.add_class::<hashed::Hasher>()?;
    module.add_class::<hashed::Distinct>()?;
    module.add_function(wrap_pyfunction!(store::open, module)?)?;
    module.add_function(wrap_pyfunction!(copies::apply, module)?)?;
    module.add_function(wrap_pyfunction!(copies::repair, module)?)?;
    module.add_function(wrap_pyfunction!(merge::union, module)?)?;
    module.add_function(wrap_pyfunction!(merge::fold, module)?)?;
    module.add_function(wrap_pyfunction!(merge::intersect, module)?)?;
    module.add_function(wrap_pyfunction!(merge::difference, module)?)?;
    module.add_function(wrap_pyfunction!(planning::plan, module)?)?;
    module.add_function(wrap_pyfunction!(command::run_command, module)?)?;

    // Every handle of the parent is another process's in the child.
    let after_fork = wrap_pyfunction!(session::forked, module)?;
    let hooks = PyDict::new(py);
    hooks.set_item("after_in_child", after_fork)?;
    let os = py.import("os")?;
    // Systems without fork have no hooks.
    if let Ok(register) = os.getattr("register_at_fork") {
        register.call((), Some(&hooks))?;
    }
    Ok(())
}
