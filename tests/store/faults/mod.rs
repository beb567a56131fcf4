//! A disk that fails, at any call of a workload and in each way, and what must hold then:
//! a typed error, never a panic; nothing acknowledged is lost; nothing is there that was never
//! inserted; once there is room the same handle works on, unless a sync has failed.

#[cfg(target_os = "linux")]
mod address_space;
mod ages;
mod aimed;
mod every_call;
mod forgetting;
mod others;
mod removing;
mod run;
