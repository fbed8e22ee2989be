"""Slurm's commands as processes of this machine."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import BinaryIO, Protocol

from pytest_gsw.common.files import make_directory, open_own
from pytest_gsw.jobs.environment import job_environment, query_environment
from pytest_gsw.jobs.model import JobSpec
from pytest_gsw.jobs.slurm.answers import Output, parse_version
from pytest_gsw.jobs.slurm.commands import sbatch_command, version_command

#: A query that takes longer is given up; the jobs are UNKNOWN until the next poll. With Slurm's
#: default MessageTimeout a client takes 10 to 20 s to say that the controller is out of reach.
QUERY_TIMEOUT_S = 45.0
#: Slurm's version is not needed badly, and a site's wrapper of sbatch may not know the question.
VERSION_TIMEOUT_S = 5.0
#: A submission or a cancellation is not given up lightly: jobs might start, or go on, all the same.
#: One scancel of 500 running jobs took 41 s on a busy controller with 2 cores; sbatch itself tries for two
#: minutes where slurmctld has all the jobs that it can hold.
COMMAND_TIMEOUT_S = 150.0
#: A recipe that submits its job itself imports a framework and packs its code before.
LAUNCH_TIMEOUT_S = 900.0


class Ask(Protocol):
    """Runs one of Slurm's commands."""

    def __call__(self, command: tuple[str, ...], *, given: str | None = None) -> Output:
        """What it says, with this text as its input."""
        ...


class Client:
    """Runs Slurm's commands."""

    def __init__(self, environ: Mapping[str, str], query_timeout_s: float, command_timeout_s: float) -> None:
        self.environ = environ
        self._query_timeout_s = query_timeout_s
        self._command_timeout_s = command_timeout_s

    @cached_property
    def version(self) -> str:
        """Slurm's version, as its commands tell it; "" where they do not."""
        try:
            told = _run(version_command(), query_environment(self.environ), VERSION_TIMEOUT_S)
        except OSError:
            return ""
        return parse_version(told.stdout) if told.returncode == 0 else ""

    def sbatch_command(self, spec: JobSpec) -> tuple[str, ...]:
        """What submits a job; the version is asked for only if that matters."""
        return sbatch_command(spec, self.version if spec.launch.options(spec) else "")

    def ask(self, command: tuple[str, ...], *, given: str | None = None) -> Output:
        """What a question's command says, with this text as its input; one that cannot be run is an answer, too."""
        return self._answer(command, self._query_timeout_s, given)

    def act(self, command: tuple[str, ...]) -> Output:
        """What a command says that changes something: it is not given up as soon as a question."""
        return self._answer(command, self._command_timeout_s)

    def submit(self, command: tuple[str, ...], spec: JobSpec, inherited: tuple[int, ...]) -> Output:
        """What sbatch says.

        Raises:
            OSError: It cannot be run.
        """
        environment = job_environment(self.environ, spec)
        return _run(command, environment, self._command_timeout_s, directory=spec.directory, inherited=inherited)

    def launch(self, command: tuple[str, ...], spec: JobSpec, said: Path, inherited: tuple[int, ...]) -> Output:
        """What a launch script says that submits its job itself; all of it is kept in a file, and beside it.

        Raises:
            OSError: It cannot be run.
        """
        # A program is looked for in PATH, which the recipe's virtual environment may have changed.
        environment = {**job_environment(self.environ, spec), **spec.launch.variables(spec)}
        make_directory(said.parent, private=True)
        problems = said.with_suffix(".err")
        with _private(said) as out, _private(problems) as err:
            process = subprocess.Popen(
                command,
                env=environment,
                cwd=spec.directory,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                pass_fds=inherited,
                start_new_session=True,  # as below
            )
            code = _ended(process, LAUNCH_TIMEOUT_S)
        texts = said.read_text(errors="replace"), problems.read_text(errors="replace")
        if code is None:
            return Output(124, texts[0], f"{command[0]} did not end within {LAUNCH_TIMEOUT_S:g} s", timed_out=True)
        return Output(code, *texts)

    def _answer(self, command: tuple[str, ...], timeout_s: float, given: str | None = None) -> Output:
        try:
            return _run(command, query_environment(self.environ), timeout_s, given=given)
        except OSError as error:
            return Output(127, "", f"{command[0]}: {error.strerror or error}")


def _private(path: Path) -> BinaryIO:
    """An empty file that nobody else reads: a script may show its secrets."""
    return os.fdopen(open_own(path, os.O_WRONLY | os.O_TRUNC), "wb")


def _ended(process: subprocess.Popen[bytes], timeout_s: float) -> int | None:
    """The exit code of a process; ``None`` where it takes too long, and is ended with all that it has started."""
    try:
        return process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return None


def _run(
    command: tuple[str, ...],
    environment: Mapping[str, str],
    timeout_s: float,
    directory: Path | None = None,
    inherited: tuple[int, ...] = (),
    given: str | None = None,
) -> Output:
    try:
        done = subprocess.run(
            command,
            env=environment,
            cwd=directory,
            **({"stdin": subprocess.DEVNULL} if given is None else {"input": given}),
            pass_fds=inherited,
            # Ctrl-C goes to all processes of a terminal: an sbatch that it ends has perhaps submitted its job.
            start_new_session=True,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Output(124, "", f"{command[0]} gave no answer within {timeout_s:g} s", timed_out=True)
    return Output(done.returncode, done.stdout, done.stderr)
