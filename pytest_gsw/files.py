"""Files as every part of the project writes and names them."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def write_whole(path: Path, text: str) -> None:
    """Write a file whole or not at all.

    Raises:
        OSError: It cannot be written.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise


def from_here(path: Path) -> Path:
    """The path as seen from the working directory, where it lies below: people and CI servers know no other."""
    try:
        return path.absolute().relative_to(Path.cwd())
    except ValueError:
        return path
