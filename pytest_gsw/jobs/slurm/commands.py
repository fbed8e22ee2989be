"""Slurm's commands as argument lists; nothing is ever run through a shell."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Sequence

from pytest_gsw.jobs.model import Job, JobSpec
from pytest_gsw.jobs.scripts import cluster_of, options_in

# The name comes last in all of these, so that a bar in another user's job name does no harm.
# A field of squeue's that has a suffix and no width is never cut.
_SQUEUE_FORMAT = "JobID:|,State:|,exit_code:|,Reason:|,NodeList:|,SubmitTime:|,StartTime:|,EndTime:|,Name:|"
_SACCT_FIELDS = "JobIDRaw,State,ExitCode,Reason,NodeList,Submit,Start,End,JobName"
_ENDS_FIELDS = "JobIDRaw,State,ExitCode,DerivedExitCode,Reason,NodeList,Submit,Start,End,JobName"

#: The first version that knows what a launch adds by itself, as ``--segment``.
_SEGMENTS_SINCE = "24.05"


def sbatch_command(spec: JobSpec, version: str = "") -> tuple[str, ...]:
    """Submit a recipe's launch script to a Slurm of this version; one that does not tell its own knows all options.

    The job's name is the row's own: recipes have a fixed one with ``--dependency=singleton``, so that
    two rows would wait for each other. ``--no-requeue``: a job that lost its node must say NODE_FAIL,
    not start again by itself and write a second run into the log of the first. The options of the
    cluster come after these and so override them.
    """
    # A later --exclude takes the place of an earlier one: those that the cluster's options name stay out too.
    own = (*spec.excluded_nodes, *spec.avoided_nodes)
    named = [option.value or "" for option in options_in(spec.options) if option.name == "exclude"] if own else []
    excluded = (f"--exclude={','.join((*named, *own))}",) if own else ()
    output = () if spec.batch_output is None else (f"--output={spec.batch_output}",)
    limit = () if spec.time_limit_s is None else (f"--time={max(1, math.ceil(spec.time_limit_s / 60))}",)
    newer = () if "" < version < _SEGMENTS_SINCE else spec.launch.options(spec)
    return (
        *("sbatch", "--parsable", "-J", spec.name, "-N", str(spec.nodes), "--no-requeue"),
        *(*output, *newer, *spec.options, *excluded, *limit, str(spec.script)),
    )


def squeue_command(ids: Sequence[str], cluster: str = "") -> tuple[str, ...]:
    """Ask slurmctld for the state of all these jobs; ``--all`` shows hidden partitions too."""
    return ("squeue", *_at(cluster), "-h", "--all", "-t", "all", "-O", _SQUEUE_FORMAT, "-j", ",".join(ids))


def squeue_of_id_command(job_id: str, cluster: str = "", *, mine: bool) -> tuple[str, ...]:
    """Ask slurmctld for a job of this id: this user's, or anybody's."""
    own = ("--me",) if mine else ()
    return ("squeue", *_at(cluster), *own, "--all", "-t", "all", "-O", _SQUEUE_FORMAT, "-j", job_id)


def squeue_by_name_command(name: str, cluster: str = "") -> tuple[str, ...]:
    """Ask slurmctld for this user's jobs of a name."""
    return ("squeue", *_at(cluster), "--me", "--all", "-t", "all", "-O", _SQUEUE_FORMAT, f"--name={name}")


def sacct_by_name_command(name: str, since_s: float, cluster: str = "") -> tuple[str, ...]:
    """Ask accounting for this user's jobs of a name since then: slurmctld forgets them soon."""
    since = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(since_s))
    mine = (f"--user={os.getuid()}", f"--name={name}", "-S", since)
    return ("sacct", *_at(cluster), "-X", "-n", "-P", "-o", _SACCT_FIELDS, *mine)


def squeue_of_user_command(cluster: str = "") -> tuple[str, ...]:
    """Ask slurmctld for all of this user's jobs; it is asked for no more with names, which squeue itself picks out."""
    return ("squeue", *_at(cluster), "--me", "--all", "-t", "all", "-O", _SQUEUE_FORMAT)


def squeue_ids_command(cluster: str = "", *, mine: bool) -> tuple[str, ...]:
    """Ask slurmctld which jobs wait or run: this user's, or everybody's."""
    return ("squeue", *_at(cluster), *(("--me",) if mine else ()), "-h", "--all", "-O", "JobID")


def sacct_of_user_command(since_s: float, cluster: str = "") -> tuple[str, ...]:
    """Ask accounting for all of this user's jobs since then."""
    since = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(since_s))
    mine = (f"--user={os.getuid()}", "-S", since)
    return ("sacct", *_at(cluster), "-X", "-n", "-P", "-o", _SACCT_FIELDS, *mine)


def sacct_of_id_command(job_id: str, cluster: str = "", *, mine: bool) -> tuple[str, ...]:
    """Ask accounting for the newest job of this id: this user's, or anybody's."""
    own = (f"--user={os.getuid()}",) if mine else ()
    return ("sacct", *_at(cluster), "-X", "-n", "-P", "-o", _SACCT_FIELDS, *own, "-j", job_id)


def sacct_command(ids: Sequence[str], cluster: str = "") -> tuple[str, ...]:
    """Ask accounting how all these jobs and their steps ended; with ``-j`` it looks back as far as it remembers."""
    return ("sacct", *_at(cluster), "-n", "-P", "-o", _ENDS_FIELDS, "-j", ",".join(ids))


def scontrol_command(job_id: str, cluster: str = "") -> tuple[str, ...]:
    """Ask slurmctld for everything about one job; ``-d`` shows the exit code of its steps, too."""
    return ("scontrol", *_at(cluster), "-a", "-d", "-o", "show", "job", job_id)


def scontrol_all_command(cluster: str = "") -> tuple[str, ...]:
    """The same for several jobs with one process, which reads from its input what :func:`scontrol_requests` writes.

    ``scontrol show job`` takes one id only; without any it tells of all jobs of the cluster.
    """
    return ("scontrol", *_at(cluster), "-a", "-d", "-o")


def scontrol_requests(ids: Sequence[str]) -> str:
    """What :func:`scontrol_all_command` is to do."""
    return "".join(f"show job {job_id}\n" for job_id in ids)


def scontrol_partitions_command(cluster: str = "") -> tuple[str, ...]:
    """Ask slurmctld for all partitions, one a line; ``-a`` shows hidden ones too."""
    return ("scontrol", *_at(cluster), "-a", "-o", "show", "partition")


def scontrol_config_command(cluster: str = "") -> tuple[str, ...]:
    """Ask slurmctld how it is configured."""
    return ("scontrol", *_at(cluster), "show", "config")


def sacctmgr_qos_command() -> tuple[str, ...]:
    """Ask accounting for the flags of each QOS."""
    return ("sacctmgr", "-n", "-P", "show", "qos", "format=name,flags%500")


def scancel_command(ids: Sequence[str], cluster: str = "") -> tuple[str, ...]:
    """End all these jobs; ``-Q`` says nothing of those that have ended already."""
    return ("scancel", *_at(cluster), "-Q", "--", *ids)


def scancel_by_name_command(job: Job) -> tuple[str, ...]:
    """End a job by its name."""
    return ("scancel", *_at(cluster_of(job.spec)), "--me", f"--name={job.name}")


def version_command() -> tuple[str, ...]:
    """Ask sbatch for its version, which it tells without the controller."""
    return ("sbatch", "--version")


def _at(cluster: str) -> tuple[str, ...]:
    return (f"--clusters={cluster}",) if cluster else ()
