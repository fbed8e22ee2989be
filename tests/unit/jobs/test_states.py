from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gsw.jobs.states import STANDING_STILL, TABLE, JobState, job_state


@pytest.mark.parametrize(
    ("text", "state"),
    [
        *((state.value, state) for state in JobState if state not in {JobState.REPLAYED, JobState.UNKNOWN}),
        ("REQUEUED", JobState.PENDING),
        ("SPECIAL_EXIT", JobState.PENDING),
        ("COMPLETING", JobState.RUNNING),
        ("STAGE_OUT", JobState.RUNNING),
        ("CANCELLED by 1000", JobState.CANCELLED),
        ("FAILED+COMPLETING", JobState.RUNNING),
        ("NODE_FAIL+REQUEUED", JobState.PENDING),
        ("completed", JobState.COMPLETED),
    ],
)
def test_slurms_words(text: str, state: JobState) -> None:
    assert job_state(text) is state


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "DONE",
        "COMPLETED by 1000",
        "COMPLET+",
        "CO+",
        "+",
        "COMPLETED+FAILED",
        "COMPLETED+NEW_FLAG",
        "REPLAYED",
    ],
)
def test_what_is_not_in_the_table_is_unknown(text: str) -> None:
    assert job_state(text) is JobState.UNKNOWN


@given(st.text())
def test_a_text_that_names_no_end_ends_no_job(text: str) -> None:
    ends = [word for word, state in TABLE.items() if state.ended]
    if not any(word.startswith(text.upper().split("+")[0].split(" ")[0].strip()[:3]) for word in ends):
        assert not job_state(text).ended


def test_an_end_is_known_and_final() -> None:
    assert {state for state in JobState if not state.ended} == {JobState.PENDING, JobState.RUNNING, JobState.UNKNOWN}


def test_a_word_of_a_running_job_says_whether_its_processes_may_stand_still() -> None:
    running = {word for word, state in TABLE.items() if state is JobState.RUNNING}
    assert running - STANDING_STILL == {"RUNNING", "UPDATE_DB"}
    assert running >= STANDING_STILL
