"""What would fail once it is submitted, found before anything is: each recipe, staging area and partition once.

``--gsw-plan`` and every session ask here. A finding ends its rows, which are errors; the others run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from pytest_gsw.clusters.model import LOCAL, Cluster
from pytest_gsw.common.words import counted
from pytest_gsw.errors import RunError, SubmissionError
from pytest_gsw.fleet.fleet import too_large
from pytest_gsw.hooks.checks import is_own
from pytest_gsw.jobs.model import JobSpec, Launcher
from pytest_gsw.jobs.preflight import (
    cluster_problem,
    demands_of,
    environment_problem,
    modules_of,
    modules_problem,
    of_other_releases,
    recipe_problem,
    release_problem,
    stage_problem,
    variables_problem,
)
from pytest_gsw.tables.model import Baseline

if TYPE_CHECKING:
    from pytest_gsw.session.settings import Settings

_Key = TypeVar("_Key")


class Planned(NamedTuple):
    """A row that is to be submitted, and how."""

    baseline: Baseline
    spec: JobSpec


class Here(NamedTuple):
    """Where rows are submitted."""

    cluster: Cluster
    launcher: Launcher
    environ: Mapping[str, str]


#: What is found out about rows: by the row's id, why it cannot be submitted.
Findings = dict[str, SubmissionError]


def unready(
    planned: Sequence[Planned], launcher: Launcher, settings: Settings, environ: Mapping[str, str]
) -> dict[str, RunError]:
    """Why rows cannot be submitted, by their ids; rows that can be are not among them.

    A simulation needs none of what is looked for, a replay submits nothing, and what a site's own launcher needs only
    that knows: it refuses jobs itself.
    """
    cluster, limits = settings.cluster, settings.limits
    found = {one.spec.row_id: too_large(one.spec, limits) for one in planned if one.spec.gpus > limits.gpus}
    if cluster is None or settings.replay is not None:
        return dict(found)
    found |= not_ready([one for one in planned if one.spec.row_id not in found], Here(cluster, launcher, environ))
    return told_once({one.spec.row_id: found[one.spec.row_id] for one in planned if one.spec.row_id in found})


def other_clusters(specs: Sequence[JobSpec], settings: Settings) -> dict[str, RunError]:
    """Refuse rows that may run on another Slurm cluster than the first one: jobs are looked for on one alone."""
    cluster = settings.cluster
    if cluster is None or cluster.scheduler != "slurm" or settings.replay is not None:
        return {}
    found: Findings = {}
    first: JobSpec | None = None
    for spec in specs:
        problem = cluster_problem(spec, cluster, first or spec)
        if problem is not None:
            found[spec.row_id] = problem
        elif first is None:
            first = spec
    return told_once(found)


def not_ready(planned: Sequence[Planned], here: Here) -> Findings:
    """The same of the place where rows are to be submitted, each told by itself."""
    found: Findings = {}
    if here.cluster.simulated or not is_own(here.launcher):
        return found
    for check in _CHECKS:
        found |= check([one for one in planned if one.spec.row_id not in found], here)
    return found


def told_once(found: Mapping[str, SubmissionError]) -> dict[str, RunError]:
    """The findings by row: what several rows have in common is told by the first of them, and named by the others."""
    first: dict[str, str] = {}
    shares: dict[str, int] = {}
    for row_id, finding in found.items():
        text = str(finding)
        first.setdefault(text, row_id)
        shares[text] = shares.get(text, 0) + 1
    told: dict[str, RunError] = {}
    for row_id, finding in found.items():
        text = str(finding)
        if first[text] != row_id:
            told[row_id] = type(finding)(finding.fact, advice=f"as of {first[text]}")
            continue
        more = shares[text] - 1
        also = (("rows", f"{row_id} and {counted(more, 'more row')}"),) if more else ()
        told[row_id] = type(finding)(finding.fact, (*finding.evidence, *also), finding.tail, finding.advice)
    return told


def _recipes(planned: Sequence[Planned], here: Here) -> Findings:
    """Recipes whose launch script cannot be submitted."""
    return _once(planned, _of_recipe, lambda one: recipe_problem(one.spec, one.baseline, here.cluster))


def _of_recipe(one: Planned) -> tuple[object, ...]:
    """What rows share that one look at their recipe answers for."""
    recipe, spec = one.baseline.recipe, one.spec
    return spec.directory, spec.script, spec.launch.name, one.baseline.location.path, *recipe.environment


def _releases(planned: Sequence[Planned], here: Here) -> Findings:
    """Recipes of another release than the row's figures are of: their logs could not be judged by these."""
    scripts = ((one.baseline, one.spec.script_path) for one in planned)
    return {row.id: release_problem(row, staged, here.cluster) for row, staged in of_other_releases(scripts)}


