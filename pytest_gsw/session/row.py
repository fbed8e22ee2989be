"""A row of a session that runs rows: its job, its log, its verdict and its record.

A row's set-up waits for its job, reads its log and asks the rule; its call tells what came of it.
So whatever keeps a row from being judged, a hook that raises included, is an ERROR (JUnit
``<error>``), and a regression is a FAILURE.
"""

from __future__ import annotations

import time
from dataclasses import replace
from functools import cached_property, partial
from typing import NoReturn

import pytest

from pytest_gsw.common.words import counted
from pytest_gsw.errors import INTERRUPTED, HookError, JobError, RunError
from pytest_gsw.hooks.faults import hook_error
from pytest_gsw.results import junit, outcomes, row_text
from pytest_gsw.results.facts import NO_CLUSTER
from pytest_gsw.results.record import Record
from pytest_gsw.results.recording import Asked, Found, record_of
from pytest_gsw.results.row_line import telling_line, told
from pytest_gsw.runs.checks import check_identity, check_job, read_identity
from pytest_gsw.runs.run import Run, ran_out_of_memory
from pytest_gsw.session.judging import Judging
from pytest_gsw.session.keeping import NotWrittenError, facts_of, keep, ran
from pytest_gsw.session.measuring import Measured, Measuring
from pytest_gsw.session.sources import LiveRow, RowSource
from pytest_gsw.session.stash import CANARIES, FLEET, NIGHTS, OTHERS, RECORD, SETTINGS, environment_of
from pytest_gsw.session.telling import fail
from pytest_gsw.tables.model import Baseline


