"""The history in a real PostgreSQL server."""

from __future__ import annotations

from tests.unit.history.behaviour import SchemaBehaviour, StoreBehaviour, WriterBehaviour


class TestStore(StoreBehaviour):
    pass


class TestWriters(WriterBehaviour):
    pass


class TestSchema(SchemaBehaviour):
    pass
