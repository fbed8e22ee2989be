"""Every key of a baseline file: its meaning, and its allowed values."""

from __future__ import annotations

import datetime
import os
import re
import string
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pytest_gsw.common.blocks import BLOCK_STATISTICS
from pytest_gsw.errors import Fault, FileError
from pytest_gsw.tables import metrics
from pytest_gsw.tables import value_types as f
from pytest_gsw.tables.bundled import accepted_file
from pytest_gsw.tables.model import Accepted, Baseline, parse_statistic
from pytest_gsw.tables.releases import release_field
from pytest_gsw.tables.yaml_values import Value, Values, read_mapping

# -- Accepted figures of clusters for the rows of a table: a list in a file next to the table
#
# :mod:`pytest_gsw.baseline_updates` writes that file whole.


def read_spread(raw: str) -> float:
    """A written spread, as a fraction."""
    return f.read_percent(raw, "a percentage such as 0.8%", lambda percent: percent >= 0)


def _read_date(raw: str) -> str:
    try:
        date = datetime.date.fromisoformat(raw)
    except ValueError:
        date = None
    if date is None or date.isoformat() != raw:  # from Python 3.11 on, 20261120 is read as well
        raise ValueError(f"got '{raw}', wanted a date such as 2026-11-20")
    return raw


#: The figures that a cluster may have accepted, one of them for each row.
ACCEPTED_FIGURES = (metrics.STEP_TIME.key, metrics.CALIBRATED_STEP_TIME.key, metrics.SAVE_TIME.key, metrics.VALUE)

#: An accepted figure of a cluster for a row; ``pytest-gsw baseline propose`` writes such entries.
ACCEPTED_FIELDS: f.Fields = {
    "row": f.text("Id of the row, one of the table's.", required=True),
    "cluster": f.pattern(
        rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{f.LONGEST_NAME - 1}}}",
        "the name of a cluster, such as eos",
        "The cluster on which the figure counts.",
        required=True,
    ),
    metrics.STEP_TIME.key: f.number("Accepted time of one training step, seconds."),
    metrics.CALIBRATED_STEP_TIME.key: f.number(
        "Accepted calibrated time of one training step, seconds, for rows judged by it."
    ),
    metrics.SAVE_TIME.key: f.number("Accepted time of saving one checkpoint, seconds, for rows judged by it."),
    metrics.VALUE: f.number("Accepted figure of a row that documents its value, in the metric's unit."),
    "documented": f.number("The documented figure that it was accepted against; if that changes, it ends."),
    "jobs": f.whole("Jobs whose median the figure is.", required=True),
    "spread": f.Field(
        read_spread,
        "a percentage such as 0.8%",
        "Standard deviation of these jobs, in percent of their median.",
        {"type": "string", "pattern": r"^[0-9]{1,3}(\.[0-9]{1,12})? ?%$"},
        required=True,
    ),
    "job_ids": f.text("Ids of these jobs.", required=True),
    "image": f.text("Their container image, if known."),
    "date": f.Field(
        _read_date,
        "a date such as 2026-11-20",
        "When the newest of them ended.",
        {"type": "string", "format": "date"},
        required=True,
    ),
    "definition": f.pattern(
        r"[0-9a-f]{12}",
        "a definition such as 3f2a9c1d0e4b",
        "The definition that they were measured under; under another one the figure does not count.",
        required=True,
    ),
}

#: Every key of a file of accepted figures.
ACCEPTED_FILE_FIELDS: f.Fields = {
    "accepted": f.Sequence_(
        ACCEPTED_FIELDS, "Figures that clusters have accepted in addition to the documented ones.", required=True
    )
}

#: A row and a cluster.
Key = tuple[str, str]


def accepted_of_table(table: Path) -> Sequence[Value]:
    """The entries of the file next to a table; none if there is no such file, a FileError if it is wrong."""
    path = accepted_file(table)
    # A broken link is a file that cannot be read, not a missing one.
    entries: Sequence[Value] = (
        read_mapping(path, ACCEPTED_FILE_FIELDS)["accepted"].value if os.path.lexists(path) else ()
    )
    return entries


