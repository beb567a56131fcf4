"""URLs beside another parser that follows the standard: that of Node, if it is there.

60,000 of them: `EVERSEEN_URLS=60000 python -m pytest python/tests/test_url_oracle.py`.
"""

import json
import os
import random
import re
import shutil
import subprocess

import pytest

import everseen

COUNT = int(os.environ.get("EVERSEEN_URLS", "6000"))

HREFS = """
const lines = require("fs").readFileSync(0, "utf8").trimEnd().split("\\n");
const hrefs = lines.map(line => {
    try {
        const url = new URL(JSON.parse(line));
        url.hash = "";
        return url.href;
    } catch {
        return null;
    }
});
process.stdout.write(JSON.stringify(hrefs));
"""

STARTS = ["http://", "HTTPS://", "http:", "\\\\", "file://", "file:", "ftp://", "ws:/", "foo://", "foo:", "mailto:", " \t"]
HOSTS = ["example.org", "EXAMPLE.org.", "www.example.org", "xn--mnchen-3ya.de", "münchen.de", "faß.de", "名.example", "a_b.org",
         "127.0.0.1", "0x7f.1", "2130706433", "256.1", "[::1]", "[0:0::1]", "[::g]", "localhost", "a%62c.org", "a b.org", "x\u00ady.org",
         "a\u3002b.org", "*.org", "a^b", ""]
PORTS = ["", "", "", ":80", ":443", ":8080", ":0080", ":", ":99999", ":x"]
USERS = ["", "", "", "", "user@", "user:p%40ss@", ":@", "a:b:c@", "ü@"]
PIECES = ["/", "/", "/", "\\", "//", "a", "b", ".", "..", "%2e", "%2E%2e", "%7E", "~", "%2f", "é", "%C3%A9", " ", "\t", "C:", "C|",
          "^", "|", '"', "<", ">", "`", "{", "}", "'", "[", "]", "?", "&", "=", "q=1", "#", "top", ";", "@", "+", "%", "%zz", "名",
          "\u00ad", "😀", ":", "$"]

# Schemes that the standard calls special, with tabs in them or not.
SPECIAL = re.compile(r"\s*(https?|wss?|ftp|file):", re.IGNORECASE)
# Node 20 takes each first segment that begins as a drive does for one, and keeps it before `..`.
NO_DRIVE = re.compile("file:///[a-z]:[^/]", re.IGNORECASE)


def some_url(chance):
    pieces = "".join(chance.choices(PIECES, k=chance.randrange(9)))
    if chance.randrange(10) == 0:
        return chance.choice(STARTS) + pieces
    slash = chance.choice(["/", "/", "/", "", "?", "#", "\\"])
    return chance.choice(STARTS) + chance.choice(USERS) + chance.choice(HOSTS) + chance.choice(PORTS) + slash + pieces


@pytest.mark.skipif(shutil.which("node") is None, reason="Node isn't there")
def test_urls_are_written_as_node_writes_them(seed):
    chance = random.Random(seed)
    urls = [some_url(chance) for _ in range(COUNT)]
    lines = "".join(json.dumps(url) + "\n" for url in urls)
    node = subprocess.run(["node", "-e", HREFS], input=lines, capture_output=True, encoding="utf-8", check=True)
    normalize = everseen.Normalizer()
    same, apart = 0, []
    for url, theirs in zip(urls, json.loads(node.stdout), strict=True):
        try:
            ours = normalize(url)
        except ValueError:
            ours = None
        if ours == theirs or NO_DRIVE.match(theirs or ""):
            same += ours is not None
        else:
            apart.append((url, ours, theirs))
    print(f"{same} URLs of {COUNT} alike, {len(apart)} apart")
    assert same > COUNT / 4
    assert [one for one in apart if SPECIAL.match(one[0])] == []
    # Of other schemes, hosts are no names, and few use them.
    assert len(apart) <= COUNT / 100, apart[:9]
