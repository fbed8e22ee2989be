"""``pytest-gsw history``: what rows took, run by run, and what is added of older runs."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pytest_gsw.history.cluster_series import histories_of_records
from pytest_gsw.history.location import open_history
from pytest_gsw.history.model import Point
from pytest_gsw.history.row_history import RowHistory
from pytest_gsw.history.store import History
from pytest_gsw.results.record import Record
from tests.integration.conftest import Gsw, tiny_table
from tests.integration.runs import record, write_runs
from tests.messages import wording
from tests.unit.history.runs import FIRST_S, KEY, job, run_record, stored_points
from tests.unit.results.records import varied

DEFAULT = Path(".gsw", "history.sqlite")
MAXTEXT = "completed step: {step}, seconds: {seconds}, TFLOP/s/device: 797.5, Tokens/s/device: 1796.5, loss: 9.021\n"

TABLE = """\
row                       cluster      jobs    median    noise  newest                    against median    vs document
------------------------  ---------  ------  --------  -------  ----------------------  ----------------  -------------
llama2_70b_fp8[H100x128]  eos            12       5 s    1.4 %  2026-11-12 21:00 5.5 s            -9.1 %        -17.2 %
llama2_70b_fp8[H100x128]  jz              3   4.925 s   1.7 %*  2026-11-03 21:00 5.5 s           -10.5 %        -17.2 %
* too few jobs to measure the row's noise: the usual value is used
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        patch.delenv("GSW_HISTORY", raising=False)
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


@pytest.fixture
def history(gsw: Gsw) -> Gsw:
    return partial(gsw, "history")


def fill(*records: Record, place: Path | str = DEFAULT) -> None:
    with open_history(place) as opened:
        opened.add(records)


