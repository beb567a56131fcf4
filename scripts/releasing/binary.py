"""The command and the server, each as one static file."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from .source import TARGET


@dataclass(frozen=True)
class Program:
    name: str
    package: str
    # In Cargo.toml.
    profile: str
    most_bytes: int
    flags: tuple = ()

    def path(self, tree):
        return tree.target / TARGET / self.profile / self.name

    def released(self, tree):
        return f"{self.name}-v{tree.version}-{TARGET}"


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
    # Equal functions are kept once, and relocations take a bit each. They are words to lld, Rust's linker on this system
    # since 1.90.
    "-Clink-arg=-Wl,--icf=all",
    "-Clink-arg=-Wl,-z,pack-relative-relocs",
]
# Of the command's bytes glibc takes 0.9 MB: a thread's first look at its stack brings `sscanf` in, and with it all that
# scans and converts. Nothing unwinds in it (see the profile).
NO_UNWINDING = (
    "-Cforce-unwind-tables=no",
    f"-Clink-arg=-Wl,-T,{Path(__file__).with_name('no-unwinding.ld')}",
    "-Clink-arg=-Wl,--no-eh-frame-hdr",
)
COMMAND = Program("everseen", "everseen-cli", "dist-static", 5_000_000, NO_UNWINDING)
# A panic in one connection ends that connection: it unwinds.
SERVER = Program("everseen-server", "everseen-server", "dist", 7_000_000)
PROGRAMS = [COMMAND, SERVER]


def build(tree, program):
    """Builds a program, and returns its path."""
    cargo = ["cargo", "build", "--locked", "--profile", program.profile, "--target", TARGET]
    strip = f"CARGO_PROFILE_{program.profile.upper().replace('-', '_')}_STRIP"
    # Names are looked at before they are stripped.
    tree.run(
        *cargo,
        *("-p", program.package, "--bin", program.name),
        rustflags=[*FLAGS, *program.flags],
        variables={strip: "none"},
    )
    path = program.path(tree)
    names = {line.split()[-1].split("@")[0] for line in said("nm", "--defined-only", path).splitlines()}
    assert "main" in names, "no names to look at"
    if loading := names & LOADS_LIBRARIES:
        sys.exit(f"the static {program.name} would load libraries for {', '.join(sorted(loading))}")
    tree.run("strip", "--strip-all", "--remove-section=.gnu.warning.*", "--remove-section=.comment", path)
    return path


def copy(tree, out):
    for program in PROGRAMS:
        shutil.copy(program.path(tree), out / program.released(tree))


def check(out):
    with tempfile.TemporaryDirectory() as empty:
        for program in PROGRAMS:
            binary = next(out.glob(f"{program.name}-v*-{TARGET}"))
            size = binary.stat().st_size
            headers = said("readelf", "--wide", "--program-headers", "--dynamic", binary)
            assert "INTERP" not in headers and "NEEDED" not in headers, headers
            assert size <= program.most_bytes, f"{binary.name} has {size} bytes, more than {program.most_bytes}"
            print(f"{binary.name}: static, {size} bytes")
            shutil.copy(binary, Path(empty) / program.name)
        run_in_nothing(Path(empty))
        serve_in_nothing(Path(empty))
    print("both work where there is nothing else")


def run_in_nothing(root):
    """Runs the README's first screen where the binaries are the only files."""
    inside = [*alone(root), "/everseen"]
    first = subprocess.run([*inside, "dedup", "seen.ever"], input=b"a\nb\na\n", check=True, capture_output=True)
    again = subprocess.run([*inside, "dedup", "seen.ever"], input=b"b\nc\n", check=True, capture_output=True)
    if (first.stdout, again.stdout) != (b"a\nb\n", b"c\n"):
        sys.exit(f"in an empty folder the command printed {first.stdout!r} and {again.stdout!r}")


def serve_in_nothing(root):
    """Serves there, and asks."""
    serve = [*alone(root), "/everseen", "serve", "--dir", "/filters", "--listen", "127.0.0.1:0"]
    # Without /proc a program doesn't know where it lies, and looks for the other one on its path.
    environment = os.environ | {"PATH": f"/:{os.environ['PATH']}"}
    with subprocess.Popen(serve, stdout=subprocess.PIPE, text=True, env=environment) as server:
        try:
            ready = server.stdout.readline()
            assert ready.startswith("ready: 127.0.0.1:"), ready
            with socket.create_connection(("127.0.0.1", int(ready.rpartition(":")[2])), timeout=60) as client:
                client.sendall(b"BF.ADD k a\r\nBF.EXISTS k a\r\n")
                answer = client.makefile("rb").read(8)
        finally:
            server.send_signal(signal.SIGTERM)
        status = server.wait(timeout=60)
    if (answer, status) != (b":1\r\n:1\r\n", 0):
        sys.exit(f"in an empty folder the server answered {answer!r} and ended with {status}")


def alone(root):
    """How to run what lies in a folder with that folder as the root."""
    inside = ["unshare", "--root", root]
    if os.geteuid() != 0:
        inside[1:1] = ["--user", "--map-root-user"]
    return inside


def said(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
