"""``pytest-gsw``: what there is to know of tables and logs; only ``compare-ab`` runs anything on a cluster.

A subcommand is a module of this package: ``add_parser`` says what it takes, and sets ``run``,
which returns the :class:`~pytest_gsw.cli.answer.Answer`.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from pytest_gsw.cli import (
    alarms,
    audit,
    baseline,
    compare,
    compare_ab,
    diff,
    export,
    history,
    importing,
    junit,
    metrics,
    nodes,
    report,
    rows,
    selftest,
    trend,
)
from pytest_gsw.cli.answer import Answer
from pytest_gsw.common.redact import quoted
from pytest_gsw.errors import ConfigurationError, RunError

#: In the order in which help lists them.
_COMMANDS = (
    *(rows, metrics, importing, audit, baseline, diff, selftest),
    *(junit, report, export, history, compare, trend, nodes, alarms, compare_ab),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand.

    Returns:
        0 when it did what was asked; 1 when a log could not be measured, something was found (by
        the self-test, the audit or a comparison), or not all could be written or proposed; 2 when
        what was asked is wrong.
    """
    parser = _parser()
    if "_ARGCOMPLETE" in os.environ:  # a shell asks for words
        from pytest_gsw.cli.completion import complete

        complete(parser)
    asked = parser.parse_args(arguments)
    try:
        answer: Answer = asked.run(asked)
    except (ConfigurationError, RunError) as error:
        print(f"pytest-gsw {asked.command}: {quoted(str(error), os.environ)}", file=sys.stderr)
        return 2 if isinstance(error, ConfigurationError) else 1
    try:
        print(_encodable(answer.text), flush=True)
    except BrokenPipeError:  # "pytest-gsw rows | head" is no error
        _drop_output()
    except OSError as error:
        print(f"pytest-gsw {asked.command}: the output cannot be written: {error.strerror}", file=sys.stderr)
        _drop_output()
        return 1
    return answer.status


def _encodable(text: str) -> str:
    """A text with a question mark for every letter that the output cannot take."""
    encoding = sys.stdout.encoding or "utf-8"
    return text.encode(encoding, "replace").decode(encoding)


def _drop_output() -> None:
    """Let go of what could not be written, or Python would try it again when it exits, and complain."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


class _Version(argparse.Action):
    """Prints the version; what knows it is imported when it is asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        from importlib.metadata import version

        print(f"pytest-gsw {version('pytest-gsw')}")
        parser.exit()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="pytest-gsw", description="Tables and logs of LLM training performance; nothing is run but by compare-ab."
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in _COMMANDS:
        command.add_parser(commands)
    return parser
