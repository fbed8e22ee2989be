"""The contract of a launcher: jobs that end well, fail, are cancelled, or never existed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import pytest

from pytest_gsw.errors import LogError
from pytest_gsw.hooks.checks import job_id_problem, launcher_problems
from pytest_gsw.jobs.model import Job, JobSpec, JobState, JobStatus, Launcher

#: Makes the spec of a job that runs a script.
SpecMaker: TypeAlias = Callable[[str], JobSpec]

#: Scripts of jobs; the first writes a log as a recipe does.
_GOOD = 'mkdir -p "$STAGE_PATH/results/v1" && echo "$CONTRACT_WORD" >"$STAGE_PATH/results/v1/log-row_1_$JOB.out"\n'
_FAILING = "exit 3\n"
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
        give_up_s = time.monotonic() + self.patience_s
        while True:
            answers = launcher.poll(jobs)
            rows = {job.spec.row_id for job in jobs}
            assert set(answers) <= rows, (
                f"poll() answers by {sorted(set(answers) - rows)}, wanted row ids: {sorted(rows)}"
            )
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
