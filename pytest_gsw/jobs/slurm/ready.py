"""What of Slurm itself would keep jobs from running, found before any is submitted."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence

from pytest_gsw.errors import SubmissionError
from pytest_gsw.jobs.model import JobSpec


def without_sbatch(specs: Sequence[JobSpec], environ: Mapping[str, str]) -> dict[str, SubmissionError]:
    """By row, that there is no ``sbatch`` on the PATH of its submission."""
    paths = {spec.row_id: spec.environment.get("PATH", environ.get("PATH", os.defpath)) for spec in specs}
    lacking = {path for path in set(paths.values()) if shutil.which("sbatch", path=path) is None}
    return {row_id: _no_sbatch(path) for row_id, path in paths.items() if path in lacking}


def _no_sbatch(path: str) -> SubmissionError:
    return SubmissionError(
        "sbatch is not on the PATH",
        (("PATH", path),),
        advice="run pytest on a login node of the cluster, where Slurm's commands are; or: module load slurm",
    )
