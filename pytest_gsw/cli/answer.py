"""What a subcommand answers, and how it writes a file that it was asked for."""

from __future__ import annotations

import re
from argparse import ArgumentParser, ArgumentTypeError, _SubParsersAction
from pathlib import Path
from typing import NamedTuple, TypeAlias

from pytest_gsw.common.files import make_directory, write_whole
from pytest_gsw.errors import ConfigurationError

#: What a subcommand's ``add_parser`` adds itself to.
Commands: TypeAlias = "_SubParsersAction[ArgumentParser]"


class Answer(NamedTuple):
    """What to print, and the exit status."""

    text: str
    status: int = 0


def write_answer(path: Path, text: str) -> None:
    """Write a file that was asked for, whole or not at all, with its directory and a line feed at the end.

    Raises:
        ConfigurationError: It cannot be written.
    """
    try:
        make_directory(path.parent)
        write_whole(path, f"{text}\n")
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be written: {error.strerror}") from None


def whole_number(text: str) -> int:
    """What an option says that is a number of things."""
    if re.fullmatch(r"[0-9]{1,6}", text) is None or int(text) == 0:
        raise ArgumentTypeError(f"got '{text}', wanted a whole number above 0")
    return int(text)
