"""Rows of a Spark data frame that were never seen before, against a set of any size.

```python
from everseen.spark import SeenSet

seen = SeenSet("/shared/seen", shards=64, fpr=1e-9)
with seen.epoch("2026-11-22", output="fresh/2026-11-22") as day:
    day.write(day.unseen(df, "url"))        # rows never seen, one per key; Spark's own commit decides
    day.remember(key="url")                 # only what was committed; then publish
```

If anything fails, or is killed, the same program is run again. The set is that of `everseen.seenset`, which works on it
without Spark. Needs PySpark 4 or later with pyarrow (`pip install 'everseen[spark]'`), here and on all workers. All of
them must see the set's root under one path. docs/spark.md has the rest.
"""

from everseen.spark._epoch import Epoch
from everseen.spark._set import SeenSet

__all__ = ["Epoch", "SeenSet"]
