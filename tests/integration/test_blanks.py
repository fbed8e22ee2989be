"""Rows with blanks in a session: one blank stops one row, which says what to write where."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.integration.conftest import Gsw, junit, properties, tiny_table
from tests.messages import wording

README = """\
# Llama 3

| Llama3 8b | 8x H100 GPUs (GBS=128) | 16x H100 GPUs (GBS=256) |
|---|---|---|
| Training step time (seconds per step) | 2.0 | 2.1 |
| Throughput in tokens per second | 524288 | 998644 |

| Llama3 70b BF16 | 8x H100 GPUs (GBS=128) | 16x H100 GPUs (GBS=256) |
|---|---|---|
| Training step time (seconds per step) | 20 | 21 |
"""
FACTS = """\
documents:
  - document: README.md
    model: llama3
    framework: nemo
    sequence_length: 8192
    recipe: {directory: llama3, steps: 50}
"""
BLANK = "site/tiny.yaml::tiny_1b_BLANK[H100x16]"
TEXT = """\
dtype is blank

row        site/tiny.yaml:15
blank      site/tiny.yaml:15  dtype, a name such as fp8
next       type it into the table"""


@pytest.fixture
def table(pytester: pytest.Pytester) -> Path:
    """Three rows of a site's own, of which one has a blank, and one is for another accelerator."""
    path = pytester.path / "site" / "tiny.yaml"
    path.parent.mkdir()
    path.write_text(
        tiny_table(
            "gpus: 8, step_time_s: 1.000, line: 10",
            "gpus: 16, dtype: ~, step_time_s: 0.500, line: 11",
            "gpus: 8, accelerator: B200, dtype: ~, step_time_s: 0.400, line: 12",
        )
    )
    return path


def test_one_blank_stops_one_row(pytester: pytest.Pytester, table: Path) -> None:
    result = pytester.runpytest("--gsw-cluster=demo", "--junitxml=junit.xml", str(table))
    result.assert_outcomes(passed=1, errors=2)
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [
            wording("no more than one", rows="1 row", more="2 more rows"),
            "tiny_1b_BLANK[[]H100x16]  ERROR      dtype is blank *",
            *(line.replace("[", "[[]") for line in TEXT.splitlines()),
            "1 passed, 2 errors",
            "dtype is blank: 2 rows (tiny_1b_BLANK[[]H100x16[]], tiny_1b_BLANK[[]B200x8[]])",
        ]
    )
    case = junit(pytester.path / "junit.xml")["tiny_1b_BLANK[H100x16]"]
    assert (case.attrib["classname"], case.attrib["time"]) == ("demo.maxtext.tiny_1b", "0.000")
    (error,) = case.iter("error")
    assert (error.text or "").strip() == TEXT
    assert error.attrib["message"] == f'failed on setup with "{TEXT.partition(chr(10))[0]}"'
    assert properties(case) == {
        "gsw_row": "tiny_1b_BLANK[H100x16]",
        "gsw_outcome": "error",
        "gsw_fact": "dtype is blank",
    }
    (live,) = pytester.path.glob(".gsw/runs/*/live.jsonl")
    *_, end = map(json.loads, live.read_text().splitlines())
    assert (end["outcomes"], end["exit_status"]) == ({"passed": 1, "error": 2}, 1)


def test_a_session_whose_rows_are_all_blank_is_not_green(pytester: pytest.Pytester, table: Path) -> None:
    result = pytester.runpytest("--gsw-cluster=demo", str(table), "-k", "BLANK")
    result.assert_outcomes(errors=2, deselected=1)
    assert result.ret == 1


def test_what_is_blank_is_collected_and_selected(pytester: pytest.Pytester, table: Path) -> None:
    result = pytester.runpytest("--gsw-cluster=demo", "--collect-only", "-q", "--gsw-baselines=site")
    assert result.stdout.lines[:3] == [
        "site/tiny.yaml::tiny_1b_bf16[H100x8]",
        BLANK,
        "site/tiny.yaml::tiny_1b_BLANK[B200x8]",
    ]
    for selection in (["-k", "blank and H100"], ["-m", "gsw(gpus=16, accelerator='H100')"], [BLANK]):
        result = pytester.runpytest("--gsw-cluster=demo", "--gsw-baselines=site", "--collect-only", "-q", *selection)
        assert result.stdout.lines[0] == BLANK
        result.stdout.fnmatch_lines(["*1*test* collected*"])


