"""Baseline tables: YAML files become :class:`Baseline` values, or a list of all their faults."""

from __future__ import annotations

import bisect
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import cache, lru_cache
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from pytest_gsw.common.blocks import PROGRAMS, Block, BlockError, text_block
from pytest_gsw.common.files import relative_path
from pytest_gsw.common.groups import grouped
from pytest_gsw.common.text import command, enumerated
from pytest_gsw.errors import ConfigurationError, Fault, FileError, RunError
from pytest_gsw.tables import bundled, metrics, model, yaml_values
from pytest_gsw.tables.metrics import CALIBRATION, TOKENS_PER_S_PER_GPU, Direction, Metric, Series
from pytest_gsw.tables.model import Baseline, Figures, Location, Recipe
from pytest_gsw.tables.schema import FILE_FIELDS, PROGRAM_FILE_FIELDS, RECIPE_FIELDS, ROW_FIELDS, with_accepted
from pytest_gsw.tables.value_types import Field, nearest
from pytest_gsw.tables.yaml_values import Value, Values, mark_at, read_mapping, read_text

# -- Tables with one row per line, as the importer writes them --------------------------------------

# ``- {gpus: 8, step_time_s: 4.3, line: 12}``. A YAML parser takes most of the time of collecting ten thousand rows, and
# a line of bare words needs none: here the parser gets such lines without their keys, and returns their places.
# :mod:`pytest_gsw.tables.yaml_values` reads all other lines, and every file with a fault.


_PAIR = r"[a-z_0-9]+: [A-Za-z0-9][A-Za-z0-9_.+%-]*"
_ROW = re.compile(rf"( *- )\{{({_PAIR}(?:, {_PAIR})*)\}}")


def read_by_line(path: Path) -> Values | None:
    """The values of a baseline file without faults; ``None`` if it needs the full parser.

    The values of a row have no places of their own.

    Raises:
        FileError: It cannot be read.
    """
    content = read_text(path)
    # An alias, a backslash, or a letter that YAML may count as the end of a line.
    if "*" in content or "\\" in content or not content.isascii() or not content.replace("\n", "").isprintable():
        return None
    lines = content.split("\n")
    # Consecutive rows by the line of the first one, the only one that the parser gets.
    runs: dict[int, list[re.Match[str]]] = {}
    run: list[re.Match[str]] = []
    for number, line in enumerate(lines):
        match = _ROW.fullmatch(line)
        if match is None:
            run = []
        elif run and run[0][1] == match[1]:
            run.append(match)
            lines[number] = ""
        else:
            run = runs[number] = [match]
            lines[number] = f"{match[1]}{{}}"
    try:
        values = read_mapping(path, FILE_FIELDS, "\n".join(lines))
        for table in values["tables"].value:
            rows = table.value["rows"]
            table.value["rows"] = rows._replace(value=tuple(one for row in rows.value for one in _rows_of(row, runs)))
    except (FileError, ValueError):
        return None
    return None if runs else values  # what is left looks like a row, in a text or where no row may be


def _rows_of(row: Value, runs: dict[int, list[re.Match[str]]]) -> Sequence[Value]:
    """The rows that the parser got as this one; it is their first."""
    run = runs.pop(row.mark.line, None)
    if run is None:
        return (row,)
    return [Value(_pairs(match[2]), mark_at(at, row.mark.column)) for at, match in enumerate(run, row.mark.line)]


def _pairs(text: str) -> dict[str, Value]:
    """The values of one row; a ValueError if a key or a value is wrong."""
    pairs = text.split(", ")
    values = dict(map(_pair, pairs))
    if len(values) < len(pairs):
        raise ValueError(text)
    return values


@lru_cache(1024)  # the rows of a table have most of them in common
def _pair(text: str) -> tuple[str, Value]:
    key, _, raw = text.partition(": ")
    field = ROW_FIELDS.get(key)
    if not isinstance(field, Field) or raw in yaml_values.NULLS:
        raise ValueError(text)
    return key, Value(field.read(raw), yaml_values.NOWHERE)


