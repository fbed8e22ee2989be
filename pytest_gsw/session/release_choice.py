"""The release of the bundled rows to run, of the recipes or of the NeMo container, and the source of the request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gsw.clusters import Cluster
from pytest_gsw.common.files import relative_path
from pytest_gsw.common.text import command, plural
from pytest_gsw.errors import ConfigurationError, refuse_empty
from pytest_gsw.hardware import BY_NAME, is_same
from pytest_gsw.tables.bundled import bundled_releases
from pytest_gsw.tables.release_rows import benchmarks_for, directories_for, releases_for, states_none
from pytest_gsw.tables.releases import NEMO, NO_FIGURES_SINCE, is_container
from pytest_gsw.tables.value_types import nearest

if TYPE_CHECKING:
    from pytest_gsw.jobs.journal import RunState


@dataclass(frozen=True)
class RequestedRelease:
    """A requested release, and the source of the request."""

    release: str
    by: str


def requested_release(
    config: pytest.Config,
    values: Mapping[str, Any],
    cluster: Cluster | None,
    past: RunState | None,
    replay: Path | None,
) -> RequestedRelease | None:
    """The release of the bundled rows: the option's, else the cluster's if no other tables are named.

    A session that resumes another has that one's. If no tables are named, it is the release of the run that is
    replayed, or the newest with rows for the cluster's accelerator if the documents' own tables have none.

    Raises:
        ConfigurationError: The option is empty, contradicts others, or is ambiguous.
    """
    requested = _by_option(config, values["release"])
    if requested is None and past is None and cluster is not None and cluster.release and not values["baselines"]:
        line, _ = cluster.given["release"]
        requested = RequestedRelease(cluster.release, f"{cluster.path}:{line}, release of {cluster.name}")
    if requested is not None:
        requested = resolved_release(requested, cluster)
    if past is not None:
        if requested is not None and requested.release != past.release:
            raise ConfigurationError(f"--gsw-resume: the rows of that run are of release {past.release or '(none)'}")
        requested = (
            RequestedRelease(past.release, f"the run that is resumed, {values['resume']}") if past.release else None
        )
    if requested is not None and values["baselines"]:
        raise ConfigurationError(
            "--gsw-release and --gsw-baselines exclude each other: a release chooses among the bundled tables\n"
            "next: leave one of them out"
        )
    if requested is None and past is None and not (values["baselines"] or values["suite"] or config.option.file_or_dir):
        from pytest_gsw.results.manifest import read_noted

        releases = releases_for(cluster.accelerator) if cluster and cluster.accelerator else ()
        release = (replay and read_noted(replay).release) or next(reversed(releases), "")
        return RequestedRelease(release, f"--gsw-replay={replay}") if release else None
    return requested


def bundled_rows(cluster: Cluster, release: str | None) -> tuple[str, str]:
    """The bundled rows for a cluster's accelerator, in one line, and the next command if the session has none."""
    name, session = str(cluster.accelerator), command("pytest", *cluster.options)
    with_rows = releases_for(name)
    networks = () if with_rows else benchmarks_for(name)
    if networks:
        return (
            f"{name}: only benchmarks of networks have rows for it: {', '.join(networks)}",
            f"{session} -k {networks[0]}",
        )
    directories = [] if with_rows else [str(relative_path(path)) for path in directories_for(name)]
    if directories:
        fact = f"{name}: only tables of no release have rows for it: {', '.join(directories)}"
        return fact, f"{session} {command(f'--gsw-baselines={directories[0]}')}"
    if not with_rows:
        named = max((known for known in BY_NAME if known.lower() in name.lower()), key=len, default=name)
        near = "" if any(is_same(known, name) for known in BY_NAME) else nearest(named, BY_NAME)
        line, column = cluster.given.get("accelerator", (0, 0))
        correct = f"correct 'accelerator' at {cluster.path}:{line}:{column}, or " if near and line else ""
        table = f"{correct}write a table of one row and a guess, site/NAME.yaml, and measure it (docs/recipes.md)"
        measure = f"{session} --gsw-baselines=site --gsw-repeat=5"
        limits = "with slow_start: 0 and timeout: 60 in clusters.yaml"
        return f"{name}: no bundled table has rows for it{near}", f"{table}, {limits}: {measure}"
    releases = [*filter(None, with_rows)]
    if not releases:
        return f"{name}: no release has rows for it, the documents' own tables have", session
    newest, several = releases[-1], plural(len(releases), "release")
    option = f" --gsw-release={newest}" if release or with_rows[-1] else ""
    return f"{name}: {several}, newest {newest}, --gsw-release=RELEASE", session + option


