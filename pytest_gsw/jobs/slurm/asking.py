"""How Slurm is asked about many jobs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from pytest_gsw.jobs.model import Job
from pytest_gsw.jobs.slurm.answers import Output

#: Ids in one command; an argument may have 128 KiB.
IDS_PER_COMMAND = 1000


class Ask(Protocol):
    """Runs one of Slurm's commands."""

    def __call__(self, command: tuple[str, ...], *, given: str | None = None) -> Output:
        """What it says, with this text as its input."""
        ...


def chunks(jobs: Sequence[Job]) -> Iterator[Sequence[Job]]:
    """As many jobs as one command is asked about."""
    for start in range(0, len(jobs), IDS_PER_COMMAND):
        yield jobs[start : start + IDS_PER_COMMAND]


def ids_of(jobs: Iterable[Job]) -> list[str]:
    """The jobs' ids, each once."""
    return list(dict.fromkeys(job.id for job in jobs))


def key_of(job: Job) -> tuple[str, str, str]:
    """What tells a row's job from all others, where a controller may have given one id twice."""
    return job.spec.row_id, job.cluster, job.id
