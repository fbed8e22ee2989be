"""A site's metrics, as the hook gives them: asked for once in a session, and checked before anything is submitted."""

from __future__ import annotations

import os
from collections.abc import Mapping

import pytest

from pytest_gsw.common.redact import quoted
from pytest_gsw.errors import RunError, SubmissionError
from pytest_gsw.hooks.checks import metric_problems
from pytest_gsw.hooks.faults import hook_error, not_that, wrong_answer
from pytest_gsw.tables.fields import nearest
from pytest_gsw.tables.metrics import Metric
from pytest_gsw.tables.model import Baseline

_METRICS = pytest.StashKey["Mapping[str, Metric]"]()


def site_metrics(config: pytest.Config) -> Mapping[str, Metric]:
    """The metrics of all plugins, by key.

    Raises:
        pytest.UsageError: A plugin raised, or what it returned are no metrics, or two have one of the same key.
    """
    if _METRICS not in config.stash:
        config.stash[_METRICS] = _ask(config)
    return config.stash[_METRICS]


def _ask(config: pytest.Config) -> dict[str, Metric]:
    hook = config.hook.pytest_gsw_metrics
    try:
        answers = hook(config=config)
    except Exception as error:
        raise _usage(hook_error(error, config.pluginmanager.list_name_plugin())) from None
    found: dict[str, Metric] = {}
    for answer in answers:  # those of plugins that returned None are not among them
        if isinstance(answer, str | bytes | Metric) or not hasattr(answer, "__iter__"):
            raise _usage(wrong_answer(hook, f"{type(answer).__name__}, wanted a list of Metric"))
        for metric in answer:
            problems = metric_problems(metric)
            if problems:
                raise _usage(wrong_answer(hook, not_that(metric, "metric", problems)))
            if metric.key in found:
                raise _usage(wrong_answer(hook, f"two metrics of the key '{metric.key}', wanted one"))
            found[metric.key] = metric
    return found


def unknown_metric(baseline: Baseline, known: Mapping[str, Metric]) -> SubmissionError | None:
    """That a row documents a metric which no plugin reads; ``None`` where it does not."""
    for key in baseline.metrics:
        if key not in known:
            return SubmissionError(
                f"nobody reads the metric '{key}'{nearest(key, known)}",
                evidence=(("baseline", str(baseline.location)), ("known", ", ".join(sorted(known)) or "none")),
                advice="correct 'metrics' there, or install the plugin whose pytest_gsw_metrics gives it",
            )
    return None


def _usage(error: RunError) -> pytest.UsageError:
    return pytest.UsageError(quoted(str(error), os.environ))
