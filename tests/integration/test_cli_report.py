"""``pytest-gsw report``, as a user runs it on a run of the demo cluster."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.integration.conftest import Gsw, RunOnce
from tests.messages import wording
from tests.unit.jobs.owners import leave_owner


def session(pytester: pytest.Pytester, table: Path) -> None:
    """Two rows, of which one is slow."""
    pytester.runpytest("--gsw-cluster=demo", f"--gsw-baselines={table}", "-k", "H100", "--gsw-demo=*x16]=slow:12%")


@pytest.fixture
def run(pytester: pytest.Pytester, table: Path, run_once: RunOnce) -> Path:
    """The directory of a run of both rows."""
    return run_once(pytester, lambda: session(pytester, table)).relative_to(pytester.path)


def page(path: Path) -> str:
    """A page's text, without markup."""
    return re.sub(r"<[^>]*>", " ", path.read_text(encoding="utf-8"))


def test_a_runs_report_is_in_its_directory(run: Path, gsw: Gsw) -> None:
    assert gsw("report", run).out == f"{run}/report/index.html: 1 passed, 1 regressed\n"
    index = page(run / "report" / "index.html")
    assert wording("page counts", counts="1 regressed", rows="2 rows", cluster="demo") in index
    assert "This is a simulation: no GPU was used, the figures are made up." in index
    again = (
        "pytest --gsw-cluster=demo '--gsw-demo=*x16]=slow:12%' --gsw-confirm=4 'site/tiny.yaml::tiny_1b_bf16[H100x16]'"
    )
    assert again in index
    slow = page(*(run / "report").glob("runs/*/rows/tiny_1b_bf16_H100x16.html"))
    assert "Last lines of the log" in slow
    assert f"--gsw-replay={run}" in slow
    assert "Each of 20 steps (s)" in slow
    assert not list(run.rglob("*.svg"))


def test_its_command_can_be_typed_as_it_stands(gsw: Gsw, run: Path, pytester: pytest.Pytester) -> None:
    gsw("report", run, "-o", "out")
    assert "pytest-gsw history 'tiny_1b_bf16[H100x16]' --cluster=demo" in page(
        *Path("out").glob("runs/*/rows/tiny_1b_bf16_H100x16.html")
    )
    gsw("history", "tiny_1b_bf16[H100x16]", "--cluster", "demo")


def test_a_run_that_the_history_has_alone(run: Path, gsw: Gsw) -> None:
    run.rename("elsewhere")
    assert gsw("report", run.name, status=2).err == (
        "pytest-gsw report: " + wording("history only", run=run.name) + "\nnext: add -o DIR\n"
    )
    gsw("report", run.name, "-o", "out")
    assert wording("page counts", counts="1 regressed", rows="2 rows", cluster="demo") in page(Path("out/index.html"))


def test_several_runs(run: Path, pytester: pytest.Pytester, table: Path, gsw: Gsw) -> None:
    pytester.runpytest("--gsw-cluster=demo", f"--gsw-baselines={table}", "-k", "H100")
    first, second = sorted(Path(".gsw", "runs").iterdir())
    assert gsw("report", first, second, status=2).err == (
        "pytest-gsw report: " + wording("where to write", runs="2 runs") + "\nnext: add -o DIR\n"
    )
    assert gsw("report", first, second, "-o", "out").out == "out/index.html: 2 runs\n"
    assert wording("one since", count=1, rows="2 rows") in page(Path("out/index.html"))
    assert "1 regressed of 2 rows" in page(Path("out/runs") / first.name / "index.html")
    listed = Path("out/runs.html").read_text()
    for run_of in (first, second):
        assert re.search(rf'<a href="runs/{run_of.name}/index.html"[^>]*>{run_of.name}</a>', listed)


def test_a_row_whose_record_cannot_be_read_is_one_error_and_was_judged(run: Path, gsw: Gsw) -> None:
    (broken,) = (run / "records").glob("*H100x16.json")
    broken.write_text("{")
    assert gsw("report", run).out == f"{run}/report/index.html: 1 passed, 1 error\n"
    index = page(run / "report" / "index.html")
    assert "1 error of 2 rows" in index
    assert f"site/tiny.yaml::tiny_1b_bf16[H100x16] : {broken} is no record: " in index
    assert "session ended" not in index
    assert "go on with" not in index
    assert "s), exit status 1" in index


def test_rows_that_a_session_has_not_come_to_yet(run: Path, gsw: Gsw) -> None:
    next(run.glob("records/*H100x16.json")).unlink()
    (run / "live.json").unlink()
    leave_owner(run)
    gsw("report", run)
    index = page(run / "report" / "index.html")
    assert re.search(r"Open rows\s+1 row\s.*\stiny_1b_bf16\[H100x16\]\s+not known yet\s", index, re.DOTALL)
    assert "s), its session goes on: 1 of 2 done, 1 not known yet" in index
    assert "error" not in index
    assert "--gsw-resume" not in index
    assert (
        ">" + wording("not judged yet", why=wording("report goes on") + "</error>")
        in gsw("report", "--format=junit", run).out
    )


def test_a_place_that_cannot_be_written(run: Path, gsw: Gsw) -> None:
    Path("out").write_text("")
    assert gsw("report", run, "-o", "out", status=2).err == (
        wording("output cannot be written", command="report", what="report", why="File exists: out") + "\n"
    )


ROW = "site/tiny.yaml::tiny_1b_bf16[H100x16]"


def replayed(pytester: pytest.Pytester, what: str) -> Path:
    """What ran is judged again: the directory of the replay."""
    before = set(Path(".gsw", "runs").iterdir())
    pytester.runpytest("--gsw-cluster=demo", f"--gsw-replay={what}", ROW)
    (replay,) = set(Path(".gsw", "runs").iterdir()) - before
    return replay


def test_the_report_of_a_replay_names_its_run(run: Path, pytester: pytest.Pytester, gsw: Gsw) -> None:
    replay = replayed(pytester, run.name)
    gsw("report", replay, "-o", "out")
    index = page(Path("out/index.html"))
    assert re.search(rf"1 regressed of 1 row on demo, \S+ \S+, replay of {run.name}\s", index)
    assert "**regressed**" in gsw("report", "--format=markdown", replay).out
    listed = page(Path("out/runs.html"))
    assert "2 runs, the newest first" in listed
    assert listed.index(replay.name) < listed.index(run.name)
    assert not list(Path("out/runs").glob("*.html"))


def test_a_replay_that_is_added_to_the_history_is_left_out(pytester: pytest.Pytester, table: Path, gsw: Gsw) -> None:
    session(pytester, table)
    (run,) = Path(".gsw", "runs").iterdir()
    replay = replayed(pytester, run.name)
    told = gsw("history", "--add", run, replay)
    assert told.out == wording("nothing new", history=".gsw/history.sqlite", jobs="2 records of 1 run", left=1) + "\n"
    assert told.err == f"pytest-gsw history: left out: {replay} is a replay of {run.name}\n"
    session(pytester, table)
    gsw("report", "last", "-o", "out")
    assert ", 2 runs" in page(Path("out/index.html"))
    assert "2 runs, the newest first" in page(Path("out/runs.html"))
    assert "2 runs; the documented figure is" in page(*Path("out").glob("runs/*/rows/tiny_1b_bf16_H100x16.html"))
