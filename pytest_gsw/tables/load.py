"""Baseline tables: YAML files become :class:`Baseline` values, or a list of everything wrong in them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from pytest_gsw.errors import ConfigurationError, Fault, FileError
from pytest_gsw.tables import metrics
from pytest_gsw.tables.accepted import accepted_faults, with_accepted
from pytest_gsw.tables.bundled import bundled_baselines, is_table, table_of_accepted
from pytest_gsw.tables.keys import FILE_FIELDS
from pytest_gsw.tables.lines import read_by_line
from pytest_gsw.tables.metrics import CALIBRATION, TOKENS_PER_S_PER_GPU, Metric, Series
from pytest_gsw.tables.model import Baseline, Documented, Figures, Location, Parallelism, Recipe, Source
from pytest_gsw.tables.yamlfile import Values, read_mapping

#: Share of a run's steps that must be found in its log. Below 1, because a step's line is
#: now and then lost among the lines of other ranks; the last step must always be there.
STEP_SHARE = 0.9

#: The log format of a framework that writes another one's logs; each of the others has a format of its own name.
LOG_FORMATS = {
    # NVIDIA-NeMo/Megatron-Bridge, src/megatron/bridge/training/utils/train_utils.py: Megatron-LM's line.
    "megatron-bridge": "megatron",
}

#: Times that a log of a format shows at most, however many steps the run has.
LOGGED_AT_MOST = {
    # google/paxml, paxml/programs.py, BaseTrainProgram.run: the line is written by log_first_n(…, 20).
    "paxml": 20,
    # huggingface/transformers, Trainer: speed_metrics("train", …) once, when training has ended.
    "huggingface": 1,
}

_NO_PARALLELISM = Parallelism()
_NOTHING: Mapping[str, Any] = {}
_STEP_TIME = metrics.STEP_TIME.name

#: Keys whose values are a row's as they are; one that is not given has the field's default.
_AS_GIVEN = tuple(
    key
    for key in FILE_FIELDS
    if key in Baseline.__dataclass_fields__ and key not in {"accepted", "metrics", "min_steps", "recipe"}
)

#: What a row must have after file, table and row are merged.
_NEEDED = ("size", "dtype", "accelerator", "gpus", "gpus_per_node", "sequence_length", "line")


def load_table(path: Path) -> tuple[Baseline, ...]:
    """All rows of one baseline file, in the file's order; a FileError lists every fault with line and column."""
    owner = table_of_accepted(path)
    if owner is not None:
        raise FileError(path, (Fault(1, 1, "", f"has accepted figures of {owner.name}, and no rows; name the table"),))
    values = read_by_line(path) or read_mapping(path, FILE_FIELDS)
    faults: list[Fault] = []
    rows: list[Baseline] = []
    taken: dict[str, int] = {}
    for number, table in enumerate(values["tables"].value):
        shared = _merge(values, table.value)
        recipe = _recipe_keys(values, table.value)
        made: Recipe | None = None  # nothing of it is a row's own
        for row_number, row in enumerate(table.value["rows"].value):
            merged = _merge(row.value, above=shared)
            judged = _judged(merged, recipe)
            problems = _row_problems(merged, judged, recipe)
            if not problems:
                made = made or _recipe(merged, recipe)
                baseline = _baseline(merged, judged, made, Location(path, row.line, row.column))
                if baseline.id in taken:
                    problems = [f"has the id {baseline.id} of line {taken[baseline.id]}; give it a 'case' of its own"]
                taken.setdefault(baseline.id, row.line)
                rows.append(baseline)
            key = f"tables[{number}].rows[{row_number}]"
            faults += [Fault(row.line, row.column, key, problem) for problem in problems]
    accepted = values["accepted"].value if "accepted" in values else ()
    if accepted:
        # Whether an entry's row is there can be said only of a file whose rows are right.
        faults += accepted_faults(accepted, None if faults else {row.id: row for row in rows})
    if faults:
        raise FileError(path, tuple(faults))
    return with_accepted(path, rows, accepted)


