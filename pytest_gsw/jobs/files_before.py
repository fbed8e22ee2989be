"""What of a job's files is not as it must be before the job is submitted: the recipe's, and the staging area.

Each finding is told with the key that led there, by its file and line.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from pytest_gsw.clusters.model import Cluster
from pytest_gsw.common.files import from_here
from pytest_gsw.common.words import counted, enumerated
from pytest_gsw.errors import SubmissionError
from pytest_gsw.jobs.directives import OPTIONS, cluster_of, named_clusters
from pytest_gsw.jobs.layout import fixed_part
from pytest_gsw.jobs.model import JobSpec
from pytest_gsw.jobs.reads import unread
from pytest_gsw.jobs.spec import recipe_directory, stage_of
from pytest_gsw.tables.model import Baseline
from pytest_gsw.tables.nodes import read_text

#: So many neighbours of what is not there are named.
_MOST_NAMED = 6
_NOT_THERE = "not there"
_BY_HOOK = ("hook", "pytest_gsw_make_job_spec")


def recipe_problem(spec: JobSpec, baseline: Baseline, cluster: Cluster) -> SubmissionError | None:
    """Why the recipe's launch script cannot be submitted, or run here; ``None`` where it can."""
    problem = _directory_problem(spec, baseline, cluster)
    if problem is not None or not spec.launch.runs_script:
        return problem
    script, keys = spec.script_path, tuple(directory_keys(spec, baseline, cluster))
    what = _missing(script, stat.S_ISREG, "no file")
    if what:
        return SubmissionError(
            f"the launch script is {what}: {script}",
            (*keys, *_neighbours(script.parent, lambda path: path.suffix == ".sh")),
            advice="run the recipe's setup.sh, or name the script in the table: recipe: {script: NAME}",
        )
    if not os.access(script, os.R_OK):
        return SubmissionError(f"the launch script cannot be read: {script}", keys, advice=f"ls -l {script}")
    if spec.submits_itself and not os.access(script, os.X_OK):
        return SubmissionError(f"the launch script cannot be run: {script}", keys, advice=f"chmod +x {script}")
    return None


def environment_problem(spec: JobSpec, baseline: Baseline) -> SubmissionError | None:
    """Why the job would not be the row's: its table sets a variable that no script reads; ``None`` if unknown."""
    found = unread(baseline.recipe.environment, spec.script_path) if spec.launch.reads_variables else None
    if found is None:
        return None
    name, nearest = found
    line = _line_where(baseline, re.compile(rf"(?<!\w){re.escape(name)}['\"]?[ \t]*:").search)
    table, script = f"{from_here(baseline.location.path)}:{line}  {name}", spec.script_path
    return SubmissionError(
        f"no script of the recipe reads {name}, which the row's table sets",
        (("table", table), ("script", str(script)), *_neighbours(script.parent, Path.is_file)),
        advice=f"{f'did you mean {nearest}? ' if nearest else ''}Correct `recipe.environment` in the table; "
        "a variable for a program that no script names belongs under `environment` of the cluster",
    )


def cluster_problem(spec: JobSpec, cluster: Cluster, first: JobSpec) -> SubmissionError | None:
    """Refuse a job that may run on another Slurm cluster than a session's first one: two clusters may share an id."""
    named, wanted = cluster_of(spec), cluster_of(first)
    if "," in named or named.lower() == "all":
        fact, advice = f"the row names several: {named}", "name one cluster there"
    elif named == wanted:
        return None
    else:
        fact = f"the row names {named or 'none'}, where {first.row_id} names {wanted or 'none'}"
        advice = "name one cluster for all rows, or run those of each cluster in a session of their own"
    named, place = next(named_clusters(spec if named else first))
    if place == OPTIONS and cluster.path is not None and "sbatch" in cluster.given:
        place = f"{from_here(cluster.path)}:{cluster.given['sbatch'][0]}  --clusters={named}"
    return SubmissionError(f"a session runs on one Slurm cluster, and {fact}", (("named by", place),), advice=advice)


def stage_problem(spec: JobSpec, cluster: Cluster) -> SubmissionError | None:
    """Why a job cannot write its results where they go; ``None`` where it can."""
    home = spec.launch.home
    if place := spec.environment.get(home):
        return _unwritable(home, Path(place), Path(place), (), "correct it under `environment` of the cluster")
    results = spec.stage / fixed_part(spec.log_glob)
    return _unwritable("the staging area", spec.stage, results, (_stage_key(spec, cluster),), "correct `stage` there")


