"""Clusters, on which rows run: ``clusters.yaml`` becomes :class:`Cluster` values."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, cast

from pytest_gsw.common.files import relative_path
from pytest_gsw.errors import ConfigurationError, Fault, FileError
from pytest_gsw.hardware import CPU, find_accelerators, is_same
from pytest_gsw.tables import value_types as f
from pytest_gsw.tables.releases import release_field
from pytest_gsw.tables.schema import LAUNCHER_MEANING, LAUNCHERS, PLACEHOLDERS
from pytest_gsw.tables.yaml_values import Value, Values, read_mapping

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")

#: Variables of the launch contract for each row; with other values a job would measure another row.
CONTRACT_VARIABLES = frozenset(
    {
        *("STAGE_PATH", "DTYPE", "MODEL_SIZE", "NUM_NODES", "RUN_CONF_GPU_PER_NODE", "GSW_BASELINE_FILE"),
        # sbatch reads these as options that a cluster may not give.
        *("SBATCH_ARRAY_INX", "SBATCH_EXPORT", "SBATCH_WAIT"),
    }
)
_CONTRACT_PREFIXES = ("GSW_ROW", "SLURM_JOB")

#: Options of sbatch that break the launch contract, with their short form and the reason.
_FORBIDDEN_OPTIONS = {
    "array": ("a", "each row is one job"),
    "wait": ("W", "sbatch must answer before the job has ended"),
    "parsable": ("", "it is always given"),
    "job-name": ("J", "each row has a job name of its own"),
    "nodes": ("N", "the row's GPUs determine it"),
    "export": ("", "the launch script needs the whole environment"),
    "export-file": ("", "the launch script needs the whole environment"),
    "test-only": ("", "no job would run; --gsw-plan submits nothing"),
    "wrap": ("", "what runs is the recipe's launch script"),
    "chdir": ("D", "jobs run in the recipe's directory"),
}
#: Short options without a value, which may precede another: -HW is -H -W.
_SHORT_FLAGS = "HIOQVhksuv"


#: Faults of a key: its place, the key, and the problem.
_Problems = Iterator[tuple[Value, str, str]]


def _check_placeholders(entry: Value, key: str, _filled: Any) -> _Problems:
    for word in re.findall(r"(?<!\$)\{([^{}]*)\}", str(entry.value)):
        if word != "recipe":
            yield entry, key, f"unknown placeholder {{{word}}}{f.nearest(word, ['recipe'])}"


def _check_environment(entry: Value, key: str, filled: Mapping[str, str]) -> _Problems:
    for name in filled:
        if name in CONTRACT_VARIABLES or name.startswith(_CONTRACT_PREFIXES):
            problem = f"{name} is part of the launch contract, which sets it for each row; leave it out"
            yield entry, f"{key}.{name}", problem
    for name, text in entry.value.items():
        for word in set(re.findall(r"(?<!\$)\{([a-z_]+)\}", text)) - PLACEHOLDERS:
            yield entry, f"{key}.{name}", f"unknown placeholder {{{word}}}{f.nearest(word, sorted(PLACEHOLDERS))}"


def _check_sbatch(entry: Value, key: str, filled: Sequence[str]) -> _Problems:
    for place, text in zip(entry.value, filled, strict=True):
        if re.match(r"--[A-Za-z][\w-]*(=|$)|-[A-Za-z]", text) is None:
            yield place, key, f"got '{text}', wanted options of one list entry each, such as --qos=acceptance"
            continue
        for name, (short, why) in _FORBIDDEN_OPTIONS.items():
            spelling = _spelling_of(text, name, short)
            if spelling is not None:
                yield place, key, f"got {spelling}, which breaks the launch contract: {why}; leave it out"
                break


def _check_gres(entry: Value, key: str, filled: str) -> _Problems:
    if re.fullmatch(r"([A-Za-z]\w*(/\w+)?(:[A-Za-z][\w.-]*)?(:[0-9]+[kKmMgG]?)?,?)+", filled) is None:
        yield entry, key, f"got '{filled}', wanted resources of a node such as gpu:8"


def _check_host(entry: Value, key: str, filled: str) -> _Problems:
    if re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.@:%-]*", filled) is None:
        yield entry, key, f"got '{filled}', wanted a host such as eos-login or ann@eos-login"


def _check_smoke(entry: Value, key: str, filled: str) -> _Problems:
    try:
        shlex.split(filled)
    except ValueError as error:
        yield entry, key, f"got '{filled}', which is no command: {str(error).lower()}"


def _spelling_of(text: str, name: str, short: str) -> str | None:
    """The spelling of this option in an entry, if it is there; sbatch accepts a prefix of a long one as well."""
    if text.startswith("--"):
        long = text[2:].partition("=")[0]
        return f"--{long}" if name.startswith(long) else None
    return f"-{short}" if short and re.match(rf"-[{_SHORT_FLAGS}]*{short}", text) else None


# -- The keys of a cluster: each is declared once, with its kind, its meaning, and what else holds for it

_NUMBER = r"[0-9]{1,6}([.][0-9]{1,6})?"


def _number(unit: str, help_: str, pattern: str = _NUMBER, wanted: str = "a number of {unit} such as 30") -> f.Field:
    text = f.pattern(pattern, wanted.format(unit=unit), help_)
    return replace(text, read=lambda raw: float(text.read(raw)))


@dataclass(frozen=True)
class ClusterKey:
    """A key of a cluster."""

    #: Kind of its values, with its meaning.
    kind: f.Kind
    #: True for a path: relative to the file, or to a home.
    is_path: bool = False
    #: Yields the faults of a value.
    check: Callable[[Value, str, Any], _Problems] | None = None


def _key(kind: f.Kind, default: Any = None, **facts: Any) -> Any:
    """A field that is a key; a traceback shows no lists and mappings, whose texts may be secrets."""
    metadata = {"key": ClusterKey(kind, **facts)}
    return field(default_factory=lambda: default, repr=isinstance(kind, f.Field), metadata=metadata)


@dataclass(frozen=True)
class Submission:
    """Requirements of jobs, as a launcher gives them to its scheduler."""

    host: str | None = _key(
        f.text("Login node from which the jobs are submitted, as ssh knows it; this machine by default."),
        check=_check_host,
    )
    ssh: tuple[str, ...] | None = _key(
        f.Sequence_(None, "Options of OpenSSH's client for that, one list entry each, such as -F and a file.")
    )

    account: str | None = _key(f.text("Slurm account; SLURM_ACCOUNT or SBATCH_ACCOUNT by default."))
    partition: str | None = _key(f.text("Slurm partition; SLURM_PARTITION or SBATCH_PARTITION by default."))
    gres: str | None = _key(
        f.text("Generic resources of each node, such as gpu:8, if Slurm has them."), check=_check_gres
    )
    constraint: str | None = _key(f.text("Features that the nodes must have."))
    reservation: str | None = _key(f.text("Slurm reservation in which the jobs run."))
    #: Way of submission if a recipe's table has none; ``None``: by sbatch.
    launcher: str | None = _key(f.choice(LAUNCHERS, f"{LAUNCHER_MEANING} A table's recipe.launcher comes first."))
    sbatch: tuple[str, ...] = _key(
        f.Sequence_(None, "Further options of sbatch, one list entry each, such as --qos=acceptance."),
        (),
        check=_check_sbatch,
    )
    #: In front of the row's.
    arguments: tuple[str, ...] = _key(
        f.Sequence_(None, "Further arguments of launch scripts that submit their job, one list entry each."), ()
    )


@dataclass(frozen=True)
class NodeChecks:
    """Checks of the nodes of a running job, see :mod:`pytest_gsw.jobs.slurm.probing`."""

    facts: str | None = _key(
        f.choice(("nvidia", "amd", "host", "none"), "Facts of each node that are read while a job runs.")
    )
    smoke: str | None = _key(
        f.text("Command that tests each node before the first step; it prints NAME VALUE, higher is better."),
        check=_check_smoke,
    )
    smoke_limit: float | None = _key(_number("seconds", "Limit on the smoke test's run time, seconds; 30 by default."))
    smoke_ends_job: bool = _key(f.flag("A node below its peers in the smoke test ends the job."), default=False)


@dataclass(frozen=True)
class SiteSettings:
    """Rules and limits of sessions, which a file may state for all clusters."""

    tolerance: float | None = _key(f.tolerance("Accepted loss of throughput."))
    max_gain: float | None = _key(f.gain("Largest plausible gain of throughput."))
    strict: bool | None = _key(f.flag("Rows that are too fast fail."))
    max_jobs: int | None = _key(f.whole("Jobs submitted at once."))
    max_gpus: int | None = _key(f.whole("GPUs in use at once."))
    timeout: float | None = _key(
        _number("minutes", "Run time of a job, minutes.", rf"(?=.*[1-9]){_NUMBER}", "minutes above 0, such as 30")
    )
    max_pending: int | None = _key(f.whole("Jobs pending at once."))
    max_queue: float | None = _key(
        _number("hours", "Hours in the queue while no job of the session runs, 24 by default; 0: no limit.")
    )
    stall: float | None = _key(_number("minutes", "Minutes without a new step before a job is ended; 0: never."))
    slow_start: float | None = _key(
        _number("times", "Multiple of the documented time at which a job is ended; 0: never.")
    )
    poll_interval: float | None = _key(
        _number(
            "seconds",
            "Seconds between requests to the scheduler, 0.5 to 300.",
            r"0?[.][5-9][0-9]{0,5}|([1-9][0-9]?|[12][0-9]{2})([.][0-9]{1,6})?|300",
            "0.5 to 300 seconds",
        )
    )

    def text(self, name: str) -> str | None:
        """One of them as a file has it; ``None`` if there is none."""
        value = getattr(self, name)
        if value is None or isinstance(value, bool):
            return None if value is None else str(value).lower()
        is_share = name in {"tolerance", "max_gain"}
        return f"{100 * value:.12g}%" if is_share else f"{value:.6f}".rstrip("0").rstrip(".")

    def with_texts(self, texts: Mapping[str, str | None]) -> SiteSettings:
        """The same with others, as files have them."""
        kinds = cast(Mapping[str, f.Field], SETTINGS_FIELDS)
        known = {name: kinds[name].read(text.lower()) for name, text in texts.items() if text is not None}
        return replace(self, **{**dict.fromkeys(texts), **known})


@dataclass(frozen=True)
class Cluster:
    """Scheduler, hardware and staging area of a cluster, with every variable filled in."""

    name: str
    scheduler: str = _key(
        f.pattern(
            r"[a-z][a-z0-9_-]*",
            "slurm, local, or a name that a plugin provides",
            "How jobs start: slurm, local (processes on this machine), or a launcher of a plugin.",
            required=True,
        )
    )
    accelerator: str | None = _key(f.text("Accelerator of every node, such as H100."))
    gpus_per_node: int | None = _key(
        f.whole("GPUs of one node; SLURM_GPUS_PER_NODE or SBATCH_GPUS_PER_NODE by default, else the row's.")
    )
    gpus: int | None = _key(f.whole("GPUs of the whole cluster. Rows that need more are skipped."))
    stage: str | None = _key(
        f.text("Staging area (STAGE_PATH by default); {recipe} is the recipe's directory."),
        is_path=True,
        check=_check_placeholders,
    )
    recipes: str | None = _key(
        f.text("Directory of the recipes' directories; the staging area by default."),
        is_path=True,
        check=_check_placeholders,
    )
    environment: Mapping[str, str] = _key(
        f.Nested(None, "Variables for every job, with {recipe} and the like."),
        {},
        check=_check_environment,
    )
    #: ``None`` for the rows of the documents.
    release: str | None = _key(
        release_field("Staged release of the recipes, or NeMo container, whose bundled rows run.")
    )
    node_findings: str | None = _key(
        f.choice(
            ("fail", "warn"),
            "Outcome of nodes that --gsw-find names or no tile covers; "
            "warn fails only named ones beyond the tolerance.",
        )
    )
    submission: Submission = Submission()
    node_checks: NodeChecks = NodeChecks()
    settings: SiteSettings = SiteSettings()
    #: The file that defines it; ``None`` for the built-in ones.
    path: Path | None = None
    #: The keys in the file, with their lines and columns.
    given: Mapping[str, tuple[int, int]] = field(default_factory=dict, repr=False, compare=False)
    #: True for simulated runs: their figures are labelled wherever they appear.
    simulated: bool = False
    #: The leaf switch of each simulated node, and the reasons of those that take no jobs.
    nodes: Mapping[str, str] = field(default_factory=dict, repr=False)
    down: Mapping[str, str] = field(default_factory=dict, repr=False)
    #: The directory with copies of its files; ``None`` if this machine sees the files themselves.
    mirror: Path | None = None
    #: True if its file was named on the command line: other sessions do not find it otherwise.
    file_is_given: bool = False

    def here(self, path: str) -> str:
        """The path at which this machine has a file or a directory of its jobs."""
        return path if self.mirror is None or path.startswith(f"{self.mirror}/") else f"{self.mirror}{path}"

    def there(self, text: str, host: str | None = "") -> str:
        """A text with the paths of its files as its jobs see them, after the host's name if that is given."""
        return text if self.mirror is None else text.replace(f"{self.mirror}/", f"{host}:/" if host else "/")

    def shown(self, text: str) -> str:
        """A text for the user, in which paths of a login node have its name."""
        return self.there(text, self.submission.host)

    @property
    def options(self) -> tuple[str, ...]:
        """The options that name it in a command for the same directory."""
        return (f"--gsw-cluster={self.name}", *clusters_option(self.given_file))

    @property
    def given_file(self) -> str | None:
        """Its file, if that was named on the command line."""
        return str(self.path) if self.file_is_given else None


