"""Crawls with Crawlee that are killed with SIGKILL and resumed: no page is lost."""

import os
import random

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
    seed = int.from_bytes(os.urandom(4), "big")
    options = {"commit_interval": 0.2}
    kills = crawl_site.killed_and_resumed(site, options, KILLS, random.Random(seed), crawlee_site.run)
    found = crawl_site.processed()
    again = site.fetched.total() - PAGES
    with capsys.disabled():
        print(f"\nCrawlee: {PAGES} pages, {kills} of {KILLS} kills landed, {again} fetched again, seed {seed}")
    assert kills > 0, f"seed {seed}"
    assert set(found) == set(range(PAGES)), f"seed {seed}, {kills} kills, {again} fetched again"
    # The crawl is done: nothing is fetched once more.
    before = site.fetched.total()
    assert crawlee_site.run(site.port, options).wait() == 0
    assert site.fetched.total() == before
