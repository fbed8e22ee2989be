"""One documented row: the value on which every other part of pytest-gsw works."""

from __future__ import annotations

import fnmatch
import hashlib
import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any, Literal, NamedTuple, cast

from pytest_gsw.common.blocks import Block
from pytest_gsw.common.redact import masked_text
from pytest_gsw.common.text import rounded
from pytest_gsw.tables.metrics import TOLERANCE as TOLERANCE
from pytest_gsw.tables.metrics import Direction, Metric, metric_of
from pytest_gsw.tables.releases import format_releases

#: Prefix of a recipe directory next to its table.
_NEXT_TO_TABLE = "./"

#: Largest plausible gain of throughput unless a row's table has another, as a fraction: a new driver or framework
#: release makes training faster by some percent, and not by a quarter.
MAX_GAIN = 0.25


#: Mark of a blank value in an id; ``-k`` can select it, and no part of a name is spelt so.
BLANK = "BLANK"


@dataclass(frozen=True)
class Figures:
    """Performance figures of one row, each ``None`` if there is none.

    Used for documented figures, for measured ones and for those computed from a step time.
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
    #: The figure of a row that is judged by a benchmark's, in its metric's unit.
    value: float | None = None


@dataclass(frozen=True)
class Documented:
    """A figure that a row documents, besides the one that it is judged by."""

    #: In the metric's unit.
    value: float
    #: Accepted worsening, or difference, as a fraction of the value: ``None`` for the row's own tolerance, and zero for
    #: a limit.
    tolerance: float | None = None
    #: The better direction if it is not the metric's: that of a limit, or of a figure to be met.
    direction: Direction | None = None


@dataclass(frozen=True)
class Parallelism:
    """Degrees of parallelism; ``None`` for those that the document lacks.

    Tensor (tp), pipeline (pp), context (cp), expert (ep) and data (dp) parallel size, virtual pipeline stages (vp), and
    the size of the fully sharded data-parallel group (fsdp).
    """

    tp: int | None = None
    pp: int | None = None
    cp: int | None = None
    ep: int | None = None
    dp: int | None = None
    vp: int | None = None
    fsdp: int | None = None

    @property
    def degrees(self) -> dict[str, int | None]:
        """All of them by their short names."""
        return vars(self)


@dataclass(frozen=True)
class Recipe:
    """Launch of a row: the recipe's own script, submitted from the recipe's own directory."""

    #: Name of the recipe's directory below the cluster's ``recipes`` directory; with ``./`` in front, next to the
    #: table.
    directory: str
    script: str = "launch.sh"
    #: Way of submission, one of :data:`~pytest_gsw.tables.schema.LAUNCHERS`; ``None`` for the cluster's.
    launcher: str | None = None
    #: Training steps of the recipe; ``None`` if the document lacks them.
    steps: int | None = None
    #: Steps with a time in the log, if fewer than ``steps``.
    logged_steps: int | None = None
    #: Steps of a run that the job makes before the measured one, such as for a profile.
    steps_before: int = 0
    #: Extra environment; ``{tp}``, ``{gpus}`` and the like are replaced by the row's facts.
    environment: Mapping[str, str] = field(default_factory=dict)
    #: Arguments of a launch script that submits its job itself.
    arguments: tuple[str, ...] = ()
    #: Two jobs of the same row must not run at the same time.
    one_job_per_row: bool = False
    #: Names of the job's steps (``srun``) that may fail, because no measurement depends on them.
    may_fail: tuple[str, ...] = ()
    #: The recipe's container image, if the table has it; an image in a log takes precedence.
    image: str | None = None

    @property
    def name(self) -> str:
        """The directory without the prefix of its place."""
        return self.directory.removeprefix(_NEXT_TO_TABLE)

    @property
    def is_next_to_table(self) -> bool:
        """True if the directory is next to the row's table, on every cluster."""
        return self.directory.startswith(_NEXT_TO_TABLE)


