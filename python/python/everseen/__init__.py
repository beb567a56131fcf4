"""Have I ever seen this key? A persistent, crash-safe filter store for sets too large for memory.

>>> import everseen
>>> with everseen.open("visited.ever") as visited:
...     visited.insert("https://example.org/")
...     visited.insert("https://example.org/")
...     "https://example.org/" in visited
True
False
True

`open` opens a store, or creates it. `Store` says what a store can do, `everseen.errors` what may go wrong.
"""

from everseen import errors
from everseen._everseen import (
    Extractor,
    Hasher,
    Normalizer,
    Store,
    Verdict,
    __version__,
    apply,
    difference,
    fold,
    intersect,
    plan,
    union,
)
from everseen._open import open, repair
from everseen._reports import (
    ApplyReport,
    Commit,
    Damage,
    DeltaReport,
    ExemptReport,
    Forgetting,
    Interval,
    KeysByAge,
    KeysOfStep,
    LayerOccupancy,
    LayerStats,
    Measured,
    MergeReport,
    Plan,
    RecoveryReport,
    RepairReport,
    RunStats,
    SegmentDamage,
    SnapshotReport,
    Stats,
    VerifyReport,
)
from everseen.errors import EverseenError

__all__ = [
    "ApplyReport",
    "Commit",
    "Damage",
    "DeltaReport",
    "EverseenError",
    "ExemptReport",
    "Extractor",
    "Forgetting",
    "Hasher",
    "Interval",
    "KeysByAge",
    "KeysOfStep",
    "LayerOccupancy",
    "LayerStats",
    "Measured",
    "MergeReport",
    "Normalizer",
    "Plan",
    "RecoveryReport",
    "RepairReport",
    "RunStats",
    "SegmentDamage",
    "SnapshotReport",
    "Stats",
    "Store",
    "Verdict",
    "VerifyReport",
    "__version__",
    "apply",
    "difference",
    "errors",
    "fold",
    "intersect",
    "open",
    "plan",
    "repair",
    "union",
]
