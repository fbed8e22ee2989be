"""``--gsw-*`` and their ini twins as one frozen :class:`Settings`.

Every conflict is a usage error before anything is collected, let alone submitted.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gsw.clusters import (
    DEMO,
    Cluster,
    SiteSettings,
    cluster_files,
    default_settings,
    find_cluster,
    ready_cluster,
)
from pytest_gsw.common.files import relative_path
from pytest_gsw.common.text import command, positive
from pytest_gsw.errors import ConfigurationError, refuse_empty
from pytest_gsw.executor.limits import Limits, Policies
from pytest_gsw.history.location import history_place, open_history
from pytest_gsw.results.runs_directory import LAST, RESULTS, RUNS, new_run_id
from pytest_gsw.session import resumed_options
from pytest_gsw.session.options import OPTIONS, UNLIMITED, Option, ini_value, is_typed
from pytest_gsw.session.release_choice import RequestedRelease, requested_release, tables_of
from pytest_gsw.stats.repeats import Repeats
from pytest_gsw.tables.bundled import bundled_baselines
from pytest_gsw.tables.value_types import nearest, read_tolerance

if TYPE_CHECKING:
    from pytest_gsw.acceptance.plan import Plan
    from pytest_gsw.jobs.journal import RunState
    from pytest_gsw.jobs.spec import Profile


@dataclass(frozen=True)
class Judging:
    """Options of verdicts."""

    #: Accepted loss of throughput that overrides that of rows: the option's, else the cluster's.
    tolerance: float | None
    #: Largest plausible gain of throughput, likewise.
    max_gain: float | None
    #: Number of jobs of a row.
    repeats: Repeats
    strict: bool


@dataclass(frozen=True)
class JobOptions:
    """Options of jobs."""

    time_limit_s: float | None
    poll_interval_s: float | None
    limits: Limits
    #: Most reruns of a row after infrastructure failures.
    retries: int
    #: Conditions of early stops.
    policies: Policies
    detach: bool


@dataclass(frozen=True)
class Output:
    """Places of results."""

    #: Directory of all runs' records.
    results: Path
    #: The history of all runs, a path or a URL, perhaps with a password; ``None`` without one.
    history: str | Path | None = field(repr=False)
    #: Directory of the session's report; ``None`` for no report.
    report: Path | None


@dataclass(frozen=True)
class Replay:
    """Logs that exist already."""

    #: A log, a directory of logs, or that of a run.
    place: Path
    #: True if the newest completed one of several jobs of a row is requested.
    takes_newest: bool

    @property
    def option(self) -> str:
        """The place as ``--gsw-replay`` takes it."""
        from pytest_gsw.jobs.replay import LAST as LAST_JOBS  # few sessions replay anything

        return f"{relative_path(self.place)}{LAST_JOBS if self.takes_newest else ''}"


@dataclass(frozen=True)
class Settings:
    """The options of this session, checked and resolved."""

    run_id: str
    #: The cluster of the rows; ``None`` if nothing may be submitted.
    cluster: Cluster | None
    #: Directories (or files) of baseline tables.
    baselines: tuple[Path, ...]
    #: The release of the bundled rows; ``None`` for the documents' own.
    release: str | None
    #: True if the tables or their release were chosen.
    are_tables_named: bool
    #: The file of the suite that selects the rows; ``None`` without one.
    suite: Path | None
    #: The plan of acceptance, whose stages select the rows; ``None`` without one.
    acceptance: Plan | None
    #: Values of the command line for a session that resumes this one, by option.
    shared: Mapping[str, tuple[str, ...]]
    #: Values of the resumed run that differ from ini file and cluster now, a line each.
    changed_since: tuple[str, ...]
    judging: Judging
    jobs: JobOptions
    output: Output
    #: The logs that are judged in place of new jobs.
    replay: Replay | None
    plan: bool
    #: The tiles on which each row runs, ``node``, ``switch``, ``block`` or a number of nodes, and the nodes on which
    #: they lie, all if empty; ``None`` for jobs on any nodes.
    tile: tuple[str, str] | None
    #: GPU-hours for the search after the tiles; 0 for as many as these take, ``None`` for no search.
    find_gpu_hours: float | None
    #: The state of the run that is resumed.
    past: RunState | None
    profile: Profile | None
    #: Faults of simulated rows, such as ``*x128]=slow:12%``, in their order.
    faults: tuple[str, ...]

    @cached_property
    def run_directory(self) -> Path:
        """The directory of this session's files."""
        return self.output.results / RUNS.name / self.run_id

    @property
    def row_options(self) -> tuple[str, ...]:
        """Options, besides the cluster's, without which a row would be missing or different."""
        by_cluster = self.cluster.release if self.cluster else None
        release = [f"--gsw-release={self.release}"] if self.release not in {None, by_cluster} else []
        return (*release, *([f"--gsw-suite={relative_path(self.suite)}"] if self.suite else []))

    @property
    def tile_options(self) -> tuple[str, ...]:
        """Options of the session's tiles."""
        tile = () if self.tile is None else (f"--gsw-tile={':'.join(filter(None, self.tile))}",)
        hours = self.find_gpu_hours
        return tile if hours is None else (*tile, f"--gsw-find={hours:g}" if hours else "--gsw-find")

    @property
    def judges(self) -> bool:
        """True if the session runs or replays rows."""
        return self.cluster is not None or self.replay is not None


