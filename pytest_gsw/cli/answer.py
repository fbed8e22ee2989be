"""What a subcommand answers, and how it writes a file that it was asked for."""

from __future__ import annotations

import contextlib
import os
from argparse import ArgumentParser, _SubParsersAction
from pathlib import Path
from typing import NamedTuple, TypeAlias

from pytest_gsw.errors import ConfigurationError

#: What a subcommand's ``add_parser`` adds itself to.
Commands: TypeAlias = "_SubParsersAction[ArgumentParser]"


class Answer(NamedTuple):
    """What to print, and the exit status."""

    text: str
    status: int = 0


def write_whole(path: Path, text: str) -> None:
    """Write a file whole or not at all.

    Raises:
        ConfigurationError: It cannot be written.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text(f"{text}\n", encoding="utf-8")
        draft.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise ConfigurationError(f"{path} cannot be written: {error.strerror}") from None
