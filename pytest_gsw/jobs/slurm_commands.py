"""Slurm's commands as argument lists; nothing is ever run through a shell."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Sequence

from pytest_gsw.jobs.model import JobSpec

# The name comes last in all of these, so that a bar in another user's job name does no harm.
# A field of squeue's that has a suffix and no width is never cut.
_SQUEUE_FORMAT = "JobID:|,State:|,exit_code:|,Reason:|,NodeList:|,SubmitTime:|,StartTime:|,EndTime:|,Name:|"
_SACCT_FIELDS = "JobIDRaw,State,ExitCode,Reason,NodeList,Submit,Start,End,JobName"
_ENDS_FIELDS = "JobIDRaw,State,ExitCode,DerivedExitCode,Reason,NodeList,Submit,Start,End,JobName"


def sbatch_command(spec: JobSpec) -> tuple[str, ...]:
    """Submit a recipe's launch script.

    The job's name is the row's own: recipes have a fixed one with ``--dependency=singleton``, so that
    two rows would wait for each other. ``--no-requeue``: a job that lost its node must say NODE_FAIL,
    not start again by itself and write a second run into the log of the first. The options of the
    cluster come after these and so override them.
    """
    # A later --exclude takes the place of an earlier one: those that the cluster's options name stay out too.
    own = (*spec.excluded_nodes, *spec.avoided_nodes)
    excluded = (f"--exclude={','.join((*_excluded(spec.options), *own))}",) if own else ()
    output = () if spec.batch_output is None else (f"--output={spec.batch_output}",)
    limit = () if spec.time_limit_s is None else (f"--time={max(1, math.ceil(spec.time_limit_s / 60))}",)
    return (
        *("sbatch", "--parsable", "-J", spec.name, "-N", str(spec.nodes), "--no-requeue"),
        *(*output, *spec.options, *excluded, *limit, str(spec.script)),
    )


def _excluded(options: Sequence[str]) -> tuple[str, ...]:
    """Node lists that options exclude: ``--exclude=n17``, ``-x n17``, ``-xn17``."""
    named: list[str] = []
    for number, option in enumerate(options):
        if option in {"-x", "--exclude"}:
            named.extend(options[number + 1 : number + 2])
        elif option.startswith("--exclude="):
            named.append(option.partition("=")[2])
        elif option.startswith("-x"):
            named.append(option[2:])
    return tuple(named)


def squeue_command(ids: Sequence[str], clusters: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Ask slurmctld for the state of all these jobs; ``--all`` shows hidden partitions too."""
    return ("squeue", *clusters, "-h", "--all", "-t", "all", "-O", _SQUEUE_FORMAT, "-j", ",".join(ids))


def squeue_by_name_command(name: str, clusters: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Ask slurmctld for this user's jobs of a name."""
    return ("squeue", *clusters, "--me", "-h", "--all", "-t", "all", "-O", _SQUEUE_FORMAT, f"--name={name}")


def sacct_by_name_command(name: str, since_s: float, clusters: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Ask accounting for this user's jobs of a name since then: slurmctld forgets them soon."""
    since = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(since_s))
    mine = (f"--user={os.getuid()}", f"--name={name}", "-S", since)
    return ("sacct", *clusters, "-X", "-n", "-P", "-o", _SACCT_FIELDS, *mine)


def squeue_of_user_command(clusters: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Ask slurmctld for all of this user's jobs; it is asked for no more with names, which squeue itself picks out."""
    return ("squeue", *clusters, "--me", "-h", "--all", "-t", "all", "-O", _SQUEUE_FORMAT)


def squeue_ids_command(clusters: tuple[str, ...] = (), *, mine: bool) -> tuple[str, ...]:
    """Ask slurmctld which jobs wait or run: this user's, or everybody's."""
    return ("squeue", *clusters, *(("--me",) if mine else ()), "-h", "--all", "-O", "JobID")


def sacct_of_user_command(since_s: float, clusters: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Ask accounting for all of this user's jobs since then."""
    since = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(since_s))
    return ("sacct", *clusters, "-X", "-n", "-P", "-o", _SACCT_FIELDS, f"--user={os.getuid()}", "-S", since)


def sacct_command(ids: Sequence[str], clusters: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Ask accounting how all these jobs and their steps ended; with ``-j`` it looks back as far as it remembers."""
    return ("sacct", *clusters, "-n", "-P", "-o", _ENDS_FIELDS, "-j", ",".join(ids))


def scontrol_command(job_id: str, clusters: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Ask slurmctld for everything about one job; ``-d`` shows the exit code of its steps, too."""
    return ("scontrol", *clusters, "-a", "-d", "-o", "show", "job", job_id)


def scontrol_all_command(clusters: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The same for several jobs with one process, which reads from its input what :func:`scontrol_requests` writes.

    ``scontrol show job`` takes one id only; without any it tells of all jobs of the cluster.
    """
    return ("scontrol", *clusters, "-a", "-d", "-o")


def scontrol_requests(ids: Sequence[str]) -> str:
    """What :func:`scontrol_all_command` is to do."""
    return "".join(f"show job {job_id}\n" for job_id in ids)


def scancel_command(ids: Sequence[str], clusters: tuple[str, ...] = ()) -> tuple[str, ...]:
    """End all these jobs; ``-Q`` says nothing of those that have ended already."""
    return ("scancel", *clusters, "-Q", "--", *ids)


def version_command() -> tuple[str, ...]:
    """Ask sbatch for its version, which asks nobody else."""
    return ("sbatch", "--version")


def clusters_of(spec: JobSpec) -> tuple[str, ...]:
    """The options by which a job was sent to another cluster; questions must follow it there."""
    options = iter(spec.options)
    for option in options:
        if option in {"-M", "--clusters", "--cluster"}:
            return (f"--clusters={next(options, '')}",)
        if option.startswith(("--clusters=", "--cluster=")):
            return (f"--clusters={option.partition('=')[2]}",)
        if option.startswith("-M"):
            return (f"--clusters={option[2:]}",)
    return ()