#: Share of a run's steps that must be in its log. Below 1, because a step's line is sometimes lost among the lines of
#: other ranks; the last step must always be there.
STEP_SHARE = 0.9
#: Fewest steps of a row without ``min_steps`` and without the recipe's number of steps: the recipes' own figures are
#: means of ten.
FEWEST_STEPS = 10

#: The log format of a framework that writes another one's logs; all others have a format of their own name.
LOG_FORMATS = {
    # NVIDIA-NeMo/Megatron-Bridge, src/megatron/bridge/training/utils/train_utils.py: Megatron-LM's line.
    "megatron-bridge": "megatron",
    # mosaicml/llm-foundry, scripts/train/train.py: Composer's Trainer trains.
    "llm-foundry": "composer",
}

#: Upper limit on times in a log of a format, however many steps the run has.
LOGGED_AT_MOST = {
    # google/paxml, paxml/programs.py, BaseTrainProgram.run: the line is written by log_first_n(…, 20).
    "paxml": 20,
    # huggingface/transformers, Trainer: speed_metrics("train", …) once, when training has ended.
    "huggingface": 1,
}

_NO_PARALLELISM = model.Parallelism()
#: The fields of :class:`Parallelism`, in order.
_DEGREES = ("tp", "pp", "cp", "ep", "dp", "vp", "fsdp")
_EMPTY: Mapping[str, Any] = {}

#: Keys of a row with the same meaning, and the same default if they are missing, in :class:`Criterion` and in
#: :class:`Baseline`.
_CRITERION_KEYS = (
    "metric",
    "at",
    "read",
    "unit",
    "better",
    "label",
    "statistic",
    "max_gain",
    "loss",
    "expected_failure",
)
_ROW_KEYS = ("calibration_flops", "notes", "canary")

#: Required keys of a row after file, table and row are merged.
_REQUIRED_KEYS = ("dtype", "accelerator", "gpus", "gpus_per_node")
#: Keys that may give the figure of the verdict.
_VERDICT_KEYS = frozenset(
    {*metrics.DOCUMENTED, metrics.VALUE, "metric", "global_batch_size", "sequence_length", "gpus", "expected_failure"}
)

#: Metrics of rows that train, and the keys of a figure, which these have not.
_OF_TRAINING = frozenset(name for name, metric in metrics.JUDGED.items() if metric.series is not Series.FIGURES)
_OF_FIGURE = frozenset({metrics.VALUE, "at", "read", "unit", "better", "label"})
#: Names of figures that no table may give another meaning, and the beginning of pytest-gsw's names in JUnit.
_RESERVED = frozenset({*metrics.BY_KEY, *metrics.DOCUMENTED, *metrics.FURTHER})
_OWN_NAMES = "gsw_"
#: The row's ``at``, in a program's block.
_POINT = "{at}"


class _BlankEntry(NamedTuple):
    """A row with a blank value, as read."""

    id: str
    location: Location
    known: Mapping[str, Any]
    #: The keys of its file, its table and itself; the nearest level that has a key counts.
    levels: tuple[Values, Values, Values]
    table_line: int


class Table(NamedTuple):
    """The rows of one baseline file or of several."""

    rows: tuple[Baseline, ...]
    #: Rows that cannot run, because a value is blank.
    blanks: tuple[model.BlankRow, ...]


def load_table(path: Path) -> tuple[Baseline, ...]:
    """The rows of one baseline file that can run; see :func:`read_table`."""
    return read_table(path).rows


