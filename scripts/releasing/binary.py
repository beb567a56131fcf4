"""The command as one static file."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from .source import TARGET

# In Cargo.toml.
PROFILE = "dist-static"
# Of these glibc takes 0.9 MB: a thread's first look at its stack brings `sscanf` in, and with it all that scans and
# converts.
MOST_BYTES = 5_500_000
# What glibc loads shared libraries for, even in a static program: names of users, groups and hosts, character sets.
LOADS_LIBRARIES = {
    "getaddrinfo",
    "gethostbyname_r",
    "getpwnam_r",
    "getpwuid_r",
    "getgrnam_r",
    "getgrgid_r",
    "iconv_open",
}
FLAGS = [
    "-Ctarget-feature=+crt-static",
    # By itself the crate looks the function up in the C library at run time, finds none in a static program, and falls
    # back to files in /dev, which a container may not have.
    '--cfg=getrandom_backend="linux_getrandom"',
    # Nothing unwinds (see the profile), equal functions are kept once, and relocations take a bit each: together a
    # tenth of the file. The last two are words to lld, Rust's linker on this system since 1.90.
    "-Cforce-unwind-tables=no",
    "-Clink-arg=-Wl,--icf=all",
    "-Clink-arg=-Wl,-z,pack-relative-relocs",
]


def build(tree):
    """Builds the command, and returns its path."""
    cargo = [
        "cargo",
        "build",
        "--locked",
        "--profile",
        PROFILE,
        "--target",
        TARGET,
        "-p",
        "everseen-cli",
        "--bin",
        "everseen",
    ]
    # Names are looked at before they are stripped.
    tree.run(*cargo, rustflags=FLAGS, variables={f"CARGO_PROFILE_{PROFILE.upper().replace('-', '_')}_STRIP": "none"})
    command = tree.target / TARGET / PROFILE / "everseen"
    names = {line.split()[-1].split("@")[0] for line in said("nm", "--defined-only", command).splitlines()}
    assert "main" in names, "no names to look at"
    if loading := names & LOADS_LIBRARIES:
        sys.exit(f"the static binary would load libraries for {', '.join(sorted(loading))}")
    tree.run("strip", "--strip-all", "--remove-section=.gnu.warning.*", "--remove-section=.comment", command)
    return command


def name(tree):
    return f"everseen-v{tree.version}-{TARGET}"


def copy(tree, command, out):
    shutil.copy(command, out / name(tree))


def check(out):
    command = next(path for path in out.glob(f"everseen-v*-{TARGET}"))
    size = command.stat().st_size
    headers = said("readelf", "--wide", "--program-headers", "--dynamic", command)
    assert "INTERP" not in headers and "NEEDED" not in headers, headers
    with tempfile.TemporaryDirectory() as empty:
        shutil.copy(command, Path(empty) / "everseen")
        run_in_nothing(Path(empty))
    assert size <= MOST_BYTES, f"{command.name} has {size} bytes, more than {MOST_BYTES}"
    print(f"{command.name}: static, {size} bytes, works where there is nothing else")


def run_in_nothing(root):
    """Runs the README's first screen where the binary is the only file."""
    inside = ["unshare", "--root", root, "/everseen"]
    if os.geteuid() != 0:
        inside[1:1] = ["--user", "--map-root-user"]
    first = subprocess.run([*inside, "dedup", "seen.ever"], input=b"a\nb\na\n", check=True, capture_output=True)
    again = subprocess.run([*inside, "dedup", "seen.ever"], input=b"b\nc\n", check=True, capture_output=True)
    if (first.stdout, again.stdout) != (b"a\nb\n", b"c\n"):
        sys.exit(f"in an empty folder the command printed {first.stdout!r} and {again.stdout!r}")


def said(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
