"""The options of the command line and of the ini file.

Every pytest session imports this module, which imports no other one of this package.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any, Literal

import pytest

#: The value of an "optional" option that is given without one.
UNLIMITED = "unlimited"
#: The name of the plugin by which the command line loads a site's plugins.
COMMAND_LINE = "pytest-gsw"


@dataclass(frozen=True)
class Option:
    """One option: ``--gsw-NAME`` on the command line, ``gsw_NAME`` in the ini file."""

    name: str
    #: Its meaning and its default, as ``--help`` prints them.
    help: str
    default: str
    #: An "optional" value may be left out, which means :data:`UNLIMITED`.
    kind: Literal["text", "path", "flag", "texts", "paths", "optional"] = "text"
    metavar: str = ""

    @property
    def flag(self) -> str:
        """The option's name on the command line."""
        return f"--gsw-{self.name}"

    @property
    def ini(self) -> str:
        """The option's name in the ini file."""
        return f"gsw_{self.name.replace('-', '_')}"


#: Every option, by the headings of ``--help`` and in its order.
GROUPS = {
    "gsw: which rows run, and where": (
        Option("cluster", "run the rows on this cluster", "none, and nothing is ever submitted", metavar="NAME"),
        Option("clusters", "file that defines clusters", "./clusters.yaml, then the user's own", "path", "FILE"),
        Option("baselines", "directory or file of baseline tables; repeatable", "the bundled ones", "paths", "PATH"),
        Option(
            "release",
            "run the bundled rows of this release of the recipes, such as 25.02, or of the NeMo container, such as "
            "nemo:26.06",
            "the cluster's, else the documents' own",
            metavar="RELEASE",
        ),
        Option(
            "suite",
            "run what the certification's exemplar.yaml lists, at its scale, and end with its criterion; with @per-gpu "
            "behind the file also by figures of other scales, per GPU",
            "none",
            "path",
            "FILE",
        ),
        Option(
            "tile",
            "run each row on every tile of its partition: a node, the nodes of a leaf switch, a block, or N nodes; on "
            "these nodes alone with node:pool0-[0001-0256]",
            "the scheduler chooses the nodes",
            metavar="node|switch|block|N",
        ),
        Option(
            "find",
            "after the tiles, run slow ones again beside nodes that are proven fast, and name what is slow; with a "
            f"number take no more than these GPU-hours; without, or with '{UNLIMITED}', as many as that takes",
            "off",
            "optional",
            "GPU-HOURS",
        ),
        Option("acceptance", "accept the cluster by a plan: nodes, stages and criteria", "none", "path", "FILE"),
        Option("plan", "print what would be submitted, and submit nothing", "off", "flag"),
        Option(
            "demo",
            "let the demo cluster break a row, such as '*x128]=slow:12%%'; repeatable",
            "all are healthy",
            "texts",
            "ROW=FAULT",
        ),
    ),
    "gsw: how rows are judged": (
        Option(
            "tolerance",
            "accepted loss of throughput for every row, such as 3%%",
            "the cluster's, else the row's own",
            metavar="PERCENT",
        ),
        Option(
            "confirm",
            "run a row that is too slow up to N times more, on other nodes where possible, and judge it by the median "
            "of all its jobs",
            "0",
            metavar="N",
        ),
        Option("repeat", "run every row N times, and judge it by the median of its jobs", "1", metavar="N"),
    ),
    "gsw: how jobs run": (
        Option(
            "retries", "run a row up to N times more if the infrastructure failed it, on other nodes", "0", metavar="N"
        ),
    ),
    "gsw: what is written": (
        Option("results", "directory for the records of runs", ".gsw", "path", "DIR"),
        Option(
            "history",
            "where all runs are kept: a SQLite file, a postgresql:// URL, or 'none'",
            "$GSW_HISTORY, else history.sqlite in the directory of results",
            metavar="PLACE",
        ),
        Option(
            "report",
            "write the report of the run into this directory: pages for people, files for CI",
            "none",
            "path",
            "DIR",
        ),
    ),
    "gsw: replay and resume": (
        Option(
            "replay",
            "judge logs that exist already: a log, a staging area, or a run's directory or id, or 'last'",
            "none",
            "path",
            "PATH",
        ),
        Option("detach", "leave jobs running when the session ends early, for --gsw-resume", "off", "flag"),
        Option(
            "resume", "go on with a session that ended early: a run's id or directory, or 'last'", "none", metavar="RUN"
        ),
    ),
    "gsw: profiles, by which no row is judged": (
        Option(
            "profile",
            "profile the runs with nsight or nccl-trace; nsight takes steps and ranks, and captures metrics: "
            "nsight:steps=45-50,ranks=0-7,gpu-metrics,cpu-metrics",
            "none",
            metavar="KIND",
        ),
    ),
}

OPTIONS = tuple(option for options in GROUPS.values() for option in options)

_INI_TYPES = {"flag": "bool", "texts": "linelist", "paths": "linelist"}


def add_options(parser: pytest.Parser) -> None:
    """Register every option and its key of the ini file."""
    for title, options in GROUPS.items():
        group = parser.getgroup(title)
        for option in options:
            _add_option(parser, group, option)


def _add_option(parser: pytest.Parser, group: pytest.OptionGroup, option: Option) -> None:
    action: dict[str, Any] = {"action": "store", "metavar": option.metavar}
    if option.kind == "flag":
        action = {"action": "store_true"}
    elif option.kind == "optional":
        action |= {"nargs": "?", "const": UNLIMITED}
    elif option.kind in {"texts", "paths"}:
        action = {"action": "append", "metavar": option.metavar}
    text = f"{option.help} (default: {option.default})"
    group.addoption(option.flag, dest=option.ini, default=None, help=text, **action)
    ini_type: Any = _INI_TYPES.get(option.kind, "string")
    parser.addini(option.ini, text.replace("%%", "%"), type=ini_type, default=None)


def are_given(config: pytest.Config, command_line: argparse.Namespace) -> bool:
    """True if the command line or the ini file sets any of the options."""
    return any(
        getattr(command_line, option.ini, None) is not None or ini_value(config, option) is not None
        for option in OPTIONS
    )


def ini_value(config: pytest.Config, option: Option) -> Any:
    """The value of an option in the ini file; ``None`` if it has none.

    Raises:
        pytest.UsageError: It is of another type, such as a flag that is neither true nor false.
    """
    try:
        return config.getini(option.ini)
    except (ValueError, pytest.UsageError) as error:  # the former from pytest before 9
        raise pytest.UsageError(f"{option.ini}: {error}\nnext: write true or false, or a text in quotes") from None


def is_typed(config: pytest.Config, name: str) -> bool:
    """True if the command line itself sets an option, also by ``-o``; ``addopts`` does not count."""
    key = f"gsw_{name.replace('-', '_')}"
    flags = {f"--gsw-{name}", key, f"-o{key}"}
    return any(str(one).partition("=")[0] in flags for one in config.invocation_params.args)
