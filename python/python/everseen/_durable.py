"""What makes files durable."""

import os
from pathlib import Path


def sync_folder(path: Path) -> None:
    """Make the names in a folder durable."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def sync_tree(path: Path) -> None:
    """Make a folder durable, with all files and folders in it, and its name."""
    for folder, _, names in os.walk(path):
        for name in names:
            file = os.open(Path(folder, name), os.O_RDONLY)
            try:
                os.fsync(file)
            finally:
                os.close(file)
        sync_folder(Path(folder))
    sync_folder(path.absolute().parent)
