"""The scheduler for Scrapy, without a crawl; crawls that are killed are in test_scrapy_killed.py."""

import json
import logging
import os
import pathlib
import random
from types import SimpleNamespace

import pytest

scrapy = pytest.importorskip("scrapy")

from scrapy.core.engine import ExecutionEngine

from everseen import _journal
from everseen.scrapy import JournalError, OtherJobError, Scheduler
from scrapy_jobs import crawler_of, drain, filter_of, kill, killed, request, scheduler_of, take, their_scheduler

SEED = int.from_bytes(os.urandom(4), "big")


def test_a_scheduler_resumes_what_was_closed():
    first = scheduler_of()
    assert all(first.enqueue_request(request(n)) for n in range(3))
    assert not first.enqueue_request(request(1))
    assert first.has_pending_requests()
    first.close("shutdown")
    second = scheduler_of()
    assert len(second) == 3
    assert not second.enqueue_request(request(2))
    assert drain(second) == ["2", "1", "0"]
    second.close("finished")
    third = scheduler_of()
    assert not third.has_pending_requests()
    third.close("finished")


def test_a_request_comes_back_as_it_was():
    first = scheduler_of()
    made = request(
        1, method="POST", body=b"b", headers={"A": "b"}, meta={"m": [1]}, priority=3, callback=first.spider.other
    )
    first.enqueue_request(made)
    first.enqueue_request(scrapy.FormRequest("http://127.0.0.1/form", formdata={"a": "b"}))
    first.close("shutdown")
    second = scheduler_of()
    again = second.next_request()
    assert again.to_dict(spider=second.spider) == made.to_dict(spider=first.spider)
    assert again.callback == second.spider.other
    assert type(second.next_request()) is scrapy.FormRequest
    second.close("finished")


def test_what_is_in_flight_is_queued_again():
    first = scheduler_of()
    for n in range(4):
        first.enqueue_request(request(n))
    done, flying = take(first), take(first)
    first.crawler.engine._slot.inprogress.remove(done)
    first._commit()
    # This end comes too late to count.
    first.crawler.engine._slot.inprogress.remove(flying)
    first.enqueue_request(request(9))
    kill(first)
    second = scheduler_of()
    assert sorted(drain(second)) == ["0", "1", "2"]
    assert second.stats.get_value("everseen/requeued") == 3
    # It was not seen after all.
    assert second.enqueue_request(request(9))
    second.close("finished")


def test_a_process_that_is_killed_goes_back_to_its_commit(caplog):
    """With SIGKILL: the store finds what the process had claimed, and gives it up."""
    killed("""
made = scheduler_of()
for n in range(4):
    made.enqueue_request(request(n))
done, flying = take(made), take(made)
made.crawler.engine._slot.inprogress.remove(done)
made._commit()
made.crawler.engine._slot.inprogress.remove(flying)
for n in (9, 10, 9):
    made.enqueue_request(request(n))
""")
    with caplog.at_level(logging.WARNING):
        second = scheduler_of()
    assert second.stats.get_value("everseen/rolled_back") == 2
    assert second.stats.get_value("everseen/requeued") == 3
    assert "3 requests are scheduled" in caplog.text and "2 pages that were seen after it" in caplog.text
    assert sorted(drain(second)) == ["0", "1", "2"]
    assert [second.enqueue_request(request(n)) for n in (3, 9, 10)] == [False, True, True]
    second.close("finished")


def test_a_killed_run_is_told(caplog):
    first = scheduler_of()
    first.enqueue_request(request(1))
    first._commit()
    kill(first)
    with caplog.at_level(logging.INFO):
        second = scheduler_of()
    assert "The last run was killed" in caplog.text
    second.close("shutdown")
    caplog.clear()
    with caplog.at_level(logging.INFO):
        scheduler_of().close("finished")
    assert "killed" not in caplog.text
    assert "1 requests scheduled" in caplog.text