def read_table(path: Path) -> Table:
    """All rows of one baseline file, in the file's order; a FileError lists every fault with line and column."""
    owner = bundled.table_of_accepted(path)
    if owner is not None:
        raise FileError(path, (Fault(1, 1, "", f"has accepted figures of {owner.name}, and no rows; name the table"),))
    faults: list[Fault] = []
    values = read_by_line(path)
    if values is None:
        values, faults = yaml_values.mapping_with_faults(path, read_text(path), FILE_FIELDS)
    is_right = not faults
    rows: list[Baseline] = []
    found: list[_BlankEntry] = []
    line_by_id: dict[str, int] = {}
    for number, table in _entries(values, "tables"):
        shared = _merge(values, table.value)
        # The file's, overridden key by key by the table's own.
        recipe = _merge(*(level["recipe"].value or {} for level in (values, table.value) if "recipe" in level))
        recipe_unknown = frozenset(f"recipe.{key}" for key, value in recipe.items() if value is None)
        made: Recipe | None = None  # nothing of it is a row's own
        for row_number, row in _entries(table.value, "rows"):
            facts = stated = _merge(row.value, above=shared)
            unknown = recipe_unknown
            if None in stated.values():
                unknown |= {key for key, value in stated.items() if value is None}
                facts = {key: value for key, value in stated.items() if value is not None}
            facts, problems = _with_block(facts)
            judged = facts.get("metric", metrics.STEP_TIME.name)
            metric = metrics.metric_of(judged, facts.get("unit"), facts.get("better"), label=facts.get("label"))
            documented = _document_figures(facts, metric)
            problems = problems or _row_problems(facts, metric, documented, recipe, unknown)
            if not problems:
                location = Location(path, row.line, row.column)
                name = model.row_id(stated) if is_right and not unknown else model.blank_id(stated)
                if name in line_by_id and model.BLANK in name:
                    name = f"{name[:-1]}-line{location.line}]"  # filled in, it may be another row
                if name in line_by_id:
                    problems = [f"has the id {name} of line {line_by_id[name]}; give it a 'case' of its own"]
                line_by_id.setdefault(name, location.line)
                if unknown:
                    found.append(_BlankEntry(name, location, facts, (values, table.value, row.value), table.line))
                elif is_right:
                    made = made or _recipe(facts, recipe)
                    min_steps = facts.get("min_steps") or _default_min_steps(facts, metric, recipe)
                    rows.append(_baseline(name, facts, documented, min_steps, made, location))
            key = f"tables[{number}].rows[{row_number}]"
            faults += [Fault(row.line, row.column, key, problem) for problem in problems]
    if faults:
        raise FileError(path, tuple(faults))
    return Table(with_accepted(path, rows, {row.id for row in found}), tuple(_blank_rows(path, found)))


def table_files(path: Path) -> tuple[Path, ...]:
    """The baseline files of a path: itself, or every table below a directory, sorted.

    Raises:
        ConfigurationError: There is no such file or directory, or accepted figures of a missing table remain.
    """
    if path.is_file():
        return (path,)
    if not path.is_dir():
        raise ConfigurationError(f"no baselines at {path}: there is no such file or directory\nnext: pytest-gsw rows")
    found = {p for pattern in ("*.yaml", "*.yml") for p in path.rglob(pattern) if p.is_file()}
    found = {file for file in found if not bundled.is_of_release(file, path)}
    for file in sorted(found):
        table = bundled.table_of_accepted(file)
        if table is not None and table not in found:
            raise ConfigurationError(f"{file} has accepted figures of {table}, and there is no such file")
    return tuple(sorted(p for p in found if bundled.is_table(p)))


def load_tables(paths: Sequence[Path] | None = None) -> tuple[Baseline, ...]:
    """The rows of all these files and directories that can run; see :func:`read_tables`."""
    return read_tables(paths).rows


def table_name(path: Path) -> str:
    """A table's name as in sessions' node ids."""
    home = bundled.bundled_baselines()
    return (path.relative_to(home.parent) if path.is_relative_to(home) else relative_path(path)).as_posix()


def find_row(given: str, tables: Sequence[Path] | None) -> Baseline:
    """The row of this id, or of this node id of pytest.

    Raises:
        ConfigurationError: There is none, or more than one, or a table is wrong.
    """
    wanted = given.rpartition("::")[2]
    rows = load_tables(tables)
    found = [row for row in rows if row.id == wanted]
    if not found:
        raise ConfigurationError(
            f"there is no row '{wanted}'{nearest(wanted, [row.id for row in rows])}\nnext: pytest-gsw rows"
        )
    if len(found) > 1:
        places = "\n".join(f"  {row.location}" for row in found)
        raise ConfigurationError(f"there are {len(found)} rows '{wanted}':\n{places}\nnext: name one with --baselines")
    return found[0]


def accepted_figures(paths: Sequence[Path] | None = None) -> dict[str, Mapping[str, model.Accepted]]:
    """The accepted figures of all rows that have not ended, by row and cluster."""
    return {
        row.id: {cluster: one for cluster, one in row.accepted.items() if not model.has_ended(row, one)}
        for row in load_tables(paths)
    }