def resolved_release(requested: RequestedRelease, cluster: Cluster | None) -> RequestedRelease:
    """The same request, for the container with this release if its launcher is staged.

    Raises:
        ConfigurationError: It may be the recipes' or the container's, and only the latter's figures are bundled.
    """
    container, bundled = f"{NEMO}{requested.release}", bundled_releases()
    if container not in bundled:
        return requested
    # The cluster's recipes are a checkout of Megatron-Bridge, whose figures belong to containers.
    recipes = cluster and (cluster.recipes or cluster.stage)
    setup = Path(recipes or "/") / "scripts/performance/setup_experiment.py"
    if cluster is not None and cluster.mirror is not None:
        from pytest_gsw.jobs.ssh.login import login_to  # few clusters have a login node

        login_to(cluster).survey((), [setup])
    if recipes and setup.is_file():
        return RequestedRelease(container, requested.by)
    if requested.release in bundled:
        return requested
    raise ConfigurationError(
        f"release {requested.release} may be the recipes' or the NeMo container's, and only the container's figures "
        f"are bundled\nasked by: {requested.by}\n"
        f"next: ask for the container's with --gsw-release={container}, or name a table of your own for the recipes' "
        "with --gsw-baselines=PATH"
    )


def tables_of(requested: RequestedRelease) -> tuple[Path, ...]:
    """The bundled tables of a release.

    Raises:
        ConfigurationError: There are none.
    """
    release, bundled = requested.release, bundled_releases()
    if release in bundled:
        return bundled[release]
    fact = f"no bundled table has figures of release {release}{nearest(release, bundled)}\n"
    if states_none(release):
        fact = f"release {release} has no figures: the recipes state none from {NO_FIGURES_SINCE} on\n"
        fact += f"stated by Megatron-Bridge, for its containers: {', '.join(filter(is_container, bundled))}\n"
    raise ConfigurationError(
        f"{fact}asked by: {requested.by}\n"
        f"known: {', '.join(bundled)}\n"
        "next: name one of them, or tables of your own with --gsw-baselines=PATH"
    )


def tables_for(cluster: Cluster | None, staged: RequestedRelease | None = None) -> tuple[Path, ...]:
    """The bundled tables of a cluster, as a session there has them: of its release, or of its accelerator.

    There are none without one of the two. ``staged`` is the release of a cluster whose other keys may be wrong.
    """
    if staged is None and cluster is not None and cluster.release:
        staged = RequestedRelease(cluster.release, cluster.name)
    if staged is None and cluster is not None and cluster.accelerator is not None:
        releases = releases_for(cluster.accelerator)
        if not releases:
            return directories_for(cluster.accelerator)
        staged = RequestedRelease(releases[-1], cluster.name) if releases[-1] else None
    return () if staged is None else tables_of(resolved_release(staged, cluster))


def _by_option(config: pytest.Config, given: str | None) -> RequestedRelease | None:
    if given is None:
        return None
    by = "--gsw-release"
    if config.getoption("gsw_release") is None:
        by = f"gsw_release in {config.inipath.name}" if config.inipath else "gsw_release"
    release = given.strip().removeprefix("v")
    refuse_empty(by, release)  # a "v" before a variable that is not set
    return RequestedRelease(release, by)
