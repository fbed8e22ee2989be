from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from pytest_gsw.errors import LogError
from pytest_gsw.jobs.layout import log_glob
from pytest_gsw.jobs.model import FoundLog, JobSpec
from pytest_gsw.jobs.replay import RecordedRun, ReplayLauncher
from pytest_gsw.jobs.states import JobState, JobStatus
from pytest_gsw.logs.formats.registry import FORMATS
from pytest_gsw.session.newest_log import Newest, newest_complete
from tests.messages import wording
from tests.unit.rows import LLAMA2_FP8_X128

GLOB = log_glob("maxtext", "llama2", "70b", "fp8", 64)
SPEC = JobSpec("llama2_70b_fp8[H100x64]", "gsw", Path("launch.sh"), Path(), Path(), 8, 64, {}, log_glob=GLOB)


def put(stage: Path, job_id: int = 7, version: str = "24.11", gpus: int = 64) -> Path:
    log = stage / f"results/{version}/fp8/70b/{gpus}/log-maxtext_llama2_70b_{gpus}_{job_id}.out"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text("step 1\n")
    return log


@pytest.mark.parametrize(
    "below", [".", "results", "results/24.11", "results/24.11/fp8/70b/64/log-maxtext_llama2_70b_64_7.out"]
)
def test_sources(tmp_path: Path, below: str) -> None:
    log = put(tmp_path)
    put(tmp_path, job_id=8, gpus=128)
    launcher = ReplayLauncher(tmp_path / below)
    job = launcher.submit(SPEC)
    assert job.id == "7"
    assert launcher.find_log(job).samefile(log)
    assert launcher.poll([job]) == {SPEC.row_id: JobStatus(JobState.REPLAYED, "REPLAYED")}
    assert launcher.batch_output(job) is None
    assert launcher.command(SPEC) == ()
    launcher.cancel([job])
    launcher.close()


def test_several_jobs_of_one_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    old, new = put(tmp_path, 1000000), put(tmp_path, 999999)
    os.utime(old, (0, 86400))
    os.utime(new, (0, 2 * 86400))
    with pytest.raises(LogError) as ambiguous:
        ReplayLauncher(tmp_path).submit(SPEC)
    assert str(ambiguous.value) == (
        f"ambiguous: 2 jobs of llama2_70b_fp8[H100x64] below {tmp_path}\n"
        "\n"
        f"job 999999 {new}  1970-01-03 00:00:00  7 bytes\n"
        f"job 1000000 {old}  1970-01-02 00:00:00  7 bytes\n"
        f"next       name the one you mean, --gsw-replay={new}, or --gsw-replay={tmp_path}@last for the newest that "
        "completed"
    )


@pytest.mark.parametrize("given", ["{recipe}", "", "{recipe}/results"])
def test_a_staging_area_for_each_recipe(tmp_path: Path, given: str) -> None:
    log = put(tmp_path / "maxtext")
    put(tmp_path / "paxml", job_id=8)
    stage = tmp_path / (given or "{recipe}").replace("{recipe}", "maxtext")
    launcher = ReplayLauncher(tmp_path / given)
    assert launcher.find_log(launcher.submit(dataclasses.replace(SPEC, stage=stage))).samefile(log)
    with pytest.raises(LogError, match=f"^no log of .* below {tmp_path}"):
        ReplayLauncher(tmp_path / given).submit(dataclasses.replace(SPEC, stage=tmp_path / "nemo"))


def steps(last: int) -> str:
    return "".join(f"completed step: {n}, seconds: 4.324, TFLOP/s/device: 1.0, loss: 9.0\n" for n in range(last + 1))


def found_newest(found: Sequence[FoundLog], log_format: str = "maxtext", recipe_steps: int | None = 50) -> Newest:
    return newest_complete(found, LLAMA2_FP8_X128, FORMATS[log_format], recipe_steps)


def newest(spec: JobSpec, found: Sequence[FoundLog]) -> FoundLog:
    assert spec == SPEC
    return found_newest(found).log


