"""What one documented row says: the value that every other part of pytest-gsw works on."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pytest_gsw.tables.metrics import JUDGED, Metric
from pytest_gsw.tables.releases import in_words

#: What a verdict rests on: the time of one training step, that time corrected by how fast the machine multiplied
#: matrices in the same job, or the time of saving one checkpoint.
JudgedMetric = Literal["step_time", "calibrated_step_time", "checkpoint_save_time"]

#: What the directory of a recipe begins with that lies beside its table.
_BESIDE = "./"

#: Accepted loss of throughput where neither document nor site says otherwise. The recipes' acceptance criterion is
#: "above 95 % of the baseline".
TOLERANCE = 0.05
#: Gain of throughput that is believed of a row whose table says nothing else, as a fraction: a new driver or a new
#: release of a framework makes training faster by some percent, and not by a quarter.
MAX_GAIN = 0.25


#: In an id, what is blank; ``-k`` can select it, and no part of a name is written so.
BLANK = "BLANK"


@dataclass(frozen=True)
class Figures:
    """Performance figures of one row, each ``None`` where there is none.

    Used for what a document states and for what is computed from its step time.
    """

    step_time_s: float | None = None
    #: Tokens per second of the whole job (not per GPU).
    tokens_per_s: float | None = None
    #: Samples per second of the whole job (not per GPU).
    samples_per_s: float | None = None
    #: Model FLOPS utilization as a fraction: 0.4254 is 42.54 %.
    mfu: float | None = None
    days_to_train_1t_tokens: float | None = None
    #: 1e12 floating-point operations per second and GPU, as the document counts them.
    tflops_per_gpu: float | None = None
    checkpoint_save_time_s: float | None = None
    #: Seconds that the step would take if the job's own calibration had reached :attr:`Baseline.calibration_flops`.
    calibrated_step_time_s: float | None = None


@dataclass(frozen=True)
class Documented:
    """A figure that a row documents beside the one that it is judged by, of a metric that a site gives."""

    #: In the metric's unit.
    value: float
    #: How much worse it may be, as a fraction of the value; ``None`` for the row's own tolerance.
    tolerance: float | None = None


@dataclass(frozen=True)
class Parallelism:
    """Degrees of parallelism; ``None`` where the document gives none.

    Tensor (tp), pipeline (pp), context (cp), expert (ep) and data (dp) parallel size, virtual
    pipeline stages (vp), and the size of the fully sharded data-parallel group (fsdp).
    """

    tp: int | None = None
    pp: int | None = None
    cp: int | None = None
    ep: int | None = None
    dp: int | None = None
    vp: int | None = None
    fsdp: int | None = None


@dataclass(frozen=True)
class Recipe:
    """How a row is launched: the recipe's own script, submitted from the recipe's own directory."""

    #: Name of the recipe's directory below the cluster's ``recipes`` directory; with ``./`` in front, beside the table.
    directory: str
    script: str = "launch.sh"
    #: How its job is submitted, one of :data:`~pytest_gsw.tables.keys.LAUNCHERS`; ``None``: as the cluster says.
    launcher: str | None = None
    #: Training steps that the recipe runs, ``None`` where the document does not say.
    steps: int | None = None
    #: Steps of which the log shows a time, where that is fewer than ``steps``.
    logged_steps: int | None = None
    #: Steps of a run of its own that the job makes before the one that is measured, such as one that is profiled.
    steps_before: int = 0
    #: Extra environment; ``{tp}``, ``{gpus}`` and the like are replaced by the row's facts.
    environment: Mapping[str, str] = field(default_factory=dict)
    #: Arguments of a launch script that submits its job itself.
    arguments: tuple[str, ...] = ()
    #: Two jobs of the same row must not run at the same time.
    one_job_per_row: bool = False
    #: Names of the job's steps (``srun``) that may fail, because nothing that is measured depends on them.
    may_fail: tuple[str, ...] = ()
    #: The container image that the recipe runs, as far as the table says so; a log that names its own counts before it.
    image: str | None = None

    @property
    def name(self) -> str:
        """The directory without what says where it is."""
        return self.directory.removeprefix(_BESIDE)

    @property
    def beside_table(self) -> bool:
        """Whether the directory lies beside the row's table, whatever the cluster."""
        return self.directory.startswith(_BESIDE)


