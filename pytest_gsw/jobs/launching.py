"""How a job is submitted: by sbatch, or as the spec of a hook has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_gsw.errors import LogError, SubmissionError

if TYPE_CHECKING:
    from pytest_gsw.jobs.layout import FoundLog
    from pytest_gsw.jobs.model import JobSpec

#: The variables that name a virtual environment, of which a job has one.
VIRTUAL_ENVIRONMENTS = ("VIRTUAL_ENV", "CONDA_PREFIX")


@dataclass(frozen=True)
class Told:
    """What a launch script's output says of the jobs that it has submitted."""

    #: The job that trains; ``None`` for none, for several of which no one is it, and for one without a directory.
    job_id: str | None = None
    #: Where its files are; ``None`` where the output does not say so.
    directory: Path | None = None
    #: Why there is no such job, in words; empty where there is one.
    problem: str = ""
    #: Every job that is named, whatever is wrong.
    job_ids: tuple[str, ...] = ()
    #: The jobs that it waits for, as one that imports a checkpoint, and where their files are.
    waits_for: tuple[tuple[str, Path], ...] = ()


class Launch:
    """How a recipe's jobs are submitted to Slurm. This one leaves it to sbatch; a recipe's own way is a subclass."""

    #: As ``launcher`` of a table or a cluster names it.
    name = "sbatch"
    #: What has to be on the PATH.
    program = "sbatch"
    #: Whether what is run here submits the job, and is not sbatch: then its output tells which job that is.
    submits_itself = False
    #: Whether it is the recipe's launch script that runs, and whether its scripts are told of the row by variables.
    runs_script = True
    reads_variables = True
    #: Whether a job writes into a directory of its own, where its files are found by its id.
    has_directory = False
    #: The variable that names where jobs write in place of the staging area.
    home = ""

    def command(self, spec: JobSpec) -> tuple[str, ...]:
        """What is run in the recipe's directory, where that submits the job itself."""
        raise NotImplementedError

    def variables(self, spec: JobSpec) -> dict[str, str]:
        """What it is told there by variables that sbatch is told by its options.

        Raises:
            RefusedError: An option cannot be told so.
        """
        return {}

    def options(self, spec: JobSpec) -> tuple[str, ...]:
        """Options of sbatch that Slurm knows since 24.05."""
        return ()

    def environment(self, environment: Mapping[str, str], spec: JobSpec) -> dict[str, str]:
        """The environment of a submission, made of the session's and the job's."""
        return dict(environment)

    def told_by(self, output: str) -> Told:
        """What the output says of the jobs that it has submitted."""
        return Told()

    def log_in(self, directory: Path, job_id: str) -> Path:
        """The log of a job in its directory.

        Raises:
            LogError: There is none (yet).
        """
        raise LogError(f"no log of job {job_id}", (("searched", str(directory)),))

    def batch_output_in(self, directory: Path, job_id: str) -> Path | None:
        """The batch shell's output of a job in its directory; ``None`` where there is none."""
        return None

    def job_id_of(self, log: str) -> str | None:
        """The job's id in the name of a log; ``None`` where that is not named so."""
        return None

    def logs_below(self, place: Path) -> Sequence[FoundLog]:
        """The logs of the row's jobs below a directory that is replayed, where the recipe's own layout has none."""
        return ()

    def problem(self, spec: JobSpec) -> SubmissionError | None:
        """Why a row cannot be submitted so, as far as that is certain by what its recipe says of itself."""
        return None


SBATCH = Launch()
