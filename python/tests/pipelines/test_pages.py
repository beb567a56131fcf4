"""The examples of docs/pipelines.md, and the recipes in Python."""

import asyncio
import pathlib
import random
import sys
import warnings

import pytest

ROOT = pathlib.Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "python/tests/crawls"))

DAYS = ["2026-11-27", "2026-11-28", "2026-11-30"]
PAGES = [["a", "b", "a"], ["b", "c", "c"], ["c", "d", "d"]]


def blocks(page, heading):
    """The Python under a heading."""
    section = (ROOT / "docs" / page).read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    found = [block.split("```")[0] for block in section.split("```python\n")[1:]]
    assert found
    return "".join(found)


def run(page, heading, names):
    exec(compile(blocks(page, heading), page, "exec"), names)


@pytest.fixture
def pages(folder):
    """Days of pages, in Parquet files."""
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    from pyarrow import parquet

    for day, letters in zip(DAYS, PAGES, strict=True):
        (folder / "pages" / day).mkdir(parents=True)
        urls = [f"https://example.org/{letter}" for letter in letters]
        parquet.write_table(pyarrow.table({"url": urls, "n": range(3)}), folder / "pages" / day / "0.parquet")


def fresh(day):
    from pyarrow import parquet

    return [url.rsplit("/")[-1] for url in parquet.read_table(f"fresh/{day}")["url"].to_pylist()]


def test_frames_and_datasets(pages):
    for project in ("polars", "duckdb", "datasets"):
        pytest.importorskip(project, reason=f"{project} is not installed")
    names = {}
    run("pipelines.md", "Parquet files, polars, pandas, DuckDB", names)
    assert fresh(DAYS[0]) == ["a", "b"] and fresh(DAYS[1]) == ["c"]
    run("pipelines.md", "Hugging Face `datasets`", names)
    assert names["fresh"]["url"][:] == ["https://example.org/d"]
    assert names["seen"].epochs == ["2026-11-27", "2026-11-28", "2026-11-29", "2026-11-30"]


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_datatrove(folder, monkeypatch):
    pytest.importorskip("datatrove", reason="datatrove is not installed")
    pytest.importorskip("tokenizers", reason="tokenizers is not installed")
    from datatrove.data import Document
    from datatrove_days import Words

    written = []

    def reader(data, rank=0, world_size=1):
        for text in ("one two three four five six", "six five four three two one", "one two three four five six"):
            yield Document(text=text, id="")

    def writer(data, rank=0, world_size=1):
        for doc in data:
            written.append(doc.text)
            yield doc

    run("pipelines.md", "datatrove", {"reader": reader, "writer": writer, "words": Words()})
    assert [text[:3] for text in written] == ["one", "six"]
    from everseen.seenset import SeenSet

    assert SeenSet("seen-text").keys == 4


def test_crawlee(folder, monkeypatch):
    pytest.importorskip("crawlee", reason="crawlee is not installed")
    import crawl_site
    from crawlee import service_locator

    monkeypatch.setenv("CRAWLEE_STORAGE_DIR", "storage")
    monkeypatch.setenv("CRAWLEE_LOG_LEVEL", "ERROR")
    service_locator.storage_instance_manager.clear_cache()
    site, names = crawl_site.Site(40), {}
    try:
        run("pipelines.md", "Crawlee", names)
        asyncio.run(names["crawl"](f"http://127.0.0.1:{site.port}/0"))
    finally:
        site.close()
    assert site.fetched == dict.fromkeys(range(40), 1)


class Message:
    """As of the Kafka client."""

    def __init__(self, partition, offset, key):
        self._partition, self._offset, self._key = partition, offset, key

    def partition(self):
        return self._partition

    def offset(self):
        return self._offset

    def key(self):
        return self._key

    def error(self):
        return None


class Consumer:
    """A topic in memory, with the interface of the Kafka client's consumer. It ends instead of waiting."""

    def __init__(self, topic, rng):
        self._topic, self._rng, self._at = topic, rng, {}

    def assign(self, partitions):
        from confluent_kafka import OFFSET_BEGINNING

        self._at = {part.partition: 0 if part.offset == OFFSET_BEGINNING else part.offset for part in partitions}

    def consume(self, num_messages=1, timeout=-1):
        batch = []
        while len(batch) < min(num_messages, 20):
            left = [partition for partition, at in self._at.items() if at < len(self._topic[partition])]
            if not left:
                break
            partition = self._rng.choice(left)
            batch.append(Message(partition, self._at[partition], self._topic[partition][self._at[partition]]))
            self._at[partition] += 1
        return batch


class Killed(BaseException):
    """Ends a program here and there."""


def test_kafka(folder, monkeypatch):
    pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
    import everseen

    seed = random.randrange(1 << 32)
    rng = random.Random(seed)
    topic = [[b"%d" % rng.randrange(300) for _ in range(400)] for _ in range(2)]
    sent, kills, names = [], 0, {}
    run("recipes.md", "New messages of a Kafka topic", names)

    def send(messages):
        if rng.random() < 0.2:
            raise Killed
        sent.append([message.key() for message in messages])
        if rng.random() < 0.2:
            raise Killed

    ended = False
    while not ended:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", everseen.errors.UncommittedWarning)
                names["send_new"](Consumer(topic, rng), "topic", [0, 1], send)
            ended = True
        except Killed:
            kills += 1
    keys = {key for partition in topic for key in partition}
    assert {key for batch in sent for key in batch} == keys, f"seed {seed}"
    assert kills, f"seed {seed}"
    # Twice came only what was sent by a batch that was killed before its commit.
    assert sum(map(len, sent)) - len(keys) <= 20 * kills, f"seed {seed}"
    sent.clear()
    names["send_new"](Consumer(topic, rng), "topic", [0, 1], send)
    assert sent == []
