"""What scripts/release rests on: python3 -m unittest discover -s scripts."""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from releasing import archive, metadata, source, sums

CARGO = """[workspace.package]
version = "1.2.3"
repository = "https://forge.example/r"
homepage = "https://forge.example/h"
documentation = "https://forge.example/d"
"""
MEMBER = "[package]\nrepository.workspace = true\nhomepage.workspace = true\ndocumentation.workspace = true\n"
PYPROJECT = """[project.urls]
Repository = "https://forge.example/r"
Homepage = "https://forge.example/h"
Documentation = "https://forge.example/d"
"""
WORKFLOW = f"      - uses: a/b@{'0' * 40} # v1\n"
CHANGES = "# Changes\n\n## [1.2.3] - 2026-12-01\n"


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)

    def write(self, name, text, mode=0o644):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)
        return path


class Metadata(Folder):
    def setUp(self):
        super().setUp()
        subprocess.run(["git", "init", "-q"], cwd=self.root, check=True)
        self.write("Cargo.toml", CARGO + MEMBER)
        for member in ["cli/", "keys/", "python/", "server/"]:
            self.write(f"{member}Cargo.toml", MEMBER)
        for member in ["cli/", "keys/", "python/", "server/", ""]:
            self.write(f"{member}LICENSE-APACHE", "A")
            self.write(f"{member}LICENSE-MIT", "M")
        self.write("python/pyproject.toml", PYPROJECT)
        self.write(".github/workflows/ci.yml", WORKFLOW)
        self.write("CHANGELOG.md", CHANGES)
        self.add()

    def add(self):
        subprocess.run(["git", "add", "-A"], cwd=self.root, check=True)

    def problems(self):
        return metadata.problems(self.root)

    def test_a_project_that_is_ready_has_no_problem(self):
        self.assertEqual(self.problems(), [])

    def test_a_placeholder_is_named_with_its_line(self):
        self.write("SECURITY.md", f"# Security\n\nWrite to {metadata.PLACEHOLDERS['contact']}.\n")
        self.add()
        self.assertEqual(self.problems(), ["SECURITY.md:3: the contact is a placeholder"])
        metadata.replace(self.root, {"contact": "a@b.example"})
        self.assertEqual(self.problems(), [])
        self.assertIn("Write to a@b.example.", (self.root / "SECURITY.md").read_text())

    def test_places_that_disagree_are_named(self):
        self.write("python/pyproject.toml", PYPROJECT.replace("example/h", "example/other"))
        self.write("keys/Cargo.toml", MEMBER.replace("repository.workspace = true\n", ""))
        wrong = [
            "python/pyproject.toml: Homepage is not the homepage of Cargo.toml",
            "keys/Cargo.toml: repository.workspace = true is missing",
        ]
        self.assertEqual(metadata.disagreements(self.root), wrong)
        self.assertEqual(self.problems(), wrong)

    def test_each_package_has_the_licences(self):
        self.write("cli/LICENSE-MIT", "../LICENSE-MIT")
        (self.root / "python/LICENSE-APACHE").unlink()
        wrong = ["cli/LICENSE-MIT is not LICENSE-MIT", "python/LICENSE-APACHE is not LICENSE-APACHE"]
        self.assertEqual(metadata.disagreements(self.root), wrong)

    def test_an_action_is_named_by_its_commit(self):
        self.write(".github/workflows/ci.yml", WORKFLOW + "      - uses: a/c@v4\n")
        self.assertEqual(self.problems(), [".github/workflows/ci.yml:2: a/c is named by v4, not by its commit"])

    def test_the_version_has_a_date(self):
        self.write("CHANGELOG.md", CHANGES.replace("2026-12-01", "unreleased"))
        self.assertEqual(self.problems(), ["CHANGELOG.md: 1.2.3 has no date"])


class Bytes(Folder):
    def test_an_archive_has_neither_time_nor_owner_nor_mode_of_the_files(self):
        def packed(parent, names, mode, time):
            for name in names:
                os.utime(self.write(f"{parent}/top/{name}", name, mode), (time, time))
            return archive.packed(self.root / parent / "top", 1_700_000_000)

        first = packed("one", ["everseen", "man/a.1", "b"], 0o755, 1)
        self.assertEqual(first, packed("two", ["b", "man/a.1", "everseen"], 0o640, 2))
        # The compressed file has a time of its own.
        self.assertEqual(int.from_bytes(first[4:8], "little"), 1_700_000_000)
        self.assertNotEqual(first, packed("three", ["b", "man/a.1", "c"], 0o640, 2))

    def test_differences_are_named(self):
        for folder, text in [("one", "a"), ("two", "b")]:
            self.write(f"{folder}/same", "same")
            self.write(f"{folder}/other", text)
        self.write("two/more", "")
        self.assertEqual(sums.differences(self.root / "one", self.root / "two"), ["more", "other"])

    def test_builds_see_no_flags_of_the_caller_and_no_path_of_this_machine(self):
        flags = {
            "RUSTFLAGS": "-Cdebuginfo=2",
            "CFLAGS": "-g",
            "CARGO_PROFILE_DIST_LTO": "fat",
            "KEPT": "yes",
            "CARGO_HOME": "/a/home",
        }
        tree = source.Tree(self.root / "everseen", "0" * 40, "1.2.3", 1_700_000_000)
        with mock.patch.dict(os.environ, flags):
            seen = tree.environment(["-Ca"])
        self.assertEqual(seen["KEPT"], "yes")
        self.assertNotIn("RUSTFLAGS", seen)
        self.assertNotIn("CARGO_PROFILE_DIST_LTO", seen)
        renamed = [f"--remap-path-prefix={tree.path}=/everseen", "--remap-path-prefix=/a/home=/cargo"]
        self.assertEqual(seen["CARGO_ENCODED_RUSTFLAGS"].split("\x1f"), ["-Ca", *renamed])
        self.assertEqual(seen["CFLAGS"], f"-ffile-prefix-map={tree.path}=/everseen -ffile-prefix-map=/a/home=/cargo")
        self.assertEqual(seen["SOURCE_DATE_EPOCH"], "1700000000")


if __name__ == "__main__":
    unittest.main()
