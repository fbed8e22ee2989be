"""What a failed ``sbatch`` means: that there is certainly no job, that there may be one, or that there will be room."""

from __future__ import annotations

import re

from pytest_gsw.jobs.model import JobSpec
from pytest_gsw.jobs.slurm.answers import Output

_FAILED = "sbatch: error: Batch job submission failed: "

#: Slurm's own words (slurm_errno.c, 22.05 to 24.11) for a job that the controller has looked at and not taken. What is
#: not among them may be a wrapper's, or a failure after the job was taken: then the job is looked for by its name.
_CERTAIN = re.compile(
    r"(?:Invalid (?:partition name|account or account/partition combination|qos|generic resource \(gres\)|feature|"
    r"Trackable RESource \(TRES\)|node name\(?s?\)?|job array|wckey|dependency|license)[^\n]{0,40}"
    r"|Requested (?:node configuration is not available|time limit is invalid \([^\n]{0,60}|"
    r"partition configuration not available now|reservation is invalid|nodes are busy)"
    r"|Node count specification invalid|More processors requested than permitted"
    r"|Job violates accounting/QOS policy \([^\n]{0,80}"
    r"|User's group not permitted to use this partition|Access/permission denied|Access denied to requested reservation"
    r"|Required (?:partition not available \(inactive or drain\)|node not available \(down, drained or reserved\))"
    r"|Memory (?:required by task is not available|specification can not be satisfied)|Job dependency problem)\.?",
    re.IGNORECASE,
)

#: Slurm's names of limits on how many jobs may be in the queue: the user's own, and those of a group.
_OWN_LIMIT = re.compile(r"(?:Assoc|QOS)MaxSubmitJobs?(?:PerUser)?Limit")
_GROUP_LIMIT = re.compile(r"(?:Assoc|QOS)(?:GrpSubmitJobs?|MaxSubmitJobs?PerAccount)Limit")


def is_certain(answer: Output, spec: JobSpec) -> bool:
    """Whether a failed ``sbatch`` has certainly left no job: Slurm's own refusal, and nothing else was said."""
    if answer.returncode != 1 or answer.timed_out or answer.stdout.strip():
        return False
    last = answer.stderr.strip().rpartition("\n")[2].strip()
    if last == f"sbatch: error: Unable to open file {spec.script}":
        return True
    return last.startswith(_FAILED) and _CERTAIN.fullmatch(last.removeprefix(_FAILED)) is not None


def full_queue(answer: Output) -> tuple[str, bool] | None:
    """The limit on jobs in the queue that a refusal names, and whether it is this user's own; ``None`` for no such."""
    if answer.returncode != 1 or "Job violates accounting/QOS policy" not in answer.stderr:
        return None
    for line in answer.complaints:
        if _OWN_LIMIT.fullmatch(line):
            return line, True
        if _GROUP_LIMIT.fullmatch(line):
            return line, False
    return None