def runs(count: int, **changes: Any) -> list[Record]:
    """Runs between 4.9 and 5.1 s, the newest of which took 5.5 s."""
    times_s = [4.9 + 0.05 * (number % 5) for number in range(count - 1)] + [5.5]
    return [run_record(number, judged, **changes) for number, judged in enumerate(times_s)]


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A table of a site's own, of MaxText's rows."""
    path = tmp_path / "site" / "tiny.yaml"
    path.parent.mkdir()
    path.write_text(
        tiny_table("gpus: 8, step_time_s: 1.000, line: 10", "gpus: 16, step_time_s: 0.500, line: 11").replace(
            "recipe:", "tolerance: 5%\nrecipe:"
        )
    )
    return path


def write_log(directory: Path, job_id: int, gpus: int = 8, seconds: str = "1.020", steps: int = 20) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"log-maxtext_tiny_1b_{gpus}_{job_id}.out"
    path.write_text("".join(MAXTEXT.format(step=step, seconds=seconds) for step in range(steps)))
    os.utime(path, (1795212000 + job_id, 1795212000 + job_id))
    return path


def test_the_table(history: Gsw) -> None:
    fill(*runs(12), *runs(3, node_id="x.yaml::y", cluster="jz"))
    assert history() == (TABLE, "")


def test_json(history: Gsw) -> None:
    fill(run_record(0, 5.0, reason="within tolerance", environment={"nccl": "2.21.5"}))
    assert json.loads(history("--json").out) == [
        {
            "row": "llama2_70b_fp8[H100x128]",
            "cluster": "eos",
            "definition": "0123456789ab",
            "metric": "step_time_s",
            "unit": "s",
            "median": 5.0,
            "noise": {"sigma": 0.0165, "jobs": 0},
            "points": [
                {
                    "run_id": "20261101-210000-7f3a",
                    "job_id": "481220",
                    "time_s": 1793566800.0,
                    "judged": 5.0,
                    "outcome": "passed",
                    "nodes": "pool0-[0017-0032]",
                    "image": "nvcr.io/nvidia/jax:24.12",
                    "environment": {"nccl": "2.21.5"},
                    "reason": "within tolerance",
                    "time": "2026-11-01T21:00:00+00:00",
                }
            ],
        }
    ]


def test_times_are_those_of_the_reader(monkeypatch: pytest.MonkeyPatch, history: Gsw) -> None:
    fill(run_record(0, job=job(0, end_s=FIRST_S + 8 * 3600)))  # 2026-11-02 05:00 UTC
    monkeypatch.setenv("TZ", "America/Los_Angeles")
    time.tzset()
    assert "  2026-11-01 21:00 5 s" in history().out
    assert json.loads(history("--json").out)[0]["points"][0]["time"] == "2026-11-01T21:00:00-08:00"


def test_what_others_wrote_is_shown_without_control_characters_and_secrets(history: Gsw) -> None:
    fill(run_record(0, 5.0, job=replace(run_record(0).jobs.last, nodes="\x1b[31mn1 hf_AAAAbbbbCCCCdddd1111")))  # type: ignore[type-var]
    out = history("--json").out
    assert "n1 ***" in out
    assert "\x1b" not in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--history=postgresql://u:hunt@er2@h/d"],
            "the history is named by no URL of PostgreSQL (its text is not shown",
        ),
        (["--add", ".", "--cluster=eos"], "--add takes whole runs; leave out rows and --cluster"),
        (["--from-logs=."], "--from-logs: nothing there says where the jobs ran; add --cluster=NAME"),
        (["--from-logs=.", "--cluster=demo"], "--cluster: 'demo' is no name of a cluster that jobs ran on"),
        (
            ["--from-logs=.", "--cluster=eos"],
            "--from-logs: there is no log below .\nwanted: log-",
        ),
    ],
)
def test_what_is_asked_wrongly(arguments: list[str], message: str, history: Gsw) -> None:
    fill(*runs(3))
    assert history(*arguments, status=2).err.startswith(f"pytest-gsw history: {message}")


def test_runs_are_added_once_however_often(site: Path, history: Gsw) -> None:
    directories = write_runs(Path(".gsw"), site)
    (Path(".gsw/runs/empty")).mkdir()
    (directories[0] / "records" / "broken.json").write_text("{")
    for done in ("5 records of 5 runs added", "nothing new, 5 records of 5 runs there already"):
        out, err = history("--add", *sorted(Path(".gsw/runs").iterdir()))
        assert out == f".gsw/history.sqlite: {done}, 2 left out\n"
        assert wording("no record", path=f"{directories[0].name}/records/broken.json", why="") in err
        assert wording("empty run", run=".gsw/runs/empty") + "\n" in err
    assert "tiny_1b_bf16[H100x8]  eos             5" in history().out


def test_a_log_whose_stderr_tells_of_a_bad_end_is_not_imported(site: Path, history: Gsw) -> None:
    results = Path("stage", "results", "24.11", "bf16", "1b", "8")
    write_log(results, 1)
    write_log(results, 2)
    (results / "log-maxtext_tiny_1b_8_2.err").write_text("CUDA out of memory. Tried to allocate 2.00 GiB. error: \n")
    out, err = history("--from-logs=.", "--cluster=eos", f"--baselines={site}")
    assert (
        out
        == wording("records added", history=".gsw/history.sqlite", records="1 record", runs="1 run") + ", 1 left out\n"
    )
    assert "_8_2.out: stderr beside " + wording("a failure in the log", cause="CUDA out of memory") in err


def test_logs_are_imported_once(site: Path, history: Gsw) -> None:
    results = Path("stage", "results", "24.11", "bf16", "1b")
    for job_id in range(1, 10):
        write_log(results / "8", job_id, seconds=f"1.0{job_id}0")
    write_log(results / "16", 20, gpus=16, seconds="0.505")
    write_log(results / "16", 21, gpus=16, steps=12)
    write_log(Path("copies"), 9)
    write_log(Path("stage/results/25.01-nccl-trace/bf16/1b/8"), 30, steps=10)
    write_log(Path("stage"), 31, gpus=32)
    imported = ("--from-logs=.", "--cluster=eos", f"--baselines={site}")
    out, err = history(*imported)
    assert (
        out
        == wording("records added", history=".gsw/history.sqlite", records="10 records", runs="10 runs")
        + ", 3 left out\n"
    )
    assert err == (
        "pytest-gsw history: left out: stage/log-maxtext_tiny_1b_32_31.out: is named like the log of no row\n"
        "pytest-gsw history: left out: stage/results/24.11/bf16/1b/16/log-maxtext_tiny_1b_16_21.out: the log holds 12 "
        "steps, 18 of 20 needed\n"
        "pytest-gsw history: left out: stage/results/24.11/bf16/1b/8/log-maxtext_tiny_1b_8_9.out: job 9 has another log, "
        "copies/log-maxtext_tiny_1b_8_9.out\n"
    )
    (found,) = json.loads(history("*x8]", "--json").out)
    assert [point["judged"] for point in found["points"]][:3] == [1.01, 1.02, 1.03]
    assert [point["time_s"] for point in found["points"]][:2] == [1795212001.0, 1795212002.0]
    assert found["points"][0]["outcome"] == "passed"
    assert found["points"][8]["run_id"].startswith("import-9-")
    assert (
        history(*imported).out == wording("nothing new", history=".gsw/history.sqlite", jobs="11 jobs", left=2) + "\n"
    )


def test_a_log_of_several_rows_is_left_out_until_one_is_named(site: Path, history: Gsw) -> None:
    site.write_text(
        tiny_table("gpus: 8, step_time_s: 1.0, line: 10", "gpus: 8, accelerator: B200, step_time_s: 1.1, line: 11")
    )
    write_log(Path("logs"), 7)
    imported = ("--from-logs=logs", "--cluster=eos", f"--baselines={site}")
    assert "may be of 2 rows: tiny_1b_bf16[H100x8], tiny_1b_bf16[B200x8]" in history(*imported, status=1).err
    assert (
        history("tiny_1b_bf16[B200x8]", *imported).out
        == wording("records added", history=".gsw/history.sqlite", records="1 record", runs="1 run") + "\n"
    )


def test_a_flat_folder_of_logs_is_imported_by_what_they_state(site: Path, history: Gsw) -> None:
    line = "GSW: MODEL=tiny MODEL_SIZE=1b DTYPE=bf16 GPUS_PER_NODE=8 JOB_NUM_NODES={nodes} JOB_ID={job}\n"
    for number, nodes in ((5, 1), (6, 1), (7, 2), (8, 4)):
        log = write_log(Path("logs"), number)
        log.with_name(f"slurm-{number}.out").write_text(line.format(nodes=nodes, job=number) + log.read_text())
        log.unlink()
    Path("logs/notes.txt").write_text("to do\n")
    imported = ("--from-logs=logs", "--cluster=eos", f"--baselines={site}")
    out, err = history(*imported)
    assert (
        out
        == wording("records added", history=".gsw/history.sqlite", records="3 records", runs="3 runs")
        + ", 2 left out\n"
    )
    assert "logs/notes.txt: does not state its model, number of GPUs and dtype" in err
    assert (
        "logs/slurm-8.out: is of no row; tiny_1b_bf16[H100x8] is the nearest: GPUs 32 in the log, 8 in the row" in err
    )
    found = json.loads(history("--json").out)
    assert {one["row"]: [point["job_id"] for point in one["points"]] for one in found} == {
        "tiny_1b_bf16[H100x8]": ["5", "6"],
        "tiny_1b_bf16[H100x16]": ["7"],
    }
    assert history(*imported).out == wording("nothing new", history=".gsw/history.sqlite", jobs="3 jobs", left=2) + "\n"


def test_simulated_logs_are_of_no_cluster(site: Path, history: Gsw) -> None:
    log = write_log(Path("logs"), 7)
    log.write_text("pytest-gsw demo: this is a simulation, no GPU was used\n" + log.read_text())
    assert (
        "is a simulation's, and its figures are made up"
        in history("--from-logs=logs", "--cluster=eos", f"--baselines={site}", status=1).err
    )


def test_links_are_not_followed(site: Path, tmp_path: Path, history: Gsw) -> None:
    write_log(tmp_path / "others", 7)
    Path("logs").mkdir()
    Path("logs", "link").symlink_to(tmp_path / "others")
    Path("logs", "log-maxtext_tiny_1b_8_7.out").symlink_to(tmp_path / "others" / "log-maxtext_tiny_1b_8_7.out")
    assert (
        "there is no log below logs"
        in history("--from-logs=logs", "--cluster=eos", f"--baselines={site}", status=2).err
    )


TASK = """\
job_info:
  job_id: '{job}'
