"""What a seen set is at one moment: docs/format/seen-sets.md describes the bytes."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass
from typing import Any

from everseen.errors import ManifestError

FORMAT = "everseen-set/1"
MOST_SHARDS = 100_000
LONGEST_EPOCH = 200

_HEX = re.compile(r"[0-9a-f]+\Z")
_FILE = re.compile(r"shards/[0-9]{12}-[0-9a-f]{32}/[0-9]{5}-[0-9a-f]{32}\.ever\Z")


@dataclass(frozen=True, slots=True)
class Settings:
    """What a set is created with, and keeps."""

    id: str
    """32 hexadecimal digits, random."""
    shards: int
    fpr: float
    capacity: int | None
    """Keys that the whole set is for; `None` if it grows."""
    hash: str
    seed: str
    """The hash key, 64 hexadecimal digits."""


@dataclass(frozen=True, slots=True)
class Shard:
    """One version of one shard: a file that is never written again."""

    file: str
    size: int
    sha256: str
    keys: int
    epoch: str
    """The epoch that has written it."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """A state of the set: what an epoch has published."""

    number: int
    settings: Settings
    epoch: str | None
    """The epoch that it publishes; `None` if it creates the set or abandons an epoch."""
    abandoned: str | None
    epochs: dict[str, int]
    """All epochs so far, with the numbers of their manifests."""
    shards: tuple[Shard | None, ...]
    """A shard that never got a key has no file."""

    @property
    def keys(self) -> int:
        """How many keys the set holds."""
        return sum(shard.keys for shard in self.shards if shard)

    @property
    def size(self) -> int:
        """The size of all shards."""
        return sum(shard.size for shard in self.shards if shard)

    def encode(self) -> bytes:
        """Return the bytes of the manifest's file."""
        return seal({"format": FORMAT, **asdict(self)})


@dataclass(frozen=True, slots=True)
class Pin:
    """An epoch that was begun: it, and no other, may become the manifest of this number."""

    number: int
    epoch: str
    output: str | None
    token: str

    def encode(self) -> bytes:
        """Return the bytes of the pin's file."""
        return seal({"format": FORMAT, **asdict(self)})


def seal(fields: dict[str, Any]) -> bytes:
    """Return fields as one JSON object, whose last field is the digest of all before it."""
    body = json.dumps(fields, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    digest = hashlib.sha256(body.encode()).hexdigest()
    return f'{body[:-1]},"sha256":"{digest}"}}\n'.encode()


def unseal(data: bytes, name: str) -> dict[str, Any]:
    """Return the fields of `seal`, whose digest is checked."""
    tail = re.search(rb',"sha256":"([0-9a-f]{64})"\}\n\Z', data)
    if tail is None:
        raise ManifestError(f"{name} is not whole")
    body = data[: tail.start()] + b"}"
    if hashlib.sha256(body).hexdigest().encode() != tail[1]:
        raise ManifestError(f"{name} is damaged: its digest differs")
    try:
        fields = json.loads(body)
    except ValueError as error:
        raise ManifestError(f"{name} is no JSON: {error}") from error
    if not isinstance(fields, dict) or fields.pop("format", None) != FORMAT:
        raise ManifestError(f"{name} is not of the format {FORMAT}")
    return fields


def manifest_of(data: bytes, name: str, number: int) -> Manifest:
    """Return the manifest in a file, checked."""
    fields = unseal(data, name)
    try:
        settings = _settings(fields["settings"])
        manifest = Manifest(
            number=_whole(fields["number"], 1),
            settings=settings,
            epoch=None if fields["epoch"] is None else epoch_name(fields["epoch"]),
            abandoned=fields["abandoned"],
            epochs={epoch_name(epoch): _whole(at, 1) for epoch, at in fields["epochs"].items()},
            shards=tuple(_shard(shard, place) for place, shard in enumerate(fields["shards"])),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ManifestError(f"{name} is no manifest: {error!r}") from error
    if manifest.number != number:
        raise ManifestError(f"{name} is of number {manifest.number}")
    if len(manifest.shards) != settings.shards:
        raise ManifestError(f"{name} names {len(manifest.shards)} shards of {settings.shards}")
    if manifest.epoch is not None and manifest.epochs.get(manifest.epoch) != number:
        raise ManifestError(f"{name} does not list its own epoch")
    if any(at > number for at in manifest.epochs.values()):
        raise ManifestError(f"{name} lists epochs that come after it")
    return manifest


def pin_of(data: bytes, name: str, number: int) -> Pin:
    """Return the pin in a file, checked."""
    fields = unseal(data, name)
    try:
        output = fields["output"]
        if output is not None and not isinstance(output, str):
            raise ValueError(f"output {output!r}")
        pin = Pin(_whole(fields["number"], 2), epoch_name(fields["epoch"]), output, _hex(fields["token"], 32))
    except (KeyError, TypeError, ValueError) as error:
        raise ManifestError(f"{name} is no pin: {error!r}") from error
    if pin.number != number:
        raise ManifestError(f"{name} is of number {pin.number}")
    return pin


def epoch_name(name: object) -> str:
    """Return a name that an epoch can have."""
    if not isinstance(name, str) or not 0 < len(name) <= LONGEST_EPOCH or not name.isprintable():
        raise ValueError(f"an epoch's name has 1 to {LONGEST_EPOCH} printable characters, not {name!r}")
    return name


def _settings(fields: dict[str, Any]) -> Settings:
    capacity = fields["capacity"]
    settings = Settings(
        id=_hex(fields["id"], 32),
        shards=_whole(fields["shards"], 1),
        fpr=fields["fpr"],
        capacity=None if capacity is None else _whole(capacity, 1),
        hash=fields["hash"],
        seed=_hex(fields["seed"], 64),
    )
    if settings.shards > MOST_SHARDS:
        raise ValueError(f"{settings.shards} shards")
    if not isinstance(settings.fpr, float) or not 0 < settings.fpr < 1:
        raise ValueError(f"a rate of {settings.fpr!r}")
    if settings.hash not in ("highway", "xxh3", "murmur3"):
        raise ValueError(f"hash {settings.hash!r}")
    return settings


def _shard(fields: dict[str, Any] | None, place: int) -> Shard | None:
    if fields is None:
        return None
    file = fields["file"]
    # A name from a manifest is opened and, by a vacuum, kept: it names a shard of this set or nothing.
    if not isinstance(file, str) or not _FILE.match(file) or int(file.split("/")[2][:5]) != place:
        raise ValueError(f"shard {place} in {file!r}")
    return Shard(
        file=file,
        size=_whole(fields["size"], 0),
        sha256=_hex(fields["sha256"], 64),
        keys=_whole(fields["keys"], 0),
        epoch=epoch_name(fields["epoch"]),
    )


def _whole(number: object, least: int) -> int:
    if type(number) is not int or not least <= number < 1 << 63:
        raise ValueError(f"{number!r}")
    return number


def _hex(text: object, digits: int) -> str:
    if not isinstance(text, str) or len(text) != digits or not _HEX.match(text):
        raise ValueError(f"{text!r}")
    return text


def manifest_name(number: int) -> str:
    """Return the file of a manifest."""
    return f"manifests/{number:012}.json"


def pin_name(number: int) -> str:
    """Return the file of a pin."""
    return f"pins/{number:012}.json"
