"""Errors of ``sbatch``: certainly no job, perhaps a job, or a full queue."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import replace

from pytest_gsw.common.redact import masked_text
from pytest_gsw.errors import SchedulerUnreachableError, SubmissionError
from pytest_gsw.jobs.model import JobSpec
from pytest_gsw.jobs.slurm.client import Output, why
from pytest_gsw.jobs.spec import masked_command

_FAILED = "sbatch: error: Batch job submission failed: "

#: Slurm's messages (slurm_errno.c, 22.05 to 24.11) for a job that the controller refused. Any other message may come
#: from a wrapper, or from a failure after the job was accepted: then the job is looked for by its name.
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

#: Slurm's names of limits on jobs in the queue; the group matches the limits of the user's own jobs.
_LIMIT = re.compile(r"(?:Assoc|QOS)(?:(MaxSubmitJobs?(?:PerUser)?)|GrpSubmitJobs?|MaxSubmitJobs?PerAccount)Limit")


def is_certain(answer: Output, spec: JobSpec) -> bool:
    """True if a failed ``sbatch`` certainly left no job: it printed Slurm's refusal and nothing else."""
    if answer.returncode != 1 or answer.timed_out or answer.stdout.strip():
        return False
    last = answer.stderr.strip().rpartition("\n")[2].strip()
    if last == f"sbatch: error: Unable to open file {spec.script}":
        return True
    return last.startswith(_FAILED) and _CERTAIN.fullmatch(last.removeprefix(_FAILED)) is not None


def full_queue(answer: Output) -> tuple[str, bool] | None:
    """The limit on queued jobs in a refusal, and true if it counts this user's jobs only; ``None`` for others."""
    if answer.returncode != 1 or "Job violates accounting/QOS policy" not in answer.stderr:
        return None
    limits = filter(None, map(_LIMIT.fullmatch, answer.complaints))
    return next(((limit[0], limit[1] is not None) for limit in limits), None)


def may_have_been_taken(answer: Output) -> bool:
    """True if the controller was reached and may have the job although sbatch did not confirm it."""
    return answer.timed_out or answer.returncode <= 0 or "timed out" in answer.stderr or "Zero Bytes" in answer.stderr


#: Errors of sbatch while the controller restarts or is overloaded.
_AWAY = re.compile(
    r"[Uu]nable to contact slurm controller|timed out|Zero Bytes were transmitted|temporarily unable"
    r"|Resource temporarily unavailable|Connection (?:refused|reset)|in standby mode|controller not responding"
)


def is_away(answer: Output) -> bool:
    """True if the same submission may succeed later."""
    if answer.timed_out or answer.returncode < 0:  # below 0, a signal ended it at an unknown point
        return True
    # The last error is the outcome; sbatch prints one for each earlier try as well.
    return answer.returncode != 0 and _AWAY.search(answer.problem) is not None


def submission_evidence(spec: JobSpec, command: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """The command of a submission and its directory, as evidence."""
    return (("command", shlex.join(masked_command(command))), ("directory", str(spec.directory)))


def not_run(spec: JobSpec, command: Sequence[str], error: OSError, advice: str) -> SubmissionError:
    """The error of a program that could not be started."""
    fact = f"{command[0]} could not be run: {error.strerror or error}"
    return SubmissionError(fact, submission_evidence(spec, command), advice=advice)


def unanswered(what: str, spec: JobSpec, command: Sequence[str], answer: Output) -> SchedulerUnreachableError:
    """The error of a query for jobs without an answer."""
    return SchedulerUnreachableError(
        f"whether {what} submitted is not known: {command[0]}: {masked_text(why(answer), spec.environment)}",
        (("command", shlex.join(masked_command(command))),),
        advice=_advice(answer.stderr, spec),
    )


def refusal(
    kind: type[SubmissionError], spec: JobSpec, command: Sequence[str], answer: Output, fact: str = ""
) -> SubmissionError:
    """An error of this kind for a failed sbatch; the fact is sbatch's own message unless another is given."""
    # A cluster's own variables are not in the session's environment, whose secrets are masked later.
    out, err = (masked_text(text, spec.environment) for text in (answer.stdout, answer.stderr))
    answer = replace(answer, stdout=out, stderr=err)
    text = (answer.stderr + answer.stdout).strip()
    refused = answer.problem if answer.timed_out else f"sbatch refused the job: {why(answer)}"
    return kind(
        fact or (refused if answer.returncode else "sbatch gave no job id"),
        (*submission_evidence(spec, command), ("exit code", str(answer.returncode))),
        tail=tuple(text.split("\n")) if text else (),
        advice=_advice(text, spec),
    )


#: Patterns of sbatch's errors, and the advice for each; the first match counts.
_ADVICE = {
    r"without GPU|generic resource|gres": "this cluster counts GPUs: set `gres: gpu:8` in its cluster file",
    # The name of the limit precedes the refusal.
    r"(?:Assoc|QOS)MaxWall": (
        "the account or QOS allows less time: ask for it with timeout: MINUTES at the cluster; "
        "sacctmgr show qos format=name,maxwall shows the longest"
    ),
    r"(?:Assoc|QOS)(?:Grp|Max|Min)(?:Nodes?|C[Pp][Uu]s?|GRES|TRES|Mem|Billing)": (
        "the account or QOS allows another size: name one that does with --qos=NAME under `sbatch` of the cluster; "
        "sacctmgr show qos format=name,mintres,maxtres,maxtrespu,grptres lists them"
    ),
    r"[Ii]nvalid qos": (
        "name a QOS of yours with --qos=NAME under `sbatch` of the cluster; "
        "sacctmgr show assoc user=$USER format=account,qos lists them"
    ),
    r"QOS|policy": "sacctmgr show qos; squeue --me shows which of your jobs count against a limit",
    r"account|association": "set `account:` in the cluster file; sacctmgr show assoc user=$USER lists yours",
    r"partition": "set `partition:` in the cluster file; sinfo -s lists them",
    r"configuration is not available|[Nn]ode count": "sinfo -o '%P %D %G' shows what this cluster has",
    r"time limit": "set a shorter time limit; sinfo -o '%P %l' shows the longest",
    r"feature": "set `constraint:` in the cluster file; sinfo -o '%P %f' lists the features",
    r"reservation|node name|unrecognized option|Invalid --": "correct `sbatch:` of the cluster; sbatch --help",
    r"Unable to open file": "is the recipe set up? The script must exist: ls -l {script}",
    r"contact slurm controller|timed out|gave no answer": (
        "scontrol ping; squeue --name={name} shows whether the job was accepted after all"
    ),
}


def _advice(text: str, spec: JobSpec) -> str:
    for pattern, advice in _ADVICE.items():
        if re.search(pattern, text):
            return advice.format(script=spec.script, name=spec.name)
    return "run the command by hand in that directory"
