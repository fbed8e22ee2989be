"""The launcher of docs/flux.md, against a stand-in for Flux's commands."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from subprocess import DEVNULL, CompletedProcess
from types import ModuleType
from typing import Any

import pytest

from pytest_gsw import Job, JobError, JobSpec, JobState, JobStatus, RefusedError, SchedulerAwayError, SubmissionError
from pytest_gsw.testing import LauncherContract
from tests.integration.test_docs import example

#: What docs/flux.md says that a recipe does for Flux, before the simulated one.
FOR_FLUX = "#!/bin/bash\nexport SLURM_JOB_ID=$FLUX_ENCLOSING_ID SLURM_JOB_NUM_NODES=$NUM_NODES GSW_LOCAL=1\n"
ROW = ("-k", "gpt3_175b and H100x128", "--gsw-tolerance=50%", "-ogsw_poll_interval=0.5")


@pytest.fixture
def example_module(tmp_path: Path) -> ModuleType:
    """The conftest.py of docs/flux.md."""
    path = tmp_path / "flux_conftest.py"
    path.write_text(example("pytest_gsw_make_launcher"))
    spec = spec_from_file_location("flux_conftest", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def launcher(example_module: ModuleType, flux: Path) -> Iterator[Any]:
    launcher = example_module.FluxLauncher(f"test-{os.getpid()}", ["--bank=eng"])
    yield launcher
    launcher.close()


@pytest.fixture
def job_spec(tmp_path: Path) -> JobSpec:
    script = tmp_path / "launch.sh"
    script.write_text("sleep 600\n")
    return JobSpec(
        row_id="row[1]",
        name="gsw-run-row-1",
        script=script,
        directory=tmp_path,
        stage=tmp_path,
        nodes=2,
        gpus=8,
        environment={},
        unique_name=True,
    )


class TestFlux(LauncherContract):
    """What every launcher owes."""

    job_id_variable = "FLUX_ENCLOSING_ID"

    @pytest.fixture
    def launcher(self, launcher: Any) -> Any:
        launcher.poll_interval_s = 0.05
        return launcher


def wait_for(launcher: Any, job: Job, is_there: Callable[[JobState], bool]) -> JobStatus:
    give_up_s = time.monotonic() + 120
    while not is_there((status := launcher.poll([job])[job.spec.row_id]).state):
        assert time.monotonic() < give_up_s, status
        time.sleep(0.05)
    assert isinstance(status, JobStatus)
    return status


def ended(launcher: Any, job: Job) -> JobStatus:
    return wait_for(launcher, job, lambda state: state.ended)


def cluster(pytester: pytest.Pytester, recipes: Path, first: str = "") -> None:
    pytester.makeconftest(example("pytest_gsw_make_launcher"))
    for launch in recipes.glob("*/launch.sh"):
        launch.write_text(FOR_FLUX + first + launch.read_text())
    (pytester.path / "clusters.yaml").write_text(
        "clusters: {tuo: {scheduler: flux, account: eng, partition: pbatch, gpus: 256, "
        f"stage: {pytester.path}/stage, recipes: {recipes}}}}}\n"
    )


def the_record(pytester: pytest.Pytester) -> dict[str, Any]:
    (path,) = (pytester.path / ".gsw").rglob("records/*.json")
    record: dict[str, Any] = json.loads(path.read_text())
    return record


def test_a_session_on_flux(pytester: pytest.Pytester, recipes: Path, flux: Path) -> None:
    cluster(pytester, recipes)
    pytester.runpytest("--gsw-cluster=tuo", *ROW).assert_outcomes(passed=1, deselected=140)
    record = the_record(pytester)
    assert record["job"]["launcher"] == "flux"
    (place,) = flux.glob("*/job.json")
    job = json.loads(place.read_text())
    assert record["job"]["id"] == job["id.f58"] == place.parent.name
    assert {"--bank=eng", "--queue=pbatch", "--exclusive", "--nodes=16"} <= set(job["words"])
    assert f"_{job['id.f58']}.out" in record["log"]


def test_a_job_that_fails_on_flux_is_an_error(pytester: pytest.Pytester, recipes: Path, flux: Path) -> None:
    cluster(pytester, recipes)
    for launch in recipes.glob("*/launch.sh"):
        launch.write_text("exit 3\n")
    result = pytester.runpytest("--gsw-cluster=tuo", *ROW)
    result.assert_outcomes(errors=1, deselected=140)
    result.stdout.fnmatch_lines(["job * failed with exit code 3", "job        * FAILED 3:0 * on tuo[[]1001-1002]"])


def test_a_run_is_resumed_with_the_job_that_flux_has(pytester: pytest.Pytester, recipes: Path, flux: Path) -> None:
    cluster(pytester, recipes)
    pytester.runpytest("--gsw-cluster=tuo", *ROW).assert_outcomes(passed=1, deselected=140)
    (run,) = pytester.path.glob(".gsw/runs/*")
    for record in run.glob("records/*.json"):
        record.unlink()
    # As a session that died before the scheduler's answer was written down.
    journal = run / "journal.jsonl"
    kept = [line for line in journal.read_bytes().split(b"\n") if b'"ended"' not in line and b'"submitted"' not in line]
    journal.write_bytes(b"\n".join(kept))
    pytester.runpytest("--gsw-resume=last", *ROW).assert_outcomes(passed=1, deselected=140)
    assert len(list(flux.glob("*/job.json"))) == 1


def test_a_killed_session_s_job_goes_on_and_is_judged(pytester: pytest.Pytester, recipes: Path, flux: Path) -> None:
    cluster(pytester, recipes, f"until [[ -e {pytester.path}/go ]]; do sleep 0.1; done\n")
    session = pytester.popen(
        [*pytester._getpytestargs(), "--gsw-cluster=tuo", *ROW], stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL
    )
    give_up_s = time.monotonic() + 120
    while not list(flux.glob("*/job.json")):
        assert session.poll() is None
        assert time.monotonic() < give_up_s
        time.sleep(0.05)
    session.kill()
    session.wait()
    (pytester.path / "go").touch()
    pytester.runpytest("--gsw-resume=last", *ROW).assert_outcomes(passed=1, deselected=140)
    assert len(list(flux.glob("*/job.json"))) == 1


def test_the_command(launcher: Any, job_spec: JobSpec) -> None:
    spec = replace(job_spec, time_limit_s=90.5, excluded_nodes=("tuo7",), avoided_nodes=("tuo[9-10]",))
    assert launcher.command(spec) == (
        *("flux", "batch", "--job-name=gsw-run-row-1", "--nodes=2", "--exclusive"),
        f"--output={spec.directory}/flux-{{{{id}}}}.out",
        *("--time-limit=91s", "--requires=-hosts:tuo7,tuo[9-10]", "--bank=eng", str(spec.script)),
    )


def test_a_job_beyond_its_limit(launcher: Any, job_spec: JobSpec) -> None:
    status = ended(launcher, launcher.submit(replace(job_spec, time_limit_s=1)))
    assert (status.state, status.reason, status.nodes) == (JobState.TIMEOUT, "timeout", "tuo[1001-1002]")
    assert status.run_s is not None


def test_a_cancelled_job_has_no_exit_code_that_passes(launcher: Any, job_spec: JobSpec) -> None:
    job = launcher.submit(job_spec)
    launcher.cancel([job])
    status = ended(launcher, job)
    assert (status.state, status.raw_state) == (JobState.CANCELLED, "CANCELED")
    assert status.exit_code != 0


def test_a_refused_job_is_none(launcher: Any, job_spec: JobSpec, tmp_path: Path) -> None:
    with pytest.raises(RefusedError) as refused:
        launcher.submit(replace(job_spec, script=tmp_path / "nowhere.sh"))
    assert refused.value.fact == (
        f"flux batch gave no job: flux-batch: ERROR: No such file or directory: '{tmp_path}/nowhere.sh'"
    )


def test_flux_out_of_reach(launcher: Any, job_spec: JobSpec, flux: Path) -> None:
    job = launcher.submit(job_spec)
    wait_for(launcher, job, lambda state: state is JobState.RUNNING)  # until it ends, it writes nothing
    away = flux.rename(flux.with_name("away"))
    try:
        status = launcher.poll([job])[job_spec.row_id]
        with pytest.raises(SchedulerAwayError, match="Unable to connect to Flux"):
            launcher.submit(job_spec)
        with pytest.raises(SchedulerAwayError, match="Unable to connect to Flux"):
            launcher.find(job_spec, 0)
        with pytest.raises(JobError, match=r"jobs may still run: .*Unable to connect to Flux"):
            launcher.cancel([job])
    finally:
        away.rename(flux)
    assert (status.state, "Unable to connect to Flux" in status.reason) == (JobState.UNKNOWN, True)
    assert launcher.poll([job])[job_spec.row_id].state in {JobState.PENDING, JobState.RUNNING}


def test_flux_that_is_not_there(launcher: Any, job_spec: JobSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    launcher._environ["PATH"] = "/nonexistent"
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(RefusedError, match="flux could not be run: No such file or directory"):
        launcher.submit(job_spec)


@pytest.mark.parametrize("said", ["", "\N{LATIN SMALL LETTER F WITH HOOK}2AB\n\N{LATIN SMALL LETTER F WITH HOOK}2AC\n"])
def test_an_answer_without_one_id_is_looked_up(
    launcher: Any, job_spec: JobSpec, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    monkeypatch.setattr(launcher, "_flux", lambda *_, **__: CompletedProcess((), 0, said, ""))
    with pytest.raises(SchedulerAwayError, match="flux batch gave no job: no job id"):
        launcher.submit(job_spec)


def test_a_job_under_another_name_is_another_s(launcher: Any, job_spec: JobSpec) -> None:
    job = launcher.submit(job_spec)
    other = replace(job, spec=replace(job_spec, name="gsw-other-row-1"))
    assert launcher.poll([other])[job_spec.row_id].state is JobState.UNKNOWN
    (named,) = launcher.named([job_spec], 0)
    assert (named.id, named.name) == (job.id, job_spec.name)


def test_two_jobs_of_a_name_that_only_one_can_have(launcher: Any, job_spec: JobSpec) -> None:
    for _ in range(2):
        launcher.submit(job_spec)
    with pytest.raises(SubmissionError, match="2 jobs have the name that only one can have: gsw-run-row-1"):
        launcher.find(job_spec, 0)


@pytest.mark.parametrize(
    ("word", "code", "state", "exit_code", "signal"),
    [
        ("COMPLETED", "0", JobState.COMPLETED, 0, 0),
        ("COMPLETED", "", JobState.COMPLETED, None, 0),
        ("FAILED", "139", JobState.FAILED, 139, 0),
        ("FAILED", "-9", JobState.FAILED, None, 9),
        ("CANCELED", "-128", JobState.CANCELLED, None, 0),
        ("TIMEOUT", "142", JobState.TIMEOUT, 142, 0),
        ("CLEANUP", "0", JobState.RUNNING, None, 0),
        ("DEPEND", "", JobState.PENDING, None, 0),
        ("PRIORITY", "", JobState.PENDING, None, 0),
        ("SCHED", "", JobState.PENDING, None, 0),
        ("RUN", "", JobState.RUNNING, None, 0),
        ("INACTIVE", "0", JobState.UNKNOWN, None, 0),
        ("", "0", JobState.UNKNOWN, None, 0),
    ],
)
def test_flux_s_words(
    example_module: ModuleType, word: str, code: str, state: JobState, exit_code: int | None, signal: int
) -> None:
    (job,) = example_module.listed(f"f2AB|{word}|{code}|1700000000.5|0.0|1700000009.0|tuo1||a|name\n")
    assert (job.id, job.name) == ("f2AB", "a|name")
    assert (job.status.state, job.status.exit_code, job.status.signal) == (state, exit_code, signal)
    assert (job.status.submit_s, job.status.start_s) == (1700000000.5, None)
    assert job.status.end_s == (1700000009.0 if state.ended else None)


@pytest.mark.parametrize("line", ["", "f2AB", "f2AB|RUN", "481220|COMPLETED|0|1|1|1|n||name", "\N{SNOWMAN}|||||||||"])
def test_lines_that_tell_of_no_job(example_module: ModuleType, line: str) -> None:
    assert list(example_module.listed(line)) == []