def with_accepted(table: Path, rows: Sequence[Baseline], blank: Collection[str] = ()) -> tuple[Baseline, ...]:
    """A table's rows with the figures that clusters have accepted for them.

    ``blank`` are the ids of rows that cannot run: their figures cannot be assigned yet.

    Raises:
        FileError: The file next to the table is wrong.
    """
    accepted_entries = [entry for entry in accepted_of_table(table) if entry_key(entry.value)[0] not in blank]
    if not accepted_entries:
        return tuple(rows)
    of_id = {row.id: row for row in rows}
    if faults := _accepted_faults(accepted_entries, of_id, table.name):
        raise FileError(accepted_file(table), tuple(faults))
    by_row: dict[str, dict[str, Accepted]] = {}
    for entry in accepted_entries:
        row, cluster = entry_key(entry.value)
        values = {key: value.value for key, value in entry.value.items() if key != "row"}
        figure = next(values.pop(key) for key in ACCEPTED_FIGURES if key in values)
        by_row.setdefault(row, {})[cluster] = Accepted(judged=figure, **values)
    return tuple(replace(row, accepted=by_row[row.id]) if row.id in by_row else row for row in rows)


def entry_key(entry: Values) -> Key:
    """Row and cluster of an entry."""
    return entry["row"].value, entry["cluster"].value


def _accepted_faults(entries: Sequence[Value], rows: Mapping[str, Baseline], table: str) -> list[Fault]:
    """Faults of accepted figures as a whole, each key by itself being right."""
    taken: dict[Key, int] = {}
    faults = []
    for number, entry in enumerate(entries):
        key = row_id, cluster = entry_key(entry.value)
        problems = _row_problems(entry.value, row_id, rows, table)
        if key in taken:
            problems.insert(0, f"{cluster} has accepted a figure for {row_id} in line {taken[key]} already")
        taken.setdefault(key, entry.line)
        faults += [Fault(entry.line, entry.column, f"accepted[{number}]", problem) for problem in problems]
    return faults


def _row_problems(entry: Values, row_id: str, rows: Mapping[str, Baseline], table: str) -> list[str]:
    row = rows.get(row_id)
    if row is None:
        return [f"there is no row '{row_id}' in {table}{f.nearest(row_id, rows)}"]
    if row.judged is None:
        return [f"the document has no figure for {row_id}, so none can be accepted for it"]
    wanted = row.judged_by.field
    others = [key for key in ACCEPTED_FIGURES if key in entry and key != wanted]
    missing = [] if wanted in entry else [f"missing '{wanted}', on which the verdict of {row_id} rests"]
    return [*missing, *(f"has {key}, but the verdict of {row_id} rests on {wanted}" for key in others)]


_NAME = r"[a-z0-9][a-z0-9._-]*"


_A_METRIC = "a metric such as step_time or busbw_gbs"


def _read_metric(raw: str) -> str:
    """A metric, or the name of one of the table's own, which needs further keys of the row."""
    if re.fullmatch(metrics.METRIC_KEY, raw) is None:
        raise ValueError(f"got '{raw}', wanted {_A_METRIC}{f.nearest(raw, metrics.JUDGED)}")
    return raw


#: The keys of :class:`~pytest_gsw.common.blocks.Block`, which checks them.
_BLOCK: f.Fields = {
    "line": f.text("Shell pattern of the figure's line, or of its row in a table; {} is the number."),
    "pattern": f.text("Simple regular expression in place of line; its group is the number."),
    "after": f.text("Text of a table's heading; the rows below it are read."),
    "column": f.text("Column of the figure: its name in the heading, or its number, from 1."),
    "json": f.text("Path of the figure in a JSON document, in place of line and column: jobs[0].read.iops."),
    "unit_in": f.text("Unit that has to be in the line or the heading."),
    "times": f.number("Factor on the number of the log."),
    "each": f.whole("Number of such figures in the log, from so many ranks; 1 by default."),
    "statistic": f.choice(BLOCK_STATISTICS, "How these become one figure."),
    "require": f.Sequence_(f.text("A text."), "Texts that have to be in the log; alone, they are the figure 1."),
    "refuse": f.Sequence_(f.text("A text."), "Texts that must not be in the log."),
}