job_config:
  model_name: tiny
  model_size: 1b
  dtype: bf16
  scale: {gpus}
  gpu_type: h100
  profile_enabled: {profiled}
  model_overrides:
    gbs: {batch}
"""


@pytest.mark.parametrize("source", ["install", "install/workloads/pretrain_tiny/experiments"])
def test_jobs_of_llmb_run_are_found_by_its_files(site: Path, history: Gsw, source: str) -> None:
    """NeMo-Run names their logs, and the name has no row."""
    for number, facts in {
        1: {},
        2: {"profiled": "true"},
        3: {"batch": 4096},
        4: {"gpus": 512},
        5: None,
        6: {},
        7: {},
    }.items():
        directory = Path("install/workloads/pretrain_tiny/experiments/tiny", f"tiny_{number}", "tiny")
        log = write_log(directory, number, seconds="1.300" if number == 7 else "1.020", steps=12 if number == 6 else 20)
        log.rename(directory / f"log-acct.tiny_{number}_0.out")
        if facts is not None:
            task = TASK.format(**{"job": number, "gpus": 8, "profiled": "false", "batch": 64, **facts})
            (directory / f"llmb-config_{number}.yaml").write_text(task)
    imported = (f"--from-logs={source}", "--cluster=eos", f"--baselines={site}")
    out, err = history(*imported)
    assert (
        out
        == wording("records added", history=".gsw/history.sqlite", records="2 records", runs="2 runs")
        + ", 5 left out\n"
    )
    assert dict(re.findall(r"_(\d)_0.out: (.{20})", err)) == {
        "2": "not judged: profile_",
        "3": "the log belongs to a",
        "4": "is named like the lo",
        "5": "is named like the lo",
        "6": "the log holds 12 ste",
    }
    (found,) = json.loads(history("--json").out)
    facts = [(one["job_id"], one["judged"], one["outcome"]) for one in found["points"]]
    assert facts == [("1", 1.02, "passed"), ("7", 1.3, "regressed")]
    assert history(*imported).out == wording("nothing new", history=".gsw/history.sqlite", jobs="2 jobs", left=5) + "\n"


def test_imported_runs_and_those_of_sessions_are_one_series(site: Path, history: Gsw) -> None:
    ours = record(site, 0, 1.01, image=None)
    write_log(Path("logs"), 7)
    history("--from-logs=logs", "--cluster=eos", f"--baselines={site}")
    with open_history(DEFAULT) as opened:
        (key,) = opened.series()
        opened.add([varied(ours, definition=key.definition)])
        assert [point.judged for point in stored_points(opened, key)] == [1.01, 1.02]


# -- what changed, and runs that do not count --------------------------------------------------


def test_the_runs_before_and_since_a_new_image_are_compared(history: Gsw) -> None:
    old = [run_record(n, 5 + n % 3 / 100, experiment="aaaaaaaaaaaa") for n in range(12)]
    new = [
        run_record(n, 5.5 + n % 3 / 100, experiment="aaaaaaaaaaaa", definition="ffffffffffff", image="new")
        for n in range(12, 17)
    ]
    fill(*old, *new)
    out = history().out
    assert " image nvcr.io/nvidia/jax:24.12 -> new: throughput -9.1 % (-9.7 % to -8.4 %; " in out
    (found,) = json.loads(history("--json").out)
    (change,) = found["changes"]
    assert change["named"] == {"image": {"before": "nvcr.io/nvidia/jax:24.12", "after": "new"}}
    assert change["ratio"] == pytest.approx(5.01 / 5.51)
    assert change["run_id"] == new[0].run.id


def test_a_row_has_a_line_for_each_of_its_runs(history: Gsw) -> None:
    broken = run_record(10, outcome="error", fact="job 7 failed: NCCL error", measured={}, job=job(10))
    fill(*runs(9), run_record(9, 5.5, outcome="regressed", documented={"step_time_s": 5.0}), broken)
    lines = history("llama2*").out.splitlines()
    heading = next(number for number, line in enumerate(lines) if line.endswith(", the newest run first"))
    newest, before = (re.split(r"  +", line.strip()) for line in lines[heading + 3 : heading + 5])
    assert newest == [newest[0], broken.run.id, "error", "pool0-[0017-0032]", "job failed: NCCL error"]
    assert before[1:] == [run_record(9).run.id, "5.5 s", "-9.1 %", "regressed", "pool0-[0017-0032]"]
    assert len(lines[heading + 3 :]) == 11
    assert "newest run first" not in history().out


def test_each_record_of_a_row_is_read_once(history: Gsw, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[str] = []
    records = History.records
    monkeypatch.setattr(
        History, "records", lambda self, run_id, rows: reads.append(run_id) or records(self, run_id, rows)
    )
    fill(*runs(9))
    history("llama2*")
    assert sorted(reads) == sorted(of_run.run.id for of_run in runs(9))


def test_a_row_of_excluded_runs_alone_is_not_listed(history: Gsw) -> None:
    fill(*runs(9), run_record(9, 9.0, row="other[H100x8]"), run_record(10, 9.0))
    history("exclude", run_record(9).run.id, run_record(10).run.id, "--why=a switch was down")
    out = history().out
    assert "other[H100x8]" not in out
    assert " 9 s " not in out
    assert "1 series of earlier definitions or excluded runs not shown; --all shows them" in out
    assert "other[H100x8]" in history("--all").out
    assert "other[H100x8]" not in history("--drift").out


def test_a_run_is_excluded_and_included_again(history: Gsw) -> None:
    fill(*runs(9), run_record(9, 9.0))
    run, kept = run_record(9).run.id, RowHistory(points_in(DEFAULT)).runs
    assert history("exclude", "last", "--why=a switch was down").out == (
        f".gsw/history.sqlite: {run} is excluded; to include it again: pytest-gsw history include {run} --why=TEXT\n"
    )
    assert history().out.splitlines()[-1] == f"excluded: run {run}: a switch was down"
    with open_history(DEFAULT) as opened:
        (past,) = histories_of_records(opened, [run_record(9)]).values()
        assert past.runs == kept[:-1]
    assert (
        history("exclude", run, "--why=again", status=2).err
        == wording("excluded already", run=f"pytest-gsw history: run {run}", why="a switch was down") + "\n"
    )
    assert history("include", run, "--why=it was not").out == f".gsw/history.sqlite: {run} is included again\n"
    with open_history(DEFAULT) as opened:
        (past,) = histories_of_records(opened, [run_record(9)]).values()
        assert past.runs == kept


@pytest.mark.parametrize("arguments", [("exclude", "no", "--why=x"), ("include", "20261101-210000-7f3a", "--why=x")])
def test_what_cannot_be_excluded(history: Gsw, arguments: tuple[str, ...]) -> None:
    fill(run_record(0))
    history(*arguments, status=2)
    assert points_in(DEFAULT)


def points_in(place: Path) -> tuple[Point, ...]:
    with open_history(place) as opened:
        return stored_points(opened, KEY)


DEMO = "--gsw-cluster=demo"


def test_a_cluster_that_is_taken_for_a_file(pytester: pytest.Pytester) -> None:
    (pytester.path / "clusters.yaml").write_text("clusters: {eos: {scheduler: slurm, stage: s}}\n")
    result = pytester.runpytest("--gsw-clusters=eos")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["ERROR: --gsw-clusters: " + wording("no file", path="*/eos, but a cluster eos"), "next: --gsw-cluster=eos"]
    )
    result = pytester.runpytest("--gsw-clusters=dgx")
    assert result.stderr.lines[1] == "next: for a cluster of that name, --gsw-cluster=dgx"
    result = pytester.runpytest("--gsw-clusters=nope.yaml")
    assert result.stderr.lines[0] == "ERROR: --gsw-clusters: " + wording("no file", path=f"{pytester.path}/nope.yaml")


def test_a_file_of_the_ini_file_is_for_sessions_with_a_cluster(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\ngsw_clusters = of-the-login-node.yaml\n")
    pytester.makepyfile("def test_one(): pass\n")
    pytester.runpytest("test_a_file_of_the_ini_file_is_for_sessions_with_a_cluster.py").assert_outcomes(passed=1)


def test_every_fault_that_is_of_no_row(pytester: pytest.Pytester) -> None:
    faults = "--gsw-demo=nope*=slow:3%;grok1_314b*=fail;lama2*=slow:2%", "--gsw-demo=llama2_70b_fp8[H100x65]=fail"
    result = pytester.runpytest(DEMO, *faults, "-k", "grok1_314b or llama2_70b")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert result.errlines[:3] == [
        "ERROR: --gsw-demo: " + wording("none selected", pattern="nope*"),
        "--gsw-demo: no selected row matches 'lama2*'; did you mean 'llama2_70b'?",
        "--gsw-demo: no selected row matches 'llama2_70b_fp8[H100x65]'; did you mean 'llama2_70b_fp8[H100x64]'?",
    ]


@pytest.mark.parametrize("by_path", [False, True])
def test_a_row_of_a_table_that_is_not_there(pytester: pytest.Pytester, table: Path, by_path: bool) -> None:
    arguments = ["site/tiny.yaml::tiny_1b_bf16[H100x9]"] if by_path else ["baselines/tiny.yaml::tiny_1b_bf16[H100x9]"]
    if not by_path:
        table.parent.rename(pytester.path / "there")
        arguments = ["--gsw-baselines=there", "there/tiny.yaml::tiny_1b_bf16[H100x9]"]
    result = pytester.runpytest(DEMO, *arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["ERROR: not found: *tiny.yaml::tiny_1b_bf16[[]H100x9]; did you mean 'tiny_1b_bf16[[]H100x8]'?"]
    )
