"""Crawls that are killed with SIGKILL and resumed: no page is lost."""

import os

import pytest

pytest.importorskip("scrapy")

import crawl_site

PAGES = int(os.environ.get("EVERSEEN_PAGES", "300"))
KILLS = int(os.environ.get("EVERSEEN_CRAWL_KILLS", "5"))


@pytest.fixture
def site():
    made = crawl_site.Site(PAGES)
    yield made
    made.close()


@pytest.mark.parametrize("reactor", ["asyncio", "select"])
def test_no_page_is_lost(site, reactor, capsys):
    settings = {
        **crawl_site.OURS,
        # With few pages, most of a run would be between two commits.
        "EVERSEEN_COMMIT_INTERVAL": 0.02,
        "TWISTED_REACTOR": {
            "asyncio": "twisted.internet.asyncioreactor.AsyncioSelectorReactor",
            "select": "twisted.internet.selectreactor.SelectReactor",
        }[reactor],
    }

    def say(text):
        with capsys.disabled():
            print(f"\n{reactor}: {text}")

    crawl_site.lose_no_page(site, settings, KILLS, say)


def test_a_signal_ends_a_crawl_that_resumes(site):
    """SIGTERM, which Scrapy handles: every page is fetched once."""
    reached = site.after(PAGES // 2)
    settings = {**crawl_site.OURS, "EVERSEEN_COMMIT_INTERVAL": 1000}
    crawler = crawl_site.run(site.port, settings)
    assert reached.wait(60)
    crawler.terminate()
    assert crawler.wait() == 0
    assert crawl_site.run(site.port, settings).wait() == 0
    assert site.fetched == dict.fromkeys(range(PAGES), 1)
    assert crawl_site.processed() == dict.fromkeys(range(PAGES), 1)


def test_the_filter_alone(site):
    settings = {"DUPEFILTER_CLASS": "everseen.scrapy.DupeFilter"}
    reached = site.after(PAGES // 2)
    crawler = crawl_site.run(site.port, settings)
    assert reached.wait(60)
    crawler.terminate()
    assert crawler.wait() == 0
    assert crawl_site.run(site.port, settings).wait() == 0
    assert crawl_site.processed() == dict.fromkeys(range(PAGES), 1)
    # Killed, it fetches nothing more without being asked to.
    crawler = crawl_site.run(site.port, {**settings, "JOBDIR": "other"})
    reached = site.after(PAGES // 4)
    assert reached.wait(60)
    crawler.kill()
    crawler.wait()
    before = site.fetched.total()
    assert crawl_site.run(site.port, {**settings, "JOBDIR": "other"}).wait() != 0
    assert site.fetched.total() == before
