"""The main job on a real Slurm: 288 nodes of 8 GPUs, documented rows of up to 256 nodes, one of each misfortune."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

import pytest_gsw.demo
from pytest_gsw.jobs.slurm.launcher import SlurmLauncher
from pytest_gsw.jobs.states import JobState
from tests.integration.conftest import junit, properties, suite_properties
from tests.messages import wording

from .cluster import SlurmCluster
from .test_slurm_launcher import SpecMaker, make_spec, wait

__all__ = ["make_spec"]  # a fixture

#: One row takes memory until the kernel ends it, one is cancelled by hand while it runs.
MISFORTUNES = """
import dataclasses
import subprocess

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_gsw_make_job_spec(config, baseline):
    spec = yield
    if baseline.gpus == 256:
        script = config.rootpath / "greedy.sh"
        return dataclasses.replace(spec, script=script, options=(*spec.options, "--mem=60M"))
    return spec


def pytest_gsw_job_state_changed(baseline, job_id, status):
    if baseline.gpus == 512 and status.state.value == "RUNNING":
        subprocess.run(["scancel", job_id], check=True)
"""

GREEDY = """\
#!/bin/bash
echo "about to take more memory than there is"
exec "$GSW_PYTHON" -c 'hoard = [bytearray(1 << 20) for _ in range(1 << 20)]'
"""


@pytest.fixture
def project(pytester: pytest.Pytester, slurm288: SlurmCluster, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project directory whose cluster ``eos`` is the real Slurm, with the simulated recipe as MaxText's."""
    for name, value in slurm288.environ.items():
        monkeypatch.setenv(name, value)
    recipe = pytester.path / "recipes" / "maxtext"
    recipe.mkdir(parents=True)
    shutil.copy(Path(pytest_gsw.demo.__file__).parent / "launch.sh", recipe)
    (pytester.path / "clusters.yaml").write_text(
        f"""\
defaults: {{poll_interval: 1}}
clusters:
  eos:
    scheduler: slurm
    accelerator: H100
    gpus_per_node: 8
    gpus: 2304
    gres: gpu:8
    stage: {pytester.path}/stage
    recipes: {pytester.path}/recipes
    environment:
      GSW_PYTHON: {sys.executable}
      GSW_DEMO: "*x128]=slow:12%"
      GSW_DEMO_SECONDS: "4"
"""
    )
    return pytester.path


def test_six_rows_with_one_of_each_misfortune(pytester: pytest.Pytester, project: Path, slurm288: SlurmCluster) -> None:
    # Where Slurm has no memory cgroup to use, the kernel ends nothing; the simulated recipe then kills itself.
    out_of_memory = "OUT_OF_MEMORY" if slurm288.memory_limits else "FAILED"
    if not slurm288.memory_limits:
        clusters = project / "clusters.yaml"
        clusters.write_text(clusters.read_text().replace("slow:12%", "slow:12%; *x256]=oom-kill"))
    pytester.makeconftest(MISFORTUNES.replace("256", "256" if slurm288.memory_limits else "0"))
    (project / "greedy.sh").write_text(GREEDY)
    result = pytester.runpytest("--gsw-cluster=eos", "-k", "llama2_70b_fp8", "--junitxml=junit.xml")
    result.assert_outcomes(failed=1, errors=2, passed=3, deselected=135)
    result.stdout.re_match_lines_random(
        [
            r"gsw: eos \(slurm, H100, 2304 GPUs\), run .*",
            wording(
                "throughput",
                measured="20\\d,\\d{3}",
                change="1\\d\\.\\d",
                side="% below",
                documented="230,153 \\(allowed 5 %\\)",
            ),
            r"job \d+ (ended|failed).*: .*memory.*",
            r"job \d+ ended CANCELLED.*",
        ]
    )
    cases = junit(project / "junit.xml")
    assert {case.attrib["classname"] for case in cases.values()} == {"eos.maxtext.llama2_70b"}
    assert suite_properties(project / "junit.xml")["gsw_version_slurm"] == slurm288.run("sinfo", "--version").split()[1]
    kinds = {name: {child.tag for child in case} - {"properties"} for name, case in cases.items()}
    assert kinds == {
        "llama2_70b_fp8[H100x64]": set(),
        "llama2_70b_fp8[H100x128]": {"failure"},
        "llama2_70b_fp8[H100x256]": {"error"},
        "llama2_70b_fp8[H100x512]": {"error"},
        "llama2_70b_fp8[H100x1024]": set(),
        "llama2_70b_fp8[H100x2048]": set(),
    }
    facts = {name: properties(case) for name, case in cases.items()}
    assert {name: of["gsw_job_state"] for name, of in facts.items()} == {
        "llama2_70b_fp8[H100x64]": "COMPLETED",
        "llama2_70b_fp8[H100x128]": "COMPLETED",
        "llama2_70b_fp8[H100x256]": out_of_memory,
        "llama2_70b_fp8[H100x512]": "CANCELLED",
        "llama2_70b_fp8[H100x1024]": "COMPLETED",
        "llama2_70b_fp8[H100x2048]": "COMPLETED",
    }
    for name, of in facts.items():
        nodes = slurm288.run("sacct", "-X", "-n", "-P", "-j", of["gsw_job_id"], "-o", "NNodes").strip()
        assert int(nodes) * 8 == int(of["gsw_gpus"]), name