@dataclass(frozen=True, slots=True)
class Source:
    """Origin of a row: the document's file name, the line of the judged figure (from 1), the release.

    For a row without a document it is the table itself.
    """

    document: str
    #: ``None`` if the table names a document alone.
    line: int | None
    #: Such as the tag of the document's repository; ``None`` if unknown.
    release: str | None = None
    #: Releases of the recipes for which the figures hold; empty if unknown.
    releases: tuple[str, ...] = ()
    #: The table's title in the document, and the headings above it; empty if unknown.
    title: str = ""
    section: str = ""

    @property
    def in_words(self) -> str:
        """Name for users: ``"Grok 1 314b FP8", releases 25.02 to 25.04.02, section "Expected Performance"``."""
        several = "s" if len(self.releases) > 1 else ""
        release = format_releases(self.releases) if self.releases else self.release
        parts = (
            f'"{self.title}"' if self.title else "",
            f"release{several} {release}" if release else "",
            f'section "{self.section}"' if self.section else "",
        )
        return ", ".join(part for part in parts if part)


@dataclass(frozen=True)
class Accepted:
    """A figure that one cluster has accepted for a row, in addition to the documented one."""

    cluster: str
    #: The figure, in the metric's unit.
    judged: float
    #: Number of jobs, whose median is :attr:`judged`.
    jobs: int
    #: Standard deviation of those jobs over their median, as a fraction.
    spread: float
    #: Their ids, as written.
    job_ids: str
    #: ISO date of the newest of them.
    date: str
    #: Hash of the definition under which they were measured, see :func:`definition_hash`.
    definition: str
    #: Their container image, if known.
    image: str | None = None
    #: The documented figure that it was accepted against; ``None`` in files of the first release.
    documented: float | None = None


@dataclass(frozen=True, slots=True)
class Location:
    """Place of a row: its YAML file, line and column (from 1)."""

    path: Path
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.path}:{self.line}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """The training: model, framework, number format and sequence length."""

    model: str
    #: ``None`` for a model without a size in its name.
    size: str | None = None
    framework: str
    #: Name of the log format that the framework writes.
    log_format: str
    dtype: str
    #: Tokens per sample; without it there are no tokens/s.
    sequence_length: int | None = None
    layers: int | None = None
    #: Transformer layers and hidden size of the full model, if the table has its architecture.
    model_layers: int | None = None
    hidden_size: int | None = None
    #: A smaller stand-in for the full model, made to fit fewer GPUs.
    proxy: bool = False
    #: Model floating-point operations for one sample, pinned as the document states or implies them.
    model_flops_per_sample: float | None = None
    #: Name of the document's formula of model FLOPs, if the table has one.
    formula: str | None = None
    #: The document's TFLOP/s count the forward pass twice (activation recomputation): 4/3 of the model's.
    activation_recomputation: bool = False

    @property
    def name(self) -> str:
        """Model and size: ``llama2_70b``."""
        return self.model if self.size is None else f"{self.model}_{self.size}"

    @property
    def all_layers(self) -> int | None:
        """Transformer layers in a run of the row; ``None`` if unknown."""
        return self.layers if self.layers is not None or self.proxy else self.model_layers

    @property
    def parameters_in_billions(self) -> str | None:
        """The size as a bare number: ``7.5`` for ``7.5b``; ``None`` if the size is a word, or there is none."""
        number = (self.size or "").removesuffix("b")
        return number if f"{number}b" == self.size and number.replace(".", "", 1).isdigit() else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The samples of a training step; ``None`` for what the document lacks."""

    #: Samples per training step over the whole job.
    global_batch_size: int | None = None
    micro_batch_size: int | None = None
    gradient_accumulation_steps: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Criterion:
    """The rule by which a row is judged: its figure, how the log gives it, and how far it may be off."""

    #: Basis of the verdict: a key of :data:`~pytest_gsw.tables.metrics.JUDGED`, or a name of the table's own.
    metric: str = "step_time"
    #: The judged point of a benchmark; ``None`` for the only one.
    at: str | None = None
    #: The block that finds the judged figure in the log, and for a metric of the table's own its unit and direction.
    read: Block | None = None
    unit: str | None = None
    better: Literal["higher", "lower"] | None = None
    #: Its name on screens; ``None`` for its key in words.
    label: str | None = None
    #: Statistic over the log's steps, see :mod:`pytest_gsw.tables.model`.
    statistic: str = "last"
    #: Fewest steps that must be read from the log.
    min_steps: int
    #: Accepted loss (and gain) of throughput as a fraction; and the table's own, if it states one.
    tolerance: float = TOLERANCE
    stated_tolerance: float | None = None
    #: Largest plausible gain of throughput, as a fraction; a larger one is inconclusive.
    max_gain: float = MAX_GAIN
    #: The table's condition on the loss.
    loss: Literal["falls"] | None = None
    #: ``"out_of_memory"`` if the document states that the row runs out of memory.
    expected_failure: Literal["out_of_memory"] | None = None

    def key_at(self, key: str) -> str:
        """The key of a metric in a log at the row's point: ``busbw_gbs at 16 GiB``."""
        return f"{key} at {self.at}" if self.at else key


