"""Baseline tables: YAML files become :class:`Baseline` values, or a list of everything wrong in them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from pytest_gsw.common.words import enumerated
from pytest_gsw.errors import ConfigurationError, Fault, FileError
from pytest_gsw.tables import metrics
from pytest_gsw.tables.bundled import bundled_baselines, is_of_release, is_table, table_of_accepted
from pytest_gsw.tables.fields import Field
from pytest_gsw.tables.keys import FILE_FIELDS, ROW_FIELDS, accepted_faults, with_accepted
from pytest_gsw.tables.metrics import CALIBRATION, TOKENS_PER_S_PER_GPU, Metric, Series
from pytest_gsw.tables.model import (
    BLANK,
    Baseline,
    BlankRow,
    Documented,
    Figures,
    Location,
    Parallelism,
    Recipe,
    Source,
    blank_id,
    row_id,
)
from pytest_gsw.tables.yamlfile import NOWHERE, NULLS, Value, Values, mapping_of, mapping_with_faults, read_text

# -- Tables whose rows stand on one line each, as the importer writes them --------------------------
#
# ``- {gpus: 8, step_time_s: 4.3, line: 12}``. A YAML parser takes most of the time of collecting ten thousand rows. A
# line of bare words needs none: here the parser gets such lines without their keys, and says where in the file they
# stand. Whatever is not plain, and every file in which anything is wrong, is :mod:`pytest_gsw.tables.yamlfile`'s.


_PAIR = r"[a-z_0-9]+: [A-Za-z0-9][A-Za-z0-9_.+%-]*"
_ROW = re.compile(rf"( *- )\{{({_PAIR}(?:, {_PAIR})*)\}}")


def read_by_line(path: Path) -> Values | None:
    """The values of a baseline file in which all is right; ``None`` where that takes a closer look.

    The values of a row know no places of their own.

    Raises:
        FileError: It cannot be read.
    """
    content = read_text(path)
    # An alias, a backslash, or a letter that YAML may count as the end of a line.
    if "*" in content or "\\" in content or not content.isascii() or not content.replace("\n", "").isprintable():
        return None
    lines = content.split("\n")
    rows = {number: match for number, line in enumerate(lines) if (match := _ROW.fullmatch(line))}
    for number, match in rows.items():
        lines[number] = match[1] + "{}"
    try:
        values = mapping_of(path, "\n".join(lines), FILE_FIELDS)
        for table in values["tables"].value:
            for row in table.value["rows"].value:
                match = rows.pop(row.mark.line, None)
                if match is not None:
                    row.value.update(_pairs(match[2]))
    except (FileError, ValueError):
        return None
    return None if rows else values  # what is left looks like a row, in a text or where no row may stand


def _pairs(text: str) -> dict[str, Value]:
    """The values of one row; a ValueError where a key or a value is wrong."""
    pairs = text.split(", ")
    values = dict(map(_pair, pairs))
    if len(values) < len(pairs):
        raise ValueError(text)
    return values


@lru_cache(1024)  # the rows of a table have most of them in common
def _pair(text: str) -> tuple[str, Value]:
    key, _, raw = text.partition(": ")
    field = ROW_FIELDS.get(key)
    if not isinstance(field, Field) or raw in NULLS:
        raise ValueError(text)
    return key, Value(field.read(raw), NOWHERE)


#: Share of a run's steps that must be found in its log. Below 1, because a step's line is
#: now and then lost among the lines of other ranks; the last step must always be there.
STEP_SHARE = 0.9
#: Fewest steps of a row that states neither ``min_steps`` nor how many its recipe runs: the recipes' own figures are
#: means of ten.
FEWEST_STEPS = 10

#: The log format of a framework that writes another one's logs; each of the others has a format of its own name.
LOG_FORMATS = {
    # NVIDIA-NeMo/Megatron-Bridge, src/megatron/bridge/training/utils/train_utils.py: Megatron-LM's line.
    "megatron-bridge": "megatron",
    # mosaicml/llm-foundry, scripts/train/train.py: Composer's Trainer trains.
    "llm-foundry": "composer",
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
_NEEDED = ("dtype", "accelerator", "gpus", "gpus_per_node")
#: What may give the figure that the verdict rests on.
_OF_VERDICT = frozenset(
    {*metrics.DOCUMENTED, "metric", "global_batch_size", "sequence_length", "gpus", "expected_failure"}
)


class Found(NamedTuple):
    """A row of which something is blank, as it is read."""

    id: str
    location: Location
    known: Mapping[str, Any]
    #: The keys of its file, its table and itself; the nearest level that has a key counts.
    levels: tuple[Values, Values, Values]
    table_line: int


class Table(NamedTuple):
    """The rows of one baseline file or of several."""

    rows: tuple[Baseline, ...]
    #: Those that cannot run, because something of them is blank.
    blanks: tuple[BlankRow, ...]


def load_table(path: Path) -> tuple[Baseline, ...]:
    """The rows of one baseline file that can run; see :func:`read_table`."""
    return read_table(path).rows


def read_table(path: Path) -> Table:
    """All rows of one baseline file, in the file's order; a FileError lists every fault with line and column."""
    owner = table_of_accepted(path)
    if owner is not None:
        raise FileError(path, (Fault(1, 1, "", f"has accepted figures of {owner.name}, and no rows; name the table"),))
    faults: list[Fault] = []
    values = read_by_line(path)
    if values is None:
        values, faults = mapping_with_faults(path, read_text(path), FILE_FIELDS)
    is_right = not faults
    rows: list[Baseline] = []
    found: list[Found] = []
    taken: dict[str, int] = {}
    for number, table in _entries(values, "tables"):
        shared = _merge(values, table.value)
        # The file's, key by key overridden by the table's own.
        recipe = _merge(*(level["recipe"].value or {} for level in (values, table.value) if "recipe" in level))
        recipe_unknown = frozenset(f"recipe.{key}" for key, value in recipe.items() if value is None)
        made: Recipe | None = None  # nothing of it is a row's own
        for row_number, row in _entries(table.value, "rows"):
            known = stated = _merge(row.value, above=shared)
            unknown = recipe_unknown
            if None in stated.values():
                unknown |= {key for key, value in stated.items() if value is None}
                known = {key: value for key, value in stated.items() if value is not None}
            judged = _judged(known, recipe)
            problems = _row_problems(known, judged, recipe, unknown)
            if not problems:
                location = Location(path, row.line, row.column)
                name = row_id(stated) if is_right and not unknown else blank_id(stated)
                if name in taken and BLANK in name:
                    name = f"{name[:-1]}-line{location.line}]"  # filled in, it may be another row
                if name in taken:
                    problems = [f"has the id {name} of line {taken[name]}; give it a 'case' of its own"]
                taken.setdefault(name, location.line)
                if unknown:
                    found.append(Found(name, location, known, (values, table.value, row.value), table.line))
                elif is_right:
                    made = made or _recipe(known, recipe)
                    rows.append(_baseline(name, known, judged, made, location))
            key = f"tables[{number}].rows[{row_number}]"
            faults += [Fault(row.line, row.column, key, problem) for problem in problems]
    # Whether a figure is one of a blank row is not known yet.
    named = {row.id for row in found}
    accepted = [entry for _, entry in _entries(values, "accepted") if _row_of(entry) not in {None, *named}]
    if accepted:
        # Whether an entry's row is there can be said only of a file whose rows are right.
        faults += accepted_faults(accepted, None if faults else {row.id: row for row in rows})
    if faults:
        raise FileError(path, tuple(faults))
    right = with_accepted(path, rows, accepted, named)
    if not found:
        return Table(right, ())
    from pytest_gsw.tables.blanks import blank_rows  # few tables have any

    return Table(right, blank_rows(path, found))


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
    found = {file for file in found if not is_of_release(file, path)}
    for file in sorted(found):
        table = table_of_accepted(file)
        if table is not None and table not in found:
            raise ConfigurationError(f"{file} has accepted figures of {table}, and there is no such file")
    return tuple(sorted(p for p in found if is_table(p)))


