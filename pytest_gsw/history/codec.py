"""Whole records as text, and as a history keeps them: compressed JSON."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from pytest_gsw.results.record import SCHEMA, JobFacts, MetricFacts, Record

_NAMES = {kind: frozenset(known.name for known in fields(kind)) for kind in (Record, JobFacts, MetricFacts)}


def record_text(record: Record) -> str:
    """A record as JSON, in ASCII."""
    return json.dumps(vars(record), default=vars, separators=(",", ":"), allow_nan=False)


def encode(record: Record) -> bytes:
    """A record as compressed JSON."""
    return zlib.compress(record_text(record).encode("ascii"))


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
        content: Mapping[str, Any] = json.loads(zlib.decompress(body))
        version = content["schema"]
        if version != SCHEMA:
            raise ValueError(f"it is of version {version}, this pytest-gsw reads version {SCHEMA}")
        job = content["job"]
        return Record(
            **{
                **_known(Record, content),
                "series_s": tuple(content["series_s"]),
                "job": None if job is None else _job_facts(job),
                "attempts": tuple(map(_job_facts, content["attempts"])),
                "repeats": tuple(map(_job_facts, content.get("repeats", ()))),
                "metrics": tuple(MetricFacts(**_known(MetricFacts, one)) for one in content.get("metrics", ())),
            }
        )
    except (zlib.error, TypeError, KeyError) as error:
        raise ValueError(f"it is no record: {error}") from None


def _job_facts(content: Mapping[str, Any]) -> JobFacts:
    return JobFacts.of_json(_known(JobFacts, content))


def _known(kind: type[Any], content: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in content.items() if name in _NAMES[kind]}
