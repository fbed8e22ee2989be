"""A toy Slurm in a directory: six programs that start within milliseconds, and keep each submission ever made.

::

    slurm = write_toy_slurm(tmp_path / "slurm")
    slurm.turn("sbatch_sleep_after_s", 60)  # it takes the job, and answers too late
    SlurmLauncher({"PATH": slurm.path})

``tests/slurm`` has a real one; this one serves a thousand submissions, and fails on command.
"""

from __future__ import annotations

import os
import py_compile
import shutil
import signal
import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from . import toy_commands

PROGRAMS = ("sbatch", "squeue", "sacct", "scontrol", "scancel", "sinfo")

#: Knobs, with the meaning of their values. A program reads them each time it starts.
KNOBS = {
    "runs": "1: scripts run in the background; otherwise jobs stay PENDING",
    "sbatch_sleep_before_s": "seconds before sbatch takes the job",
    "sbatch_sleep_after_s": "seconds between that and its answer",
    "sbatch_error_after": "error of sbatch, with exit code 1, although it has taken the job",
    "accounting": "0: sacct answers that there is none",
    "min_job_age_s": "seconds after their end until squeue and scontrol forget jobs",
    **{f"{name}_error": f"error of {name}, which does nothing, with exit code 1" for name in PROGRAMS},
    **{f"{name}_sleep_s": f"seconds before {name} answers" for name in PROGRAMS if name != "sbatch"},
}


class Submission(NamedTuple):
    """A job that sbatch has taken."""

    id: str
    submitted_s: int
    name: str


class ToySlurm:
    """The files of a toy Slurm, as :func:`write_toy_slurm` has written them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._jobs = toy_commands.Jobs(str(directory))

    @property
    def bin(self) -> Path:
        """The directory of the programs."""
        return self.directory / "bin"

    @property
    def path(self) -> str:
        """A PATH that begins with it."""
        return f"{self.bin}{os.pathsep}/usr/local/bin{os.pathsep}/usr/bin{os.pathsep}/bin"

    def turn(self, knob: str, value: object = None) -> None:
        """Give one of :data:`KNOBS` a value for all programs that start from now on; ``None``: its default."""
        assert knob in KNOBS, knob
        path = self.directory / "knobs" / knob
        if value is None:
            path.unlink(missing_ok=True)
        else:
            changed = path.with_name(f".{knob}")
            changed.write_text(str(value))
            changed.replace(path)

    @property
    def submissions(self) -> list[Submission]:
        """All submissions that sbatch has ever taken, in their order."""
        lines = (line.split(" ", 2) for line in (self.directory / "submissions").read_text().splitlines())
        return [Submission(job_id, int(time_s), name) for job_id, time_s, name in lines]

    @property
    def twice(self) -> list[str]:
        """The names that more than one submission has."""
        return [name for name, times in Counter(job.name for job in self.submissions).items() if times > 1]

    def state(self, job_id: str) -> str:
        """The state of a job."""
        job = self._jobs.read(job_id)
        assert job is not None, job_id
        return str(job["state"])

    def end(self, job_id: str, state: str = "COMPLETED", exit_code: int = 0) -> None:
        """Record the end of a job; its script, if one runs, goes on."""
        self._jobs.end(job_id, state, exit_code << 8)

    def stop(self) -> None:
        """Kill the scripts that run, by their process groups."""
        for job in self._jobs.all():
            if job["state"] == "RUNNING" and job["group"]:
                self._jobs.end(job["id"], "CANCELLED", signal.SIGKILL)
                try:
                    os.killpg(job["group"], signal.SIGKILL)
                except ProcessLookupError:
                    continue


def write_toy_slurm(directory: Path, *, runs: bool = True) -> ToySlurm:
    """Write the programs and an empty queue.

    Args:
        directory: A directory that is made.
        runs: Scripts run in the background, at once; otherwise jobs stay PENDING until they are cancelled or
            :meth:`ToySlurm.end` ends them.
    """
    for name in ("bin", "lib", "jobs", "scripts", "knobs"):
        (directory / name).mkdir(parents=True)
    (directory / "submissions").touch()
    library = directory / "lib" / "toy_commands.py"
    shutil.copy(toy_commands.__file__, library)
    py_compile.compile(str(library), doraise=True)
    for name in PROGRAMS:
        program = directory / "bin" / name
        # -IS: it starts in a tenth of the time.
        program.write_text(
            f"#!{Path(sys.executable).resolve()} -IS\nimport sys\n"
            f"sys.path.insert(0, {str(library.parent)!r})\nfrom toy_commands import main\nmain({str(directory)!r})\n"
        )
        program.chmod(0o755)
    slurm = ToySlurm(directory)
    if runs:
        slurm.turn("runs", 1)
    return slurm
