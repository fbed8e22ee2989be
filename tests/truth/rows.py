"""The rows of a self-test: bundled ones, and variants that no document has."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from random import Random

from pytest_gsw.tables.load import STEP_SHARE, load_tables
from pytest_gsw.tables.metrics import STEP_TIME
from pytest_gsw.tables.model import Baseline

_ROWS_PER_KIND = 2
#: Steps that tables can state; tens, so that a Megatron log of every tenth iteration ends with the run.
_STATED_STEPS = (20, 30, 50)

#: Formats of which no bundled table has a row, but a site's may, by the framework whose rows serve for them.
_OF_SITES = {
    "deepspeed": ("deepspeed",),
    **dict.fromkeys(("maxtext", "nemo"), ("torchtitan", "automodel", "composer", "nanotron", "olmo-core")),
}


def seeded(seed: str) -> Random:
    """Random numbers that are the same for the same seed."""
    return Random(seed)  # noqa: S311 - noise, not cryptography


def rows_of(seed: str) -> Iterator[Baseline]:
    """Bundled rows of every kind of log, and variants of them that no document has."""
    random = seeded(f"{seed} rows")
    kinds: dict[tuple[object, ...], list[Baseline]] = {}
    for row in load_tables():
        if row.criterion.expected_failure is None:  # such a row is judged by its job, not by its log
            pipeline = (row.parallelism.pp or 1) > 1
            kind = (
                row.workload.log_format,
                row.workload.framework,
                row.criterion.metric,
                row.criterion.statistic,
                pipeline,
            )
            kinds.setdefault(kind, []).append(row)
    for rows in kinds.values():
        drawn = random.sample(rows, min(_ROWS_PER_KIND, len(rows)))
        yield from drawn
        row = drawn[0]
        if row.judged_by is STEP_TIME and row.workload.log_format != "huggingface":  # whose logs hold one number
            yield _varied(row, random)
        if row.judged_by is STEP_TIME:
            for name in _OF_SITES.get(row.workload.framework, ()):
                yield _varied(replace(row, workload=replace(row.workload, framework=name, log_format=name)), random)


def _varied(row: Baseline, random: Random) -> Baseline:
    """The row with its steps stated, and with another statistic."""
    recipe = row.recipe
    if recipe.steps is None:
        recipe = replace(recipe, steps=random.choice(_STATED_STEPS))
    assert recipe.steps is not None  # just stated
    logged = recipe.logged_steps or recipe.steps
    # Paxml's and DeepSpeed's windows count from where the log begins.
    first = random.randrange(logged // 3, logged // 2)
    window = f"{first}:{first + random.randrange(1, 6)}"
    statistic = random.choice(
        ("last", "mean", "median", f"mean[{window}]", f"median[{window}]", f"median[-{random.randrange(2, 11)}:]")
    )
    return replace(
        row,
        recipe=recipe,
        criterion=replace(row.criterion, statistic=statistic, min_steps=math.ceil(logged * STEP_SHARE)),
    )
