"""Records as a history keeps them: compressed JSON."""

from __future__ import annotations

import json
import zlib

from pytest_gsw.results.record import Record, of_content, version_problem


def encode(record: Record) -> bytes:
    """A record as compressed JSON."""
    return zlib.compress(record.text.encode("ascii"))


def body_text(body: bytes) -> str | None:
    """The JSON of an encoded record, ``None`` if it is none."""
    try:
        return zlib.decompress(body).decode("ascii")
    except (zlib.error, ValueError):
        return None


def decode(body: bytes) -> Record:
    """The record again. What a later release has added to it is left out.

    Raises:
        ValueError: It is none, or of a version that this release would misread.
    """
    try:
        content = json.loads(zlib.decompress(body))
        problem = version_problem(content["schema"])
    except (zlib.error, TypeError, KeyError) as error:
        raise ValueError(f"it is no record: {error}") from None
    if problem:
        raise ValueError(f"it is {problem}")
    return of_content(content, strict=False)
