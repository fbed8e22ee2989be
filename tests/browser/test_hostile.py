"""Whatever others have written into records and logs is shown, and does nothing."""

from __future__ import annotations

import time
from dataclasses import fields, replace
from pathlib import Path

from pytest_gsw.results.record import JobFacts, Record, write_record
from tests.unit.results.records import JOB, SLOW, keys_of, varied

from .chromium import Chromium
from .conftest import write_report
from .crawl import crawl
from .night import HOSTILE
from .server import Served

#: One line, as names of nodes and rows are.
_TEXTS = (
    HOSTILE,
    "<!--<svg/onload=alert(4)><style>*{display:none}</style>",
    "]]></script><base href=//elsewhere.invalid/><meta http-equiv=refresh content=0;url=//elsewhere.invalid/>",
    "../../../../outside%2f..%5c\\..",
    "\u202egnp.exe\u202c <b>bold</b> &lt;i&gt; &amp;#60;",
)


def hostile(record: Record, text: str) -> Record:
    """The record with this text wherever a record has text of others."""
    kept = {"outcome", "metric", "run_id", "definition", "log", "reference"}
    optional = {"image", "not_comparable", "accepted_note", "drift", "slow_nodes", "alarms"}
    keys = {key for key, value in keys_of(record).items() if isinstance(value, str)} | optional
    texts = dict.fromkeys(keys - kept, text)
    job = {field.name: text for field in fields(JobFacts) if field.type == "str" and field.name != "state"}
    facts = replace(JOB, **job)
    return varied(
        record,
        **texts,
        job=facts,
        attempts=(facts,),
        repeats=(facts,),
        environment={text: text},
        recorded_s=time.time(),
    )


def test_no_text_of_a_record_does_anything(chromium: Chromium, tmp_path: Path) -> None:
    run = tmp_path / "project" / ".gsw" / "runs" / SLOW.run.id
    log = tmp_path / "log"
    log.write_text("".join(f"RuntimeError: {text}\n" for text in _TEXTS))
    for number, text in enumerate(_TEXTS):
        for outcome in ("regressed", "error"):
            record = hostile(SLOW, f"{outcome} {text}")
            write_record(run, varied(record, outcome=outcome, log=str(log), gpus=8 << number))
    target = tmp_path / "report"
    write_report(run, target)
    with Served(target) as served, chromium.tab(served.url) as tab:
        pages = crawl(tab, served)
        assert tab.complaints == []
    assert len(pages) > len(_TEXTS)
    for page in pages.values():
        assert page.forbidden == page.handlers == [], page.path
        assert all(served.file_of(url.partition("#")[0]) for _, url in page.links), page.path
        assert all(width > 0 for width, _, _ in page.pictures), page.path
    shown = "\n".join(page.text for page in pages.values())
    for text in _TEXTS[:-1]:
        assert f"RuntimeError: {text}" in shown  # of the log
        assert f"regressed {text}" in shown
    assert "\u202e" not in shown  # turns around what follows
    outside = {path for path in tmp_path.rglob("*") if path.is_file()} - set(target.rglob("*"))
    assert outside == {log, *run.rglob("*.json")}
