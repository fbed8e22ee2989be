"""The tiles of a row on the pages of a run."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_gsw.reports.texts import report_text
from pytest_gsw.results.record import Record
from pytest_gsw.results.sweep import SearchJob, Sweep, write_sweep
from tests.messages import wording
from tests.unit.reports.html.test_write import HOME, text_of, written
from tests.unit.reports.records_of_runs import CURRENT_RUN, PASSED, report_of, row
from tests.unit.results.records import JOB, varied
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
    assert "Nodes by switch or block, per cent against peers" in text
    card = f"n017: slow{MINUS}10.0 % ({MINUS}12.0 % to {MINUS}8.0 %), 3 jobs"
    assert card in whole.replace(NBSP, " ")
    assert "31 of 34 nodes of the partition batch" in text
    assert re.search(rf"Not covered \(3\) *n\[901-902\] : {re.escape(DRAINED)} *n031 : job failed: node failure", text)
    assert "n009 9.41, 30 others 9.021: same seed and shape" in re.sub(" +", " ", text)
    assert wording("drain", nodes="n017") + " reason='gsw " in text
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


def test_tiles_that_passed_are_in_the_map_alone(tmp_path: Path) -> None:
    records = [*tiles(), PASSED]
    index = report(tmp_path, records, sweep_of(records, slow_finding()))
    shown = index.read_text()
    listed = re.findall(rf'href="(?:{HOME}rows/|workloads/.*#row-)([^"]+)"', shown.partition('id="all-1-caption"')[2])
    assert [re.sub(r".*8_|\.html", "", name) for name in listed] == ["n017", "n031", "llama2_70b_bf16_H100x64"]
    assert "and 30 tiles that passed, in the map above" in text_of(index)
    assert "3 rows, the worst first" in text_of(index)


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
    slow, lost = (index.parent / HOME / "rows" / f"llama3_1_8b_bf16_H100x8_{name}.html" for name in ("n017", "n031"))
    assert f"{MINUS}10.0{NBSP}% throughput vs its peers: 32 tiles of {ROW}" in text_of(slow)
    assert f"../../../{HOME}index.html#tiles-1" in links(slow)
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
    assert "Nodes by switch" in text  # those that were not covered


def test_tiles_without_notes_of_their_sweep_are_a_section_still(tmp_path: Path) -> None:
    index = report(tmp_path, [tile("n001"), tile("n002", SLOW_S)], None)
    assert "median" in section(index)
    assert len({link for link in links(index) if link.startswith((f"{HOME}rows/", "workloads/"))}) == 1


def marks_of(index: Path) -> list[list[tuple[str | None, str | None]]]:
    """The nodes of each line of the map: what is shown of them, with their class."""
    text = section(index) and index.read_text().partition('id="tiles-1-map-caption"')[2].partition("</table>")[0]
    lines = text.split("<tr>")[2:]
    return [re.findall(r'<a[^>]* class="(\w+)">([^<]*)</a>', line) for line in lines]


def test_the_map_has_the_nodes_of_each_switch_and_those_of_none(tmp_path: Path) -> None:
    records = [tile("n001"), tile("n002", 4.2), tile("n003", SLOW_S), tile("n004", None)]
    found = sweep_of(records, slow_finding("n003"), sigma=0.01)
    index = report(tmp_path, records, replace(found, switches={"leaf1": "n[001-002]", "leaf2": "n[003,009]"}))
    assert marks_of(index) == [
        [("usual", "\N{MIDDLE DOT}"), ("faster", "+7")],
        [("regressed", f"{MINUS}10")],
        [("other", "\N{WHITE CIRCLE}")] * 3,
    ]
    assert "leaf1 n[001-002]" in re.sub(" +", " ", section(index))
    assert "not known n[004,901-902]" in re.sub(" +", " ", section(index))
    text = text_of(index)
    assert "why " + wording("no probe", why="with 'facts: nvidia'") in re.sub("why", "why ", text)
    card = text.partition("Slower than their peers")[2].partition("4 tiles")[0]
    assert wording("drain", nodes="n003") in card


def test_jobs_of_the_search_are_among_those_of_the_run_and_of_their_nodes(tmp_path: Path) -> None:
    records = [
        varied(one, search=(replace(JOB, id="9321", nodes="n004"),)) if one.row.tile == "n004" else one
        for one in tiles()
    ]
    index = report(tmp_path, records, sweep_of(records, slow_finding()))
    for page in (index.parent / HOME / "jobs.html", index.parent / "nodes" / "n004.html"):
        assert "9321" in text_of(page), page