def read_settings(config: pytest.Config) -> Settings:
    """The session's settings.

    Raises:
        ConfigurationError: Options, ini file or cluster file are invalid or contradict each other.
    """
    values = {option.name: _value(config, option) for option in OPTIONS}
    _check_conflicts(config, values)
    results: Path = values["results"] or config.rootpath / RESULTS
    replay = None
    if values["replay"] is not None:
        replay = Replay(*resumed_options.replayed_place(values["replay"], _base(config, "gsw_replay"), results))
    run_id = new_run_id()
    past = None
    if values["resume"]:
        from pytest_gsw.jobs.journal import read_journal

        _fetch_run(config, values, results)
        resumed = resumed_options.resumed_run(values["resume"], results)
        past, run_id = read_journal(resumed), resumed.name
        if values["cluster"] not in {None, past.cluster}:
            raise ConfigurationError(f"--gsw-resume: the run {run_id} is of the cluster '{past.cluster}'")
        values["cluster"] = past.cluster
    paths = resumed_options.shared_paths(config, values, past)
    values |= {name: given if name == "baselines" else given[0] for name, given in paths.items()}
    of_run = resumed_options.kept_of_run(config, values, past)
    plan = _acceptance(values | of_run, past)
    history, kept = resumed_options.shared_history(config, _history(config, values["history"], results), past)
    _check_clusters(config, values["clusters"], values["cluster"])
    run_directory = results / RUNS.name / run_id
    cluster = _cluster(config, values | of_run, run_directory, paths) if values["cluster"] else None
    own_site = site = SiteSettings()
    if cluster is not None or replay is not None:
        own_site = _site_settings(config, cluster, values["clusters"])
        site = resumed_options.site_of_run(own_site, past)
    values["tolerance"] = values["tolerance"] or own_site.text("tolerance")
    if plan is not None and plan.criteria.within is not None and not is_typed(config, "tolerance"):
        values["tolerance"] = f"{100 * plan.criteria.within:.12g}%"
    own, values = values, values | of_run
    _check_names(config, values["baselines"], cluster, results)
    requested = requested_release(config, values, cluster, past, replay.place if replay else None)
    if values["suite"] is not None and cluster is None and replay is None:
        raise ConfigurationError("--gsw-suite needs a cluster or logs; add --gsw-cluster=NAME or --gsw-replay=PATH")
    faults: tuple[str, ...] = ()
    if values["demo"]:
        from pytest_gsw.demo.simulation import down_nodes, parse_faults  # few sessions have faults

        parsed = parse_faults(";".join(values["demo"]))
        faults = tuple(fault.text for fault in parsed)
        cluster = cluster and replace(cluster, down=down_nodes(parsed, cluster.nodes))
    return Settings(
        run_id=run_id,
        cluster=cluster,
        baselines=_baselines(values["baselines"], requested),
        release=None if requested is None else requested.release,
        are_tables_named=bool(requested or values["baselines"]),
        suite=values["suite"],
        acceptance=plan,
        shared={name: tuple(map(str, given)) for name, given in paths.items()}
        | kept
        | {name: resumed_options.recorded_texts(values[name]) for name in resumed_options.KEPT}
        | {name: resumed_options.recorded_texts(site.text(name)) for name in resumed_options.SITE}
        | {"acceptance": _plan_texts(plan)},
        changed_since=resumed_options.changed_since(own, of_run, own_site, site),
        judging=_judging(values, site),
        jobs=_job_options(values, site),
        output=Output(results, history, _report(values["report"])),
        replay=replay,
        plan=values["plan"],
        tile=_tile(values["tile"]),
        find_gpu_hours=_find_gpu_hours(values["find"]),
        past=past,
        profile=_profile(values["profile"]),
        faults=faults,
    )


