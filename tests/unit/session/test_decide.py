"""Whether a row that has had its first jobs has one more: a function of its verdicts and a few facts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_gsw.jobs.model import JobState, JobStatus
from pytest_gsw.session.row import Context, decide
from pytest_gsw.stats.decision import Done, Repeat, Repeats, Undecided
from pytest_gsw.stats.noise import Noise
from pytest_gsw.stats.verdict import Outcome, Verdict
from pytest_gsw.validation.run import Run

SLOW = Verdict(Outcome.REGRESSED, measured_s=1.2, documented_s=1.0, tolerance=0.05, more=1)
GOOD = Verdict(Outcome.PASSED, measured_s=1.0, documented_s=1.0, tolerance=0.05, more=0)
FAST = Verdict(Outcome.IMPROVED, measured_s=0.8, documented_s=1.0, tolerance=0.05, more=0)
CONFIRM = Context(Repeats(first=1, confirm=2))


def run(*nodes: str) -> Run:
    """The row's jobs, each on these nodes, the newest last."""
    jobs = [Run(str(number), JobStatus(JobState.COMPLETED, nodes=one), None) for number, one in enumerate(nodes)]
    return replace(jobs[-1], earlier=tuple(jobs[:-1]))


@pytest.mark.parametrize(
    ("jobs", "verdicts", "context", "expected"),
    [
        (run("n1"), [GOOD], CONFIRM, Done()),
        (run("n1"), [SLOW], CONFIRM, Repeat("throughput -16.7 %, to be confirmed (1 of 2)", ("n1",))),
        (run("n1", "n2"), [SLOW], CONFIRM, Repeat("throughput -16.7 %, to be confirmed (2 of 2)", ("n1", "n2"))),
        (run("n1", "n2", "n3"), [SLOW], CONFIRM, Done()),
        (run("n1"), [replace(SLOW, more=0)], CONFIRM, Done()),
        # A site's own rule does not say how many jobs it needs: a row that fails is confirmed.
        (
            run("n1"),
            [replace(SLOW, more=None)],
            CONFIRM,
            Repeat("throughput -16.7 %, to be confirmed (1 of 2)", ("n1",)),
        ),
        (run("n1"), [replace(GOOD, more=None)], CONFIRM, Done()),
        (run("n1"), [FAST], CONFIRM, Done()),
        (
            run("n1"),
            [FAST],
            replace(CONFIRM, strict=True),
            Repeat("throughput +25.0 %, to be confirmed (1 of 2)", ("n1",)),
        ),
        # Rows that still run may change the outcome, or cannot be heard yet.
        (run("n1"), [SLOW, GOOD], CONFIRM, Undecided()),
        (run("n1"), [], CONFIRM, Undecided()),
        (
            run("n[1-2]"),
            [SLOW],
            replace(CONFIRM, slow_nodes=("n2", "n7")),
            Repeat("throughput -16.7 %, to be confirmed (1 of 2)", ("n[1-2]", "n7")),
        ),
    ],
)
def test_decision(jobs: Run, verdicts: list[Verdict], context: Context, expected: Repeat | Undecided | Done) -> None:
    assert decide(jobs, verdicts, context) == expected


def test_a_loss_that_is_known_from_the_run_before_is_not_confirmed() -> None:
    known = replace(SLOW, noise=Noise(0.002, 20))
    before = replace(CONFIRM, previous_failed_seconds=(1.199, 1.201))
    assert decide(run("n1"), [known], before) == Done()
    assert isinstance(decide(run("n1"), [known], replace(CONFIRM, previous_failed_seconds=(1.4, 1.4))), Repeat)
