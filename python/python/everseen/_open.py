"""Opening stores, and closing those that a program leaves open."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import weakref
from typing import TYPE_CHECKING, Any, Literal

from everseen import _everseen

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from everseen._reports import RepairReport

_Path = str | os.PathLike[str]

_left_open: weakref.WeakSet[_everseen.Store] = weakref.WeakSet()
_closes_at_end: int | None = None


def open(  # noqa: A001: the name that `dbm`, `gzip` and others have for it.
    path: _Path,
    capacity: int | None = None,
    fpr: float | None = None,
    *,
    mode: Literal["a", "x", "r+", "r"] = "a",
    kind: Literal["bloom", "counting", "scalable", "fingerprint"] | None = None,
    grows_to: int | None = None,
    transactional: bool | None = None,
    bits_per_key: float | None = None,
    hash: Literal["highway", "xxh3", "murmur3"] | None = None,  # noqa: A002: the option's name.
    seed: bytes | None = None,
    like: _Path | None = None,
    times: int | None = None,
    growth: int | None = None,
    tightening: float | None = None,
    foldable: int | None = None,
    measured: bool | None = None,
    label: bytes | None = None,
    forget_after: timedelta | float | None = None,
    forget_steps: int | None = None,
    forget_by: Literal["first", "last"] | None = None,
    at: datetime | float | None = None,
    buffer: int | None = None,
    writer: str | None = None,
    exclusive: bool = False,
    timeout: float | None = None,
    on_damage: Literal["error", "never_seen", "seen"] | None = None,
    background: bool | None = None,
    follow: bool = True,
) -> _everseen.Store:
    """Open a store, or create it if there is none.

    Any number of processes and threads may have a store open. All see each other's keys at once.

    Args:
        path: The store's file.
        mode: As of Python's own `open`: `"a"` opens the store or creates it, `"x"` creates it and refuses an existing
            one, `"r+"` opens an existing one, `"r"` opens it to read.

    Of a new store; an existing one keeps what it was created with. If that is less than an option asks for, or something
    else, that is an error; if it is more, a warning:

    Args:
        capacity: How many keys it is for. Of a store that grows in layers, the keys of the first.
        fpr: Its false-positive rate, 1e-6 unless given (or implied by `bits_per_key`).
        kind: `"bloom"`, the default with a capacity; `"fingerprint"`, which grows and can remove keys, the default without
            one; `"counting"`, which counts keys and can remove them; `"scalable"`, which grows in layers.
        grows_to: Of kind `"fingerprint"`: how many keys it may grow to, instead of a capacity (2**36).
        transactional: Whether everything a handle has not committed when it closes or dies never happened.
        bits_per_key: Filter bits per key, instead of `fpr`.
        hash: How keys become 64 bits: `"highway"` unless given.
        seed: The hash key, 32 bytes, instead of a random one. Anyone who knows it can choose colliding keys.
        like: A store with which the new one can be merged. `times` makes the new one that many times as large.
        growth: Of kind `"scalable"`: how many times as large each layer is as the one before it (2).
        tightening: Of kind `"scalable"`: the ratio of a layer's rate to that of the layer before it (0.85).
        foldable: How often the store can be folded in half (0).
        measured: Whether it keeps a sample of its keys, for `Store.measured` (`True`).
        label: Up to 4096 bytes of your own, such as the version of the rules by which you make keys. `Store.label` returns
            them, of each copy too. They never change.
        forget_after: How long it remembers each key, at least: a `timedelta`, or seconds. From then on the key is new again,
            a step later at the latest. Such a store is of kind `"fingerprint"`, and keeps no sample.
        forget_steps: In how many steps it counts ages, 1 to 255 (15). More steps forget more exactly; each doubling takes one
            bit more for each key.
        forget_by: Which event of a key starts that time: when it was added (`"first"`, the default), or when it last came in an
            insert or a claim (`"last"`). Look-ups don't count.

    Of this handle:

    Args:
        at: Of a store that forgets: what time it is, instead of the system's clock, for replays and tests. A `datetime` with
            a time zone, or seconds since 1970. Time then stands still for this handle until `Store.advance_to` or another
            handle moves it on. It never runs backwards: where keys of the store are a step younger, a warning says that
            this has no effect.
        buffer: Bytes of memory for the write buffers and all scratch, 128 KiB or more. Without it, memory follows the
            filter, from 64 MiB up.
        writer: The name under which it commits (`"default"`).
        exclusive: Has the store alone, or not at all. Such a handle is faster, and neither pickled nor inherited.
        timeout: Seconds to wait for other handles (30).
        on_damage: What a damaged page is: an `"error"`, or all of its keys `"never_seen"`, or all `"seen"`.
        background: Whether checkpoints run on a thread of their own (`True`).
        follow: Of mode `"r"`: whether the store is opened again by itself when its last writer has closed it, or a new one
            comes (`True`). Each answer then belongs to a moment within its call. Without it, the handle reads beside the
            writers that are there when it is opened until the last one is gone (`EndedError`); if there is none, it may
            miss what later ones do.

    Returns:
        The store. Use it in a `with` statement, which closes it. One that ends without an exception commits before; one
        that ends with an exception does not, and neither does `close`: a transactional store then drops what was not
        committed, and `UncommittedWarning` says how many keys that were. A store that `everseen dedup` has made is
        transactional.

    Raises:
        NotFoundError: With mode `"r+"` or `"r"`.
        AlreadyExistsError: With mode `"x"`.
        LockedError: While another handle has it open exclusively.
        FormatError, LogError: It is damaged, or no store.
        SizingError, ValueError: No store is made so.
        UnmetOptionError: The store exists already, and is less than an option asks for, or something else.
        NeverForgetsError: With `at`, and the store keeps its keys for ever.

    Warns:
        NoEffectWarning: The store exists already, and is more than an option asks for, or of a later time than `at`.

    >>> store = everseen.open("urls.ever", 1_000_000, 1e-4, transactional=True)
    >>> store.insert("https://example.org/")
    True
    >>> store.commit(b"page 1")
    1
    >>> store.close()
    0
    """
    given: dict[str, Any] = {
        "capacity": capacity,
        "fpr": fpr,
        "kind": kind,
        "grows_to": grows_to,
        "transactional": transactional,
        "bits_per_key": bits_per_key,
        "hash": hash,
        "seed": seed,
        "like": like,
        "times": times,
        "growth": growth,
        "tightening": tightening,
        "foldable": foldable,
        "measured": measured,
        "label": label,
        "forget_after": forget_after,
        "forget_steps": forget_steps,
        "forget_by": forget_by,
        "at": at,
        "buffer": buffer,
        "writer": writer,
        "exclusive": exclusive or None,
        "timeout": timeout,
        "on_damage": on_damage,
        "background": background,
        "follow": follow,
    }
    options = {name: value for name, value in given.items() if value is not None}
    return _opened(path, mode, options)


def _opened(path: _Path, mode: str, options: dict[str, Any], *, again: bool = False) -> _everseen.Store:
    store = _everseen.open(path, mode, options, again=again)
    _left_open.add(store)
    return store


def _reopen(path: str, mode: str, options: dict[str, Any], advanced: datetime | None = None) -> _everseen.Store:
    """Open a store that was pickled. `advanced` is the time that its handle was told, unless that came with `at`."""
    store = _opened(path, mode, options, again=True)
    if advanced is not None:
        store.advance_to(advanced)
    _close_at_end()
    return store


@atexit.register
def _close_all() -> None:
    with contextlib.ExitStack() as stack:
        for store in list(_left_open):
            # Whatever the others raise.
            stack.callback(store.close)


def _close_at_end() -> None:
    """Have a child of `multiprocessing` close its stores too: it may end without what `atexit` has registered."""
    global _closes_at_end
    util = sys.modules.get("multiprocessing.util")
    if util is not None and _closes_at_end != os.getpid():
        _closes_at_end = os.getpid()
        util.Finalize(None, _close_all, exitpriority=0)


def repair(
    path: _Path,
    on_damage: Literal["never_seen", "seen"],
    *,
    set_clock: datetime | float | None = None,
    timeout: float | None = None,
) -> RepairReport:
    """Repair a store that no handle has open, as far as what is left of it allows.

    It restores a damaged header or superblock from its copies, cuts damaged logs off at the damage, moves what they
    hold into the pages, and rewrites each damaged page as `on_damage` says: as one that holds no key (`"never_seen"`)
    or every key (`"seen"`). Copy the store first if what is lost matters.

    Args:
        path: The store's file.
        on_damage: What becomes of damaged pages.
        set_clock: Of a store that forgets: its time from here on, also if it is earlier than the one that the store has
            recorded by a clock that was wrong. What came later came at this time then.
        timeout: Seconds to wait for other handles (30).

    Returns:
        What was damaged.

    Raises:
        NotFoundError, LockedError: As `open`.
        FormatError, LogError: The damage can't be repaired.
        NeverForgetsError: With `set_clock`, and the store keeps its keys for ever.

    >>> everseen.open("whole.ever").close()
    0
    >>> everseen.repair("whole.ever", "never_seen").is_whole
    True
    """
    given = {"set_clock": set_clock, "timeout": timeout}
    options = {name: value for name, value in given.items() if value is not None}
    return _everseen._repair(path, on_damage, options)
