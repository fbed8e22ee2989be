"""Slurm's words for job states → :class:`~pytest_gsw.jobs.model.JobState`: a closed table."""

from __future__ import annotations

from pytest_gsw.jobs.model import JobState

#: Every base state and state flag that ``squeue``, ``sacct`` and ``scontrol`` print instead of or
#: after a base state (Slurm 17.11 to 25.05, "JOB STATE CODES" of their manual pages).
TABLE: dict[str, JobState] = {
    # Will run.
    "PENDING": JobState.PENDING,
    "CONFIGURING": JobState.PENDING,  # nodes boot
    "REQUEUED": JobState.PENDING,
    "REQUEUE_FED": JobState.PENDING,
    "REQUEUE_HOLD": JobState.PENDING,
    "RESV_DEL_HOLD": JobState.PENDING,
    "SPECIAL_EXIT": JobState.PENDING,  # ended with a special code, was requeued, and is held
    "POWER_UP_NODE": JobState.PENDING,
    "LAUNCH_FAILED": JobState.PENDING,  # could not be started, and was requeued and held
    "RECONFIG_FAIL": JobState.PENDING,
    # Has started and still holds its nodes, or may go on.
    "RUNNING": JobState.RUNNING,
    "COMPLETING": JobState.RUNNING,  # the epilog runs; how the job ended is told afterwards
    "RESIZING": JobState.RUNNING,
    "SIGNALING": JobState.RUNNING,
    "STAGE_OUT": JobState.RUNNING,
    "STOPPED": JobState.RUNNING,
    "SUSPENDED": JobState.RUNNING,
    "UPDATE_DB": JobState.RUNNING,
    "EXPEDITING": JobState.RUNNING,
    # Will not run any more.
    "COMPLETED": JobState.COMPLETED,
    "FAILED": JobState.FAILED,
    "CANCELLED": JobState.CANCELLED,
    "TIMEOUT": JobState.TIMEOUT,
    "OUT_OF_MEMORY": JobState.OUT_OF_MEMORY,
    "NODE_FAIL": JobState.NODE_FAIL,
    "BOOT_FAIL": JobState.BOOT_FAIL,
    "DEADLINE": JobState.DEADLINE,
    "PREEMPTED": JobState.PREEMPTED,
    "REVOKED": JobState.REVOKED,
}

#: ``sacct`` cuts a word to its column's width and marks that with a plus: ``CANCELLED+``, ``OUT_OF_ME+``.
_SHORTEST_CUT = 3


def job_state(text: str) -> JobState:
    """The state that Slurm's text stands for; a word that is not in the table is UNKNOWN, never an end."""
    words = text.upper().split()
    if not words:
        return JobState.UNKNOWN
    # "CANCELLED by 1000" says who did it; nothing else follows a state after a blank.
    if len(words) > 1 and words[:2] != ["CANCELLED", "BY"]:
        return JobState.UNKNOWN
    word = words[0]
    if word in TABLE:
        return TABLE[word]
    if word.endswith("+"):
        return _of_cut_word(word[:-1])
    return _of_flags(word.split("+"))


def _of_cut_word(start: str) -> JobState:
    if len(start) < _SHORTEST_CUT:
        return JobState.UNKNOWN
    possible = {state for word, state in TABLE.items() if word.startswith(start)}
    return possible.pop() if len(possible) == 1 else JobState.UNKNOWN


def _of_flags(words: list[str]) -> JobState:
    """``FAILED+COMPLETING``: as long as one of the words says that the job is not over, it is not."""
    states = {TABLE.get(word, JobState.UNKNOWN) for word in words}
    for state in (JobState.UNKNOWN, JobState.PENDING, JobState.RUNNING):
        if state in states:
            return state
    return states.pop() if len(states) == 1 else JobState.UNKNOWN
