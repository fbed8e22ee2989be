"""Login nodes, links and toy Slurms that tests ask for."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.requirements import require

from .link import Link
from .login_node import LoginNode, missing_requirements, write_ssh_config
from .namespaces import missing_permission
from .projects import Project, ended, home_of
from .toy_slurm import ToySlurm, write_toy_slurm


@pytest.fixture
def start_node() -> Iterator[Callable[..., LoginNode]]:
    """Start login nodes; a machine that cannot have one skips, or fails if GSW_REQUIRE_SSH=1 says so."""
    require("GSW_REQUIRE_SSH", missing_requirements())
    with contextlib.ExitStack() as stack:
        yield lambda **options: stack.enter_context(LoginNode(**options))


@pytest.fixture
def start_link() -> Iterator[Callable[..., Link]]:
    """Start links to login nodes, in turn."""
    with contextlib.ExitStack() as stack:
        yield lambda *nodes: stack.enter_context(Link([node.port for node in nodes]))


@pytest.fixture
def toy_slurm(tmp_path: Path) -> Iterator[ToySlurm]:
    """A Slurm without jobs, whose scripts run at once."""
    slurm = write_toy_slurm(tmp_path / "slurm")
    yield slurm
    slurm.stop()


@pytest.fixture
def node(start_node: Callable[..., LoginNode], toy_slurm: ToySlurm) -> LoginNode:
    """A login node with the commands of the toy Slurm."""
    return start_node(environment={"PATH": toy_slurm.path})


@pytest.fixture
def _can_hide() -> None:
    """Skip where no mount namespace may be made, as in many containers."""
    if (problem := missing_permission()) is not None:
        pytest.skip(problem)


@pytest.fixture
def link(
    start_node: Callable[..., LoginNode], start_link: Callable[..., Link], toy_slurm: ToySlurm, tmp_path: Path
) -> Link:
    """A link to a login node with one session a connection, whose shells print something."""
    node = start_node(home=home_of(tmp_path / "home", toy_slurm.path), max_sessions=1)
    link = start_link(node)
    write_ssh_config(tmp_path / "client" / "ssh_config", link.port, node)
    return link


@pytest.fixture
def project(link: Link, toy_slurm: ToySlurm, tmp_path: Path) -> Iterator[Project]:
    """A project without rows, whose cluster is behind the link."""
    project = Project(tmp_path / "project", tmp_path / "cluster", tmp_path / "client" / "ssh_config")
    with ended([project]):
        yield project
