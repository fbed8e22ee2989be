"""A site's launcher that raises or answers rubbish at any time."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_gsw.errors import JobError, LogError, RunError, SubmissionError
from pytest_gsw.hooks.guard import GuardedLauncher, guarded_format, is_own
from pytest_gsw.jobs.local import LocalLauncher
from pytest_gsw.jobs.model import Job, JobSpec, JobState, JobStatus, Named
from pytest_gsw.logs.formats.registry import FORMATS

SPEC = JobSpec("row", "gsw-row", Path("launch.sh"), Path(), Path(), 1, 8, {})
JOB = Job("f734016966", SPEC, 0.0)
RUNNING = JobStatus(JobState.RUNNING)
HERE = "tests.unit.hooks.test_guard"


class Site:
    """A launcher whose methods do what they are told."""

    name = "site"

    def __init__(self, answer: Callable[[], Any]) -> None:
        self._answer = answer

    def __getattr__(self, name: str) -> Any:
        def method(*_arguments: object) -> Any:
            return self._answer()

        return method


def raising(error: BaseException) -> Callable[[], Any]:
    def answer() -> Any:
        raise error

    return answer


def guarded(answer: Callable[[], Any], told: list[str] | None = None) -> GuardedLauncher:
    return GuardedLauncher(Site(answer), list, (told if told is not None else []).append)  # type: ignore[arg-type]


@pytest.mark.parametrize("error", [KeyError("x"), OSError(5, "I/O error"), SystemExit(3), RuntimeError("x")])
@pytest.mark.parametrize(
    ("kind", "ask"),
    [
        (SubmissionError, lambda launcher: launcher.submit(SPEC)),
        (SubmissionError, lambda launcher: launcher.find(SPEC, 0.0)),
        (SubmissionError, lambda launcher: launcher.named([SPEC], 0.0)),
        (JobError, lambda launcher: launcher.cancel([JOB])),
        (JobError, lambda launcher: launcher.close()),
        (LogError, lambda launcher: launcher.find_log(JOB)),
        (RunError, lambda launcher: launcher.command(SPEC)),
    ],
    ids=["submit", "find", "named", "cancel", "close", "find_log", "command"],
)
def test_whatever_is_raised_is_an_error_that_callers_know(
    kind: type[RunError], ask: Callable[[Any], object], error: BaseException
) -> None:
    with pytest.raises(kind) as found:
        ask(guarded(raising(error)))
    assert found.value.fact.startswith(
        f"the launcher fails: raising.answer of {HERE} raised "
    ) or found.value.fact.startswith(f"the launcher fails: Site.method of {HERE} raised ")
    assert type(error).__name__ in found.value.fact or "I/O error" in found.value.fact


def test_an_error_names_the_hook() -> None:
    with pytest.raises(SubmissionError) as found:
        guarded(raising(KeyError("x"))).submit(SPEC)
    assert found.value.evidence[0] == ("hook", "pytest_gsw_make_launcher")


@pytest.mark.parametrize(
    "answer",
    [None, "123", 7, [JOB], [Named("1 2", "gsw-row", RUNNING)], [Named("1", None, RUNNING)]],  # type: ignore[arg-type]
)
def test_names_that_are_none_are_refused(answer: Any) -> None:
    with pytest.raises(SubmissionError, match=r"Site\.named returned "):
        guarded(lambda: answer).named([SPEC], 0.0)  # type: ignore[misc]


def test_jobs_by_their_names_are_handed_on() -> None:
    job = Named("1", "gsw-row", RUNNING)
    assert guarded(lambda: [job]).named([SPEC], 0.0) == (job,)  # type: ignore[misc]


def test_a_launcher_that_knows_no_names() -> None:
    class Own(LocalLauncher):
        pass

    assert GuardedLauncher(Own(1), list).named is None


def test_a_version_that_raises_is_told_once_and_decides_nothing() -> None:
    class Own(LocalLauncher):
        @property
        def version(self) -> str:
            raise KeyError("x")

    told: list[str] = []
    launcher = GuardedLauncher(Own(1), list, told.append)
    assert (launcher.version, launcher.version) == ("", "")
    assert told == [f"the launcher fails: Own.version of {HERE} raised KeyError: 'x'"]


def test_an_error_of_another_kind_is_one_of_this_kind() -> None:
    with pytest.raises(LogError, match="gone"):
        guarded(raising(JobError("gone"))).find_log(JOB)
    with pytest.raises(JobError, match="gone"):
        guarded(raising(LogError("gone"))).cancel([JOB])


def test_what_is_not_answered_is_not_known_and_told_once() -> None:
    told: list[str] = []
    launcher = guarded(raising(KeyError("x")), told)
    for _ in range(3):
        answers = launcher.poll([JOB])
    assert answers["row"].state is JobState.UNKNOWN
    assert answers["row"].reason == f"the launcher fails: Site.method of {HERE} raised KeyError: 'x'"
    assert told == [f"{answers['row'].reason}; what is not known for ten minutes is an error"]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (
            {"f734016966": JobStatus(JobState.COMPLETED)},
            "by the job's id; statuses are by the row's id, job.spec.row_id",
        ),
        ({"row": "COMPLETED"}, "Site.poll returned 'COMPLETED' for row, wanted a JobStatus"),
        ({"row": JobStatus("COMPLETED")}, "state: got 'COMPLETED', wanted a JobState"),  # type: ignore[arg-type]
        ([], "Site.poll returned list, wanted a mapping of row ids to JobStatus"),
        (None, "Site.poll returned NoneType, wanted a mapping of row ids to JobStatus"),
        ({}, "no answer"),
    ],
)
def test_an_answer_that_is_none_is_not_known(answer: Any, reason: str) -> None:
    status = guarded(lambda: answer).poll([JOB])["row"]
    assert status.state is JobState.UNKNOWN
    assert status.reason.endswith(reason)


def test_a_sound_answer_is_handed_on() -> None:
    status = JobStatus(JobState.RUNNING)
    assert guarded(lambda: {"row": status, "other": status}).poll([JOB]) == {"row": status}
    assert guarded(lambda: JOB).submit(SPEC) is JOB
    assert guarded(lambda: None).find(SPEC, 0.0) is None
    assert guarded(lambda: Path("log")).find_log(JOB) == Path("log")
    assert guarded(lambda: "text").batch_output(JOB) is None


@pytest.mark.parametrize(
    "job_id", ["", "-1", ".", "..", "../x", "a/b", "a\\b", "a b", "a\nb", "a\0b", "\x1b[31m", "x" * 129, 7, None]
)
def test_what_can_be_no_id_is_refused(job_id: Any) -> None:
    with pytest.raises(SubmissionError, match=r"Site\.submit returned a Job whose id is "):
        guarded(lambda: replace(JOB, id=job_id)).submit(SPEC)


@pytest.mark.parametrize("job_id", ["1", "f734016966", "123.server", "123[4].server", "pod-abc", "ƒ2oJkXyz", "a*b?"])
def test_ids_are_text(job_id: str) -> None:
    assert guarded(lambda: replace(JOB, id=job_id)).submit(SPEC).id == job_id


def test_what_is_no_job_is_refused() -> None:
    with pytest.raises(SubmissionError, match=r"Site\.submit returned str, wanted a Job"):
        guarded(lambda: "123").submit(SPEC)
    other = replace(JOB, spec=replace(SPEC, row_id="other"))
    with pytest.raises(SubmissionError, match="with the spec of other"):
        guarded(lambda: other).submit(SPEC)


def test_what_came_with_the_project_is_not_guarded() -> None:
    class Own(LocalLauncher):
        pass

    assert is_own(LocalLauncher(1))
    assert not is_own(Own(1))
    assert guarded_format(FORMATS["maxtext"], list) is FORMATS["maxtext"]


def test_a_format_that_returns_something_else() -> None:
    log_format = guarded_format(Site(lambda: Site(list)), list)  # type: ignore[arg-type]
    with pytest.raises(LogError, match=r"the parser of Site returned list, wanted a StepLog"):
        log_format.reader().log()


@pytest.mark.parametrize(
    ("facts", "wrong"),
    [
        ({"start_s": math.nan}, "start_s: got nan, wanted seconds since the epoch, or None"),
        ({"end_s": math.inf}, "end_s: got inf, wanted seconds since the epoch, or None"),
        ({"exit_code": "0"}, "exit_code: got '0', wanted a whole number or None"),
        ({"signal": None}, "signal: got None, wanted a whole number, 0 or more"),
        ({"reason": None}, "reason: got None, wanted a text"),
        ({"nodes": ["n1"]}, "nodes: got ['n1'], wanted a text"),
        ({"steps": ("0",)}, "steps: got ('0',), wanted a tuple of JobStep, or None"),
    ],
)
def test_a_status_that_no_journal_can_keep_is_none(facts: dict[str, Any], wrong: str) -> None:
    told: list[str] = []
    status = JobStatus(JobState.COMPLETED, **{"exit_code": 0, **facts})
    found = guarded(lambda: {"row": status}, told).poll([JOB])["row"]
    assert found == JobStatus(JobState.UNKNOWN, reason=f"Site.poll returned for row a JobStatus with {wrong}")
    assert told == [f"{found.reason}; what is not known for ten minutes is an error"]
