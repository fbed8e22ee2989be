"""The browser tests notice what they are there for."""

from __future__ import annotations

from pathlib import Path

import pytest

from .accessibility import TAB, violations
from .chromium import Chromium
from .server import Served

PAGE = """\
<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>t</title>{head}</head>
<body><main><h1>t</h1>{body}</main></body></html>
"""


@pytest.mark.parametrize(
    ("head", "body", "complaint"),
    [
        ("<script>alert(1)</script>", "", "Blocked script execution"),
        ("<style>p { color: red }</style>", "", "Content Security Policy"),
        ("", '<p style="color: red">x</p>', "Content Security Policy"),
        ("", '<img src="missing.svg" alt="x">', "missing.svg"),
        ("", '<img src="data:image/gif;base64,R0lGODlhAQABAAAAACw=" alt="x">', "Content Security Policy"),
        ("", '<img src="http://elsewhere.invalid/x.png" alt="x">', "Content Security Policy"),
        ('<link rel="stylesheet" href="missing.css">', "", "missing.css"),
        ('<meta http-equiv="refresh" content="0; url=http://elsewhere.invalid/">', "", "sandboxed"),
    ],
)
def test_what_the_policy_forbids_is_noticed(
    chromium: Chromium, tmp_path: Path, head: str, body: str, complaint: str
) -> None:
    (tmp_path / "index.html").write_text(PAGE.format(head=head, body=body))
    with Served(tmp_path) as served, chromium.tab(served.url) as tab:
        tab.goto("index.html")
        tab.page.wait_for_timeout(50)
        assert any(complaint in said for said in tab.complaints), tab.complaints


def test_a_page_without_fault_is_silent(chromium: Chromium, tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(PAGE.format(head="", body="<p>fine</p>"))
    with Served(tmp_path) as served, chromium.tab(served.url) as tab:
        tab.goto("index.html")
        assert tab.complaints == []
    with Served(tmp_path) as served, chromium.tab(served.url, **TAB) as tab:
        tab.goto("index.html")
        assert violations(tab) == []


def test_a_page_that_not_everybody_can_read_is_noticed(chromium: Chromium, tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(PAGE.format(head="", body='<img src="x.svg"><h4></h4>'))
    (tmp_path / "x.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>')
    with Served(tmp_path) as served, chromium.tab(served.url, **TAB) as tab:
        tab.goto("index.html")
        assert any(said.startswith("image-alt") for said in violations(tab))