def load_tables(paths: Sequence[Path] | None = None) -> tuple[Baseline, ...]:
    """The rows that can run of all these files and directories; see :func:`read_tables`."""
    return read_tables(paths).rows


def read_tables(paths: Sequence[Path] | None = None) -> Table:
    """All rows of all these files and directories; where none is given, of the tables that come with pytest-gsw.

    Raises:
        ConfigurationError: A path does not exist or holds no table, or a file is wrong.
    """
    rows: list[Baseline] = []
    blanks: list[BlankRow] = []
    for path in paths or (bundled_baselines(),):
        files = table_files(path)
        if not files:
            raise ConfigurationError(f"no baselines in {path}: there is no .yaml or .yml file")
        for table in map(read_table, files):
            rows += table.rows
            blanks += table.blanks
    return Table(tuple(rows), tuple(blanks))


def _entries(values: Values, key: str) -> Iterator[tuple[int, Value]]:
    """The entries of a list with their numbers, without those that are wrong."""
    listed = values[key].value if key in values else None
    return ((number, entry) for number, entry in enumerate(listed or ()) if entry.value is not None)


def _row_of(entry: Value) -> str | None:
    """The row of an accepted figure; ``None`` where the entry does not say whose it is."""
    whose = [entry.value[key].value if key in entry.value else None for key in ("row", "cluster")]
    return None if None in whose else whose[0]


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
    #: Fewest steps of its log.
    min_steps: int


