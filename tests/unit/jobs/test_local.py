"""Jobs as processes of this machine."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_gsw.errors import RefusedError, SubmissionError
from pytest_gsw.jobs import local
from pytest_gsw.jobs.local import MARK, LocalLauncher, marked, next_job_id
from pytest_gsw.jobs.model import Job, JobSpec
from pytest_gsw.jobs.states import JobState, JobStatus
from tests.messages import wording

SpecMaker = Callable[..., JobSpec]
LauncherMaker = Callable[..., LocalLauncher]


@pytest.fixture
def make_spec(tmp_path: Path) -> SpecMaker:
    numbers = iter(range(1000))

    def make(body: str, gpus: int = 8, nodes: int = 1, **more: Any) -> JobSpec:
        number = next(numbers)
        script = tmp_path / f"launch-{number}.sh"
        script.write_text(body)
        facts = {"environment": {}, "log_glob": "results/*/fp8/70b/8/log-fw_m_70b_8_{job_id}.out", **more}
        return JobSpec(f"row{number or ''}", "gsw-row", script, tmp_path, tmp_path / "stage", nodes, gpus, **facts)

    return make


@pytest.fixture
def make_launcher() -> Iterator[LauncherMaker]:
    launchers: list[LocalLauncher] = []

    def make(slots_gpus: int = 8, **options: Any) -> LocalLauncher:
        launchers.append(LocalLauncher(slots_gpus, **{"kill_grace_s": 0.3, **options}))
        return launchers[-1]

    yield make
    for launcher in launchers:
        launcher.close()


def wait(launcher: LocalLauncher, job: Job, timeout_s: float = 10) -> JobStatus:
    give_up_s = time.monotonic() + timeout_s
    while not (status := launcher.poll([job])[job.spec.row_id]).state.ended:
        assert time.monotonic() < give_up_s, status
        time.sleep(0.01)
    return status


def state(launcher: LocalLauncher, job: Job) -> JobState:
    return launcher.poll([job])[job.spec.row_id].state


def ended(launcher: LocalLauncher, spec: JobSpec) -> tuple[Job, JobStatus]:
    job = launcher.submit(spec)
    return job, wait(launcher, job)


def output(launcher: LocalLauncher, job: Job) -> str:
    path = launcher.batch_output(job)
    assert path is not None
    return path.read_text()


def test_a_job_from_submission_to_its_log(make_launcher: LauncherMaker, make_spec: SpecMaker, tmp_path: Path) -> None:
    launcher = make_launcher()
    spec = make_spec(
        "set -eu; d=$STAGE_PATH/results/24.11/fp8/70b/8; mkdir -p $d; pwd; cat\n"
        "echo step > $d/log-fw_m_70b_8_$SLURM_JOB_ID.out\n",
        environment={"STAGE_PATH": str(tmp_path / "stage")},
    )
    assert launcher.command(spec) == ("bash", str(spec.script))
    job, status = ended(launcher, spec)
    assert (status.state, status.exit_code, status.signal, status.nodes) == (JobState.COMPLETED, 0, 0, "localhost")
    assert status.queue_s is not None
    assert status.run_s is not None
    assert launcher.find_log(job).read_text() == "step\n"
    assert launcher.batch_output(job) == tmp_path / f"slurm-{job.id}.out"
    assert output(launcher, job) == f"{tmp_path}\n"
    assert wait(launcher, job) is status


def test_slurms_variables(make_launcher: LauncherMaker, make_spec: SpecMaker, tmp_path: Path) -> None:
    launcher = make_launcher(64, environ={"PATH": os.environ["PATH"], "SBATCH_GPUS": "h100:8", "SLURM_JOB_ID": "1"})
    job, _ = ended(launcher, make_spec("env", gpus=64, nodes=8))
    seen = dict(line.split("=", 1) for line in output(launcher, job).splitlines())
    assert {name: value for name, value in seen.items() if name.startswith(("SLURM", "SBATCH", "CUDA"))} == {
        "SLURM_CLUSTER_NAME": "local",
        "SLURM_JOB_ID": job.id,
        "SLURM_JOBID": job.id,
        "SLURM_JOB_NAME": "gsw-row",
        "SLURM_JOB_NODELIST": "localhost",
        "SLURM_JOB_NUM_NODES": "8",
        "SLURM_LOCALID": "0",
        "SLURM_NNODES": "8",
        "SLURM_NODEID": "0",
        "SLURM_NODELIST": "localhost",
        "SLURM_NTASKS": "64",
        "SLURM_NTASKS_PER_NODE": "8",
        "SLURM_PROCID": "0",
        "SLURM_SUBMIT_DIR": str(tmp_path),
    }
    assert seen[MARK]


@pytest.mark.parametrize(
    ("body", "state", "exit_code", "number"),
    [
        ("exit 7", JobState.FAILED, 7, 0),
        ("kill -9 $$", JobState.FAILED, 0, 9),
        ("bash -c 'kill -9 $$'; exit $?", JobState.FAILED, 137, 0),
        ("echo CUDA out of memory; kill -9 $$", JobState.FAILED, 0, 9),
        ("echo 'slurmstepd: error: Detected 1 oom-kill event(s)'; exit 1", JobState.FAILED, 1, 0),
        ("echo 'slurmstepd: error: Detected 1 oom-kill event(s)'; exit 137", JobState.OUT_OF_MEMORY, 137, 0),
        ("echo 'Out of memory: Killed process 12 (python)'; kill -9 $$", JobState.OUT_OF_MEMORY, 0, 9),
        (
            "echo '*** STEP 7.0 ON n1 CANCELLED AT 2026-01-01T00:00:00 DUE TO NODE FAILURE'; false",
            JobState.NODE_FAIL,
            1,
            0,
        ),
    ],
)
def test_how_jobs_end(
    make_launcher: LauncherMaker, make_spec: SpecMaker, body: str, state: JobState, exit_code: int, number: int
) -> None:
    _, status = ended(make_launcher(), make_spec(body))
    assert (status.state, status.exit_code, status.signal) == (state, exit_code, number)


@pytest.mark.parametrize("jump_s", [-86400.0, 86400.0])
def test_a_clock_that_is_set_changes_no_duration(
    make_launcher: LauncherMaker, make_spec: SpecMaker, jump_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = time.time
    launcher = make_launcher(16)
    jobs = [launcher.submit(make_spec("sleep 0.1")), launcher.submit(make_spec("sleep 300"))]
    monkeypatch.setattr(time, "time", lambda: clock() + jump_s)
    launcher.cancel(jobs[1:])
    for job in jobs:
        status = wait(launcher, job)
        assert status.queue_s is not None
        assert 0 <= status.queue_s < 3600
        assert status.run_s is not None
        assert 0 < status.run_s < 3600


def test_the_time_limit(make_launcher: LauncherMaker, make_spec: SpecMaker) -> None:
    _, status = ended(make_launcher(), make_spec("trap '' TERM; while :; do sleep 0.05; done", time_limit_s=0.1))
    assert (status.state, status.signal) == (JobState.TIMEOUT, signal.SIGKILL)


def test_gpus_are_a_budget_spent_in_order(make_launcher: LauncherMaker, make_spec: SpecMaker, tmp_path: Path) -> None:
    launcher = make_launcher(8)
    first = launcher.submit(make_spec("until [ -e go ]; do sleep 0.01; done", gpus=4))
    large = launcher.submit(make_spec("true", gpus=8))
    small = launcher.submit(make_spec("true", gpus=4))
    assert [state(launcher, job) for job in (first, large, small)] == [
        JobState.RUNNING,
        JobState.PENDING,
        JobState.PENDING,  # 4 GPUs are free, but the large one came first
    ]
    assert launcher.poll([large])[large.spec.row_id].reason == "Resources"
    (tmp_path / "go").touch()
    assert wait(launcher, small).state is JobState.COMPLETED
    assert state(launcher, large) is JobState.COMPLETED


def test_no_more_processes_than_allowed(make_launcher: LauncherMaker, make_spec: SpecMaker) -> None:
    launcher = make_launcher(8, max_processes=2)
    jobs = [launcher.submit(make_spec("sleep 5", gpus=1)) for _ in range(3)]
    states = [status.state for status in launcher.poll(jobs).values()]
    assert states == [JobState.RUNNING, JobState.RUNNING, JobState.PENDING]


def test_jobs_are_shown_their_own_gpus(make_launcher: LauncherMaker, make_spec: SpecMaker) -> None:
    environ = {"PATH": os.environ["PATH"], "CUDA_VISIBLE_DEVICES": "4,5,6,7"}
    launcher = make_launcher(4, real_gpus=True, environ=environ)
    jobs = [launcher.submit(make_spec("echo $CUDA_VISIBLE_DEVICES; sleep 0.2", gpus=2)) for _ in range(2)]
    for job in jobs:
        wait(launcher, job)
    assert [output(launcher, job) for job in jobs] == ["4,5\n", "6,7\n"]


NODES = ("n1", "n2", "n3", "n4")


@pytest.mark.parametrize(
    ("nodes", "more", "got"),
    [
        (2, {}, "n[1,3]"),
        (1, {"node_list": "n4"}, "n4"),
        (2, {"node_list": "n[3-4]", "excluded_nodes": ("n3",)}, "n[3-4]"),
        (1, {"excluded_nodes": ("n1",), "avoided_nodes": ("n[2-3]",)}, "n4"),
        (5, {}, ""),
    ],
)
def test_the_nodes_of_a_job(
    make_launcher: LauncherMaker, make_spec: SpecMaker, nodes: int, more: dict[str, Any], got: str
) -> None:
    launcher = make_launcher(64, nodes=NODES, down=("n2",))
    job, status = ended(launcher, make_spec("echo $SLURM_JOB_NODELIST", 8 * nodes, nodes, **more))
    assert (status.nodes, output(launcher, job)) == (got, f"{got}\n")


@pytest.mark.parametrize(
    ("nodes", "more", "left"),
    [
        ("3 nodes", {"excluded_nodes": ("n4",)}, "2 nodes of 4"),
        ("4 nodes", {}, "3 nodes of 4"),
        ("1 node", {"node_list": "n2"}, "0 nodes of n2"),
        ("5 nodes", {"node_list": "n[1-5]"}, "3 nodes of n[1-5]"),
    ],
)
def test_too_few_nodes(
    make_launcher: LauncherMaker, make_spec: SpecMaker, nodes: str, more: dict[str, Any], left: str
) -> None:
    with pytest.raises(RefusedError) as refused:
        make_launcher(64, nodes=NODES, down=("n2",)).submit(make_spec("true", nodes=int(nodes[0]), **more))
    assert refused.value.fact == "row " + wording("too few nodes", nodes=nodes, left=left)


def test_jobs_get_the_nodes_with_the_fewest_jobs(make_launcher: LauncherMaker, make_spec: SpecMaker) -> None:
    launcher = make_launcher(64, nodes=NODES)
    jobs = [launcher.submit(make_spec("sleep 5", gpus=8 * nodes, nodes=nodes)) for nodes in (1, 2, 3)]
    assert [status.nodes for status in launcher.poll(jobs).values()] == ["n1", "n[2-3]", "n[1-2,4]"]


def test_a_job_that_is_too_large(make_launcher: LauncherMaker, make_spec: SpecMaker) -> None:
    with pytest.raises(SubmissionError) as refused:
        make_launcher(8).submit(make_spec("true", gpus=64))
    assert str(refused.value) == (
        wording("too few GPUs", gpus=64, there=8) + "\n\nnext       " + wording("larger cluster")
    )


def test_no_script(make_launcher: LauncherMaker, make_spec: SpecMaker, tmp_path: Path) -> None:
    spec = make_spec("true")
    spec.script.unlink()
    with pytest.raises(SubmissionError) as refused:
        make_launcher().submit(spec)
    assert str(refused.value) == (
        f"there is no launch script {spec.script}\n\nnext       is the recipe set up? ls -l {tmp_path}"
    )


def test_a_staging_area_that_cannot_be_written(
    make_launcher: LauncherMaker, make_spec: SpecMaker, tmp_path: Path
) -> None:
    (tmp_path / "stage").write_text("a file")
    with pytest.raises(SubmissionError) as refused:
        make_launcher().submit(make_spec("true"))
    assert refused.value.fact == wording("not startable", why="File exists", path=f"{tmp_path}/stage")


def test_cancel_ends_the_whole_job_and_what_escaped_from_it(
    make_launcher: LauncherMaker, make_spec: SpecMaker, tmp_path: Path
) -> None:
    launcher = make_launcher()
    job = launcher.submit(make_spec("setsid sleep 60 & sleep 60 & touch ready; trap '' TERM; wait; sleep 60"))
    waiting = launcher.submit(make_spec("true"))
    while not (tmp_path / "ready").exists():
        time.sleep(0.01)
    mark = f"{MARK}={launcher._runs[job.id].mark}".encode()
    give_up_s = time.monotonic() + 300
    while len(marked(mark)) < 3 and time.monotonic() < give_up_s:
        time.sleep(0.01)  # what is just being started has no readable environment yet
    assert len(marked(mark)) >= 3
    launcher.cancel([job, waiting])
    statuses = launcher.poll([job, waiting])
    assert [status.state for status in statuses.values()] == [JobState.CANCELLED] * 2
    assert statuses[waiting.spec.row_id].start_s is None
    assert marked(mark) == []
    launcher.cancel([job, waiting])


def test_what_the_script_leaves_behind_is_ended_with_it(make_launcher: LauncherMaker, make_spec: SpecMaker) -> None:
    launcher = make_launcher()
    job, status = ended(launcher, make_spec("sleep 60 & setsid sleep 60 & exit 0"))
    assert status.state is JobState.COMPLETED
    assert marked(f"{MARK}={launcher._runs[job.id].mark}".encode()) == []


def test_close_leaves_nothing_running(make_spec: SpecMaker) -> None:
    launcher = LocalLauncher(8)
    job = launcher.submit(make_spec("sleep 60"))
    launcher.close()
    assert state(launcher, job) is JobState.CANCELLED


def test_output_goes_where_the_session_wants_it(
    make_launcher: LauncherMaker, make_spec: SpecMaker, tmp_path: Path
) -> None:
    launcher = make_launcher(work_directory=tmp_path / "work" / "batch")
    job, _ = ended(launcher, make_spec("echo hello"))
    assert launcher.batch_output(job) == tmp_path / "work" / "batch" / f"slurm-{job.id}.out"
    assert output(launcher, job) == "hello\n"


def test_output_is_not_written_through_a_link(
    make_launcher: LauncherMaker, make_spec: SpecMaker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who may write where the output goes can guess the name."""
    monkeypatch.setattr(local, "next_job_id", lambda _: "77")
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "slurm-77.out").symlink_to(victim)
    _, status = ended(make_launcher(), make_spec("echo hello"))
    assert (status.state, status.reason) == (JobState.FAILED, f"it is a symbolic link: {tmp_path}/slurm-77.out")
    assert victim.read_text() == "precious"


# -- ids ----------------------------------------------------------------------------------------------


def test_ids_are_unique_even_where_the_clock_is_set_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time_ns", lambda: 7_000_000)
    assert next_job_id("0") == "7000"
    assert next_job_id("7000") == "7001"
    assert next_job_id("9000") == "9001"
