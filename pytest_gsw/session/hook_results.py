"""Results of hooks at a session's start, checked before anything is submitted."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from pytest_gsw import hook_checks
from pytest_gsw.clusters import Cluster, check_keys
from pytest_gsw.common.redact import redact
from pytest_gsw.errors import ConfigurationError, GswError, NotJudgedError, RunError, SubmissionError
from pytest_gsw.jobs.launcher import Launcher
from pytest_gsw.jobs.model import FoundLog, JobSpec
from pytest_gsw.logs.formats.base import BuiltIn
from pytest_gsw.logs.formats.registry import FORMATS
from pytest_gsw.logs.model import LogFormat
from pytest_gsw.results.suites import SuiteRows
from pytest_gsw.session.options import COMMAND_LINE
from pytest_gsw.tables.metrics import FINAL_LOSS, FURTHER, Metric, Series
from pytest_gsw.tables.model import Baseline
from pytest_gsw.tables.value_types import nearest

#: What a hook may raise, besides an interrupt: pytest's own outcomes are no ``Exception``.
RAISED = (Exception, pytest.skip.Exception, pytest.fail.Exception, SystemExit)


def ask_for_launcher(config: pytest.Config, cluster: Cluster, run_directory: Path) -> Launcher | None:
    """The hook's launcher, checked if it is a site's own; ``None`` if no plugin has one for the scheduler.

    Raises:
        pytest.UsageError: The hook raised, or its result is no launcher.
    """
    given = {"cluster": cluster, "run_directory": run_directory}
    try:
        launcher: Launcher | None = _call_hook(
            config, "pytest_gsw_make_launcher", hook_checks.launcher_problems, "launcher", given
        )
        if launcher is not None:
            check_keys(cluster, launcher.name, launcher.cluster_keys)
    except ConfigurationError as error:
        raise pytest.UsageError(redact(str(error), os.environ)) from None
    return launcher


def ask_for_suite(config: pytest.Config, path: Path, cluster: Cluster | None, baselines: Sequence[Path]) -> SuiteRows:
    """The rows of a suite, by its hook.

    Raises:
        ConfigurationError: The suite is invalid, no plugin can read it, or the hook raised or returned no suite.
    """
    given = {"suite": path, "cluster": cluster, "baselines": baselines}
    suite: SuiteRows | None = _call_hook(config, "pytest_gsw_suite_rows", hook_checks.suite_problems, "suite", given)
    if suite is None:
        raise ConfigurationError(f"--gsw-suite: no plugin can read the suite {path}")
    return suite


def _call_hook(
    config: pytest.Config, name: str, problems_of: Callable[[object], list[str]], kind: str, given: Mapping[str, Any]
) -> Any:
    """The result of a hook, checked if it is a site's own.

    Raises:
        ConfigurationError: The hook raised, or its result has problems.
    """
    hook = getattr(config.hook, name)
    try:
        answer = hook(config=config, **given)
        problems = [] if answer is None or hook_checks.is_own(answer) else problems_of(answer)
    except GswError:
        raise
    except RAISED as error:
        raise _configuration_error(hook_checks.hook_error(error, config.pluginmanager)) from None
    if problems:
        raise _configuration_error(hook_checks.wrong_answer(hook, hook_checks.not_that(answer, kind, problems)))
    return answer


def check_answers(config: pytest.Config, row: Baseline, spec: object, log_format: object) -> None:
    """Check the results of a row's hooks against their contracts, before anything is submitted.

    Raises:
        pytest.UsageError: A result is invalid.
    """
    hook, problem = config.hook.pytest_gsw_make_job_spec, None
    if not isinstance(spec, JobSpec):
        problem = f"{type(spec).__name__}, wanted a JobSpec"
    elif spec.row_id != row.id:
        problem = f"a JobSpec of {spec.row_id!r} for {row.id}: the row's id is not to be changed"
    elif spec.node_list != row.tile:
        problem = f"a JobSpec with node_list={spec.node_list!r}, wanted {row.tile!r}, the row's tile"
    elif problems := hook_checks.spec_problems(spec):
        problem = hook_checks.not_that(spec, "job spec", problems)
    elif log_format is not None and not (
        isinstance(log_format, BuiltIn) and log_format is FORMATS.get(log_format.name)
    ):
        hook = config.hook.pytest_gsw_log_format
        problems = hook_checks.format_problems(log_format)
        problem = hook_checks.not_that(log_format, "log format", problems) if problems else None
    if problem is not None:
        raise _usage(hook_checks.wrong_answer(hook, problem))


def ask_for_peak(config: pytest.Config, row: Baseline) -> float | None:
    """The peak of a row's accelerator, by its hook.

    Raises:
        InvalidHookResultError: The hook returned no number above 0.
    """
    hook = config.hook.pytest_gsw_peak_flops
    peak: float | None = hook(config=config, accelerator=row.accelerator, dtype=row.workload.dtype)
    problem = hook_checks.peak_problem(peak)
    if problem is not None:
        raise hook_checks.wrong_answer(hook, f"{problem}, for {row.accelerator} and {row.workload.dtype}")
    return peak


# -- A site's metrics: the hook is called once in a session, and checked before any submission ------


@lru_cache(maxsize=1)
def site_metrics(config: pytest.Config) -> Mapping[str, Metric]:
    """The metrics of all plugins, by key.

    Raises:
        pytest.UsageError: A plugin raised, its result is no list of metrics, or two metrics have the same key.
    """
    hook = config.hook.pytest_gsw_metrics
    try:
        answers = hook(config=config)
    except Exception as error:
        raise _usage(hook_checks.hook_error(error, config.pluginmanager)) from None
    metrics: dict[str, Metric] = {}
    for answer in answers:  # pluggy omits None
        if isinstance(answer, str | bytes | Metric) or not hasattr(answer, "__iter__"):
            raise _usage(hook_checks.wrong_answer(hook, f"{type(answer).__name__}, wanted a list of Metric"))
        for metric in answer:
            problems = hook_checks.metric_problems(metric)
            if problems:
                raise _usage(hook_checks.wrong_answer(hook, hook_checks.not_that(metric, "metric", problems)))
            if metric.key in metrics:
                raise _usage(hook_checks.wrong_answer(hook, f"two metrics of the key '{metric.key}', wanted one"))
            metrics[metric.key] = metric
    return metrics


def unknown_metric(baseline: Baseline, known: Mapping[str, Metric]) -> SubmissionError | None:
    """The error of a row with a metric that no plugin reads; ``None`` if there is none."""
    for key in unknown_metrics(baseline, known):
        return SubmissionError(
            f"unknown metric '{key}'{nearest(key, known)}",
            evidence=(("baseline", str(baseline.location)), ("known", ", ".join(sorted(known)) or "none")),
            advice="correct 'metrics' there, or install the plugin whose pytest_gsw_metrics gives it",
        )
    return None


def unknown_metrics(baseline: Baseline, known: Mapping[str, Metric]) -> tuple[str, ...]:
    """The metrics of a row that no plugin reads."""
    # The formats of sites read no figures, those of pytest-gsw may.
    reads_figures = baseline.workload.log_format in FORMATS or baseline.judged_by.series is Series.FIGURES
    own = FURTHER if reads_figures else {FINAL_LOSS.key}
    return tuple(key for key in baseline.metrics if key not in known and key not in own)


def _usage(error: RunError) -> pytest.UsageError:
    return pytest.UsageError(redact(str(error), os.environ))


# -- A site's plugins for the command line, loaded as by a session in this directory ---------------
#
# Entry points, ``-p MODULE``, and the conftest.py of the working directory's rootdir. Loading takes a few
# hundred milliseconds; it happens only to judge a log, and for a log format that is not part of pytest-gsw.


class _ConfigCatcher:
    """A plugin that ends pytest once the others are loaded; by its name, those of rows are loaded, too."""

    def __init__(self) -> None:
        self.__name__ = COMMAND_LINE
        self.config: pytest.Config | None = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_cmdline_main(self, config: pytest.Config) -> int:
        """Keep the config, and run nothing."""
        self.config = config
        return 0


def site_config(plugins: Sequence[str]) -> pytest.Config:
    """The config of a session in the working directory, with these further plugins.

    Raises:
        NotJudgedError: They cannot be loaded; standard error has the reason.
    """
    here = Path.cwd()
    config = _config(here, tuple(plugins))
    if config is None:
        raise NotJudgedError(
            f"the plugins of {here} cannot be loaded, and may have a say", advice="pytest --collect-only; mend them"
        )
    return config


def log_format(row: Baseline, config: pytest.Config) -> LogFormat | None:
    """The log format of a row from all plugins; ``None`` if they have none.

    Raises:
        ConfigurationError: A plugin fails, or returns no log format.
    """
    found: LogFormat | None = _call_hook(
        config, "pytest_gsw_log_format", hook_checks.format_problems, "log format", {"baseline": row}
    )
    return found


def found_logs(config: pytest.Config, place: Path, rows: Sequence[Baseline]) -> list[FoundLog]:
    """The logs below a directory that plugins find by files of other programs; links are left out.

    Raises:
        ConfigurationError: A plugin fails, or its result is no list of such logs.
    """
    hook, logs = config.hook.pytest_gsw_find_logs, list[FoundLog]()
    try:
        for answer in hook(config=config, place=place, rows=rows):
            if isinstance(answer, str | bytes) or not isinstance(answer, Iterable):
                raise hook_checks.wrong_answer(hook, f"{type(answer).__name__}, wanted a list of FoundLog")
            logs += answer
        for log in logs:
            if problems := hook_checks.log_problems(log, place, {row.id for row in rows}):
                raise hook_checks.wrong_answer(hook, hook_checks.not_that(log, "log below the directory", problems))
    except RunError as error:
        raise _configuration_error(error) from None
    except RAISED as error:
        raise _configuration_error(hook_checks.hook_error(error, config.pluginmanager)) from None
    return [log for log in logs if not log.path.is_symlink()]


def replayed_spec(config: pytest.Config, row: Baseline) -> JobSpec:
    """The job spec of a row in a replay, by its hook.

    Raises:
        RunError: The row cannot be launched.
        ConfigurationError: A plugin fails, or returns no job spec.
    """
    given = {"baseline": row, "cluster": Cluster("replay", "replay")}
    spec = _call_hook(config, "pytest_gsw_make_job_spec", lambda _: [], "job spec", given)
    if not isinstance(spec, JobSpec):
        hook = config.hook.pytest_gsw_make_job_spec
        raise _configuration_error(hook_checks.wrong_answer(hook, f"{type(spec).__name__}, wanted a JobSpec"))
    return spec


@lru_cache
def _config(here: Path, plugins: tuple[str, ...]) -> pytest.Config | None:
    """The config of a session in this directory; ``None``, with a line on standard error, if it cannot start."""
    loaded = _ConfigCatcher()
    # Entry points may be off; the plugin itself is needed for its hooks.
    options = [option for plugin in ("pytest_gsw.plugin", *plugins) for option in ("-p", plugin)]
    try:
        # A conftest.py may print; that is no part of the command's output.
        with contextlib.redirect_stdout(sys.stderr):
            status = pytest.main([*options, "-s", "-p", "no:cacheprovider", "--assert=plain"], plugins=[loaded])
    except (Exception, SystemExit) as error:  # in a plugin that is being imported
        _report(f"the plugins of {here} cannot be loaded: {type(error).__name__}: {error}")
        return None
    if loaded.config is None:
        _report(f"the plugins of {here} cannot be loaded: pytest ends with {int(status)}")
    elif not hasattr(loaded.config.hook, "pytest_gsw_log_format"):
        _report(f"the plugins of {here} leave out pytest_gsw.plugin")
        return None
    return loaded.config


def _configuration_error(error: RunError) -> ConfigurationError:
    return ConfigurationError(redact(str(error), os.environ))


def _report(line: str) -> None:
    sys.stderr.write(f"pytest-gsw: {redact(line, os.environ)}\n")
