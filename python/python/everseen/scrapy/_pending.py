"""What a crawl has still to do: requests that are queued, and those in flight."""

from __future__ import annotations

import pickle
from array import array
from types import NoneType
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from scrapy.utils.request import request_from_dict

from everseen._journal import Journal

if TYPE_CHECKING:
    from collections.abc import Container

    from scrapy import Request, Spider
    from scrapy.crawler import Crawler


class Queue:
    """The places in the journal of requests of one priority. Of each, memory holds eight bytes."""

    def __init__(self, pending: Pending, fifo: bool) -> None:
        self._pending = pending
        self._fifo = fifo
        self.places = array("Q")
        self._first = 0

    def push(self, request: Request) -> None:
        self.places.append(self._pending.place(request))

    def _next(self) -> int:
        return self._first if self._fifo else len(self.places) - 1

    def pop(self) -> Request | None:
        if not len(self):
            return None
        request = self._pending.hand_out(self.places[self._next()])
        if self._fifo:
            self._first += 1
            # Moving the rest costs no more than what was popped since the last time.
            if 2 * self._first > len(self.places):
                del self.places[: self._first]
                self._first = 0
        else:
            self.places.pop()
        return request

    def peek(self) -> Request | None:
        return self._pending.request(self.places[self._next()])[0] if len(self) else None

    def waiting(self) -> array[int]:
        return self.places[self._first :]

    def move(self, moved: dict[int, int]) -> None:
        self.places = array("Q", (moved[place] for place in self.waiting()))
        self._first = 0

    def close(self) -> None:
        pass

    def __len__(self) -> int:
        return len(self.places) - self._first


class QueueMaker:
    """What Scrapy's priority queues take for the class of their queues."""

    def __init__(self, pending: Pending, fifo: bool) -> None:
        self._pending = pending
        self._fifo = fifo

    def from_crawler(self, crawler: Crawler, key: str) -> Queue:
        queue = Queue(self._pending, self._fifo)
        self._pending.queues.add(queue)
        return queue


def _is_plain(value: Any, depth: int = 20) -> bool:
    """Return whether a value is made of Python's own types, which can be read whatever they hold."""
    if type(value) in (str, bytes, int, float, bool, NoneType):
        return True
    if not depth:
        return False
    if type(value) is dict:
        return all(_is_plain(key) and _is_plain(item, depth - 1) for key, item in value.items())
    return type(value) in (list, tuple) and all(_is_plain(item, depth - 1) for item in value)


class Pending:
    """All requests that are queued or in flight, and the journal that has them."""

    def __init__(self, journal: Journal, spider: Spider) -> None:
        self.journal = journal
        self.queues: WeakSet[Queue] = WeakSet()
        self._spider = spider
        # Requests compare by identity. Of each its place, and its size there.
        self._in_flight: dict[Request, tuple[int, int]] = {}
        self._known: int | None = None

    def serialize(self, request: Request) -> bytes:
        """Return a request's bytes; raises `ValueError` if it has none."""
        content = request.to_dict(spider=self._spider)
        try:
            packed = pickle.dumps(content, protocol=5)
        except (pickle.PicklingError, AttributeError, TypeError, RecursionError) as error:
            raise ValueError(str(error)) from error
        if not all(_is_plain(value) for value in content.values()):
            # Some objects can be written and not read again, such as exceptions with arguments of their own. In the queue,
            # that would be known when nothing can be done about it any more.
            try:
                pickle.loads(packed)
            except Exception as error:
                raise ValueError(f"it can't be read again: {error}") from error
        return packed

    def place(self, request: Request) -> int:
        """Return where a request that is being queued is in the journal."""
        if self._known is not None:
            return self._known
        return self.journal.add(self.serialize(request))

    def queue_again(self, queue: Any, place: int) -> None:
        """Queue a request that is in the journal."""
        request, _ = self.request(place)
        self._known = place
        try:
            queue.push(request)
        finally:
            self._known = None

    def request(self, place: int) -> tuple[Request, int]:
        content = self.journal.read(place)
        return request_from_dict(pickle.loads(content), spider=self._spider), len(content)

    def hand_out(self, place: int) -> Request:
        request, size = self.request(place)
        self._in_flight[request] = (place, size)
        return request

    def settle(self, at_work: Container[Request]) -> None:
        """Record as done what was handed out and is no longer at work."""
        for request in [request for request in self._in_flight if request not in at_work]:
            self.journal.done(*self._in_flight.pop(request))

    @property
    def is_empty(self) -> bool:
        """Whether nothing is queued or in flight."""
        return not self._in_flight and not any(len(queue) for queue in self.queues)

    def rewrite(self) -> Journal:
        """Go on in a journal of only what is still to do. Returns the one before, for removal after the commit."""
        places = {place for queue in self.queues for place in queue.waiting()}
        places.update(place for place, _ in self._in_flight.values())
        before = self.journal
        self.journal, moved = before.rewritten(places)
        for queue in self.queues:
            queue.move(moved)
        for request, (place, size) in self._in_flight.items():
            self._in_flight[request] = (moved[place], size)
        return before
