"""What a store reports of itself and of what was done."""

from __future__ import annotations

from dataclasses import dataclass

# Reports have fields of this name.
_Bytes = bytes


@dataclass(frozen=True, slots=True)
class Commit:
    """A writer's last commit."""

    writer: str
    """The writer's name."""
    sequence: int
    """Its place among all commits of the store, counted from 1."""
    tag: bytes
    """The bytes that were committed with it."""


@dataclass(frozen=True, slots=True)
class LayerStats:
    """One layer of a store."""

    capacity: int
    """Keys that it was planned for."""
    keys: int
    """Keys in it."""
    pages: int
    """Its pages of 4096 bytes."""
    bits: int
    """Its filter bits. In a counting store, four of them are one counter."""
    k: int
    """Bits, or counters, per key."""
    fill: float
    """The share of bits expected to be set."""
    fpr: float
    """The false-positive rate expected of it now."""


@dataclass(frozen=True, slots=True)
class RunStats:
    """One run of a store of kind fingerprint: what checkpoints brought, merged with runs of its size."""

    added: int
    """Keys that it adds to the older runs."""
    removed: int
    """Keys of older runs that it takes away."""
    pages: int
    """Its pages of 4096 bytes."""
    due: int
    """Entries that checkpoints have still to write until it is merged into the next older run."""


@dataclass(frozen=True, slots=True)
class Forgetting:
    """How a store forgets. Times are in seconds since 1970."""

    after: float
    """Seconds for which each key is remembered, at least."""
    steps: int
    """In how many steps of that it counts ages. A key is forgotten a step later at the latest."""
    now: float
    """The time of the store."""
    by: str
    """`"first"`: since a key was added. `"last"`: since it last came."""
    latest: float | None
    """No key in the pages came later; `None` before the first checkpoint."""
    earliest: float | None
    """No key in the pages came earlier; `None` if that is not known."""


@dataclass(frozen=True, slots=True)
class KeysOfStep:
    """Keys of a store that forgets, which came in one step. Times are in seconds since 1970."""

    came: float
    """When the step began."""
    forgotten: float
    """When these keys are forgotten."""
    keys: int
    """How many they are: a key that came again or went may be counted once more until runs are merged."""


@dataclass(frozen=True, slots=True)
class KeysByAge:
    """The keys of a store that forgets, by when they came."""

    steps: list[KeysOfStep]
    """Each step in which keys came, the oldest first."""
    are_all_read: bool
    """Whether all pages were read. Otherwise the numbers are estimated from 1,024 of them."""


@dataclass(frozen=True, slots=True)
class Stats:
    """What a store knows about itself without reading its pages."""

    kind: str
    hash: str
    capacity: int | None
    """Keys that it was created for, or may grow to; `None` if it grows in layers."""
    fpr_target: float
    """The bound on its false-positive rate."""
    fpr_now: float
    """The rate expected of its pages as full as they are."""
    keys: int
    """Keys that it holds, uncommitted ones included."""
    key_limit: int
    """The most keys that it takes."""
    keys_left: int
    exempt: int
    bytes: int
    """Bytes of the store's file."""
    bits_per_key: float
    generation: int
    """The number of checkpoints, plus one."""
    log_bytes: int
    buffer_bytes: int
    """Bytes of memory that write buffers take now, for all handles."""
    lock_taken: int
    lock_waited: float
    """Seconds that this handle's threads have waited for the writer lock."""
    transactional: bool
    commits: list[Commit]
    """The last commit of each writer."""
    layers: list[LayerStats]
    runs: list[RunStats]
    """The runs of a store of kind fingerprint, oldest first."""
    forgetting: Forgetting | None
    """How it forgets; `None` if it keeps keys for ever."""
    store_id: _Bytes
    created: int
    """When it was created, in seconds since 1970."""


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate, and the interval that holds the true value with 95 % confidence."""

    estimate: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Measured:
    """How often inserts were wrong so far, measured on a sample of the keys."""

    one_in: int
    """One key in this many is in the sample."""
    sampled: int
    """Keys of the sample that were inserted."""
    false_positives: int
    """Keys of the sample that were never inserted, and taken for seen."""
    lost: Interval
    """Keys lost this way in total."""
    rate: Interval
    """The share of all keys that were lost this way."""


@dataclass(frozen=True, slots=True)
class Damage:
    """A damaged page."""

    layer: int
    page: int
    keys: int
    """About how many keys it holds."""


@dataclass(frozen=True, slots=True)
class SegmentDamage:
    """A damaged page of a store of kind fingerprint."""

    page: int
    """Its number in the file."""
    keys: int
    """About how many keys it holds; 0 if none is lost with it."""
    reason: str


@dataclass(frozen=True, slots=True)
class LayerOccupancy:
    """What the bits that are set say about a layer."""

    pages: int
    good: int
    """Pages that are not damaged."""
    bits_set: int
    keys: float
    """An estimate of the distinct keys that it was offered."""
    fpr: float
    """The rate at which it answers "seen" to keys that it doesn't have."""


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """What `Store.verify` has found."""

    pages: int
    blank: int
    bits_set: int
    layers: list[LayerOccupancy]
    damaged: list[Damage]
    """The first 2^20 of the damaged pages."""
    unlisted: int
    """The number of further damaged pages."""
    segments: list[SegmentDamage]
    """The damaged pages of a store of kind fingerprint, which has no layers."""
    sections: list[str]
    """Damaged lists of exact keys, and what is wrong with them."""
    superblock: str | None
    """What is wrong with the superblock that is not in use, if anything. Nothing is lost."""
    keys_estimate: float
    fpr: float

    @property
    def ok(self) -> bool:
        """Whether nothing is damaged."""
        return not (self.damaged or self.segments or self.sections)


