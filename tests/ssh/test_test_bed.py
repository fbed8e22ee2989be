"""The test bed itself: the login node, the link to it, the toy Slurm, and the namespace."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pwd
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pytest_gsw.errors import SchedulerUnreachableError, SubmissionError
from pytest_gsw.jobs.model import Job, JobSpec
from pytest_gsw.jobs.slurm import client
from pytest_gsw.jobs.slurm.launcher import SlurmLauncher
from pytest_gsw.jobs.states import JobState, JobStatus

from .link import Link
from .login_node import HOST, Connections, LoginNode, write_ssh_config
from .namespaces import hidden
from .toy_slurm import ToySlurm, write_toy_slurm

_TIMEOUT_S = 60
#: The exit code of ssh for an error of its own.
_SSH_FAILED = 255

StartNode = Callable[..., LoginNode]
StartLink = Callable[..., Link]
Done = subprocess.CompletedProcess[str]


def ssh(config: Path, command: str, *options: str, given: str = "") -> Done:
    return subprocess.run(
        ["ssh", "-F", str(config), *options, HOST, command],
        input=given, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False,
    )  # fmt: skip


@contextlib.contextmanager
def start_ssh(config: Path, command: str, *options: str) -> Iterator[subprocess.Popen[str]]:
    """A command that waits; its output and input are pipes."""
    with subprocess.Popen(
        ["ssh", "-F", str(config), *options, HOST, command],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            process.kill()


def until(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + _TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


def is_alive(process: int) -> bool:
    """False for one that has ended, too, and waits for its parent: some containers' first process is slow to ask."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def through(link: Link, directory: Path, *nodes: LoginNode) -> Path:
    return write_ssh_config(directory / "client" / "ssh_config", link.port, *nodes)


# -- The login node ---------------------------------------------------------------------------------


def test_a_command_through_ssh(start_node: StartNode, tmp_path: Path) -> None:
    environment = {"SLURM_CONF": '/etc/"a b"/slurm.conf', "PATH": "/opt/slurm/bin:/usr/bin:/bin"}
    node = start_node(environment=environment, home=tmp_path)
    done = ssh(node.ssh_config, "cat; echo $SLURM_CONF $PATH $HOME; echo problem >&2; exit 7", given="frame\n")
    assert (done.returncode, done.stderr) == (7, "problem\n")
    assert done.stdout == f"frame\n{environment['SLURM_CONF']} {environment['PATH']} {tmp_path}\n"
    until(lambda: node.connections() == Connections(0, 1))


def test_start_up_files_of_bash_are_read(start_node: StartNode, tmp_path: Path) -> None:
    if Path(pwd.getpwuid(os.geteuid()).pw_shell).name != "bash":
        pytest.skip("the login shell is not bash")
    (tmp_path / ".bashrc").write_text("echo quota\n")
    (tmp_path / ".bash_profile").write_text("echo welcome; PATH=/opt/slurm/bin:$PATH\n")
    node = start_node(home=tmp_path)
    assert ssh(node.ssh_config, "echo answer").stdout == "quota\nanswer\n"
    quota, welcome, path = ssh(node.ssh_config, "bash -lc 'echo $PATH'").stdout.splitlines()
    assert (quota, welcome, path.split(":")[0]) == ("quota", "welcome", "/opt/slurm/bin")


def test_the_program_beside_the_configuration(start_node: StartNode) -> None:
    node = start_node()
    path = f"{node.ssh_config.parent / 'bin'}:{os.environ['PATH']}"
    done = subprocess.run(["ssh", HOST, "echo", "x"], env={**os.environ, "PATH": path}, capture_output=True, check=True)
    assert done.stdout == b"x\n"


@pytest.mark.parametrize(("sessions", "code"), [(1, _SSH_FAILED), (10, 0)])
def test_max_sessions(start_node: StartNode, sessions: int, code: int) -> None:
    node = start_node(max_sessions=sessions)
    shared = ("-o", f"ControlPath={node.directory}/control")
    with start_ssh(node.ssh_config, "echo ready; cat", "-M", *shared) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "ready\n"
        # Refused there, ssh would make a connection of its own; that one fails.
        done = ssh(node.ssh_config, "true", *shared, "-o", "ProxyCommand=false")
        assert done.returncode == code, done.stderr
        assert node.connections().now == 1
        first.communicate("")


def test_max_startups(start_node: StartNode, start_link: StartLink, tmp_path: Path) -> None:
    node = start_node(max_startups="1")
    link = start_link(node)
    config = through(link, tmp_path, node)
    link.freeze()
    with start_ssh(config, "echo late") as first:
        # The node has the connection, which cannot log in.
        until(lambda: node.connections().now == 1)
        assert ssh(node.ssh_config, "true").returncode == _SSH_FAILED
        link.thaw()
        assert first.communicate()[0] == "late\n"


