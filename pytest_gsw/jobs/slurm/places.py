"""Which cluster is asked about a job: exactly one, because two clusters may give out one id.

Mostly it is the one that took the job, which sbatch names. Two kinds of jobs must be looked for: those that were sent
to a list of clusters and of which a journal of an earlier release kept the id alone, and those that a federation has
moved. Their ids are unique among its clusters; where a job was submitted it is REVOKED then, and runs on elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from pytest_gsw.jobs.model import Job, JobState
from pytest_gsw.jobs.slurm.answers import Output, parse_sacct
from pytest_gsw.jobs.slurm.asking import Ask, chunks, ids_of, key_of
from pytest_gsw.jobs.slurm.commands import clusters_of, is_one, sacct_where_command

#: Ids of a federation have the number of the job's cluster above these bits; no other cluster gives out such ids.
_LOCAL_BITS = 26


class Places:
    """Where jobs are."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._found: dict[tuple[str, str, str], str] = {}

    def of(self, job: Job) -> str | None:
        """The cluster to be asked about a job, empty for the one that needs no name; ``None`` where it is not known."""
        place = self._found.get(key_of(job)) or job.cluster or clusters_of(job.spec)
        return place if is_one(place) else None

    def groups(self, jobs: Iterable[Job]) -> Iterator[tuple[str, Sequence[Job]]]:
        """Jobs by the cluster to be asked about them, as many as one command is asked about; of others, none."""
        groups: dict[str | None, list[Job]] = {}
        for job in jobs:
            groups.setdefault(self.of(job), []).append(job)
        lost = groups.pop(None, [])
        self.look_for(lost)
        for job in lost:
            groups.setdefault(self.of(job), []).append(job)
        for place, group in groups.items():
            if place is None:
                continue
            for some in chunks(group):
                yield place, some

    def put(self, job: Job, cluster: str) -> None:
        """A job is there from now on."""
        self._found[key_of(job)] = cluster

    def forget(self, job: Job) -> None:
        """A job is no longer where it was found."""
        self._found.pop(key_of(job), None)

    def look_for(self, jobs: Sequence[Job]) -> None:
        """Ask accounting which of their clusters has these jobs."""
        groups: dict[str, list[Job]] = {}
        for job in jobs:
            groups.setdefault(clusters_of(job.spec), []).append(job)
        for clusters, group in groups.items():
            for some in chunks(group):
                told = self._ask(sacct_where_command(ids_of(some), clusters))
                self._take(some, told)

    def _take(self, jobs: Sequence[Job], told: Output) -> None:
        if told.returncode != 0:
            return
        entries: dict[str, list[tuple[str, str]]] = {}
        for (cluster, job_id), answer in parse_sacct(told.stdout).items():
            if answer.status.state is not JobState.REVOKED:
                entries.setdefault(job_id, []).append((cluster, answer.job_name))
        for job in jobs:
            found = entries.get(job.id, [])
            ours = {cluster for cluster, name in found if name == job.name}
            # A record that is new may lack the name; in a federation the id tells enough.
            there = ours or {cluster for cluster, _ in found if is_federated(job.id)}
            if len(there) == 1:
                self.put(job, *there)


def is_federated(job_id: str) -> bool:
    """Whether an id is a federation's, which may have moved the job."""
    return job_id.isdecimal() and int(job_id) >> _LOCAL_BITS > 0