def _keys_of(subject: type) -> dict[str, ClusterKey]:
    return {known.name: known.metadata["key"] for known in fields(subject) if "key" in known.metadata}


#: The keys of ``defaults``, which a cluster may have as well; and every key of a cluster.
SETTINGS_FIELDS: f.Fields = {name: key.kind for name, key in _keys_of(SiteSettings).items()}
CLUSTER_KEYS = {
    name: key for subject in (Cluster, Submission, NodeChecks, SiteSettings) for name, key in _keys_of(subject).items()
}
CLUSTER_FIELDS: f.Fields = {name: key.kind for name, key in CLUSTER_KEYS.items()}
#: Every key of a file of clusters.
FILE_FIELDS: f.Fields = {
    "defaults": f.Nested(SETTINGS_FIELDS, "Settings of all clusters."),
    "clusters": f.Nested(
        None,
        "By name.",
        names=rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{f.LONGEST_NAME - 1}}}",
        wanted=f"a name of at most {f.LONGEST_NAME} letters, digits, '.', '_' and '-'",
        each=CLUSTER_FIELDS,
    ),
}
#: The keys that some launchers do not use; the others are of the row, the recipe or the verdict, for any launcher.
LAUNCHER_KEYS = frozenset((*_keys_of(Submission), *_keys_of(NodeChecks)))


