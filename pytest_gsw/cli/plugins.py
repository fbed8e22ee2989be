"""What does not come with pytest-gsw, as a site's plugins have it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from pytest_gsw.clusters.model import Cluster, cluster_files, find_cluster, release_of
from pytest_gsw.errors import ConfigurationError
from pytest_gsw.logs.formats.registry import FORMATS
from pytest_gsw.logs.model import LogFormat
from pytest_gsw.tables.load import load_tables
from pytest_gsw.tables.model import Baseline
from pytest_gsw.tables.value_types import nearest


def tables_on(cluster: str | None, given: Path | None = None) -> tuple[Path, ...]:
    """The tables of the release that is staged on a cluster of this name, as a session there takes them; else none.

    ``given`` is a file of clusters that comes before the usual ones.
    """
    if cluster is None:
        return ()
    files = cluster_files(given, (Path.cwd(),), os.environ)
    staged = release_of(cluster, files, os.environ)
    if staged is None:
        return ()
    from pytest_gsw.session.release import Asked, meant, tables_of  # it imports pytest, and few clusters say a release

    try:
        found = find_cluster(cluster, files, os.environ)
    except ConfigurationError:  # by another key, which nothing here rests on
        found = None
    return tables_of(meant(Asked(*staged), found))


def cluster_of(name: str | None, given: Path | None, others: Iterable[str] = ()) -> Cluster | None:
    """The cluster of this name, from the file in which a session that is started here would find it."""
    if given is not None and not given.is_file():
        raise ConfigurationError(f"--clusters: there is no file {given}")
    if name is None:
        return None
    return find_cluster(name, cluster_files(given, (Path.cwd(),), os.environ), os.environ, "--clusters", others)


def format_of(row: Baseline, plugins: Sequence[str]) -> LogFormat | None:
    """How logs of a row are read: as pytest-gsw does, else as a site's plugins do; ``None`` where neither does."""
    known = FORMATS.get(row.log_format)
    if known is not None:
        return known
    # pytest and a site's plugins take a while to import, and are seldom needed.
    from pytest_gsw.session import plugin_loader

    return plugin_loader.log_format(row, plugins)


def format_called(name: str, plugins: Sequence[str]) -> LogFormat:
    """The log format of this name; a ConfigurationError where there is none."""
    if name in FORMATS:
        return FORMATS[name]
    # Plugins are asked about rows; of this one they are to look at the format alone.
    row = load_tables()[0]
    found = format_of(replace(row, framework=name, log_format=name), plugins)
    if found is None:
        raise ConfigurationError(
            f"unknown log format '{name}'{nearest(name, FORMATS)}\n"
            f"known: {', '.join(sorted(FORMATS))}, and what the plugins of {Path.cwd()} add\n"
            "next: name the plugin that brings it with -p MODULE"
        )
    return found
