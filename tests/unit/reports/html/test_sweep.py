"""The tiles of a row on the pages of a run."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_gsw.reports.charts import peers_plot
from pytest_gsw.reports.elements import report_text
from pytest_gsw.results.record import Record, SweepFinding
from pytest_gsw.results.sweep import RowSweep, SearchJob, Sweep, write_sweep
from tests.unit.reports.html.test_write import text_of, written
from tests.unit.reports.records_of_runs import CURRENT_RUN, PASSED, drawn, report_of, row
from tests.unit.results.sweeps import (
    DRAINED,
    ROW,
    SLOW_S,
    USUAL_S,
    among_tiles,
    nodes,
    slow_finding,
    sweep_of,
    tile,
    tiles,
)

NBSP, MINUS = "\N{NO-BREAK SPACE}", "\N{MINUS SIGN}"


def report(directory: Path, records: list[Record], sweep: Sweep | None, **facts: Any) -> Path:
    """The first page of a run with tiles."""
    if sweep is not None:
        write_sweep(directory, sweep)
    return written(directory, records, **facts)


def links(page: Path) -> list[str]:
    return re.findall('href="([^"]+)"', page.read_text(encoding="utf-8"))


def section(page: Path, name: str = "tiles-1") -> str:
    """The text of a section's markup."""
    (found,) = re.findall(rf'<section><h2 id="{name}">.*?</section>', page.read_text(encoding="utf-8"), re.DOTALL)
    return re.sub("<[^>]+>", " ", found)


def test_a_sweep_is_one_section_with_what_it_found_and_what_to_type(tmp_path: Path) -> None:
    records = tiles()
    index = report(tmp_path, records, sweep_of(records, slow_finding()))
    text, whole = section(index), text_of(index)
    assert "1 slow node, 1 regressed, 1 error of 32 tiles of 1 row on eos" in whole
    assert f"32 tiles of {ROW}" in text
    assert "Change of throughput of 31 tiles against the median of the others" in text
    told = re.sub("[ \N{NO-BREAK SPACE}]+", " ", text)
    assert f"slow n017 {MINUS}10.0 % ({MINUS}12.0 % to {MINUS}8.0 %), 3 jobs" in told
    assert "31 of 34 nodes of the partition batch" in text
    assert re.search(rf"Not covered \(3\) *n\[901-902\] : {re.escape(DRAINED)} *n031 : job failed: node failure", text)
    assert "n009 9.41, 30 others 9.021: same seed and shape" in re.sub(" +", " ", text)
    assert "scontrol update nodename=n017 state=drain reason='gsw " in text
    assert "sbatch --exclude=n017 ..." in text
    assert "3 jobs in 2 rounds, noise of a job 1.7 %" in re.sub(" +", " ", text)
    # The slow node has the one card of what it did.
    assert {"#slow-tiles", "#tiles-1"} <= {*links(index)}
    assert "Verdicts" not in whole


def test_the_gpu_hours_of_a_run_have_those_of_its_search() -> None:
    records, job = tiles(), SearchJob(1, "n017", "7", gpu_hours=1.5)
    found = sweep_of(records, slow_finding())
    whole = replace(found, rows=tuple(replace(one, jobs=(job, job)) for one in found.rows))
    alone = report_of(*records)
    searched = replace(alone, run=replace(alone.run, sweep=whole))
    assert searched.gpu_hours == alone.gpu_hours + 3.0


def test_tiles_that_passed_are_folded(tmp_path: Path) -> None:
    records = [*tiles(), PASSED]
    index = report(tmp_path, records, sweep_of(records, slow_finding()))
    shown, _, folded = index.read_text().partition("<summary>30 tiles that passed</summary>")
    listed = re.findall(r'href="(?:rows/|workloads/.*#row-)([^"]+)"', shown.partition('id="all-caption"')[2])
    assert [re.sub(r".*8_|\.html", "", name) for name in listed] == ["n017", "n031", "llama2_70b_bf16_H100x64"]
    assert len(re.findall('href="workloads/llama3_1_8b.html#row-', folded)) == 30
    assert "33 rows, 32 of them tiles, the worst first; tiles that passed are below" in text_of(index)


