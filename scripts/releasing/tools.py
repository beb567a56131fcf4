"""The tools of a release, by version, in a folder of their own."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

# A newer one may write other bytes: raise one at a time, and compare what comes out.
CARGO = {"cargo-deb": "3.8.0", "cargo-cyclonedx": "0.5.9"}
PYTHON = {
    "maturin": "1.16.0",
    # The linker that knows what glibc 2.28 had.
    "ziglang": "0.15.2",
    "auditwheel": "6.8.2",
    "abi3audit": "0.0.26",
    "twine": "7.0.0",
}
NEEDED_BY = {"cargo-deb": "deb", "cargo-cyclonedx": "sbom"}


@dataclass(frozen=True)
class Toolbox:
    folder: Path

    def cargo(self, name):
        return self.folder / "bin" / name

    def python(self, name):
        return self.folder / "venv/bin" / name

    @property
    def path(self):
        """The search path with the tools in front."""
        return os.pathsep.join([str(self.folder / "venv/bin"), str(self.folder / "bin"), os.environ["PATH"]])


def install(folder, only):
    """Installs what is missing or has another version."""
    folder.mkdir(parents=True, exist_ok=True)
    listed = folder / "installed.json"
    installed = json.loads(listed.read_text()) if listed.exists() else {}
    for name, version in CARGO.items():
        if NEEDED_BY[name] in only and installed.get(name) != version:
            cargo_install(folder, name, version)
            installed[name] = version
            listed.write_text(json.dumps(installed, indent=2))
    if {"wheel", "sdist"} & set(only) and any(installed.get(name) != version for name, version in PYTHON.items()):
        run(sys.executable, "-m", "venv", folder / "venv")
        wanted = [f"{name}=={version}" for name, version in PYTHON.items()]
        run(folder / "venv/bin/pip", "install", "-q", *wanted)
        listed.write_text(json.dumps(installed | PYTHON, indent=2))
    return Toolbox(folder)


def cargo_install(folder, name, version):
    environment = os.environ | {"CARGO_TARGET_DIR": str(folder / "build")}
    run("cargo", "install", "-q", "--locked", "--root", folder, "--version", version, name, env=environment)


def run(*command, **options):
    arguments = [str(argument) for argument in command]
    print("+", *arguments, flush=True)
    subprocess.run(arguments, check=True, **options)