def put_in_order(stage: Path, texts: Mapping[int, str]) -> list[FoundLog]:
    """The logs of jobs that ended one after another."""
    found = []
    for age, (job_id, text) in enumerate(texts.items()):
        log = put(stage, job_id)
        log.write_text(text)
        os.utime(log, (0, 86400 * age))
        found.append(FoundLog(log, str(job_id)))
    return found


def test_a_longer_job_does_not_come_before_a_newer_one(tmp_path: Path) -> None:
    """An old job of 500 steps that was fast says nothing of this run's of 50 that is slow."""
    put_in_order(tmp_path, {7: steps(499), 8: steps(49)})
    assert ReplayLauncher(tmp_path, choose=newest).submit(SPEC).id == "8"


def test_which_newer_jobs_are_passed_over_and_why(tmp_path: Path) -> None:
    killed = steps(49) + "slurmstepd: error: *** JOB 9 ON n1 CANCELLED AT 2031-02-03T04:05:06 ***\n"
    found = found_newest(put_in_order(tmp_path, {7: steps(49), 8: steps(47), 9: killed, 10: ""}))
    assert found.log.job_id == "7"
    (empty, why_empty), *others = ((log.job_id, why) for log, why in found.passed_over)
    assert (empty, "is empty" in why_empty) == ("10", True)
    assert others == [
        ("9", wording("a failure in the log", cause="cancelled")),
        ("8", wording("ended before its last", step=47, last=49)),
    ]


def test_where_the_row_does_not_say_its_steps_a_log_ends_where_it_says_itself(tmp_path: Path) -> None:
    def megatron(done: int, of: int) -> str:
        line = "iteration {:8}/{:8} | elapsed time per iteration (ms): 2500.0 | lm loss: 9.0E+00 |\n"
        return "".join(line.format(n + 1, of) for n in range(done))

    logs = put_in_order(tmp_path, {7: megatron(100, 100), 8: megatron(60, 60), 9: megatron(55, 60)})
    assert found_newest(logs, "megatron", None).log.job_id == "8"


def test_the_newest_job_that_completed(tmp_path: Path) -> None:
    """Of jobs that came as far as any, and tell of no bad end."""
    put_in_order(tmp_path, {3: steps(49), 20: steps(49), 101: steps(30), 102: "", 103: steps(49)})
    errors = tmp_path / "results/24.11/fp8/70b/64/log-maxtext_llama2_70b_64_103.err"
    errors.write_text("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n")
    assert ReplayLauncher(tmp_path, choose=newest).submit(SPEC).id == "20"
    errors.write_text("UserWarning: old\n")
    assert ReplayLauncher(tmp_path, choose=newest).submit(SPEC).id == "103"
    # As old as each other: the later id.
    for job_id in (3, 20, 103):
        log = put(tmp_path, job_id)
        log.write_text(steps(49))
        os.utime(log, (0, 0))
    assert ReplayLauncher(tmp_path, choose=newest).submit(SPEC).id == "103"
    # A copy is no other job.
    put(tmp_path, 103, version="25.01")
    with pytest.raises(LogError, match=r"^ambiguous: "):
        ReplayLauncher(tmp_path, choose=newest).submit(SPEC)


def test_where_no_job_completed_the_newest_is_judged(tmp_path: Path) -> None:
    for age, job_id in enumerate((8, 7)):
        os.utime(put(tmp_path, job_id), (0, age))
    assert ReplayLauncher(tmp_path, choose=newest).submit(SPEC).id == "7"


def test_copies_of_one_log(tmp_path: Path) -> None:
    put(tmp_path)
    put(tmp_path, version="25.01")
    with pytest.raises(LogError, match=r"^ambiguous: 2 copies of one job's log of "):
        ReplayLauncher(tmp_path).submit(SPEC)
    assert ReplayLauncher(tmp_path / "results" / "25.01").submit(SPEC).id == "7"


def test_none(tmp_path: Path) -> None:
    put(tmp_path, gpus=128)
    with pytest.raises(LogError, match=r"^no log of llama2_70b_fp8\[H100x64\] below ") as none:
        ReplayLauncher(tmp_path).submit(SPEC)
    assert [place.removeprefix(f"{tmp_path}/").partition("fp8")[0] for _, place in none.value.evidence] == [
        *("results/*/", "*/", ""),
    ]


