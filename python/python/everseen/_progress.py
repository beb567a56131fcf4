"""Those who watch a long call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_Callback = Callable[[int, int | None], object]


class _Called:
    """Passes reports on to a callable."""

    def __init__(self, callback: _Callback) -> None:
        self._callback = callback

    def report(self, done: int, total: int | None) -> None:
        self._callback(done, total)

    def close(self) -> None:
        pass


class _Bar:
    """Draws a bar with tqdm."""

    def __init__(self, tqdm: Any, unit: str) -> None:
        self._bar = tqdm(unit=unit, unit_scale=True)

    def report(self, done: int, total: int | None) -> None:
        self._bar.total = total
        self._bar.update(done - self._bar.n)

    def close(self) -> None:
        self._bar.close()


def watch(progress: bool | _Callback, unit: str) -> _Called | _Bar | None:
    """Return what reports go to: a callable, a bar if `progress` is `True` and tqdm is installed, or nothing."""
    if callable(progress):
        return _Called(progress)
    if not isinstance(progress, bool):
        msg = f"progress is a bool or a callable, not {type(progress).__name__}"
        raise TypeError(msg)
    if not progress:
        return None
    try:
        from tqdm.auto import tqdm  # type: ignore[import-not-found, import-untyped, unused-ignore]
    except ImportError:
        return None
    return _Bar(tqdm, unit)