@dataclass(frozen=True, slots=True)
class Source:
    """Where a row comes from: the document's file name, the line of the judged figure (from 1), the release.

    Of a row without a document it is the table itself.
    """

    document: str
    #: ``None`` if the table names a document alone.
    line: int | None
    #: Such as the tag of the document's repository, ``None`` where it is not said.
    release: str | None = None
    #: The releases of the recipes that the figures hold for; empty where the table does not say.
    releases: tuple[str, ...] = ()
    #: The table's title in the document, and the headings that it stands below; empty where they are not said.
    title: str = ""
    section: str = ""

    @property
    def in_words(self) -> str:
        """What people know it by: ``"Grok 1 314b FP8", releases 25.02 to 25.04.02, section "Expected Performance"``."""
        several = "s" if len(self.releases) > 1 else ""
        release = in_words(self.releases) if self.releases else self.release
        parts = (
            f'"{self.title}"' if self.title else "",
            f"release{several} {release}" if release else "",
            f'section "{self.section}"' if self.section else "",
        )
        return ", ".join(part for part in parts if part)


@dataclass(frozen=True)
class Accepted:
    """A figure that one cluster has accepted for a row; it stands beside the documented one, which stays."""

    cluster: str
    #: Seconds of what the row's verdict rests on: a training step, or saving a checkpoint.
    judged_s: float
    #: Jobs whose median :attr:`judged_s` is.
    jobs: int
    #: Standard deviation of those jobs over their median, as a fraction.
    spread: float
    #: Their ids, as written.
    job_ids: str
    #: ISO date of the newest of them.
    date: str
    #: The definition that they were measured under, see :mod:`pytest_gsw.tables.definition`.
    definition: str
    #: The container image that they ran, where that is known.
    image: str | None = None


@dataclass(frozen=True, slots=True)
class Location:
    """Where a row is written: its YAML file, line and column (from 1)."""

    path: Path
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.path}:{self.line}"


