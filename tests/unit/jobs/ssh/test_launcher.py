"""Jobs by way of a login node: a stand-in for ``ssh``, and a toy Slurm behind it."""

from __future__ import annotations

import dataclasses
import fcntl
import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_gsw.clusters import Cluster, Submission, ready_cluster
from pytest_gsw.errors import (
    ConfigurationError,
    JobError,
    LogError,
    NotFetchedError,
    NotListedError,
    SchedulerUnreachableError,
    SubmissionError,
    TakenOverError,
)
from pytest_gsw.jobs.layout import JOB_ID, FileFacts
from pytest_gsw.jobs.model import Job, JobSpec, LogBefore
from pytest_gsw.jobs.slurm import client
from pytest_gsw.jobs.slurm.launcher import SlurmLauncher
from pytest_gsw.jobs.ssh import launcher as ssh_launcher
from pytest_gsw.jobs.ssh import login as ssh_login
from pytest_gsw.jobs.ssh import mirror
from pytest_gsw.jobs.ssh.connection import ConnectionLostError
from pytest_gsw.jobs.ssh.launcher import SshLauncher
from pytest_gsw.jobs.ssh.login import Login, key_of
from pytest_gsw.jobs.states import JobState
from tests.ssh.toy_slurm import ToySlurm, write_toy_slurm
from tests.unit.nvidia.started import launch

from .conftest import StandIn

_REFUSED = "ssh: connect to host eos-login port 22: Connection refused"


@pytest.fixture
def slurm(tmp_path: Path, ssh: StandIn) -> Iterator[ToySlurm]:
    """Jobs stay pending until a test ends them."""
    slurm = write_toy_slurm(tmp_path / "slurm", runs=False)
    ssh.profile(f"echo welcome; export PATH={slurm.path} SITE=there SHARED=there")
    yield slurm
    slurm.stop()


@pytest.fixture
def make_cluster(tmp_path: Path) -> Callable[[Path], Cluster]:
    """The cluster of a run, whose directory is given."""
    for name in ("stage", "recipes/tiny"):
        (tmp_path / "cluster" / name).mkdir(parents=True)
    there = tmp_path / "cluster"
    (there / "recipes/tiny/launch.sh").write_text("#!/bin/sh\ntrue\n")
    submission = Submission(host="eos-login")
    given = Cluster("eos", "slurm", stage=f"{there}/stage", recipes=f"{there}/recipes", submission=submission)
    return lambda directory: ready_cluster(given, directory, {}, {})


@pytest.fixture
def cluster(make_cluster: Callable[[Path], Cluster], tmp_path: Path) -> Cluster:
    return make_cluster(tmp_path / "runs" / "run")


@pytest.fixture
def login(cluster: Cluster, slurm: ToySlurm) -> Iterator[Login]:
    login = Login(cluster)
    yield login
    login.close()


@pytest.fixture
def launcher(login: Login, tmp_path: Path) -> SshLauncher:
    return SshLauncher(login, tmp_path / "runs" / "run" / "batch")


@pytest.fixture
def make_spec(cluster: Cluster) -> Callable[..., JobSpec]:
    def make(name: str = "row", **changes: Any) -> JobSpec:
        directory = Path(f"{cluster.recipes}/tiny")
        stage = Path(cluster.stage or "")
        spec = JobSpec(
            name, name, directory / "launch.sh", directory, stage, 1, 8, {}, log_glob=f"results/log_{JOB_ID}.out",
            unique_name=True,
        )  # fmt: skip
        return dataclasses.replace(spec, **changes)

    return make


Spec = Callable[..., JobSpec]


def there(login: Login, path: Path) -> Path:
    """The file of a copy."""
    return Path(login.mirror.there(str(path)))


def write_log(login: Login, job: Job, text: str) -> Path:
    """Write the log of a job on the login node."""
    path = there(login, job.spec.stage) / "results" / f"log_{job.id}.out"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


