"""What may go wrong: one class for each reason.

All are `EverseenError`. Those that come from the operating system, or are what the system has an error number for, are
`OSError` too, with `errno` and `filename`. Unless a class says otherwise, nothing has changed, and the store goes on.

What ends a call with many keys early carries `partial`: the answers for the keys that are done, from the first on.

>>> try:
...     everseen.open("missing.ever", mode="r+")
... except FileNotFoundError as error:
...     type(error).__name__
'NotFoundError'
"""

from __future__ import annotations

import errno as _errno
import sys as _sys
import warnings as _warnings
from typing import Any


class EverseenError(Exception):
    """The base of all errors of this package."""

    partial: Any
    """Of a call with many keys: the answers for the keys that are done."""

    def __str__(self) -> str:
        # The library's message names the file already.
        if isinstance(self, OSError) and self.strerror:
            return str(self.strerror)
        return super().__str__()


class NotFoundError(EverseenError, FileNotFoundError):
    """There is no store at this path."""

    number = _errno.ENOENT


class AlreadyExistsError(EverseenError, FileExistsError):
    """There is something at the path of a new store."""

    number = _errno.EEXIST


class EmptyFileError(EverseenError):
    """The file is empty, so it is no store yet. `open` with a mode that creates stores makes it one, in its place."""


class EmptiedError(EverseenError):
    """The file is empty, and a file beside it shows that it was a store: something has cut it to nothing."""


class DanglingLinkError(EverseenError, FileNotFoundError):
    """The path is a symbolic link that leads nowhere."""

    number = _errno.ENOENT


class MissingFolderError(EverseenError, FileNotFoundError):
    """The folder that should hold the store does not exist."""

    number = _errno.ENOENT


class IsFolderError(EverseenError, IsADirectoryError):
    """The path names a folder."""

    number = _errno.EISDIR


class NotAFileError(EverseenError, OSError):
    """The path names a link, a pipe or a device where a file of Everseen's is expected."""

    number = _errno.EINVAL


class InTheWayError(EverseenError, FileExistsError):
    """A file that is not Everseen's has a name that is needed."""

    number = _errno.EEXIST


class LeftoverLogError(EverseenError):
    """Beside the store lies a log with keys of another store that had this name."""


class OtherMomentError(EverseenError):
    """Beside the store lies a log of another moment: the store file was replaced by an older or a newer copy."""


class ManyNamesError(EverseenError):
    """The store's file has several names (hard links), and only one may be written to."""


class OtherNameError(EverseenError):
    """Other handles have the store open under another name."""


class MovedError(EverseenError):
    """A file of the open store was removed, renamed or replaced. The handle can't go on."""


class ReplacedError(EverseenError):
    """The name of a store that is open to read leads to another file now. What was answered is what the old one held."""


class PermissionDeniedError(EverseenError, PermissionError):
    """The operating system denies access."""

    number = _errno.EACCES


class ReadOnlyDiskError(EverseenError, OSError):
    """The file system can only be read, or is mounted so."""

    number = _errno.EROFS


class NameTooLongError(EverseenError, OSError):
    """The name of a file beside the store would be longer than the file system allows."""

    number = _errno.ENAMETOOLONG


class NoSpaceError(EverseenError, OSError):
    """The disk is full. The store works again once there is room."""

    number = _errno.ENOSPC


class NoRoomForBufferError(EverseenError, OSError):
    """The disk has no room for a write buffer of `bytes` bytes."""

    number = _errno.ENOSPC
    bytes: int


class OutOfMemoryError(EverseenError, MemoryError):
    """The system gives this process no more memory, most likely because its address space is limited (`ulimit -v`)."""


class IoError(EverseenError, OSError):
    """Any other failure of the operating system."""

    number = _errno.EIO


class LockedError(EverseenError):
    """Another handle has the store open."""


class OtherLayoutError(EverseenError):
    """Another version of Everseen has the store open."""


class FormatError(EverseenError):
    """The store file's bytes violate the format: it is damaged, or no store."""


class LogError(EverseenError):
    """A log's bytes violate the format."""


class SharedMemoryError(EverseenError):
    """Something else wrote into the memory that handles share. Close the store everywhere, and open it again."""


class DeltaError(EverseenError):
    """A delta, or the copy that it is for, is invalid."""


class SizingError(EverseenError, ValueError):
    """The parameters of a new store contradict each other."""


class InvalidOptionError(EverseenError, ValueError):
    """The value of `option` is out of range."""

    option: str


class MismatchError(EverseenError, ValueError):
    """Two stores can't be merged: they differ in `field`."""

    field: str
    other: str


class WrongKindError(EverseenError, ValueError):
    """Stores of this kind can't do this: be merged, be folded, remove keys, count them."""


class NeverForgetsError(EverseenError, ValueError):
    """Only a store that forgets keys can do this."""


class OverfullError(EverseenError):
    """A store made from others would exceed the bound on its rate, `expected`; it would meet `got`."""

    keys: int
    expected: float
    got: float


