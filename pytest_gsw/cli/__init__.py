"""``pytest-gsw``: facts of tables, logs, runs and clusters; no job is submitted.

The arguments of a subcommand are in :mod:`pytest_gsw.cli.arguments`. Its module is imported when it is called: ``run``
takes the parsed arguments, and returns the :class:`~pytest_gsw.cli.output.Answer`.
"""

from __future__ import annotations

import argparse
import itertools
import os
import re
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, NoReturn

from pytest_gsw.cli.arguments import COMMANDS, VERBS, read_ini
from pytest_gsw.common.redact import redact
from pytest_gsw.common.text import enumerated
from pytest_gsw.errors import ConfigurationError, NotJudgedError, RunError, refuse_empty
from pytest_gsw.tables.value_types import nearest

if TYPE_CHECKING:
    from pytest_gsw.cli.output import Answer


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand.

    Returns:
        0 if it succeeded; 1 if a log could not be measured or a row has regressed, a check or a comparison found
        something, or not all could be written or proposed; 2 if the arguments are wrong; 6 if a row is not judged.
    """
    parser, commands = _parser()
    args = _parse(parser, commands, sys.argv[1:] if arguments is None else arguments)
    name = f"pytest-gsw {args.command}" if args.command else "pytest-gsw"
    try:
        args.ini = read_ini()
        module = COMMANDS[args.command][0] if args.command else "morning"
        answer: Answer = import_module(f"pytest_gsw.cli.{module}").run(args)
    except (ConfigurationError, RunError) as error:
        print(f"{name}: {redact(str(error), os.environ)}", file=sys.stderr)
        return 2 if isinstance(error, ConfigurationError) else 6 if isinstance(error, NotJudgedError) else 1
    except OSError as error:  # a run of another user's, say
        where = "" if error.filename is None else f"{error.filename}: "  # a read that fails names no file
        print(f"{name}: {redact(f'{where}{error.strerror}', os.environ)}", file=sys.stderr)
        return 2
    try:
        encoding = sys.stdout.encoding or "utf-8"  # a question mark stands for every letter that it lacks
        print(answer.text.encode(encoding, "replace").decode(encoding), flush=True)
    except BrokenPipeError:  # "pytest-gsw rows | head" is no error
        _drop_output()
    except OSError as error:
        print(f"{name}: the output cannot be written: {error.strerror}", file=sys.stderr)
        _drop_output()
        return 1
    return answer.status


def _parse(
    parser: argparse.ArgumentParser, commands: Mapping[str, argparse.ArgumentParser], words: Sequence[str]
) -> argparse.Namespace:
    """Parse the arguments; for a misspelt command or option, exit with a message that names the nearest one."""
    first, name = words[0] if words else "-", " ".join(words[:2])
    if name in VERBS:
        text, add_arguments = VERBS[name]
        parser = argparse.ArgumentParser(prog=f"pytest-gsw {name}", description=text)
        parser.set_defaults(command=first, verb=words[1])
        add_arguments(parser)
        commands, words = {first: parser}, words[2:]
    elif first not in commands and not first.startswith("-"):
        near = nearest(first, commands) or f"; there are {enumerated(commands)}"
        parser.error(f"there is no command '{first}'{near}")
    _check_words(commands.get(first, parser), words)
    args, unknown = parser.parse_known_args(words)
    if unknown:
        command = commands.get(args.command, parser)
        known = re.findall(r"--[a-z][a-z-]+", command.format_help())
        near = next(filter(None, (_meant(word.partition("=")[0], args.command, known) for word in unknown)), "")
        near = near or f"\nnext: {command.prog} --help, or if it is an option of sessions, pytest --gsw-cluster=NAME"
        command.error(f"unrecognized arguments: {' '.join(unknown)}{near}")
    return args


def _meant(word: str, command: str, known: Sequence[str]) -> str:
    """``; did you mean 'history exclude'?`` for an unknown argument of a command, or nothing."""
    verb = f"{command} {word.lstrip('-')}"
    meant = verb if verb in VERBS else f"{command} {word}" if word in known else ""
    return f"; did you mean '{meant}'?" if meant else nearest(word, known)


def _check_words(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """Exit with a message if an option, or another argument, is empty."""
    for before, word in itertools.pairwise((parser.prog, *words)):
        option, equals, value = word.partition("=")
        try:
            if equals and option.startswith("-"):
                refuse_empty(option, value)
            refuse_empty(f"the argument after {before}", word)
        except ConfigurationError as error:
            parser.error(str(error))


def _drop_output() -> None:
    """Drop unwritten output, which Python would else try to write again at its exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


#: Choices by names that users try.
_OTHER_NAMES = {"prometheus": "openmetrics", "xml": "junit", "md": "markdown"}


class _Parser(argparse.ArgumentParser):
    """A parser, also of each subcommand, that names the nearest choice to a misspelt one."""

    def error(self, message: str) -> NoReturn:
        """Exit with the usage, and the message."""
        found = re.search(r"invalid choice: '([^']*)' \(choose from (.*)\)", message)
        word = _OTHER_NAMES.get(found[1], found[1]) if found else ""
        super().error(message + (nearest(word, re.findall(r"[\w-]+", found[2])) if found else ""))


class _Version(argparse.Action):
    """Print the version; its module is imported only then."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        from importlib.metadata import version

        print(f"pytest-gsw {version('pytest-gsw')}")
        parser.exit()


def _parser() -> tuple[argparse.ArgumentParser, Mapping[str, argparse.ArgumentParser]]:
    """The parser, and those of the subcommands by their names."""
    parser = _Parser(
        prog="pytest-gsw",
        description="Tables, logs and runs of LLM training performance. No job is run. Without a COMMAND: the newest "
        "run, alarms, slow nodes, and what to type next.",
    )
    parser.set_defaults(history=None, baselines=None)
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for name, (_, text, add_arguments) in COMMANDS.items():
        add_arguments(commands.add_parser(name, help=text))
    return parser, commands.choices
