"""Checks before submission: a job's files, the variables of its script, and its release."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from pytest_gsw.clusters import CONTRACT_VARIABLES, Cluster
from pytest_gsw.common.files import relative_path
from pytest_gsw.common.text import enumerated, plural
from pytest_gsw.errors import SubmissionError
from pytest_gsw.jobs.layout import fixed_part
from pytest_gsw.jobs.model import JobSpec
from pytest_gsw.jobs.scripts import OPTIONS, cluster_of, named_clusters, script_text, unread, versions_in
from pytest_gsw.jobs.spec import job_environment, recipe_directory, stage_of
from pytest_gsw.tables import bundled, yaml_values
from pytest_gsw.tables.model import Baseline
from pytest_gsw.tables.release_rows import holds_for, other_release, rows_of
from pytest_gsw.tables.releases import releases_of

# -- Files of the recipe and the staging area; each error has the file and line of the key that led there


#: Most neighbours of a missing file in a message.
_MOST_NAMED = 6
_NOT_THERE = "not there"
_BY_HOOK = ("hook", "pytest_gsw_make_job_spec")


def recipe_problem(spec: JobSpec, baseline: Baseline, cluster: Cluster) -> SubmissionError | None:
    """The error of a recipe's launch script that cannot be submitted or run here; ``None`` if it can."""
    problem = _directory_problem(spec, baseline, cluster)
    if problem is not None or not spec.launch.runs_script:
        return problem
    script, keys = spec.script_path, tuple(directory_keys(spec, baseline, cluster))
    what = _entry_problem(script, stat.S_ISREG, "no file")
    if what:
        return SubmissionError(
            f"the launch script is {what}: {script}",
            (*keys, *_neighbours(script.parent, lambda path: path.suffix == ".sh")),
            advice=f"{_fetch_advice(spec)}; or name the script in the table: recipe: {{script: NAME}}",
        )
    if not os.access(script, os.R_OK):
        return SubmissionError(f"the launch script cannot be read: {script}", keys, advice=f"ls -l {script}")
    if spec.launch.submits_itself and not os.access(script, os.X_OK):
        return SubmissionError(f"the launch script cannot be run: {script}", keys, advice=f"chmod +x {script}")
    return None


def environment_problem(spec: JobSpec, baseline: Baseline) -> SubmissionError | None:
    """The error of a row's table with a variable that no script reads; ``None`` if none or uncertain."""
    unread_variable = unread(baseline.recipe.environment, spec.script_path) if spec.launch.reads_variables else None
    if unread_variable is None:
        return None
    name, nearest = unread_variable
    line = _table_line(baseline, re.compile(rf"(?<!\w){re.escape(name)}['\"]?[ \t]*:").search)
    table, script = f"{relative_path(baseline.location.path)}:{line}  {name}", spec.script_path
    return SubmissionError(
        f"no script of the recipe reads {name}, which the row's table sets",
        (("table", table), ("script", str(script)), *_neighbours(script.parent, Path.is_file)),
        advice=f"{f'did you mean {nearest}? ' if nearest else ''}Correct `recipe.environment` in the table; "
        "a variable for a program that no script names belongs under `environment` of the cluster",
    )


def cluster_problem(spec: JobSpec, cluster: Cluster, first: JobSpec) -> SubmissionError | None:
    """The error of a job for another Slurm cluster than the session's first job: two clusters may share an id."""
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
        place = f"{relative_path(cluster.path)}:{cluster.given['sbatch'][0]}  --clusters={named}"
    return SubmissionError(f"a session runs on one Slurm cluster, and {fact}", (("named by", place),), advice=advice)


def stage_problem(spec: JobSpec, cluster: Cluster) -> SubmissionError | None:
    """The error of a staging area that a job cannot write to; ``None`` if it can."""
    home = spec.launch.home
    if place := spec.environment.get(home):
        here = Path(cluster.here(place))
        return _write_error(home, here, here, (), "correct it under `environment` of the cluster")
    results = spec.stage / fixed_part(spec.log_glob)
    if not spec.log_glob.startswith("results/"):
        said = (("named by", str(spec.script_path)),)
        return _write_error("the log's directory", spec.stage, results, said, "correct --output there")
    return _write_error("the staging area", spec.stage, results, (_stage_key(spec, cluster),), "correct `stage` there")