@pytest.mark.parametrize("link", ["24.11", "24.11/fp8", "24.11/fp8/70b/64/log-maxtext_llama2_70b_64_7.out"])
@pytest.mark.parametrize("below", ["", "results", "results/24.11"])
def test_links_out_of_what_is_replayed_are_passed_over(tmp_path: Path, link: str, below: str) -> None:
    stage, other = tmp_path / "stage", tmp_path / "other"
    source, place = stage / below, stage / "results" / link
    if below == "results/24.11" and link == "24.11":
        pytest.skip("whoever names the link itself means what it leads to")
    log = put(other)
    place.parent.mkdir(parents=True)
    place.symlink_to(other / "results" / link)
    with pytest.raises(LogError) as none:
        ReplayLauncher(source).submit(SPEC)
    home = source / "results" if not below else source
    assert none.value.evidence[3:] == (("passed over", wording("another link", path=place, root=home)),)
    assert ReplayLauncher(log).submit(SPEC).id == "7"


@pytest.mark.parametrize("link", ["", "results", "results/24.11"])
def test_what_is_replayed_may_be_a_link_itself(tmp_path: Path, link: str) -> None:
    put(tmp_path / "lustre")
    (tmp_path / "stage").symlink_to(tmp_path / "lustre" / link)
    assert ReplayLauncher(tmp_path / "stage").submit(SPEC).id == "7"


def test_never_a_neighbours_log(tmp_path: Path) -> None:
    log = put(tmp_path, gpus=128)
    with pytest.raises(LogError, match=r"^log-maxtext_llama2_70b_128_7\.out is the log of another row than "):
        ReplayLauncher(log).submit(SPEC)


def test_a_renamed_log_is_taken_at_the_users_word(tmp_path: Path) -> None:
    log = tmp_path / "yesterday.txt"
    log.write_text("")
    assert ReplayLauncher(log).submit(SPEC).id == "yesterday"


def test_a_trace_is_no_measurement(tmp_path: Path) -> None:
    traced = put(tmp_path, version="25.01-nccl-trace")
    for source in (tmp_path, traced.parents[3]):
        with pytest.raises(LogError, match=r"^no log of "):
            ReplayLauncher(source).submit(SPEC)
    tracing = dataclasses.replace(SPEC, environment={"ENABLE_NCCL_TRACE": "true"})
    assert ReplayLauncher(tmp_path).submit(tracing).id == "7"


def test_a_recorded_run(tmp_path: Path) -> None:
    log = put(tmp_path)
    failed = JobStatus(JobState.FAILED, "FAILED", 7)
    launcher = ReplayLauncher(tmp_path, {SPEC.row_id: RecordedRun(log, "7", failed)})
    job = launcher.submit(SPEC)
    assert launcher.poll([job]) == {SPEC.row_id: failed}
    assert launcher.find_log(job) == log
    log.unlink()
    with pytest.raises(LogError) as gone:
        launcher.find_log(job)
    assert gone.value.fact == wording("recorded log is gone", row="llama2_70b_fp8[H100x64]")


def test_a_recorded_run_without_a_log(tmp_path: Path) -> None:
    launcher = ReplayLauncher(
        tmp_path, {SPEC.row_id: RecordedRun(None, "7", JobStatus(JobState.CANCELLED, "CANCELLED"))}
    )
    with pytest.raises(LogError) as none:
        launcher.find_log(launcher.submit(SPEC))
    assert none.value.fact == wording("recorded without a log", row="llama2_70b_fp8[H100x64]")


def test_a_row_that_was_not_recorded(tmp_path: Path) -> None:
    put(tmp_path)
    recorded = {"other": RecordedRun(None, "7", JobStatus(JobState.COMPLETED))}
    with pytest.raises(LogError, match=r"^the replayed run has no job of llama2_70b_fp8\[H100x64\]\n"):
        ReplayLauncher(tmp_path, recorded).submit(SPEC)
