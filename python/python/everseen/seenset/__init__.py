"""What was seen, on one machine or on many: a set divided by hash into stores, changed one epoch at a time.

```python
from everseen.seenset import SeenSet

seen = SeenSet("seen", shards=64, fpr=1e-9)
with seen.epoch("2026-11-22") as day:                    # one epoch is one all-or-nothing step
    for batch in day.unseen(batches, "url"):             # rows never seen, the first of each key
        write(batch)
    day.remember(written_batches, "url")                 # only what was written; then publish
```

The rule that makes it right: nothing is inserted before the output that it decided is safe. `unseen` changes nothing.
`remember` writes new versions of shards beside the old ones, and publishing gives them their place at once, under a
number that only one driver can take. A crash at any step leaves the set as it was last published, and the same epoch is
run again.

`everseen.spark` works on the same set with many machines. docs/spark.md has the picture of an epoch, and how to size a
set.
"""

from everseen.seenset._epoch import Epoch
from everseen.seenset._manifest import Manifest, Settings, Shard
from everseen.seenset._set import SeenSet, VacuumReport

__all__ = ["Epoch", "Manifest", "SeenSet", "Settings", "Shard", "VacuumReport"]