def _write_error(
    name: str, place: Path, results: Path, evidence: tuple[tuple[str, str], ...], correct: str
) -> SubmissionError | None:
    """The error of a results' directory that cannot be written or created; ``None`` if it can."""
    there = next(path for path in (results, *results.parents) if _entry_problem(path, stat.S_ISDIR) != _NOT_THERE)
    what = _entry_problem(there, stat.S_ISDIR)
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
    what = _entry_problem(directory, stat.S_ISDIR)
    if not what:
        return None
    keys, advice = tuple(directory_keys(spec, baseline, cluster)), _fetch_advice(spec)
    root = Path((cluster.recipes or "").partition("{recipe}")[0].rstrip("/") or "/")
    if root in directory.parents and (of_root := _entry_problem(root, stat.S_ISDIR)):
        # Not specific to one recipe: all rows with recipes there get the same error.
        fact, keys = f"directory of recipes is {of_root}: {root}", keys[:1]
        advice = f"correct `recipes` there, or {advice}"
    elif directory == spec.stage:
        fact = f"staging area, where the launch script is to be, is {what}: {directory}"
    else:
        fact, keys = f"recipe's directory is {what}: {directory}", (*keys, *_neighbours(directory.parent, Path.is_dir))
        advice = f"is the recipe part of this release? Correct the directory there, or {spec.launch.fetch}"
    return SubmissionError(f"the {fact}", keys, advice=advice)


def _fetch_advice(spec: JobSpec) -> str:
    """How a recipe that is not there gets there."""
    return f"{spec.launch.fetch}, and set `recipes` of the cluster to the directory with the recipes"


def _entry_problem(path: Path, is_right: Callable[[int], bool], other: str = "no directory") -> str:
    """The part of a message after ``is`` if there is no entry of the right kind; empty if there is one."""
    try:
        return "" if is_right(path.stat().st_mode) else other
    except (FileNotFoundError, NotADirectoryError):
        return "a link to nothing" if path.is_symlink() else _NOT_THERE
    except OSError as error:
        return f"out of reach ({error.strerror})"


def _neighbours(directory: Path, is_one: Callable[[Path], bool]) -> tuple[tuple[str, str], ...]:
    """Entries of the same kind in the directory of a missing one, as evidence."""
    names = sorted(path.name for path in directory.glob("[!.]*") if is_one(path))
    if not names:
        return ()
    more = [plural(len(names) - _MOST_NAMED, "other")] if len(names) > _MOST_NAMED else []
    return (("there", enumerated([*names[:_MOST_NAMED], *more])),)


def directory_keys(spec: JobSpec, baseline: Baseline, cluster: Cluster) -> Iterator[tuple[str, str]]:
    """The keys that determine a recipe's directory, as evidence."""
    if spec.directory != recipe_directory(cluster, baseline, stage_of(cluster, baseline)):
        yield _BY_HOOK
        return
    if not baseline.recipe.is_next_to_table:
        if cluster.recipes is None:
            yield _stage_key(spec, cluster)
            return
        yield "recipes", _cluster_line(cluster, "recipes", cluster.recipes)
    path, wanted = baseline.location.path, baseline.recipe.directory
    line = _table_line(baseline, lambda text: _directory_in(text) == wanted)
    yield "recipe", f"{relative_path(path)}:{line}  directory: {wanted}"


def _stage_key(spec: JobSpec, cluster: Cluster) -> tuple[str, str]:
    if cluster.path is None:
        return "stage", str(spec.stage)
    if "stage" not in cluster.given:
        return "stage", "STAGE_PATH of the environment"
    return "stage", _cluster_line(cluster, "stage", cluster.stage)


def _cluster_line(cluster: Cluster, key: str, value: str | None) -> str:
    """File and line of a key of a cluster, with its value after substitution."""
    if cluster.path is None or key not in cluster.given:
        return str(value)
    return f"{relative_path(cluster.path)}:{cluster.given[key][0]}  {key}: {value}"


def _table_line(baseline: Baseline, is_one: Callable[[str], object]) -> int:
    """The matching line of a row's table: the last one before the row, or else the first."""
    lines = yaml_values.read_text(baseline.location.path).split("\n")
    matches = [number for number, line in enumerate(lines, 1) if is_one(line)]
    before = [number for number in matches if number <= baseline.location.line]
    return before[-1] if before else next(iter(matches), baseline.location.line)


def _directory_in(line: str) -> str:
    """The directory in a line of a table: ``recipe: {directory: maxtext, steps: 50}``."""
    return line.partition("directory:")[2].partition(",")[0].partition("}")[0].partition(" #")[0].strip(" '\"")


# -- Variables that a launch script requires ---------------------------------------------------------
#
# As far as the script leaves no doubt. The lines at its beginning are read, up to the first that may do more than set
# variables, test and print. A variable counts by the first line that names it: one that is set, or has a default,
# before that is not required.


