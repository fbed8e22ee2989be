"""A run is called a run: what people read says "night" only of what really happens at night."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import pytest_gsw

PACKAGE = Path(pytest_gsw.__file__).parent
ROOT = Path(__file__).resolve().parents[2]
NIGHT = re.compile(r"(?<![\w.`/])(?:nights?|tonight)(?!\w|\.html|/)", re.IGNORECASE)

#: Names in JSON, addresses and classes, which programs and links rely on: nobody reads them as text.
KEYS = {
    "cli/alarms.py": {"nights": 1},  # of --json
    "cli/drift.py": {"nights": 1},  # of --json
    "reports/html/nights.py": {"nights": 2},  # the folder of the runs' pages, and a class of the style sheet
    "reports/html/pages.py": {"nights": 1},  # an anchor
    "reports/html/row_page.py": {"nights": 2},  # an anchor, and a table's name
}

#: What really happens at night.
NIGHTLY = ("a night in Jenkins", "A night in Jenkins", "each night", "Each night", "at night")
REAL_NIGHTS = {
    "docs/ci.md": ("A night that brought no run",),  # what calls when the job of the night did not run
    "docs/design.md": ("is a *night*",),  # the word's definition
    "docs/hooks.md": ("`night=night`",),  # an argument
    "docs/tutorial.md": (
        "## 8. A night",  # what the Jenkins of its ninth step runs
        "Rehearse the night",
        "from night to night",
    ),
    "docs/examples/Jenkinsfile": ("// A night on", "from night to night", "of the night before"),  # Jenkins' own cron
    "docs/examples/github.yml": ("# A night on", "  night:\n", "the night before"),  # on a schedule
    "docs/examples/gitlab.yml": ("# A night on", "the night before"),  # on a schedule
    "docs/examples/grafana/prometheus.json": ("a night without a run",),  # as in ci.md
}
#: History, and notes of research whose simulations are of nights.
APART = ("CHANGELOG.md", "docs/notes")
PAGES = [
    path
    for pattern in ("*.md", "docs/**/*.md", "docs/examples/**/*", "benchmarks/*.md")
    for path in sorted(ROOT.glob(pattern))
    if path.is_file() and not path.relative_to(ROOT).as_posix().startswith(APART)
]


def texts_of(source: str) -> Iterator[str]:
    """The texts in a module, docstrings not among them."""
    tree = ast.parse(source)
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value


def test_no_text_of_the_package_calls_a_run_a_night() -> None:
    found = {
        path.relative_to(PACKAGE).as_posix(): counts
        for path in sorted(PACKAGE.rglob("*.py"))
        if (counts := Counter(text for text in texts_of(path.read_text()) if NIGHT.search(text)))
    }
    assert found == KEYS, "say run"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_page_calls_a_run_a_night(path: Path) -> None:
    text = path.read_text(errors="replace")
    for real in (*NIGHTLY, *REAL_NIGHTS.get(path.relative_to(ROOT).as_posix(), ())):
        text = text.replace(real, "")
    if path.suffix == ".md":  # programs in pages name values as the code does; screens do not
        text = re.sub(r"```python\n.*?```", "", text, flags=re.DOTALL)
    assert [line for line in text.splitlines() if NIGHT.search(line)] == [], "say run"


@pytest.mark.parametrize("text", ["7 nights", "slow tonight", "the night's jobs", "Other nights", ">nights", "Night"])
def test_what_calls_a_run_a_night_is_found(text: str) -> None:
    assert NIGHT.search(text)
    assert list(texts_of(f'"""A night."""\nsaid = f"{{count}} {text}"')) == [f" {text}"]
