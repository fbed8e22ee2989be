"""Sessions that drive the toy Slurm by way of a login node, each in a project of its own, run as users run them."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.integration.conftest import tiny_table
from tests.slurm.sessions import LAUNCH, PLUGIN_ALONE

from .login_node import HOST

TIMEOUT_S = 60
CLUSTER = "eos"

#: Short waits; nothing that a verdict rests on.
CONFTEST = """\
import pytest_gsw.executor.submitter as submitter
import pytest_gsw.jobs.ssh.connection as connection
import pytest_gsw.jobs.ssh.launcher as launcher
from pytest_gsw.jobs.slurm.launcher import SlurmLauncher

connection._BACK_OFF_S, connection._LONGEST_BACK_OFF_S = 0.1, 0.5
submitter.BACK_OFF_S, submitter.LONGEST_BACK_OFF_S = 0.2, 0.5
SlurmLauncher.lost_wait_s = launcher.LOST_WAIT_S = 2.0
SlurmLauncher.log_wait_s = 3.0
"""


def until(condition: Callable[[], object], what: str = "") -> None:
    """Wait until something is true."""
    deadline_s = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline_s, what
        time.sleep(0.01)


@dataclass
class Session:
    """A pytest of its own that was started in a project's directory."""

    process: subprocess.Popen[bytes]
    output_file: Path

    @property
    def output(self) -> str:
        """Its output so far."""
        return self.output_file.read_text(errors="replace")

    def end(self) -> int:
        """Wait for its end; return its exit status."""
        return self.process.wait(TIMEOUT_S)

    def kill(self) -> None:
        """Kill it, as a machine that loses its power does: what it has started ends by itself, or not at all."""
        self.process.kill()
        self.process.wait(TIMEOUT_S)

    def interrupt(self) -> None:
        """Press Ctrl-C."""
        self.process.send_signal(signal.SIGINT)


@dataclass
class Project:
    """The directory of a project on one machine, whose cluster has its files elsewhere.

    Args:
        directory: The project's.
        there: The directory of the cluster, with ``stage`` and ``recipes``.
        config: The configuration of ssh; without one the session runs on the login node itself.
        path: The PATH of its sessions.
    """

    directory: Path
    there: Path
    config: Path | None = None
    path: str = "/usr/local/bin:/usr/bin:/bin"
    cluster: str = ""
    sessions: list[Session] = field(default_factory=list)

    def write(
        self,
        rows: Sequence[str],
        body: str = "perfect",
        *,
        conftest: str = "",
        poll_interval: float = 1,
        keys: str = "",
    ) -> None:
        """Write the table, the cluster's file, and the recipe."""
        host = "" if self.config is None else f", host: {HOST}, ssh: [-F, {self.config}]"
        files = {
            self.directory / "conftest.py": CONFTEST + conftest,
            self.directory / "pytest.ini": "[pytest]\nfilterwarnings = error\n",
            self.directory / "site/tiny.yaml": tiny_table(*rows),
            self.directory / "clusters.yaml": (
                f"defaults: {{poll_interval: {poll_interval}}}\nclusters:\n  {CLUSTER}: {{scheduler: slurm{host}, "
                f"accelerator: H100, gpus_per_node: 8, stage: {self.there}/stage, recipes: {self.there}/recipes{keys}}}\n"
            ),
            self.there / "recipes/tiny/launch.sh": LAUNCH.format(directives="", body=body),
        }
        for path, text in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def start(self, *options: str, within: Callable[[Sequence[str]], Sequence[str]] = list, **environ: str) -> Session:
        """Start a session.

        Args:
            options: Further options of pytest.
            within: Makes the command that runs the session's.
            environ: Variables of its environment.
        """
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--junitxml=junit.xml", *options]
        if not any(option.startswith("--gsw-resume") for option in options):
            command += [f"--gsw-cluster={CLUSTER}", "--gsw-baselines=site"]
        own = {
            "PATH": self.path,
            "NO_COLOR": "1",
            "COLUMNS": "200",
            "PYTHONUNBUFFERED": "1",
            "HOME": str(self.directory),
        }
        output_file = self.directory / f"output{len(self.sessions)}"
        with output_file.open("wb") as output:
            process = subprocess.Popen(
                within(command),
                cwd=self.directory,
                env={**own, **PLUGIN_ALONE, **environ},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        session = Session(process, output_file)
        self.sessions.append(session)
        return session

    def run(self, *options: str, **environ: str) -> Session:
        """Run a session to its end."""
        session = self.start(*options, **environ)
        session.end()
        return session

    def outcomes(self) -> dict[str, str]:
        """The first line that JUnit has of each row; "passed" of one that passed."""
        outcomes = {}
        for case in ET.parse(self.directory / "junit.xml").getroot().iter("testcase"):  # noqa: S314 - our own file
            said = [child for child in case if child.tag != "properties"]
            outcomes[case.attrib["name"]] = (said[0].text or said[0].tag).split("\n")[0] if said else "passed"
        return outcomes

    @property
    def run_id(self) -> str:
        """The id of its only run."""
        (run,) = [path for path in (self.directory / ".gsw" / "runs").iterdir() if path.name[0].isdigit()]
        return run.name


def rows_of(count: int) -> list[str]:
    """Rows of one node each, which pass with the log that "perfect" writes."""
    return [f"gpus: 8, step_time_s: 1.000, line: 10, case: c{number}" for number in range(count)]


@contextlib.contextmanager
def ended(projects: Sequence[Project]) -> Iterator[None]:
    """End the sessions that a failed test has left."""
    try:
        yield
    finally:
        for session in (session for project in projects for session in project.sessions):
            session.kill()


def home_of(home: Path, path: str) -> Path:
    """The home directory of a user whose shells print something, and whose login shell alone has Slurm's PATH."""
    home.mkdir(exist_ok=True)
    (home / ".bash_profile").write_text(f"echo welcome to the cluster\nexport PATH={path}\n")
    (home / ".bashrc").write_text("echo your quota is fine\n")
    return home
