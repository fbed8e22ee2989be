"""``pytest-gsw selftest``: the comparator on logs whose truth is known."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from pytest_gsw.cli.answer import Answer, Commands, a_path, json_answer
from pytest_gsw.common.words import rounded
from pytest_gsw.errors import ConfigurationError
from pytest_gsw.results.plain_table import plain_table
from pytest_gsw.selftest.model import Report, Wrong
from pytest_gsw.selftest.run import selftest

#: Wrong cases of a self-test that are shown in full.
_SHOWN_WRONG = 20


def add_parser(commands: Commands) -> None:
    """Add the subcommand."""
    test = commands.add_parser("selftest", help="check the comparator on logs whose truth is known")
    test.add_argument("--seed", type=int, default=1, metavar="N", help="another set of cases (default: 1)")
    test.add_argument("--keep", type=a_path, metavar="DIR", help="keep the logs of cases that come out wrong there")
    test.add_argument("--json", action="store_true", help="print JSON: one object")
    test.set_defaults(run=_selftest)


def _selftest(asked: argparse.Namespace) -> Answer:
    try:
        report = selftest(asked.seed, keep=asked.keep)
    except OSError as error:
        raise ConfigurationError(f"{error.filename} cannot be written: {error.strerror}") from None
    status = 1 if report.wrong else 0
    return json_answer(_selftest_facts(report), status) if asked.json else Answer(_selftest_text(report), status)


def _selftest_facts(report: Report) -> dict[str, Any]:
    return {
        "seed": report.seed,
        "cases": report.cases,
        "right": report.right,
        "formats": [asdict(tally) for tally in report.tallies],
        "not_checked": [asdict(unchecked) for unchecked in report.unchecked],
        "wrong": [{"case": wrong.case.name, **_wrong_facts(wrong, wrong.case.baseline.id)} for wrong in report.wrong],
    }


def _wrong_facts(wrong: Wrong, row: str) -> dict[str, Any]:
    case = wrong.case
    facts = {"row": row, "seed": case.seed, "done": case.done, "expected": str(case.expected)}
    return {**facts, "got": wrong.got, "again": wrong.again}


def _selftest_text(report: Report) -> str:
    table = [(t.log_format, t.framework, t.rows, f"{t.cases:,}", f"{t.right:,}") for t in report.tallies]
    lines = [plain_table(table, "format", "framework", ">rows", ">cases", ">right", style="simple"), ""]
    kinds: dict[str, list[str]] = {}
    for unchecked in report.unchecked:
        kind = unchecked.log_format
        if kind != unchecked.framework:
            kind += f" ({unchecked.framework})"
        kinds.setdefault(unchecked.what, []).append(kind)
    lines += ["not checked, because such a log does not show it, or nothing looks for it:"]
    lines += [f"  {what}: {', '.join(where)}" for what, where in kinds.items()]
    for wrong in report.wrong[:_SHOWN_WRONG]:
        facts = {"wrong": wrong.case.name, **_wrong_facts(wrong, wrong.case.row)}
        lines += ["", *(f"{name:<10} {value}" for name, value in facts.items())]
    if len(report.wrong) > _SHOWN_WRONG:
        lines += ["", f"and {len(report.wrong) - _SHOWN_WRONG:,} more; --json lists all"]
    return "\n".join([*lines, "", f"{rounded(report.cases, 'case')}, {report.right:,} right"])
