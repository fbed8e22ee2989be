"""``--gsw-replay`` judges logs that exist already."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Callable
from fnmatch import fnmatch
from pathlib import Path

import pytest

from tests.integration.conftest import Gsw, RunOnce, junit, properties
from tests.messages import wording


@pytest.fixture
def recorded(pytester: pytest.Pytester, run_once: RunOnce) -> Path:
    """The directory of a run of the six rows, one of them slow and one failed."""

    def run() -> None:
        result = pytester.runpytest(
            "--gsw-cluster=demo", "--gsw-demo=*x128]=slow:12%", "--gsw-demo=*x256]=fail", "-k", "llama2_70b_fp8"
        )
        result.assert_outcomes(passed=4, failed=1, errors=1, deselected=135)

    return run_once(pytester, run)


def test_a_runs_directory_gives_the_same_verdicts(pytester: pytest.Pytester, recorded: Path) -> None:
    result = pytester.runpytest(f"--gsw-replay={recorded}")
    result.assert_outcomes(passed=4, failed=1, errors=1, deselected=135)
    result.stdout.fnmatch_lines(["gsw: replay of *", wording("rows to replay", rows="6 rows", path="*")])


def test_bundled_rows_without_a_log_are_left_out_in_one_line(pytester: pytest.Pytester, recorded: Path) -> None:
    shutil.copytree(recorded / "stage", "stage")
    (log,) = pytester.path.glob("stage/results/demo/fp8/70b/64/*.out")
    text = re.sub(r".*(GSW: |Config param ).*\n", "", log.read_text())
    Path("stage/yesterday.log").write_text(text)
    log.unlink()
    result = pytester.runpytest("--gsw-replay=stage")
    result.assert_outcomes(passed=3, failed=1, errors=1, deselected=136)
    result.stdout.fnmatch_lines(
        [
            wording("rows left out", rows="136 rows", why="stage has no log of them"),
            "gsw: 1 log without a row: stage/yesterday.log",
            "gsw: yesterday.log does not state its model, number of GPUs and dtype, and may be of * rows",
            "next: pytest --gsw-replay=stage/yesterday.log -k ROW judges it",
            "llama2_70b_fp8[[]* [[] 20%]",
        ],
        consecutive=True,
    )
    # Nothing is judged: neither the log's name nor its text shows its row.
    result = pytester.runpytest("--gsw-replay=stage/yesterday.log")
    result.stdout.fnmatch_lines(
        ["gsw: 141 rows left out: stage/yesterday.log has no log of them", "gsw: no row is judged"]
    )
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
    pytester.runpytest("--gsw-replay=stage/yesterday.log", "-k", "llama2_70b_fp8 and H100x64").assert_outcomes(
        passed=1, deselected=140
    )


@pytest.fixture
def flat(pytester: pytest.Pytester, recorded: Path) -> Path:
    """The logs of the six rows in one folder, under the names that Slurm gives."""
    folder = pytester.mkdir("flat")
    for log in recorded.glob("stage/results/demo/fp8/70b/*/*.out"):
        shutil.copy(log, folder / f"slurm-{log.stem.rpartition('_')[2]}.out")
    return folder


def test_a_flat_folder_is_judged_by_what_its_logs_state(pytester: pytest.Pytester, flat: Path) -> None:
    result = pytester.runpytest("--gsw-replay=flat")
    result.assert_outcomes(passed=4, failed=1, errors=1, deselected=135)
    (first, *_) = sorted(flat.iterdir())
    pytester.runpytest(f"--gsw-replay={first}").assert_outcomes(passed=1, deselected=140)
    # Two jobs of one row are ambiguous, and one of another row does not stand in for it.
    job = first.stem.partition("-")[2]
    (flat / "slurm-999.out").write_text(first.read_text().replace(job, "999"))
    result = pytester.runpytest("--gsw-replay=flat", "-k", "llama2_70b_fp8 or gpt3_175b")
    result.stdout.fnmatch_lines([wording("ambiguous", count="2 jobs", row="llama2_70b_fp8[[]H100x*]", path="*")])
    result.assert_outcomes(passed=3, failed=1, errors=7, deselected=130)
    (flat / "slurm-998.out").write_text(first.read_text())  # the log of another job by its text
    pytester.runpytest("--gsw-replay=flat@last").assert_outcomes(passed=4, failed=1, errors=1, deselected=135)


def test_the_logs_of_a_folder_are_listed_with_their_rows(pytester: pytest.Pytester, flat: Path, gsw: Gsw) -> None:
    (flat / "notes.txt").write_text("to do\n")
    listed = gsw("metrics", "flat", status=1).out
    assert re.search(
        r"^flat/slurm-\d+\.out +llama2_70b_fp8\[H100x128\] +5\.1\d* s +-1\d\.\d % +regressed$", listed, re.MULTILINE
    )
    assert re.search(
        r"^flat/slurm-\d+\.out +llama2_70b_fp8\[H100x256\] +refused: the log shows a failure: ", listed, re.MULTILINE
    )
    assert re.search(
        r"^flat/notes\.txt +refused: does not state its model, number of GPUs and dtype", listed, re.MULTILINE
    )
    assert listed.endswith("\n7 logs, 6 with a row\n")
    facts = json.loads(gsw("metrics", "flat", "--json", "--row=llama2_70b_fp8[H100x64]", status=6).out)
    (judged,) = [one for one in facts if one["row"]]
    assert {name: judged[name] for name in ("row", "unit", "verdict", "refused")} == {
        "row": "llama2_70b_fp8[H100x64]",
        "unit": "s",
        "verdict": "passed",
        "refused": None,
    }
    assert "is of no row; llama2_70b_fp8[H100x64] is the nearest: GPUs " in str(facts)
    for number in range(3):
        (flat / f"{number}.log").write_text("to do\n")
    pytester.runpytest("--gsw-replay=flat").stdout.fnmatch_lines(
        [
            "gsw: 4 logs without a row: flat/0.log, flat/1.log, flat/2.log and 1 more",
            "next: pytest-gsw metrics flat lists why",
        ]
    )
    pytester.mkdir("empty")
    assert "there is no log in empty" in gsw("metrics", "empty", status=2).err
    assert "--statistic: rows have their own" in gsw("metrics", "flat", "--statistic=mean", status=2).err


@pytest.mark.parametrize(
    "named", [("-k", "llama2_70b_fp8"), ("-m", "gsw(workload='llama2_70b', dtype='fp8')"), ("baselines/maxtext",)]
)
def test_a_named_row_without_a_log_is_an_error(
    pytester: pytest.Pytester, recorded: Path, named: tuple[str, ...]
) -> None:
    shutil.copytree(recorded / "stage", "stage")
    for gpus in (64, 512):
        (log,) = pytester.path.glob(f"stage/results/demo/fp8/70b/{gpus}/*.out")
        log.unlink()
    result = pytester.runpytest("--gsw-replay=stage", *named)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    node_id = "baselines/maxtext/llama2_70b.yaml::llama2_70b_fp8[[]H100x64]"
    result.stdout.fnmatch_lines(
        [
            "no log of llama2_70b_fp8[[]H100x64] below *",
            f"again      pytest --gsw-replay=stage '{node_id}'",
        ]
    )
    # The path decides where the line is wrapped.
    assert re.search(r"no log of the row below\s+\S+/stage: [28]\s+rows", result.stdout.str())
    result.stdout.no_fnmatch_line(f"offline *{node_id}*")


def test_a_log_in_its_recipes_directory_is_of_one_row(pytester: pytest.Pytester, recorded: Path) -> None:
    (log,) = recorded.glob("stage/results/demo/fp8/70b/64/*.out")
    result = pytester.runpytest(f"--gsw-replay={log}")
    result.assert_outcomes(passed=1, deselected=140)  # not the row of bf16, whose logs have the same name
    result.stdout.fnmatch_lines([wording("rows left out", rows="140 rows", why=f"*/{log.name} has no log of them")])


def test_a_log_of_another_row_is_an_error(pytester: pytest.Pytester, recorded: Path) -> None:
    (log,) = recorded.glob("stage/results/demo/fp8/70b/64/*.out")
    result = pytester.runpytest(f"--gsw-replay={log}", "-k", "llama2_70b_fp8 and H100x512")
    result.assert_outcomes(errors=1, deselected=140)
    result.stdout.fnmatch_lines(
        [
            f"{log.name} is the log of another row than llama2_70b_fp8[[]H100x512]",
            "next       select the row that it belongs to: -k, or its node id",
        ]
    )


def test_a_renamed_log_of_another_row_is_an_error(pytester: pytest.Pytester, recorded: Path) -> None:
    (log,) = recorded.glob("stage/results/demo/fp8/70b/64/*.out")
    renamed = pytester.path / "some.log"
    shutil.copy(log, renamed)
    result = pytester.runpytest("--gsw-replay=some.log", "-k", "llama2_70b_bf16 and H100x512")
    result.assert_outcomes(errors=1, deselected=140)
    result.stdout.fnmatch_lines(
        [
            "the log belongs to another run, by its dtype and GPUs and global batch size",
            wording("differs", ran="dtype      fp8", wanted="bf16"),
            wording("differs", ran="GPUs       64", wanted=512),
        ]
    )


#: What a newer job may have left, of the log of one that passed; and why it is passed over.
NEWER = {
    "cut": (lambda log: log[: len(log) // 2], "the log *"),
    "failed": (lambda log: log + "torch.OutOfMemoryError: CUDA out of memory.\n", "the log shows a failure: CUDA *"),
    "empty": (lambda _: "", "the log is empty*"),
}


@pytest.mark.parametrize(("damage", "why"), NEWER.values(), ids=NEWER)
def test_a_newer_job_that_is_passed_over_is_never_green(
    pytester: pytest.Pytester, recorded: Path, damage: Callable[[str], str], why: str
) -> None:
    (log,) = recorded.glob("stage/results/demo/fp8/70b/64/*.out")
    job = log.stem.rpartition("_")[2]
    log.with_name("log-maxtext_llama2_70b_64_999999.out").write_text(damage(log.read_text().replace(job, "999999")))
    written_s = time.time() - 104.5 * 86400
    os.utime(log, (written_s, written_s))
    rows = ("-k", "llama2_70b_fp8 and (H100x64 or H100x512)")
    result = pytester.runpytest(f"--gsw-replay={recorded / 'stage'}@last", *rows, "--junitxml=junit.xml")
    result.assert_outcomes(passed=2, deselected=139)
    assert result.ret == 6
    text = f"job {job} is judged; passed over: job 999999 ({why}); the log that is judged is 104 days old (*)"
    result.stdout.fnmatch_lines(
        [
            "llama2_70b_fp8[[]H100x64] * PASSED * newer jobs passed over *",
            "*= not judged by the newest job =*",
            "llama2_70b_fp8[[]H100x64]  job *",
        ]
    )
    (case, other) = (junit(Path("junit.xml"))[f"llama2_70b_fp8[H100x{gpus}]"] for gpus in (64, 512))
    assert fnmatch(properties(case)["gsw_passed_over"], text)
    assert "gsw_passed_over" not in properties(other)
    (run,) = (path for path in pytester.path.glob(".gsw/runs/*") if path != recorded)
    (record,) = (json.loads(path.read_text()) for path in run.glob("records/*H100x64.json"))
    assert (record["outcome"], record["passed_over"]) == ("passed", properties(case)["gsw_passed_over"])


@pytest.mark.parametrize(("fault", "outcome"), [("slow:50%", "failed"), ("nan", "errors")])
def test_a_newer_job_that_came_to_its_end_is_judged(
    pytester: pytest.Pytester, recorded: Path, fault: str, outcome: str
) -> None:
    """However bad: an older one must not hide it."""
    row = ("-k", "llama2_70b_fp8 and H100x64")
    pytester.runpytest("--gsw-cluster=demo", f"--gsw-demo=*={fault}", *row)
    (run,) = (path for path in pytester.path.glob(".gsw/runs/*") if path != recorded)
    (bad,) = run.glob("stage/results/demo/fp8/70b/64/*.out")
    shutil.copy(bad, recorded / "stage/results/demo/fp8/70b/64")
    result = pytester.runpytest(f"--gsw-replay={recorded / 'stage'}@last", *row)
    result.assert_outcomes(**{outcome: 1}, deselected=140)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "passed over" not in result.stdout.str()


def test_a_copy_does_not_tell_which_job_was_the_last(pytester: pytest.Pytester, recorded: Path) -> None:
    """A copied log may have the time at which it was copied."""
    (own,) = recorded.glob("stage/results/demo/fp8/70b/64/*.out")
    text = own.read_text()
    own.unlink()
    log, later = (own.with_name(f"log-maxtext_llama2_70b_64_{job}.out") for job in (70, 71))
    for path in (later, log):
        path.write_text(text.replace(own.stem.rpartition("_")[2], path.stem.rpartition("_")[2]))
    os.utime(later, (1_700_000_000, 1_700_000_000))
    row = ("-k", "llama2_70b_fp8 and H100x64")
    result = pytester.runpytest(f"--gsw-replay={recorded / 'stage'}@last", *row)
    result.assert_outcomes(passed=1, deselected=140)
    assert result.ret == 6
    why = "its id is later, though its log was written earlier"
    result.stdout.fnmatch_lines(["*: " + wording("newer passed over", job=70, jobs=f"job 71 ({why}); *")])
    os.utime(later)  # now the later job's log is the newer one as well
    assert pytester.runpytest(f"--gsw-replay={recorded / 'stage'}@last", *row).ret == pytest.ExitCode.OK


def test_a_row_of_a_replayed_run_that_no_table_has_is_an_error(pytester: pytest.Pytester, table: Path) -> None:
    pytester.runpytest("--gsw-cluster=demo", "--gsw-baselines=site", "-k", "H100")
    table.write_text(table.read_text().replace("gpus: 16,", "gpus: 16, case: renamed,"))
    result = pytester.runpytest("--gsw-replay=last", "--gsw-baselines=site", "--junitxml=junit.xml")
    result.assert_outcomes(passed=1, errors=1, deselected=2)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    lost = "tiny_1b_bf16[H100x16]"
    (error,) = junit(Path("junit.xml"))[lost].iter("error")
    assert wording("not a row any more", row=lost, why="renamed, ") in "".join(error.itertext())
    result.stdout.fnmatch_lines(
        ["next       name the tables of that run: --gsw-baselines, --gsw-release or --gsw-suite"]
    )
    one = ("--gsw-baselines=site", "-k", "x8 and H100")
    assert pytester.runpytest("--gsw-replay=last", *one).ret == pytest.ExitCode.OK


def test_a_replay_of_a_run_has_all_of_its_rows(pytester: pytest.Pytester, recorded: Path) -> None:
    """A row that came to no job is not left out: of such a run, the rows that were judged would be green."""
    for row in ("H100x128", "H100x256"):
        next(recorded.glob(f"records/*{row}.json")).unlink()
    result = pytester.runpytest(f"--gsw-replay={recorded}", "--junitxml=junit.xml")
    result.assert_outcomes(passed=4, errors=2, deselected=135)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["the replayed run has no job of llama2_70b_fp8[[]H100x128]"])
    assert [case.find("error") is None for case in junit(Path("junit.xml")).values()].count(False) == 2


def test_a_run_is_replayed_by_its_id(pytester: pytest.Pytester, recorded: Path) -> None:
    result = pytester.runpytest(f"--gsw-replay={recorded.name}", "-k", "llama2_70b_fp8 and H100x64")
    result.assert_outcomes(passed=1, deselected=140)
    result = pytester.runpytest(f"--gsw-replay={recorded.name}0")
    result.stderr.fnmatch_lines(
        ["ERROR: --gsw-replay: " + wording("no such", name="*", nearest=f"'{recorded.name}'[?]")]
    )


def test_one_log_serves_one_row(pytester: pytest.Pytester, recorded: Path) -> None:
    (log,) = recorded.glob("stage/results/demo/fp8/70b/64/*.out")
    bare = pytester.path / "bare.log"
    bare.write_text("".join(line for line in log.read_text().splitlines(keepends=True) if "GSW: " not in line))
    result = pytester.runpytest("--gsw-replay=bare.log", "-k", "llama2_70b and (H100x64 or H100x128)")
    result.assert_outcomes(errors=4, deselected=137)
    result.stdout.fnmatch_lines(["bare.log " + wording("log of one of several", rows="4 rows")])


def test_a_profiled_run_is_not_judged_in_a_replay_either(pytester: pytest.Pytester) -> None:
    row = "baselines/nemo/grok1_314b.yaml::grok1_314b_fp8[H100x512]"
    for kind in ("nsight", "nccl-trace"):
        pytester.runpytest("--gsw-cluster=demo", f"--gsw-profile={kind}", row).assert_outcomes(skipped=1)
    traced, profiled = sorted(
        (pytester.path / ".gsw" / "runs").iterdir(), key=lambda run: "nccl" not in str(list(run.rglob("*")))
    )
    for source in (traced, profiled, next(traced.rglob("log-*.out"))):
        result = pytester.runpytest(f"--gsw-replay={source}", row, "-rs")
        result.assert_outcomes(skipped=1)
        result.stdout.fnmatch_lines(["*" + wording("not comparable") + "*"])


def test_a_log_that_has_changed_is_an_error(pytester: pytest.Pytester, recorded: Path) -> None:
    (log,) = recorded.glob("stage/results/demo/fp8/70b/64/*.out")
    with log.open("a") as end:
        end.write("one more line\n")
    result = pytester.runpytest(f"--gsw-replay={recorded}", "-k", "H100x64")
    result.assert_outcomes(errors=1, deselected=140)
    result.stdout.fnmatch_lines([wording("log has changed", then="*", now="*")])


def test_an_empty_log_is_no_documented_out_of_memory(pytester: pytest.Pytester) -> None:
    (pytester.path / "oom.log").write_text("")
    result = pytester.runpytest("--gsw-replay=oom.log", "-k", "zero-id11")
    result.assert_outcomes(errors=1, deselected=140)


def test_an_out_of_memory_of_another_run_is_an_error(pytester: pytest.Pytester) -> None:
    (pytester.path / "oom.log").write_text(
        "GSW: MODEL=other FRAMEWORK=nemo MODEL_SIZE=1b JOB_NUM_NODES=1 GPUS_PER_NODE=8 DTYPE=bf16 JOB_ID=7\n"
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
    )
    result = pytester.runpytest("--gsw-replay=oom.log", "-k", "zero-id11")
    result.assert_outcomes(errors=1, deselected=140)
    result.stdout.fnmatch_lines(["the log belongs to another run, by its model and model size and *"])


@pytest.mark.parametrize("state", ["RUNNING", "UNKNOWN"])
def test_a_recorded_job_that_had_not_ended_is_an_error(pytester: pytest.Pytester, recorded: Path, state: str) -> None:
    path = next(recorded.glob("records/*H100x64.json"))
    record = json.loads(path.read_text())
    record["job"]["state"] = state
    path.write_text(json.dumps(record))
    result = pytester.runpytest(f"--gsw-replay={recorded}", "-k", "H100x64")
    result.assert_outcomes(errors=1, deselected=140)
    result.stdout.fnmatch_lines([f"job * had not ended when its session did: it was {state}"])
