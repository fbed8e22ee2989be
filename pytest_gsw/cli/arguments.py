"""The arguments of each subcommand of ``pytest-gsw``. Help is shown from here, without a subcommand's imports."""

from __future__ import annotations

import argparse
import itertools
import re
import shlex
import sys
from argparse import SUPPRESS, ArgumentTypeError
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from pytest_gsw.common.files import at_home, relative_path
from pytest_gsw.errors import ConfigurationError, refuse_empty
from pytest_gsw.history.location import history_place
from pytest_gsw.results.runs_directory import LAST, RESULTS, RUNS
from pytest_gsw.tables.value_types import read_gain, read_percentage

#: How a run is named.
_RUN_HELP = f"a run's directory, its id, or '{LAST}': the newest in {RUNS} that is no replay"
_FORM = ("html", "junit", "markdown", "openmetrics")


_Value = TypeVar("_Value")


def _read(read: Callable[[str], _Value], text: str) -> _Value:
    """A value of a text, as other parts of the package read it."""
    try:
        return read(text)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from None


#: A path, with ``~`` filled in.
path = partial(_read, at_home)


def day_begin_s(text: str, days_on: int = 0) -> float:
    """Start of a day of this machine's calendar, or of one some days later, in seconds since the epoch."""
    try:
        day = datetime.strptime(text, "%Y-%m-%d").astimezone().date() + timedelta(days=days_on)
        return datetime.combine(day, datetime.min.time()).astimezone().timestamp()
    except (ValueError, OverflowError, OSError):
        raise ArgumentTypeError(f"got '{text}', wanted a day such as 2026-11-30") from None


def whole_number(text: str) -> int:
    """A number of things."""
    if re.fullmatch(r"[0-9]{1,6}", text) is None or int(text) == 0:
        raise ArgumentTypeError(f"got '{text}', wanted a whole number above 0")
    return int(text)