@dataclass(frozen=True, slots=True, kw_only=True)  # thousands of rows, and more fields than a small dictionary has
class Baseline:
    """One documented row: what was trained, on what, how fast it was, and who says so."""

    #: Unique among the rows of a session: ``llama2_70b_fp8[H100x64]``.
    id: str
    model: str
    #: ``None`` of a model that has no size in its name.
    size: str | None = None
    framework: str
    #: Name of the log format that the framework writes.
    log_format: str
    dtype: str
    accelerator: str
    gpus: int
    gpus_per_node: int
    #: Tokens per sample; without it there are no tokens/s.
    sequence_length: int | None = None
    #: Samples per training step over the whole job.
    global_batch_size: int | None = None
    micro_batch_size: int | None = None
    gradient_accumulation_steps: int | None = None
    layers: int | None = None
    parallelism: Parallelism
    documented: Figures
    metric: JudgedMetric = "step_time"
    #: How the log's steps become one number, see :mod:`pytest_gsw.tables.statistic`.
    statistic: str = "last"
    #: Fewest steps that must be read from the log.
    min_steps: int
    #: Accepted loss (and gain) of throughput as a fraction.
    tolerance: float = TOLERANCE
    #: Model floating-point operations for one sample, pinned as the document states or implies it.
    model_flops_per_sample: float | None = None
    #: The document's TFLOP/s count the forward pass twice (activation recomputation): 4/3 of the model's.
    activation_recomputation: bool = False
    #: A smaller stand-in for the full model, made to fit fewer GPUs.
    proxy: bool = False
    #: ``"out_of_memory"`` where the document says that the row runs out of memory.
    expected_failure: Literal["out_of_memory"] | None = None
    notes: str | None = None
    #: Columns of the document that have no name of their own here, as written there.
    attributes: Mapping[str, str]
    recipe: Recipe
    source: Source
    location: Location
    #: Name of the document's formula of model FLOPs, where the table gives one.
    formula: str | None = None
    #: The row says whether the cluster is in its usual state; a night in which it is too slow is inconclusive.
    canary: bool = False
    #: What clusters have accepted for this row, by the cluster's name.
    accepted: Mapping[str, Accepted] = field(default_factory=dict)
    #: FLOP/s that a matrix product reached on one GPU, or one core, in the jobs that the documented figures are of.
    calibration_flops: float | None = None
    #: Gain of throughput that is believed, as a fraction; one beyond it is inconclusive.
    max_gain: float = MAX_GAIN
    #: Transformer layers of the full model, and the model's hidden size, where the table gives its architecture.
    model_layers: int | None = None
    hidden_size: int | None = None
    #: What the table asks of the loss.
    loss: Literal["falls"] | None = None
    #: Further figures that are judged, by the keys of the hook's metrics; the row is the worst of all.
    metrics: Mapping[str, Documented] = field(default_factory=dict)

    @property
    def all_layers(self) -> int | None:
        """Transformer layers that a run of the row has; ``None`` where the table does not say."""
        return self.layers if self.layers is not None or self.proxy else self.model_layers

    @property
    def settings(self) -> dict[str, str]:
        """How a run is trained, by short names, as far as the document tells: what it differs in from its like."""
        known = {
            "sequence": self.sequence_length,
            "micro-batch": self.micro_batch_size,
            "gas": self.gradient_accumulation_steps,
            **vars(self.parallelism),
            **self.attributes,
            "noted": self.notes,
        }
        return {name: f"{value}" for name, value in known.items() if value is not None}

    @property
    def workload(self) -> str:
        """Model and size: ``llama2_70b``."""
        return self.model if self.size is None else f"{self.model}_{self.size}"

    @property
    def name(self) -> str:
        """Workload and dtype: ``llama2_70b_fp8``, what ``-k`` usually selects."""
        return f"{self.workload}_{self.dtype}"

    @property
    def parameters_in_billions(self) -> str | None:
        """The size as a bare number: ``7.5`` for ``7.5b``, ``None`` where the size is a word, or there is none."""
        number = (self.size or "").removesuffix("b")
        return number if f"{number}b" == self.size and number.replace(".", "", 1).isdigit() else None

    @property
    def nodes(self) -> int:
        """Nodes that the row's GPUs fill at the documented GPUs per node."""
        return -(-self.gpus // self.gpus_per_node)

    @property
    def judged_by(self) -> Metric:
        """What the verdict rests on."""
        return JUDGED[self.metric]

    @property
    def judged_s(self) -> float | None:
        """The documented seconds that the verdict rests on."""
        judged_s: float | None = getattr(self.documented, self.judged_by.key)
        return judged_s


class Blank(NamedTuple):
    """A key without a value."""

    #: Those of the recipe with ``recipe.`` in front.
    key: str
    #: Where it stands in the file, from 1.
    line: int
    #: Why it is blank, as the importer's comment says; empty where there is none.
    reason: str
    #: It stands at the row, and not at its table or its file.
    is_own: bool


@dataclass(frozen=True)
class BlankRow:
    """A row of which something is blank, so that it cannot run."""

    #: As the row's will be, with :data:`BLANK` in the place of what is blank.
    id: str
    location: Location
    #: What its file, its table and the row itself state, by key, without mappings and lists.
    known: Mapping[str, Any]
    blanks: tuple[Blank, ...]
    #: Line of its table's header in the document, ``None`` where the importer has not written it.
    document_table: int | None


def row_id(row: Mapping[str, Any]) -> str:
    """The id of a row that states this: ``llama2_70b_fp8[H100x64]``."""
    size = f"_{row['size']}" if "size" in row else ""
    case = f"-{row['case']}" if "case" in row else ""
    return f"{row['model']}{size}_{row['dtype']}[{row['accelerator']}x{row['gpus']}{case}]"


def blank_id(row: Mapping[str, Any]) -> str:
    """The same with :data:`BLANK` for each part that has no value."""
    named = dict.fromkeys(("model", "dtype", "accelerator", "gpus"), BLANK)
    return row_id({**named, **{key: value or BLANK for key, value in row.items()}})


def row_matches(pattern: str | None, row_id: str) -> bool:
    """Whether a pattern is of a row's id or node id; only ``*`` and ``?`` are special in it, and ``None`` is of all."""
    return pattern is None or fnmatch.fnmatchcase(row_id, pattern.rpartition("::")[2].replace("[", "[[]"))


def transferred(row: Baseline, gpus: int) -> Baseline | None:
    """A row on another number of GPUs with the same work for each of them, and so with the same step time.

    The batch grows with the GPUs, as it does in the recipes (weak scaling); which layout they have there, beyond the
    degrees of one replica, is the recipe's affair. ``None`` where the batch or the nodes cannot be divided so, or the
    row documents figures of a site's own.
    """
    batch, ratio = row.global_batch_size, gpus / row.gpus
    if batch is None or batch * gpus % row.gpus or gpus % min(row.gpus_per_node, gpus) or row.metrics:
        return None
    stated = row.documented
    figures = replace(
        stated,
        tokens_per_s=_times(stated.tokens_per_s, ratio),
        samples_per_s=_times(stated.samples_per_s, ratio),
        days_to_train_1t_tokens=_times(stated.days_to_train_1t_tokens, 1 / ratio),
    )
    title = f"{row.source.title or row.id}, transferred per GPU from {row.gpus} GPUs"
    return replace(
        row,
        id=_id_on(row, gpus),
        gpus=gpus,
        global_batch_size=batch * gpus // row.gpus,
        parallelism=replace(row.parallelism, dp=None, fsdp=None),
        documented=figures,
        accepted={},
        source=replace(row.source, title=title),
    )


def _id_on(row: Baseline, gpus: int) -> str:
    """``llama3_70b_fp8[H100x512-26.04-of-64]`` for ``llama3_70b_fp8[H100x64-26.04]``."""
    head, _, behind = row.id.partition(f"[{row.accelerator}x{row.gpus}")
    return f"{head}[{row.accelerator}x{gpus}{behind[:-1]}-of-{row.gpus}]"


def _times(figure: float | None, ratio: float) -> float | None:
    return None if figure is None else figure * ratio
