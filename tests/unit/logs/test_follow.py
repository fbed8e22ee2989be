from __future__ import annotations

import os
import pickle
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_gsw.errors import LogError
from pytest_gsw.logs import follow
from pytest_gsw.logs.follow import Follower, Progress
from pytest_gsw.logs.formats.registry import FORMATS
from pytest_gsw.logs.model import LogFormat, Step
from pytest_gsw.logs.reader import read_log
from tests.messages import wording
from tests.unit.logs.lines import (
    EXAMPLES,
    NOISE,
    bar,
    dll,
    maxtext,
    megatron,
    paxml,
    paxml_start,
    pipe,
    printer,
    summary,
    throughput,
    titan,
)
from tests.unit.logs.test_properties import CONTENTS
from tests.unit.logs.test_scan import labelled

MAXTEXT = FORMATS["maxtext"]


class Counting:
    """A format that counts the records that its parsers are fed."""

    def __init__(self, log_format: LogFormat) -> None:
        self._format = log_format
        self.name = log_format.name
        self.dialects = log_format.dialects
        self.first_index = log_format.first_index
        self.wraps = log_format.wraps
        self.shows_progress = log_format.shows_progress
        self.fed = 0

    def reader(self) -> CountingParser:
        return CountingParser(self._format.reader(), self)


class CountingParser:
    def __init__(self, parser: Any, counting: Counting) -> None:
        self._parser = parser
        self._counting = counting
        self.guards_itself = parser.guards_itself
        self.log = parser.log
        self.tail = parser.tail

    def feed(self, offset: int, record: bytes) -> None:
        self._counting.fed += 1
        self._parser.feed(offset, record)


class Log:
    """A log that is written piece by piece, and its follower."""

    def __init__(self, path: Path, log_format: LogFormat = MAXTEXT, **options: int) -> None:
        self.path = path
        self.follower = Follower(path, log_format, **options)

    def add(self, content: bytes) -> Progress:
        with self.path.open("ab") as file:
            file.write(content)
        return self.follower.advance()

    def settled(self) -> Progress:
        """What the follower says when it was asked often enough after the last line."""
        for _ in range(300):
            self.follower.advance()
        return self.follower.advance()


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path / "run.log")


def last_s(progress: Progress) -> float | None:
    return None if progress.last is None else progress.last.seconds


def median_s(progress: Progress) -> float | None:
    return None if progress.median is None else progress.median.seconds


def said(progress: Progress) -> tuple[Any, ...]:
    return progress.steps, progress.last, progress.median, progress.not_finite


def expected(path: Path, log_format: LogFormat) -> tuple[Any, ...]:
    """What the reader says of the same file."""
    try:
        log = read_log(path, log_format)
    except LogError as error:
        return 0, None, None, error.fact.partition("finite: ")[2].rpartition(":")[0]
    recent = log.steps[-10:]

    def middle(values: Iterable[float | None]) -> float | None:
        found = [value for value in values if value is not None]
        return median(found) if found else None

    typical = Step(
        None,
        middle(step.seconds for step in recent),
        middle(step.samples_per_s for step in recent),
        middle(step.tokens_per_s_per_gpu for step in recent),
    )
    return len(log.steps), log.steps[-1], typical, log.not_finite


def assert_same(log: Log, log_format: LogFormat) -> None:
    progress, wanted = said(log.settled()), expected(log.path, log_format)
    if wanted[0] == 0:
        assert progress[:3] == (0, None, None)
        assert (progress[3][1] if progress[3] else "") == wanted[3]
    else:
        assert progress == wanted


