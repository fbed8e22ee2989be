"""Apache Otava in a process of its own, whose environment has its packages."""

from __future__ import annotations

import atexit
import functools
import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_SCRIPT = Path(__file__).resolve().parent.parent / "peers" / "otava_alarms.py"
#: Names the interpreter that has apache-otava.
PYTHON = "OTAVA_PYTHON"
#: Settings that are as good as they get for this: few false alarms, and no changes that nobody acts on.
TUNED: Mapping[str, float] = {"max_pvalue": 1e-5, "min_magnitude": 0.02}
#: How many points there must be since a change before it is an alarm.
POINTS = 5


class Otava:
    """Its answers."""

    def __init__(self, python: Path) -> None:
        command = [str(python), str(_SCRIPT)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, question: Mapping[str, Any]) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def first_alarm(self, times_s: Sequence[float], first: int, *, earliest: int, tuned: bool) -> int | None:
        """The first run, counted from ``first`` on, that a change to slower at ``earliest`` or later is told."""
        settings = {"options": TUNED, "points": POINTS} if tuned else {}
        runs = self.ask({"series": list(times_s), "first": first, "earliest": earliest, **settings})
        return None if runs is None else runs - first

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


@functools.cache
def the_otava() -> Otava:
    """The one of this process."""
    otava = Otava(Path(os.environ[PYTHON]))
    atexit.register(otava.close)
    return otava