def _unwritable(
    name: str, place: Path, results: Path, evidence: tuple[tuple[str, str], ...], correct: str
) -> SubmissionError | None:
    """Why nothing can be written to the results' directory in a place, or to what is there of it by now."""
    there = next(path for path in (results, *results.parents) if _missing(path, stat.S_ISDIR) != _NOT_THERE)
    what = _missing(there, stat.S_ISDIR)
    if what:
        return SubmissionError(f"{name} is {what}: {there}", evidence, advice=f"{correct}: all nodes must see it")
    if os.access(there, os.W_OK | os.X_OK):
        return None
    fact = f"{name} cannot be written to: {there}"
    if there in place.parents:
        fact = f"{name} is not there, and cannot be made: {place}"
        evidence = (*evidence, ("above", f"{there} cannot be written to"))
    return SubmissionError(fact, evidence, advice=f"{correct}, or get the right to write: ls -ld {there}")


def _directory_problem(spec: JobSpec, baseline: Baseline, cluster: Cluster) -> SubmissionError | None:
    directory = spec.directory
    what = _missing(directory, stat.S_ISDIR)
    if not what:
        return None
    keys, root = tuple(directory_keys(spec, baseline, cluster)), _root_of_recipes(cluster)
    if root is not None and root in directory.parents and _missing(root, stat.S_ISDIR):
        # It is no single recipe's affair: all rows that have theirs there are told the same.
        return SubmissionError(
            f"the directory of recipes is {_missing(root, stat.S_ISDIR)}: {root}",
            keys[:1],
            advice="correct `recipes` there, or put the recipes there",
        )
    if directory == spec.stage:
        return SubmissionError(
            f"the staging area, where the launch script is to be, is {what}: {directory}",
            keys,
            advice="run the recipe's setup.sh, which puts it there, or say with `recipes` where the recipes are",
        )
    return SubmissionError(
        f"the recipe's directory is {what}: {directory}",
        (*keys, *_neighbours(directory.parent, Path.is_dir)),
        advice="is the recipe part of this release? Correct the directory there, or fetch the recipe",
    )


def _missing(path: Path, is_right: Callable[[int], bool], other: str = "no directory") -> str:
    """Why nothing of the right kind is there, as what follows ``is``; empty where it is there."""
    try:
        return "" if is_right(path.stat().st_mode) else other
    except (FileNotFoundError, NotADirectoryError):
        return "a link to nothing" if path.is_symlink() else _NOT_THERE
    except OSError as error:
        return f"out of reach ({error.strerror})"


def _neighbours(directory: Path, is_one: Callable[[Path], bool]) -> tuple[tuple[str, str], ...]:
    """What of the same kind is there in the place of what is missed."""
    names = sorted(path.name for path in directory.glob("[!.]*") if is_one(path))
    if not names:
        return ()
    more = [counted(len(names) - _MOST_NAMED, "other")] if len(names) > _MOST_NAMED else []
    return (("there", enumerated([*names[:_MOST_NAMED], *more])),)


def _root_of_recipes(cluster: Cluster) -> Path | None:
    """The directory that holds all recipes."""
    return None if cluster.recipes is None else Path(cluster.recipes.partition("{recipe}")[0].rstrip("/") or "/")


def directory_keys(spec: JobSpec, baseline: Baseline, cluster: Cluster) -> Iterator[tuple[str, str]]:
    """Which keys say where a recipe's directory is."""
    if spec.directory != recipe_directory(cluster, baseline, stage_of(cluster, baseline)):
        yield _BY_HOOK
        return
    if not baseline.recipe.beside_table:
        yield _stage_key(spec, cluster) if cluster.recipes is None else ("recipes", _cluster_line(cluster, "recipes"))
        if cluster.recipes is None:
            return
    path, wanted = baseline.location.path, baseline.recipe.directory
    line = _line_where(baseline, lambda text: _named_in(text) == wanted)
    yield "recipe", f"{from_here(path)}:{line}  directory: {wanted}"


def _stage_key(spec: JobSpec, cluster: Cluster) -> tuple[str, str]:
    if cluster.path is None:
        return "stage", str(spec.stage)
    if "stage" not in cluster.given:
        return "stage", "STAGE_PATH of the environment"
    return "stage", _cluster_line(cluster, "stage")


def _cluster_line(cluster: Cluster, key: str) -> str:
    """Where a key of a cluster stands, and what it says with variables filled in."""
    if cluster.path is None or key not in cluster.given:
        return str(vars(cluster)[key])
    return f"{from_here(cluster.path)}:{cluster.given[key][0]}  {key}: {vars(cluster)[key]}"


def _line_where(baseline: Baseline, is_one: Callable[[str], object]) -> int:
    """The line of a row's table that says something of it: the last such line before the row, or else the first one."""
    lines = read_text(baseline.location.path).split("\n")
    found = [number for number, line in enumerate(lines, 1) if is_one(line)]
    before = [number for number in found if number <= baseline.location.line]
    return before[-1] if before else next(iter(found), baseline.location.line)


def _named_in(line: str) -> str:
    """The directory that a line of a table gives: ``recipe: {directory: maxtext, steps: 50}``."""
    return line.partition("directory:")[2].partition(",")[0].partition("}")[0].partition(" #")[0].strip(" '\"")