def test_another_host_key(start_node: StartNode) -> None:
    node = start_node()
    with start_ssh(node.ssh_config, "echo ready; cat") as open_before:
        assert open_before.stdout is not None
        assert open_before.stdout.readline() == "ready\n"
        node.change_host_key()
        assert ssh(node.ssh_config, "true").returncode == _SSH_FAILED
        assert open_before.communicate("still there")[0] == "still there"


def test_a_node_that_is_down_and_up_again(start_node: StartNode) -> None:
    node = start_node()
    with start_ssh(node.ssh_config, "echo ready; cat") as lost:
        assert lost.stdout is not None
        assert lost.stdout.readline() == "ready\n"
        node.stop()
        assert lost.wait(_TIMEOUT_S) == _SSH_FAILED
    assert ssh(node.ssh_config, "true").returncode == _SSH_FAILED
    node.start()
    assert ssh(node.ssh_config, "true").returncode == 0


def test_connections_are_cut_while_the_node_is_up(start_node: StartNode, tmp_path: Path) -> None:
    node = start_node()
    end = tmp_path / "end"
    with start_ssh(node.ssh_config, f"echo ready; cat; touch {end}") as lost:
        assert lost.stdout is not None
        assert lost.stdout.readline() == "ready\n"
        node.cut()
        assert lost.wait(_TIMEOUT_S) == _SSH_FAILED
    until(end.exists)  # the command got the end of its input
    assert ssh(node.ssh_config, "true").returncode == 0


def test_nothing_is_left_of_a_node(start_node: StartNode) -> None:
    with LoginNode() as node:
        # Neither the end of its input nor SIGHUP ends it.
        done = ssh(node.ssh_config, "nohup setsid sleep 600 >/dev/null 2>&1 & echo $!")
        process = int(done.stdout)
        assert is_alive(process)
        directory = node.directory
    assert not is_alive(process)
    assert not directory.exists()


# -- The link ---------------------------------------------------------------------------------------


def test_a_command_through_the_link(start_node: StartNode, start_link: StartLink, tmp_path: Path) -> None:
    node = start_node()
    link = start_link(node)
    config = through(link, tmp_path, node)
    assert ssh(config, "cat", given="x" * 100_000).stdout == "x" * 100_000
    until(lambda: link.traffic.now == 0)
    assert (link.traffic.made, link.traffic.most) == (1, 1)
    assert min(link.traffic.to_server, link.traffic.to_client) > 100_000


@pytest.mark.parametrize("side", ["to_server", "to_client"])
def test_a_link_that_is_cut_within_data(
    start_node: StartNode, start_link: StartLink, tmp_path: Path, side: str
) -> None:
    node = start_node()
    link = start_link(node)
    config = through(link, tmp_path, node)
    with start_ssh(config, f"echo ready; tee {tmp_path}/received") as cut:
        assert cut.stdin is not None
        assert cut.stdout is not None
        assert cut.stdout.readline() == "ready\n"
        before = getattr(link.traffic, side)
        link.cut_after(**{side: 5000})
        cut.stdin.write("x" * 20_000)
        cut.stdin.flush()
        assert cut.wait(_TIMEOUT_S) == _SSH_FAILED
        assert getattr(link.traffic, side) == before + 5000
    until(lambda: link.traffic.now == 0)
    assert ssh(config, "echo again").stdout == "again\n"


def test_an_answer_that_is_lost(start_node: StartNode, start_link: StartLink, tmp_path: Path) -> None:
    node = start_node()
    link = start_link(node)
    take = f"echo ready; read line; echo $line > {tmp_path}/taken; echo $line"
    with start_ssh(through(link, tmp_path, node), take) as cut:
        assert cut.stdin is not None
        assert cut.stdout is not None
        assert cut.stdout.readline() == "ready\n"
        link.cut_after(to_client=0)
        cut.stdin.write("job\n")
        cut.stdin.flush()
        assert cut.wait(_TIMEOUT_S) == _SSH_FAILED
        assert cut.stdout.read() == ""
    assert (tmp_path / "taken").read_text() == "job\n"


def test_a_link_that_refuses_and_accepts_again(start_node: StartNode, start_link: StartLink, tmp_path: Path) -> None:
    node = start_node()
    link = start_link(node)
    config = through(link, tmp_path, node)
    with start_ssh(config, "echo ready; cat") as open_before:
        assert open_before.stdout is not None
        assert open_before.stdout.readline() == "ready\n"
        link.down()
        assert ssh(config, "true").returncode == _SSH_FAILED
        assert link.traffic.made == 1
        link.up()
        assert ssh(config, "true").returncode == 0
        assert open_before.communicate("x")[0] == "x"