class TestProgress:
    def test_of_a_log_that_is_not_there_yet(self, log: Log, tmp_path: Path) -> None:
        assert log.follower.advance() == Progress()
        log.path.touch()
        assert log.follower.advance() == Progress()
        assert log.add(NOISE) == Progress(bytes_read=len(NOISE))
        # Of a folder that is not there yet.
        (tmp_path / "file").touch()
        for path in (tmp_path / "folder" / "run.log", tmp_path / "file" / "run.log"):
            assert Follower(path, MAXTEXT).advance() == Progress()

    def test_step_by_step(self, log: Log) -> None:
        first = log.add(maxtext(0, "9.125"))
        assert (first.steps, first.last_index, last_s(first), median_s(first)) == (1, 0, 9.125, 9.125)
        assert (first.changed, first.bytes_read, first.bytes_left) == (True, len(maxtext(0, "9.125")), 0)
        second = log.add(NOISE + maxtext(1, "4.25"))
        assert (second.steps, second.last_index, last_s(second), median_s(second)) == (2, 1, 4.25, 6.6875)
        assert replace(second, changed=False, bytes_read=0) == log.follower.advance()

    def test_the_median_is_that_of_the_last_ten(self, log: Log) -> None:
        progress = log.add(b"".join(maxtext(step, f"{20 - step}.0") for step in range(15)))
        assert progress.median == Step(None, seconds=10.5)

    def test_rates_are_given_as_the_log_has_them(self, tmp_path: Path) -> None:
        progress = Log(tmp_path / "a", FORMATS["torchtitan"]).add(titan(1, "410") + titan(2, "6,785"))
        assert progress.last == Step(2, tokens_per_s_per_gpu=6785, offset=len(titan(1, "410")))
        assert progress.median == Step(None, tokens_per_s_per_gpu=3597.5)
        assert (progress.last_index, last_s(progress), median_s(progress)) == (2, None, None)
        progress = Log(tmp_path / "b", FORMATS["deepspeed"]).add(throughput(10, "12.5"))
        assert progress.last == Step(10, samples_per_s=12.5, offset=0)

    def test_a_loss_that_is_not_finite(self, log: Log) -> None:
        log.add(b"".join(maxtext(step, "4.5") for step in range(50)))
        progress = log.add(maxtext(50, "4.5", loss="nan") + maxtext(51, "4.5", loss="nan"))
        assert (progress.not_finite, progress.changed) == ((50, "loss: nan"), True)
        assert log.add(maxtext(52, "4.5")).not_finite == (50, "loss: nan")
        assert not log.follower.advance().changed

    def test_changed_is_about_steps(self, log: Log) -> None:
        log.add(b"".join(maxtext(7, "4.5", head=f"{rank}: ") for rank in range(3)))
        assert not log.add(NOISE).changed
        assert not log.add(maxtext(7, "4.75", head="3: ")).changed
        assert log.add(maxtext(8, "4.5", head="1: ")).changed


