"""Days of documents in datatrove pipelines, each filtered in one task or several, then remembered."""

import json
import pathlib

from daily import DAYS, around, rows, say
from datatrove.data import Document
from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.base import PipelineStep
from datatrove.pipeline.dedup.bloom_filter import BloomFilterConfig
from datatrove.utils.text import TextNormConfig
from datatrove.utils.word_tokenizers import WordTokenizer

import everseen.datatrove
from everseen.datatrove import Remember, SingleBloomFilter
from everseen.seenset import Epoch

# Each document of a day is one key, as text of one word: so an exact set says which are new.
CONFIG = BloomFilterConfig(m_bytes=1, k=1, n_grams=1, norm_config=TextNormConfig(*[False] * 5))


class Words(WordTokenizer):
    """Words between spaces: without a model of a language."""

    def word_tokenize(self, text):
        return text.split()

    def sent_tokenize(self, text):
        return [text]

    def span_tokenize(self, text):
        return [(0, len(text))]


class Read(PipelineStep):
    type, name = "test", "read"

    def __init__(self, seed, day):
        super().__init__()
        self.seed, self.day = seed, day

    def run(self, data, rank=0, world_size=1):
        for place, key in enumerate(rows(self.seed, self.day)):
            if place % world_size == rank:
                yield Document(text=key, id=str(place))


class Write(PipelineStep):
    """As datatrove's writers do: a file for each task, written from the start at each try, whole once it is closed."""

    type, name = "test", "write"

    def __init__(self, folder):
        super().__init__()
        self.folder = folder

    def run(self, data, rank=0, world_size=1):
        pathlib.Path(self.folder).mkdir(parents=True, exist_ok=True)
        with open(f"{self.folder}/{rank}.jsonl", "w") as file:
            for doc in data:
                file.write(json.dumps(doc.text) + "\n")
                yield doc


def executor(steps, logs):
    return LocalPipelineExecutor(steps, tasks=1, workers=1, logging_dir=logs)


def drive(seed):
    """All days, from wherever the last run came to."""
    around(everseen.datatrove._Run, "save")
    for name in ("_remember", "publish"):
        around(Epoch, name)
    around(LocalPipelineExecutor, "mark_rank_as_completed")
    step, calls = SingleBloomFilter.step, []

    def told(self, doc):
        calls.append(1)
        if len(calls) % 500 == 0:
            say("documents")
        return step(self, doc)

    SingleBloomFilter.step = told
    for day in range(DAYS):
        name = {"seen": "set", "epoch": str(day)}
        filtering = executor(
            [Read(seed, day), SingleBloomFilter(f"new/{day}", CONFIG, language=Words(), shards=3, **name), Write(f"out/{day}")],
            f"logs/{day}",
        )
        filtering.run()
        executor([Remember(f"new/{day}", **name)], f"logs/{day}-remember").run()