#: A figure by which a row is judged, or that of a program.
_METRIC: f.Fields = {
    "metric": f.Field(
        _read_metric,
        _A_METRIC,
        "Metric on which the verdict rests; step_time by default.",
        {"type": "string", "pattern": f"^{metrics.METRIC_KEY}$"},
    ),
    "unit": f.pattern(
        r"[A-Za-z0-9%][A-Za-z0-9%/._-]{0,19}", "a unit such as GB/s", "Unit of a metric of the table's own."
    ),
    "better": f.choice(("higher", "lower"), "Better direction of a metric of the table's own."),
    "label": f.pattern(
        r"[A-Za-z0-9][^|\r\n]{0,59}",
        "a name of at most 60 letters, such as random read",
        "Its name on screens, by default the key.",
    ),
}
#: The programs with blocks of their own.
PROGRAM_FILE_FIELDS: f.Fields = {
    "programs": f.Nested(
        None,
        "Programs by name.",
        names=r"[a-z0-9._-]+",
        each={"figures": f.Sequence_({**_METRIC, **_BLOCK}, "Figures, the usual one first.", required=True)},
    )
}

#: Keys of a row, its table, or the file; the nearest wins.
ROW_FIELDS: f.Fields = f.may_be_blank(
    {
        "gpus": f.whole("GPUs of the job."),
        "size": f.pattern(_NAME, "a name such as 70b", "Size of the model, as the recipe's MODEL_SIZE, if it has one."),
        "case": f.pattern(
            r"[a-z0-9]([a-z0-9.-]{0,58}[a-z0-9])?",
            "a short name of a-z, 0-9, '.' and '-', at most 60 characters",
            "Name that distinguishes this row from others with the same workload, dtype, accelerator and GPU count.",
        ),
        "dtype": f.pattern(_NAME, "a name such as fp8", "Number format of the training, as the recipe's DTYPE."),
        "accelerator": f.pattern(
            r"[A-Za-z0-9][A-Za-z0-9._-]*", "a name such as H100", "Accelerator that the figures were measured on."
        ),
        "gpus_per_node": f.whole("GPUs of one node."),
        "sequence_length": f.whole("Tokens of one sample."),
        "global_batch_size": f.whole("Samples of one training step over the whole job."),
        "micro_batch_size": f.whole("Samples that one model replica takes at once."),
        "gradient_accumulation_steps": f.whole("Micro-batches of one replica in one step."),
        "layers": f.whole("Transformer layers."),
        "tp": f.whole("Tensor parallelism."),
        "pp": f.whole("Pipeline parallelism."),
        "cp": f.whole("Context parallelism."),
        "ep": f.whole("Expert parallelism."),
        "dp": f.whole("Data parallelism."),
        "vp": f.whole("Virtual pipeline stages."),
        "fsdp": f.whole("Size of the fully sharded data-parallel group."),
        "model_flops": f.number(
            "Model floating-point operations of one sample, pinned as the document states it.", largest=1e30
        ),
        metrics.STEP_TIME.key: f.number("Documented time of one training step, seconds."),
        metrics.TOKENS_PER_S.key: f.number("Documented throughput of the whole job, tokens per second."),
        metrics.TOKENS_PER_S_PER_GPU: f.number("Documented throughput, tokens per second and GPU, if it is stated so."),
        metrics.SAMPLES_PER_S.key: f.number("Documented throughput of the whole job, samples per second."),
        metrics.MFU.key: f.percentage("Documented model FLOPS utilization."),
        metrics.DAYS_TO_TRAIN.key: f.number("Documented days to train one trillion tokens."),
        metrics.TFLOPS_PER_GPU.key: f.number("Documented TFLOP/s of one GPU."),
        metrics.SAVE_TIME.key: f.number("Documented time of saving one checkpoint, seconds."),
        "calibration_flops": f.number(
            "FLOP/s that a matrix product reached, for each GPU, when the figures were measured.", largest=1e30
        ),
        **_METRIC,
        metrics.VALUE: f.number("Documented figure, in the unit of its metric, if that is no time of a step or save."),
        "at": f.text("Point of the benchmark that is judged, as its log states it: 16 GiB, concurrency 256."),
        "read": f.Nested(
            _BLOCK,
            "Place of the judged figure in the log: a text around {}, a program such as hpl, or a block.",
            short=f.text(""),
        ),
        "metrics": f.Nested(
            None,
            "Further figures that the row is judged by, by name: those of benchmarks, final_loss, and those of "
            "pytest_gsw_metrics, each with its value or its limit.",
            names=metrics.METRIC_KEY,
            each={
                "value": f.number("Documented value, in the metric's unit."),
                "tolerance": f.tolerance("How much worse it may be; the row's tolerance by default."),
                "within": f.tolerance("How much it may differ from the value, in both directions."),
                "most": f.number("Largest value that is allowed, in place of a documented one."),
                "least": f.number("Smallest value that is allowed, in place of a documented one."),
            },
        ),
        "statistic": f.Field(
            lambda raw: str(parse_statistic(raw)),
            "a statistic such as last, mean[35:44] or median[-10:]",
            "How the steps of the log become one number.",
            {"type": "string", "pattern": r"^(last|(mean|median)(\[-?\d*:-?\d*\])?)$"},
        ),
        "min_steps": f.whole("Fewest steps that a log must hold; nine tenths of the recipe's by default, or ten."),
        "tolerance": f.tolerance("Accepted loss of throughput."),
        "loss": f.choice(
            ("falls",),
            "Condition on the loss, which must fall: over the last tenth of the steps it is below the first's.",
        ),
        "max_gain": f.gain("Largest plausible gain of throughput, 25% by default: a run beyond it is inconclusive."),
        "proxy": f.flag("A smaller stand-in for the full model."),
        "canary": f.flag(
            "The row shows whether the cluster is in its usual state: a run in which it is too slow is inconclusive."
        ),
        "expected_failure": f.choice(("out_of_memory",), "The documented failure of the row."),
        "notes": f.text("The document's own note.", lines=True),
        "attributes": f.Nested(None, "Columns of the document that have no key of their own, as written there."),
        "line": f.whole("Line of the judged figure in the document, which the table names."),
        "acknowledged": f.Nested(
            None, "Figures that contradict others of their row and stay, by key, each with its reason."
        ),
    }
)

