"""The wheel and the source distribution of the Python package."""

import os
import subprocess

from . import licences

# The oldest glibc that the wheel works with: that of Debian 10 and RHEL 8.
PLATFORM = "manylinux_2_28"


def wheel(tree, toolbox, out):
    """Links with zig, which has the symbols of old versions of glibc: a link on this machine would take its own."""
    # What is linked in comes with its licences; the project's own lie in python/ anyway.
    (tree.path / "python/LICENSE-THIRD-PARTY").write_text(licences.text(tree, licences.WHEEL))
    maturin(tree, toolbox, "build", "--locked", "--profile", "dist", "--compatibility", PLATFORM, "--zig", "--out", out)


def sdist(tree, toolbox, out):
    maturin(tree, toolbox, "sdist", "--out", out)


def maturin(tree, toolbox, verb, *options):
    flags = ["--manifest-path", tree.path / "python/Cargo.toml"]
    # What zig compiles once for all programs lies in the tree, too: nothing of an earlier run goes in.
    own = {
        "PATH": toolbox.path,
        "ZIG_GLOBAL_CACHE_DIR": str(tree.target / "zig"),
        "XDG_CACHE_HOME": str(tree.target / "cache"),
    }
    tree.run(toolbox.python("maturin"), verb, *flags, *options, variables=own)


def check(out, toolbox):
    made = [*out.glob("*.whl"), *out.glob("everseen-*[0-9].tar.gz")]
    environment = os.environ | {"PATH": toolbox.path}
    subprocess.run([toolbox.python("twine"), "check", "--strict", *made], check=True)
    for wheel in out.glob("*.whl"):
        shown = subprocess.run(
            [toolbox.python("auditwheel"), "show", wheel], check=True, capture_output=True, text=True, env=environment
        ).stdout
        print(" ".join(shown.split()))
        assert PLATFORM in shown or "manylinux_2_17" in shown, shown
        subprocess.run([toolbox.python("abi3audit"), "--strict", "--summary", wheel], check=True, env=environment)
