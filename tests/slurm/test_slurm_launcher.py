"""The launcher against a real Slurm. Every wait has a bound, and what it waited for is said."""

from __future__ import annotations

import dataclasses
import itertools
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from pytest_gsw.errors import JobError, RefusedError, SubmissionError
from pytest_gsw.jobs.layout import log_glob
from pytest_gsw.jobs.model import Job, JobSpec
from pytest_gsw.jobs.slurm.launcher import SlurmLauncher
from pytest_gsw.jobs.states import JobState, JobStatus
from tests.messages import wording

from .cluster import SlurmCluster
from .conftest import start

_names = (f"gsw-test-{number}" for number in itertools.count())

SpecMaker = Callable[..., JobSpec]


@pytest.fixture
def make_spec(tmp_path: Path) -> SpecMaker:
    def make(body: str, *, directives: str = "", **changes: object) -> JobSpec:
        name = next(_names)
        script = tmp_path / f"{name}.sh"
        script.write_text(f"#!/bin/bash\n{directives}\n{body}\n")
        spec = JobSpec(
            row_id=name,
            name=name,
            script=script,
            directory=tmp_path,
            stage=tmp_path / "stage",
            nodes=1,
            gpus=8,
            environment={},
            options=("--mem=50M",),
            log_glob=log_glob("maxtext", "llama2", "70b", "fp8", 8),
        )
        return dataclasses.replace(spec, **changes)  # type: ignore[arg-type]

    return make


@pytest.fixture(scope="module")
def small() -> Iterator[SlurmCluster]:
    """Four nodes that are missed soon, and a controller that forgets jobs soon."""
    yield from start(4, min_job_age_s=2, slurmd_timeout_s=10)


def wait(
    launcher: SlurmLauncher, jobs: Sequence[Job], *states: JobState, timeout_s: float = 90
) -> dict[str, JobStatus]:
    """The statuses once each job is in one of the states, by default once each has ended."""
    wanted = states or tuple(state for state in JobState if state.ended)
    deadline_s = time.monotonic() + timeout_s
    while True:
        statuses = launcher.poll(jobs)
        if all(statuses[job.spec.row_id].state in wanted for job in jobs):
            return statuses
        assert time.monotonic() < deadline_s, f"after {timeout_s} s: {statuses}"
        time.sleep(0.1)


def test_a_job_from_submission_to_its_log(slurm32: SlurmCluster, make_spec: SpecMaker) -> None:
    launcher = SlurmLauncher(slurm32.environ)
    directory = "$STAGE_PATH/results/24.11/fp8/70b/$((SLURM_JOB_NUM_NODES * SLURM_NTASKS_PER_NODE))"
    spec = make_spec(
        f"echo batch; mkdir -p {directory}; echo log > {directory}/log-maxtext_llama2_70b_8_$SLURM_JOB_ID.out; sleep 1",
        directives="#SBATCH --ntasks-per-node=8",
    )
    spec = dataclasses.replace(spec, environment={"STAGE_PATH": str(spec.stage)})
    before_s = time.time()
    job = launcher.submit(spec)
    running = wait(launcher, [job], JobState.RUNNING)[job.spec.row_id]
    assert (running.nodes, running.end_s, running.exit_code) == ("n001", None, None)
    ended = wait(launcher, [job])[job.spec.row_id]
    assert ended == JobStatus(
        *(JobState.COMPLETED, "COMPLETED", 0, 0, "", "n001", ended.submit_s, ended.start_s, ended.end_s),
        steps=(),
        derived_exit_code="0:0",
    )
    assert ended.submit_s is not None
    assert before_s - 1 <= ended.submit_s <= time.time()
    assert ended.run_s is not None
    assert ended.end_s is not None
    assert 0 < ended.run_s <= ended.end_s - ended.submit_s
    assert launcher.find_log(job).read_text() == "log\n"
    output = launcher.batch_output(job)
    assert output is not None
    assert output.read_text() == "batch\n"


