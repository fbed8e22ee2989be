"""The design's rules about imports."""

from __future__ import annotations

import graphlib
import importlib
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import grimp
import pytest
from importlinter.cli import EXIT_STATUS_SUCCESS, lint_imports

import pytest_gsw

PACKAGE = Path(pytest_gsw.__file__).parent


def test_imports_follow_the_data() -> None:
    contract = Path(__file__).parents[2] / ".importlinter"
    assert lint_imports(config_filename=str(contract), no_cache=True, no_logo=True) == EXIT_STATUS_SUCCESS


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Imports within functions count, those for types alone do not."""
    graph = grimp.build_graph(PACKAGE.name, cache_dir=None, exclude_type_checking_imports=True)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    assert set(graphlib.TopologicalSorter(imports).static_order()) == graph.modules


def test_one_module_imports_private_parts_of_pytest() -> None:
    named = re.compile(r"^\s*(?:import|from) +_pytest\b", re.MULTILINE)
    assert [path.name for path in PACKAGE.rglob("*.py") if named.search(path.read_text())] == ["pytest_private.py"]


def test_every_module_can_be_imported() -> None:
    """On the oldest Python, too, where not all of them are tested."""
    for module in pkgutil.walk_packages(pytest_gsw.__path__, f"{PACKAGE.name}."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)


@pytest.mark.parametrize("name", pytest_gsw.__all__)
def test_every_public_name_is_where_it_is_looked_for(name: str) -> None:
    assert getattr(pytest_gsw, name).__name__ == name


def test_the_package_can_be_imported_without_pytest() -> None:
    program = (
        "import sys, pytest_gsw, pytest_gsw.cli; print(sorted({'pytest', '_pytest', 'pluggy'} & set(sys.modules)))"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout == "[]\n"