def read_tables(paths: Sequence[Path] | None = None) -> Table:
    """All rows of all these files and directories; by default, of the bundled tables.

    Raises:
        ConfigurationError: A path does not exist or holds no table, or a file is wrong.
    """
    rows: list[Baseline] = []
    blanks: list[model.BlankRow] = []
    for path in paths or (bundled.bundled_baselines(),):
        files = table_files(path)
        if not files:
            raise ConfigurationError(f"no baselines in {path}: there is no .yaml or .yml file")
        for table in map(read_table, files):
            rows += table.rows
            blanks += table.blanks
    return Table(tuple(rows), tuple(blanks))


def _entries(values: Values, key: str) -> Iterator[tuple[int, Value]]:
    """The valid entries of a list with their numbers."""
    listed = values[key].value if key in values else None
    return ((number, entry) for number, entry in enumerate(listed or ()) if entry.value is not None)


def _merge(*levels: Values, above: Mapping[str, Any] = _EMPTY) -> dict[str, Any]:
    """Values by key: each from the nearest level that has it, the last."""
    merged = dict(above)
    for level in levels:
        for key, value in level.items():
            merged[key] = value.value
    return merged


def _row_problems(
    row: Mapping[str, Any], metric: Metric, documented: Figures, recipe: Mapping[str, Any], unknown: AbstractSet[str]
) -> list[str]:
    """Faults of one row as a whole, after each key was found right; unknown values may be right."""
    problems = [
        f"missing '{needed}' (here, at its table or at the file)"
        for needed in _REQUIRED_KEYS
        if needed not in row and needed not in unknown
    ]
    if "line" in row and "document" not in row and "document" not in unknown:
        problems.append("has a 'line', and no 'document' that it is a line of")
    stated_as = metrics.STEP_TIME.key if metric.series is Series.STEPS else metric.field
    is_known = metric.name in metrics.JUDGED or "read" in {*row, *unknown}
    has_none = is_known and "expected_failure" not in row and getattr(documented, metric.field) is None
    if has_none and not _VERDICT_KEYS & unknown:
        stated = [key for key in metrics.THROUGHPUTS if key in row] if metric.series is Series.STEPS else []
        needed = f"'{stated_as}', on which the verdict rests"
        if stated:
            gives = ("global_batch_size", *(() if stated[0] == metrics.SAMPLES_PER_S.key else ("sequence_length",)))
            lacking = enumerated([f"'{key}'" for key in gives if key not in row])
            needed += f" (or {lacking}, which would give it from {stated[0]})"
        problems.append(f"missing {needed}")
    if CALIBRATION in metric.needs and "calibration_flops" not in {*row, *unknown}:
        problems.append(f"missing 'calibration_flops', the calibration with which '{stated_as}' was measured")
    if "directory" not in recipe and "recipe" not in unknown:
        problems.append("missing 'recipe.directory' (at its table or at the file)")
    if "metric" not in unknown and not (metric.name in _OF_TRAINING and row.keys().isdisjoint(_OF_FIGURE)):
        problems += _figure_problems(row, metric, unknown)
    for key, stated in (row.get("metrics") or {}).items():
        if key in metrics.BY_KEY or key in metrics.DOCUMENTED:
            problems.append(f"'metrics.{key}' is a key of the row itself; write it there")
        if len(stated.keys() & {"value", "most", "least"}) != 1:
            problems.append(f"'metrics.{key}' has to have 'value', 'most' or 'least'")
        elif len(stated) > 1 + ("value" in stated):
            problems.append(f"'metrics.{key}' has 'tolerance' or 'within', one of which goes with 'value'")
    gpus, per_node = row.get("gpus"), row.get("gpus_per_node")
    if gpus and per_node and gpus > per_node and gpus % per_node:
        problems.append(f"{gpus} GPUs do not fill whole nodes of {per_node}")
    return problems