@dataclass(frozen=True, slots=True, kw_only=True)  # thousands of rows, and more fields than a small dictionary has
class Baseline:
    """One documented row: the training, its hardware, its speed, and the source."""

    #: Unique among the rows of a session: ``llama2_70b_fp8[H100x64]``; on a tile ``…[H100x64]@n[001-008]``.
    id: str
    workload: Workload
    accelerator: str
    gpus: int
    gpus_per_node: int
    batch: Batch
    parallelism: Parallelism
    documented: Figures
    criterion: Criterion
    #: Further judged figures, by the keys of the hook's metrics; the row's outcome is the worst of all.
    metrics: Mapping[str, Documented] = field(default_factory=dict)
    #: FLOP/s of a matrix product on one GPU, or one core, in the jobs of the documented figures.
    calibration_flops: float | None = None
    notes: str | None = None
    #: Columns of the document without a key of their own, as written there.
    attributes: Mapping[str, str]
    recipe: Recipe
    source: Source
    location: Location
    #: Shows if the cluster is in its usual state; a run in which the row is too slow is inconclusive.
    canary: bool = False
    #: Accepted figures for this row, by the cluster's name.
    accepted: Mapping[str, Accepted] = field(default_factory=dict)
    #: The nodes on which the row is to run, as a node list of Slurm; empty for any.
    tile: str = ""

    @property
    def row_id(self) -> str:
        """The id without the tile: all tiles of a row have one history."""
        return without_tile(self.id)

    @property
    def name(self) -> str:
        """Workload and dtype: ``llama2_70b_fp8``, what ``-k`` usually selects."""
        return f"{self.workload.name}_{self.workload.dtype}"

    @property
    def nodes(self) -> int:
        """Nodes that the row's GPUs fill at the documented GPUs per node."""
        return -(-self.gpus // self.gpus_per_node)

    @property
    def judged_by(self) -> Metric:
        """The metric on which the verdict rests."""
        criterion = self.criterion
        return metric_of(criterion.metric, criterion.unit, criterion.better, criterion.at, criterion.label)

    @property
    def judged(self) -> float | None:
        """The documented figure that the verdict rests on, in the metric's unit."""
        figure: float | None = getattr(self.documented, self.judged_by.field)
        return figure

    @property
    def conditions(self) -> dict[str, Any]:
        """The conditions of a run that the row fixes, by the keys of tables; ``None`` for those that it lacks."""
        workload, batch = self.workload, self.batch
        return {
            "model": workload.model,
            "size": workload.size,
            "framework": workload.framework,
            "dtype": workload.dtype,
            "accelerator": self.accelerator,
            "gpus": self.gpus,
            "gpus_per_node": self.gpus_per_node,
            "sequence_length": workload.sequence_length,
            "global_batch_size": batch.global_batch_size,
            "micro_batch_size": batch.micro_batch_size,
            "gradient_accumulation_steps": batch.gradient_accumulation_steps,
            "layers": workload.layers,
            **self.parallelism.degrees,
        }

    @property
    def settings(self) -> dict[str, str]:
        """Documented training settings, by short names, which distinguish similar rows."""
        settings_by_name = {
            "sequence": self.workload.sequence_length,
            "micro-batch": self.batch.micro_batch_size,
            "gas": self.batch.gradient_accumulation_steps,
            **self.parallelism.degrees,
            **self.attributes,
            "noted": self.notes,
        }
        return {name: f"{value}" for name, value in settings_by_name.items() if value is not None}


class Blank(NamedTuple):
    """A key without a value."""

    #: Those of the recipe with ``recipe.`` in front.
    key: str
    #: Line in the file, from 1.
    line: int
    #: The value to write there.
    wanted: str
    #: Reason in the importer's comment; empty if there is none.
    reason: str
    #: True if it is at the row, and not at its table or its file.
    is_own: bool


@dataclass(frozen=True)
class BlankRow:
    """A row with a blank value, which therefore cannot run."""

    #: The row's later id, with :data:`BLANK` for each blank value.
    id: str
    location: Location
    #: Values of the file, the table and the row itself, by key, without mappings and lists.
    known: Mapping[str, Any]
    blanks: tuple[Blank, ...]
    #: Line of its table's header in the document; ``None`` unless the importer wrote it.
    document_table: int | None


def row_id(row: Mapping[str, Any]) -> str:
    """The id of a row with these values: ``llama2_70b_fp8[H100x64]``."""
    size = f"_{row['size']}" if "size" in row else ""
    case = f"-{row['case']}" if "case" in row else ""
    return f"{row['model']}{size}_{row['dtype']}[{row['accelerator']}x{row['gpus']}{case}]"


def blank_id(row: Mapping[str, Any]) -> str:
    """The same with :data:`BLANK` for each part without a value."""
    with_blanks = dict.fromkeys(("model", "dtype", "accelerator", "gpus"), BLANK)
    return row_id({**with_blanks, **{key: value or BLANK for key, value in row.items()}})


#: Between the id of a row and its tile.
TILE = "@"


def without_tile(row_id: str) -> str:
    """The id of a row on any nodes: of ``llama2_70b_fp8[H100x64]@n[001-008]`` the part before the tile."""
    return row_id.partition(TILE)[0]


def tile_of(row_id: str) -> str:
    """The tile in a row's id or its node id, ``n[001-008]``; empty if it has none."""
    return row_id.partition(f"]{TILE}")[2]


def rows_text(ids: Collection[str]) -> str:
    """A number of rows by their ids: ``12 rows``, ``32 tiles of 1 row``, ``35 rows, 32 of them tiles``."""
    tiles = [one for one in ids if tile_of(one)]
    if tiles and len(tiles) == len(ids):
        return f"{rounded(len(tiles), 'tile')} of {rounded(len({*map(without_tile, tiles)}), 'row')}"
    return rounded(len(ids), "row") + (f", {len(tiles)} of them tiles" if tiles else "")


def on_tile(row: Baseline, tile: str) -> Baseline:
    """The row on these nodes; no canary, since it shows these nodes and not the cluster."""
    return replace(row, id=f"{row.id}{TILE}{tile}", tile=tile, canary=False)


def row_matches(pattern: str | None, row_id: str) -> bool:
    """True if a pattern matches a row id or node id; only ``*`` and ``?`` are special, and ``None`` matches all."""
    return pattern is None or fnmatch.fnmatchcase(row_id, pattern.rpartition("::")[2].replace("[", "[[]"))


def transferred(row: Baseline, gpus: int) -> Baseline | None:
    """A row on another number of GPUs with the same work for each of them, and so with the same step time.

    The batch grows with the GPUs, as it does in the recipes (weak scaling); the layout there, beyond the degrees of one
    replica, is left to the recipe. ``None`` if the batch or the nodes cannot be divided so, or the row documents
    figures of a site's own.
    """
    batch, ratio = row.batch.global_batch_size, gpus / row.gpus
    if batch is None or batch * gpus % row.gpus or gpus % min(row.gpus_per_node, gpus) or row.metrics:
        return None
    ratios = {"tokens_per_s": ratio, "samples_per_s": ratio, "days_to_train_1t_tokens": 1 / ratio}
    figures = {key: value * ratios.get(key, 1) for key, value in vars(row.documented).items() if value is not None}
    head, _, behind = row.id.partition(f"[{row.accelerator}x{row.gpus}")
    title = f"{row.source.title or row.id}, transferred per GPU from {row.gpus} GPUs"
    return replace(
        row,
        id=f"{head}[{row.accelerator}x{gpus}{behind[:-1]}-of-{row.gpus}]",
        gpus=gpus,
        batch=replace(row.batch, global_batch_size=batch * gpus // row.gpus),
        parallelism=replace(row.parallelism, dp=None, fsdp=None),
        documented=Figures(**figures),
        accepted={},
        source=replace(row.source, title=title),
    )


# -- The statistic over the steps of a log: ``last``, ``mean[35:44]``, ``median[-10:]`` ------------

Kind = Literal["last", "mean", "median"]

_PATTERN = re.compile(r"(last|mean|median)(?:\[(-?\d+)?:(-?\d+)?\])?")


@dataclass(frozen=True)
class Statistic:
    """A statistic over the steps of one log.

    The window counts steps as the log does and includes both its ends, as the recipes' own tools do (``mean[35:44]`` is
    the mean of ten steps). A negative number counts from the last step: ``median[-10:]`` is the median of the last ten.
    """

    kind: Kind
    first: int | None = None
    last: int | None = None

    def __str__(self) -> str:
        window = ":".join("" if bound is None else str(bound) for bound in (self.first, self.last))
        return self.kind if window == ":" else f"{self.kind}[{window}]"


@lru_cache(maxsize=256)
def parse_statistic(text: str) -> Statistic:
    """Parse a statistic as a table writes it; a ValueError has the wanted form."""
    match = _PATTERN.fullmatch(text)
    wanted = "wanted last, mean or median, optionally with a window such as mean[35:44] or median[-10:]"
    if match is None:
        raise ValueError(f"got '{text}', {wanted}")
    first, last = (int(bound) if bound else None for bound in match.group(2, 3))
    has_window = match.group(0) != match.group(1)
    if has_window and match.group(1) == "last":
        raise ValueError(f"got '{text}', but 'last' is one step and takes no window")
    if has_window and first is None and last is None:
        raise ValueError(f"got '{text}', an empty window; {wanted}")
    if first is not None and last is not None and (first < 0) == (last < 0) and first > last:
        raise ValueError(f"got '{text}', whose window ends before it starts")
    return Statistic(cast(Kind, match.group(1)), first, last)


# -- Names of container images: one image has one name, in every source ---------------------------

#: The variable that selects the image in all recipes from release 24.11 on.
IMAGE_VARIABLE = "RUN_CONF_IMAGE"

#: ``docker://user:password@``, and the rest after a token in a query; the "@" of a digest is part of the name.
_USER_INFO = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]{0,30}://)[^\s/?#]+@(?!sha\d)")
_QUERY = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]{0,30}://[^?]*)\?.*$")
#: ``user@registry#image``, as container tools accept it without a scheme.
_BARE_USER_INFO = re.compile(r"^[^\s/?#]+@(?!sha\d)(?=[^\s/#]+[/#])")


