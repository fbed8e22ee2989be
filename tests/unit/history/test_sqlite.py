"""The history in a SQLite file."""

from __future__ import annotations

from .behaviour import SchemaBehaviour, StoreBehaviour, WriterBehaviour


class TestStore(StoreBehaviour):
    pass


class TestWriters(WriterBehaviour):
    pass


class TestSchema(SchemaBehaviour):
    pass
