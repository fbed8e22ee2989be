"""Slurm's answers as values. No text, however odd, makes these functions raise or ends a job."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_gsw.jobs.model import JobState, JobStatus, JobStep
from pytest_gsw.jobs.steps import job_state

#: ``sbatch --parsable``'s answer, and what a reader might take for it: a word that is a number.
_JOB_ID = re.compile(r"([0-9]{1,18})(?:;([^\s;]+))?")
_NUMBER = re.compile(r"\W{0,8}[0-9]{1,18}\b(?![.:,/%]?\w)")

_MANUAL = re.compile(r'Try "\w+ --help" for more information')
_SPEAKER = re.compile(r"^(?:\w+: |\w+ error: )?(?:error: )?(?:Batch job submission failed: )?")
_CODE = re.compile(r"([0-9]{1,9}):([0-9]{1,9})", re.ASCII)
#: A line on a job, ``481220``, or on one of its steps: ``481220.0``, ``481220.batch``.
_JOB_OR_STEP = re.compile(r"(?P<job>[0-9]{1,18})(?:\.(?P<step>[0-9A-Za-z+_.]{1,40}))?", re.ASCII)
#: Seconds since the epoch, and a status as wait(2) has it.
_EPOCH = re.compile(r"[0-9]{1,12}")
_WAIT_STATUS = re.compile(r"[0-9]{1,9}")
_COLUMNS, _END_COLUMNS = 9, 10
#: Entries that are no steps of the recipe: its script, and what belongs to the job from outside.
_NO_STEPS = frozenset({"batch", "extern"})
_SCONTROL_FIELDS = ("JobState", "ExitCode", "Reason", "NodeList", "SubmitTime", "StartTime", "EndTime")
_NOTHING = frozenset({"", "None", "Unknown", "N/A", "(null)", "None assigned"})


@dataclass(frozen=True)
class Answer:
    """What Slurm says of one job id: whose job that is, and how it fares."""

    job_name: str
    status: JobStatus
    #: The batch shell's output, where ``scontrol`` told it.
    output: Path | None = None


@dataclass(frozen=True)
class Output:
    """How one command ended."""

    returncode: int
    stdout: str
    stderr: str
    timed_out: bool = False

    @property
    def problem(self) -> str:
        """The last thing it complained of, without the names of commands before it; empty if nothing."""
        complaints = self.complaints
        return complaints[-1] if complaints else ""

    @property
    def complaints(self) -> list[str]:
        """Each line of its complaints: ``squeue: error: x`` and ``slurm_load_jobs error: x`` → ``x``.

        Where a command does not know an option, its last line, ``Try "sbatch --help" …``, is no complaint.
        """
        lines = (_SPEAKER.sub("", line.strip()) for line in self.stderr.split("\n"))
        return [line for line in lines if line and not _MANUAL.fullmatch(line)]


def parse_sbatch(text: str) -> tuple[str, str] | None:
    """The job in ``sbatch --parsable``'s answer, which is one line: ``481220``, or ``481220;eos`` of the cluster eos.

    A site's wrapper may print lines of text around it. Where another number stands by itself in one of them,
    which of the two is the job cannot be told.

    Returns:
        Its cluster, if one is named, and its id; ``None`` where the answer has none, or more than one number that may
        be it.
    """
    numbers = [word for word in text.split() if _NUMBER.match(word)]
    lines = [line.strip() for line in text.split("\n")]
    found = [(match[2] or "", match[1]) for match in map(_JOB_ID.fullmatch, lines) if match is not None]
    return found[0] if len(found) == len(numbers) == 1 else None


def parse_version(text: str) -> str:
    """Slurm's version in ``sbatch --version``'s answer, ``slurm 22.05.8`` or ``slurm-wlm 22.05.8``; "" for none."""
    match = re.search(r"^slurm\S* (\d[\w.-]{0,40})\s*$", text, re.MULTILINE)
    return match[1] if match else ""


def parse_squeue(text: str) -> dict[str, Answer]:
    """``squeue``'s lines by job id; other lines say nothing."""
    return {job_id: Answer(name.removesuffix("|"), _status(*facts)) for job_id, *facts, name in _rows(text)}


def parse_sacct(text: str) -> dict[str, Answer]:
    """``sacct``'s lines by job id."""
    return {job_id: Answer(name, _status(*facts)) for job_id, *facts, name in _rows(text)}


