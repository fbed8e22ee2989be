"""What pages say, and the commands they name, to the letter."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_gsw.history.model import Point, RowOutcome
from pytest_gsw.history.since import Since
from pytest_gsw.reports.html import element, html_text
from pytest_gsw.reports.reported_row import ReportedRow
from pytest_gsw.reports.row_page import LogEnd, all_commands, log_ends
from pytest_gsw.reports.texts import (
    card_text,
    fact_text,
    limit_text,
    minute,
    percent,
    report_text,
    since_facts,
    since_text,
)
from pytest_gsw.results import suggested_commands
from pytest_gsw.results.record import Record
from pytest_gsw.results.run_progress import RunProgress
from pytest_gsw.stats.verdict import Reason
from tests.unit.history.runs import FIRST_S
from tests.unit.reports.ci.nights import run_of
from tests.unit.reports.records_of_runs import BROKEN, FAST, PASSED, RUN_ID, SLOW, report_of
from tests.unit.results.records import varied
from tests.unit.results.test_incident import run_records as slow_for_all

RUN = Path(".gsw/runs/20261216-210000-7f3a")
NODE = "baselines/maxtext/llama2_70b.yaml::llama2_70b_fp8"


def next_command(row: ReportedRow, directory: Path) -> str:
    return suggested_commands.next_command(row.record, row.needs, directory)


def shown(record: Record, since: Since | None = None) -> ReportedRow:
    return ReportedRow(record, "page", since=since)


@pytest.mark.parametrize(
    ("records", "said"),
    [
        ((), "No row"),
        ((PASSED,), "All well: 1 row"),
        ((PASSED, FAST), "All well: 2 rows"),
        ((PASSED, SLOW, BROKEN), "1 regressed, 1 error of 3 rows"),
    ],
)
def test_a_run_in_a_few_words(records: tuple[Record, ...], said: str) -> None:
    assert report_text(report_of(*records)) == said


def test_a_run_that_goes_on_has_rows_before_their_verdicts() -> None:
    report = report_of()
    assert report_text(replace(report, run=replace(report.run, progress=RunProgress()))) == "No row judged yet"


def test_an_incident_comes_first() -> None:
    assert report_text(run_of(slow_for_all([0.06] * 10, Reason.INCIDENT))) == "1 incident, 10 inconclusive of 10 rows"


def test_since_when() -> None:
    current_run = Since(FIRST_S, 1)
    assert since_text(current_run) == "the first known run"
    assert since_text(replace(current_run, runs=3)) == f"{minute(FIRST_S)} or before, 3 runs"
    good = Point("r", "1", FIRST_S - 86400, 4.5561, "passed")
    assert since_text(replace(current_run, good=good), 4.5) == (
        f"this run; before that throughput \N{MINUS SIGN}1.2\N{NO-BREAK SPACE}% at {minute(FIRST_S - 86400)}"
    )
    several = replace(current_run, good=good, runs=3)
    assert since_text(several, 4.6) == (
        f"{minute(FIRST_S)}, 3 runs; before that throughput +1.0\N{NO-BREAK SPACE}% at {minute(FIRST_S - 86400)}"
    )
    assert (
        since_text(replace(several, good=RowOutcome("r", FIRST_S - 86400, "passed")), 4.6)
        == f"{minute(FIRST_S)}, 3 runs; before that measured at {minute(FIRST_S - 86400)}"
    )
    changed = replace(several, changes={"nccl": ("2.21.5", "2.23.4")}, changed_then=True)
    assert since_facts(shown(SLOW, changed))[1] == ("changed then", "nccl 2.21.5 -> 2.23.4")
    assert since_facts(shown(SLOW)) == [("since", "the first known run")]
    assert since_facts(shown(PASSED)) == []


def test_what_was_allowed_and_why() -> None:
    assert limit_text(shown(SLOW)) == "a loss of 5 % of throughput; slower than allowed"
    noisy = varied(SLOW, limit=0.089, sigma=0.03, sigma_jobs=30, reason="")
    assert limit_text(shown(noisy)) == (
        "a loss of 5 % of throughput; a regression beyond 8.9 %, because its jobs differ by 3 % (standard deviation of 30)"
    )
    assert limit_text(shown(BROKEN)) == ""


def test_what_happened() -> None:
    assert fact_text(shown(SLOW)) == SLOW.fact
    beside = "throughput is 10.8 % below the documented; the other 51 rows are at -0.1 % in this run"
    assert fact_text(shown(varied(SLOW, fact=beside))) == beside.replace("-0.1", "\N{MINUS SIGN}0.1")
    noisy = varied(SLOW, outcome="inconclusive", sigma=0.08, sigma_jobs=30, reason="within noise")
    assert fact_text(shown(noisy)) == (
        f"{SLOW.fact}; jobs of this row differ by as much: 72 jobs would distinguish a loss of 5 % from noise (--gsw-repeat)"
    )
    assert card_text(shown(noisy)) == f"{SLOW.fact}; jobs of this row differ by as much"
    drifts = replace(PASSED, drift="throughput of the newest runs is -3.1 % against the first ones")
    assert fact_text(shown(drifts)) == "throughput of the newest runs is \N{MINUS SIGN}3.1 % against the first ones"


def test_numbers_and_times() -> None:
    assert percent(-0.1083) == "\N{MINUS SIGN}10.8\N{NO-BREAK SPACE}%"
    assert percent(0.0) == "+0.0\N{NO-BREAK SPACE}%"
    assert (minute(None), minute(1e300), minute(float("nan"))) == ("", "", "")


# -- commands --------------------------------------------------------------------------------------


def test_what_to_type_next() -> None:
    assert next_command(shown(SLOW), RUN) == f"pytest --gsw-cluster=eos --gsw-confirm=4 '{NODE}[H100x128]'"
    confirmed = varied(SLOW, repeats=(SLOW.jobs.last,))
    assert next_command(shown(confirmed), RUN) == "pytest-gsw history 'llama2_70b_fp8[H100x128]' --cluster=eos"
    assert next_command(shown(BROKEN), RUN) == f"pytest --gsw-cluster=eos '{NODE}[H100x64]'"
    assert next_command(shown(FAST), RUN) == (f"pytest-gsw baseline propose {RUN} '--row=llama2_70b_fp8[H100x256]'")
    drifts = replace(PASSED, drift="creeps")
    assert next_command(shown(drifts), RUN) == "pytest-gsw history --drift 'llama2_70b_bf16[H100x64]' --cluster=eos"
    noisy = varied(SLOW, outcome="inconclusive", sigma=0.08, sigma_jobs=30, reason="within noise")
    # Seventy-two jobs would tell; what is known already comes first.
    assert next_command(shown(noisy), RUN) == "pytest-gsw history 'llama2_70b_fp8[H100x128]' --cluster=eos"
    restless = varied(noisy, tolerance=0.2)
    assert next_command(shown(restless), RUN) == f"pytest --gsw-cluster=eos --gsw-repeat=4 '{NODE}[H100x128]'"
    for reason in ("canary", "ranks differ", "last step alone", "steady steps slower"):
        odd = varied(noisy, reason=reason)
        assert next_command(shown(odd), RUN) == f"pytest --gsw-cluster=eos '{NODE}[H100x128]'"
    wonder = varied(noisy, reason="too good to be true", log="/stage/a.log")
    assert next_command(shown(wonder), RUN) == "pytest-gsw metrics /stage/a.log '--row=llama2_70b_fp8[H100x128]'"


def test_what_was_replayed_without_a_cluster_is_replayed_again() -> None:
    assert next_command(shown(varied(SLOW, cluster="replay")), RUN) == (f"pytest --gsw-replay={RUN} '{NODE}[H100x128]'")
    hostile = varied(SLOW, node_id="t.yaml::x'; rm -rf ~ #")
    assert next_command(shown(hostile), RUN) == (
        """pytest --gsw-cluster=eos --gsw-confirm=4 't.yaml::x'"'"'; rm -rf ~ #'"""
    )


def test_all_that_can_be_typed() -> None:
    since = Since(FIRST_S, 3, RowOutcome("good", FIRST_S - 86400, "passed"))
    assert all_commands(shown(varied(SLOW, log="log.out"), since), RUN) == [
        ("see whether it stays", f"pytest --gsw-cluster=eos --gsw-confirm=4 '{NODE}[H100x128]'"),
        ("run it again", f"pytest --gsw-cluster=eos '{NODE}[H100x128]'"),
        ("judge its log again", f"pytest --gsw-cluster=eos --gsw-replay={RUN} '{NODE}[H100x128]'"),
        ("compare with the last good run", f"pytest-gsw compare good {RUN_ID}"),
    ]


# -- elements and logs -----------------------------------------------------------------------------


def test_texts_stand_between_elements_as_given() -> None:
    made = element("p", "a", element("b", "c"), "d", None, "e", element("br"), class_="x", aria_label=None, tabindex=0)
    assert html_text(made) == '<!DOCTYPE html>\n<p class="x" tabindex="0">a<b>c</b>de<br></p>\n'


def test_what_is_put_in_is_text() -> None:
    made = element("a", '<i>"&\x00\x1b[31m\u202e', element("br"), "</a>", title="\"'><script>&amp;")
    attributes, text = 'title="&quot;&#x27;&gt;&lt;script&gt;&amp;amp;"', '&lt;i&gt;"&amp;<br>&lt;/a&gt;'
    assert html_text(made) == f"<!DOCTYPE html>\n<a {attributes}>{text}</a>\n"
    assert len(element("p", "x" * 10_000).text or "") == 2000


def test_the_end_of_a_log_and_the_line_that_says_why(tmp_path: Path) -> None:
    log = tmp_path / "log.out"
    log.write_text("step 1\nRuntimeError: CUDA out of memory. Tried to allocate 2 GiB\n" + "bye\n" * 20)
    batch = tmp_path / "batch" / "slurm-77.out"
    batch.parent.mkdir()
    batch.write_text("srun: error: n1: task 0: Exited with exit code 1\n")

    def ends_of(record: Record, job_id: str = "77", **facts: Any) -> tuple[LogEnd, ...]:
        assert record.jobs.last is not None
        changed = {"log": str(log), "job": replace(record.jobs.last, id=job_id), **facts}
        return log_ends(ReportedRow(varied(record, **changed), "row"), tmp_path)

    first, second = ends_of(BROKEN)
    assert (first.path, first.lines) == (log, ("bye",) * 8)
    assert "CUDA out of memory" in first.cause
    assert second.lines == ("srun: error: n1: task 0: Exited with exit code 1",)
    (slow,) = ends_of(SLOW)
    assert slow.cause == ""
    assert ends_of(BROKEN, "../../x", log=None) == ()
    errors = tmp_path / "log.err"
    errors.write_text("slurmstepd: error: pyxis: failed to import docker image\n")
    ends = ends_of(BROKEN, outputs=(str(errors), str(batch)))
    assert [end.path for end in ends] == [log, errors, batch]
    assert "pyxis" in ends[1].cause