def _figure_problems(row: Mapping[str, Any], metric: Metric, unknown: AbstractSet[str]) -> list[str]:
    """Faults in the keys of a figure, or in a row of training that has some."""
    own = [key for key in ("unit", "better") if key in row]
    if metric.name not in metrics.JUDGED:
        if "read" not in {*row, *unknown}:
            near = nearest(metric.key, metrics.JUDGED)
            return [f"has the unknown metric '{metric.key}'{near or '; one of your own has its block in read'}"]
        if metric.key in _RESERVED or metric.key.startswith(_OWN_NAMES):
            return [f"has the metric '{metric.key}', a name that pytest-gsw has itself; give the figure another"]
        return [
            f"missing '{key}' of the metric {metric.key}" for key in ("unit", "better") if key not in {*row, *unknown}
        ]
    if metric.series is Series.FIGURES:
        # Imported late: tables of training have no such settings.
        from pytest_gsw.tables.benchmark_settings import setting_problems

        is_better = "higher" if metric.direction is Direction.HIGHER_IS_BETTER else "lower"
        return [
            *(f"has '{key}', but {metric.key} is in {metric.unit}, and {is_better} is better" for key in own),
            *([f"has 'label', and {metric.key} is called {metric.label}"] if "label" in row else []),
            *setting_problems(row.get("log_format") or row.get("framework", ""), row.get("attributes") or {}),
        ]
    keys = [key for key in (metrics.VALUE, "at", "read", *own, "label") if key in row]
    return [f"has '{key}', which belongs to a figure, and its metric is {metric.name}" for key in keys]


@cache
def _programs() -> Mapping[str, Mapping[str, Mapping[str, Any]]]:
    """The figures of each program with blocks of its own, by metric."""
    programs = read_mapping(Path(__file__).with_name("programs.yaml"), PROGRAM_FILE_FIELDS)["programs"].value
    return {
        name: {figure.value["metric"].value: _merge(figure.value) for figure in program["figures"].value}
        for name, program in programs.items()
    }