def _launchers(planned: Sequence[Planned], _here: Here) -> Findings:
    """Recipes that say of themselves that they are launched otherwise; of another release, this would be no advice."""
    return _once(planned, _of_recipe, lambda one: one.spec.launch.problem(one.spec))


def _environments(planned: Sequence[Planned], _here: Here) -> Findings:
    """Rows of which the table sets a variable that no script reads: the script's own choice would be run."""
    return _once(planned, _of_recipe, lambda one: environment_problem(one.spec, one.baseline))


def _stages(planned: Sequence[Planned], here: Here) -> Findings:
    """Staging areas that cannot be written to."""
    return _once(planned, _of_stage, lambda one: stage_problem(one.spec, here.cluster))


def _of_stage(one: Planned) -> tuple[object, ...]:
    spec = one.spec
    return spec.stage, spec.log_glob.partition("/")[0], spec.environment.get(spec.launch.home)


def _variables(planned: Sequence[Planned], here: Here) -> Findings:
    """Launch scripts that say themselves what they cannot start without."""
    demands = cache(demands_of)
    found: Findings = {}
    for one in planned:
        its = demands(one.spec.script_path)
        problem = variables_problem(one.spec, here.environ, its) if its else None
        if problem is not None:
            found[one.spec.row_id] = problem
    return found


def _modules(planned: Sequence[Planned], here: Here) -> Findings:
    """Recipes whose Python lacks what they say that they import, where their jobs run on this machine."""
    if here.cluster.scheduler != LOCAL.scheduler:
        return {}
    needed = cache(modules_of)
    wanting = [(one, its) for one in planned if (its := needed(one.spec.script_path)) is not None]
    by_row = {one.spec.row_id: its for one, its in wanting}
    return _once(
        (one for one, _ in wanting),
        lambda one: (one.spec.script_path, one.spec.environment.get(by_row[one.spec.row_id].variable)),
        lambda one: modules_problem(one.spec, here.environ, by_row[one.spec.row_id]),
    )


def _submissions(planned: Sequence[Planned], here: Here) -> Findings:
    """What the launcher itself finds out, where it can."""
    ask: Callable[[Sequence[JobSpec]], Findings] | None = getattr(here.launcher, "unready", None)
    return ask([one.spec for one in planned]) if ask is not None and planned else {}


def _once(
    planned: Iterable[Planned], key: Callable[[Planned], _Key], check: Callable[[Planned], SubmissionError | None]
) -> Findings:
    """What a check says of each row; rows with the same key are checked once."""
    known: dict[_Key, SubmissionError | None] = {}
    found: Findings = {}
    for one in planned:
        its = key(one)
        if its not in known:
            known[its] = check(one)
        finding = known[its]
        if finding is not None:
            found[one.spec.row_id] = finding
    return found


#: Each is asked of the rows of which none before it has found anything.
_CHECKS: tuple[Callable[[Sequence[Planned], Here], Findings], ...] = (
    _recipes,
    _releases,
    _launchers,
    _environments,
    _stages,
    _variables,
    _modules,
    _submissions,
)