def _status(state_text: str, code: str, reason: str, nodes: str, submit: str, start: str, end: str) -> JobStatus:
    """What any of the commands has of a job, in their own words."""
    state = job_state(state_text)
    exit_code, signal = _exit_code(code) if state.ended else (None, 0)
    return JobStatus(
        state,
        raw_state=state_text,
        exit_code=exit_code,
        signal=signal,
        reason=_word(reason),
        nodes=_word(nodes),
        submit_s=_epoch_s(submit),
        # Of a waiting job this is when it may start, and of a running one when its time is up.
        start_s=None if state is JobState.PENDING else _epoch_s(start),
        end_s=_epoch_s(end) if state.ended else None,
    )


def parse_ends(text: str) -> dict[str, Answer]:
    """``sacct``'s lines on ended jobs and their steps, by job id; the batch script and ``extern`` are no steps."""
    answers: dict[str, Answer] = {}
    steps: dict[str, list[JobStep]] = {}
    for line in text.split("\n"):
        fields = [field.strip() for field in line.split("|", _END_COLUMNS - 1)]
        match = _JOB_OR_STEP.fullmatch(fields[0])
        if len(fields) != _END_COLUMNS or match is None:
            continue
        job_id, number = match["job"], match["step"]
        if number is None:
            derived = fields.pop(3)
            status = replace(_status(*fields[1:-1]), derived_exit_code=derived if _CODE.fullmatch(derived) else "")
            answers[job_id] = Answer(fields[-1], status)
        elif number not in _NO_STEPS:
            steps.setdefault(job_id, []).append(_step(number, fields))
    return {
        job_id: replace(answer, status=replace(answer.status, steps=tuple(steps.get(job_id, ()))))
        for job_id, answer in answers.items()
    }


def _step(number: str, fields: list[str]) -> JobStep:
    _, state_text, code, _, _, nodes, _, start, end, name = fields
    state = job_state(state_text)
    exit_code, signal = _exit_code(code) if state.ended else (None, 0)
    return JobStep(
        number,
        name,
        state,
        raw_state=state_text,
        exit_code=exit_code,
        signal=signal,
        nodes=_word(nodes),
        start_s=_epoch_s(start),
        end_s=_epoch_s(end) if state.ended else None,
    )


def parse_scontrol(text: str) -> dict[str, Answer]:
    """``scontrol -d -o show job``'s lines by job id."""
    answers = {}
    for line in text.split("\n"):
        # Values may hold blanks, but none of those that are read here does; the first of a name counts,
        # because a comment or a command further on may look like anything.
        fields: dict[str, str] = {}
        for name, value in re.findall(r"(?:^|\s)([A-Za-z]+)=(\S*)", line):
            fields.setdefault(name, value)
        if not fields.get("JobId", "").isdigit():
            continue
        status = _status(*(fields.get(name, "") for name in _SCONTROL_FIELDS))
        derived, output = fields.get("DerivedExitCode", ""), _word(fields.get("StdOut", ""))
        if status.state.ended and _CODE.fullmatch(derived):
            status = replace(status, derived_exit_code=derived)
        answers[fields["JobId"]] = Answer(fields.get("JobName", ""), status, Path(output) if output else None)
    return answers


def why(output: Output) -> str:
    """Why a command told nothing, in a few words."""
    if output.problem:
        return output.problem
    return f"exit code {output.returncode}" if output.returncode else "no record yet"


def scancel_problem(output: Output) -> str:
    """Why jobs may still run after ``scancel``, empty if they will not."""
    if output.returncode == 0:
        return ""
    harmless = ("already completing or completed", "Invalid job id", "Job/step already")
    lines = output.complaints
    serious = [line for line in lines if not any(text in line for text in harmless)]
    return serious[-1] if serious else "" if lines else f"exit code {output.returncode}"


def _rows(text: str) -> Iterator[list[str]]:
    for line in text.split("\n"):
        fields = [field.strip() for field in line.split("|", _COLUMNS - 1)]
        if len(fields) == _COLUMNS and fields[0].isascii() and fields[0].isdigit():
            yield fields


def _word(text: str) -> str:
    return "" if text in _NOTHING else text


def _epoch_s(text: str) -> float | None:
    # SLURM_TIME_FORMAT=%s; anything else ("Unknown", "None", a date) is no time that can be relied on.
    return float(text) if _EPOCH.fullmatch(text) else None


def _exit_code(text: str) -> tuple[int | None, int]:
    """Exit code and signal: as sacct and scontrol write them (7:0), or in a status as wait(2) has it (1792, 9)."""
    if _WAIT_STATUS.fullmatch(text):
        return int(text) >> 8, int(text) & 0x7F
    match = _CODE.fullmatch(text)
    return (int(match[1]), int(match[2])) if match else (None, 0)
