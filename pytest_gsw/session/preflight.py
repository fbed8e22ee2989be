"""Checks of rows before submission: each recipe, staging area and partition once.

For ``--gsw-plan`` and every session. A row with a finding is an error; the others run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import NamedTuple

import pytest

from pytest_gsw.clusters import Cluster
from pytest_gsw.common.groups import grouped
from pytest_gsw.common.text import plural
from pytest_gsw.errors import AS_OF, RunError, SubmissionError
from pytest_gsw.executor.executor import too_large
from pytest_gsw.hook_checks import is_own
from pytest_gsw.jobs import preflight
from pytest_gsw.jobs.launcher import Launcher
from pytest_gsw.jobs.model import JobSpec
from pytest_gsw.jobs.scripts import differences, value_of
from pytest_gsw.session.collect import BaselineItem
from pytest_gsw.session.screen import write
from pytest_gsw.session.settings import Settings
from pytest_gsw.session.state import SESSION
from pytest_gsw.tables.model import Baseline


def report_differences(
    config: pytest.Config, rows: Sequence[BaselineItem], specs: Mapping[str, JobSpec | RunError], settings: Settings
) -> None:
    """Print each difference once, with its rows; a replay and a simulation run no recipe."""
    if settings.replay is not None or settings.cluster is None or settings.cluster.simulated:
        return
    environ = config.stash[SESSION].environ
    site, where = settings.cluster.environment, f"of {settings.cluster.name} does not count: the table sets it"
    unlike: list[tuple[str, str]] = []
    for row, spec in _planned(rows, specs):
        unused = [f"{name} {where}" for name, value in row.recipe.environment.items() if site.get(name, value) != value]
        unlike += [(text, row.id) for text in (*unused, *differences(row, spec, environ))]
    for text, row_ids in grouped(unlike).items():
        more = f" and {plural(len(row_ids) - 1, 'more row')}" if len(row_ids) > 1 else ""
        write(config, f"gsw: {text} ({row_ids[0]}{more})")


class Planned(NamedTuple):
    """A row to be submitted, with the spec of its job."""

    baseline: Baseline
    spec: JobSpec


def _planned(rows: Iterable[BaselineItem], specs: Mapping[str, JobSpec | RunError]) -> list[Planned]:
    """The rows that have a spec."""
    return [Planned(item.baseline, spec) for item in rows if isinstance(spec := specs.get(item.baseline.id), JobSpec)]


#: Errors of rows that cannot be submitted, by the row's id.
Findings = dict[str, SubmissionError]


def check_rows(
    rows: Sequence[BaselineItem],
    specs: Mapping[str, JobSpec | RunError],
    launcher: Launcher,
    settings: Settings,
    environ: Mapping[str, str],
) -> dict[str, RunError]:
    """The errors of rows that have a spec but cannot be submitted, by their ids.

    A simulation needs no checks, a replay submits nothing, and a site's own launcher refuses jobs itself.
    """
    planned, cluster, limits = _planned(rows, specs), settings.cluster, settings.jobs.limits
    findings = {row.spec.row_id: too_large(row.spec, limits) for row in planned if row.spec.gpus > limits.gpus}
    if cluster is None or settings.replay is not None:
        return dict(findings)
    if not cluster.simulated and is_own(launcher):
        small = [row for row in planned if row.spec.row_id not in findings]
        findings |= _findings(small, cluster, launcher, environ)
    ids = (item.baseline.id for item in rows)
    return without_repetition({row_id: findings[row_id] for row_id in ids if row_id in findings})


def _joined(first: SubmissionError | None, finding: SubmissionError) -> SubmissionError:
    """The first finding of a row, with another one as evidence."""
    if first is None:
        return finding
    also = ("also", f"{finding.fact}; next: {finding.advice}" if finding.advice else finding.fact)
    return type(first)(first.fact, (*first.evidence, also), first.tail, first.advice)


def other_clusters(specs: Sequence[JobSpec], settings: Settings) -> dict[str, RunError]:
    """The errors of rows that may run on another Slurm cluster than the first one: the session polls one only."""
    cluster = settings.cluster
    if cluster is None or cluster.scheduler != "slurm" or settings.replay is not None:
        return {}
    findings: Findings = {}
    first: JobSpec | None = None
    for spec in specs:
        problem = preflight.cluster_problem(spec, cluster, first or spec)
        if problem is not None:
            findings[spec.row_id] = problem
        elif first is None:
            first = spec
    return without_repetition(findings)


def without_repetition(findings: Mapping[str, SubmissionError]) -> dict[str, RunError]:
    """The findings by row: the first of several rows with the same finding has its details, the others refer to it."""
    shortened: dict[str, RunError] = {}
    for first, *others in grouped([(str(finding), row_id) for row_id, finding in findings.items()]).values():
        finding = findings[first]
        also = (("rows", f"{first} and {plural(len(others), 'more row')}"),) if others else ()
        shortened[first] = type(finding)(finding.fact, (*finding.evidence, *also), finding.tail, finding.advice)
        shortened |= {row_id: type(finding)(finding.fact, advice=f"{AS_OF}{first}") for row_id in others}
    return {row_id: shortened[row_id] for row_id in findings}


def _findings(planned: Sequence[Planned], cluster: Cluster, launcher: Launcher, environ: Mapping[str, str]) -> Findings:
    """The findings on recipes, the first of each row; and of rows whose launch script is there, all others."""
    findings = _once(planned, _recipe_key, lambda row: preflight.recipe_problem(row.spec, row.baseline, cluster))
    there = [row for row in planned if row.spec.row_id not in findings]
    # Figures do not apply to the logs of another release, and the advice on a launcher would be wrong.
    findings |= preflight.release_problems(((row.baseline, row.spec.script_path) for row in there), cluster)
    of_release = [row for row in there if row.spec.row_id not in findings]
    findings |= _once(
        of_release,
        _recipe_key,
        lambda row: row.spec.launch.problem(row.spec) or preflight.environment_problem(row.spec, row.baseline),
    )
    segments = _once(there, lambda row: row.spec.row_id, _segment_problem)
    stages = _once(there, _stage_key, lambda row: preflight.stage_problem(row.spec, cluster))
    demands = cache(preflight.demands_of)
    variables = _once(
        there,
        lambda row: row.spec.row_id,
        lambda row: preflight.variables_problem(row.spec, environ, demands(row.spec.script_path)),
    )
    for found in (segments, stages, variables, launcher.unready([row.spec for row in there])):
        findings |= {row_id: _joined(findings.get(row_id), finding) for row_id, finding in found.items()}
    return findings


def _segment_problem(row: Planned) -> SubmissionError | None:
    """The problem of a tile whose nodes are no whole number of the job's segments, each of one block."""
    spec = row.spec
    segment = value_of((*spec.options, *spec.launch.options(spec)), "segment") or ""
    if not spec.node_list or not segment.isdigit() or not int(segment) or spec.nodes % int(segment) == 0:
        return None
    return SubmissionError(
        f"its tile has {spec.nodes} nodes, and its segment {segment}: a segment lies in one block",
        advice="let the tile be a block, or correct --segment in the cluster file",
    )


def _recipe_key(row: Planned) -> tuple[object, ...]:
    """The key of rows that share one check of their recipe."""
    recipe, spec = row.baseline.recipe, row.spec
    return spec.directory, spec.script, spec.launch.name, row.baseline.location.path, *recipe.environment


def _stage_key(row: Planned) -> tuple[object, ...]:
    """The key of rows that share one check of their staging area."""
    spec = row.spec
    return spec.stage, spec.log_glob.partition("/")[0], spec.environment.get(spec.launch.home)


def _once(
    planned: Iterable[Planned], key: Callable[[Planned], object], check: Callable[[Planned], SubmissionError | None]
) -> Findings:
    """The finding of each row; rows with the same key are checked once."""
    checked = [(check(rows[0]), rows) for rows in grouped([(key(row), row) for row in planned]).values()]
    return {row.spec.row_id: finding for finding, rows in checked if finding is not None for row in rows}
