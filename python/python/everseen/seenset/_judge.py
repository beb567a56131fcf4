"""Which keys are seen for the first time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy

from everseen._everseen import Distinct
from everseen.seenset._shards import Reader

if TYPE_CHECKING:
    from everseen.seenset._manifest import Manifest
    from everseen.seenset._shards import Hashes, Mask, Root


class Judge:
    """Says which keys are seen for the first time, by a manifest and by what it was asked before."""

    def __init__(self, root: Root, manifest: Manifest) -> None:
        self._reader = Reader(root, manifest)
        self._batch = Distinct()

    def first(self, hashes: Hashes, second: Hashes) -> Mask:
        """Return for each key, given by two hashes, whether this is the first time."""
        first = ~self._reader.contains(hashes)
        places = numpy.flatnonzero(first)
        # Their first hashes may be equal by chance: both decide.
        first[places] = self._batch.insert_many(hashes[places], second[places])
        return first

    def close(self) -> None:
        """Close the stores."""
        self._reader.close()