#: Ways to submit a recipe's job.
LAUNCHERS = ("sbatch", "nemo-run", "configured-sbatch", "llmb-run")
LAUNCHER_MEANING = "How the job is submitted: sbatch (the default), nemo-run, configured-sbatch or llmb-run."

#: Placeholders in the environment of a recipe, or of a cluster: facts of a row, its recipe's directory, and the numbers
#: of nodes and steps of its job.
PLACEHOLDERS = frozenset(
    {
        *("model", "size", "framework", "dtype", "accelerator", "gpus", "nodes", "gpus_per_node", "layers"),
        *("sequence_length", "global_batch_size", "micro_batch_size", "gradient_accumulation_steps"),
        *("parameters_in_billions", "recipe", "steps", "workload"),
        *("tp", "pp", "cp", "ep", "dp", "vp", "fsdp"),
    }
)


def _read_template(raw: str) -> str:
    """A text with placeholders such as ``{gpus}``, which :func:`str.format_map` fills in later."""
    try:
        found = [(name, spec or conversion) for _, name, spec, conversion in string.Formatter().parse(raw)]
    except ValueError:
        raise ValueError(f"got '{raw}', whose braces do not match; a brace itself is written twice") from None
    for name, form in found:
        if name is None:
            continue
        if name not in PLACEHOLDERS:
            raise ValueError(f"unknown placeholder {{{name}}}{f.nearest(name, PLACEHOLDERS)}")
        if form:
            raise ValueError(f"got '{raw}', wanted placeholders without a format, such as {{{name}}}")
    return raw


