"""``pytest-gsw doctor``: check the way to a Slurm cluster, Slurm itself and the files there; nothing is submitted."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from pytest_gsw.cli.output import Answer, quoted_answer
from pytest_gsw.cli.rows import cluster_of
from pytest_gsw.common.text import plural
from pytest_gsw.errors import ConfigurationError
from pytest_gsw.jobs.ssh.checks import OK, PROBLEM, Check, checks_of


def run(args: argparse.Namespace) -> Answer:
    """Answer the subcommand."""
    cluster = cluster_of(args.name or args.ini.cluster, args.clusters or args.ini.clusters)
    if cluster is None:
        raise ConfigurationError(
            "no cluster is named\nnext: pytest-gsw doctor NAME, or set gsw_cluster in the ini file"
        )
    checks = list(checks_of(cluster))
    problems = sum(check.state == PROBLEM for check in checks)
    lines = [line for check in checks for line in _lines(check)]
    if problems or len(checks) > 1:
        lines.append(f"{cluster.name}: {plural(problems, 'problem') if problems else 'no problem'}")
    return quoted_answer(args, [asdict(check) for check in checks], "\n".join(lines), 1 if problems else 0)


def _lines(check: Check) -> list[str]:
    state = "" if check.state == OK else f"{check.state}: "
    advice = (f"next: {check.advice}",) if check.advice else ()
    return [f"{check.name:<12}{state}{check.fact}", *(f"{'':<12}{line}" for line in (*check.evidence, *advice))]