def key_file(login: Login, spec: JobSpec) -> Path:
    return Path(login.folder) / "keys" / key_of(spec)


# -- Submissions --------------------------------------------------------------------------------------


def test_a_job_from_submission_to_its_log(
    launcher: SshLauncher, login: Login, slurm: ToySlurm, make_spec: Spec
) -> None:
    job = launcher.submit(make_spec())
    assert [submitted.name for submitted in slurm.submissions] == ["row"]
    assert launcher.poll([job])["row"].state is JobState.PENDING
    write_log(login, job, "step 1\n")
    slurm.end(job.id)
    assert launcher.poll([job])["row"].state is JobState.COMPLETED
    log = launcher.find_log(job)
    assert login.mirror.holds(log)
    assert log.read_text() == "step 1\n"
    assert login.shown(str(log)) == f"eos-login:{there(login, log)}"


def test_commands_and_paths_are_those_of_the_login_node(
    launcher: SshLauncher, login: Login, slurm: ToySlurm, make_spec: Spec, tmp_path: Path
) -> None:
    spec = make_spec(
        environment={"STAGE_PATH": str(make_spec().stage)}, batch_output=f"{make_spec().stage}/batch-%j.out"
    )
    job = launcher.submit(spec)
    submitted = json.loads((slurm.directory / "jobs" / job.id).read_text())
    here = str(login.mirror.root)
    assert here not in json.dumps(submitted)
    assert submitted["directory"] == str(tmp_path / "cluster/recipes/tiny")
    assert submitted["script"] == str(tmp_path / "cluster/recipes/tiny/launch.sh")
    assert submitted["output"] == str(tmp_path / f"cluster/stage/batch-{job.id}.out")
    assert here not in login.there(" ".join(launcher.command(spec)))


