"""Filters and schedulers for Scrapy without a crawl, and processes that are killed with them."""

import os
import pathlib
import signal
import subprocess
import sys
from types import SimpleNamespace

import scrapy
import scrapy.core.scheduler
from scrapy.utils.reactor import install_reactor
from scrapy.utils.test import get_crawler

from everseen.scrapy import DupeFilter, Scheduler

# The crawlers of Scrapy 2.13 want one.
install_reactor("twisted.internet.asyncioreactor.AsyncioSelectorReactor")


class Spider(scrapy.Spider):
    name = "tests"

    def parse(self, response):
        pass

    def other(self, response):
        pass


def crawler_of(**settings):
    defaults = {"JOBDIR": "job", "SCHEDULER_PRIORITY_QUEUE": "scrapy.pqueues.ScrapyPriorityQueue"}
    crawler = get_crawler(Spider, {**defaults, **settings})
    crawler.spider = crawler._create_spider("tests") if hasattr(crawler, "_create_spider") else Spider()
    crawler.engine = SimpleNamespace(_slot=SimpleNamespace(inprogress=set()))
    return crawler


def filter_of(**settings):
    made = DupeFilter.from_crawler(crawler_of(**settings))
    made.open()
    return made


def request(n, **arguments):
    return scrapy.Request(f"http://127.0.0.1/{n}", **arguments)


def kill(what):
    """Leaves a filter or a scheduler as a killed process does: without a last commit."""
    if isinstance(what, Scheduler):
        what._pending.journal.close()
        what = what.df
    what.store.close(discard=True)


def scheduler_of(crawler=None, **settings):
    crawler = crawler or crawler_of(**{"EVERSEEN_COMMIT_INTERVAL": 1000, **settings})
    made = Scheduler.from_crawler(crawler)
    made.open(crawler.spider)
    return made


def take(scheduler):
    """Takes the next request, as the engine does."""
    taken = scheduler.next_request()
    if taken is not None:
        scheduler.crawler.engine._slot.inprogress.add(taken)
    return taken


def drain(scheduler):
    return [taken.url.rsplit("/")[-1] for taken in iter(scheduler.next_request, None)]


def their_scheduler(**settings):
    crawler = crawler_of(JOBDIR="theirs", **settings)
    made = scrapy.core.scheduler.Scheduler.from_crawler(crawler)
    made.open(crawler.spider)
    return made


def killed(program):
    """Runs a program, to which all of this module is known, in a process that kills itself with SIGKILL at its end."""
    code = f"import os\nfrom scrapy_jobs import *\n{program}\nos.kill(os.getpid(), 9)"
    environment = os.environ | {"PYTHONPATH": str(pathlib.Path(__file__).parent)}
    assert subprocess.run([sys.executable, "-c", code], env=environment).returncode == -signal.SIGKILL
