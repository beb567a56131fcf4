"""The command and the server with what belongs to them, in one archive."""

import gzip
import io
import shutil
import tarfile
from pathlib import Path

from . import binary, licences

# What each shell calls the file.
COMPLETIONS = {
    "bash": "everseen.bash",
    "elvish": "everseen.elv",
    "fish": "everseen.fish",
    "powershell": "_everseen.ps1",
    "zsh": "_everseen",
}
SERVICE = "server/packaging/everseen-server.service"
EXECUTABLE = [program.name for program in binary.PROGRAMS]
PAGES = ["README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"]


def share(tree):
    """Has the command write its completions and manual pages into the tree, and returns their folder."""
    folder = tree.path / "share"
    command = binary.COMMAND.path(tree)
    (folder / "complete").mkdir(parents=True)
    for shell, name in COMPLETIONS.items():
        with open(folder / "complete" / name, "wb") as file:
            tree.run(command, "completions", shell, stdout=file)
    tree.run(command, "man", folder / "man/man1")
    (folder / "THIRD-PARTY.txt").write_text(licences.text(tree, licences.PROGRAMS))
    return folder


def pack(tree, share, out):
    top = binary.COMMAND.released(tree)
    folder = tree.path.parent / top
    shutil.copytree(share, folder)
    for program in binary.PROGRAMS:
        shutil.copy(program.path(tree), folder / program.name)
    shutil.copy(tree.path / SERVICE, folder / Path(SERVICE).name)
    for page in PAGES:
        shutil.copy(tree.path / page, folder / page)
    (out / f"{top}.tar.gz").write_bytes(packed(folder, tree.epoch))


def packed(folder, epoch):
    """A folder as a compressed archive: sorted, without owners, all of one time."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in [folder, *sorted(folder.rglob("*"))]:
            entry = tar.gettarinfo(path, str(path.relative_to(folder.parent)))
            entry.uid = entry.gid = 0
            entry.uname = entry.gname = ""
            entry.mtime = epoch
            entry.mode = 0o755 if path.is_dir() or path.name in EXECUTABLE else 0o644
            if path.is_dir():
                tar.addfile(entry)
            else:
                with open(path, "rb") as file:
                    tar.addfile(entry, file)
    return gzip.compress(raw.getvalue(), mtime=epoch)
