"""A pytest session, or another program, of its own process, with its Python function calls counted and its modules listed.

Calls of the import machinery are left out: how many there are depends on where modules lie and on whether
their bytecode is cached. What a module does when it is imported is counted.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

#: Variables that change what Python and pytest do.
_NOT_INHERITED = ("PYTHON", "PYTEST_", "COV_")
_ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Counted:
    """What one session did.

    Functions of pytest-gsw are counted by name, ``pytest_gsw.session.settings:read_settings``; all others by their module.
    """

    calls: Counter[str]
    modules: frozenset[str]
    status: int
    output: str

    @property
    def own_modules(self) -> frozenset[str]:
        """The modules of pytest-gsw that were imported."""
        return frozenset(name for name in self.modules if is_own(name))


def is_own(name: str) -> bool:
    """Whether a module, or a function by the name that it is counted by, is pytest-gsw's."""
    return name.partition(":")[0].partition(".")[0] == "pytest_gsw"


def count(
    arguments: Sequence[str], directory: Path, environ: Mapping[str, str] | None = None, program: str = "pytest"
) -> Counted:
    """Run ``pytest ARGUMENTS``, or the ``main`` of another module, in a directory, in a process of its own, and count.

    Plugins are those that the arguments name: none is loaded by its entry point. Bytecode is kept from one session to
    the next, so that only the first that imports a module compiles it and rewrites its asserts.
    """
    counted = directory / "counted.json"
    fixed = {
        "PYTHONHASHSEED": "0",
        "PYTHONPATH": str(_ROOT),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "NO_COLOR": "1",
    }
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(_NOT_INHERITED)}
    ended = subprocess.run(
        [sys.executable, "-m", __name__, str(counted), program, *arguments],
        cwd=directory,
        env={**inherited, **fixed, **(environ or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert counted.is_file(), ended.stdout
    found = json.loads(counted.read_text())
    counted.unlink()
    return Counted(Counter(found["calls"]), frozenset(found["modules"]), ended.returncode, ended.stdout)


class _Counter:
    """Counts calls by code object, in all threads that are started while it counts."""

    def __init__(self) -> None:
        #: By the code's identity: codes of different files may be equal.
        self._seen: dict[int, list[Any]] = {}

    def __call__(self, frame: FrameType, event: str, _argument: object) -> None:
        if event != "call":
            return
        code = frame.f_code
        seen = self._seen.get(id(code))
        if seen is None:
            seen = self._seen[id(code)] = [code, frame.f_globals.get("__name__"), 0]
        seen[2] += 1

    def calls(self) -> Counter[str]:
        """By function or module, how often it was called."""
        calls: Counter[str] = Counter()
        for code, module, number in list(self._seen.values()):
            name = _name(code, str(module))
            if name is not None:
                calls[name] += number
        return calls


def _name(code: CodeType, module: str) -> str | None:
    if module.startswith("importlib") or code.co_filename.startswith("<frozen importlib"):
        return None
    return f"{module}:{getattr(code, 'co_qualname', code.co_name)}" if is_own(module) else module


def _main(counted: str, program: str, arguments: list[str]) -> int:
    main = importlib.import_module(program).main
    gc.disable()  # when it runs depends on what else lies in memory
    counter = _Counter()
    threading.setprofile(counter)
    sys.setprofile(counter)
    status = int(main(arguments))
    sys.setprofile(None)
    threading.setprofile(None)
    modules = sorted(name for name in sys.modules if name.partition(".")[0] not in {"tests", "__main__"})
    Path(counted).write_text(json.dumps({"calls": counter.calls(), "modules": modules}))
    return status


if __name__ == "__main__":
    sys.exit(_main(*sys.argv[1:3], sys.argv[3:]))
