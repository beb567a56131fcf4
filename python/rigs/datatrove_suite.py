"""datatrove's own test of its Bloom filter, unmodified, with `everseen.datatrove.SingleBloomFilter` for it.

    git clone --depth 1 https://github.com/huggingface/datatrove
    pip install 'datatrove[processing]' spacy
    python python/rigs/datatrove_suite.py datatrove
"""

from __future__ import annotations

import importlib.metadata
import json
import pathlib
import shutil
import sys
import tempfile

from peer_suites import report, run_child, run_pytest

PLUGIN = """\
from datatrove.pipeline.dedup import bloom_filter

import everseen.datatrove

bloom_filter.SingleBloomFilter = everseen.datatrove.SingleBloomFilter
"""


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="everseen-datatrove-") as name:
        folder = pathlib.Path(name)
        (folder / "tests").mkdir()
        for file in ("tests/__init__.py", "tests/utils.py"):
            shutil.copy(pathlib.Path(sys.argv[1], file), folder / file)
        shutil.copy(pathlib.Path(sys.argv[1], "tests/pipeline/dedup/test_bloom_filter.py"), folder / "tests")
        (folder / "stand_in.py").write_text(PLUGIN)
        outcomes = run_child(__file__, "bloom filter", folder)
    return 1 if report(f"datatrove {importlib.metadata.version('datatrove')}", outcomes, {}) else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        sys.path.insert(0, ".")
        print("\n" + json.dumps(run_pytest(["-p", "stand_in", "tests/test_bloom_filter.py"])))
    else:
        sys.exit(main())