def test_the_report_and_a_resumed_run_miss_it(pytester: pytest.Pytester, table: Path) -> None:
    result = pytester.runpytest("--gsw-cluster=demo", "--gsw-report=report", str(table), "-k", "H100")
    result.assert_outcomes(passed=1, errors=1, deselected=1)
    assert "tiny_1b_BLANK[H100x16]" in (pytester.path / "report" / "summary.md").read_text()
    (run,) = (pytester.path / ".gsw" / "runs").iterdir()
    result = pytester.runpytest("--gsw-cluster=demo", f"--gsw-resume={run.name}", str(table))
    result.assert_outcomes(passed=1, errors=1, deselected=1)
    table.write_text(table.read_text().replace("gpus: 16, dtype: ~", "gpus: 16"))
    result = pytester.runpytest("--gsw-cluster=demo", f"--gsw-resume={run.name}", str(table))
    result.assert_outcomes(passed=1, errors=1, deselected=2)
    result.stdout.fnmatch_lines(
        [
            wording("not a row any more", row="tiny_1b_BLANK[[]H100x16]", why="*"),
            "",
            "next       run the row anew",
        ]
    )


def test_what_is_said_of_a_blank_fills_it_in(pytester: pytest.Pytester, gsw: Gsw) -> None:
    """The lines for facts.yaml, with values behind them, are all that a newcomer has to write."""
    (pytester.path / "README.md").write_text(README)
    pytester.mkdir("tables").joinpath("facts.yaml").write_text(FACTS)
    assert gsw("import", "README.md", "-o", "tables").out.splitlines()[1:] == [
        "  fill in    nemo/llama3.yaml: dtype of 2 rows: the document does not say",
        "tables/nemo/llama3.yaml: 4 rows, written",
        "next: pytest-gsw rows tables shows what to write into tables/facts.yaml",
    ]
    result = pytester.runpytest("--gsw-cluster=demo", "--gsw-baselines=tables")
    result.assert_outcomes(passed=2, errors=2)
    text = result.stdout.str()
    said = re.search(r"into tables/facts\.yaml next to .*, and pytest-gsw (.*):\n\n(documents:\n(?: .*\n)+)", text)
    assert said is not None
    assert said[2] == (
        "documents:\n  - document: README.md\n    tables:\n      - line: 3\n        dtype:  # a name such as fp8\n"
    )
    more = re.sub(r"dtype:.*", "dtype: fp8", said[2]).removeprefix("documents:\n  - document: README.md\n")
    (pytester.path / "tables" / "facts.yaml").write_text(FACTS + more)
    gsw(*said[1].split())
    result = pytester.runpytest("--gsw-cluster=demo", "--gsw-baselines=tables")
    result.assert_outcomes(passed=4)


def test_a_row_without_a_size_runs(pytester: pytest.Pytester, table: Path) -> None:
    table.write_text(tiny_table("gpus: 8, step_time_s: 1.000, line: 10").replace("size: 1b\n", ""))
    result = pytester.runpytest("--gsw-cluster=demo", str(table), "--junitxml=junit.xml", "--gsw-report=report")
    result.assert_outcomes(passed=1)
    (run,) = (pytester.path / ".gsw" / "runs").iterdir()
    (record,) = (run / "records").iterdir()
    assert json.loads(record.read_text())["workload"] == "tiny"
    assert "tiny_bf16[H100x8]" in junit(pytester.path / "junit.xml")
    pytester.runpytest(f"--gsw-replay={run}", str(table)).assert_outcomes(passed=1)
    broken = pytester.runpytest("--gsw-cluster=demo", "--gsw-demo=*=wrong-identity", str(table))
    broken.assert_outcomes(errors=1)
