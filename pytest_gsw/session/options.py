"""The table of ``--gsw-*`` and their ini twins. Every pytest session imports it, so that it imports nothing of ours."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any, Literal

import pytest


@dataclass(frozen=True)
class Option:
    """One option: ``--gsw-NAME`` on the command line, ``gsw_NAME`` in the ini file."""

    name: str
    help: str
    kind: Literal["text", "path", "flag", "texts", "paths", "optional", "nonempty"] = "text"
    metavar: str = ""

    @property
    def flag(self) -> str:
        """The option's name on the command line."""
        return f"--gsw-{self.name}"

    @property
    def ini(self) -> str:
        """The option's name in the ini file."""
        return f"gsw_{self.name.replace('-', '_')}"


#: Every option, in the order of ``--help``.
OPTIONS = (
    Option("cluster", "run the rows on this cluster; without it nothing is ever submitted", metavar="NAME"),
    Option("clusters", "file that defines clusters (before ./clusters.yaml and the user's own)", "path", "FILE"),
    Option(
        "baselines", "directory or file of baseline tables instead of the bundled ones; repeatable", "paths", "PATH"
    ),
    Option(
        "release",
        "run the bundled rows of this release of the recipes, such as 25.02, or of the NeMo container, such as "
        "nemo:26.06, instead of the documents' own",
        "nonempty",
        "RELEASE",
    ),
    Option(
        "suite",
        "run what the certification's exemplar.yaml lists, at its scale, and end with its criterion; with @per-gpu "
        "behind the file also by figures of other scales, per GPU",
        "path",
        "FILE",
    ),
    Option("tolerance", "accepted loss of throughput for every row, such as 3%%", metavar="PERCENT"),
    Option(
        "max-gain",
        "gain of throughput that is believed: a row that gains more is inconclusive (default: 25%%, or the row's own)",
        metavar="PERCENT",
    ),
    Option(
        "confirm",
        "run a row that is too slow up to N times more, on other nodes where possible, and judge it by the median "
        "of all its jobs",
        metavar="N",
    ),
    Option("repeat", "run every row N times, and judge it by the median of its jobs", metavar="N"),
    Option(
        "history",
        "where all runs are kept: a SQLite file, a postgresql:// URL, or 'none' (default: $GSW_HISTORY, else "
        "history.sqlite in the directory of results)",
        metavar="PLACE",
    ),
    Option("strict", "rows faster than the tolerance allows fail as well", "flag"),
    Option("plan", "print what would be submitted, and submit nothing", "flag"),
    Option("replay", "judge logs that exist already: a log, a staging area, or a run's directory", "path", "PATH"),
    Option("results", "directory for the records of runs (default: .gsw)", "path", "DIR"),
    Option("report", "write the night's report into this directory: pages for people, files for CI", "path", "DIR"),
    Option("json", "write the session as JSON lines, a line for each row as soon as it is judged", "path", "FILE"),
    Option(
        "update-baseline",
        "write a diff that lets the cluster accept what its newest runs measured, for review "
        "(default: baseline.diff in the run's directory)",
        "optional",
        "FILE",
    ),
    Option(
        "timeout",
        "limit on each job's run time, minutes (default: three times the documented duration, at least 30)",
        metavar="MINUTES",
    ),
    Option("max-jobs", "submit no more than this many jobs at once", metavar="N"),
    Option("max-gpus", "take no more than this many GPUs at once", metavar="N"),
    Option("max-pending", "leave no more than this many jobs pending at once", metavar="N"),
    Option("retries", "run a row up to N times more if the infrastructure failed it, on other nodes", metavar="N"),
    Option(
        "stall",
        "end a job that shows no new step for this long, minutes (default: 20 documented steps, at least 10; "
        "three times as long before the first step; 0: never)",
        metavar="MINUTES",
    ),
    Option(
        "slow-start",
        "end a job whose first steps take this multiple of the documented time (default: 3; 0: never)",
        metavar="FACTOR",
    ),
    Option("detach", "leave jobs running when the session ends early, for --gsw-resume", "flag"),
    Option("resume", "go on with a session that ended early: a run's id or directory, or 'last'", metavar="RUN"),
    Option(
        "poll-interval", "seconds between two questions to the scheduler, 0.5 to 300 (default: 15)", metavar="SECONDS"
    ),
    Option("profile", "profile the runs with nsight or nccl-trace; such runs are never judged", metavar="KIND"),
    Option("profile-steps", "first and last step that nsight profiles", metavar="START:STOP"),
    Option("profile-ranks", "MPI ranks that nsight profiles, such as 0,1,2", metavar="RANKS"),
    Option("profile-gpu-metrics", "let nsight capture GPU device metrics", "flag"),
    Option("profile-cpu-metrics", "let nsight capture CPU metrics", "flag"),
    Option("demo", "let the demo cluster break a row, such as '*x128]=slow:12%%'; repeatable", "texts", "ROW=FAULT"),
)

_INI_TYPES = {"flag": "bool", "texts": "linelist", "paths": "linelist"}


def add_options(parser: pytest.Parser) -> None:
    """Register every option and its ini twin."""
    group = parser.getgroup("gsw", "performance regression of LLM training (pytest-gsw)")
    for option in OPTIONS:
        action: dict[str, Any] = {"action": "store", "metavar": option.metavar}
        if option.kind == "flag":
            action = {"action": "store_true"}
        elif option.kind == "optional":
            action = {"action": "store", "nargs": "?", "const": "true", "metavar": option.metavar}
        elif option.kind in {"texts", "paths"} or option.name == "profile":
            action = {"action": "append", "metavar": option.metavar}
        group.addoption(option.flag, dest=option.ini, default=None, help=option.help, **action)
        ini_type: Any = _INI_TYPES.get(option.kind, "string")
        parser.addini(option.ini, option.help.replace("%%", "%"), type=ini_type, default=None)


def are_given(config: pytest.Config, command_line: argparse.Namespace) -> bool:
    """Whether the command line or the ini file gives any of the options."""
    return any(
        getattr(command_line, option.ini) is not None or config.getini(option.ini) is not None for option in OPTIONS
    )
