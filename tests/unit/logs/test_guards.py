"""What is guarded behind the interface of a format, whoever wrote it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pytest_gsw import EndMarkers, LineFormat, LogFormat, Step, StepLine, StepLog
from pytest_gsw.errors import LogError
from pytest_gsw.logs import reader
from pytest_gsw.logs.follow import Follower
from pytest_gsw.logs.reader import read_log
from tests.unit.logs.conftest import WriteLog


class Tick(LineFormat):
    name = "tick"
    dialects = ((b"tick ",),)
    first_index = 1
    last_words = EndMarkers((b"ticker starts",), (b"ticker ends",))

    def step(self, line: bytes) -> StepLine | None:
        found = re.search(rb"tick (\d+) took ([\d.]+|nan) s(?:, loss (\S+))?", line)
        return None if found is None else StepLine(int(found[1]), found[2], loss=found[3])


class Ranks(Tick):
    every_rank_prints = True


class Lossy(Tick):
    always_has_loss = True


class Milliseconds(Tick):
    unit = "milliseconds"


class Unnumbered(LineFormat):
    name = "tock"
    dialects = ((b"tock ",),)
    unit = "samples_per_s"

    def step(self, line: bytes) -> StepLine | None:
        return StepLine(None, line.split()[1])


class Bare:
    """As docs/hooks.md once showed: its pattern knows no NaN, and it counts every attempt's steps."""

    name = "bare"
    dialects = ((b"tick ",),)
    first_index = 1
    wraps = False
    shows_progress = True

    def reader(self) -> BareParser:
        return BareParser()


class BareParser:
    def __init__(self) -> None:
        self.steps: list[Step] = []

    def feed(self, offset: int, record: bytes) -> None:
        found = re.search(rb"tick (\d+) took ([\d.]+) s", record)
        if found is not None:
            self.steps.append(Step(int(found[1]), seconds=float(found[2]), offset=offset))

    def log(self) -> StepLog:
        return StepLog("bare", tuple(self.steps), attempts=1)


def ticks(*numbers: int, took: str = "0.7", rest: str = "", label: str = "") -> bytes:
    return "".join(f"{label}tick {number} took {took} s{rest}\n" for number in numbers).encode()


def indexes(log: StepLog) -> list[int | None]:
    return [step.index for step in log.steps]


def test_the_steps_of_the_last_attempt(write_log: WriteLog) -> None:
    log = read_log(write_log(ticks(1, 2, 3, took="9.9") + ticks(1, 2)), Tick())
    assert (log.attempts, indexes(log), [step.seconds for step in log.steps]) == (2, [1, 2], [0.7, 0.7])


def test_a_rank_is_known_by_its_label(write_log: WriteLog) -> None:
    content = b"".join(
        ticks(step, took="3.0" if rank == 2 else "0.9", label=f"{rank}: ") for step in (1, 2) for rank in range(4)
    )
    log = read_log(write_log(content), Ranks())
    assert [step.seconds for step in log.steps] == [0.9, 0.9]
    assert log.printed is not None
    assert sorted(log.printed(log.steps[1])) == [("rank 0", 0.9), ("rank 1", 0.9), ("rank 2", 3.0), ("rank 3", 0.9)]


@pytest.mark.parametrize("log_format", [Tick(), Bare()], ids=["base", "bare"])
@pytest.mark.parametrize(
    ("damage", "text"),
    [
        (ticks(3, took="nan"), "tick 3 took nan"),
        (ticks(3, rest=", loss NaN"), "tick 3 took 0.7 s, loss NaN"),
        (ticks(3, rest=", grad_norm=inf"), "tick 3 took 0.7 s, grad_norm=inf"),
        (b"tick 3 took -Infinity s\n", "tick 3 took -Infinity"),
    ],
)
def test_a_figure_that_is_not_finite(write_log: WriteLog, log_format: LogFormat, damage: bytes, text: str) -> None:
    log = read_log(write_log(ticks(1, 2) + damage + ticks(4)), log_format)
    assert log.not_finite is not None
    assert log.not_finite[1] in {text, "step time nan"}
    path = write_log(ticks(1, 2) + damage, "growing.log")
    assert Follower(path, log_format).advance().not_finite is not None


@pytest.mark.parametrize("log_format", [Tick(), Bare()], ids=["base", "bare"])
def test_words_that_only_look_like_it(write_log: WriteLog, log_format: LogFormat) -> None:
    content = (
        ticks(1, rest=", INFO nano inf/loss.py nan-check info=1 [INF] nan iterations: 0")
        + b"tick information: infra is up\n"
        + ticks(2)
    )
    assert read_log(write_log(content), log_format).not_finite is None


