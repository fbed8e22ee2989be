"""The ini file, as pytest finds and reads it: tables, cluster, clusters, history and results of a site.

Pytest has no public function for it, and importing it takes longer than most subcommands.
"""

from __future__ import annotations

import argparse
import itertools
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_gsw.common.files import at_home, relative_path
from pytest_gsw.errors import ConfigurationError
from pytest_gsw.history.location import history_place
from pytest_gsw.results.run_id import RESULTS, RUNS

#: The files that pytest looks for in the working directory and in those above it, in its order.
_FILES = ("pytest.toml", ".pytest.toml", "pytest.ini", ".pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg")


@dataclass(frozen=True)
class Ini:
    """The values of the ini file of sessions that start here."""

    #: The directory of the file, to which its paths are relative; the working directory if there is none.
    directory: Path = Path()
    values: Mapping[str, Any] = field(default_factory=dict)

    @property
    def results(self) -> Path:
        """The directory of results."""
        return relative_path(self._path("results") or self.directory / RESULTS)

    @property
    def runs(self) -> Path:
        """The directory of runs."""
        return self.results / RUNS.name

    @property
    def baselines(self) -> tuple[Path, ...]:
        """The tables that it names."""
        given = self._value_of("baselines") or ()
        return tuple(relative_path(self.directory / at_home(path)) for path in _words(given))

    @property
    def cluster(self) -> str | None:
        """The cluster that rows run on."""
        given: str | None = self._value_of("cluster")
        return given

    @property
    def clusters(self) -> Path | None:
        """The file that defines clusters."""
        return self._path("clusters")

    def history(self, given: str | None) -> str | Path | None:
        """The history that an option names, else the one of sessions, see :func:`~.history_place`."""
        if given:
            return history_place(given, self.results)
        return history_place(self._value_of("history"), self.results, base=self.directory, option="gsw_history")

    def tables(self, given: Sequence[Path] | None) -> Sequence[Path] | None:
        """The tables that an option names, else those of sessions; ``None`` for the bundled ones."""
        return given or self.baselines or None

    def fill(self, asked: argparse.Namespace, *names: str) -> None:
        """Set options of a subcommand to the values of sessions, unless the command line has them."""
        for name in names:
            if not getattr(asked, name):
                setattr(asked, name, getattr(self, name))

    def _path(self, name: str) -> Path | None:
        given = self._value_of(name)
        return relative_path(self.directory / at_home(given)) if given else None

    def _value_of(self, name: str) -> Any:
        """A value: of ``addopts`` first, which is the command line's."""
        words = _words(self.values.get("addopts") or ())
        flag = f"--gsw-{name}"
        found = [word.partition("=")[2] for word in words if word.startswith(f"{flag}=")]
        found += [after for word, after in itertools.pairwise(words) if word == flag]
        if found:
            return found if name == "baselines" else found[-1]
        return self.values.get(f"gsw_{name}")


def read_ini() -> Ini:
    """The ini file of the working directory.

    Raises:
        ConfigurationError: It cannot be read.
    """
    here = Path.cwd()
    for directory in (here, *here.parents):
        for name in _FILES:
            values = _values(directory / name)
            if values is not None:
                return Ini(directory, values)
    return Ini(here)


def _values(path: Path) -> Mapping[str, Any] | None:
    """Pytest's section of a file, ``None`` if the file has none."""
    if not path.is_file():
        return None
    try:
        if path.suffix == ".toml":
            return _of_toml(path)
        from iniconfig import IniConfig, ParseError

        try:
            sections = IniConfig(str(path)).sections
        except ParseError as error:
            raise ConfigurationError(f"{relative_path(path)}: {error}") from None
        section = sections.get("tool:pytest" if path.name == "setup.cfg" else "pytest")
        return {} if section is None and path.name.endswith("pytest.ini") else section
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{relative_path(path)} cannot be read: {error}") from None


def _of_toml(path: Path) -> Mapping[str, Any] | None:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib  # which pytest brings there
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    if path.name != "pyproject.toml":
        found: Mapping[str, Any] = content.get("pytest", {})
        return found
    tool = content.get("tool", {}).get("pytest")
    return None if tool is None else tool.get("ini_options", tool)


def _words(given: str | Sequence[str]) -> Sequence[str]:
    return shlex.split(given) if isinstance(given, str) else given