class SessionRow:
    """What becomes of one row."""

    def __init__(self, item: pytest.Item, baseline: Baseline) -> None:
        self.baseline = baseline
        self._item = item
        self._config = item.config
        self._settings = item.config.stash[SETTINGS]
        #: As what pytest is to report the row, and the report's text, once it was judged.
        self._judged: tuple[str, str] | None = None
        self._is_measured = False
        #: What a hook that observes the row's job has raised.
        self.hook_failure: HookError | None = None
        #: Of what an errored job has written, the line that looks most like a cause where that is not known.
        self.said = ""
        #: Since when it is too slow, and what changed then.
        self._since: tuple[tuple[str, str], ...] = ()
        #: The newer jobs that a replay passed over, and the age of the one that it judges.
        self.passed_over: str | None = None
        #: What is to be reported of a result that could not be written down.
        self.not_written = ""

    @cached_property
    def source(self) -> RowSource:
        """What is known of the row; the session sets it, unless it is interrupted before it knows more."""
        config = self._config
        launcher, nights = config.stash[FLEET].launcher, config.stash[NIGHTS]
        return LiveRow(self.baseline, self._settings, launcher, nights, environment_of(config))

    @cached_property
    def jobs(self) -> Measuring:
        """What the row's jobs measured."""
        return Measuring(self._config, self.baseline)

    @cached_property
    def judging(self) -> Judging:
        """How the row is judged, once its source is known."""
        return Judging(self._config, self.source, self.jobs)

    @property
    def is_to_be_judged(self) -> bool:
        """Whether the session's fleet has the row: no marker, cluster or option leaves it out."""
        fleet = self._config.stash.get(FLEET, None)
        return fleet is not None and fleet.phase(self.baseline.id) is not None

    def set_up(self) -> None:
        """Wait for the job, measure its log, and judge."""
        if not self.is_to_be_judged:
            pytest.skip(
                "not run: this session judges nothing (--setup-only, --setup-plan, --gsw-plan or a foreign loop)"
            )
        fleet = self._config.stash[FLEET]
        run: Run | None = None
        try:
            run = fleet.take(self.baseline.id)
            run = self.jobs.with_evidence(self.source.with_earlier_jobs(run))
            self.source.check_logs(run)
            self._check_observers()
            if self.baseline.expected_failure and ran_out_of_memory(run):
                self._expected_failure(run)
            check_job(run, self.baseline.recipe.may_fail)
            measured = self.jobs.measure(run, self.source)
            self._is_measured = True
            if fleet.interrupted:
                self._check_had_its_jobs(run)
            self._judged = self._decide(measured)
        except RunError as error:
            self._raise_error(error, run)
        except Exception as error:
            self._raise_error(hook_error(error, self._config.pluginmanager.list_name_plugin()), run)

    def tell(self) -> None:
        """Tell what the set-up has found."""
        assert self._judged is not None, "a row is told only after its set-up has judged it"
        kind, text = self._judged
        if kind == "skipped":
            pytest.skip(text)
        if kind == "failed":
            fail(text)

    @property
    def judged(self) -> tuple[str, str]:
        """As what pytest is to report the row, and the report's text; passed as long as it was not judged."""
        return self._judged or ("passed", "")

    def leave_error(self, error: RunError) -> str:
        """Leave a record of a row that something else ended than its own set-up, and return the text of its report."""
        try:
            return self._error_text(error, None)
        except pytest.fail.Exception:
            return self.not_written

    def _check_observers(self) -> None:
        if self.hook_failure is not None:
            raise self.hook_failure

    def _check_had_its_jobs(self, run: Run) -> None:
        """A row is not judged by fewer jobs than it was to have, because its session was interrupted."""
        if self.judging.once_more(run) is not None:
            had = counted(len(run.jobs), "job")
            raise JobError(f"{INTERRUPTED}: the row had {had}, and was to have more", advice="run it again")

    def _expected_failure(self, run: Run) -> None:
        """The row ran out of memory, as its document says."""
        if run.log is not None:
            check_identity(self.baseline, run, read_identity(run.log, self.baseline.log_format))
        fact = "ran out of memory, as documented"
        self._record(Found(outcomes.EXPECTED_FAILURE.word, fact), run)
        pytest.xfail(fact)
        fail(fact)  # with --runxfail

    def _decide(self, measured: Measured) -> tuple[str, str]:
        """Judge what was measured, record it, and say as what pytest is to report it, with which text."""
        if measured.measurement is None:
            fact = "is documented to run out of memory, but its job completed"
            found = Found(outcomes.UNEXPECTED_SUCCESS.word, fact)
        else:
            found = self.judging.judge(measured.run, measured.measurement)
        record, canaries = self._record(found, measured.run), self._config.stash[CANARIES]
        facts, strict = partial(facts_of, record, self._settings, self._since), self._settings.strict
        row = told(record, facts, strict=strict, verdict=found.verdict, canaries=canaries)
        return row.outcome.pytest, row.text

    def _record(self, found: Found, run: Run | None) -> Record:
        """Write down what is known of this run, and give it to JUnit and to observers."""
        source, cluster = self.source, self._settings.cluster
        asked = Asked(
            run_id=self._settings.run_id,
            node_id=self._item.nodeid,
            baseline=self.baseline,
            cluster=source.cluster or NO_CLUSTER,
            clusters_file=None if cluster is None else cluster.given_file,
            options=self._settings.row_options,
            simulated_faults=self._settings.faults,
            tolerance=self.judging.tolerance,
            repeats=source.repeats,
            peak_flops=self.jobs.known_peak_flops(),
        )
        made = record_of(asked, ran(run, self._config.stash[FLEET], source, self.jobs), found, time.time())
        made = replace(made, alarms=self._alarms(made, run), passed_over=self.passed_over)
        try:
            record, failure = keep(self._config, made, source)
        except NotWrittenError as error:
            self.not_written = str(error)
            fail(self.not_written)
        self._item.stash[RECORD] = record
        self._item.user_properties.extend(junit.properties(record))
        if failure is not None and found.outcome != outcomes.ERROR.word:
            fail(row_text.error_text(failure, facts_of(record, self._settings)))
        return record

    def _alarms(self, record: Record, run: Run | None) -> str | None:
        """The alarms of the row with this night, which the history has later; a replay is of no night of its own."""
        is_wrong = record.by_own_metric == outcomes.REGRESSED.word or record.drift
        if run is None or not is_wrong or self._settings.replay is not None:
            return None
        # Few rows have any.
        from pytest_gsw.session.alarming import row_alarms

        night = None if record.verdict is None else record.verdict.night
        beside = self._config.stash[OTHERS].beside(night)
        past = replace(self.source.past(run, self.source.accepted(run)[0]), beside=beside)
        found, self._since = row_alarms(record, past, self._config.stash[NIGHTS].acknowledged)
        return found

    def _error_text(self, error: RunError, run: Run | None) -> str:
        """Record an error, and return the text of the row's report."""
        error = self.source.shown(error)
        self.said = telling_line(error.tail)
        record = self._record(Found(outcomes.ERROR.word, error.fact), run)
        return row_text.error_text(error, facts_of(record, self._settings))

    def _raise_error(self, error: RunError, run: Run | None) -> NoReturn:
        fail(self._error_text(error, run))
