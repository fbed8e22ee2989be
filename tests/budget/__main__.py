"""``python -m tests.budget [--write] [PART …]``: what each part spends today, beside its budget."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.budget import collect, idle, report, rows
from tests.budget.budgets import Figures, lines, why_not_compared, write_budget

#: By name, what measures a part in an empty directory.
PARTS: Mapping[str, Callable[[Path], Figures]] = {
    "collect": collect.measure,
    "idle": idle.measure,
    "report": report.measure,
    "rows": rows.measure,
}


def main() -> None:
    """Print, and write with ``--write``."""
    parser = argparse.ArgumentParser(prog="python -m tests.budget", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)} (default: all)")
    parser.add_argument("--write", action="store_true", help="make today's figures the budgets")
    asked = parser.parse_args()
    if why := why_not_compared():
        parser.error(why)
    for part in asked.parts or PARTS:
        with tempfile.TemporaryDirectory() as directory:
            figures = PARTS[part](Path(directory))
        print("\n".join(lines(part, figures)))
        if asked.write:
            write_budget(part, figures)


if __name__ == "__main__":
    main()
