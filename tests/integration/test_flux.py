"""The launcher of docs/examples/flux, against a stand-in for Flux's commands."""

from __future__ import annotations

import json
import os
import runpy
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_gsw import JobError, JobSpec, JobState, SchedulerUnreachableError
from pytest_gsw.clusters import find_cluster
from tests.integration.conftest import Gsw, records
from tests.integration.test_docs import example

#: The first lines of a recipe under Flux, as flux_launcher.py states them, before the simulated recipe.
FOR_FLUX = "#!/bin/bash\nexport SLURM_JOB_ID=$FLUX_ENCLOSING_ID SLURM_JOB_NUM_NODES=$NUM_NODES GSW_LOCAL=1\n"
ROW = ("-k", "gpt3_175b and H100x128", "--gsw-tolerance=50%")


@pytest.fixture
def example_module(tmp_path: Path) -> dict[str, Any]:
    """The launcher's module."""
    path = tmp_path / "flux_launcher.py"
    path.write_text(example("pytest_gsw_make_launcher"))
    return runpy.run_path(str(path))


@pytest.fixture
def launcher(example_module: dict[str, Any], flux: Path) -> Iterator[Any]:
    launcher = example_module["FluxLauncher"](f"test-{os.getpid()}", ["--bank=eng"])
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


def cluster(pytester: pytest.Pytester, recipes: Path, first: str = "") -> None:
    pytester.makeconftest(example("pytest_gsw_make_launcher"))
    for launch in recipes.glob("*/launch.sh"):
        launch.write_text(FOR_FLUX + first + launch.read_text())
    (pytester.path / "clusters.yaml").write_text(
        "defaults: {poll_interval: 0.5}\nclusters: {tuo: {scheduler: flux, account: eng, partition: pbatch, gpus: 256, "
        f"stage: {pytester.path}/stage, recipes: {recipes}}}}}\n"
    )


def test_the_cluster_of_the_docstring_can_be_copied(example_module: dict[str, Any], tmp_path: Path) -> None:
    text = example_module["__doc__"].partition("A cluster then states:\n")[2].partition("It follows")[0]
    path = tmp_path / "clusters.yaml"
    path.write_text(textwrap.dedent(text))
    assert find_cluster("tuo", [path], {}).stage == "/p/stage/{recipe}"


def test_a_session_on_flux(pytester: pytest.Pytester, recipes: Path, flux: Path, gsw: Gsw) -> None:
    """Ids of jobs are text wherever they go."""
    cluster(pytester, recipes)
    told = ("--gsw-history=h.sqlite", "--gsw-report=report")
    pytester.runpytest("--gsw-cluster=tuo", *ROW, *told).assert_outcomes(passed=1, deselected=140)
    record = records(pytester.path)[-1]
    assert record["job"]["launcher"] == "flux"
    (place,) = flux.glob("*/job.json")
    job = json.loads(place.read_text())
    assert record["job"]["id"] == job["id.f58"] == place.parent.name
    assert {"--bank=eng", "--queue=pbatch", "--exclusive", "--nodes=16"} <= set(job["words"])
    assert f"_{job['id.f58']}.out" in record["log"]
    assert job["id.f58"] in "".join(page.read_text() for page in (pytester.path / "report").rglob("*.html"))
    assert job["id.f58"] in gsw("history", "--history=h.sqlite", "--json").out
    (run,) = pytester.path.glob(".gsw/runs/*")
    for source in (run, "stage"):
        pytester.runpytest(f"--gsw-replay={source}", *ROW).assert_outcomes(passed=1, deselected=140)


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


def test_flux_out_of_reach(launcher: Any, job_spec: JobSpec, flux: Path) -> None:
    job = launcher.submit(job_spec)
    while launcher.poll([job])[job_spec.row_id].state is not JobState.RUNNING:  # until it ends, it writes nothing
        time.sleep(0.02)
    away = flux.rename(flux.with_name("away"))
    try:
        status = launcher.poll([job])[job_spec.row_id]
        with pytest.raises(SchedulerUnreachableError, match="Unable to connect to Flux"):
            launcher.submit(job_spec)
        with pytest.raises(SchedulerUnreachableError, match="Unable to connect to Flux"):
            launcher.find(job_spec, 0)
        with pytest.raises(JobError, match=r"jobs may still run: .*Unable to connect to Flux"):
            launcher.cancel([job])
    finally:
        away.rename(flux)
    assert (status.state, "Unable to connect to Flux" in status.reason) == (JobState.UNKNOWN, True)
    assert launcher.poll([job])[job_spec.row_id].state in {JobState.PENDING, JobState.RUNNING}


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
    example_module: dict[str, Any], word: str, code: str, state: JobState, exit_code: int | None, signal: int
) -> None:
    (job,) = example_module["listed"](f"f2AB|{word}|{code}|1700000000.5|0.0|1700000009.0|tuo1||a|name\n")
    assert (job.id, job.name) == ("f2AB", "a|name")
    assert (job.status.state, job.status.exit_code, job.status.signal) == (state, exit_code, signal)
    assert (job.status.submit_s, job.status.start_s) == (1700000000.5, None)
    assert job.status.end_s == (1700000009.0 if state.ended else None)
