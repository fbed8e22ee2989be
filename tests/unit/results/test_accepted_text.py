"""What people read of an accepted figure, to the letter."""

from __future__ import annotations

import pytest

from pytest_gsw.results.record import Record
from pytest_gsw.results.row_text import accepted_line, hides_loss, ignored_text, unused_text
from tests.unit.results.records import ACCEPTED, NOT_MEASURED, PASSED_BY_ACCEPTED, SLOW, varied


def test_why_an_accepted_figure_does_not_count() -> None:
    start = "the accepted figure of eos (4.9 s, 2026-11-20) was measured "
    end = ": the documented one is used"
    other = "under another definition (3f2a9c1d0e4b, now 0123456789ab)"
    assert unused_text(ACCEPTED, "0123456789ab", ACCEPTED.image) == f"{start}{other}{end}"
    image = "with the image nvidia+jax+maxtext-2024.12.09.sqsh, this run used "
    assert unused_text(ACCEPTED, "0123456789ab", "x.sqsh") == f"{start}{image}the image x.sqsh{end}"
    assert unused_text(ACCEPTED, "0123456789ab", None) == f"{start}{image}an image that is not known{end}"
    assert ignored_text(ACCEPTED) == (
        "the accepted figure of eos (4.9 s, 2026-11-20) was left aside by this session's pytest_gsw_judge"
        ": the documented one is used"
    )


@pytest.mark.parametrize(
    ("record", "text"),
    [
        (
            PASSED_BY_ACCEPTED,
            "passed by what eos has accepted; it is 10.8 % below the documented throughput, and would have failed by it",
        ),
        (varied(PASSED_BY_ACCEPTED, measured={"step_time_s": 4.6}), ""),
        (varied(PASSED_BY_ACCEPTED, outcome="regressed"), ""),
        (varied(SLOW, accepted_note="was not used"), "was not used"),
        (SLOW, ""),
        (NOT_MEASURED, ""),
    ],
)
def test_what_a_summary_must_say_of_an_accepted_figure(record: Record, text: str) -> None:
    assert accepted_line(record) == text
    assert hides_loss(record) is text.startswith("passed by")
