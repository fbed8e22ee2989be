"""The pages as a whole: a way to each of them, and install lines that work from a checkout."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/*.md")])
#: What people run and read besides.
SOURCES = sorted(
    path
    for folder, pattern in (("pytest_gsw", "**/*.py"), ("baselines", "**/*.py"), ("docs/examples", "*"))
    for path in ROOT.glob(f"{folder}/{pattern}")
    if path.is_file()
)
#: What others have published, and may be installed by its name; ``{names},`` are modules that a recipe itself needs.
PUBLISHED = {"tox", "torch", "apache-otava", "{names},"}


def test_every_page_can_be_reached_from_the_index() -> None:
    seen, waiting = set(), [ROOT / "docs" / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in seen:
            continue
        seen.add(page)
        targets = re.findall(r"\]\(([^)#\s]+\.md)", page.read_text())
        waiting += [(page.parent / target).resolve() for target in targets if "://" not in target]
    assert {str(page.relative_to(ROOT)) for page in PAGES} - {str(page.relative_to(ROOT)) for page in seen} == set()


#: An install line: options, and what it installs.
INSTALL = re.compile(r"""pip install((?: -e| --quiet| -r)*) (?:'([^']+)'|"([^"]+)"|([^\s`'"]+))""")


def extras() -> set[str]:
    """Those of the package."""
    section = (
        (ROOT / "pyproject.toml").read_text().partition("[project.optional-dependencies]\n")[2].partition("\n[")[0]
    )
    return set(re.findall(r"^(\w+) = \[", section, re.MULTILINE))


def works_from_a_checkout(options: str, target: str) -> bool:
    """Whether it names a file that is here, what others have published, or the checkout with extras that there are."""
    if " -r" in options:
        return (ROOT / target).is_file()
    own = re.fullmatch(r"\.(?:\[([\w,]+)\])?", target)
    if own is not None:
        return set((own[1] or "").split(",")) - {""} <= extras()
    return target == "$PYTEST_GSW" or target.partition("==")[0] in PUBLISHED


def test_every_install_line_works_from_a_checkout() -> None:
    lines = [(path, one) for path in [*PAGES, *SOURCES] for one in INSTALL.finditer(path.read_text(errors="replace"))]
    assert len(lines) > 10
    wrong = [
        f"{path.relative_to(ROOT)}: {one[0]}"
        for path, one in lines
        if not works_from_a_checkout(one[1], one[2] or one[3] or one[4])
    ]
    assert not wrong
