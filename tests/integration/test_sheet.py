"""``pytest-gsw report --check`` and ``compare``, on the sheets of acceptances."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.integration.conftest import Gsw
from tests.messages import wording
from tests.unit.acceptance.plans import DOCUMENTED, documented, state_of, tiles
from tests.unit.acceptance.runs import TABLE, small_run, write_run
from tests.unit.reports.records_of_runs import RUN_ID

RUN = Path(".gsw", "runs", RUN_ID)


@pytest.fixture(autouse=True)
def _handover(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gsw: Gsw) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GSW_HISTORY", raising=False)
    small_run(tmp_path)
    gsw("report", RUN_ID, "-o", "handover")


def test_the_first_page_is_the_sheet_and_leads_to_the_run() -> None:
    page = Path("handover", "index.html").read_text(encoding="utf-8")
    assert '<h1 class="passed">Acceptance of eos, phase 1: met</h1>' in page
    links = re.findall(r'<a href="([^"]+)"[^>]*>([^<]+)</a>', page)
    assert ("index.html", "Sheet") in links
    assert (f"runs/{RUN_ID}/index.html", "This run") in links
    assert all(Path("handover", address).is_file() for address, _ in links if not address.startswith("#"))
    of_run = Path("handover", "runs", RUN_ID, "index.html").read_text(encoding="utf-8")
    assert '<a href="../../index.html">Sheet</a>' in of_run


def test_a_sheet_that_is_what_its_run_makes(gsw: Gsw) -> None:
    line = f"handover {wording('sheet is right', run=RUN_ID, files='19 files')}\n"
    assert gsw("report", "--check", "handover").out == line
    assert gsw("report", "--check", "handover/sheet.json").out == line


def _replace(path: str, old: str, new: str) -> None:
    (file,) = Path().glob(path)
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")


@pytest.mark.parametrize(
    ("tamper", "named"),
    [
        (lambda: _replace(f"{RUN}/records/*llama3_70b*", "4.6", "4.5"), f"rows: {DOCUMENTED[1]}: figure: 4.6 in"),
        (lambda: _replace(f"{RUN}/records/*llama3_70b*", "passed", "passed "), '"is no record: '),
        (lambda: _replace(f"{RUN}/records/*llama2_70b*", "eos", "eon"), "records: records/baselines_maxtext_llama2_70b"),
        (lambda: _replace(f"{RUN}/stage/log-3.out", "step 1", "step 2"), "logs: stage/log-3.out: "),
        (lambda: (RUN / "stage" / "log-3.out").unlink(), '"No such file or directory" by the run'),
        (lambda: _replace(TABLE, "rows", "# rows"), f"tables: {TABLE}: "),
        (lambda: _replace(f"{RUN}/acceptance.json", "n008", "n007"), "acceptance: exceptions: 2: node: \"n008\" in"),
        (lambda: _replace("handover/sheet.json", '"verdict": "met"', '"verdict": "open"'), 'verdict: "open" in'),
        (lambda: _replace("handover/index.html", "1: met", "1: open"), "handover/index.html is not what the run makes"),
    ],
    ids=["figure", "record", "fact", "log", "no log", "table", "state", "sheet", "page"],
)  # fmt: skip
def test_what_was_changed_is_named(tamper: Callable[[], None], named: str, gsw: Gsw) -> None:
    tamper()
    assert named in gsw("report", "--check", "handover", status=1).out


def test_what_is_no_sheet(gsw: Gsw, tmp_path: Path) -> None:
    assert wording("no sheet", place="tables") in gsw("report", "--check", "tables", status=2).err
    assert wording("one report", reports=2) in gsw("report", "--check", "handover", "handover", status=2).err
    (RUN / "acceptance.json").write_text("{")
    assert wording("no acceptance", directory=RUN) in gsw("report", "--check", "handover", status=2).err
    RUN.rename("elsewhere")
    assert f"there is no run '{RUN_ID}'" in gsw("report", "--check", "handover", status=2).err


def test_two_sheets_beside_each_other(gsw: Gsw, tmp_path: Path) -> None:
    """The directories of the runs are not needed: what a supplier hands over is enough."""
    other = tmp_path / "other"
    (slow,), (_, usual) = documented(5.4, outcome="regressed"), documented(4.5, 4.5)
    write_run(other, replace(state_of("decided", "decided", "waits"), name="eos, phase 2"), [*tiles(), slow, usual])
    gsw("report", other / RUN, "-o", "second")
    RUN.rename("elsewhere")
    lines = gsw("compare", "handover", "second/sheet.json", status=1).out.splitlines()
    assert [re.split(" {2,}", line) for line in lines[:6]] == [
        ["acceptance", "eos, phase 1", "eos, phase 2"],
        [*lines[1].split()],
        ["verdict", "met", "not met"],
        ["covered", "75.0 %, wanted 75 %: met", "75.0 %, wanted 75 %: met"],
        ["within", "2.2 %, wanted 5 %: met", "16.7 %, wanted 5 %: not met"],
        ["nodes covered", "6 of 8", "6 of 8"],
    ]
    assert re.search(rf"^{re.escape(DOCUMENTED[0])} +4.5 s +5.4 s +-16.7 % .* slower$", "\n".join(lines), re.MULTILINE)
    assert lines[-1] == "3 rows: 1 slower, 2 within noise"
    facts = json.loads(gsw("compare", "handover", "second", "--json", status=1).out)
    assert facts["acceptance"]["before"]["nodes covered"] == "6 of 8"
    assert [one["change"] for one in facts["rows"]] == ["slower", "same", "same"]