class TestLines:
    def test_the_last_line_waits_for_its_end(self, log: Log) -> None:
        line = maxtext(0, "14.25")
        for byte in line[:-1]:
            assert log.add(bytes([byte])) == Progress(bytes_read=1)
        assert last_s(log.add(line[-1:])) == 14.25

    def test_bars_without_a_line_end(self, tmp_path: Path) -> None:
        log = Log(tmp_path / "run.log", FORMATS["nemo"])
        for step in range(30):
            progress = log.add(b"\r" + bar(step + 1, f"{step}.000", f"{step + 1}.50"))
            assert progress.last_index == (step - 1 if step else None)  # its own end is the next one's beginning
        assert log.add(b"\n").steps == 30

    @pytest.mark.parametrize("piece", [1, 37, 1500])
    def test_lines_that_srun_cut(self, tmp_path: Path, piece: int) -> None:
        log = Log(tmp_path / "run.log", FORMATS["nemo"])
        text = b"".join(b"\r" + bar(step + 1, f"{step}.000", f"{step + 1}.50") for step in range(12)) + b"\n"
        content = labelled("3: ", text)
        for at in range(0, len(content), piece):
            log.add(content[at : at + piece])
        assert_same(log, FORMATS["nemo"])
        assert log.settled().steps == 12

    def test_a_line_of_megabytes_is_passed_over(self, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(follow, "LONGEST_LINE_BYTES", 10_000)
        log.add(maxtext(0, "4.5"))
        for _ in range(30):
            log.add(b"x" * 1000)
        assert len(log.follower._lines._pending) <= 10_000
        log.add(b"completed step: 1, seconds: 4.5\r")
        assert log.add(maxtext(2, "4.5")).steps == 2

    def test_a_bounded_look_goes_on_where_it_stopped(self, tmp_path: Path) -> None:
        log = Log(tmp_path / "run.log", read_bytes=1000)
        content = b"".join(NOISE * 5 + maxtext(step, "4.5") for step in range(9))
        progress = log.add(content)
        assert (progress.bytes_read, progress.bytes_left) == (1000, len(content) - 1000)
        looks = 1
        while progress.bytes_left:
            progress = log.follower.advance()
            looks += 1
        assert (progress.steps, looks) == (9, -(-len(content) // 1000))


class TestFile:
    def test_nothing_new_costs_one_stat(self, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
        log.add(maxtext(0, "4.5"))
        calls: list[str] = []

        def counted(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
            def counting(*args: Any, **options: Any) -> Any:
                calls.append(name)
                return call(*args, **options)

            return counting

        for name in ("stat", "open", "fstat", "lstat"):
            monkeypatch.setattr(os, name, counted(name, getattr(os, name)))
        progress = log.follower.advance()
        monkeypatch.undo()
        assert calls == ["stat"]
        assert (progress.steps, progress.bytes_read) == (1, 0)

    def test_truncated(self, log: Log) -> None:
        log.add(maxtext(0, "4.5") + maxtext(1, "4.5"))
        log.path.write_bytes(maxtext(0, "9.5"))
        progress = log.follower.advance()
        assert (progress.steps, last_s(progress), progress.changed) == (1, 9.5, True)

    def test_truncated_and_longer_already(self, log: Log) -> None:
        log.add(maxtext(0, "4.5") + maxtext(1, "4.5"))
        log.path.write_bytes(b"".join(maxtext(step, "9.25") for step in range(3)))
        progress = log.follower.advance()
        assert (progress.steps, median_s(progress)) == (3, 9.25)

    def test_replaced(self, log: Log) -> None:
        log.add(maxtext(0, "4.5"))
        other = log.path.with_name("other.log")
        other.write_bytes(maxtext(0, "9.5") + maxtext(1, "9.5"))
        other.replace(log.path)
        assert median_s(log.follower.advance()) == 9.5

    def test_gone_for_a_moment(self, log: Log) -> None:
        log.add(maxtext(0, "4.5"))
        away = log.path.rename(log.path.with_name("away"))
        assert log.follower.advance() == Progress(1, Step(0, 4.5, offset=0), Step(None, 4.5))
        away.rename(log.path)
        assert log.add(maxtext(1, "4.5")).steps == 2

    def test_no_regular_file(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe")
        for path in (tmp_path, tmp_path / "pipe"):
            with pytest.raises(LogError) as caught:
                Follower(path, MAXTEXT).advance()
            assert str(caught.value) == (
                f"the log cannot be read: {path.name}: it is no regular file\n\n"
                f"log        {path}\nnext       check the permissions and the file system"
            )

    def test_unreadable(self, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
        log.add(maxtext(0, "4.5"))

        def refuse(*_: object) -> int:
            raise PermissionError(13, "Permission denied")

        with monkeypatch.context() as patch:
            patch.setattr(os, "open", refuse)
            with pytest.raises(
                LogError,
                match=wording(
                    "cannot be read", what="\\Athe log", why="run\\.log: " + wording("no permission") + "\\n"
                ),
            ):
                log.add(maxtext(1, "4.5"))
        assert log.add(b"").steps == 2


class TestAttempts:
    def test_a_restart_is_seen_at_once(self, log: Log) -> None:
        log.add(b"".join(maxtext(step, "9.5") for step in range(100)))
        progress = log.add(maxtext(0, "4.5"))
        assert (progress.steps, progress.last_index, median_s(progress)) == (1, 0, 4.5)
        assert progress.changed
        for step in range(1, 150):
            assert log.add(maxtext(step, "4.5")).steps == step + 1

    def test_a_requeued_run_without_a_step_yet_has_none(self, log: Log) -> None:
        recipe = b"GSW: MODEL=m FRAMEWORK=maxtext JOB_ID=4711\n"
        assert log.add(recipe + b"".join(maxtext(step, "9.5") for step in range(3))).steps == 3
        assert log.add(b"+ echo 'GSW: MODEL=$MODEL'\n").steps == 3
        progress = log.add(recipe)
        assert (progress.steps, progress.last, progress.changed) == (0, None, True)
        assert log.add(maxtext(0, "4.5")).steps == 1

    def test_a_run_that_goes_on_from_a_checkpoint(self, log: Log) -> None:
        recipe = b"GSW: MODEL=m FRAMEWORK=maxtext JOB_ID=4711\n"
        assert log.add(recipe * 3 + b"".join(maxtext(step, "9.5", loss="nan") for step in range(12))).steps == 12
        progress = log.add(recipe)
        assert (progress.steps, progress.not_finite, progress.changed) == (0, None, True)
        assert not log.add(recipe * 2).changed
        progress = log.add(recipe + maxtext(12, "4.5"))
        assert (progress.steps, progress.last_index, progress.not_finite) == (1, 12, None)
        # Two runs that one look finds.
        again = b"".join(maxtext(step, "4.5") for step in (13, 14)) + recipe * 2 + maxtext(15, "4.25")
        assert log.add(again).steps == 1
        assert_same(log, MAXTEXT)

    def test_a_bar_that_was_killed_is_of_the_run_before(self, tmp_path: Path) -> None:
        log = Log(tmp_path / "run.log", FORMATS["nemo"])
        for step in range(12):
            log.add(b"\r" + bar(step + 1, f"{step}.000", "9.5"))
        assert log.add(b"GSW: MODEL=m JOB_ID=4711\n").steps == 0
        assert log.add(b"\r" + bar(13, "12.000", "4.5") + b"\r").steps == 1
        assert_same(log, FORMATS["nemo"])

    def test_a_restart_at_the_same_number_of_steps_is_a_change(self, tmp_path: Path) -> None:
        log = Log(tmp_path / "run.log", FORMATS["megatron"])
        log.add(megatron(1, "4500.0"))
        assert log.add(megatron(1, "4250.0")).changed

    def test_a_dialect_that_comes_later_and_counts_more(self, tmp_path: Path) -> None:
        log = Log(tmp_path / "run.log", FORMATS["deepspeed"])
        assert log.add(throughput(5, "12.5")).last == Step(5, samples_per_s=12.5, offset=0)
        assert last_s(log.add(pipe(5, "9.125"))) == 9.125
        assert log.add(throughput(6, "12.5")).steps == 1

    def test_ranks_that_only_their_starts_tell(self, tmp_path: Path) -> None:
        log = Log(tmp_path / "run.log", FORMATS["paxml"])
        log.add(paxml_start() * 3)
        for step in range(20):
            progress = log.add(b"".join(paxml(f"{step + 1}.{rank}") for rank in (1, 3, 2)))
            assert last_s(progress) == step + 1.2
        assert log.settled().steps == 20


GROWING: dict[str, tuple[str, Callable[[int], bytes]]] = {
    "maxtext": ("maxtext", lambda step: maxtext(step, f"4.{step:03d}")),
    "maxtext ranks": ("maxtext", lambda step: b"".join(maxtext(step, "4.25", head=f"{r}: ") for r in range(4))),
    "megatron": ("megatron", lambda step: megatron(step + 1, f"{4000 + step}.5")),
    "megatron twice": ("megatron", lambda step: megatron(step + 1, f"{4000 + step}.5") * 2),
    "bars": ("nemo", lambda step: b"\r" + bar(step + 1, f"{max(0, step - 1)}.0", "4.25") + b"\r" + bar(step + 1, f"{step}.0", "4.5") + b"\r"),
    "nemo 2": ("nemo", lambda step: printer(step, step, f"{4 + step / 1000}")),
    "bars and dll": ("nemo", lambda step: bar(step + 1, f"{step}.0", "4.25") + dll(step, f"4.{step:03d}125")),
    "paxml": ("paxml", lambda step: paxml(f"4.{step:03d}")),
    "paxml threads": ("paxml", lambda step: b"".join(paxml(f"4.{step:03d}", thread) for thread in range(4))),
    "torchtitan": ("torchtitan", lambda step: titan(step + 1, f"{5000 + step}")),
    "pipe": ("deepspeed", lambda step: pipe(step + 1, f"4.{step:03d}")),
    "timer": ("deepspeed", lambda step: throughput(step + 1, f"12.{step:03d}")),
}  # fmt: skip


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", GROWING)
def test_every_look_at_a_long_log_is_right_and_costs_little(tmp_path: Path, name: str) -> None:
    format_name, line = GROWING[name]
    counting = Counting(FORMATS[format_name])
    log = Log(tmp_path / "run.log", counting)
    steps = 200
    for step in range(steps):
        progress = log.add(NOISE + line(step))
        assert progress.steps == step + 1
        assert progress.changed
        if step % 50 == 0:
            before = counting.fed
            assert said(progress) == expected(log.path, counting)
            counting.fed = before
    followed, counting.fed = counting.fed, 0
    assert_same(log, counting)
    assert followed == counting.fed  # each record once, as when the whole log is read


@pytest.mark.parametrize("late", [1, 3])
def test_a_rank_that_lags(tmp_path: Path, late: int) -> None:
    counting = Counting(MAXTEXT)
    log = Log(tmp_path / "run.log", counting)
    for step in range(300):
        lagging = maxtext(step - late, "4.75", head="7: ") if step >= late else b""
        ranks = [maxtext(step, "4.25", head=f"{rank}: ") for rank in range(7)]
        progress = log.add(b"".join(ranks[:3]) + lagging + b"".join(ranks[3:]))
        if late == 1:  # beyond, the reader itself takes some for restarts
            assert (progress.steps, progress.last_index) == (step + 1, step)
    assert counting.fed == 300 * 8 - late  # each record once
    assert_same(log, MAXTEXT)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", GROWING)
def test_what_is_kept_is_of_the_steps_of_the_last_attempt(tmp_path: Path, name: str) -> None:
    format_name, line = GROWING[name]
    log = Log(tmp_path / "run.log", FORMATS[format_name])
    for step in range(300):
        progress = log.add(line(step))
        assert progress.steps == step + 1
    text = log.path.read_bytes()
    assert len(pickle.dumps([runs._parser for runs in log.follower._dialects])) < len(text)
    assert not any(line(step)[-40:] in pickle.dumps(log.follower._dialects[-1]._parser) for step in range(290))
    wanted = expected(log.path, FORMATS[format_name])
    assert said(log.settled()) == wanted
    progress = log.add(line(0) + NOISE)
    if wanted[1].index is not None:
        assert progress.steps == 1
        assert len(pickle.dumps(log.follower._dialects[-1]._parser)) < 3000


def test_hundreds_of_notes_before_the_first_step(tmp_path: Path) -> None:
    counting = Counting(FORMATS["huggingface"])
    log = Log(tmp_path / "run.log", counting)
    for _ in range(300):
        assert log.add(b"{'loss': 1.5, 'grad_norm': 2.5}\n").steps == 0
    assert counting.fed == 300
    assert log.add(summary("95.5")).last == Step(None, samples_per_s=95.5, offset=300 * 32)


def grow(content: bytes, cuts: Iterable[int], read_bytes: int) -> None:
    """The follower says the same as the reader, for every format, however the log grew."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.log"
        path.touch()
        logs = {name: Log(path, log_format, read_bytes=read_bytes) for name, log_format in FORMATS.items()}
        begin = 0
        with path.open("ab", buffering=0) as file:
            for cut in (*sorted(cuts), len(content)):
                file.write(content[begin:cut])
                begin = max(begin, cut)
                for log in logs.values():
                    log.follower.advance()
        for name, log in logs.items():
            assert_same(log, FORMATS[name])


def grow_by(pieces: list[int], content: bytes, log_format: LogFormat) -> None:
    with tempfile.TemporaryDirectory() as folder:
        log = Log(Path(folder) / "run.log", log_format)
        at = 0
        for piece in pieces * (len(content) // sum(pieces) + 1):
            log.add(content[at : at + piece])
            at += piece
        assert_same(log, log_format)


@given(CONTENTS, st.lists(st.integers(0, 8000), max_size=12), st.sampled_from([300, 1 << 20]))
@example(b"".join(EXAMPLES.values()), list(range(0, 2000, 13)), 1 << 20)
@example(maxtext(1, "9.125") + b"GSW: MODEL=m JOB_ID=4711\r", [150, 160], 1 << 20)
def test_any_content_however_it_grows(content: bytes, cuts: list[int], read_bytes: int) -> None:
    grow(content, cuts, read_bytes)


@given(
    st.sampled_from(sorted(GROWING)),
    st.lists(st.tuples(st.integers(0, 30), st.integers(1, 60)), min_size=1, max_size=4),
    st.lists(st.integers(1, 3000), min_size=1),
)
def test_attempts_however_they_grow(name: str, attempts: list[tuple[int, int]], pieces: list[int]) -> None:
    format_name, line = GROWING[name]
    content = b"".join(NOISE + line(step) for begin, steps in attempts for step in range(begin, begin + steps))
    grow_by(pieces, content, FORMATS[format_name])


@given(
    st.sampled_from(sorted(GROWING)),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 20)), min_size=1, max_size=5),
    st.lists(st.integers(1, 3000), min_size=1),
)
def test_runs_that_say_who_they_are_however_they_grow(
    name: str, runs: list[tuple[int, int]], pieces: list[int]
) -> None:
    format_name, line = GROWING[name]
    content, step = b"", 0
    for ranks, steps in runs:
        content += b"GSW: MODEL=m JOB_ID=4711\n" * ranks
        content += b"".join(NOISE + line(number) for number in range(step, step + steps))
        step += steps
    grow_by(pieces, content, FORMATS[format_name])


@given(CONTENTS, st.sampled_from(["0: ", " 7: "]), st.lists(st.integers(0, 8000), max_size=12), st.data())
def test_broken_by_srun_and_truncated(content: bytes, label: str, cuts: list[int], data: st.DataObject) -> None:
    broken = labelled(label, content)
    grow(broken[: data.draw(st.integers(0, len(broken)))], cuts, 1 << 20)
