"""Crawlee's interfaces of a storage client and of a request queue's client."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from crawlee import Request
from crawlee.configuration import Configuration
from crawlee.storage_clients import FileSystemStorageClient
from crawlee.storage_clients import _base as bases
from crawlee.storage_clients.models import AddRequestsResponse, ProcessedRequest, RequestQueueMetadata

from everseen.crawlee._queue import Options, OtherQueueError, Queue

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self

_METADATA = "__metadata__.json"


def _folder_of(base: Path, name: str) -> Path:
    if name in ("", ".", "..") or Path(name).name != name:
        raise ValueError(f'Invalid storage name or alias "{name}": it names one folder, without separators')
    return base / name


def _read_metadata(path: Path) -> RequestQueueMetadata:
    try:
        return RequestQueueMetadata(**json.loads(path.read_text(encoding="utf-8")))
    except ValueError as error:
        raise ValueError(f"{path} is damaged") from error


def _refuse_another_clients(folder: Path) -> None:
    if not (folder / "everseen").exists() and any(path.name != _METADATA for path in folder.glob("*.json")):
        raise OtherQueueError(
            f"{folder} has a queue of Crawlee's file system client, which this one can't read. "
            "Finish that crawl with it, or give this one another queue."
        )


class RequestQueueClient(bases.RequestQueueClient):
    """A request queue that survives `kill -9`. `StorageClient` makes it; see `everseen.crawlee`."""

    def __init__(self, path: Path, metadata: RequestQueueMetadata, queue: Queue) -> None:
        self._path = path
        self._metadata = metadata
        self._queue = queue
        self._lock = asyncio.Lock()

    @property
    def path_to_rq(self) -> Path:
        """The queue's folder."""
        return self._path

    @property
    def path_to_metadata(self) -> Path:
        """The file that says the queue's id, name, and how it stood at the last commit."""
        return self._path / _METADATA

    @classmethod
    async def open(
        cls,
        *,
        id: str | None,  # noqa: A002: Crawlee's name.
        name: str | None,
        alias: str | None,
        configuration: Configuration,
        options: Options,
    ) -> Self:
        """Open a queue by its id, or open or create it by its name or alias.

        Raises:
            ValueError: More than one is given, no queue has the id, or the name is none for a folder.
            OtherQueueError: The folder has a queue of another client.
            JournalError: The queue is damaged.
        """
        if sum(given is not None for given in (id, name, alias)) > 1:
            raise ValueError('Only one of "id", "name", "alias" can be specified')
        base = Path(configuration.storage_dir) / "request_queues"
        client = await asyncio.to_thread(cls._open, base, id, name, alias, options)
        await client._tell(changed=False)
        return client

    @classmethod
    def _open(cls, base: Path, id_: str | None, name: str | None, alias: str | None, options: Options) -> Self:
        if id_ is not None:
            # A folder that has one without a name may be another client's.
            found = ((path.parent, _read_metadata(path)) for path in base.glob(f"*/{_METADATA}"))
            folder = next((folder for folder, metadata in found if metadata.id == id_), None)
            if folder is None:
                raise ValueError(f'Request queue with ID "{id_}" not found')
        else:
            folder = _folder_of(base, name or alias or "default")
        _refuse_another_clients(folder)
        queue = Queue.open(folder / "everseen", options)
        try:
            path = folder / _METADATA
            metadata = _read_metadata(path) if path.exists() else _new_metadata(name)
            client = cls(folder, metadata, queue)
            client._write_metadata()
        except BaseException:
            queue.close()
            raise
        return client

    def _write_metadata(self) -> None:
        draft = self.path_to_metadata.with_suffix(".draft")
        with draft.open("w", encoding="utf-8") as file:
            file.write(json.dumps(self._metadata.model_dump(), default=str, indent=2))
            file.flush()
            # Else a power cut may leave an empty file under its name.
            os.fsync(file.fileno())
        os.replace(draft, self.path_to_metadata)

    async def _tell(self, *, changed: bool) -> None:
        """Bring the metadata up to date, and commit if it is time."""
        metadata, queue = self._metadata, self._queue
        metadata.accessed_at = datetime.now(UTC)
        if changed:
            metadata.modified_at = metadata.accessed_at
        metadata.total_request_count = queue.total
        metadata.handled_request_count = queue.handled
        metadata.pending_request_count = queue.waiting + queue.in_progress
        if queue.is_due:
            await asyncio.to_thread(self._commit)

    def _commit(self) -> None:
        # A task that waits for it may be cancelled; it goes on, and another one begins.
        with self._queue.alone():
            self._queue.commit()
            self._write_metadata()

    async def get_metadata(self) -> RequestQueueMetadata:
        """Return what the queue is called and holds."""
        return self._metadata

    async def drop(self) -> None:
        """Remove the queue."""
        async with self._lock:
            await asyncio.to_thread(self._queue.remove)
            await asyncio.to_thread(shutil.rmtree, self._path, ignore_errors=True)

    async def purge(self) -> None:
        """Remove all requests, and forget them."""
        async with self._lock:
            await asyncio.to_thread(self._queue.clear)
            await self._tell(changed=True)
            await asyncio.to_thread(self._write_metadata)

    async def add_batch_of_requests(
        self, requests: Sequence[Request], *, forefront: bool = False
    ) -> AddRequestsResponse:
        """Add those requests that the queue has never had."""
        async with self._lock:
            processed = []
            for request in requests:
                new = self._queue.add(request.unique_key, request.model_dump_json().encode(), front=forefront)
                processed.append(
                    ProcessedRequest(
                        unique_key=request.unique_key,
                        was_already_present=new is not True,
                        was_already_handled=new is None,
                    )
                )
            await self._tell(changed=True)
            return AddRequestsResponse(processed_requests=processed, unprocessed_requests=[])

    async def get_request(self, unique_key: str) -> Request | None:
        """Return a request that is not done; `None` for any other."""
        async with self._lock:
            found = self._queue.find(unique_key)
            await self._tell(changed=False)
            return None if found is None else Request.model_validate_json(found)

    async def fetch_next_request(self) -> Request | None:
        """Return the next request, which is in progress until it is marked as handled or reclaimed."""
        async with self._lock:
            found = self._queue.take()
            await self._tell(changed=False)
            return None if found is None else Request.model_validate_json(found)

    async def mark_request_as_handled(self, request: Request) -> ProcessedRequest | None:
        """End a request that is in progress."""
        async with self._lock:
            if not self._queue.done(request.unique_key):
                return None
            if request.handled_at is None:
                request.handled_at = datetime.now(UTC)
            await self._tell(changed=True)
            return ProcessedRequest(unique_key=request.unique_key, was_already_present=True, was_already_handled=True)

    async def reclaim_request(self, request: Request, *, forefront: bool = False) -> ProcessedRequest | None:
        """Queue a request again that is in progress."""
        async with self._lock:
            content = request.model_dump_json().encode()
            if not self._queue.put_back(request.unique_key, content, front=forefront):
                return None
            await self._tell(changed=True)
            return ProcessedRequest(unique_key=request.unique_key, was_already_present=True, was_already_handled=False)

    async def is_empty(self) -> bool:
        """Return whether no request waits."""
        async with self._lock:
            await self._tell(changed=False)
            return self._queue.waiting == 0

    async def is_finished(self) -> bool:
        """Return whether every request is done."""
        async with self._lock:
            await self._tell(changed=False)
            return self._queue.waiting == 0 and self._queue.in_progress == 0