def _fetch_run(config: pytest.Config, values: Mapping[str, Any], results: Path) -> None:
    """Fetch another machine's run from the cluster's login node, if the command line names one that has it."""
    directory = results / RUNS.name / values["resume"]
    if values["cluster"] is None or values["resume"] == LAST or directory.parent != results / RUNS.name:
        return
    cluster = find_cluster(values["cluster"], _cluster_files(config, values["clusters"]), os.environ)
    if cluster.submission.host is not None:
        from pytest_gsw.jobs.ssh.login import login_to  # few clusters have a login node

        login_to(ready_cluster(cluster, directory, os.environ, {})).fetch_run()


def _acceptance(values: Mapping[str, Any], past: RunState | None) -> Plan | None:
    """The plan of acceptance, to the letter that of the resumed run; ``None`` without one."""
    if values["acceptance"] is None:
        return None
    for name in ("tile", "find", "suite", "replay"):
        if values[name] is not None:
            raise ConfigurationError(
                f"--gsw-{name} and --gsw-acceptance exclude each other: a plan has its own rows and tiles\n"
                "next: leave one of them out; a stage has the keys 'rows', 'tile' and 'find'"
            )
    if not values["cluster"]:
        raise ConfigurationError("--gsw-acceptance needs a cluster; add --gsw-cluster=NAME")
    from pytest_gsw.acceptance.plan import read_plan  # few sessions have a plan
    from pytest_gsw.session.pytest_private import check_expression

    plan = read_plan(Path(values["acceptance"]), check_expression)
    of_run = _plan_texts(plan) if past is None else past.paths.get("acceptance", ())
    if not of_run:
        raise ConfigurationError("--gsw-resume: that run has no plan\nnext: leave --gsw-acceptance out")
    if of_run[1] != plan.sha256:
        problem = f"{plan.path} has changed since that run began: its SHA-256 was {of_run[1]}, and is {plan.sha256}"
        raise ConfigurationError(f"--gsw-resume: {problem}\nnext: bring it back as it was, or begin a new run")
    return plan


def _plan_texts(plan: Plan | None) -> tuple[str, ...]:
    """A plan in the journal's form: its path, and the fingerprint of its text."""
    return () if plan is None else (str(plan.path), plan.sha256)


def _site_settings(config: pytest.Config, cluster: Cluster | None, given: Path | None) -> SiteSettings:
    return default_settings(_cluster_files(config, given)) if cluster is None else cluster.settings


#: Further jobs of a row of a plan that is too slow, by default.
_PLAN_CONFIRMS = "2"


def _judging(values: Mapping[str, Any], site: SiteSettings) -> Judging:
    given = values["confirm"] or (_PLAN_CONFIRMS if values["acceptance"] else None)
    # The search confirms what is slow.
    confirm = _retries("confirm", given if values["find"] is None else None)
    return Judging(
        _tolerance(values["tolerance"]),
        site.max_gain,
        Repeats(_repeat(values["repeat"]), confirm),
        bool(site.strict),
    )


def _job_options(values: Mapping[str, Any], site: SiteSettings) -> JobOptions:
    return JobOptions(
        time_limit_s=_or_never(site.timeout, 60),
        poll_interval_s=site.poll_interval,
        limits=Limits(
            jobs=site.max_jobs or math.inf,
            gpus=site.max_gpus or math.inf,
            pending=site.max_pending or math.inf,
            queue_s=_or_never(site.max_queue, 3600) or 24 * 3600.0,
        ),
        retries=_retries("retries", values["retries"]),
        policies=Policies(
            stall_s=_or_never(site.stall, 60), slow_start=_or_never(site.slow_start) or Policies.slow_start
        ),
        detach=values["detach"],
    )


def _or_never(number: float | None, factor: float = 1.0) -> float | None:
    """A limit in another unit; 0 turns it off, as infinity."""
    return number and number * factor if number != 0 else math.inf


def verdict_rules(config: pytest.Config, cluster: Cluster | None) -> tuple[float | None, float | None, bool]:
    """Tolerance, greatest gain and strictness of a session on a cluster; ``None`` if each row has its own.

    Raises:
        ConfigurationError: The ini file has an invalid value, or a file of clusters is wrong.
    """
    values = {option.name: _value(config, option) for option in OPTIONS if option.name in {"tolerance", "clusters"}}
    site = _site_settings(config, cluster, values["clusters"])
    return _tolerance(values["tolerance"]) or site.tolerance, site.max_gain, bool(site.strict)


