"""Answers of subcommands, and the files that they write."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pytest_gsw.common.files import make_directory, write_whole
from pytest_gsw.common.redact import redact
from pytest_gsw.common.typed_json import plain
from pytest_gsw.errors import ConfigurationError


class Answer(NamedTuple):
    """The printed text, and the exit status."""

    text: str
    status: int = 0


def json_answer(facts: Any, status: int = 0) -> Answer:
    """Facts as indented JSON."""
    return Answer(json.dumps(facts, default=plain, indent=2, allow_nan=False), status)


def quoted_answer(args: argparse.Namespace, facts: Any, text: str, status: int = 0) -> Answer:
    """Facts as JSON with ``--json``, else a text; without secrets."""
    if args.json:
        return json_answer(redact(facts, os.environ), status)
    return Answer(redact(text, os.environ), status)


def changes_facts(changes: Mapping[str, tuple[str, str]]) -> dict[str, dict[str, str]]:
    """Changes of the environment by name, as JSON has them."""
    return {name: {"before": before, "after": after} for name, (before, after) in changes.items()}


def answer_to(path: Path | None, text: str, line: str) -> Answer:
    """A text as the answer; or, with a path, a file with the text, and a line about the file."""
    if path is None:
        return Answer(text)
    write_answer(path, text)
    return Answer(f"{path}: {line}")


def write_answer(path: Path, text: str) -> None:
    """Write a file and its directory, whole, with a line feed at the end; a ConfigurationError if that fails.

    Pipes and files in ``/dev`` are written in place: a new file would replace ``/dev/null``.
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
