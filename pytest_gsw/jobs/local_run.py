"""One job as a process of this machine, from the queue to its end."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_gsw.common.files import open_own
from pytest_gsw.errors import JobError
from pytest_gsw.jobs.model import Job, JobState, JobStatus

#: Set for every local job, so that a launch script can tell and does without srun; and by its value
#: every process of a job is found again, even one that left the job's process group.
MARK = "GSW_LOCAL"

HOST = "localhost"
#: A process that hangs in a driver survives even SIGKILL, and is not waited for any longer than this.
KILL_PATIENCE_S = 10.0
_MARKED_PATIENCE_S = 2.0
_KILLED_EXIT_CODE = 128 + signal.SIGKILL

# What the kernel and slurmstepd say. Being killed alone does not tell who did it, and why.
_OUT_OF_MEMORY = re.compile(
    rb"oom[-_]kill|out of memory: killed process|exceeded (?:job |step )?memory limit", re.IGNORECASE
)
_OUTPUT_END_BYTES = 1 << 16


@dataclass
class LocalRun:
    """One job's way from the queue to its end."""

    job: Job
    output: Path
    mark: str
    #: How long it may take to end when it is asked to.
    kill_grace_s: float
    process: subprocess.Popen[bytes] | None = None
    slots: tuple[int, ...] = ()
    start_s: float | None = None
    #: When its time limit is up, by the monotonic clock.
    deadline_s: float | None = None
    #: As what it is being ended, and when asking turns into killing.
    ending: JobState | None = None
    kill_at_s: float = 0.0
    #: How it ended, once it has.
    end: JobStatus | None = None

    @property
    def status(self) -> JobStatus:
        """What has become of it."""
        if self.end is not None:
            return self.end
        if self.process is None:
            return JobStatus(JobState.PENDING, "PENDING", reason="Resources", submit_s=self.job.submitted_s)
        return JobStatus(JobState.RUNNING, "RUNNING", nodes=HOST, submit_s=self.job.submitted_s, start_s=self.start_s)

    def start(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start its process; what cannot be started has failed."""
        spec = self.job.spec
        self.start_s = time.time()
        try:
            with open(open_own(self.output, os.O_WRONLY), "wb") as output:  # noqa: PTH123 - a descriptor has no path
                output.truncate()  # only now is it known to be the user's own
                self.process = subprocess.Popen(
                    command,
                    cwd=spec.directory,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
        except OSError as error:
            self._finish(JobState.FAILED, exit_code=1, reason=f"{error.strerror}: {error.filename}")
            return
        if spec.time_limit_s is not None:
            self.deadline_s = time.monotonic() + spec.time_limit_s

    def watch(self) -> None:
        """Take one step of its life, without waiting."""
        if self.process is None or self.end is not None:
            return
        now_s = time.monotonic()
        if _has_exited(self):
            self._reap(self.process)
        elif self.ending is not None and now_s >= self.kill_at_s:
            _signal(self, signal.SIGKILL)
        elif self.ending is None and self.deadline_s is not None and now_s >= self.deadline_s:
            self._ask_to_end(JobState.TIMEOUT)

    def cancel(self) -> None:
        """Ask it to end; one that waits has ended with that."""
        if self.end is not None:
            return
        if self.process is None:
            self.end = JobStatus(JobState.CANCELLED, "CANCELLED", 0, submit_s=self.job.submitted_s, end_s=time.time())
        elif not _has_exited(self):
            self._ask_to_end(JobState.CANCELLED)

    def _ask_to_end(self, state: JobState) -> None:
        self.ending = state
        self.kill_at_s = time.monotonic() + self.kill_grace_s
        _signal(self, signal.SIGTERM)

    def _reap(self, process: subprocess.Popen[bytes]) -> None:
        # The shell is a zombie until it is waited for, so its group's number cannot be another's yet.
        _signal(self, signal.SIGKILL)
        returncode = process.wait()
        _kill_marked(self.mark)
        killed_by, exit_code = (-returncode, 0) if returncode < 0 else (0, returncode)
        state = self.ending or (JobState.COMPLETED if returncode == 0 else JobState.FAILED)
        was_killed = killed_by == signal.SIGKILL or exit_code == _KILLED_EXIT_CODE
        if state is JobState.FAILED and was_killed and _tells_of_memory(self.output):
            state = JobState.OUT_OF_MEMORY
        self._finish(state, exit_code, killed_by)

    def _finish(self, state: JobState, exit_code: int, killed_by: int = 0, reason: str = "") -> None:
        self.end = JobStatus(
            state,
            state.value,
            exit_code,
            killed_by,
            reason,
            HOST,
            submit_s=self.job.submitted_s,
            start_s=self.start_s,
            end_s=time.time(),
        )


def unkillable(runs: Sequence[LocalRun]) -> JobError:
    """The error of runs that do not end."""
    pids = " ".join(str(run.process.pid) for run in runs if run.process is not None)
    return JobError(
        f"local job {runs[0].job.id} does not end even when it is killed",
        (("processes", pids),),
        advice=f"ps -o pid,stat,wchan:32,args {pids}: state D is a driver that hangs",
    )


def _has_exited(run: LocalRun) -> bool:
    """Whether the shell has ended, which stays a zombie all the same."""
    assert run.process is not None
    try:
        return os.waitid(os.P_PID, run.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:  # other code of this process has waited for it
        return True


def _signal(run: LocalRun, number: signal.Signals) -> None:
    assert run.process is not None
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(run.process.pid, number)


def _kill_marked(mark: str) -> None:
    """Kill what left the job's process group: torchrun gives its workers sessions of their own."""
    give_up_s = time.monotonic() + _MARKED_PATIENCE_S
    while (pids := marked(f"{MARK}={mark}".encode())) and time.monotonic() < give_up_s:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


def marked(mark: bytes) -> list[int]:
    """The processes whose environment has the mark."""
    pids = []
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark in (place / "environ").read_bytes().split(b"\0"):
                pids.append(int(place.name))
    return pids


def _tells_of_memory(output: Path) -> bool:
    with contextlib.suppress(OSError), output.open("rb") as file:
        file.seek(max(0, output.stat().st_size - _OUTPUT_END_BYTES))
        return _OUT_OF_MEMORY.search(file.read()) is not None
    return False