def test_a_slow_node_needs_attention_though_its_tile_passed(tmp_path: Path) -> None:
    records = [tile(name, 4.7 if name == "n017" else USUAL_S) for name in [*nodes(8), "n017"]]
    index = report(tmp_path, records, sweep_of(records, slow_finding()))
    assert "Nothing needs attention" not in text_of(index)
    assert "1 slow node of 9 tiles" in text_of(index)
    assert "All well: 9 tiles of 1 row" in report_text(report_of(*records))


def test_a_tile_has_its_peers_and_no_history(tmp_path: Path) -> None:
    before = [row(ROW, number, definition="0123456789ab") for number in range(CURRENT_RUN)]
    records = tiles()
    sweep = sweep_of(records, slow_finding())
    write_sweep(tmp_path, sweep)
    index = written(tmp_path, among_tiles(records, sweep), before)
    slow, lost = (index.parent / "rows" / f"llama3_1_8b_bf16_H100x8_{name}.html" for name in ("n017", "n031"))
    assert f"{MINUS}10.0{NBSP}% throughput vs its peers: 32 tiles of {ROW}" in text_of(slow)
    assert "../index.html#tiles-1" in links(slow)
    assert "not compared with its peers: 32 tiles" in text_of(lost)
    for page in (slow, lost):
        assert not {"Runs", "since", "first known run"} & {*re.split(r"\n|  +", text_of(page))}
        assert "Step time of" not in text_of(page)


def test_a_session_that_was_killed_has_named_what_it_did_not_cover(tmp_path: Path) -> None:
    records = tiles(4)
    sweep = replace(sweep_of(records), rows=())
    missing = {f"baselines/nemo/llama3.yaml::{ROW}@n005": "the session ended before this row was judged"}
    text = section(report(tmp_path, records, sweep, missing=missing))
    assert f"5 tiles of {ROW}" in text
    assert "4 of 6 nodes of the partition" in text
    assert re.search("Not covered \\(3\\).*n005 : the session ended", text)
    assert "against the median" not in text


def test_tiles_without_notes_of_their_sweep_are_a_section_still(tmp_path: Path) -> None:
    index = report(tmp_path, [tile("n001"), tile("n002", SLOW_S)], None)
    assert "median" in section(index)
    assert len({link for link in links(index) if link.startswith(("rows/", "workloads/"))}) == 2


@pytest.mark.parametrize(
    ("finding", "alt"),
    [
        (slow_finding(), f"slow n017 {MINUS}10.0{NBSP}%"),
        (slow_finding("n[001-004]", kind="between", switch="s1"), f"between n[001-004] {MINUS}10.0{NBSP}%"),
    ],
)
def test_a_histogram_has_each_tile_once_and_names_what_was_found(finding: SweepFinding, alt: str) -> None:
    peers = {"n001": -0.004, "n002": 0.004, "n003": 0.014, "n004": 0.2, "n017": -0.1, "n018": -0.5}
    plot = drawn(peers_plot(RowSweep(ROW, peers, (finding,))))
    assert alt in plot.alt
    assert (
        f"\N{LESS-THAN OR EQUAL TO}{MINUS}15 %: 1, {MINUS}10 %: 1, 0 %: 2, +1 %: 1, \N{GREATER-THAN OR EQUAL TO}+9 %: 1"
        in plot.alt
    )
    told = [one.text or "" for one in plot.svg.iter("title")]
    assert sum(int(re.findall(r"(\d+) tiles?", one)[0]) for one in told) == len(peers)
    names = [one.text for one in plot.svg.iter("text") if "above" in (one.get("class") or "")]
    assert names
    assert {*names} <= {"n017", "n[001-002]", "n003", "n004"}


def test_one_slow_tile_of_thousands_can_be_seen() -> None:
    peers = {f"n{number:04}": 0.0 for number in range(4000)} | {"n017": -0.1}
    plot = drawn(peers_plot(RowSweep(ROW, peers, (slow_finding(),))))
    (bar,) = (one for one in plot.svg.iter("rect") if one.get("class") == "slow")
    assert float(bar.attrib["height"]) >= 3
    assert peers_plot(RowSweep(ROW)) is None
