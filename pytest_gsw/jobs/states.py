"""Slurm's words for job states → :class:`~pytest_gsw.jobs.model.JobState`: a closed table."""

from __future__ import annotations

from pytest_gsw.jobs.model import JobState

#: Every base state and state flag that ``squeue``, ``sacct`` and ``scontrol`` print instead of or
#: after a base state (Slurm 17.11 to 25.05, "JOB STATE CODES" of their manual pages).
TABLE: dict[str, JobState] = {
    # Will run. CONFIGURING: nodes boot. SPECIAL_EXIT: it ended with a special code, was requeued, and is held.
    # LAUNCH_FAILED: it could not be started, and was requeued and held.
    **dict.fromkeys(("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD"), JobState.PENDING),
    **dict.fromkeys(("RESV_DEL_HOLD", "SPECIAL_EXIT", "POWER_UP_NODE"), JobState.PENDING),
    **dict.fromkeys(("LAUNCH_FAILED", "RECONFIG_FAIL"), JobState.PENDING),
    # Has started and still holds its nodes, or may go on. COMPLETING: the epilog runs; how it ended is told afterwards.
    **dict.fromkeys(("RUNNING", "COMPLETING", "RESIZING", "SIGNALING", "STAGE_OUT", "STOPPED"), JobState.RUNNING),
    **dict.fromkeys(("SUSPENDED", "UPDATE_DB", "EXPEDITING"), JobState.RUNNING),
    # Will not run any more.
    **{word: JobState(word) for word in ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL")},
    **{word: JobState(word) for word in ("BOOT_FAIL", "DEADLINE", "PREEMPTED", "REVOKED")},
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