def image_name(image: str) -> str:
    """An image's name: the file name without its staging area, or the whole registry path.

    It depends on the text alone: user and password of a job change no definition.
    """
    line = " ".join(image.split())
    if line.startswith(("/", "./", "../", "~")):
        # The staging area differs between clusters, and its name is no part of the software.
        line = PurePosixPath(line).name.strip()
    for pattern, kept in ((_USER_INFO, r"\1"), (_QUERY, r"\1"), (_BARE_USER_INFO, "")):
        line = pattern.sub(kept, line)
    return masked_text(line)


def image_of(environment: Mapping[str, str]) -> str | None:
    """The image that a job's environment selects."""
    chosen = environment.get(IMAGE_VARIABLE, "")
    return image_name(chosen) if chosen.strip() else None


# -- The definition of a row: conditions for comparing two results, and its hash --

# Results with equal hashes may be compared; when the hash changes, a new series begins. Figures, tolerance and the
# place in the document are not part of it: they are expectations of a run.

# An experiment is the definition without the software. A row's runs stay one series when its image or its release
# changes: the comparison across the change shows if the new one is slower.

#: Hexadecimal digits of a hash: that two of a million definitions share one has a chance of 0.2 %.
_DIGITS = 12
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)

#: Facts of a definition about the software, not the training.
_SOFTWARE = frozenset({"image", "release"})


