"""What is known of an ended row, by the session that runs it and by what an earlier one recorded."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from pytest_gsw.errors import LogError
from pytest_gsw.history.row_history import RowHistory
from pytest_gsw.jobs.journal import Submission
from pytest_gsw.jobs.launcher import Launcher
from pytest_gsw.jobs.model import JobSpec
from pytest_gsw.jobs.states import JobState, JobStatus
from pytest_gsw.logs.model import Identity
from pytest_gsw.session.row_plan import Context, decide
from pytest_gsw.session.row_source import LiveRow, ReplayedRow
from pytest_gsw.stats.decision import Done, Outcome, Repeat, Undecided
from pytest_gsw.stats.noise import Noise
from pytest_gsw.stats.repeats import Repeats
from pytest_gsw.stats.verdict import Verdict
from pytest_gsw.tables.model import definition_hash
from pytest_gsw.validation.agreement import Evidence
from pytest_gsw.validation.run import Run
from tests.messages import wording
from tests.unit.results.records import JOB, SLOW, varied
from tests.unit.rows import LLAMA2_FP8_X128 as ROW
from tests.unit.session.sessions import SETTINGS, replay_of
from tests.unit.validation.ended import GOOD, IDENTITY

IMAGE = "nvcr.io/nvidia/nemo:24.12"
FLUX = cast("Launcher", SimpleNamespace(name="flux", version="0.62"))


def live(
    submitted: Submission | None = None,
    spec: JobSpec | None = None,
    replay: Path | None = None,
) -> LiveRow:
    logs = None if replay is None else replay_of(replay)
    judging = replace(SETTINGS.judging, repeats=Repeats(2, 1))
    return LiveRow(ROW, replace(SETTINGS, replay=logs, judging=judging), FLUX, {}, spec, submitted)


def recorded(**changed: object) -> ReplayedRow:
    return ReplayedRow(ROW, None, varied(SLOW, **changed))


def test_a_live_row_is_known_by_its_log_and_its_launcher(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_text(IDENTITY.replace("SYNTHETIC", f"IMAGE={IMAGE} SYNTHETIC") + "NCCL version 2.21.5+cuda12.4\n")
    row, run = live(), Run("481221", GOOD, log)
    ran = row.circumstances(run)
    assert (ran.image, ran.image_from) == (IMAGE, "log")
    assert ran.environment == {"recipe": "24.11", "nccl": "2.21.5+cuda12.4", "flux": "0.62"}
    assert ran.definition == definition_hash(ROW, IMAGE)
    assert (row.launcher_name, row.repeats, row.was_excused) == ("flux", Repeats(2, 1), False)
    assert row.not_comparable(run) is None
    assert not ran.is_simulated


def test_a_job_that_its_launcher_has_profiled_is_not_comparable(tmp_path: Path) -> None:
    beside = Evidence(tmp_path / "launched.yaml", Identity(), "it was profiled", {"vboost": "true"})
    row, run = live(), Run("481221", GOOD, tmp_path / "run.log", evidence=(beside,))
    assert row.not_comparable(run) == "it was profiled"
    assert row.circumstances(run).environment["vboost"] == "true"


def test_a_live_row_without_a_job_is_known_by_its_table() -> None:
    ran = live().circumstances(None)
    assert (ran.image, ran.image_from, ran.environment, ran.definition) == (None, "", {}, definition_hash(ROW))


def test_a_row_that_an_earlier_session_submitted_has_the_definition_of_then() -> None:
    then = Submission(1.0, "481221", definition="0123456789ab", image=IMAGE)
    row = live(then)
    ran, other = (row.circumstances(Run(job_id, GOOD, None)) for job_id in ("481221", "481222"))
    assert (ran.image, ran.image_from) == (IMAGE, "environment")
    assert ran.definition == "0123456789ab"
    assert other.definition == row.circumstances(None).definition_now  # another job of this session


def test_the_variables_of_a_row_are_those_that_its_job_was_given() -> None:
    run, other = Run("481221", GOOD, None), Run("481222", GOOD, None)
    spec = JobSpec("row", "row", Path("x.sh"), Path(), Path(), 1, 8, {}, variables={"NCCL_IB_DISABLE": "0"})
    assert (
        live(spec=spec).circumstances(None).variables
        == live(spec=spec).circumstances(run).variables
        == {"NCCL_IB_DISABLE": "0"}
    )
    then = live(Submission(1.0, "481221", variables={"NCCL_IB_DISABLE": "1"}), spec)
    assert (then.circumstances(run).variables, then.circumstances(other).variables) == (
        {"NCCL_IB_DISABLE": "1"},
        {"NCCL_IB_DISABLE": "0"},
    )
    assert (
        live(Submission(1.0, "481221"), spec).circumstances(run).variables is None
    )  # of a journal of an earlier release
    # How a log that exists already would be started says nothing of it; a record says what it says.
    assert live(spec=spec, replay=Path("/run")).circumstances(run).variables is None
    assert recorded(variables={"NCCL_IB_DISABLE": "1"}).circumstances(run).variables == {"NCCL_IB_DISABLE": "1"}
    assert recorded().circumstances(run).variables is None


def test_a_replayed_row_is_known_by_its_record() -> None:
    row, run = recorded(definition="0123456789ab", image=IMAGE, image_from="log"), Run("481221", GOOD, None)
    ran = row.circumstances(run)
    assert (ran.image, ran.image_from, ran.definition) == (IMAGE, "log", "0123456789ab")
    assert row.launcher_name == "slurm"
    same = recorded(sigma=0.01, sigma_jobs=7, first_jobs=3, confirm_jobs=2, drift="creeps", not_comparable="a profile")
    assert (
        same.noise(RowHistory(), 0.05),
        same.drift(RowHistory(), ()),
        same.repeats,
    ) == (
        Noise(0.01, 7),
        "creeps",
        Repeats(3, 2),
    )
    assert (same.not_comparable(run), same.was_excused) == ("a profile", False)
    assert recorded(reason="canary", simulated=True).was_excused
    assert recorded(simulated=True).circumstances(run).is_simulated


def test_a_replayed_log_must_be_as_long_as_it_was(tmp_path: Path) -> None:
    first, last = tmp_path / "first.log", tmp_path / "last.log"
    first.write_text("as it was\n")
    last.write_text("longer than it was\n")
    earlier = replace(JOB, id="481220", log=str(first), log_bytes=10)
    row = recorded(repeats=(earlier,), log=str(last), log_bytes=3)
    run = row.with_earlier_jobs(Run("481221", GOOD, last))
    assert [job.job_id for job in run.jobs] == ["481220", "481221"]
    with pytest.raises(LogError, match=wording("log has changed", then=3, now=19)):
        row.check_logs(run)
    live().check_logs(run)


# -- one more job, or none -------------------------------------------------------------------------

LOST = Verdict(Outcome.REGRESSED, measured=1.2, documented=1.0, tolerance=0.05, more=1)
EVEN = Verdict(Outcome.PASSED, measured=1.0, documented=1.0, tolerance=0.05, more=0)
GAINED = Verdict(Outcome.IMPROVED, measured=0.8, documented=1.0, tolerance=0.05, more=0)
CONFIRM = Context(Repeats(first=1, confirm=2))


def run(*nodes: str) -> Run:
    """The row's jobs, each on these nodes, the newest last."""
    jobs = [Run(str(number), JobStatus(JobState.COMPLETED, nodes=one), None) for number, one in enumerate(nodes)]
    return replace(jobs[-1], earlier=tuple(jobs[:-1]))


