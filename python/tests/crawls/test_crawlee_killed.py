"""Crawls with Crawlee that are killed with SIGKILL and resumed: no page is lost."""

import os

import pytest

pytest.importorskip("crawlee", reason="crawlee is not installed")

import crawl_site
import crawlee_site

PAGES = int(os.environ.get("EVERSEEN_PAGES", "200"))
KILLS = int(os.environ.get("EVERSEEN_CRAWL_KILLS", "3"))


@pytest.fixture
def site():
    made = crawl_site.Site(PAGES)
    yield made
    made.close()


def test_no_page_is_lost(site, folder, capsys):
    def say(text):
        with capsys.disabled():
            print(f"\nCrawlee: {text}")

    crawl_site.lose_no_page(site, {"commit_interval": 0.2}, KILLS, say, crawlee_site.run)
