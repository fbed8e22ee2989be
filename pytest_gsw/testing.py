"""The contracts of a launcher and of a log format as tests for a site's own ones.

A test module subclasses :class:`LauncherContract` or :class:`LogFormatContract`, and provides its launcher or
format; pytest collects the rest. No session loads this package by itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import pytest

from pytest_gsw.errors import LogError
from pytest_gsw.hook_checks import format_problems, job_id_problem, launcher_problems
from pytest_gsw.jobs.launcher import Launcher
from pytest_gsw.jobs.model import Job, JobSpec
from pytest_gsw.jobs.states import JobState, JobStatus
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
            first = log_format.first_index or 0
            assert [step.index for step in log.steps] == list(range(first, first + self.steps))
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

    def _line(self, log_format: LogFormat, step: int, seconds: str = "", loss: str = "") -> bytes:
        return self.line((log_format.first_index or 0) + step, seconds or str(_SECONDS[step]), loss or "4.125")

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


#: Makes the spec of a job that runs a script.
SpecMaker: TypeAlias = Callable[[str], JobSpec]

#: Scripts of jobs; the first writes a log as a recipe does.
_GOOD = 'mkdir -p "$STAGE_PATH/results/v1" && echo "$CONTRACT_WORD" >"$STAGE_PATH/results/v1/log-row_1_$JOB.out"\n'
_FAILING = "exit 3\n"
#: Shows where it runs, and a variable that the session has and no job may have.
_PLACE = (
    _GOOD + 'printf "%s\\n" "$(pwd -P)" "${PYTEST_CURRENT_TEST-none}" >>"$STAGE_PATH/results/v1/log-row_1_$JOB.out"\n'
)
_ENDLESS = "sleep 600\n"


class LauncherContract:
    """Base class: subclass it, name it ``Test…``, and overwrite :meth:`launcher`.

    Attributes:
        patience_s: Longest time of a one-second job from its submission to its log.
        job_id_variable: The variable with the job's own id.
        options: Options of each job, in the syntax of ``sbatch``.
    """

    patience_s = 120.0
    job_id_variable = "SLURM_JOB_ID"
    options: tuple[str, ...] = ()

    @pytest.fixture
    def launcher(self, tmp_path: Path) -> Launcher:
        """The launcher under test; the tests close it."""
        raise NotImplementedError("overwrite the fixture launcher")

    @pytest.fixture
    def stage(self, tmp_path: Path) -> Path:
        """A directory that the jobs see as well, for scripts and logs; overwrite it on a cluster."""
        return tmp_path

    @pytest.fixture
    def make_spec(self, stage: Path) -> SpecMaker:
        """A function that makes specs of jobs, each for a row of its own."""
        rows = iter(range(1, 1000))

        def make(body: str) -> JobSpec:
            row = f"contract-{time.time_ns()}-{next(rows)}"
            script = stage / f"{row}.sh"
            script.write_text(f"#!/bin/bash\nJOB=${self.job_id_variable}\n{body}")
            script.chmod(0o755)
            return JobSpec(
                row_id=row,
                name=f"gsw-{row}",
                script=script,
                directory=stage,
                stage=stage,
                nodes=1,
                gpus=1,
                environment={"STAGE_PATH": str(stage), "CONTRACT_WORD": row},
                options=self.options,
                log_glob="results/*/log-row_1_{job_id}.out",
                unique_name=True,
            )

        return make

    @pytest.fixture(autouse=True)
    def _closed(self, launcher: Launcher) -> Iterator[None]:
        yield
        launcher.close()
        launcher.close()  # the session's end may come twice

    # -- the contract -------------------------------------------------------------------------

    def test_it_has_the_shape_of_a_launcher(self, launcher: Launcher) -> None:
        """Each attribute exists with its type, and each method accepts the session's arguments."""
        assert launcher_problems(launcher) == []

    def test_jobs_that_end_well(self, launcher: Launcher, make_spec: SpecMaker) -> None:
        """Two jobs at the same time: each is returned by its row's id, and has its own log."""
        specs = [make_spec(_GOOD), make_spec(_GOOD)]
        jobs = [launcher.submit(spec) for spec in specs]
        assert [job_id_problem(job.id) for job in jobs] == [None, None], "ids are texts that fit into names of files"
        assert [job.spec.row_id for job in jobs] == [spec.row_id for spec in specs]
        assert len({job.id for job in jobs}) == 2, "two jobs have two ids"
        ended = self.wait(launcher, jobs)
        for job in jobs:
            status = ended[job.spec.row_id]
            assert (status.state, status.exit_code, status.signal) == (JobState.COMPLETED, 0, 0)
            log = self.log_of(launcher, job)
            assert log.read_text().strip() == job.spec.row_id, "the log is another job's, or its environment is"
            output = launcher.batch_output(job)
            assert output is None or output.is_file()

    def test_a_job_has_the_directory_and_the_environment_of_its_spec(
        self, launcher: Launcher, make_spec: SpecMaker
    ) -> None:
        """It runs in ``spec.directory`` with :func:`pytest_gsw.job_environment`, and not with the session's own."""
        job = launcher.submit(make_spec(_PLACE))
        self.wait(launcher, [job])
        wanted = [job.spec.row_id, str(job.spec.directory.resolve()), "none"]
        assert self.log_of(launcher, job).read_text().splitlines() == wanted

    def test_a_job_that_fails(self, launcher: Launcher, make_spec: SpecMaker) -> None:
        """It is FAILED with the script's exit code, and its missing log is a LogError."""
        job = launcher.submit(make_spec(_FAILING))
        status = self.wait(launcher, [job])[job.spec.row_id]
        assert (status.state, status.exit_code) == (JobState.FAILED, 3)
        with pytest.raises(LogError):
            launcher.find_log(job)

    def test_a_job_that_is_cancelled(self, launcher: Launcher, make_spec: SpecMaker) -> None:
        """It ends without success; cancelling an ended job, or none, is no error."""
        job = launcher.submit(make_spec(_ENDLESS))
        launcher.cancel([job])
        status = self.wait(launcher, [job])[job.spec.row_id]
        assert status.state.ended
        assert status.state is not JobState.COMPLETED
        launcher.cancel([job])
        launcher.cancel([])

    def test_a_job_that_never_was(self, launcher: Launcher, make_spec: SpecMaker) -> None:
        """It is unknown: UNKNOWN is no end, and it is not found by its name."""
        spec = make_spec(_GOOD)
        unknown = Job("999999999", spec, submitted_s=time.time())
        status = launcher.poll([unknown]).get(spec.row_id)
        assert status is None or status.state is JobState.UNKNOWN
        assert launcher.find(spec, time.time() - 60) is None
        assert launcher.poll([]) == {}
        with pytest.raises(LogError):
            launcher.find_log(unknown)

    def test_a_submission_whose_answer_was_lost(self, launcher: Launcher, make_spec: SpecMaker) -> None:
        """If jobs outlive their session, one is found by its name, and only by that."""
        if not launcher.jobs_outlive_session:
            pytest.skip("its jobs end with their session")
        spec = make_spec(_ENDLESS)
        since_s = time.time() - 1
        job = launcher.submit(spec)
        try:
            found = launcher.find(spec, since_s)
            assert found is not None
            assert found.id == job.id
            assert launcher.find(replace(spec, name=f"{spec.name}-other"), since_s) is None
        finally:
            launcher.cancel([job])

    def test_the_command_is_told_before_anything_is_submitted(self, launcher: Launcher, make_spec: SpecMaker) -> None:
        """The command for ``--gsw-plan`` is available without a submission."""
        command = launcher.command(make_spec(_GOOD))
        assert isinstance(command, tuple)
        assert all(isinstance(word, str) for word in command)

    # -- helpers ------------------------------------------------------------------------------

    def wait(self, launcher: Launcher, jobs: Sequence[Job]) -> dict[str, JobStatus]:
        """The final status of each job, by its row's id; fails if one does not end, or the result is invalid."""
        give_up_s, rows = time.monotonic() + self.patience_s, {job.spec.row_id for job in jobs}
        while True:
            answers = launcher.poll(jobs)
            others = sorted(answers.keys() - rows)
            assert not others, f"poll() answers by {others}, wanted row ids: {sorted(rows)}"
            assert all(isinstance(status, JobStatus) for status in answers.values())
            if rows == {row for row, status in answers.items() if status.state.ended}:
                return answers
            assert time.monotonic() < give_up_s, f"not ended after {self.patience_s:g} s: {answers}"
            time.sleep(min(1.0, max(0.05, launcher.poll_interval_s)))

    def log_of(self, launcher: Launcher, job: Job) -> Path:
        """An ended job's log, which a shared file system may show late."""
        give_up_s = time.monotonic() + max(launcher.log_wait_s, 1.0)
        while True:
            try:
                return launcher.find_log(job)
            except LogError:
                if time.monotonic() >= give_up_s:
                    raise
                time.sleep(0.1)