def clusters_option(file: str | None) -> tuple[str, ...]:
    """The option that names a file of clusters; none if it is found by default."""
    return () if file is None else (f"--gsw-clusters={relative_path(Path(file))}",)


#: The cluster without requirements: a simulated recipe, run as processes on this machine. Jobs that are larger than its
#: nodes run as well, on nodes without names.
DEMO = Cluster(
    name="demo",
    scheduler="local",
    gpus=4608,
    simulated=True,
    nodes={f"demo-{number:02d}": f"leaf{(number + 3) // 4}" for number in range(1, 17)},
)

#: The directory in a run's with the copies of files of a login node.
MIRROR = "there"

#: This machine; the session fills in its hardware.
LOCAL = Cluster(name="local", scheduler="local")
_BUILT_IN: Mapping[str, Cluster] = {cluster.name: cluster for cluster in (DEMO, LOCAL)}


def cluster_files(given: Path | None, directories: Sequence[Path], environ: Mapping[str, str]) -> tuple[Path, ...]:
    """The files with clusters, first match wins: the given file, the project's, the user's."""
    user = Path(environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    candidates = [given, *(directory / "clusters.yaml" for directory in directories)]
    candidates.append(user / "pytest-gsw" / "clusters.yaml")
    return tuple(dict.fromkeys(path for path in candidates if path is not None))


def find_cluster(
    name: str,
    files: Sequence[Path],
    environ: Mapping[str, str],
    option: str = "--gsw-clusters",
    others: Iterable[str] = (),
) -> Cluster:
    """The cluster of this name from the first of these files that defines it; missing files are skipped.

    The environment fills ``${VAR}``, and provides missing keys. ``option`` is the option that names a file, and
    ``others`` are clusters that are known without one.

    Raises:
        FileError: A file is wrong, or a variable that the cluster uses is not set.
        ConfigurationError: No file defines the cluster.
    """
    found: tuple[Path, Values] | None = None
    defaults: Mapping[str, Any] = {}
    for path, clusters, settings in _read_files(files):
        defaults = defaults or settings
        found = found or ((path, clusters[name]) if name in clusters else None)
        if found and defaults:
            break
    if found is not None:
        path, entries = found
        return _cluster(name, entries, path, environ, defaults)
    if name in _BUILT_IN:
        return replace(_BUILT_IN[name], settings=SiteSettings(**defaults))
    defined = (name for _, clusters, _ in _read_files(files) for name in clusters)
    names = sorted({*_BUILT_IN, *defined, *others})
    looked_in = "\n".join(f"  {path}{'' if path.is_file() else ' (not there)'}" for path in files)
    raise ConfigurationError(
        f"no cluster '{name}'{f.nearest(name, names)}\n"
        f"known: {', '.join(names)}\n"
        f"looked in:\n{looked_in}\n"
        f"next: define '{name}' in one of these files, or give another with {option}=FILE"
    )


def _read_files(files: Sequence[Path]) -> Iterator[tuple[Path, Mapping[str, Values], Mapping[str, Any]]]:
    """The clusters of each file by name, and its settings for all clusters."""
    for path in filter(Path.is_file, files):
        values = read_mapping(path, FILE_FIELDS)
        clusters = values["clusters"].value if "clusters" in values else {}
        settings = values["defaults"].value if "defaults" in values else {}
        yield path, clusters, {key: entry.value for key, entry in settings.items()}


def default_settings(files: Sequence[Path]) -> SiteSettings:
    """The settings of sessions without a cluster: ``defaults`` of the first file that has them.

    Raises:
        FileError: A file is wrong.
    """
    return SiteSettings(**next((settings for _, _, settings in _read_files(files) if settings), {}))


def release_of(name: str, files: Sequence[Path], environ: Mapping[str, str]) -> tuple[str, str] | None:
    """The staged release of a cluster, and its place in the file; the cluster's other keys may be wrong.

    Raises:
        FileError: A file is wrong, or a variable that the release uses is not set.
    """
    for path, clusters, _ in _read_files(files):
        if name not in clusters:
            continue
        entry = clusters[name].get("release")
        if entry is None:
            return None
        faults: list[Fault] = []
        release = _substitute(entry.value, entry, f"clusters.{name}.release", environ, faults)
        if faults:
            raise FileError(path, tuple(faults))
        return release, f"{path}:{entry.line}, release of {name}"
    return None


def _cluster(
    name: str, entries: Values, path: Path, environ: Mapping[str, str], defaults: Mapping[str, Any]
) -> Cluster:
    faults: list[Fault] = []
    keys: dict[str, Any] = {}
    for key, entry in entries.items():
        keys[key] = _substitute_all(entry, f"clusters.{name}.{key}", environ, faults)
        if key == "environment":
            keys[key] = {
                name: (text.startswith("~/") and _at_home(text, environ)) or text for name, text in keys[key].items()
            }
        declared = CLUSTER_KEYS[key]
        if declared.is_path and "host" in entries:
            if not keys[key].startswith("/"):
                problem = f"got '{keys[key]}', wanted a path of the login node, from / on"
                faults.append(Fault(entry.line, entry.column, f"clusters.{name}.{key}", problem))
        elif declared.is_path:
            home = _at_home(keys[key], environ)
            if home is None:
                problem = f"got '{keys[key]}', an unknown home; write the path itself"
                faults.append(Fault(entry.line, entry.column, f"clusters.{name}.{key}", problem))
            keys[key] = home and str(path.parent.absolute() / home)
        if declared.check is not None:
            faults += (
                Fault(place.line, place.column, f"clusters.{name}.{where}", problem)
                for place, where, problem in declared.check(entry, key, keys[key])
            )
    if faults:
        raise FileError(path, tuple(faults))
    keys = {**_from_environment(environ), **defaults, **keys}
    own, submission, node_checks, settings = (
        {key: keys[key] for key in _keys_of(subject) if key in keys}
        for subject in (Cluster, Submission, NodeChecks, SiteSettings)
    )
    return Cluster(
        name=name,
        path=path,
        given={key: (entry.line, entry.column) for key, entry in entries.items()},
        settings=SiteSettings(**settings),
        submission=Submission(**submission),
        node_checks=NodeChecks(**node_checks),
        **own,
    )


def why_it_does_not_fit(accelerator: str | None, gpus: int | None, cluster: Cluster) -> str:
    """The reason why a row cannot run on a cluster, from their known facts; empty if it can."""
    if cluster.accelerator and accelerator and not is_same(cluster.accelerator, accelerator):
        return f"the row is for {accelerator}, {cluster.name} has {cluster.accelerator}"
    if cluster.gpus is not None and gpus is not None and gpus > cluster.gpus:
        return f"the row needs {gpus} GPUs, {cluster.name} has {cluster.gpus}"
    return ""


def check_keys(cluster: Cluster, launcher: str, used: Iterable[str]) -> None:
    """Check that a cluster's file has no key that its launcher ignores.

    ``used`` are the keys that the launcher of this name uses besides the common ones.

    Raises:
        FileError: It has one.
    """
    usable = CLUSTER_FIELDS.keys() - LAUNCHER_KEYS | set(used)
    unused = f"the launcher '{launcher}' of the scheduler '{cluster.scheduler}' does not use it; leave it out"
    wrong = [key for key in cluster.given if key not in usable]
    if wrong:
        raise keys_error(cluster, wrong, unused)


def keys_error(cluster: Cluster, keys: Iterable[str], problem: str) -> FileError:
    """A problem of these keys in a cluster's file."""
    faults = [Fault(*cluster.given[key], f"clusters.{cluster.name}.{key}", problem) for key in keys]
    return FileError(cluster.path or Path(), tuple(faults))


def _from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    """Values of the documents' own variables, for the keys that a file leaves out."""
    defaults: dict[str, Any] = {
        "account": environ.get("SBATCH_ACCOUNT") or environ.get("SLURM_ACCOUNT"),
        "partition": environ.get("SBATCH_PARTITION") or environ.get("SLURM_PARTITION"),
        # Jobs run in the recipe's directory, in which a relative path would be another one.
        "stage": (stage := environ.get("STAGE_PATH")) and str(Path(_at_home(stage, environ) or stage).absolute()),
    }
    # The documents advise "8 or null"; anything but a plain number is left to Slurm.
    per_node = environ.get("SBATCH_GPUS_PER_NODE") or environ.get("SLURM_GPUS_PER_NODE") or ""
    if re.fullmatch(r"[1-9]\d{0,3}", per_node):
        defaults["gpus_per_node"] = int(per_node)
    return {key: value for key, value in defaults.items() if value}


def _substitute_all(entry: Value, key: str, environ: Mapping[str, str], faults: list[Fault]) -> Any:
    """A value with ``${VAR}`` replaced, in texts, lists of texts and mappings of texts."""
    if isinstance(entry.value, str):
        return _substitute(entry.value, entry, key, environ, faults)
    if isinstance(entry.value, tuple):
        return tuple(_substitute_all(item, key, environ, faults) for item in entry.value)
    if isinstance(entry.value, dict):
        return {name: _substitute(text, entry, f"{key}.{name}", environ, faults) for name, text in entry.value.items()}
    return entry.value


def _at_home(text: str, environ: Mapping[str, str]) -> str | None:
    """A path in which ``~`` is the user's home, and ``~ann`` that of ann; ``None`` for an unknown home."""
    home = environ.get("HOME") if text.partition("/")[0] == "~" else None
    path = home + text[1:] if home else os.path.expanduser(text)  # noqa: PTH111 - Path raises for an unknown home
    return None if path.startswith("~") else path


def _substitute(text: str, place: Value, key: str, environ: Mapping[str, str], faults: list[Fault]) -> str:
    def replace(match: re.Match[str]) -> str:
        variable = match.group(1)
        if not environ.get(variable):  # an empty one too: "--account=" is no account
            state = "empty" if variable in environ else "not set"
            problem = f"the variable {variable} is {state}; export {variable}=… or write the value here"
            faults.append(Fault(place.line, place.column, key, problem))
            return ""
        return environ[variable]

    # No shell fills the other texts; in the environment, $NAME may be for the launch script.
    bare = "" if isinstance(place.value, dict) else r"|\$[A-Za-z_]\w*"
    rest = re.search(rf"\$\{{[^}}]*\}}?{bare}", _VARIABLE.sub("", text))
    if rest is not None:
        name = rest[0][1:] if rest[0][1:].isidentifier() else "NAME"
        faults.append(Fault(place.line, place.column, key, f"got '{rest[0]}', wanted ${{{name}}}"))
    return _VARIABLE.sub(replace, text)


# -- Clusters with all that their jobs need


def ready_cluster(cluster: Cluster, directory: Path, environ: Mapping[str, str], demo: Mapping[str, str]) -> Cluster:
    """A cluster with all that its jobs need.

    Args:
        cluster: As its file has it.
        directory: The run's own, in which the built-in clusters have their staging area.
        environ: The session's environment.
        demo: Variables of the simulated recipe.

    Raises:
        ConfigurationError: It has no staging area; or as :func:`find_accelerators` does.
    """
    if cluster.name == LOCAL.name and cluster.path is None:
        found = find_accelerators(environ)
        python = environ.get("RUN_CONF_PYTHON") or sys.executable  # the interpreter of recipes
        return replace(
            cluster,
            accelerator=found.name,
            gpus=found.number,
            gpus_per_node=found.number,
            stage=str(directory / "stage"),
            environment={"RUN_CONF_PYTHON": python},
        )
    if cluster.simulated:  # one recipe for every row
        recipes, environment = str(Path(__file__).parent / "demo"), {"GSW_PYTHON": sys.executable, **demo}
        return replace(cluster, stage=str(directory / "stage"), recipes=recipes, environment=environment)
    if cluster.stage is None:
        raise ConfigurationError(
            f"the cluster '{cluster.name}' has no staging area\n"
            f"next: export STAGE_PATH=DIR, or write 'stage: DIR' for it in {cluster.path}"
        )
    if cluster.submission.host is None:
        return cluster
    mirror = (directory / MIRROR).absolute()
    copies = None if cluster.recipes is None else f"{mirror}{cluster.recipes}"
    return replace(cluster, stage=f"{mirror}{cluster.stage}", recipes=copies, mirror=mirror)


def uses_gpus(cluster: Cluster) -> bool:
    """True if a cluster trains on GPUs, and not on the cores of its nodes, or on nothing at all."""
    return not cluster.simulated and (cluster.accelerator or "").upper() != CPU
