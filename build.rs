//! Decides how the library uses the system: `everseen_portable` is set on every system but Linux, where
//! `RUSTFLAGS="--cfg everseen_portable"` sets it for a test (docs/design.md, "Systems other than Linux").

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() != Ok("linux") {
        println!("cargo::rustc-cfg=everseen_portable");
    }
}
