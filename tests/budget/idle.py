"""What the plugin costs a pytest session that does not use it: one test, and one YAML file that is not ours."""

from __future__ import annotations

from pathlib import Path

from tests.budget.budgets import Figures
from tests.budget.counting import Counted, count

_PLUGIN = "pytest_gsw.plugin"
#: What is looked up as the plugin is, and does nothing.
_NO_PLUGIN = "tests.budget.nothing"


def measure(directory: Path) -> Figures:
    """Calls and modules of such a session that the same session without the plugin does not have.

    ``calls`` also has the functions that are called less often with the plugin than without it.
    """
    write_project(directory)
    with_plugin, without = session(directory, _PLUGIN), session(directory, _NO_PLUGIN)
    calls = {name: with_plugin.calls[name] - without.calls[name] for name in {*with_plugin.calls, *without.calls}}
    return {
        "calls": {name: number for name, number in calls.items() if number},
        "modules": dict.fromkeys(sorted(with_plugin.modules - without.modules - {_NO_PLUGIN}), 1),
    }


def write_project(directory: Path) -> None:
    """A project of one test, with data of its own."""
    (directory / "test_one.py").write_text("def test_one():\n    assert True\n")
    (directory / "data.yaml").write_text("key: value\n")


def session(directory: Path, plugin: str) -> Counted:
    """The session, once there is bytecode of all that it imports."""
    options = ("-q", "-p", "no:cacheprovider", "-p", plugin)
    count(options, directory)
    return count(options, directory)
