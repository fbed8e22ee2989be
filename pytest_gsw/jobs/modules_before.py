"""Modules that a recipe's Python must have, by what its launch script says of itself: a comment that is there for that.

It is asked only where the job runs on the machine that submits it: on a cluster, nodes may have another Python.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pytest_gsw.common.files import from_here
from pytest_gsw.common.words import enumerated
from pytest_gsw.errors import SubmissionError
from pytest_gsw.jobs.environment import job_environment
from pytest_gsw.jobs.model import JobSpec
from pytest_gsw.jobs.script_text import script_text

#: ``#GSW modules: torch, transformers of ${RUN_CONF_PYTHON:-python3}``, on a line of its own.
_MODULES = re.compile(
    r"^#GSW modules: (\w{1,60}(?:, \w{1,60}){0,20}) of \$\{([A-Za-z_]\w{0,99}):-([\w./-]{1,200})\}$", re.MULTILINE
)
#: Finds the modules that are not there, and imports none.
_QUESTION = "import sys, importlib.util as u; print(*(m for m in sys.argv[1:] if u.find_spec(m) is None), sep='\\n')"
_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class Modules:
    """What a launch script says that it needs."""

    names: tuple[str, ...]
    #: The variable that names the Python, and what runs where that is not set.
    variable: str
    default: str
    line: int


def modules_of(script: Path) -> Modules | None:
    """The modules that a launch script needs by its own text; ``None`` where it does not say it."""
    text = script_text(script) or ""
    said = _MODULES.search(text)
    if said is None:
        return None
    return Modules(tuple(said[1].split(", ")), said[2], said[3], text.count("\n", 0, said.start()) + 1)


def modules_problem(spec: JobSpec, environ: Mapping[str, str], needed: Modules) -> SubmissionError | None:
    """Why the recipe could not import what it needs, on this machine; ``None`` where that is not certain."""
    environment = job_environment(environ, spec)
    if "BASH_ENV" in environment:  # which may set the variable
        return None
    named = environment.get(needed.variable) or needed.default
    said_at = ("said at", f"{from_here(spec.script_path)}:{needed.line}")
    other = f"or name another Python in {needed.variable}"
    python = shutil.which(named, path=environment.get("PATH"))
    if python is None:
        return SubmissionError(f"the recipe's Python is not there: {named}", (said_at,), advice=f"install it, {other}")
    missing = _missing(python, needed.names, environment, spec.directory)
    if not missing:
        return None
    names = " ".join(missing)
    return SubmissionError(
        f"the recipe's Python has no {enumerated(missing, 'or')}: {python}",
        (said_at,),
        advice=f"{python} -m pip install {names}, {other}",
    )


def _missing(python: str, names: tuple[str, ...], environment: Mapping[str, str], directory: Path) -> list[str]:
    """The modules that a Python cannot find; none where it does not answer."""
    try:
        answer = subprocess.run(
            [python, "-c", _QUESTION, *names],
            env=dict(environment),
            cwd=directory,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    found = answer.stdout.split() if answer.returncode == 0 else []
    return [name for name in names if name in found]