_NAME = r"[A-Za-z_][A-Za-z0-9_]{0,99}"
_WORD = re.compile(rf"{_NAME}")
#: ``export HF_TOKEN=${HF_TOKEN:?…}`` and ``: "${HF_TOKEN?…}"``.
_DEMAND = re.compile(rf"""(?:(?:export\s+|readonly\s+)?{_NAME}=|:\s+)"?\$\{{({_NAME})(:?)\?""")
#: Words without a command outside a subshell.
_VALUE = r"""(?:\$\{(?:[^{}]|\{[^{}]*\})*\}|\$\([^()]*\)|\$(?![{(])|"[^"`]*"|'[^']*'|\\.|[^\s;&|"'()<>`$\\])"""
#: Lines that set no variable that they do not name, and end the script, if at all, with an error.
_HARMLESS = re.compile(
    rf"\s*(?:(?:(?:export|readonly)\s+)?{_NAME}={_VALUE}*(?:\s+#.*)?"
    rf"|(?:echo|printf|set|:|exit\s+[1-9])(?:\s+(?!-v){_VALUE}+)*(?:\s+>&2)?"
    r"|(?:el)?if\s+\[(?:[^;&|]|(?:&&|\|\|)\s*[^\w.\s])*\]\s*;(?:\s*\}\s*;)?\s*then"
    r"|else|fi)\s*"
)

#: Options of sbatch that give the job other variables than the session's, by any unique prefix.
_OTHER_VARIABLES = re.compile(r"--(?:exp|get)(?!ort=ALL$).*")
#: A login shell reads the user's profile first.
_BASH = re.compile(r"#!(?!.*\s(?:-[a-z]*l|--login)).*\bbash\b")

_OF_BASH_AND_SLURM = """
    HOME HOSTNAME HOSTTYPE IFS LINENO LOGNAME MACHTYPE OLDPWD OPTARG OPTIND OSTYPE PATH PPID PWD RANDOM SECONDS SHELL
    SHLVL TERM TMPDIR UID EUID EPOCHSECONDS EPOCHREALTIME SRANDOM OPTERR PS4 HISTCMD USER ENVIRONMENT
    CUDA_VISIBLE_DEVICES GPU_DEVICE_ORDINAL ROCR_VISIBLE_DEVICES
"""
#: Set by bash or by Slurm in each job.
_GIVEN = frozenset(_OF_BASH_AND_SLURM.split())
#: Variables that give the job other variables than the session's: a file that bash reads first, and sbatch's own.
_MAY_SET = frozenset({"BASH_ENV", "SBATCH_EXPORT", "SBATCH_GET_USER_ENV"})
_GIVEN_PREFIXES = ("BASH", "SLURM", "SRUN_", "PMI", "FUNCNAME", "GROUPS", "DIRSTACK", "PIPESTATUS", "REPLY")


class RequiredVariable(NamedTuple):
    """A script's requirement on one variable."""

    name: str
    line: int
    #: True if an empty value counts as not set.
    empty_is_unset: bool


def variables_problem(
    spec: JobSpec, environ: Mapping[str, str], demands: Sequence[RequiredVariable]
) -> SubmissionError | None:
    """The error of a launch script with these requirements that would end at once; ``None`` if that is uncertain."""
    if not demands or not spec.launch.runs_script:
        return None
    script = spec.script_path
    environment = {**job_environment(environ, spec), **spec.launch.variables(spec)}
    if not environment.keys().isdisjoint(_MAY_SET) or any(map(_OTHER_VARIABLES.match, spec.options)):
        return None
    given = {name for name, value in environment.items() if value}
    unmet = [demand for demand in demands if demand.name not in (given if demand.empty_is_unset else environment)]
    if not unmet:
        return None
    names = [demand.name for demand in unmet]
    own = [name for name in names if name not in CONTRACT_VARIABLES]
    exports = " ".join(f"{name}=…" for name in own)
    advice = f"export {exports}; or write that under `environment` of the cluster"
    if not own:
        advice = "give the row its `size` in the table, which sets MODEL_SIZE"
    return SubmissionError(
        f"the launch script needs {enumerated(names)}, which {'is' if len(names) == 1 else 'are'} not set",
        tuple(("said at", f"{script}:{demand.line}  {demand.name}") for demand in unmet),
        advice=advice,
    )


def demands_of(script: Path) -> tuple[RequiredVariable, ...]:
    """The requirements in a launch script's text; empty if it cannot be read."""
    return tuple(demands_in(script_text(script) or ""))


