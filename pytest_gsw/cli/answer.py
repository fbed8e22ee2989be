"""What a subcommand answers, and how it writes a file that it was asked for."""

from __future__ import annotations

import csv
import io
import json
import re
from argparse import ArgumentParser, ArgumentTypeError, _SubParsersAction
from collections.abc import Iterable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from pytest_gsw.common.files import at_home, make_directory, write_whole
from pytest_gsw.errors import ConfigurationError

#: What a subcommand's ``add_parser`` adds itself to.
Commands: TypeAlias = "_SubParsersAction[ArgumentParser]"


class Answer(NamedTuple):
    """What to print, and the exit status."""

    text: str
    status: int = 0


def json_answer(facts: Any, status: int = 0) -> Answer:
    """Facts as JSON for people and programs to read."""
    return Answer(json.dumps(facts, indent=2, allow_nan=False), status)


def csv_text(header: Iterable[str], lines: Iterable[Iterable[object]]) -> str:
    """Cells as CSV."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(lines)
    return text.getvalue().removesuffix("\n")


def answer_to(path: Path | None, text: str, said: str, status: int = 0) -> Answer:
    """A text as the answer; where a file was asked for, it holds the text, and the answer is what is said of it."""
    if path is None:
        return Answer(text, status)
    write_answer(path, text)
    return Answer(f"{path}: {said}", status)


def write_answer(path: Path, text: str) -> None:
    """Write a file and its directory, whole, with a line feed at the end; a ConfigurationError if that fails.

    A pipe and what is in ``/dev`` are written to: a file in their place would be the end of ``/dev/null``.
    """
    try:
        if path.is_fifo() or path.parent == Path("/dev"):
            with path.open("a", encoding="utf-8") as stream:
                stream.write(f"{text}\n")
            return
        make_directory(path.parent)
        write_whole(path, f"{text}\n")
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be written: {error.strerror}") from None


def a_path(text: str) -> Path:
    """What an option says that is a path."""
    try:
        return at_home(text)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from None


def day_begin_s(text: str, days_on: int = 0) -> float:
    """When a day of this machine's calendar begins, or one so many days later, in seconds since the epoch."""
    try:
        day = datetime.strptime(text, "%Y-%m-%d").astimezone().date() + timedelta(days=days_on)
        return datetime.combine(day, datetime.min.time()).astimezone().timestamp()
    except (ValueError, OverflowError, OSError):
        raise ArgumentTypeError(f"got '{text}', wanted a day such as 2026-11-30") from None


def whole_number(text: str) -> int:
    """What an option says that is a number of things."""
    if re.fullmatch(r"[0-9]{1,6}", text) is None or int(text) == 0:
        raise ArgumentTypeError(f"got '{text}', wanted a whole number above 0")
    return int(text)