def test_hundred_jobs_are_one_question(slurm32: SlurmCluster, make_spec: SpecMaker) -> None:
    launcher = SlurmLauncher(slurm32.environ)
    jobs = [launcher.submit(make_spec("sleep 900")) for _ in range(100)]
    wait(launcher, jobs, JobState.RUNNING, JobState.PENDING)
    slurm32.reset_rpc_counts()
    launcher.poll(jobs)
    counts = slurm32.rpc_counts()
    assert counts["REQUEST_JOB_INFO"] == 1, counts
    launcher.cancel(jobs)
    statuses = wait(launcher, jobs)
    assert {status.state for status in statuses.values()} == {JobState.CANCELLED}
    # sacct says who did it, scontrol does not; which of them answers depends on how far slurmdbd is.
    assert {status.raw_state for status in statuses.values()} <= {"CANCELLED", "CANCELLED by 0"}
    launcher.cancel(jobs)  # all have ended already: no error


def test_singleton_scripts_run_side_by_side(slurm32: SlurmCluster, make_spec: SpecMaker) -> None:
    launcher = SlurmLauncher(slurm32.environ)
    singleton = "#SBATCH --dependency=singleton --job-name=maxtext_llama2"
    jobs = [launcher.submit(make_spec("sleep 60", directives=singleton)) for _ in range(2)]
    wait(launcher, jobs, JobState.RUNNING)
    launcher.cancel(jobs)
    wait(launcher, jobs)


def test_what_can_never_run_is_refused_or_pends_with_slurms_reason(slurm32: SlurmCluster, make_spec: SpecMaker) -> None:
    launcher = SlurmLauncher(slurm32.environ)
    spec = make_spec("true", nodes=33)
    try:
        job = launcher.submit(spec)
    except RefusedError as error:
        refusal = str(error).partition("\n")[0]
    else:
        refusal = ""
    if refusal:  # 24.11 says at once what 22.05 says while the job pends
        assert refusal == wording("refused", why="") + wording("no such nodes")
        assert slurm32.run("squeue", "-h", f"--name={spec.name}") == ""
        return
    status = launcher.poll([job])[job.spec.row_id]
    assert (status.state, status.start_s) == (JobState.PENDING, None)
    assert status.reason in {"PartitionConfig", "PartitionNodeLimit"}  # before and after it was first considered
    launcher.cancel([job])
    assert wait(launcher, [job])[job.spec.row_id].state is JobState.CANCELLED


def test_refusals(slurm32: SlurmCluster, make_spec: SpecMaker) -> None:
    launcher = SlurmLauncher(slurm32.environ)
    spec = make_spec("true", options=("--gres=gpx:8",))
    with pytest.raises(SubmissionError) as refused:
        launcher.submit(spec)
    assert str(refused.value) == (
        "sbatch refused the job: Invalid generic resource (gres) specification\n"
        "\n"
        f"command    sbatch --parsable -J {spec.name} -N 1 --no-requeue --gres=gpx:8 {spec.script}\n"
        f"directory  {spec.directory}\n"
        "exit code  1\n"
        "last       sbatch: error: Invalid generic resource (gres) specification\n"
        "next       this cluster counts GPUs: set `gres: gpu:8` in its cluster file"
    )
    with pytest.raises(SubmissionError, match=r"^sbatch refused the job: Invalid partition name specified"):
        launcher.submit(make_spec("true", options=("--partition=h100",)))
    with pytest.raises(SubmissionError, match="^" + wording("refused", why="Unable to open file")):
        launcher.submit(make_spec("true", script=spec.directory / "launch.sh"))