@pytest.mark.parametrize("small", [_journal._SMALL, 0])
def test_kills_against_a_model(monkeypatch, small):
    monkeypatch.setattr(_journal, "_SMALL", small)
    rng = random.Random(SEED)
    scheduler = scheduler_of()
    seen, to_do = set(), {}
    committed = (set(seen), dict(to_do))
    flying = {}
    for _ in range(1500):
        step = rng.random()
        if step < 0.5:
            n = rng.randrange(300)
            assert scheduler.enqueue_request(request(n)) == (n not in seen), f"seed {SEED}"
            if n not in seen:
                seen.add(n)
                to_do[n] = True
        elif step < 0.75:
            taken = take(scheduler)
            assert (taken is None) == (len(to_do) == len(flying)), f"seed {SEED}"
            if taken is not None:
                flying[int(taken.url.rsplit("/")[-1])] = taken
        elif step < 0.9 and flying:
            n = rng.choice(list(flying))
            scheduler.crawler.engine._slot.inprogress.remove(flying.pop(n))
            del to_do[n]
        elif step < 0.97:
            scheduler._commit()
            assert len(_journal.Journal.numbers(pathlib.Path("job"))) == 1
            committed = (set(seen), dict(to_do))
        else:
            kill(scheduler)
            scheduler = scheduler_of()
            seen, to_do, flying = set(committed[0]), dict(committed[1]), {}
            assert len(scheduler) == len(to_do), f"seed {SEED}"
    scheduler.close("shutdown")


def test_a_rewrite_that_no_commit_followed_is_undone(monkeypatch):
    monkeypatch.setattr(_journal, "_SMALL", 0)
    first = scheduler_of()
    for n in range(10):
        first.enqueue_request(request(n))
    first._commit()
    number = first._pending.journal.number
    before = first._pending.rewrite()
    before.close()
    kill(first)
    assert _journal.Journal.numbers(pathlib.Path("job")) == [number, number + 1]
    second = scheduler_of()
    assert _journal.Journal.numbers(pathlib.Path("job")) == [number]
    assert len(drain(second)) == 10
    second.close("finished")


@pytest.mark.parametrize("small", [_journal._SMALL, 0])
def test_a_commit_names_only_what_is_on_disk(monkeypatch, small):
    """A power cut leaves of the journal what was synchronized: no commit may say more."""
    monkeypatch.setattr(_journal, "_SMALL", small)
    rng = random.Random(SEED)
    scheduler = scheduler_of()
    synced, sync, commit = {}, _journal.Journal.sync, scheduler.df.commit

    def syncing(journal):
        sync(journal)
        synced[journal.number] = os.path.getsize(f"job/requests.journal-{journal.number}")

    def committing(state, **options):
        assert synced.get(state.journal, 0) >= state.length, f"seed {SEED}"
        # The journal of the last commit is there until this one is made.
        last = json.loads(scheduler.df.store.last_commit().tag)
        assert os.path.getsize(f"job/requests.journal-{last['journal']}") >= last["length"], f"seed {SEED}"
        commit(state, **options)

    monkeypatch.setattr(_journal.Journal, "sync", syncing)
    monkeypatch.setattr(scheduler.df, "commit", committing)
    for n in range(200):
        scheduler.enqueue_request(request(n))
        if rng.random() < 0.6 and (taken := take(scheduler)) and rng.random() < 0.8:
            scheduler.crawler.engine._slot.inprogress.remove(taken)
        if rng.random() < 0.2:
            scheduler._commit()
    # Once all are done, the journal is nearly all waste.
    while taken := take(scheduler):
        scheduler.crawler.engine._slot.inprogress.remove(taken)
    scheduler._commit()
    scheduler.close("shutdown")
    assert len(synced) > 1 or small > 0