def test_an_attempt_that_diverged_before(write_log: WriteLog) -> None:
    first = ticks(1, 2, rest=", loss nan")
    log = read_log(write_log(first + ticks(1, 2, rest=", loss 9")), Tick())
    assert log.not_finite is None
    (diverged,) = log.diverged
    assert (diverged.attempt, diverged.index, diverged.begin, diverged.end) == (1, 1, 0, len(first))


def test_units_and_a_loss_that_is_missing(write_log: WriteLog) -> None:
    # A loss that is missing.
    log = read_log(write_log(ticks(1, rest=", loss 9") + ticks(2) + ticks(3, rest=", loss 0.000")), Lossy())
    assert log.without_loss == (2,)
    assert list(log.losses or ()) == [9.0, 0.0]
    # Units.
    assert [step.seconds for step in read_log(write_log(ticks(1, took="700")), Milliseconds()).steps] == [0.7]
    log = read_log(write_log(b"tock 8.5\ntock 9.5\n"), Unnumbered())
    assert [step.samples_per_s for step in log.steps] == [8.5, 9.5]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"ticker starts\n" + ticks(1) + b"ticker ends\n", True),
        (b"ticker starts\n" + ticks(1), False),
        (ticks(1), None),
        (b"ticker starts\n" + ticks(1) + b"ticker ends\n" + b"ticker starts\n" + ticks(1), False),
    ],
)
def test_last_words(write_log: WriteLog, content: bytes, said: bool | None) -> None:
    assert read_log(write_log(content), Tick()).has_end_marker is said


def test_last_words_before_megabytes_of_others(write_log: WriteLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_END_BYTES", 256)
    for before, behind in ((0, 99), (99, 0)):
        content = b"ticker starts\n" + ticks(1) + b"teardown\n" * before + b"ticker ends\n" + b"teardown\n" * behind
        assert read_log(write_log(content), Tick()).has_end_marker is True


@pytest.mark.parametrize(
    ("end", "shown"),
    [
        (b"tick 2 took 0.", "tick 2 took 0."),
        (b"tick 2 took 0.7 s\n", None),
        (b"\x1b[0m", None),
        (b"10%|# | 1/9 [a=1]\r20%|## | 2/9 [a=1]", None),
        (b"10%|# | 1/9 [a=1]\r20%|## | 2/9 [a=", "20%|## | 2/9 [a="),
        (b"10%|# | 1/9 [a=1]\r", None),
    ],
)
def test_a_line_that_does_not_end(write_log: WriteLog, end: bytes, shown: str | None) -> None:
    assert read_log(write_log(ticks(1) + end), Tick()).open_line == shown


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (ticks(1, 2) + ticks(1, 2), "step 1 follows step 2: several attempts or ranks are taken for one"),
        (ticks(1, 1), "step 1 follows step 1: several attempts or ranks are taken for one"),
    ],
)
def test_a_format_that_sorts_nothing_out(write_log: WriteLog, content: bytes, fault: str) -> None:
    path = write_log(content)
    with pytest.raises(LogError) as caught:
        read_log(path, Bare())
    assert str(caught.value) == (
        f"the log format bare returned impossible steps: {fault}\n"
        "\n"
        f"log        {path}\n"
        f"format     {Bare.__module__}.Bare\n"
        "next       derive it from pytest_gsw.LineFormat, which separates attempts and ranks"
    )


@pytest.mark.parametrize(
    ("steps", "fault"),
    [
        ((Step(1),), "step 1 has 0 times or rates, wanted one"),
        ((Step(1, seconds=1.0, samples_per_s=1.0),), "step 1 has 2 times or rates, wanted one"),
        ((Step(1, seconds=1.0), Step(None, seconds=1.0)), "some steps have a number and others have none"),
    ],
)
def test_steps_that_cannot_be(write_log: WriteLog, steps: tuple[Step, ...], fault: str) -> None:
    class OddParser(BareParser):
        def log(self) -> StepLog:
            return StepLog("odd", steps, attempts=1)

    class Odd(Bare):
        def reader(self) -> BareParser:
            return OddParser()

    with pytest.raises(LogError, match=re.escape(fault)):
        read_log(write_log(ticks(1)), Odd())


def test_a_time_that_is_none(write_log: WriteLog) -> None:
    class NegativeParser(BareParser):
        def feed(self, offset: int, record: bytes) -> None:
            self.steps.append(Step(1, seconds=-1.0, offset=offset))

    class Negative(Bare):
        def reader(self) -> BareParser:
            return NegativeParser()

    assert read_log(write_log(ticks(1)), Negative()).not_finite == (1, "step time -1.0")
    assert isinstance(write_log(b""), Path)