def test_a_link_that_is_frozen(start_node: StartNode, start_link: StartLink, tmp_path: Path) -> None:
    node = start_node()
    link = start_link(node)
    config = through(link, tmp_path, node)
    with start_ssh(config, "echo ready; cat") as waiting:
        assert waiting.stdin is not None
        assert waiting.stdout is not None
        assert waiting.stdout.readline() == "ready\n"
        link.freeze(new=False)
        before = link.traffic
        waiting.stdin.write("late\n")
        waiting.stdin.close()
        assert ssh(config, "true").returncode == 0  # a connection that is made now
        assert link.traffic.made == before.made + 1
        until(lambda: (link.traffic.now, node.connections().now) == (1, 1))
        link.thaw()
        assert waiting.stdout.read() == "late\n"
        assert waiting.wait(_TIMEOUT_S) == 0


def test_two_nodes_behind_one_name(start_node: StartNode, start_link: StartLink, tmp_path: Path) -> None:
    nodes = [start_node(environment={"NODE": name}) for name in ("login1", "login2")]
    link = start_link(*nodes)
    config = through(link, tmp_path, *nodes)
    assert [ssh(config, "echo $NODE").stdout for _ in range(3)] == ["login1\n", "login2\n", "login1\n"]


# -- The toy Slurm, by the plugin's own launcher ----------------------------------------------------


@pytest.fixture
def launcher(toy_slurm: ToySlurm) -> SlurmLauncher:
    return SlurmLauncher({"PATH": toy_slurm.path})


@pytest.fixture
def make_spec(tmp_path: Path) -> Callable[..., JobSpec]:
    def make(name: str, body: str = "true", **changes: object) -> JobSpec:
        script = tmp_path / f"{name}.sh"
        script.write_text(f"#!/bin/sh\n#SBATCH --ntasks-per-node=8\n{body}\n")
        spec = JobSpec(name, name, script, tmp_path, tmp_path / "stage", 2, 16, {}, options=("--mem=50M",))
        return dataclasses.replace(spec, **changes)  # type: ignore[arg-type]

    return make


def wait(launcher: SlurmLauncher, jobs: Sequence[Job], *states: JobState) -> dict[str, JobStatus]:
    """The statuses once each job is in one of the states."""
    statuses: dict[str, JobStatus] = {}

    def are_in_them() -> bool:
        statuses.update(launcher.poll(jobs))
        return all(statuses[job.spec.row_id].state in states for job in jobs)

    until(are_in_them)
    return statuses


def test_a_job_from_submission_to_its_end(
    launcher: SlurmLauncher, toy_slurm: ToySlurm, make_spec: Callable[..., JobSpec], tmp_path: Path
) -> None:
    variables = "$SLURM_JOB_ID $SLURM_JOB_NAME $SLURM_JOB_NUM_NODES $SLURM_NTASKS_PER_NODE $OWN"
    output = f"{tmp_path}/batch-%j.out"
    spec = make_spec("good", f"echo {variables}; pwd", environment={"OWN": "x"}, batch_output=output)
    jobs = [launcher.submit(spec), launcher.submit(make_spec("bad", "exit 3", unique_name=True))]
    ended = wait(launcher, jobs, JobState.COMPLETED, JobState.FAILED)
    good, bad = ended["good"], ended["bad"]
    assert (good.state, good.exit_code, good.nodes, good.steps) == (JobState.COMPLETED, 0, "n001,n002", ())
    assert good.submit_s is not None
    assert good.start_s is not None
    assert good.end_s is not None
    assert jobs[0].submitted_s - 1 <= good.submit_s <= good.start_s <= good.end_s
    assert (bad.state, bad.exit_code) == (JobState.FAILED, 3)
    assert (tmp_path / "batch-1.out").read_text() == f"1 good 2 8 x\n{tmp_path}\n"
    assert launcher.batch_output(jobs[1]) == tmp_path / "slurm-2.out"
    assert [(job.id, job.name) for job in toy_slurm.submissions] == [("1", "good"), ("2", "bad")]
    assert toy_slurm.twice == []


def test_a_job_is_found_by_its_name_and_cancelled(
    launcher: SlurmLauncher, toy_slurm: ToySlurm, make_spec: Callable[..., JobSpec]
) -> None:
    specs = [make_spec(name, "sleep 600") for name in ("a", "b")]
    jobs = [launcher.submit(spec) for spec in specs]
    assert [launcher.find(spec, jobs[0].submitted_s) for spec in specs] == [
        dataclasses.replace(job, submitted_s=jobs[0].submitted_s) for job in jobs
    ]
    assert [job.id for job in launcher.named(specs, jobs[0].submitted_s)] == ["1", "2"]
    wait(launcher, jobs, JobState.RUNNING)
    launcher.cancel(jobs[:1])
    statuses = launcher.poll(jobs)
    assert (statuses["a"].state, statuses["b"].state) == (JobState.CANCELLED, JobState.RUNNING)
    # The controller forgets the ended job; accounting has it.
    toy_slurm.turn("min_job_age_s", -1)
    assert launcher.poll(jobs)["a"].state is JobState.CANCELLED
    found = launcher.find(specs[0], jobs[0].submitted_s)
    assert found is not None
    assert found.id == "1"
    assert toy_slurm.state("2") == "RUNNING"