def test_a_commit_that_fails_loses_nothing(monkeypatch):
    """Also where the journal has been rewritten for it, and the process is killed then."""
    monkeypatch.setattr(_journal, "_SMALL", 0)
    first = scheduler_of()
    for n in range(10):
        first.enqueue_request(request(n))
    first._commit()
    for _ in range(8):
        first.next_request()

    def failing(state, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(first.df, "commit", failing)
    with pytest.raises(OSError, match="space"):
        first._commit()
    kill(first)
    second = scheduler_of()
    assert len(drain(second)) == 10
    second.close("finished")


@pytest.mark.parametrize("what", ["add", "sync"])
def test_after_a_write_that_failed_nothing_is_committed(monkeypatch, what, caplog):
    """A link that is claimed and not queued would be seen for good, and its page's parent is done."""
    first = scheduler_of()
    first.enqueue_request(request(0))
    first._commit()
    parent = take(first)

    def failing(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(_journal.Journal, what, failing)
        with pytest.raises(OSError, match="space"):
            if what == "sync":
                first.enqueue_request(request(1))
                first.df._due = 0
            first.enqueue_request(request(2))
    assert "goes on from the last commit" in caplog.text
    # The disk has room again, and the engine takes the parent for done.
    first.crawler.engine._slot.inprogress.remove(parent)
    first.df._due = 0
    assert first.enqueue_request(request(3))
    first.close("finished")
    second = scheduler_of()
    assert drain(second) == ["0"]
    assert [second.enqueue_request(request(n)) for n in (1, 2, 3)] == [True] * 3
    second.close("finished")


@pytest.mark.parametrize("disk", ["PickleLifoDiskQueue", "PickleFifoDiskQueue", "MarshalFifoSQLiteQueue"])
@pytest.mark.parametrize("start", ["scrapy.squeues.PickleFifoDiskQueue", None])
def test_the_order_is_scrapys(disk, start):
    """Also after a run that was closed in between."""
    if not hasattr(scrapy.squeues, disk):
        pytest.skip("this Scrapy has no such queue")
    rng = random.Random(SEED)
    settings = {"SCHEDULER_DISK_QUEUE": f"scrapy.squeues.{disk}", "SCHEDULER_START_DISK_QUEUE": start}
    ours = scheduler_of(**settings)
    theirs = their_scheduler(**settings)
    # SQLite commits each request.
    steps = 120 if "SQLite" in disk else 600
    for step in range(steps):
        if rng.random() < 0.55:
            meta = {"is_start_request": True} if rng.random() < 0.3 else {}
            made = request(step, priority=rng.randrange(3), meta=meta)
            assert ours.enqueue_request(made) and theirs.enqueue_request(made)
        else:
            pair = ours.next_request(), theirs.next_request()
            assert pair[0] is pair[1] is None or pair[0].url == pair[1].url, f"seed {SEED}"
        if step == steps // 2:
            ours.close("shutdown")
            theirs.close("shutdown")
            ours, theirs = scheduler_of(**settings), their_scheduler(**settings)
    assert drain(ours) == drain(theirs), f"seed {SEED}"
    ours.close("finished")
    theirs.close("finished")


def test_requests_that_can_not_be_serialized():
    made = scheduler_of()
    assert made.enqueue_request(request(1, callback=lambda response: None))
    assert made.stats.get_value("scheduler/unserializable") == 1
    assert len(made) == 1
    made.close("shutdown")
    strict = scheduler_of(EVERSEEN_UNSERIALIZABLE="error")
    with pytest.raises(ValueError, match="not an instance method"):
        strict.enqueue_request(request(2, callback=lambda response: None))
    # It does not count as seen.
    assert strict.enqueue_request(request(2))
    strict.close("finished")


class TwoArguments(Exception):
    """Python writes one of its arguments, and so can't read it again."""

    def __init__(self, one, two):
        super().__init__(f"{one} {two}")


def test_requests_that_can_be_serialized_and_not_read_again():
    made = scheduler_of()
    for n in range(3):
        made.enqueue_request(request(n, meta={"why": TwoArguments(1, 2)} if n == 1 else {"why": [{"plain": (1, b"2")}]}))
    assert made.stats.get_value("scheduler/unserializable") == 1
    assert sorted(drain(made)) == ["0", "1", "2"]
    made.close("finished")
    strict = scheduler_of(EVERSEEN_UNSERIALIZABLE="error")
    with pytest.raises(ValueError, match="can't be read again"):
        strict.enqueue_request(request(4, meta={"why": TwoArguments(1, 2)}))
    strict.close("finished")


def test_a_crawl_with_a_request_that_can_not_be_made_again_loses_none(monkeypatch):
    """As after a callback has got another name: the crawl doesn't begin, and its queue stays as it is."""
    first = scheduler_of()
    for n in range(3):
        first.enqueue_request(request(n, callback=first.spider.other if n == 1 else None))
    first.close("shutdown")
    crawler = crawler_of()
    failing = Scheduler.from_crawler(crawler)
    with monkeypatch.context() as patch:
        patch.delattr(type(crawler.spider), "other")
        with pytest.raises(ValueError, match="other"):
            failing.open(crawler.spider)
        # As the engine does then.
        failing.close("shutdown")
    second = scheduler_of()
    assert sorted(drain(second)) == ["0", "1", "2"]
    second.close("finished")


def test_schedulers_that_can_not_be():
    with pytest.raises(ValueError, match="DUPEFILTER_CLASS"):
        scheduler_of(DUPEFILTER_CLASS="scrapy.statscollectors.DummyStatsCollector")
    made = scheduler_of(DUPEFILTER_CLASS="everseen.scrapy.DupeFilter")
    made.close("finished")


def test_an_engine_that_does_not_say_what_it_works_on_has_nothing_done():
    crawler = crawler_of(EVERSEEN_COMMIT_INTERVAL=0)
    crawler.engine = SimpleNamespace(_slot=SimpleNamespace(inprogress=None))
    made = scheduler_of(crawler)
    made.enqueue_request(request(1))
    assert made.next_request().url == request(1).url
    made.close("shutdown")
    again = scheduler_of()
    assert len(again) == 1
    again.close("finished")


def test_an_engine_without_a_slot_is_refused():
    crawler = crawler_of()
    crawler.engine = ExecutionEngine.__new__(ExecutionEngine)
    with pytest.raises(RuntimeError, match="in flight"):
        scheduler_of(crawler)
    assert not os.path.exists("job/requests.ever")


def test_without_a_folder_the_queue_is_in_memory(caplog):
    made = scheduler_of(JOBDIR=None)
    assert "can't be resumed" in caplog.text
    assert made.enqueue_request(request(1))
    assert not made.enqueue_request(request(1))
    assert made.next_request().url == request(1).url
    assert not made.has_pending_requests()
    made.close("finished")
    assert os.listdir() == []


def test_a_queue_without_a_filter_resumes():
    none = "scrapy.dupefilters.BaseDupeFilter"
    made = scheduler_of(DUPEFILTER_CLASS=none)
    assert made.enqueue_request(request(1))
    assert made.enqueue_request(request(1))
    made.close("shutdown")
    again = scheduler_of(DUPEFILTER_CLASS=none)
    assert len(again) == 2
    again.close("finished")


def test_jobs_of_other_schedulers_are_left_alone():
    theirs = their_scheduler()
    theirs.enqueue_request(request(1))
    theirs.close("shutdown")
    with pytest.raises(OtherJobError, match="Scrapy's scheduler"):
        scheduler_of(JOBDIR="theirs")
    assert not os.path.exists("theirs/requests.ever")
    filter_of(JOBDIR="alone").close("shutdown")
    with pytest.raises(OtherJobError, match="Scrapy's scheduler"):
        scheduler_of(JOBDIR="alone")
    scheduler_of(JOBDIR="ours").close("shutdown")
    with pytest.raises(OtherJobError, match="everseen.scrapy.Scheduler"):
        filter_of(JOBDIR="ours")


def test_halves_of_a_job_are_refused():
    made = scheduler_of()
    made.enqueue_request(request(1))
    made.close("shutdown")
    os.rename("job/requests.ever", "job/away")
    left = os.listdir("job")
    with pytest.raises(JournalError, match="is gone"):
        scheduler_of()
    # No new store stands in the way of the one that is put back.
    assert os.listdir("job") == left
    os.rename("job/away", "job/requests.ever")
    os.rename("job/requests.journal-1", "job/away")
    with pytest.raises(JournalError, match="missing"):
        scheduler_of()
    os.rename("job/away", "job/requests.journal-1")
    with pytest.raises(JournalError, match="another EVERSEEN_WRITER"):
        scheduler_of(EVERSEEN_WRITER="other")
    made = scheduler_of()
    assert drain(made) == ["1"]
    made.close("finished")


def test_the_tag_says_what_counts():
    made = scheduler_of()
    made.enqueue_request(request(1))
    made._commit()
    tag = json.loads(made.df.store.last_commit().tag)
    assert tag == {
        "everseen.scrapy": 1,
        "clean": False,
        "journal": 1,
        "length": os.path.getsize("job/requests.journal-1"),
    }
    made.close("finished")