def test_variables(
    launcher: SshLauncher, slurm: ToySlurm, make_spec: Spec, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A job's are those of the login node, but for what its spec sets and unsets; none of this machine."""
    monkeypatch.setenv("SECRET_TOKEN", "hunter2")
    monkeypatch.setenv("SHARED", "here")
    sbatch = slurm.bin / "sbatch"
    real = sbatch.with_name("real")
    real.mkdir()
    sbatch.rename(real / "sbatch")
    sbatch.write_text(f'#!/bin/bash\nenv >{tmp_path}/env\nexec {real}/sbatch "$@"\n')
    sbatch.chmod(0o755)
    spec = make_spec(environment={"OWN": "own", "STAGE_PATH": str(make_spec().stage)}, unset=("SITE",))
    launcher.submit(spec)
    environment = dict(line.partition("=")[::2] for line in (tmp_path / "env").read_text().splitlines())
    assert environment["OWN"] == "own"
    assert environment["STAGE_PATH"] == str(tmp_path / "cluster/stage")
    assert environment["SHARED"] == "there"
    assert "SITE" not in environment
    assert not {"SECRET_TOKEN", "GSW_TESTS", "PYTEST_CURRENT_TEST"} & environment.keys()
    assert launcher.poll([]) == {}


def test_a_refusal(launcher: SshLauncher, slurm: ToySlurm, make_spec: Spec, login: Login) -> None:
    slurm.turn("sbatch_error", "sbatch: error: Batch job submission failed: Invalid account")
    with pytest.raises(SubmissionError) as caught:
        launcher.submit(make_spec())
    assert not isinstance(caught.value, SchedulerUnreachableError)
    assert str(login.mirror.root) not in str(caught.value)
    assert launcher.find(make_spec(), 0.0) is None
    slurm.turn("sbatch_error")
    assert launcher.submit(make_spec()).id == "1"


def test_a_script_that_is_missing(launcher: SshLauncher, make_spec: Spec, tmp_path: Path) -> None:
    (tmp_path / "cluster/recipes/tiny/launch.sh").unlink()
    with pytest.raises(SubmissionError) as caught:
        launcher.submit(make_spec())
    assert f"{tmp_path}/cluster/recipes/tiny/launch.sh" in str(caught.value)
    assert str(tmp_path / "runs") not in str(caught.value)


# -- A submission whose answer was lost ---------------------------------------------------------------


def test_the_same_answer_by_another_session(
    launcher: SshLauncher, login: Login, slurm: ToySlurm, make_spec: Spec
) -> None:
    old = write_log(login, Job("1", make_spec(), 0.0), "old")
    facts = old.stat()
    job = launcher.submit(make_spec())
    before = (LogBefore("results/log_1.out", 3, facts.st_ino, facts.st_mtime_ns),)
    assert (job.id, job.logs_before) == ("1", before)
    found = launcher.find(make_spec(), 5.0)
    assert found == dataclasses.replace(job, submitted_s=5.0)
    again = launcher.submit(make_spec())
    assert dataclasses.replace(again, submitted_s=job.submitted_s) == job
    assert len(slurm.submissions) == 1
    # A log with its id that was there before has the facts of the file server, not those of its copy.
    slurm.end("1")
    launcher.poll([job])
    log = launcher.find_log(job)
    assert launcher.file_facts(log) == FileFacts(facts.st_ino, facts.st_mtime_ns, facts.st_ctime_ns)
    assert log.stat().st_ino != facts.st_ino


@pytest.mark.parametrize("state", ["none", "refused"])
def test_a_key_without_a_job(launcher: SshLauncher, login: Login, make_spec: Spec, state: str) -> None:
    spec = make_spec()
    login.own()
    if state != "none":
        answer = {"code": 1, "out": "", "err": "sbatch: error: Invalid account", "timed_out": False, "process_id": 1}
        key_file(login, spec).write_text(json.dumps({**answer, "state": state, "before": [], "begun_s": 0.0}))
    assert launcher.find(spec, 0.0) is None


def test_a_key_whose_sbatch_runs(launcher: SshLauncher, login: Login, make_spec: Spec) -> None:
    login.own()
    with Path(f"{key_file(login, make_spec())}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(NotListedError):
            launcher.find(make_spec(), 0.0)


def test_a_key_that_was_begun(launcher: SshLauncher, login: Login, slurm: ToySlurm, make_spec: Spec) -> None:
    """The helper was killed after it began: its job is found by its name."""
    job = launcher.submit(make_spec())
    key_file(login, make_spec()).write_text(json.dumps({"state": "unknown", "begun_s": 0.0}))
    found = launcher.find(make_spec(), 0.0)
    assert found is not None
    assert found.id == job.id
    again = launcher.submit(make_spec())
    assert (again.id, len(slurm.submissions)) == (job.id, 1)


@pytest.mark.parametrize("accounting", [True, False])
def test_a_key_that_was_begun_without_a_job(
    launcher: SshLauncher,
    login: Login,
    slurm: ToySlurm,
    make_spec: Spec,
    monkeypatch: pytest.MonkeyPatch,
    accounting: bool,
) -> None:
    monkeypatch.setattr(ssh_launcher, "LOST_WAIT_S", 0.0)
    monkeypatch.setattr(SlurmLauncher, "lost_wait_s", 0.0)
    slurm.turn("accounting", int(accounting))
    login.own()
    key_file(login, make_spec()).write_text(json.dumps({"state": "unknown", "begun_s": 0.0}))
    if accounting:
        assert launcher.submit(make_spec()).id == "1"
        return
    with pytest.raises(SchedulerUnreachableError):
        launcher.submit(make_spec())
    with pytest.raises(SubmissionError) as caught:
        launcher.find(make_spec(), 0.0)
    assert not isinstance(caught.value, SchedulerUnreachableError)
    assert slurm.submissions == []


def test_a_refusal_that_may_have_left_a_job(
    launcher: SshLauncher, login: Login, slurm: ToySlurm, make_spec: Spec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The controller takes the job, sbatch reports a time-out, and the queue shows the job only later."""
    slurm.turn(
        "sbatch_error_after", "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation"
    )
    slurm.turn("squeue_error", "slurm_load_jobs error: Unable to contact slurm controller (connect failure)")
    slurm.turn("sacct_error", "sacct: error: slurm_persist_conn_open_without_init: failed to open")
    with pytest.raises(SchedulerUnreachableError):
        launcher.submit(make_spec())
    slurm.turn("sbatch_error_after")
    with pytest.raises(SchedulerUnreachableError):
        launcher.find(make_spec(), 0.0)
    slurm.turn("squeue_error")
    slurm.turn("sacct_error")
    found = launcher.find(make_spec(), 0.0)
    assert found is not None
    assert (found.id, len(slurm.submissions)) == ("1", 1)


def test_an_sbatch_that_answers_too_late(
    launcher: SshLauncher, slurm: ToySlurm, make_spec: Spec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "COMMAND_TIMEOUT_S", 1.0)
    slurm.turn("sbatch_sleep_after_s", 600)
    assert launcher.submit(make_spec()).id == "1"
    assert len(slurm.submissions) == 1


def test_an_answer_that_is_lost(
    launcher: SshLauncher, login: Login, slurm: ToySlurm, make_spec: Spec, ssh: StandIn, tmp_path: Path
) -> None:
    """The login node goes away once sbatch has taken the job."""
    login.own()
    arguments = {"command": ["bash", "-c", "echo $PPID"], "changes": {}, "given": None, "timeout_s": 60}
    helper = int(login.connection.request([("run", arguments)]).results[0]["out"])
    sbatch = slurm.bin / "sbatch"
    sbatch.rename(slurm.bin / "scancel2")
    (slurm.bin / "real").mkdir()
    (slurm.bin / "scancel2").rename(slurm.bin / "real" / "sbatch")
    sbatch.write_text(f'#!/bin/bash\n{slurm.bin}/real/sbatch "$@"; kill -KILL {helper}; sleep 0.1\n')
    sbatch.chmod(0o755)
    ssh.before(f"echo '{_REFUSED}' >&2; exit 255")
    with pytest.raises(SchedulerUnreachableError):
        launcher.submit(make_spec())
    with pytest.raises(SchedulerUnreachableError) as caught:
        launcher.find(make_spec(), 0.0)
    assert "refused" in str(caught.value)
    ssh.before("")
    found = None
    while found is None:
        try:
            found = launcher.find(make_spec(), 0.0)
        except NotListedError:  # sbatch still runs
            continue
    assert (found.id, len(slurm.submissions)) == ("1", 1)


def test_another_session_has_the_run(launcher: SshLauncher, login: Login, slurm: ToySlurm, make_spec: Spec) -> None:
    job = launcher.submit(make_spec())
    (Path(login.folder) / "owner.json").write_text(json.dumps({"session": "x", "host": "elsewhere"}))
    with pytest.raises(TakenOverError):
        launcher.submit(make_spec("other"))
    with pytest.raises(TakenOverError):
        launcher.cancel([job])
    assert len(slurm.submissions) == 1
    assert slurm.state(job.id) == "PENDING"
    launcher.close()  # it reports what it could not keep


# -- Polls and logs -----------------------------------------------------------------------------------


def test_polls_without_a_connection(launcher: SshLauncher, slurm: ToySlurm, make_spec: Spec, ssh: StandIn) -> None:
    lines: list[str] = []
    launcher.report_by(lines.append)
    jobs = [launcher.submit(make_spec(name)) for name in ("a", "b")]
    _lose(launcher, ssh)
    for _ in range(2):
        statuses = launcher.poll(jobs)
        assert {name: status.state for name, status in statuses.items()} == dict.fromkeys("ab", JobState.UNKNOWN)
        assert all("eos-login" in status.reason for status in statuses.values())
    ssh.before("")
    assert {status.state for status in launcher.poll(jobs).values()} == {JobState.PENDING}
    assert len(lines) == 2  # lost, and connected again: each once


def _lose(launcher: SshLauncher, ssh: StandIn) -> None:
    ssh.before(f"echo '{_REFUSED}' >&2; exit 255")
    line = launcher._login.connection._line
    assert line is not None
    os.kill(line._process.pid, signal.SIGKILL)
    line._process.wait()


def test_the_log_of_a_running_job_grows(launcher: SshLauncher, login: Login, slurm: ToySlurm, make_spec: Spec) -> None:
    slurm.turn("runs", 1)
    spec = make_spec()
    script = there(login, spec.script)
    script.write_text("#!/bin/sh\nsleep 600\n")
    job = launcher.submit(spec)
    while launcher.poll([job])["row"].state is not JobState.RUNNING:
        pass
    path = write_log(login, job, "step 1\n")
    launcher.poll([job])
    assert launcher.find_log(job).read_text() == "step 1\n"
    with path.open("a") as file:
        file.write("step 2\n")
    requests = login.connection.requests
    launcher.poll([job])
    assert launcher.find_log(job).read_text() == "step 1\nstep 2\n"
    assert login.connection.requests == requests + 1  # one for the state of all jobs, and their logs


def test_requests_of_an_hour(launcher: SshLauncher, login: Login, slurm: ToySlurm, make_spec: Spec) -> None:
    slurm.turn("runs", 1)
    there(login, make_spec().script).write_text("#!/bin/sh\nsleep 600\n")
    jobs = [launcher.submit(make_spec(name)) for name in ("a", "b", "c")]
    while {status.state for status in launcher.poll(jobs).values()} != {JobState.RUNNING}:
        pass
    requests, polls = login.connection.requests, 20
    for step in range(polls):
        for job in jobs:
            write_log(login, job, "step\n" * step)
        launcher.poll(jobs)
        assert launcher.named_in_poll([job.spec for job in jobs]) is not None
        assert [launcher.find_log(job).read_text() for job in jobs] == ["step\n" * step] * 3
    polls_per_hour = 3600 / launcher.poll_interval_s
    assert (login.connection.requests - requests) / polls * polls_per_hour <= 240


def test_a_log_is_not_there_until_it_is_whole(
    launcher: SshLauncher, login: Login, slurm: ToySlurm, make_spec: Spec, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = launcher.submit(make_spec())
    write_log(login, job, "step 1\n")
    slurm.end(job.id)
    monkeypatch.setattr(Login, "read", _fail_to_read)
    assert launcher.poll([job])["row"].state is JobState.COMPLETED
    with pytest.raises(NotFetchedError) as caught:
        launcher.find_log(job)
    assert "eos-login" in str(caught.value)
    monkeypatch.undo()
    assert launcher.find_log(job).read_text() == "step 1\n"


def _fail_to_read(*_: object) -> None:
    raise ConnectionLostError("cut")


def test_a_log_that_cannot_be_written_here(
    launcher: SshLauncher, login: Login, slurm: ToySlurm, make_spec: Spec, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    job = launcher.submit(make_spec())
    write_log(login, job, "step 1\n")
    slurm.end(job.id)
    write = mirror._write
    monkeypatch.setattr(mirror, "_write", fail)
    launcher.poll([job])
    with pytest.raises(LogError):
        launcher.find_log(job)
    monkeypatch.setattr(mirror, "_write", write)
    assert launcher.find_log(job).read_text() == "step 1\n"


def test_other_output_that_cannot_be_written_here(
    launcher: SshLauncher, login: Login, slurm: ToySlurm, make_spec: Spec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log is here, and the errors next to it, which may say why the job is no good, are not."""
    job = launcher.submit(make_spec())
    log = write_log(login, job, "step 1\n")
    log.with_name(f"error-{job.id}.err").write_text("NCCL error\n")
    slurm.end(job.id)
    write = mirror._write

    def fail(copy: Any, *arguments: Any) -> None:
        if copy.path.suffix == ".err":
            raise OSError(28, "No space left on device")
        write(copy, *arguments)

    monkeypatch.setattr(mirror, "_write", fail)
    launcher.poll([job])
    with pytest.raises(LogError, match="No space left"):
        launcher.find_log(job)
    monkeypatch.setattr(mirror, "_write", write)
    assert launcher.find_log(job).read_text() == "step 1\n"


def test_a_job_that_ended_in_an_earlier_session(launcher: SshLauncher, login: Login, make_spec: Spec) -> None:
    """It is not polled again."""
    job = Job("7", make_spec(), 0.0)
    write_log(login, job, "step 1\n")
    assert launcher.find_log(job).read_text() == "step 1\n"


def test_a_log_that_goes_away_while_it_is_read(
    launcher: SshLauncher, login: Login, make_spec: Spec, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Job("7", make_spec(), 0.0)
    log = write_log(login, job, "step 1\n")
    (log.parent / "z-7.err").write_text("x" * (5 << 20))
    receive = mirror.Mirror.receive

    def remove_then_receive(self: mirror.Mirror, *arguments: Any) -> None:
        (log.parent / "z-7.err").unlink(missing_ok=True)
        receive(self, *arguments)

    monkeypatch.setattr(mirror.Mirror, "receive", remove_then_receive)
    assert launcher.find_log(job).read_text() == "step 1\n"


# -- Cancellation, and what is checked first ----------------------------------------------------------


def test_cancel(launcher: SshLauncher, slurm: ToySlurm, make_spec: Spec, ssh: StandIn) -> None:
    jobs = [launcher.submit(make_spec(name)) for name in ("a", "b")]
    launcher.cancel(jobs[:1])
    assert [slurm.state(job.id) for job in jobs] == ["CANCELLED", "PENDING"]
    _lose(launcher, ssh)
    with pytest.raises(JobError) as caught:
        launcher.cancel(jobs[1:])
    assert "2 b" in str(caught.value)
    assert caught.value.advice.startswith("ssh eos-login ")
    assert "scancel" in caught.value.advice


def test_what_is_missing_is_found_first(
    launcher: SshLauncher, login: Login, slurm: ToySlurm, make_spec: Spec, tmp_path: Path
) -> None:
    spec = make_spec()
    assert launcher.unready([spec]) == {}
    (tmp_path / "cluster/file").write_text("x")
    bad = make_spec("bad", stage=login.mirror.here(tmp_path / "cluster/file/stage"))
    errors = launcher.unready([spec, bad])
    assert list(errors) == ["bad"]
    assert f"eos-login:{tmp_path}/cluster/file" in str(errors["bad"])


def test_a_program_of_a_virtual_environment(
    launcher: SshLauncher, login: Login, make_spec: Spec, tmp_path: Path
) -> None:
    program = tmp_path / "venv" / "bin" / "llmb-run"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    spec = make_spec(launch=launch("llmb-run"))
    assert "llmb-run" in launcher.unready([spec])["row"].fact
    assert (
        launcher.unready([make_spec(launch=launch("llmb-run"), environment={"VIRTUAL_ENV": f"{tmp_path}/venv"})]) == {}
    )


def test_a_login_node_out_of_reach_at_the_start(
    cluster: Cluster, ssh: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssh_login, "_BEGIN_S", 0.2)
    ssh.before(f"echo '{_REFUSED}' >&2; exit 255")
    login = Login(cluster)
    with pytest.raises(ConfigurationError):
        login.node()
    starts = ssh.starts
    assert starts > 1
    ssh.before("echo 'Host key verification failed.' >&2; exit 255")
    with pytest.raises(ConfigurationError, match="host key"):
        login.node()
    assert ssh.starts == starts + 1  # that does not pass by itself
    login.close()


def test_a_folder_that_another_login_node_does_not_see(
    launcher: SshLauncher, login: Login, make_spec: Spec, slurm: ToySlurm, ssh: StandIn
) -> None:
    launcher.submit(make_spec())
    _lose(launcher, ssh)
    ssh.before("")
    Path(login.folder).rename(f"{login.folder}.hidden")
    with pytest.raises(SchedulerUnreachableError, match="folder"):
        launcher.submit(make_spec("other"))
    assert len(slurm.submissions) == 1


# -- Recipes and the run's own files ------------------------------------------------------------------


def test_a_recipe_of_this_machine(
    launcher: SshLauncher, login: Login, slurm: ToySlurm, make_spec: Spec, tmp_path: Path
) -> None:
    recipe = tmp_path / "site" / "tiny"
    recipe.mkdir(parents=True)
    (recipe / "launch.sh").write_text("#!/bin/sh\ntrue\n")
    job = launcher.submit(make_spec(script=recipe / "launch.sh", directory=recipe))
    submitted = json.loads((slurm.directory / "jobs" / job.id).read_text())
    assert submitted["directory"].startswith(login.folder)
    assert (Path(submitted["script"])).read_text() == "#!/bin/sh\ntrue\n"


def test_the_run_is_kept_for_another_machine(
    make_cluster: Callable[[Path], Cluster], login: Login, tmp_path: Path
) -> None:
    own = tmp_path / "runs" / "run"
    (own / "records").mkdir(parents=True)
    (own / "journal.jsonl").write_text("é\n")
    (own / "records" / "a.json").write_text("{}")
    (own / "page.html").write_text("x")
    login.own()
    with (own / "journal.jsonl").open("a") as file:
        file.write("two\n")
    login.keep_with_next()
    login.node()
    login.connection.call("hello")
    assert login._changed_files()[0] == {}
    elsewhere = Login(make_cluster(tmp_path / "elsewhere" / "run"))
    try:
        assert elsewhere.fetch_run()
        fetched = tmp_path / "elsewhere" / "run"
        assert (fetched / "journal.jsonl").read_text() == "é\ntwo\n"
        assert (fetched / "records" / "a.json").read_text() == "{}"
        assert not (fetched / "page.html").exists()
        other = Login(make_cluster(tmp_path / "elsewhere" / "none"))
        assert not other.fetch_run()
        other.close()
    finally:
        elsewhere.close()
    # Of its own machine the files are the newer ones.
    (own / "journal.jsonl").write_text("newer")
    assert not login.fetch_run()
    assert (own / "journal.jsonl").read_text() == "newer"


def test_each_look_at_a_log_after_the_first_reads_it_again(
    launcher: SshLauncher, login: Login, slurm: ToySlurm, make_spec: Spec
) -> None:
    """Two looks that find the same must not have found the same copy; jobs that are awaited share a request."""
    jobs = [launcher.submit(dataclasses.replace(make_spec(), row_id=name, name=f"row-{name}")) for name in "ab"]
    logs = [write_log(login, job, "step 1\n") for job in jobs]
    for job in jobs:
        slurm.end(job.id)
    launcher.poll(jobs)
    requests = login.connection.requests
    assert [launcher.find_log(job).read_text() for job in jobs] == ["step 1\n"] * 2
    assert login.connection.requests == requests  # as the poll has read them
    for number in range(3):
        for log in logs:
            log.write_text(f"step 1\n{'late ' * number}")
        for job in jobs:
            launcher.find_log(job)  # perhaps by the read for the other one, after the last look
        assert [launcher.find_log(job).read_text() for job in jobs] == [f"step 1\n{'late ' * number}"] * 2
    assert login.connection.requests <= requests + 9


def test_last_words_behind_a_whole_log_are_read_at_the_end(
    launcher: SshLauncher, login: Login, slurm: ToySlurm, make_spec: Spec
) -> None:
    job = launcher.submit(make_spec())
    log = write_log(login, job, "step 1\n")
    slurm.end(job.id)
    launcher.poll([job])
    copy = launcher.find_log(job)
    log.write_text("step 1\nCUDA error\n")
    launcher.refresh([job])
    assert copy.read_text() == "step 1\nCUDA error\n"