#: Every key of ``recipe``.
RECIPE_FIELDS: f.Fields = f.may_be_blank(
    {
        "directory": f.pattern(
            r"(\./)?[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)*",
            "a relative directory such as maxtext",
            "The recipe's directory below the cluster's recipes directory; with ./ in front, next to the table.",
            longest=200,
        ),
        "script": f.pattern(
            r"[A-Za-z0-9][A-Za-z0-9._-]*", "a file name such as launch.sh", "The launch script; launch.sh by default."
        ),
        "launcher": f.choice(LAUNCHERS, LAUNCHER_MEANING),
        "steps": f.whole("Training steps that the recipe runs."),
        "logged_steps": f.whole("Steps with a time in the log, if fewer."),
        "steps_before": f.whole("Steps of a run that the job makes before the measured one, to profile it."),
        "environment": f.Nested(
            None, "Variables for the launch script; {tp}, {gpus} and the like are filled in.", read=_read_template
        ),
        "arguments": f.Sequence_(
            None, "Arguments of a launch script that submits its job itself (nemo-run), one list entry each."
        ),
        "one_job_per_row": f.flag("Two jobs of the same row must not run at the same time."),
        "may_fail": f.Sequence_(
            None, "Names of steps of the job (srun) that may fail without harm to what is measured."
        ),
        "image": f.text("The container image that the recipe runs; one that a log names itself counts before it."),
    }
)

_ARCHITECTURE: f.Fields = {
    "formula": f.choice(("gpt3", "llama", "grok", "gpt2"), "The document's formula of model FLOPs.", required=True),
    "layers": f.whole("Transformer layers of the full model."),
    "hidden_size": f.whole("Hidden size."),
    "ffn_size": f.whole("Size of the feed-forward layer."),
    "attention_heads": f.whole("Attention heads."),
    "query_groups": f.whole("Query groups (key-value heads)."),
    "experts_top_k": f.whole("Experts that each token is sent to."),
    "vocabulary_size": f.whole("Vocabulary size."),
}


_COMMON: f.Fields = {**ROW_FIELDS, "recipe": f.Nested(RECIPE_FIELDS, "How the rows are launched.")}

#: Releases of the recipes for which the figures hold: a log of another one is not judged by them.
RELEASES = f.Sequence_(
    release_field("A release of the recipes, such as 25.02.01, or a NeMo container, such as nemo:26.06."),
    "Releases of the recipes that the figures hold for, tags without their v, or NeMo containers; a table may have its "
    "own.",
)

_TABLE: f.Fields = {
    "title": f.text("The table's title in the document."),
    "section": f.text("Headings of the document above the table, the outermost first."),
    "release": f.text("Release that the table's figures are of."),
    "releases": RELEASES,
    **_COMMON,
    "rows": f.Sequence_(ROW_FIELDS, "The rows, one test item each.", required=True),
}

#: Every key of a baseline file.
FILE_FIELDS: f.Fields = f.may_be_blank(
    {
        "model": f.pattern(_NAME, "a name such as llama2", "Model, as the recipe's MODEL.", required=True),
        "framework": f.pattern(_NAME, "a name such as maxtext", "Framework that trains the model.", required=True),
        "log_format": f.pattern(_NAME, "a name such as megatron", "Log format; the framework's by default."),
        "document": f.text("Name of the document that the figures come from; the table itself by default."),
        "release": f.text("Release of the document, such as the tag of its repository; a table may have its own."),
        "releases": RELEASES,
        "activation_recomputation": f.flag("The document's TFLOP/s count the forward pass twice."),
        "architecture": f.Nested(_ARCHITECTURE, "Parameters from which model_flops is computed."),
        **_COMMON,
        "tables": f.Sequence_(_TABLE, "The document's tables.", required=True),
    }
)