def _check_names(config: pytest.Config, baselines: Iterable[Path], cluster: Cluster | None, results: Path) -> None:
    """Refuse arguments that are rows' names, and tables whose node ids are not UTF-8.

    Neither pytest's cache nor JUnit's file can hold the latter.
    """
    for given in config.option.file_or_dir:
        if "/" not in given and "::" not in given and not Path(config.invocation_params.dir, given).exists():
            rows = [f"--gsw-replay={given}"] if (results / RUNS.name / given).is_dir() else ["-k", given]
            session = command("pytest", *(cluster.options if cluster else ("--gsw-cluster=NAME",)), *rows)
            raise ConfigurationError(f"there is no file {given}: -k selects rows by their names\nnext: {session}")
    for given in (*config.args, *map(str, baselines)):
        name = os.path.relpath(given.partition("::")[0], config.rootpath)
        shown = name.encode(errors="backslashreplace").decode()
        if shown != name:
            raise ConfigurationError(f"the name {shown} is not UTF-8, and no row can be named by it\nnext: rename it")


def _base(config: pytest.Config, ini: str) -> Path:
    """Base of an option's relative paths: the working directory, or the ini file's for values in it."""
    if config.getoption(ini, None) is not None:
        return config.invocation_params.dir
    return config.inipath.parent if config.inipath else config.rootpath


def _value(config: pytest.Config, option: Option) -> Any:
    """The command line's value, else the ini file's; paths are relative to the place of the value."""
    given = config.getoption(option.ini, None)
    base = _base(config, option.ini)
    name = option.flag
    if given is None:
        given, name = ini_value(config, option), option.ini
    refuse_empty(name, given)
    if option.kind == "flag":
        return bool(given)
    if option.kind == "path":
        return None if given is None else base / resumed_options.path_given(given, option.name)
    if option.kind == "paths":
        return tuple(base / resumed_options.path_given(entry, option.name) for entry in given or ())
    return tuple(given or ()) if option.kind == "texts" else given


def _check_conflicts(config: pytest.Config, values: Mapping[str, Any]) -> None:
    if values["plan"] and not values["cluster"]:
        raise ConfigurationError("--gsw-plan needs a cluster; add --gsw-cluster=NAME")
    if values["replay"]:
        given = [name for name in ("plan", "profile", "demo", "resume") if values[name]]
        # A value of these in the ini file is for sessions that run rows.
        given += [name for name in ("confirm", "repeat", "tile", "find") if config.getoption(f"gsw_{name}") is not None]
        if given:
            raise ConfigurationError(f"--gsw-{given[0]} and --gsw-replay exclude each other: a replay runs nothing")
    if values["tile"] is None is values["acceptance"] and values["find"] is not None and not values["resume"]:
        raise ConfigurationError("--gsw-find looks among tiles\nnext: add --gsw-tile=node, switch, block or a number")
    if values["plan"] and values["resume"]:
        raise ConfigurationError("--gsw-plan and --gsw-resume exclude each other: what is resumed was submitted")
    if values["demo"] and values["cluster"] != DEMO.name and not values["resume"]:
        raise ConfigurationError("--gsw-demo breaks simulated rows only; add --gsw-cluster=demo")


def _cluster_files(config: pytest.Config, given: Path | None) -> tuple[Path, ...]:
    return cluster_files(given, (config.invocation_params.dir, config.rootpath), os.environ)


def _check_clusters(config: pytest.Config, given: Path | None, cluster: str | None) -> None:
    """Check that the file of clusters exists if the command line names it, or the ini file for a cluster in it.

    Raises:
        ConfigurationError: It is missing; ``--gsw-cluster`` differs by one letter, so the message suggests it.
    """
    if given is None or given.is_file() or (cluster is None and config.getoption("gsw_clusters") is None):
        return
    advice = "" if given.suffix else f"\nnext: for a cluster of that name, --gsw-cluster={given.name}"
    with contextlib.suppress(ConfigurationError):
        name = find_cluster(given.name, _cluster_files(config, None), os.environ).name
        advice = f", but a cluster {name}\nnext: --gsw-cluster={name}"
    raise ConfigurationError(f"--gsw-clusters: there is no file {given}{advice}")


def _cluster(
    config: pytest.Config, values: Mapping[str, Any], run_directory: Path, paths: Mapping[str, Sequence[Path]]
) -> Cluster:
    cluster = find_cluster(values["cluster"], _cluster_files(config, values["clusters"]), os.environ)
    if "clusters" in paths and cluster.path == values["clusters"]:
        cluster = replace(cluster, file_is_given=True)
    if values["replay"] and not cluster.simulated:
        return cluster  # the logs may come from another machine, and nothing is staged
    faults = ";".join(values["demo"])
    return ready_cluster(cluster, run_directory, os.environ, {"GSW_DEMO": faults} if faults else {})