def test_the_job_sees_its_own_allocation_only(slurm32: SlurmCluster, make_spec: SpecMaker) -> None:
    """A pytest that itself runs inside a job hands nothing of that job on."""
    enclosing = {
        "SLURM_JOB_ID": "1",
        "SLURM_NTASKS_PER_NODE": "1",
        "SLURM_GPUS_PER_NODE": "1",
        "SLURM_MEM_PER_NODE": "99999999",
        "SBATCH_GPUS": "h100:512",
        "SBATCH_EXPORT": "NONE",
        "SQUEUE_FORMAT": "%i",
        "SACCT_FORMAT": "JobID",
        "SLURM_CLUSTERS": "elsewhere",
        "SLURM_TIME_FORMAT": "relative",
    }
    launcher = SlurmLauncher(slurm32.environ | enclosing)
    job = launcher.submit(make_spec("env", environment={"MODEL_SIZE": "70b"}, nodes=2))
    assert wait(launcher, [job])[job.spec.row_id].state is JobState.COMPLETED
    output = launcher.batch_output(job)
    assert output is not None
    seen = dict(line.split("=", 1) for line in output.read_text().splitlines() if "=" in line)
    assert (seen["SLURM_JOB_ID"], seen["SLURM_JOB_NUM_NODES"], seen["MODEL_SIZE"]) == (job.id, "2", "70b")
    leaked = {"SLURM_NTASKS_PER_NODE", "SLURM_GPUS_PER_NODE", "SBATCH_GPUS", "SLURM_CLUSTERS"}
    assert not leaked & seen.keys()


def test_gpus_of_a_cluster_that_counts_them(slurm32: SlurmCluster, make_spec: SpecMaker) -> None:
    launcher = SlurmLauncher(slurm32.environ)
    job = launcher.submit(make_spec("echo $CUDA_VISIBLE_DEVICES", options=("--gres=gpu:8", "--mem=50M")))
    assert wait(launcher, [job])[job.spec.row_id].state is JobState.COMPLETED
    output = launcher.batch_output(job)
    assert output is not None
    assert output.read_text() == "0,1,2,3,4,5,6,7\n"


def test_output_that_the_script_put_elsewhere(slurm32: SlurmCluster, make_spec: SpecMaker, tmp_path: Path) -> None:
    launcher = SlurmLauncher(slurm32.environ)
    job = launcher.submit(make_spec("echo here", directives="#SBATCH --output=elsewhere-%j.txt"))
    wait(launcher, [job])
    assert launcher.batch_output(job) == tmp_path / f"elsewhere-{job.id}.txt"


def test_a_job_sent_to_a_named_cluster_is_asked_about_there(slurm32: SlurmCluster, make_spec: SpecMaker) -> None:
    launcher = SlurmLauncher(slurm32.environ)
    job = launcher.submit(make_spec("sleep 60", options=("-M", "gsw", "--mem=50M")))
    assert job.id.isdigit()
    wait(launcher, [job], JobState.RUNNING)
    launcher.cancel([job])
    assert wait(launcher, [job])[job.spec.row_id].state is JobState.CANCELLED