def test_jobs_that_do_not_run_wait(tmp_path: Path, make_spec: Callable[..., JobSpec]) -> None:
    slurm = write_toy_slurm(tmp_path / "waiting", runs=False)
    launcher = SlurmLauncher({"PATH": slurm.path})
    jobs = [launcher.submit(make_spec(name)) for name in ("a", "b")]
    assert launcher.poll(jobs)["a"].reason == "Resources"
    slurm.end("2", "FAILED", 5)
    statuses = launcher.poll(jobs)
    assert (statuses["a"].state, statuses["b"].state, statuses["b"].exit_code) == (JobState.PENDING, JobState.FAILED, 5)


def test_knobs(
    launcher: SlurmLauncher,
    toy_slurm: ToySlurm,
    make_spec: Callable[..., JobSpec],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    toy_slurm.turn("sbatch_error", "sbatch: error: Batch job submission failed: Invalid account")
    with pytest.raises(SubmissionError):
        launcher.submit(make_spec("refused"))
    toy_slurm.turn("sbatch_error")
    assert toy_slurm.submissions == []
    lost = "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation"
    toy_slurm.turn("sbatch_error_after", lost)
    assert launcher.submit(make_spec("taken")).id == "1"  # found by its name
    toy_slurm.turn("sbatch_error_after")
    monkeypatch.setattr(client, "COMMAND_TIMEOUT_S", 2.0)
    toy_slurm.turn("sbatch_sleep_after_s", 600)
    assert launcher.submit(make_spec("silent")).id == "2"
    toy_slurm.turn("sbatch_sleep_after_s")
    toy_slurm.turn("sbatch_sleep_before_s", 600)
    with pytest.raises(SchedulerUnreachableError):
        launcher.submit(make_spec("late"))
    toy_slurm.turn("squeue_error", "slurm_load_jobs error: Unable to contact slurm controller (connect failure)")
    with pytest.raises(SchedulerUnreachableError):
        launcher.find(make_spec("late"), 0.0)
    assert [job.name for job in toy_slurm.submissions] == ["taken", "silent"]


def test_submissions_at_once(toy_slurm: ToySlurm, make_spec: Callable[..., JobSpec]) -> None:
    toy_slurm.turn("runs", 0)
    launcher = SlurmLauncher({"PATH": toy_slurm.path})
    with ThreadPoolExecutor(8) as pool:
        jobs = list(pool.map(launcher.submit, [make_spec(f"row{number}") for number in range(100)]))
    assert {job.spec.name: job.id for job in jobs} == {job.name: job.id for job in toy_slurm.submissions}
    assert len({job.id for job in jobs}) == 100
    assert {status.state for status in launcher.poll(jobs).values()} == {JobState.PENDING}
    launcher.cancel(jobs)
    assert {status.state for status in launcher.poll(jobs).values()} == {JobState.CANCELLED}


def test_the_toy_slurm_on_the_node(node: LoginNode, toy_slurm: ToySlurm, tmp_path: Path) -> None:
    (tmp_path / "job.sh").write_text("#!/bin/sh\necho done\n")
    assert ssh(node.ssh_config, f"cd {tmp_path} && sbatch --parsable -J row job.sh").stdout == "1\n"
    until(lambda: toy_slurm.state("1") == "COMPLETED")
    assert (tmp_path / "slurm-1.out").read_text() == "done\n"


# -- The namespace ----------------------------------------------------------------------------------


@pytest.mark.usefixtures("_can_hide")
def test_a_directory_is_hidden_from_a_command(node: LoginNode, tmp_path: Path) -> None:
    stage = tmp_path / "stage"
    stage.mkdir()
    (stage / "log").write_text("log\n")
    look = "import os, sys; print(os.listdir(sys.argv[1])); open(sys.argv[1] + '/x', 'w')"
    done = subprocess.run(
        hidden(stage, [sys.executable, "-c", look, str(stage)]), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, "[]\n")
    assert "Read-only file system" in done.stderr
    # The login node sees it, asked from there.
    there = hidden(stage, ["ssh", "-F", str(node.ssh_config), HOST, f"cat {stage}/log"])
    assert subprocess.run(there, capture_output=True, text=True, check=True).stdout == "log\n"
    assert [path.name for path in stage.iterdir()] == ["log"]