@pytest.mark.parametrize(
    ("jobs", "verdicts", "context", "expected"),
    [
        (run("n1"), [EVEN], CONFIRM, Done()),
        (run("n1"), [LOST], CONFIRM, Repeat("throughput -16.7 %, to be confirmed (1 of 2)", ("n1",))),
        (run("n1", "n2"), [LOST], CONFIRM, Repeat("throughput -16.7 %, to be confirmed (2 of 2)", ("n1", "n2"))),
        # The newest job, then all; the nodes of one that was fast are free.
        (
            run("n1", "n2"),
            [replace(LOST, jobs=(1.13, 1.003), measured=1.0665)],
            CONFIRM,
            Repeat("-0.3 %; median of 2: -6.2 %, to be confirmed (2 of 2)", ("n1",)),
        ),
        (run("n1", "n2", "n3"), [LOST], CONFIRM, Done()),
        (run("n1"), [replace(LOST, more=0)], CONFIRM, Done()),
        # A site's own rule does not say how many jobs it needs: a row that fails is confirmed.
        (
            run("n1"),
            [replace(LOST, more=None)],
            CONFIRM,
            Repeat("throughput -16.7 %, to be confirmed (1 of 2)", ("n1",)),
        ),
        (run("n1"), [replace(EVEN, more=None)], CONFIRM, Done()),
        (run("n1"), [GAINED], CONFIRM, Done()),
        (
            run("n1"),
            [GAINED],
            replace(CONFIRM, strict=True),
            Repeat("throughput +25.0 %, to be confirmed (1 of 2)", ("n1",)),
        ),
        # Rows that still run may change the outcome, or cannot be heard yet.
        (run("n1"), [LOST, EVEN], CONFIRM, Undecided()),
        (run("n1"), [], CONFIRM, Undecided()),
        (
            run("n[1-2]"),
            [LOST],
            replace(CONFIRM, slow_nodes=("n2", "n7")),
            Repeat("throughput -16.7 %, to be confirmed (1 of 2)", ("n[1-2]", "n7")),
        ),
    ],
)
def test_decision(jobs: Run, verdicts: list[Verdict], context: Context, expected: Repeat | Undecided | Done) -> None:
    assert decide(jobs, verdicts, context) == expected


def test_a_loss_that_is_known_from_the_run_before_is_not_confirmed() -> None:
    known = replace(LOST, noise=Noise(0.002, 20))
    before = replace(CONFIRM, previous_failed=(1.199, 1.201))
    assert decide(run("n1"), [known], before) == Done()
    assert isinstance(decide(run("n1"), [known], replace(CONFIRM, previous_failed=(1.4, 1.4))), Repeat)