def test_a_submission_whose_answer_is_lost_is_found_by_its_name(
    slurm32: SlurmCluster, make_spec: SpecMaker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The controller has the job, and sbatch does not come back in time to say so."""
    monkeypatch.setattr("pytest_gsw.jobs.slurm.client.COMMAND_TIMEOUT_S", 1.5)
    slow = tmp_path / "bin" / "sbatch"
    slow.parent.mkdir()
    path = slurm32.environ["PATH"]
    slow.write_text(f'#!/bin/bash\nPATH="{path}" sbatch "$@" >/dev/null\nexec sleep 20\n')
    slow.chmod(0o755)
    launcher = SlurmLauncher(slurm32.environ | {"PATH": f"{slow.parent}:{path}"})
    # Python looks a program up on its own PATH unless the environment is given, as it is here.
    job = launcher.submit(make_spec("sleep 60"))
    assert wait(launcher, [job], JobState.RUNNING)[job.spec.row_id].state is JobState.RUNNING
    launcher.cancel([job])


def test_another_job_with_the_same_id_is_not_ours(slurm32: SlurmCluster, make_spec: SpecMaker) -> None:
    launcher = SlurmLauncher(slurm32.environ)
    job = launcher.submit(make_spec("true"))
    wait(launcher, [job])
    renamed = dataclasses.replace(job, spec=dataclasses.replace(job.spec, name="ours"))
    assert launcher.poll([renamed])[job.spec.row_id] == JobStatus(
        JobState.UNKNOWN, "COMPLETED", reason=wording("another job", job=job.id, name=f'"{job.spec.name}"')
    )
    later = dataclasses.replace(job, submitted_s=job.submitted_s + 86400)
    status = launcher.poll([later])[job.spec.row_id]
    assert status.state is JobState.UNKNOWN
    assert status.reason.startswith(wording("another submission", job=job.id, time=86))


def test_how_jobs_end(small: SlurmCluster, make_spec: SpecMaker) -> None:
    """All at once, because Slurm looks for jobs that are over their limit every 30 s only."""
    launcher = SlurmLauncher(small.environ)
    lost = launcher.submit(make_spec("sleep 300", nodes=2, options=("--exclusive", "--mem=50M")))
    nodes = wait(launcher, [lost], JobState.RUNNING)[lost.spec.row_id].nodes
    assert nodes == "n[001-002]"
    slow = launcher.submit(make_spec("sleep 300", time_limit_s=45))
    ours = {
        "exit 7": launcher.submit(make_spec("exit 7")),
        "killed": launcher.submit(make_spec("kill -9 $$")),
        "cancelled": launcher.submit(make_spec("sleep 300")),
    }
    if small.memory_limits:
        hungry = f"{sys.executable} -c 'bytearray(300 << 20)'; exit 0"
        ours["hungry"] = launcher.submit(make_spec(hungry))
    wait(launcher, [slow, ours["cancelled"]], JobState.RUNNING)
    small.run("scontrol", "update", f"JobId={slow.id}", "EndTime=now+1")
    small.run("scancel", ours["cancelled"].id)
    small.kill_slurmd("n001")

    statuses = wait(launcher, [lost, slow, *ours.values()])
    ends = {
        name: (statuses[job.spec.row_id].state, statuses[job.spec.row_id].exit_code, statuses[job.spec.row_id].signal)
        for name, job in {"lost": lost, "slow": slow, **ours}.items()
    }
    # Slurm ended this one's batch shell, and tells now its exit code, 143, now the signal, 15.
    ends["slow"] = (ends["slow"][0], None, 0)
    # Of a node that fell silent there is none to tell: 22.05 has 0:0, and 24.11 has 1:0 or a signal.
    ends["lost"] = (ends["lost"][0], None, None)
    expected = {
        "lost": (JobState.NODE_FAIL, None, None),
        "slow": (JobState.TIMEOUT, None, 0),
        "exit 7": (JobState.FAILED, 7, 0),
        "killed": (JobState.FAILED, 0, 9),
        "cancelled": (JobState.CANCELLED, 0, 0),
        "hungry": (JobState.OUT_OF_MEMORY, 0, 125),
    }
    if not small.memory_limits:  # a cgroup of version 1 that can be written is not everywhere
        del expected["hungry"]
    assert ends == expected
    assert statuses[lost.spec.row_id].nodes == "n[001-002]"
    small.start_slurmd("n001")


def test_a_job_on_a_cluster_that_is_named(small: SlurmCluster, make_spec: SpecMaker) -> None:
    launcher, options = SlurmLauncher(small.environ), ("--mem=50M", "--clusters=gsw")
    job = launcher.submit(make_spec("exit 3", options=options, unique_name=True))
    assert wait(launcher, [job])[job.spec.row_id].exit_code == 3
    small.purge(job.id)
    assert launcher.find(job.spec, job.submitted_s) == job
    assert [one.id for one in launcher.named([job.spec], job.submitted_s) if one.name == job.name] == [job.id]
    running = launcher.submit(make_spec("sleep 300", options=options))
    launcher.cancel([running])
    assert wait(launcher, [running])[running.spec.row_id].state is JobState.CANCELLED


def test_a_refused_job_that_accounting_keeps_is_of_no_row(small: SlurmCluster, make_spec: SpecMaker) -> None:
    """A row on all nodes that is to avoid them, as after a slow first job."""
    launcher, since_s = SlurmLauncher(small.environ), time.time()
    spec = make_spec("true", nodes=4, unique_name=True)
    with pytest.raises(RefusedError):
        launcher.submit(dataclasses.replace(spec, avoided_nodes=("n[001-004]",)))
    command = ("sacct", "-X", "-n", "-P", "-o", "State,NodeList", f"--name={spec.name}")
    small.wait_until(lambda: small.run(*command) != "", "accounting has the refused job", 60)
    found = launcher.named([spec], since_s)  # with jobs of other tests
    assert [one for one in found if one.name == spec.name] == []
    assert launcher.find(spec, since_s) is None
    job = launcher.submit(spec)
    assert launcher.find(spec, job.submitted_s) == job
    assert wait(launcher, [job])[job.spec.row_id].state is JobState.COMPLETED


def test_only_accounting_knows_a_purged_job(small: SlurmCluster, make_spec: SpecMaker) -> None:
    launcher = SlurmLauncher(small.environ)
    job = launcher.submit(make_spec("exit 3"))
    wait(launcher, [job])
    small.purge(job.id)
    status = launcher.poll([job])[job.spec.row_id]
    assert (status.state, status.exit_code) == (JobState.FAILED, 3)
    unheard_of = dataclasses.replace(job, id="999999")
    assert launcher.poll([unheard_of])[job.spec.row_id] == JobStatus(
        JobState.UNKNOWN, reason=wording("job lost", job=999999)
    )


def test_accounting_is_down(small: SlurmCluster, make_spec: SpecMaker) -> None:
    launcher = SlurmLauncher(small.environ)
    small.stop_slurmdbd()
    try:
        job = launcher.submit(make_spec("exit 4"))
        status = wait(launcher, [job])[job.spec.row_id]  # scontrol tells, as long as slurmctld remembers
        assert (status.state, status.exit_code) == (JobState.FAILED, 4)
        assert status.end_s is not None
        small.purge(job.id)
        assert launcher.poll([job])[job.spec.row_id] == JobStatus(
            JobState.UNKNOWN,
            reason=wording("left the queue", why="sacct: ") + wording("bad database", why="Connection refused"),
        )
    finally:
        small.start_slurmdbd()
    assert wait(launcher, [job])[job.spec.row_id].exit_code == 4


def test_the_controller_is_down(small: SlurmCluster, make_spec: SpecMaker) -> None:
    launcher = SlurmLauncher(small.environ)
    job = launcher.submit(make_spec("sleep 20; exit 5"))
    wait(launcher, [job], JobState.RUNNING)
    small.stop_slurmctld()
    try:
        assert launcher.poll([job])[job.spec.row_id] == JobStatus(
            JobState.UNKNOWN, reason="squeue: " + wording("no controller") + " (connect failure)"
        )
        with pytest.raises(JobError) as not_cancelled:
            launcher.cancel([job])
        assert not_cancelled.value.advice == f"scancel -Q -- {job.id}"
    finally:
        small.start_slurmctld()
    status = wait(launcher, [job])[job.spec.row_id]
    assert (status.state, status.exit_code) == (JobState.FAILED, 5)


def test_without_accounting(make_spec: SpecMaker) -> None:
    for cluster in start(2, accounting=False, min_job_age_s=2):
        launcher = SlurmLauncher(cluster.environ)
        jobs = [launcher.submit(make_spec(f"exit {code}")) for code in (0, 6)]
        statuses = wait(launcher, jobs)
        assert [(statuses[job.spec.row_id].state, statuses[job.spec.row_id].exit_code) for job in jobs] == [
            (JobState.COMPLETED, 0),
            (JobState.FAILED, 6),
        ]
        cluster.purge(jobs[0].id)
        assert launcher.poll(jobs[:1])[jobs[0].spec.row_id] == JobStatus(
            JobState.UNKNOWN, reason=wording("no accounting", command=wording("left the queue", why="sacct"))
        )