def _rows(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("paths", nargs="*", type=path, metavar="PATH", help="tables (default: the bundled ones)")
    parser.add_argument("--cluster", metavar="NAME", help="rows of its release, and what it has accepted")
    _add_clusters(parser)
    parser.add_argument("--run", metavar="RUN", help=f"the state of each row of a run: its id, or '{LAST}'")
    parser.add_argument("--json", action="store_true", help="print JSON: a list of objects")


def _metrics(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("log", type=path, metavar="LOG", help="a log, or a directory of logs or run, each with its row")
    parser.add_argument("--format", metavar="NAME", help="log format (default: found by content)")
    parser.add_argument("--row", metavar="ID", help="the documented row that the log is a run of")
    parser.add_argument("--cluster", metavar="NAME", help="judge the row as a session on this cluster does")
    _add_clusters(parser)
    _add_baselines(parser, "tables that hold the row")
    parser.add_argument("--statistic", metavar="S", help="such as last, mean[35:44], median[-10:]")
    parser.add_argument("--json", action="store_true", help="print JSON: one object, of a directory a list")
    _add_plugins(parser)


def _importing(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "documents", nargs="+", type=path, metavar="PATH", help="documents with tables, or directories of READMEs"
    )
    parser.add_argument("-o", "--output", type=path, metavar="DIR", help="directory of the tables, such as site")
    parser.add_argument(
        "--facts", type=path, metavar="FILE", help="labels, and what no cell says (default: DIR/facts.yaml, if there)"
    )
    parser.add_argument(
        "--labels",
        metavar="FAMILY",
        default="recipes",
        help="labels of documents that facts do not name (default: recipes)",
    )
    parser.add_argument("--cards", action="store_true", help="read Megatron-Bridge's verification cards, card.yaml")
    parser.add_argument("--release", metavar="TAG", default="", help="release that the documents are of, such as a tag")
    parser.add_argument("--overwrite", action="store_true", help="replace tables that are there and differ")
    parser.add_argument("--strict", action="store_true", help="fail where anything is left to look at")
    parser.add_argument(
        "--check", action="store_true", help="write nothing: compute the figures of documents or tables from each other"
    )


def _baseline(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    args = actions.add_parser("propose", help="print a diff that puts the median of measured jobs beside their tables")
    args.add_argument("runs", nargs="+", metavar="RUN", help=_RUN_HELP)
    args.add_argument("--row", metavar="ID", help="only this row; * and ? stand for any letters")
    args.add_argument("--cluster", metavar="NAME", help="only what was measured on this cluster")
    args.add_argument("--min-jobs", type=whole_number, metavar="N", help="fewest jobs behind a figure (default: 5)")
    args.add_argument(
        "--max-spread",
        type=partial(_read, read_percentage),
        metavar="PERCENT",
        help="largest standard deviation of the jobs (default: 3%%)",
    )
    args.add_argument(
        "--max-gain",
        type=partial(_read, read_gain),
        metavar="PERCENT",
        help="count runs that were too good to be true, up to this gain of throughput",
    )
    args.add_argument(
        "--documented", action="store_true", help="change the documented figures themselves: for tables of your own"
    )
    _add_baselines(args, "where the tables are now")
    _add_history(args)
    args.add_argument("-o", "--output", type=path, metavar="FILE", help="write the diff there (default: print it)")


def _report(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", nargs="+", metavar="RUN", help=_RUN_HELP)
    parser.add_argument("--format", choices=_FORM, default=_FORM[0], help="pages (default), or the text of one run")
    parser.add_argument(
        "-o", "--output", type=path, metavar="PATH", help="where to write (default: pages to RUN/report, texts printed)"
    )
    parser.add_argument("--strict", action="store_true", help="in JUnit, rows faster than the tolerance allows fail")
    parser.add_argument(
        "--check", action="store_true", help="RUN is the report of an acceptance: make its sheet again, and compare"
    )
    _add_history(parser)
    _add_baselines(parser, "tables with accepted figures")


def _history(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "pytest-gsw history exclude RUN, or include RUN, decides which runs count; see their --help."
    parser.set_defaults(verb=None)
    parser.add_argument("rows", nargs="*", metavar="ROW", help="only these rows, with * and ?")
    parser.add_argument("--cluster", metavar="NAME", help="only this cluster; of an import: where the runs ran")
    parser.add_argument("--drift", action="store_true", help="which rows drift, since when, and what changed")
    parser.add_argument("--last", type=whole_number, default=30, metavar="N", help="newest jobs (default: 30)")
    parser.add_argument(
        "--all", action="store_true", help="earlier definitions, excluded runs, rows without drift, too"
    )
    _add_history(parser)
    parser.add_argument("--json", action="store_true", help="print JSON: a list of objects, with their jobs")
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--add", nargs="+", type=path, metavar="RUN", help=f"add runs' directories, such as {RUNS}/*")
    source.add_argument("--from-logs", type=path, metavar="DIR", help="import all logs of known rows below a directory")
    _add_baselines(parser, "tables that imports are of; with --drift, those with accepted figures")
    _add_plugins(parser)


def _exclusion(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", nargs="+", metavar="RUN", help=f"ids of runs in the history, or '{LAST}'")
    _add_why(parser)
    _add_history(parser)


def _compare(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Compare two runs row by row. The exit status is 0 when every row of RUN_A was compared and none is slower, 1 "
        "when a row is slower or was measured in RUN_A only, and 6 when neither is so but a row of RUN_A was not "
        "compared: nothing is, where both are the same run."
    )
    parser.add_argument("before", metavar="RUN_A", help=_RUN_HELP)
    parser.add_argument("after", metavar="RUN_B", nargs="?", help="the run that is compared with it")
    _add_history(parser)
    parser.add_argument("--json", action="store_true", help="print JSON: one object")


def _nodes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("nodes", nargs="*", metavar="NODE", help="what is known of these, such as n017 or n[001-016]")
    parser.add_argument("--cluster", metavar="NAME", help="only this cluster")
    parser.add_argument(
        "--since", type=day_begin_s, default=0.0, metavar="DATE", help="only jobs from this day on: 2026-11-30"
    )
    parser.add_argument(
        "--exclude-file", type=path, metavar="FILE", help='write what sbatch takes by --exclude="$(cat FILE)"'
    )
    parser.add_argument(
        "--facts", action="store_true", help="list versions and settings in which nodes differ, by the newest runs"
    )
    _add_history(parser)
    parser.add_argument("--json", action="store_true", help="print JSON: a list of objects")


def _alarms(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON: a list of objects")
    actions = parser.add_subparsers(dest="action", metavar="[ACTION]")
    texts = ("mark an alarm as known: it pages again after a day, or if it becomes worse", "end an acknowledgement")
    for name, text in zip(("acknowledge", "reopen"), texts, strict=True):
        args = actions.add_parser(name, help=text, description=f"{text.capitalize()}.", argument_default=SUPPRESS)
        args.add_argument("alarm", metavar="ID", help="the alarm's id; its first letters are enough")
        _add_why(args)
        if name == "acknowledge":
            until = partial(day_begin_s, days_on=1)
            args.add_argument("--owner", required=True, metavar="NAME", help="the person or team in charge")
            args.add_argument("--until", required=True, type=until, metavar="DATE", help="last day: 2026-11-30")
        _add_alarm_places(args)
    _add_alarm_places(parser)


def _doctor(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="CLUSTER", help="the cluster (default: gsw_cluster of the ini file)")
    _add_clusters(parser)
    parser.add_argument("--json", action="store_true", help="print JSON: a list of objects")


#: Every subcommand in the order in which help lists them: its module, its line of help, its arguments.
COMMANDS: dict[str, tuple[str, str, Callable[[argparse.ArgumentParser], Any]]] = {
    "rows": ("rows", "list the documented rows, or the state of each row of a run", _rows),
    "metrics": ("metrics", "measure a log, or the logs of a directory", _metrics),
    "import": ("importing", "make baseline tables of documents; check figures by arithmetic", _importing),
    "baseline": ("baseline", "propose measured figures for the tables", _baseline),
    "report": ("report", "write runs as pages, or one as JUnit, Markdown or OpenMetrics", _report),
    "history": ("history", "show what rows took, run by run, and which drift; import older runs", _history),
    "compare": ("compare", "compare two runs row by row", _compare),
    "nodes": ("nodes", "list nodes that slow jobs down or make them fail, with those jobs", _nodes),
    "alarms": ("alarms", "list alarms: what is wrong, since when, and the owner", _alarms),
    "doctor": ("doctor", "check a cluster: its login node, Slurm, clock and files; submit nothing", _doctor),
}

#: Actions of a subcommand whose other arguments are not words of this kind: their description, and their arguments.
VERBS: dict[str, tuple[str, Callable[[argparse.ArgumentParser], Any]]] = {
    "history exclude": ("Exclude runs: they are part of no reference, drift or search for slow nodes.", _exclusion),
    "history include": ("Include excluded runs again.", _exclusion),
}


def _add_why(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--why", required=True, metavar="TEXT", help="the reason, which the history keeps")


def _add_alarm_places(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--cluster", metavar="NAME", help="only this cluster")
    _add_history(parser)
    _add_baselines(parser, "tables with accepted figures")


def _add_history(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--history",
        metavar="PLACE",
        help=f"a file, or postgresql://USER@HOST/DATABASE (default: $GSW_HISTORY, else {RESULTS / 'history.sqlite'})",
    )


def _add_baselines(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument("--baselines", action="append", type=path, metavar="PATH", help=what)


def _add_clusters(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--clusters", type=path, metavar="FILE", help="file that defines clusters, before the usual")


def _add_plugins(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-p",
        dest="plugins",
        action="append",
        default=[],
        metavar="MODULE",
        help="a plugin of pytest that brings formats; installed ones, and the conftest.py here, are known",
    )


# -- The ini file, as pytest finds and reads it: tables, cluster, clusters, history and results of a site ---
#
# Pytest has no public function for it, and importing it takes longer than most subcommands.


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
        if given is not None:
            return history_place(given, self.results)
        return history_place(self._value_of("history"), self.results, base=self.directory, option="gsw_history")

    def tables(self, given: Sequence[Path] | None) -> Sequence[Path] | None:
        """The tables that an option names, else those of sessions; ``None`` for the bundled ones."""
        return given or self.baselines or None

    def _path(self, name: str) -> Path | None:
        given = self._value_of(name)
        return relative_path(self.directory / at_home(given)) if given else None

    def _value_of(self, name: str) -> Any:
        """A value: of ``addopts`` first, which is the command line's.

        Raises:
            ConfigurationError: It is empty.
        """
        words = _words(self.values.get("addopts") or ())
        flag, key = f"--gsw-{name}", f"gsw_{name}"
        found = [word.partition("=")[2] for word in words if word.startswith(f"{flag}=")]
        found += [after for word, after in itertools.pairwise(words) if word == flag]
        value = found[-1] if found and name != "baselines" else found or self.values.get(key)
        refuse_empty(flag if found else key, value)
        return value


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