@dataclass(frozen=True, slots=True)
class RepairReport:
    """What a repair has found and mended."""

    header: bool
    superblock: bool
    rolled_back: bool
    """Whether the newest superblock, or its log, is lost: commits may be missing."""
    log_missing: bool
    log_bytes: int
    """Bytes cut off from logs."""
    set_aside: list[str]
    """Logs that do not belong to the store file, or whose header is damaged, by the names that they have now."""
    exemptions: int
    sample: bool
    pages: list[Damage]
    unlisted: int
    blank: int

    @property
    def is_whole(self) -> bool:
        """Whether nothing was damaged."""
        damaged = (
            self.header,
            self.superblock,
            self.rolled_back,
            self.log_missing,
            self.log_bytes,
            self.set_aside,
            self.exemptions,
            self.sample,
            self.pages,
            self.unlisted,
            self.blank,
        )
        return not any(damaged)


@dataclass(frozen=True, slots=True)
class RecoveryReport:
    """What opening has found, and done about it."""

    joined: bool
    """Whether others had the store open: then there was nothing to recover."""
    logs: int
    """Logs found: none if the store was closed."""
    log_bytes: int
    keys: int
    """Keys recovered from them."""
    dropped: int
    """Keys in them that no commit covers; a transactional store drops them."""
    checkpoint: bool
    """Whether a checkpoint was due or under way."""
    superblock: str | None


@dataclass(frozen=True, slots=True)
class SnapshotReport:
    """A copy that was made."""

    generation: int
    keys: int
    pages: int
    bytes: int
    shared: bool
    """Whether the file system shares its blocks with the store's."""


@dataclass(frozen=True, slots=True)
class DeltaReport:
    """A delta that was written."""

    from_generation: int
    to_generation: int
    pages: int
    bytes: int


@dataclass(frozen=True, slots=True)
class ApplyReport:
    """A delta that was applied."""

    from_generation: int
    to_generation: int
    pages: int
    """Pages written; 0 if the copy was up to date."""
    keys: int
    resumed: bool
    """Whether an earlier attempt had left the copy half written."""


@dataclass(frozen=True, slots=True)
class MergeReport:
    """A store that was made from others."""

    keys: int
    """About how many keys it has."""
    fpr_now: float
    fpr: float
    capacity: int | None
    layers: int
    pages: int
    pages_read: int
    bytes: int


@dataclass(frozen=True, slots=True)
class ExemptReport:
    """Keys that were exempted."""

    exempted: int
    already: int
    present: int
    """Keys that are certain to have been inserted, and are left as they are."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Room for a number of keys at a rate."""

    capacity: int
    fpr: float
    """The expected rate when it is full."""
    bits: int
    bits_per_key: float
    k: int
    pages: int
    bytes: int
    ideal_bits_per_key: float
    """Bits per key of the best possible Bloom filter at the same rate."""
