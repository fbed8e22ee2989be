"""The contract of a log format: possible contents of a log, and the required results."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_gsw.errors import LogError
from pytest_gsw.hooks.checks import format_problems
from pytest_gsw.logs.follow import Follower
from pytest_gsw.logs.model import LogFormat, Step, StepLog
from pytest_gsw.logs.reader import read_log

#: Other programs write into a log, too, and not all of it is UTF-8.
_NOISE = b"node7:4242:4311 [3] NCCL INFO Channel 05/0 \xff\xfe\x80 via P2P\n"
#: Seconds of the steps in the tests' logs.
_SECONDS = tuple(round(0.5 + 0.01 * step, 3) for step in range(12))


class LogFormatContract:
    """Base class: subclass it, name it ``Test…``, and overwrite :meth:`log_format` and :meth:`line`.

    Attributes:
        prints_loss: True if a step's line has the loss.
        numbered: True if a step's line has the step's number; else :meth:`head` separates attempts.
        steps: Steps of the runs in the tests' logs, 12 at most; 1 if a format has one figure for a run.
    """

    prints_loss = True
    numbered = True
    steps = 12

    @pytest.fixture
    def log_format(self) -> LogFormat:
        """The format under test."""
        raise NotImplementedError("overwrite the fixture log_format")

    def line(self, index: int, seconds: str, loss: str) -> bytes:
        """The framework's output for one step, with its line ends.

        Args:
            index: The step's number in the log.
            seconds: Its seconds, as written; ``nan`` is possible.
            loss: Its loss, as written; ``nan`` is possible.
        """
        raise NotImplementedError("overwrite line()")

    def head(self) -> bytes:
        """The framework's output before a run's first step."""
        return b""

    def seconds_of(self, step: Step) -> float | None:
        """The seconds of a parsed step; overwrite it if :meth:`line` writes a rate."""
        return step.seconds

    # -- contents of logs ---------------------------------------------------------------------

    def test_it_has_the_shape_of_a_log_format(self, log_format: LogFormat) -> None:
        """Each attribute exists, with its type."""
        assert format_problems(log_format) == []

    def test_it_reads_each_step(self, log_format: LogFormat, tmp_path: Path) -> None:
        """All steps, in order, with their numbers and seconds, whatever else the log contains."""
        log = self._read(log_format, tmp_path, self._run(log_format, noise=_NOISE))
        assert [self.seconds_of(step) for step in log.steps] == pytest.approx(self._seconds)
        if self.numbered:
            assert [step.index for step in log.steps] == list(range(self._first(log_format), self._last(log_format)))
        assert log.not_finite is None

    def test_an_empty_log_and_a_foreign_one_hold_no_step(self, log_format: LogFormat, tmp_path: Path) -> None:
        """They are errors of the log, and raise no other exception."""
        for content in (b"", _NOISE * 3):
            with pytest.raises(LogError):
                self._read(log_format, tmp_path, content)

    def test_a_cut_last_line_is_no_step(self, log_format: LogFormat, tmp_path: Path) -> None:
        """A figure without its last digits is another figure."""
        whole = self._run(log_format)
        for cut in range(1, len(self._line(log_format, self.steps - 1))):
            try:
                steps = self._read(log_format, tmp_path, whole[:-cut]).steps
            except LogError:
                steps = ()  # required if the run's only figure was cut
            read = [self.seconds_of(step) for step in steps]
            assert read in (pytest.approx(self._seconds[:-1]), pytest.approx(self._seconds)), f"cut by {cut} bytes"

    def test_a_loss_that_is_not_finite_is_told(self, log_format: LogFormat, tmp_path: Path) -> None:
        """A diverged run is an error, in whichever step it diverged."""
        if not self.prints_loss:
            pytest.skip("its lines have no loss")
        for broken in ("nan", "inf"):
            for at in (0, self.steps // 2, self.steps - 1):
                assert self._is_error(log_format, tmp_path, self._run(log_format, loss={at: broken})), (broken, at)

    def test_a_time_that_is_not_finite_is_told(self, log_format: LogFormat, tmp_path: Path) -> None:
        """A step whose time is no number is not skipped."""
        for at in (0, self.steps // 2, self.steps - 1):
            assert self._is_error(log_format, tmp_path, self._run(log_format, seconds={at: "nan"})), at

    def test_only_the_last_attempt_counts(self, log_format: LogFormat, tmp_path: Path) -> None:
        """A requeued job continues in the same file; the steps of its first attempt do not count."""
        if not self.numbered and not self.head():
            pytest.skip("its lines have neither the number of a step nor the start of a run")
        slow = dict.fromkeys(range(self.steps), "9.5")
        both = self._run(log_format, steps=max(1, self.steps - 5), seconds=slow) + self._run(log_format)
        if self._is_error(log_format, tmp_path, both):
            return  # the format reports the ambiguity
        read = [self.seconds_of(step) for step in self._read(log_format, tmp_path, both).steps]
        assert read == pytest.approx(self._seconds)

    def test_what_follows_a_log_sees_what_reads_it(self, log_format: LogFormat, tmp_path: Path) -> None:
        """A log that grows by a few bytes at a time shows the same steps as the whole one."""
        whole = self._run(log_format, noise=_NOISE)
        path = tmp_path / "growing.out"
        path.write_bytes(b"")
        follower = Follower(path, log_format)
        progress = follower.advance()
        with path.open("ab", buffering=0) as log:
            for begin in range(0, len(whole), 97):
                log.write(whole[begin : begin + 97])
                progress = follower.advance()
        read = read_log(path, log_format)
        assert progress.steps == len(read.steps)
        assert progress.last is not None
        assert self.seconds_of(progress.last) == pytest.approx(self._seconds[-1])

    # -- helpers ------------------------------------------------------------------------------

    @property
    def _seconds(self) -> tuple[float, ...]:
        return _SECONDS[: self.steps]

    def _first(self, log_format: LogFormat) -> int:
        return log_format.first_index or 0

    def _last(self, log_format: LogFormat) -> int:
        return self._first(log_format) + self.steps

    def _line(self, log_format: LogFormat, step: int, seconds: str = "", loss: str = "") -> bytes:
        return self.line(self._first(log_format) + step, seconds or str(_SECONDS[step]), loss or "4.125")

    def _run(
        self,
        log_format: LogFormat,
        *,
        steps: int | None = None,
        noise: bytes = b"",
        seconds: dict[int, str] | None = None,
        loss: dict[int, str] | None = None,
    ) -> bytes:
        times, losses = seconds or {}, loss or {}
        lines = [
            self._line(log_format, step, times.get(step, ""), losses.get(step, ""))
            for step in range(steps or self.steps)
        ]
        return self.head() + noise + noise.join(lines)

    def _read(self, log_format: LogFormat, directory: Path, content: bytes) -> StepLog:
        path = directory / "log.out"
        path.write_bytes(content)
        return read_log(path, log_format)

    def _is_error(self, log_format: LogFormat, directory: Path, content: bytes) -> bool:
        """True if a row with this log cannot pass."""
        try:
            log = self._read(log_format, directory, content)
        except LogError:
            return True
        return log.not_finite is not None or bool(getattr(log, "fault", None))
