"""What ``pytest-gsw compare-ab`` answers once the turns are there: a table and a conclusion, or one JSON object."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pytest_gsw.ab.judge import LEAST_PAIRS, Comparison, Result, compare, least_p
from pytest_gsw.ab.plan import Plan
from pytest_gsw.ab.turns import Pair, Turn, read_pairs
from pytest_gsw.cli.answer import Answer, json_answer
from pytest_gsw.common.files import from_here
from pytest_gsw.common.redact import quoted
from pytest_gsw.common.words import counted, percent
from pytest_gsw.logs.model import LogFormat
from pytest_gsw.results.plain_table import plain_table
from pytest_gsw.tables.model import Baseline


class Done(NamedTuple):
    """A comparison whose turns are there."""

    plan: Plan
    directory: Path
    row: Baseline
    log_format: LogFormat
    #: What is known of the job's end; none where an earlier session ran it.
    job: tuple[tuple[str, str], ...] = ()
    #: Variables whose values may be secrets.
    environment: Mapping[str, str] = {}


def answer_of(done: Done, *, as_json: bool) -> Answer:
    """The answer, and the exit status: 1 where B is shown to be slower, or too few pairs tell."""
    pairs = quoted(read_pairs(done.plan, done.directory, done.row, done.log_format), os.environ, done.environment)
    comparison = compare([pair.times_s for pair in pairs if pair.times_s is not None])
    conclusion = conclusion_text(comparison, done.plan.pairs)
    status = 1 if comparison.result in {Result.SLOWER, Result.NOT_MEASURED} else 0
    if as_json:
        return json_answer(_facts(done, pairs, comparison, conclusion), status)
    return Answer("\n".join(_lines(done, pairs, conclusion)), status)


def conclusion_text(comparison: Comparison, asked: int) -> str:
    """The result in one line."""
    pairs = counted(comparison.pairs, "pair")
    if comparison.pairs < asked:
        pairs = f"{comparison.pairs} of {counted(asked, 'pair')}"
    if comparison.median_ratio is None or comparison.interval is None:
        return (
            f"not measured: {pairs}, and a decision takes {LEAST_PAIRS}: fewer have p {least_p(LEAST_PAIRS - 1):.3f} "
            "at best"
        )
    change = comparison.median_ratio - 1
    low, high = comparison.interval
    tests = f"p {comparison.p_signed_rank:.3f} by signed ranks, {comparison.p_sign:.3f} by signs; {pairs}"
    if comparison.result is Result.NO_DIFFERENCE:
        return (
            f"no difference shown: B's throughput is {percent(change)} ({tests}); with this noise, "
            f"{percent(-(comparison.smallest_shown or 0.0))} would be shown"
        )
    compared = f"{abs(change) * 100:.1f} % {'below' if change < 0 else 'above'} A's"
    between = f"95 % interval {percent(low - 1)} to {percent(high - 1)}"
    return f"B is {comparison.result.value}: its throughput is {compared} ({between}; {tests})"


def _lines(done: Done, pairs: Sequence[Pair], conclusion: str) -> list[str]:
    plan = done.plan
    unit = done.row.judged_by.per_unit
    table = [
        (
            pair.number,
            " ".join(turn.name for turn in sorted((pair.a, pair.b), key=lambda turn: turn.number)),
            _seconds(pair.a),
            _seconds(pair.b),
            "" if pair.ratio is None else percent(pair.ratio - 1),
        )
        for pair in pairs
    ]
    columns = (">pair", "turns", f">A, {unit}", f">B, {unit}", ">throughput of B")
    problems = [turn for pair in pairs for turn in (pair.a, pair.b) if turn.problem]
    problems.sort(key=lambda turn: turn.number)
    return [
        f"{plan.row} on {plan.cluster}",
        f"{'A':<10} {_side(plan.a)}",
        f"{'B':<10} {_side(plan.b)}",
        *(f"{name:<10} {value}" for name, value in _job_facts(done, pairs)),
        f"{'turns':<10} {from_here(done.directory)}",
        "",
        plain_table(table, *columns, style="simple"),
        "",
        *(f"turn {turn.name}: {turn.problem}" for turn in problems),
        *([""] if problems else []),
        *(["The cluster 'demo' is simulated: no GPU was used, and its figures say nothing."] if plan.simulated else []),
        conclusion,
    ]


def _seconds(turn: Turn) -> str:
    return "" if turn.judged_s is None else f"{turn.judged_s:.4g}"


def _side(variables: Mapping[str, str]) -> str:
    return " ".join(f"{name}={shlex.quote(value)}" for name, value in variables.items()) or "the row as it is"


def _job_facts(done: Done, pairs: Sequence[Pair]) -> tuple[tuple[str, str], ...]:
    """What is known of the job; by its turns alone, no more than its id."""
    if done.job:
        return done.job
    job_id = _job_id(pairs)
    return () if job_id is None else (("job", job_id),)


def _job_id(pairs: Sequence[Pair]) -> str | None:
    return next((turn.job_id for pair in pairs for turn in (pair.a, pair.b) if turn.job_id), None)


def _facts(done: Done, pairs: Sequence[Pair], comparison: Comparison, conclusion: str) -> dict[str, Any]:
    plan = done.plan
    return {
        "row": plan.row,
        "cluster": plan.cluster,
        "simulated": plan.simulated,
        "directory": str(done.directory),
        "job": _job_id(pairs),
        "job_ended": dict(done.job).get("job"),
        "a": dict(plan.a),
        "b": dict(plan.b),
        "statistic": done.row.statistic,
        "pairs": [
            {"pair": pair.number, "a": _turn_facts(pair.a), "b": _turn_facts(pair.b), "throughput_ratio": pair.ratio}
            for pair in pairs
        ],
        "pairs_measured": comparison.pairs,
        "result": comparison.result.value,
        "throughput_ratio": comparison.median_ratio,
        "interval": comparison.interval,
        "p_signed_rank": comparison.p_signed_rank,
        "p_sign": comparison.p_sign,
        "smallest_shown": comparison.smallest_shown,
        "conclusion": conclusion,
    }


def _turn_facts(turn: Turn) -> dict[str, Any]:
    return {
        "turn": turn.number,
        "seconds": turn.judged_s,
        "problem": turn.problem or None,
        "exit_code": turn.exit_code,
        "start_s": turn.start_s,
        "end_s": turn.end_s,
        "directory": str(turn.directory),
    }