def demands_in(text: str) -> Iterator[RequiredVariable]:
    """The requirements at the beginning of a bash script, each variable once."""
    lines = text.split("\n")
    if not _BASH.match(lines[0]):
        return
    named = set(_GIVEN)
    depth = 0
    for number, line in enumerate(lines, 1):
        words = line.split()
        if line.startswith("#SBATCH") and any(map(_OTHER_VARIABLES.match, words)):
            return
        if not words or words[0].startswith("#"):
            continue
        if not _HARMLESS.fullmatch(line):
            return
        demand = _DEMAND.match(line)
        if demand and depth == 0 and demand[1] not in named and not demand[1].startswith(_GIVEN_PREFIXES):
            yield RequiredVariable(demand[1], number, demand[2] == ":")
        if words[0] not in {"echo", "printf"} or "=" in line:
            named.update(_WORD.findall(line))
        depth += (words[0] == "if") - (words[0] == "fi")


# -- The release of the staged recipes, by their launch scripts -------------------------------------


#: From v25.10 on, a file at the root of a checkout has the release of all recipes.
_RELEASE_FILE = "release.yaml"
_CHANGELOG = "CHANGELOG"
_LLMB_KEY = "llmb_version:"
_LLMB_VERSION = re.compile(r"^llmb_version:[ \t]*[\"']?([0-9][0-9A-Za-z.-]{0,30})[\"']?[ \t\r]*(?:#.*)?$", re.MULTILINE)
#: ``## [v25.05.02] - 2025-07-22``
_HEADING = re.compile(r"^##? \[?v?([0-9][0-9A-Za-z.-]{0,30})\b[^\n]{0,80}", re.MULTILINE)
#: Deepest level of a recipe below that: ``deepseek_v3/pretrain/megatron_bridge``, and some more.
_DEEPEST = 6


class Staged(NamedTuple):
    """The evidence for a recipe's release."""

    version: str
    path: Path
    #: From 1.
    line: int
    text: str
    #: True if the version is the release itself; several releases share a ``GSW_VERSION``.
    is_release: bool = False

    @property
    def releases(self) -> tuple[str, ...]:
        """The possible releases."""
        return (self.version,) if self.is_release else releases_of(self.version)


def release_files(script: Path) -> Iterator[Path]:
    """The files that may state the release of a checkout with this launch script."""
    return (folder / name for folder in script.parents[:_DEEPEST] for name in (_RELEASE_FILE, _CHANGELOG))


def staged_release(script: Path) -> Staged | None:
    """The one release in a launch script or its checkout.

    ``None`` if the script is missing or there are several.
    """
    text = script_text(script)
    if text is None:
        return None
    constants = [match for match in versions_in(text) if releases_of(match[1])]
    if constants:
        own = _release_at(text, constants, script)
        return own and (_by_changelog(script, own.releases) or own)
    # Other projects have files with that name, too.
    for file in (folder / _RELEASE_FILE for folder in script.parents[:_DEEPEST]):
        if _LLMB_KEY in (content := script_text(file) or ""):
            return _release_at(content, list(_LLMB_VERSION.finditer(content)), file)
    return None


def _by_changelog(script: Path, possible: Sequence[str]) -> Staged | None:
    """The one of several releases in the first heading of the checkout's CHANGELOG; ``None`` if it has none."""
    for place in (folder / _CHANGELOG for folder in script.parents[:_DEEPEST] if len(possible) > 1):
        text = script_text(place) or ""
        first = _HEADING.search(text)
        if first is not None and first[1] in possible:
            return Staged(first[1], place, text.count("\n", 0, first.start()) + 1, first[0], is_release=True)
    return None


def _release_at(text: str, found: Sequence[re.Match[str]], path: Path) -> Staged | None:
    """The one release at these places of a text; ``None`` if they differ."""
    if len({match[1] for match in found}) != 1:
        return None
    first = found[0]
    return Staged(first[1], path, text.count("\n", 0, first.start()) + 1, first[0].strip())


def release_problems(rows: Iterable[tuple[Baseline, Path]], cluster: Cluster) -> Iterator[tuple[str, SubmissionError]]:
    """The errors of rows whose recipe is, or may be, staged in another release, by row: their figures do not apply."""
    staged = cache(staged_release)
    for row, script in rows:
        says_release = row.source.releases or row.source.release is not None
        release = staged(script) if says_release else None
        if release is not None and (
            holds_for(row.source, release.version, release.releases) is False or _may_be_other(row, release.releases)
        ):
            other = other_release(row, release.releases, "the staged recipe", *cluster.options)
            place = "release", f"{relative_path(release.path)}:{release.line}  {release.text}"
            yield row.id, SubmissionError(other.fact, (place, other.table), advice=other.advice)


def _may_be_other(row: Baseline, releases: Sequence[str]) -> bool:
    """True if a bundled row has other figures in one of the releases that may be staged."""
    is_open = len(releases) > 1 and len({bundled.bundled_releases().get(release) for release in releases}) > 1
    rows = rows_of(row.id, releases).values() if is_open else ()
    return row.location in {other.location for other in rows} and len({other.judged for other in rows}) > 1