class KeysInLogError(EverseenError):
    """A store can only be read, and `keys` of its keys are in a log, which merging does not read."""

    keys: int


class ReadOnlyError(EverseenError, ValueError):
    """The store was opened to read."""


class FullError(EverseenError):
    """A store of fixed capacity holds all the keys it was created for. It goes on answering."""

    capacity: int


class TransactionTooLargeError(EverseenError):
    """The handle has as many uncommitted keys as it may have, `quota`. Commit, then go on."""

    quota: int


class TagTooLargeError(EverseenError, ValueError):
    """The tag of a commit is longer than 4096 bytes."""


class TooManyWritersError(EverseenError):
    """There is no room for another writer and its tag."""


class PoisonedError(EverseenError):
    """An earlier write failed, so this handle no longer knows what is on the disk. Open the store again."""


class BusyError(EverseenError, TimeoutError):
    """Another handle did not finish within this handle's timeout. `process` is its process, if known."""

    number = _errno.ETIMEDOUT
    process: int | None


class NoLocksError(EverseenError, OSError):
    """The locks of this file system do not exclude other handles."""

    number = _errno.ENOLCK


class TooManyHandlesError(EverseenError):
    """Too many handles have the store open."""


class EndedError(EverseenError):
    """All handles that wrote to the store are gone. Open it again to read on."""


class CancelledError(EverseenError):
    """A callback has ended the call early."""


class ForkedError(EverseenError):
    """The handle belongs to the process before a fork, which has the store to itself."""


class ClosedError(EverseenError, ValueError):
    """The store has been closed."""


class UnmetOptionError(EverseenError, ValueError):
    """The store exists already, and is less than `option` asks for, or something else."""

    option: str


class NullKeyError(EverseenError, ValueError):
    """A row has no value, and nulls are not to be skipped."""


class UrlError(EverseenError, ValueError):
    """A line is no URL."""


class NoKeyError(EverseenError, ValueError):
    """A record has no key, or a header no such column."""


class AnotherDriverError(EverseenError):
    """Another driver works on the seen set, or has published meanwhile. Nothing of this one's is published."""


class UnfinishedEpochError(AnotherDriverError):
    """`epoch` of the seen set was begun and not published. Run it again, or abandon it."""

    epoch: str


class PinChangedError(EverseenError):
    """The output of `epoch` was decided on another state of the seen set than the one that it would be added to.

    Remove the output, and run the epoch again.
    """

    epoch: str


class NotCommittedError(EverseenError):
    """The output is not whole yet: it holds no `_SUCCESS`."""


class VacuumedError(EverseenError):
    """The state of the seen set that the epoch began from has been vacuumed."""


class SetMismatchError(EverseenError, ValueError):
    """The seen set has another value in `field` than was asked for."""

    field: str


class ManifestError(EverseenError):
    """A manifest or a pin of a seen set is damaged, or none."""


class FingerprintError(EverseenError):
    """A shard's file is not the one that the manifest names."""


class ReshardError(EverseenError, ValueError):
    """A seen set can't be divided otherwise, since its stores don't know their keys."""


class WorkerDiedError(EverseenError):
    """A process of a pool has ended."""


class RootError(EverseenError):
    """A seen set's root can't do what is needed of it."""


class UncommittedWarning(ResourceWarning):
    """Keys of a transactional store were not committed, and are dropped.

    Python shows no `ResourceWarning` unless it is asked to; this one it shows.
    """


class NoEffectWarning(UserWarning):
    """An option asks for less than a store has that exists already."""


# Where warnings are configured (`-W`, PYTHONWARNINGS), that holds.
if not _sys.warnoptions:
    _warnings.simplefilter("default", UncommittedWarning)


# The library's messages advise in its own words.
_WORDS = [
    ("create one with `create`", '`mode="a"` creates one'),
    ("create one in its place with `create`", '`mode="a"` makes one in its place'),
    *((f"the option `{name}`", f"`{name}`") for name in ("buffer", "fpr", "like", "timeout")),
    ("run `checkpoint`", "call `Store.checkpoint`"),
    ("run `apply`", "call `everseen.apply`"),
    ("`snapshot_since`", "`Store.snapshot` with `since`"),
    ("`snapshot`", "`Store.snapshot`"),
    ("`verify`", "`Store.verify`"),
    ("`repair`", "`everseen.repair`"),
]


def _in_python(message: str) -> str:
    for command, python in _WORDS:
        message = message.replace(command, python)
    return message


def _make(name: str, message: str, path: str | None, number: int | None, fields: dict[str, Any]) -> EverseenError:
    """Return the exception of this name, for the extension."""
    kind: Any = globals().get(name, EverseenError)
    message = _in_python(message)
    # As other OSErrors have it.
    filename = None if path is None else str(path)
    if issubclass(kind, OSError):
        error: Any = kind(number or kind.number, message, filename)
    else:
        error = kind(message)
        if filename is not None:
            error.filename = filename
    for field, value in fields.items():
        setattr(error, field, value)
    raised: EverseenError = error
    return raised