def table_files(path: Path) -> tuple[Path, ...]:
    """The baseline files that a path stands for: itself, or every table below a directory, sorted.

    Raises:
        ConfigurationError: There is no such file or directory, or accepted figures are left of a table that is gone.
    """
    if path.is_file():
        return (path,)
    if not path.is_dir():
        raise ConfigurationError(f"no baselines at {path}: there is no such file or directory")
    found = {p for pattern in ("*.yaml", "*.yml") for p in path.rglob(pattern) if p.is_file()}
    for file in sorted(found):
        table = table_of_accepted(file)
        if table is not None and table not in found:
            raise ConfigurationError(f"{file} has accepted figures of {table}, and there is no such file")
    return tuple(sorted(p for p in found if is_table(p)))


def load_tables(paths: Sequence[Path] | None = None) -> tuple[Baseline, ...]:
    """All rows of all these files and directories; where none is given, of the tables that come with pytest-gsw.

    Raises:
        ConfigurationError: A path does not exist or holds no table, or a file is wrong.
    """
    rows: list[Baseline] = []
    for path in paths or (bundled_baselines(),):
        files = table_files(path)
        if not files:
            raise ConfigurationError(f"no baselines in {path}: there is no .yaml or .yml file")
        rows += (row for file in files for row in load_table(file))
    return tuple(rows)


def _merge(*levels: Values, above: Mapping[str, Any] = _NOTHING) -> dict[str, Any]:
    """Values by key: each from the nearest level that has it, the last."""
    merged = dict(above)
    for level in levels:
        for key, value in level.items():
            merged[key] = value.value
    return merged


class _Judged(NamedTuple):
    """What a row is judged by and against."""

    metric: Metric
    documented: Figures
    #: Fewest steps of its log, ``None`` where nothing says how many there are.
    min_steps: int | None


def _judged(row: Mapping[str, Any], recipe: Mapping[str, Any]) -> _Judged:
    metric = metrics.JUDGED[row.get("metric", _STEP_TIME)]
    return _Judged(metric, _documented(row, metric), row.get("min_steps") or _default_min_steps(row, metric, recipe))


def _row_problems(row: Mapping[str, Any], judged: _Judged, recipe: Mapping[str, Any]) -> list[str]:
    """What is wrong with one row as a whole, each key by itself being right."""
    problems = [f"missing '{needed}' (here, at its table or at the file)" for needed in _NEEDED if needed not in row]
    metric = judged.metric
    stated_as = metrics.SAVE_TIME.key if metric.series is Series.SAVES else metrics.STEP_TIME.key
    if "expected_failure" not in row and getattr(judged.documented, metric.key) is None:
        stated = [key for key in metrics.THROUGHPUTS if key in row] if metric.series is Series.STEPS else []
        needed = f"'{stated_as}', on which the verdict rests"
        if stated:
            needed += f" (or 'global_batch_size', which would give it from {stated[0]})"
        problems.append(f"missing {needed}")
    if CALIBRATION in metric.needs and "calibration_flops" not in row:
        problems.append(f"missing 'calibration_flops', the calibration beside which '{stated_as}' was measured")
    if "directory" not in recipe:
        problems.append("missing 'recipe.directory' (at its table or at the file)")
    if judged.min_steps is None:
        problems.append("missing 'min_steps': neither it nor recipe.steps says how many steps a log must hold")
    problems += [
        f"'metrics.{key}' is a key of the row itself; write it there"
        for key in row.get("metrics", {})
        if key in metrics.BY_KEY or key in metrics.DOCUMENTED
    ]
    gpus, per_node = row.get("gpus"), row.get("gpus_per_node")
    if gpus and per_node and gpus > per_node and gpus % per_node:
        problems.append(f"{gpus} GPUs do not fill whole nodes of {per_node}")
    return problems


def _recipe_keys(file: Values, table: Values) -> dict[str, Any]:
    """The recipe of one table: the file's, key by key overridden by the table's own."""
    return _merge(*(level["recipe"].value for level in (file, table) if "recipe" in level))


def _logged_at_most(row: Mapping[str, Any]) -> int | None:
    return LOGGED_AT_MOST.get(row.get("log_format", row["framework"]))