def definition_facts(baseline: Baseline, image: str | None = None) -> dict[str, Any]:
    """The facts of a row's definition, without unknown ones.

    ``image`` is the container image of the run, by default the recipe's own.
    """
    recipe, image_used = baseline.recipe, image or baseline.recipe.image
    workload, criterion = baseline.workload, baseline.criterion
    facts: dict[str, Any] = {
        **baseline.conditions,
        "model_flops": workload.model_flops_per_sample,
        "formula": workload.formula,
        "activation_recomputation": workload.activation_recomputation,
        "metric": criterion.metric,
        "at": criterion.at,
        "unit": criterion.unit,
        "better": criterion.better,
        "calibration_flops": baseline.calibration_flops,
        "statistic": criterion.statistic,
        "read": None if criterion.read is None else criterion.read.stated(),
        "recipe.directory": recipe.directory,
        "recipe.script": recipe.script,
        "recipe.steps": recipe.steps,
        **_add_prefix("recipe.environment", recipe.environment),
        "recipe.arguments": " ".join(recipe.arguments) or None,
        **_add_prefix("attributes", baseline.attributes),
        "image": None if image_used is None else image_name(image_used),
        # Two releases have rows of one name and settings with different software: the image distinguishes them, if
        # known.
        "release": baseline.source.release if image_used is None else None,
    }
    # Left out: a fact that a later release adds changes no hash of a row without it.
    return {name: value for name, value in facts.items() if value is not None}