def test_the_run_can_be_judged_again_without_slurm(
    pytester: pytest.Pytester, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = ("-k", "llama2_70b_fp8 and (H100x64 or H100x128)")
    pytester.runpytest("--gsw-cluster=eos", *rows).assert_outcomes(passed=1, failed=1, deselected=139)
    (run,) = (project / ".gsw" / "runs").iterdir()
    monkeypatch.setenv("SLURM_CONF", "/nowhere/slurm.conf")
    result = pytester.runpytest("--gsw-cluster=eos", f"--gsw-replay={run}")
    result.assert_outcomes(passed=1, failed=1, deselected=139)
    records = [json.loads(path.read_text()) for path in sorted(run.glob("records/*.json"))]
    assert [record["outcome"] for record in records] == ["regressed", "passed"]


def test_an_interrupted_session_cancels_its_jobs(
    pytester: pytest.Pytester, project: Path, slurm288: SlurmCluster
) -> None:
    pytester.makeconftest(
        "def pytest_gsw_job_state_changed(status):\n    if status.state.value == 'RUNNING':\n        raise KeyboardInterrupt\n"
    )
    result = pytester.runpytest("--gsw-cluster=eos", "-k", "llama2_70b_fp8", no_reraise_ctrlc=True)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    # Three have lines of their own.
    assert result.parseoutcomes() == {"deselected": 135, "errors": 3, "interrupted": 3}
    result.stdout.re_match_lines([wording("interrupted", job="\\d+", fate="cancelled")])
    slurm288.wait_until(lambda: not slurm288.run("squeue", "-h").strip(), "an empty queue", 30)


def test_what_slurm_refuses_is_an_error_with_its_words(pytester: pytest.Pytester, project: Path) -> None:
    clusters = (project / "clusters.yaml").read_text()
    (project / "clusters.yaml").write_text(clusters.replace("gres: gpu:8", "gres: tpu:8"))
    result = pytester.runpytest("--gsw-cluster=eos", "-k", "llama2_70b_fp8 and H100x64")
    result.assert_outcomes(errors=1, deselected=140)
    result.stdout.fnmatch_lines(["*" + wording("gres") + "*"])


def test_256_nodes(slurm288: SlurmCluster, make_spec: SpecMaker) -> None:
    launcher = SlurmLauncher(slurm288.environ)
    job = launcher.submit(
        make_spec("echo $SLURM_JOB_NUM_NODES; sleep 1", nodes=256, gpus=2048, options=("--gres=gpu:8", "--mem=50M"))
    )
    status = wait(launcher, [job])[job.spec.row_id]
    assert (status.state, status.exit_code, status.nodes) == (JobState.COMPLETED, 0, "n[001-256]")
    output = launcher.batch_output(job)
    assert output is not None
    assert output.read_text() == "256\n"
