"""What a failed ``sbatch`` means: that there is certainly no job, that there may be one, or that there will be room."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import replace

from pytest_gsw.common.redact import masked_text
from pytest_gsw.errors import SchedulerAwayError, SubmissionError
from pytest_gsw.jobs.environment import masked_command
from pytest_gsw.jobs.model import JobSpec
from pytest_gsw.jobs.slurm.answers import Output, why

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


def may_have_been_taken(answer: Output) -> bool:
    """Whether the controller was reached, so that it may have the job although sbatch did not say so."""
    return answer.timed_out or answer.returncode <= 0 or "timed out" in answer.stderr or "Zero Bytes" in answer.stderr


#: What sbatch says while the controller restarts, or has too much to do.
_AWAY = re.compile(
    r"[Uu]nable to contact slurm controller|timed out|Zero Bytes were transmitted|temporarily unable"
    r"|Resource temporarily unavailable|Connection (?:refused|reset)|in standby mode|controller not responding"
)


def is_away(answer: Output) -> bool:
    """Whether the same submission may succeed in a while."""
    if answer.timed_out or answer.returncode < 0:  # below 0, a signal ended it: how far it was is not known
        return True
    # The last complaint is the outcome; sbatch complains of each try before it as well.
    return answer.returncode != 0 and _AWAY.search(answer.problem) is not None


def submission_evidence(spec: JobSpec, command: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """What was run, and where."""
    return (("command", shlex.join(masked_command(command))), ("directory", str(spec.directory)))


def unanswered(what: str, spec: JobSpec, command: Sequence[str], asked: Output) -> SchedulerAwayError:
    """The error where a question after jobs has no answer."""
    return SchedulerAwayError(
        f"whether {what} submitted is not known: {command[0]}: {masked_text(why(asked), spec.environment)}",
        (("command", shlex.join(masked_command(command))),),
        advice=_advice(asked.stderr, spec),
    )


def refusal(
    kind: type[SubmissionError], spec: JobSpec, command: Sequence[str], answer: Output, fact: str = ""
) -> SubmissionError:
    """The error that a failed sbatch makes, of this kind, by sbatch's own words where no other fact is given."""
    # A cluster's own variables are not in the session's environment, whose secrets are masked later.
    out, err = (masked_text(text, spec.environment) for text in (answer.stdout, answer.stderr))
    answer = replace(answer, stdout=out, stderr=err)
    said = (answer.stderr + answer.stdout).strip()
    if fact:
        pass
    elif answer.returncode == 0:
        fact = "sbatch gave no job id"
    elif answer.timed_out:
        fact = answer.problem
    else:
        fact = f"sbatch refused the job: {why(answer)}"
    return kind(
        fact,
        (*submission_evidence(spec, command), ("exit code", str(answer.returncode))),
        tail=tuple(said.split("\n")) if said else (),
        advice=_advice(said, spec),
    )


#: What sbatch says → what to type. The first that fits counts.
_ADVICE = (
    (r"without GPU|generic resource|gres", "this cluster counts GPUs: set `gres: gpu:8` in its cluster file"),
    # The name of the limit stands above the refusal.
    (
        r"(?:Assoc|QOS)MaxWall",
        (
            "the account or QOS allows less time: ask for it with --gsw-timeout=MINUTES; "
            "sacctmgr show qos format=name,maxwall tells the longest"
        ),
    ),
    (
        r"(?:Assoc|QOS)(?:Grp|Max|Min)(?:Nodes?|C[Pp][Uu]s?|GRES|TRES|Mem|Billing)",
        (
            "the account or QOS allows another size: name one that does with --qos=NAME under `sbatch` of the cluster; "
            "sacctmgr show qos format=name,mintres,maxtres,maxtrespu,grptres lists them"
        ),
    ),
    (
        r"[Ii]nvalid qos",
        (
            "name a QOS of yours with --qos=NAME under `sbatch` of the cluster; "
            "sacctmgr show assoc user=$USER format=account,qos lists them"
        ),
    ),
    (r"QOS|policy", "sacctmgr show qos; squeue --me tells which of your jobs count against a limit"),
    (r"account|association", "set `account:` in the cluster file; sacctmgr show assoc user=$USER lists yours"),
    (r"partition", "set `partition:` in the cluster file; sinfo -s lists them"),
    (r"configuration is not available|[Nn]ode count", "sinfo -o '%P %D %G' tells what this cluster has"),
    (r"time limit", "set a shorter time limit; sinfo -o '%P %l' tells the longest"),
    (r"Unable to open file", "is the recipe set up? The script must exist: ls -l {script}"),
    (
        r"contact slurm controller|timed out|gave no answer",
        "scontrol ping; squeue --name={name} tells whether the job was taken all the same",
    ),
)


def _advice(said: str, spec: JobSpec) -> str:
    for pattern, advice in _ADVICE:
        if re.search(pattern, said):
            return advice.format(script=spec.script, name=spec.name)
    return "run the command by hand in that directory"
