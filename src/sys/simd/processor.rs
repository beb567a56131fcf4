//! Which instructions of this processor the library uses.
//!
//! Tests and measurements build a library that does without some of them, as on a lesser processor:
//! `RUSTFLAGS='--cfg everseen_cpu="avx2"'` leaves AVX-512 out, `"baseline"` AVX2 and BMI as well. A variable of the
//! environment would be asked for each page that is read, and would be a door in what is shipped.

/// Whether the build may use AVX-512, and AVX2 with BMI.
const AVX512: bool = cfg!(not(any(everseen_cpu = "avx2", everseen_cpu = "baseline")));
const AVX2: bool = cfg!(not(everseen_cpu = "baseline"));

/// Whether there is what [`super::dispatch::run_wide`] compiles for.
#[inline]
pub(super) fn is_wide() -> bool {
    AVX512
        && std::is_x86_feature_detected!("avx512f")
        && std::is_x86_feature_detected!("avx512bw")
        && std::is_x86_feature_detected!("avx512dq")
        && std::is_x86_feature_detected!("avx512vl")
        && std::is_x86_feature_detected!("avx512vbmi")
        && std::is_x86_feature_detected!("avx512vbmi2")
        && std::is_x86_feature_detected!("avx512vpopcntdq")
        && std::is_x86_feature_detected!("bmi1")
        && std::is_x86_feature_detected!("bmi2")
        && std::is_x86_feature_detected!("lzcnt")
        && std::is_x86_feature_detected!("popcnt")
}

/// Whether there is what [`super::dispatch::run`] compiles for.
#[inline]
pub(super) fn is_modern() -> bool {
    has_avx2()
        && std::is_x86_feature_detected!("bmi1")
        && std::is_x86_feature_detected!("bmi2")
        && std::is_x86_feature_detected!("lzcnt")
        && std::is_x86_feature_detected!("popcnt")
}

/// Whether there is AVX2.
#[inline]
pub(in crate::sys) fn has_avx2() -> bool {
    AVX2 && std::is_x86_feature_detected!("avx2")
}

/// Whether there is what [`super::probes_avx512`] compiles for.
#[inline]
pub(super) fn draws_eight() -> bool {
    AVX512 && std::is_x86_feature_detected!("avx512vl") && std::is_x86_feature_detected!("avx512dq")
}