def definition_hash(baseline: Baseline, image: str | None = None) -> str:
    """Twelve hexadecimal digits as the hash of :func:`definition_facts`."""
    return _hash(definition_facts(baseline, image))


def experiment_hash(baseline: Baseline) -> str:
    """Twelve hexadecimal digits as the hash of a row's experiment, for any image and release."""
    facts = definition_facts(baseline)
    return _hash({name: value for name, value in facts.items() if name not in _SOFTWARE})


def accepted_for(baseline: Baseline, cluster: str | None, definition: str) -> tuple[Accepted | None, Accepted | None]:
    """A cluster's accepted figure for a row, as ``(counts, does not count)``; at most one of the two is there.

    It counts if it was measured under the definition of the judged run: under another one it is a figure of another
    experiment. It ends when the document's figure changes.
    """
    accepted = None if cluster is None else baseline.accepted.get(cluster)
    if accepted is None:
        return None, None
    return (accepted, None) if _counts(baseline, accepted, definition) else (None, accepted)


def accepted_to_expect(baseline: Baseline, cluster: str, image: str | None) -> Accepted | None:
    """A cluster's accepted figure for a row that will count for a future run, as far as is known.

    ``image`` is the container image of that run; ``None`` if only its log will show it.
    """
    accepted = baseline.accepted.get(cluster)
    named = None if accepted is None else image or accepted.image
    return accepted if accepted is not None and _counts(baseline, accepted, definition_hash(baseline, named)) else None


def counts_with_its_image(baseline: Baseline, accepted: Accepted) -> bool:
    """True if an accepted figure counts for a run with the image of its own measurement."""
    return _counts(baseline, accepted, definition_hash(baseline, accepted.image))


def has_ended(baseline: Baseline, accepted: Accepted) -> bool:
    """True if the document's figure is another one than that which an accepted figure was accepted against.

    It differs by more than its rounding: half of the last digit of the coarser one.
    """
    then, now = accepted.documented, baseline.judged
    if then is None or now is None:
        return False
    rounding = max(Decimal(repr(float(value))).as_tuple().exponent for value in (then, now))
    return abs(then - now) > 0.5000001 * 10.0 ** int(rounding)


def _counts(baseline: Baseline, accepted: Accepted, definition: str) -> bool:
    return accepted.definition == definition and not has_ended(baseline, accepted)


def _hash(facts: Mapping[str, Any]) -> str:
    return hashlib.sha256(_CANONICAL.encode(facts).encode("ascii")).hexdigest()[:_DIGITS]


def _add_prefix(prefix: str, texts: Mapping[str, str]) -> dict[str, str]:
    return {f"{prefix}.{name}": text for name, text in texts.items()}