def _new_metadata(name: str | None) -> RequestQueueMetadata:
    now = datetime.now(UTC)
    return RequestQueueMetadata(
        id=uuid.uuid4().hex[:17],
        name=name,
        created_at=now,
        accessed_at=now,
        modified_at=now,
        had_multiple_clients=False,
        handled_request_count=0,
        pending_request_count=0,
        total_request_count=0,
    )


class StorageClient(FileSystemStorageClient):
    """Crawlee's storage in files, with request queues that survive `kill -9`; see `everseen.crawlee`.

    Args:
        fpr: The share of new requests that may be taken for done (1e-9). A queue that exists must be as good.
        capacity: How many requests a queue is for. Without it, its store grows.
        buffer: Bytes of memory for each queue's store.
        commit_interval: Seconds between commits (1). A power cut takes a crawl back by this much.
    """

    def __init__(
        self,
        *,
        fpr: float | None = None,
        capacity: int | None = None,
        buffer: int | None = None,
        commit_interval: float = 1.0,
    ) -> None:
        super().__init__()
        self._options = Options(fpr, capacity, buffer, commit_interval)

    async def create_rq_client(  # type: ignore[override]
        self,
        *,
        id: str | None = None,  # noqa: A002: Crawlee's name.
        name: str | None = None,
        alias: str | None = None,
        configuration: Configuration | None = None,
    ) -> RequestQueueClient:
        """Open a request queue, or create it."""
        configuration = configuration or Configuration.get_global_configuration()
        client = await RequestQueueClient.open(
            id=id, name=name, alias=alias, configuration=configuration, options=self._options
        )
        await self._purge_if_needed(client, configuration)
        return client