def _with_block(row: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """A row with the block of its figure, and with the unit and direction of a program's; and its faults."""
    is_program = row.get("framework") in PROGRAMS and "log_format" not in row
    stated: Any = row.get("read", row["framework"] if is_program else None)
    if stated is None:
        return row, []
    own: dict[str, Any] = {}
    if isinstance(stated, str) and stated in PROGRAMS:
        own["program"], figures = stated, _programs()[stated]
        key = row.get("metric", next(iter(figures)))
        if key not in figures:
            return row, [f"has the metric '{key}', and {stated} has {enumerated([*figures])}"]
        stated = {**figures[key]}
        own |= {name: stated.pop(name) for name in ("metric", "unit", "better") if name in stated}
    elif not isinstance(stated, str):
        stated = _merge(stated)
    has_point = own and _POINT in str(stated)
    problems = [
        *(f"has '{key}', and 'read' has 'each' and 'statistic'" for key in ("statistic", "min_steps") if key in row),
        *(f"has '{key}: {row[key]}', and it is {own[key]}" for key in own if row.get(key, own[key]) != own[key]),
        *(["missing 'at', the point of the benchmark that is judged"] if has_point and "at" not in row else []),
        *(["has 'at' and 'read', and a block finds no points"] if "at" in row and not has_point else []),
    ]
    if problems:
        return row, problems
    try:
        block = text_block(stated) if isinstance(stated, str) else Block(**_at(stated, row.get("at", _POINT)))
    except BlockError as error:
        return row, [f"'read' {error}"]
    return {**row, **own, "read": block}, []


def _at(value: Any, point: str) -> Any:
    """The values of a block at a point of the benchmark."""
    if isinstance(value, dict):
        return {key: _at(one, point) for key, one in value.items()}
    if isinstance(value, tuple):
        return tuple(_at(one, point) for one in value)
    return value.replace(_POINT, point) if isinstance(value, str) else value


def _most_logged_steps(row: Mapping[str, Any]) -> int | None:
    return LOGGED_AT_MOST.get(row.get("log_format") or row.get("framework", ""))


def _recipe(row: Mapping[str, Any], keys: Mapping[str, Any]) -> Recipe:
    lists = {name: tuple(value.value for value in keys[name]) for name in ("may_fail", "arguments") if name in keys}
    recipe = Recipe(**{**keys, **lists})
    most = _most_logged_steps(row)
    # One record is no step: it covers all of them.
    if most is None or most == 1 or recipe.logged_steps is not None or recipe.steps is None:
        return recipe
    return replace(recipe, logged_steps=most) if recipe.steps > most else recipe


def _default_min_steps(row: Mapping[str, Any], metric: Metric, recipe: Mapping[str, Any]) -> int:
    """Fewest steps of a row that does not state them itself."""
    most = _most_logged_steps(row)
    if metric.series is not Series.STEPS or most == 1:
        return 1  # steps do not show how many saves, figures or summaries there are
    logged: int | None = recipe.get("logged_steps") or recipe.get("steps")
    if logged is None:
        return min(FEWEST_STEPS, most or FEWEST_STEPS)
    return math.ceil(min(logged, most or logged) * STEP_SHARE)


def _document_figures(row: Mapping[str, Any], metric: Metric) -> Figures:
    """The documented figures, with the step time from a throughput if the document states only that.

    seconds per step = sequence length * global batch size / tokens/s = global batch size / samples/s.
    """
    document_figures = Figures(**{key: row[key] for key in Figures.__dataclass_fields__ if key in row})
    if document_figures.tokens_per_s is None and TOKENS_PER_S_PER_GPU in row and "gpus" in row:
        document_figures = replace(document_figures, tokens_per_s=row[TOKENS_PER_S_PER_GPU] * row["gpus"])
    if metric.series is not Series.STEPS:
        return document_figures
    step_time_s = _stated_step_time_s(row, document_figures)
    if getattr(document_figures, metric.key) == step_time_s == document_figures.step_time_s:
        return document_figures  # as in nearly all documents
    return replace(document_figures, **{metrics.STEP_TIME.key: step_time_s, metric.key: step_time_s})


def _stated_step_time_s(row: Mapping[str, Any], document_figures: Figures) -> float | None:
    batch: int | None = row.get("global_batch_size")
    if document_figures.step_time_s is not None or batch is None:
        return document_figures.step_time_s
    # Tokens first: they are some thousand times as many, and have more digits.
    if document_figures.tokens_per_s is not None and "sequence_length" in row:
        return float(row["sequence_length"] * batch / document_figures.tokens_per_s)
    return None if document_figures.samples_per_s is None else batch / document_figures.samples_per_s


def _documented(key: str, stated: Mapping[str, Any]) -> model.Documented:
    """A further figure of a row, or its limit."""
    for name, direction in (("most", Direction.LOWER_IS_BETTER), ("least", Direction.HIGHER_IS_BETTER)):
        if name in stated:
            return model.Documented(stated[name], 0.0, direction)
    is_exact = key == metrics.SUCCESSFUL_REQUESTS.key and not stated.keys() & {"within", "tolerance"}
    if "within" in stated or is_exact:
        return model.Documented(stated["value"], stated.get("within", 0.0), Direction.EQUAL_IS_BEST)
    return model.Documented(stated["value"], stated.get("tolerance"))


def _baseline(
    name: str, row: Mapping[str, Any], documented: Figures, min_steps: int, recipe: Recipe, location: Location
) -> Baseline:
    log_format = row.get("log_format", row["framework"])
    log_format = row.get("program", "read") if "read" in row else LOG_FORMATS.get(log_format, log_format)
    judged_by = metrics.JUDGED.get(row.get("metric", ""), metrics.STEP_TIME)
    architecture = _merge(row.get("architecture", _EMPTY))
    return Baseline(
        id=name,
        workload=model.Workload(
            model=row["model"],
            size=row.get("size"),
            framework=row["framework"],
            log_format=log_format,
            dtype=row["dtype"],
            sequence_length=row.get("sequence_length"),
            layers=row.get("layers"),
            model_layers=architecture.get("layers"),
            hidden_size=architecture.get("hidden_size"),
            proxy=row.get("proxy", False),
            model_flops_per_sample=row.get("model_flops"),
            formula=architecture.get("formula"),
            activation_recomputation=row.get("activation_recomputation", False),
        ),
        accelerator=row["accelerator"],
        gpus=row["gpus"],
        gpus_per_node=row["gpus_per_node"],
        batch=model.Batch(
            global_batch_size=row.get("global_batch_size"),
            micro_batch_size=row.get("micro_batch_size"),
            gradient_accumulation_steps=row.get("gradient_accumulation_steps"),
        ),
        parallelism=_NO_PARALLELISM if row.keys().isdisjoint(_DEGREES) else model.Parallelism(*map(row.get, _DEGREES)),
        documented=documented,
        criterion=model.Criterion(
            min_steps=min_steps,
            tolerance=row.get("tolerance", judged_by.tolerance),
            stated_tolerance=row.get("tolerance"),
            **{key: row[key] for key in _CRITERION_KEYS if key in row},
        ),
        metrics={key: _documented(key, _merge(stated)) for key, stated in row.get("metrics", _EMPTY).items()},
        attributes=row.get("attributes", _EMPTY),
        recipe=recipe,
        source=model.Source(
            row.get("document", location.path.name),
            row.get("line", None if "document" in row else location.line),
            row.get("release"),
            row.get("releases", ()),
            row.get("title", ""),
            row.get("section", ""),
        ),
        location=location,
        **{key: row[key] for key in _ROW_KEYS if key in row},
    )


# -- Rows that cannot run, because a key of theirs has no value --------------------------------------

# ``pytest-gsw import`` leaves a key blank if the document does not state it. Each such row is an error of its own; the
# other rows of its table run.

#: The importer's comments behind a blank of a file or a table, and above the row of a blank, with the key.
BLANK_BEHIND = "  # BLANK: "
BLANK_ABOVE = "BLANK "
#: The importer's comment behind a table's title: the line of the table's header in the document.
TABLE_AT_LINE = "  # table at line "

#: Keys that name a row in facts.yaml, and are therefore no facts of it.
_NO_FACTS = frozenset({"gpus", "document", "release", "line", "metrics"})
_RECIPE = "recipe."
#: Characters that plain YAML text may not hold.
_QUOTED = re.compile(r"[^A-Za-z0-9._/-]")
_ABOVE = re.compile(rf" *# {BLANK_ABOVE}(?P<key>[a-z_0-9.]+): (?P<reason>.+)")
#: Lines as YAML counts them.
_LINES = re.compile("\r\n?|[\n\x85\u2028\u2029]")
_AT_LINE = re.compile(rf"{TABLE_AT_LINE}([0-9]+)$")


#: By key, the comments above rows: the number of the line, and the reason for a blank.
_Comments = dict[str, list[tuple[int, str]]]


def _blank_rows(path: Path, found: Sequence[_BlankEntry]) -> Iterator[model.BlankRow]:
    """The rows of a file with its comments: reasons for blanks, and the tables' lines in the document."""
    lines = ["", *_LINES.split(read_text(path))] if found else []
    comments = ((number, comment) for number, line in enumerate(lines) if (comment := _ABOVE.match(line)))
    above = grouped((comment["key"], (number, comment["reason"])) for number, comment in comments)
    for row in found:
        at_line = _AT_LINE.search(lines[row.table_line])
        blanks = tuple(_blanks(row, lines, above))
        known = {key: value for key, value in row.known.items() if isinstance(FILE_FIELDS.get(key), Field)}
        yield model.BlankRow(row.id, row.location, known, blanks, int(at_line[1]) if at_line else None)


def _blanks(row: _BlankEntry, lines: Sequence[str], above: _Comments) -> Iterator[model.Blank]:
    nearest: dict[str, tuple[int, Value]] = {}
    for level, values in enumerate(row.levels):
        recipe = values["recipe"].value if "recipe" in values else {}
        flat = {**values, **{_RECIPE + name: value for name, value in recipe.items()}}
        nearest |= {key: (level, value) for key, value in flat.items()}
    for key, (level, value) in nearest.items():
        if value.value is not None:
            continue
        is_own = level == len(row.levels) - 1
        reason = lines[value.line].partition(BLANK_BEHIND.strip())[2].strip()
        if is_own:
            # One comment is above all consecutive rows that lack the same key.
            comments = above.get(key, [])
            before = bisect.bisect(comments, row.location.line, key=itemgetter(0))
            reason = comments[before - 1][1] if before else reason
        of_recipe = key.startswith(_RECIPE)
        known = RECIPE_FIELDS[key.removeprefix(_RECIPE)] if of_recipe else FILE_FIELDS[key]
        assert isinstance(known, Field)  # no other kind may be blank
        yield model.Blank(key, value.line, known.wanted, reason, is_own=is_own)


def blank_error(row: model.BlankRow) -> RunError:
    """The error of a blank row in place of a result: the blank keys, their reasons, and the values to write."""
    reasons = {blank.reason for blank in row.blanks}
    because = f": {reasons.pop()}" if len(reasons) == 1 and "" not in reasons else ""
    path = relative_path(row.location.path)
    evidence = [("row", f"{path}:{row.location.line}")]
    for blank in row.blanks:
        text = f"{path}:{blank.line}  {blank.key}, {blank.wanted}"
        evidence.append(("blank", f"{text}: {blank.reason}" if blank.reason else text))
    verb = "is" if len(row.blanks) == 1 else "are"
    fact = f"{enumerated([blank.key for blank in row.blanks])} {verb} blank{because}"
    return RunError(fact, tuple(evidence), advice=_advice(row))


def _advice(row: model.BlankRow) -> str:
    """The advice for blank values: write into the table, or into facts.yaml if the importer wrote the table."""
    keys = [blank.key for blank in row.blanks]
    facts = facts_of([row])
    own = [key for key in keys if key in _NO_FACTS] if facts else keys
    into_table = f"type {enumerated(own) if own and facts else 'it' if len(keys) == 1 else 'them'} into the table"
    if not facts:
        return into_table
    directory = relative_path(row.location.path.parent.parent)
    again = command("pytest-gsw", "import", str(row.known["document"]), "-o", str(directory), "--overwrite")
    also = f"; {enumerated([key for key in keys if key not in own])} there, or" if own else ", or"
    where = f"into {directory / bundled.FACTS_FILE} next to its entries for the document, and {again}:"
    return "\n".join([f"{into_table}{also} {where}", "", *facts])


#: The wanted values of keys, each once, in order.
_Keys = dict[str, str]


def facts_of(rows: Iterable[model.BlankRow]) -> list[str]:
    """The lines of facts.yaml that fill in missing facts of rows that the importer wrote."""
    # By document and by the line of a table's header: its keys, and those of its rows by their lines and GPUs.
    documents: dict[str, dict[int, tuple[_Keys, dict[tuple[int, int | None], _Keys]]]] = {}
    for row in rows:
        wanted = {blank.key: blank for blank in row.blanks if blank.key not in _NO_FACTS}
        document, line = row.known.get("document"), row.known.get("line")
        if row.document_table is None or not wanted or document is None or line is None:
            continue
        table, own = documents.setdefault(document, {}).setdefault(row.document_table, ({}, {}))
        for key, blank in wanted.items():
            keys = own.setdefault((line, row.known.get("gpus")), {}) if blank.is_own else table
            keys[key] = blank.wanted
    lines = ["documents:"] if documents else []
    for name, tables in documents.items():
        lines += [f"  - document: {json.dumps(name) if _QUOTED.search(name) else name}", "    tables:"]
        for table_line, (table, own) in sorted(tables.items(), key=itemgetter(0)):
            lines += [f"      - line: {table_line}", *_lines_of(table, "        ")]
            lines += ["        rows:"] if own else []
            for (line, gpus), keys in own.items():
                lines += [f"          - line: {line}", *([] if gpus is None else [f"            gpus: {gpus}"])]
                lines += _lines_of(keys, "            ")
    return lines


def _lines_of(keys: _Keys, indent: str) -> Iterator[str]:
    """The keys with the wanted values behind them; those of the recipe below it."""
    yield from (f"{indent}{key}:  # {wanted}" for key, wanted in keys.items() if not key.startswith(_RECIPE))
    of_recipe = {key.removeprefix(_RECIPE): wanted for key, wanted in keys.items() if key.startswith(_RECIPE)}
    if of_recipe:
        yield f"{indent}recipe:"
        yield from (f"{indent}  {key}:  # {wanted}" for key, wanted in of_recipe.items())
