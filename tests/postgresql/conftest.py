"""One server for all tests; each test has a database of its own."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager

import pytest

from tests.requirements import require

from .server import PostgresqlServer, missing_requirements

pytest.register_assert_rewrite("tests.unit.history.behaviour")


@pytest.fixture(scope="session")
def server() -> Iterator[PostgresqlServer]:
    """A machine that cannot have one skips, or fails if GSW_REQUIRE_POSTGRESQL=1 says so."""
    require("GSW_REQUIRE_POSTGRESQL", missing_requirements())
    with PostgresqlServer() as running:
        yield running


@pytest.fixture
def mortal(server: PostgresqlServer) -> Iterator[PostgresqlServer]:
    """A server that the test may stop or kill; it runs again afterwards."""
    yield server
    server.stop()
    server.start()


@pytest.fixture
def place(server: PostgresqlServer) -> str:
    """The URL of an empty database."""
    return server.make_database(f"t{uuid.uuid4().hex}")


@pytest.fixture
def read_only(server: PostgresqlServer, place: str) -> AbstractContextManager[None]:
    """A time in which the test's database cannot be written."""
    return server.read_only(place)