def _recipe(row: Mapping[str, Any], keys: Mapping[str, Any]) -> Recipe:
    recipe = Recipe(**{**keys, "may_fail": tuple(value.value for value in keys.get("may_fail", ()))})
    most = _logged_at_most(row)
    # One record is no step: it stands for all of them.
    if most is None or most == 1 or recipe.logged_steps is not None or recipe.steps is None:
        return recipe
    return replace(recipe, logged_steps=most) if recipe.steps > most else recipe


def _default_min_steps(row: Mapping[str, Any], metric: Metric, recipe: Mapping[str, Any]) -> int | None:
    """Fewest steps of a row that does not say so itself; ``None`` where nothing says how many there are."""
    most = _logged_at_most(row)
    if metric.series is Series.SAVES or most == 1:
        return 1  # steps say nothing of how many saves, or summaries, there are
    logged: int | None = recipe.get("logged_steps") or recipe.get("steps")
    if logged is None:
        return None
    return math.ceil(min(logged, most or logged) * STEP_SHARE)


def _documented(row: Mapping[str, Any], metric: Metric) -> Figures:
    """The figures that the document states, and the step time where it states a throughput in its place.

    seconds per step = sequence length * global batch size / tokens/s = global batch size / samples/s.
    """
    stated = Figures(**{key: row[key] for key in Figures.__dataclass_fields__ if key in row})
    if stated.tokens_per_s is None and TOKENS_PER_S_PER_GPU in row and "gpus" in row:
        stated = replace(stated, tokens_per_s=row[TOKENS_PER_S_PER_GPU] * row["gpus"])
    if metric.series is Series.SAVES:
        return stated
    step_time_s = _stated_step_time_s(row, stated)
    if getattr(stated, metric.key) == step_time_s == stated.step_time_s:
        return stated  # as the document has it for nearly all rows
    return replace(stated, **{metrics.STEP_TIME.key: step_time_s, metric.key: step_time_s})


def _stated_step_time_s(row: Mapping[str, Any], stated: Figures) -> float | None:
    batch = row.get("global_batch_size")
    if stated.step_time_s is not None or batch is None:
        return stated.step_time_s
    # Tokens first: they are some thousand times as many, and have more digits.
    if stated.tokens_per_s is not None and "sequence_length" in row:
        tokens: float = row["sequence_length"] * batch
        return tokens / stated.tokens_per_s
    if stated.samples_per_s is not None:
        samples: float = batch
        return samples / stated.samples_per_s
    return None


def _parallelism(row: Mapping[str, Any]) -> Parallelism:
    degrees = {key: row[key] for key in Parallelism.__dataclass_fields__ if key in row}
    return Parallelism(**degrees) if degrees else _NO_PARALLELISM


def _baseline(row: Mapping[str, Any], judged: _Judged, recipe: Recipe, location: Location) -> Baseline:
    assert judged.min_steps is not None  # _row_problems has made sure of it
    log_format = row.get("log_format", row["framework"])
    given: dict[str, Any] = {"attributes": _NOTHING, "metrics": _NOTHING}
    given |= {key: row[key] for key in _AS_GIVEN if key in row}
    given["log_format"] = LOG_FORMATS.get(log_format, log_format)
    if "metrics" in row:
        given["metrics"] = {key: Documented(**_merge(stated)) for key, stated in row["metrics"].items()}
    architecture = _merge(row.get("architecture", {}))
    case = f"-{row['case']}" if "case" in row else ""
    name = f"{row['model']}_{row['size']}_{row['dtype']}"
    return Baseline(
        id=f"{name}[{row['accelerator']}x{row['gpus']}{case}]",
        parallelism=_parallelism(row),
        documented=judged.documented,
        min_steps=judged.min_steps,
        model_flops_per_sample=row.get("model_flops"),
        recipe=recipe,
        source=Source(row["document"], row["line"], row.get("release")),
        location=location,
        formula=architecture.get("formula"),
        model_layers=architecture.get("layers"),
        hidden_size=architecture.get("hidden_size"),
        **given,
    )