def _baselines(given: tuple[Path, ...], requested: RequestedRelease | None) -> tuple[Path, ...]:
    for path in given:
        if not (path.is_file() or path.is_dir()):
            advice = "next: name the tables that are here with --gsw-baselines"
            raise ConfigurationError(f"--gsw-baselines: there is no file or directory {path}\n{advice}")
    if requested is not None:
        return tables_of(requested)
    return tuple(Path(os.path.normpath(path)) for path in given) or (bundled_baselines(),)


def _tolerance(given: str | None) -> float | None:
    try:
        return None if given is None else read_tolerance(given)
    except ValueError as error:
        raise ConfigurationError(f"--gsw-tolerance: {error}") from None


def _repeat(given: str | None) -> int:
    if given is not None and (re.fullmatch(r"[0-9]{1,9}", given) is None or int(given) == 0):
        raise ConfigurationError(f"--gsw-repeat: got '{given}', wanted a whole number above 0")
    return int(given or 1)


def _tile(given: str | None) -> tuple[str, str] | None:
    if given is None:
        return None
    from pytest_gsw.jobs.slurm.nodes import check_tile  # few sessions have tiles

    return check_tile(given)


def _find_gpu_hours(given: str | None) -> float | None:
    if given is None or given == UNLIMITED:
        return None if given is None else 0.0
    hours = positive(given)
    if hours is None:
        raise ConfigurationError(f"--gsw-find: got '{given}', wanted GPU-hours such as --gsw-find=300, or {UNLIMITED}")
    return hours


def _retries(name: str, given: str | None) -> int:
    if given is not None and re.fullmatch(r"[0-9]{1,3}", given) is None:
        raise ConfigurationError(f"--gsw-{name}: got '{given}', wanted a whole number such as 1")
    return int(given or 0)


def _history(config: pytest.Config, given: str | None, results: Path) -> str | Path | None:
    """The place of the history; ``None`` for the word ``none``.

    Raises:
        ConfigurationError: The place is invalid, or its driver is not installed.
    """
    base = _base(config, "gsw_history") if given else config.invocation_params.dir
    place = history_place(given, results, os.environ, base, "--gsw-history")
    if isinstance(place, str):
        with open_history(place):  # opens no connection yet
            return place
    return place


def _report(given: Path | None) -> Path | None:
    if given is not None and (given.is_file() or given.suffix in {".html", ".htm"}):
        raise ConfigurationError(
            f"--gsw-report: got the file {given}, wanted a directory, in which index.html is written\n"
            f"next: --gsw-report={given.stem if given.suffix else 'report'}"
        )
    there = next((path for path in (given, *given.parents) if path.exists()), None) if given else None
    if there is not None and not (there.is_dir() and os.access(there, os.W_OK)):
        raise ConfigurationError(
            f"--gsw-report: {there} is no directory that can be written to\nnext: name another one"
        )
    return given


def _profile(given: Any) -> Profile | None:
    """The profile of ``nsight:steps=45-50,ranks=0-7,gpu-metrics,cpu-metrics``, or ``nccl-trace``."""
    if given is None:
        return None
    from pytest_gsw.jobs.spec import Profile

    kinds = ("nsight", "nccl-trace")
    kind, _, details = given.partition(":")
    if kind not in kinds:
        raise ConfigurationError(f"--gsw-profile: got '{kind}', wanted nsight or nccl-trace{nearest(kind, kinds)}")
    if details and kind != "nsight":
        raise ConfigurationError(f"--gsw-profile: '{details}' is for nsight, and {kind} takes nothing")
    ranges: dict[str, range] = {}
    metrics = {"gpu-metrics": False, "cpu-metrics": False}
    for detail in filter(None, details.split(",")):
        match = re.fullmatch(r"(steps|ranks)=(\d{1,9})(?:-(\d{1,9}))?", detail)
        if match is not None and int(match[2]) <= int(match[3] or match[2]):
            ranges[match[1]] = range(int(match[2]), int(match[3] or match[2]) + 1)
        elif detail in metrics:
            metrics[detail] = True
        else:
            known = "steps=45-50, ranks=0-7, gpu-metrics or cpu-metrics"
            raise ConfigurationError(f"--gsw-profile: got '{detail}', wanted {known}")
    steps = ranges.get("steps")
    return Profile(
        kind=kind,
        steps=None if steps is None else (steps[0], steps[-1]),
        ranks=tuple(ranges.get("ranks", ())),
        gpu_metrics=metrics["gpu-metrics"],
        cpu_metrics=metrics["cpu-metrics"],
    )
