"""What recipes that submit their own job say of it, and where such a job writes.

NeMo-Run names a directory for each experiment. The files in it bear the job's id: the log of each start of the job, and
the batch shell's output. Pure functions, but for a look into that directory.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from pytest_gsw.common.redact import printable
from pytest_gsw.errors import LogError
from pytest_gsw.jobs.launching import Told

#: NeMo-Run puts a time behind the experiment's name.
_EXPERIMENT = re.compile(r"^[ \t]{0,8}Experiment Status for (\S{1,400})_\d{1,18}[ \t]{0,8}$", re.MULTILINE)
_TASK = re.compile(r"^[ \t]{0,8}Task (\d{1,6}):[ \t]{0,8}(\S{0,400})", re.MULTILINE)
_JOB = re.compile(r"^[ \t]{0,16}- Job id:[ \t]{1,8}(\d{1,18})[ \t]{0,8}$", re.MULTILINE)
_PLACE = re.compile(r"^[ \t]{0,16}- Local Directory:[ \t]{1,8}(/[^\n]{0,4000})$", re.MULTILINE)
#: What llmb-run says itself of a job, of either kind of launcher.
_LLMB_RUN = re.compile(r"^JobID: (\d{1,18}), Workdir: (/[^\n]{0,4000})$", re.MULTILINE)
_LLMB_RUN_SBATCH = re.compile(
    r"^SUBMITTED: [^\n]{0,400}\bjobid=(\d{1,18})(?:;\S{1,255})?(?: workdir=(/[^\n]{0,4000}))?[ \t]{0,8}$", re.MULTILINE
)
_LOG = re.compile(r"log-.{1,240}_(?P<job>\d{1,18})_(?P<start>\d{1,9})\.out")
_BATCH_OUTPUT = re.compile(r"(?:sbatch_.{1,240}_|slurm-)(?P<job>\d{1,18})\.out")
_SHOWN = 5
_EXPERIMENTS = "experiments"
#: Where experiments lie below an installation, its workloads, and one of these or a staging area.
_BELOW = ("workloads/*/experiments", "*/experiments", "experiments")
#: An experiment's directory of tasks of one name, of one run, and of one task.
_DEEPEST = 4


def told_by(output: str) -> Told:
    """The job that a launch script's output names, by NeMo-Run's words or by llmb-run's.

    Each task of an experiment waits for the one before it. The last one trains, and has the experiment's name.
    """
    output = printable(output)  # FORCE_COLOR may be exported
    own = dict.fromkeys((*_LLMB_RUN.findall(output), *_LLMB_RUN_SBATCH.findall(output)))
    if own:
        # What it has launched may name a job as well, which is the same one.
        jobs = tuple(dict.fromkeys((*(job_id for job_id, _ in own), *_JOB.findall(output))))
        if len(own) > 1 or len(jobs) > 1:
            return Told(problem=f"it names {max(len(own), len(jobs))} jobs, and one row is one job", job_ids=jobs)
        ((job_id, place),) = own
        return Told(job_id, Path(place.rstrip()) if place else None, job_ids=jobs)
    before, *parts = _TASK.split(output)
    numbers, names, texts = parts[::3], parts[1::3], parts[2::3]
    jobs = tuple(dict.fromkeys(_JOB.findall(output)))
    if not texts:
        return Told(problem="its output has no line 'Task 0:'", job_ids=jobs)
    experiment = _EXPERIMENT.search(before)
    is_chain = experiment is not None and experiment[1] == names[-1] and len(jobs) == len(texts)
    if numbers != [*map(str, range(len(texts)))] or (len(texts) > 1 and not is_chain):
        some = ", ".join(numbers[:_SHOWN])
        return Told(problem=f"its output has the tasks {some}, and one row is one job, task 0", job_ids=jobs)
    tasks = []
    for number, said in zip(numbers, (before + texts[0], *texts[1:]), strict=True):
        ids, places = list(dict.fromkeys(_JOB.findall(said))), _PLACE.findall(said)
        for name, values in (("Job id", ids), ("Local Directory", places)):
            if len(values) != 1:
                fact = f"task {number} in its output has {len(values) or 'no'} '- {name}:'"
                return Told(problem=fact, job_ids=jobs)
        tasks.append((ids[0], Path(places[0].rstrip())))
    return Told(*tasks[-1], job_ids=jobs, waits_for=tuple(tasks[:-1]))


def log_in(directory: Path, job_id: str) -> Path:
    """A job's log in its experiment's directory: that of its last start.

    Raises:
        LogError: There is none (yet).
    """
    names = _names_in(directory)
    logs = filter(None, map(_LOG.fullmatch, names))
    starts = [(int(log["start"]), log[0]) for log in logs if log["job"] == job_id]
    if starts:
        return directory / max(starts)[1]
    if f"slurm-{job_id}.out" in names:
        return directory / f"slurm-{job_id}.out"
    near = tuple(("there is", str(directory / name)) for name in names[-_SHOWN:])
    raise LogError(
        f"no log of job {job_id}",
        (
            ("searched", f"{directory}/log-*_{job_id}_*.out"),
            *(near or (("there is", f"nothing in {directory}"),)),
        ),
        advice=f"ls -lt {directory}",
    )


def logs_below(place: Path) -> list[tuple[Path, str]]:
    """The log of the last start of each job, with the job's id, in all experiments of a place.

    That is an installation (``$LLMB_INSTALL``), its workloads, one of these, a staging area, or a directory in one's
    experiments. Whatever else lies in an installation is not looked at: it may be of millions of files.
    """
    roots = [place]
    if _EXPERIMENTS not in place.parts:
        roots = sorted(root for pattern in _BELOW for root in place.glob(pattern))
    found: dict[tuple[str, str], tuple[int, str]] = {}
    for root in roots:
        for directory, below, names in os.walk(root):
            if directory.count(os.sep) - str(root).count(os.sep) >= _DEEPEST:
                below.clear()
            for log in filter(None, map(_LOG.fullmatch, names)):
                key = directory, log["job"]
                found[key] = max(found.get(key, (-1, "")), (int(log["start"]), log[0]))
            for output in filter(None, map(_BATCH_OUTPUT.fullmatch, names)):
                if output[0].startswith("slurm-") and f"llmb-config_{output['job']}.yaml" in names:
                    found.setdefault((directory, output["job"]), (-1, output[0]))
    return [(Path(directory, name), job_id) for (directory, job_id), (_, name) in sorted(found.items())]


def job_id_in_experiment(name: str) -> str | None:
    """The job's id in the name of a log in an experiment's directory; ``None`` where it is not named so."""
    log = _LOG.fullmatch(name)
    return None if log is None else log["job"]


def batch_output_in(directory: Path, job_id: str) -> Path | None:
    """The batch shell's output of a job, beside its log; ``None`` where there is none."""
    outputs = filter(None, map(_BATCH_OUTPUT.fullmatch, _names_in(directory)))
    return next((directory / output[0] for output in outputs if output["job"] == job_id), None)


def _names_in(directory: Path) -> list[str]:
    try:
        return sorted(path.name for path in directory.iterdir())
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return []  # not there yet