def _judged(row: Mapping[str, Any], recipe: Mapping[str, Any]) -> _Judged:
    metric = metrics.JUDGED[row.get("metric", _STEP_TIME)]
    return _Judged(metric, _documented(row, metric), row.get("min_steps") or _default_min_steps(row, metric, recipe))


def _row_problems(
    row: Mapping[str, Any], judged: _Judged, recipe: Mapping[str, Any], unknown: AbstractSet[str]
) -> list[str]:
    """What is wrong with one row as a whole, each key by itself being right; what is not known yet may be right."""
    problems = [
        f"missing '{needed}' (here, at its table or at the file)"
        for needed in _NEEDED
        if needed not in row and needed not in unknown
    ]
    if "line" in row and "document" not in row and "document" not in unknown:
        problems.append("has a 'line', and no 'document' that it is a line of")
    metric = judged.metric
    stated_as = metrics.SAVE_TIME.key if metric.series is Series.SAVES else metrics.STEP_TIME.key
    has_none = "expected_failure" not in row and getattr(judged.documented, metric.key) is None
    if has_none and not _OF_VERDICT & unknown:
        stated = [key for key in metrics.THROUGHPUTS if key in row] if metric.series is Series.STEPS else []
        needed = f"'{stated_as}', on which the verdict rests"
        if stated:
            gives = ("global_batch_size", *(() if stated[0] == metrics.SAMPLES_PER_S.key else ("sequence_length",)))
            lacking = enumerated([f"'{key}'" for key in gives if key not in row])
            needed += f" (or {lacking}, which would give it from {stated[0]})"
        problems.append(f"missing {needed}")
    if CALIBRATION in metric.needs and "calibration_flops" not in {*row, *unknown}:
        problems.append(f"missing 'calibration_flops', the calibration beside which '{stated_as}' was measured")
    if "directory" not in recipe and "recipe" not in unknown:
        problems.append("missing 'recipe.directory' (at its table or at the file)")
    problems += [
        f"'metrics.{key}' is a key of the row itself; write it there"
        for key in row.get("metrics") or ()
        if key in metrics.BY_KEY or key in metrics.DOCUMENTED
    ]
    gpus, per_node = row.get("gpus"), row.get("gpus_per_node")
    if gpus and per_node and gpus > per_node and gpus % per_node:
        problems.append(f"{gpus} GPUs do not fill whole nodes of {per_node}")
    return problems


def _logged_at_most(row: Mapping[str, Any]) -> int | None:
    return LOGGED_AT_MOST.get(row.get("log_format") or row.get("framework", ""))


def _recipe(row: Mapping[str, Any], keys: Mapping[str, Any]) -> Recipe:
    lists = {name: tuple(value.value for value in keys[name]) for name in ("may_fail", "arguments") if name in keys}
    recipe = Recipe(**{**keys, **lists})
    most = _logged_at_most(row)
    # One record is no step: it stands for all of them.
    if most is None or most == 1 or recipe.logged_steps is not None or recipe.steps is None:
        return recipe
    return replace(recipe, logged_steps=most) if recipe.steps > most else recipe


def _default_min_steps(row: Mapping[str, Any], metric: Metric, recipe: Mapping[str, Any]) -> int:
    """Fewest steps of a row that does not state them itself."""
    most = _logged_at_most(row)
    if metric.series is Series.SAVES or most == 1:
        return 1  # steps say nothing of how many saves, or summaries, there are
    logged: int | None = recipe.get("logged_steps") or recipe.get("steps")
    if logged is None:
        return min(FEWEST_STEPS, most or FEWEST_STEPS)
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


def _baseline(name: str, row: Mapping[str, Any], judged: _Judged, recipe: Recipe, location: Location) -> Baseline:
    log_format = row.get("log_format", row["framework"])
    given: dict[str, Any] = {"attributes": _NOTHING, "metrics": _NOTHING}
    given |= {key: row[key] for key in _AS_GIVEN if key in row}
    given["log_format"] = LOG_FORMATS.get(log_format, log_format)
    if "metrics" in row:
        given["metrics"] = {key: Documented(**_merge(stated)) for key, stated in row["metrics"].items()}
    architecture = _merge(row.get("architecture", {}))
    return Baseline(
        id=name,
        parallelism=_parallelism(row),
        documented=judged.documented,
        min_steps=judged.min_steps,
        model_flops_per_sample=row.get("model_flops"),
        recipe=recipe,
        source=Source(
            row.get("document", location.path.name),
            row.get("line", None if "document" in row else location.line),
            row.get("release"),
            row.get("releases", ()),
            row.get("title", ""),
            row.get("section", ""),
        ),
        location=location,
        formula=architecture.get("formula"),
        model_layers=architecture.get("layers"),
        hidden_size=architecture.get("hidden_size"),
        **given,
    )
