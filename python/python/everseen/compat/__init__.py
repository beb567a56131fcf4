"""Stand-ins for other packages: change an import, and their filters are stores.

| instead of | import |
|---|---|
| `from pybloom_live import BloomFilter, ScalableBloomFilter` | `from everseen.compat.pybloom import BloomFilter, ScalableBloomFilter` |
| `from pybloomfilter import BloomFilter` | `from everseen.compat.pybloomfilter import BloomFilter` |
| `from rbloom import Bloom` | `from everseen.compat.rbloom import Bloom` |

What differs from them, everywhere:

- A filter without a file of its own lies in a temporary folder, which goes with it.
- A filter of fixed capacity that is full refuses further keys, where theirs are wrong more and more often.
- A `str` and the `bytes` of its UTF-8 are one key.
- Files are Everseen's. Theirs can't be read.
- What can't be had raises `NotImplementedError` and says why.
"""
