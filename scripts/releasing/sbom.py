"""Which crates are in the command, in the server and in the wheel, as CycloneDX."""

import json

from .source import TARGET

PARTS = {"cli": "everseen", "server": "everseen-server", "python": "everseen-python"}


def write(tree, toolbox, out):
    for folder, name in PARTS.items():
        manifest = ["--manifest-path", tree.path / folder / "Cargo.toml"]
        cargo_cyclonedx = [toolbox.cargo("cargo-cyclonedx"), "cyclonedx", "--format", "json", "--spec-version", "1.5"]
        tree.run(*cargo_cyclonedx, *manifest, "--target", TARGET, "--no-build-deps", "--override-filename", "sbom")
        written = (tree.path / folder / "sbom.json").read_text()
        (out / f"{name}-v{tree.version}.cdx.json").write_text(plain(tree, written))


def plain(tree, text):
    """Leaves out where the source lay."""
    text = json.dumps(json.loads(text), indent=2, sort_keys=True) + "\n"
    return text.replace(f"path+file://{tree.path}", "path+file:///everseen").replace(str(tree.path), "/everseen")
