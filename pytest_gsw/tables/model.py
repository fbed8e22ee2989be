"""What one documented row says: the value that every other part of pytest-gsw works on."""

from __future__ import annotations

import fnmatch
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any, Literal, NamedTuple, cast

from pytest_gsw.common.redact import masked_text
from pytest_gsw.tables.metrics import JUDGED, Metric
from pytest_gsw.tables.releases import format_releases

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
    #: How its job is submitted, one of :data:`~pytest_gsw.tables.schema.LAUNCHERS`; ``None``: as the cluster says.
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
        release = format_releases(self.releases) if self.releases else self.release
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
    #: The definition that they were measured under, see :mod:`pytest_gsw.tables.model`.
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
    #: How the log's steps become one number, see :mod:`pytest_gsw.tables.model`.
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
    #: The row says whether the cluster is in its usual state; a run in which it is too slow is inconclusive.
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
    #: What is to be written there.
    wanted: str
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
    head, _, behind = row.id.partition(f"[{row.accelerator}x{row.gpus}")
    title = f"{row.source.title or row.id}, transferred per GPU from {row.gpus} GPUs"
    return replace(
        row,
        id=f"{head}[{row.accelerator}x{gpus}{behind[:-1]}-of-{row.gpus}]",
        gpus=gpus,
        global_batch_size=batch * gpus // row.gpus,
        parallelism=replace(row.parallelism, dp=None, fsdp=None),
        documented=figures,
        accepted={},
        source=replace(row.source, title=title),
    )


def _times(figure: float | None, ratio: float) -> float | None:
    return None if figure is None else figure * ratio


# -- How the steps of a log become one number: ``last``, ``mean[35:44]``, ``median[-10:]`` ---------

Kind = Literal["last", "mean", "median"]

_PATTERN = re.compile(r"(last|mean|median)(?:\[(-?\d+)?:(-?\d+)?\])?")


@dataclass(frozen=True)
class Statistic:
    """A statistic over the steps of one log.

    The window counts steps as the log does and includes both its ends, as the recipes' own
    tools do (``mean[35:44]`` is the mean of ten steps). A negative number counts from the
    last step: ``median[-10:]`` is the median of the last ten.
    """

    kind: Kind
    first: int | None = None
    last: int | None = None

    def __str__(self) -> str:
        if self.first is None and self.last is None:
            return self.kind
        first = "" if self.first is None else self.first
        last = "" if self.last is None else self.last
        return f"{self.kind}[{first}:{last}]"


def parse_statistic(text: str) -> Statistic:
    """Read a statistic as a table writes it; a ValueError says what is wanted."""
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
    same_end = first is not None and last is not None and (first < 0) == (last < 0)
    if same_end and cast(int, first) > cast(int, last):
        raise ValueError(f"got '{text}', whose window ends before it starts")
    return Statistic(cast(Kind, match.group(1)), first, last)


# -- Names of container images: one image has one name, wherever it is said and by whom ------------

#: The variable by which all recipes from release 24.11 on let their image be chosen.
IMAGE_VARIABLE = "RUN_CONF_IMAGE"

#: ``docker://user:password@``, and what a token in a query leaves; the "@" of a digest is part of the name.
_USER_INFO = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]{0,30}://)[^\s/?#]+@(?!sha\d)")
_QUERY = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]{0,30}://[^?]*)\?.*$")
#: ``user@registry#image``, as container tools take it without a scheme.
_BARE_USER_INFO = re.compile(r"^[^\s/?#]+@(?!sha\d)(?=[^\s/#]+[/#])")


def image_name(image: str) -> str:
    """An image's name: of a file its own, without the staging area that it lies in; of a registry the whole.

    It depends on nothing but the text: who runs a job, and with which password, changes no definition.
    """
    line = " ".join(image.split())
    if line.startswith(("/", "./", "../", "~")):
        # The staging area is another on every cluster, and its name no part of what was run.
        line = PurePosixPath(line).name.strip()
    for pattern, kept in ((_USER_INFO, r"\1"), (_QUERY, r"\1"), (_BARE_USER_INFO, "")):
        line = pattern.sub(kept, line)
    return masked_text(line)


def image_of(environment: Mapping[str, str]) -> str | None:
    """The image that a job's environment chooses."""
    chosen = environment.get(IMAGE_VARIABLE, "")
    return image_name(chosen) if chosen.strip() else None


# -- The definition of a row: what must be the same for two results to be comparable, and its hash --
#
# Results whose hashes are equal may be compared; when the hash changes, a new series begins. Figures,
# tolerance and the place in the document are not part of it: they say what is expected of a run, not
# what is run.
#
# An experiment is the definition without the software that it ran with. A row's runs stay one line of runs when its
# image or its release changes: whether the new one made it slower is asked exactly then.

#: Hexadecimal digits of a hash: that two of a million definitions share one has a chance of 0.2 %.
_DIGITS = 12
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)

#: Facts of a row that are part of its definition under their own names: of what is run, and of how it is measured.
_RUN = (
    *("model", "size", "framework", "dtype", "accelerator", "gpus", "gpus_per_node"),
    *("sequence_length", "global_batch_size", "micro_batch_size", "gradient_accumulation_steps", "layers"),
)
_MEASURED = ("formula", "activation_recomputation", "metric", "calibration_flops", "statistic")
#: Facts of a definition that say which software ran, and not what was trained.
_SOFTWARE = frozenset({"image", "release"})


def definition_facts(baseline: Baseline, image: str | None = None) -> dict[str, Any]:
    """What the definition of a row consists of; what is not known is left out.

    ``image`` is the container image that was run, by default the recipe's own.
    """
    recipe, named = baseline.recipe, image or baseline.recipe.image
    facts: dict[str, Any] = {
        **{name: getattr(baseline, name) for name in _RUN},
        **vars(baseline.parallelism),
        "model_flops": baseline.model_flops_per_sample,
        **{name: getattr(baseline, name) for name in _MEASURED},
        "recipe.directory": recipe.directory,
        "recipe.script": recipe.script,
        "recipe.steps": recipe.steps,
        **_prefixed("recipe.environment", recipe.environment),
        "recipe.arguments": " ".join(recipe.arguments) or None,
        **_prefixed("attributes", baseline.attributes),
        "image": None if named is None else image_name(named),
        # Two releases have rows of one name and settings, and run other software: an image tells it, if one is known.
        "release": baseline.source.release if named is None else None,
    }
    # Left out, so that a fact that a later release adds changes no hash of a row that does not have it.
    return {name: value for name, value in facts.items() if value is not None}


def definition_hash(baseline: Baseline, image: str | None = None) -> str:
    """Twelve hexadecimal digits that stand for :func:`definition_facts`."""
    return _hash(definition_facts(baseline, image))


def experiment_hash(baseline: Baseline) -> str:
    """Twelve hexadecimal digits that stand for a row's experiment, whatever image and release it runs with."""
    facts = definition_facts(baseline)
    return _hash({name: value for name, value in facts.items() if name not in _SOFTWARE})


def accepted_for(baseline: Baseline, cluster: str | None, definition: str) -> tuple[Accepted | None, Accepted | None]:
    """What a cluster has accepted for a row, as ``(counts, does not count)``; at most one of the two is there.

    It counts where it was measured under the definition of the run that is to be judged: under another one it is a
    figure of another experiment.
    """
    accepted = None if cluster is None else baseline.accepted.get(cluster)
    if accepted is None:
        return None, None
    return (accepted, None) if accepted.definition == definition else (None, accepted)


def accepted_to_expect(baseline: Baseline, cluster: str, image: str | None) -> Accepted | None:
    """What a cluster has accepted for a row and will count for a run that is not there yet, as far as can be told.

    ``image`` is the container image that the run is to have, ``None`` where only its log will tell.
    """
    accepted = baseline.accepted.get(cluster)
    named = None if accepted is None else image or accepted.image
    return accepted if accepted is not None and accepted.definition == definition_hash(baseline, named) else None


def counts_with_its_image(baseline: Baseline, accepted: Accepted) -> bool:
    """Whether an accepted figure counts for a run of the image that it was measured with, whatever that was."""
    return accepted.definition == definition_hash(baseline, accepted.image)


def _hash(facts: Mapping[str, Any]) -> str:
    return hashlib.sha256(_CANONICAL.encode(facts).encode("ascii")).hexdigest()[:_DIGITS]


def _prefixed(prefix: str, texts: Mapping[str, str]) -> dict[str, str]:
    return {f"{prefix}.{name}": text for name, text in texts.items()}


# -- Accelerators: how documents write their names, GPUs of a node, and peak FLOP/s with its source --
#
# Peaks are of dense matrix operations, without sparsity. The recipes' READMEs (DGX Cloud Benchmarking) count MFU of
# peaks that differ from NVIDIA's data sheets: 2,450 and 4,900 TFLOP/s of GB200 and GB300, where the data sheets of
# their NVL72 systems have 2,500 and 5,000. The READMEs' stand here, because the documented MFU is of these.

_DGXC = "the recipes' READMEs (DGX Cloud Benchmarking), 'peak theoretical throughput'"
_H200 = "NVIDIA's H200 data sheet (1,979 and 3,958 TFLOP/s with sparsity), the SXM module's; half of it is dense"
_A100 = "NVIDIA's A100 data sheet (624 TFLOP/s with sparsity); half of it is dense"
_V100 = "the GPT-2 document, citing the V100 data sheet"
_MI300 = "AMD's data sheets of MI300X and MI325X: matrix operations without sparsity"
_MI350 = (
    "AMD's CDNA 4: 256 compute units of 8,192 FP8 operations a clock (BF16 half, FP4 twice) at 2.2 and 2.4 GHz, rounded"
)
_TPU = "Google Cloud's data sheet of the TPU, 'peak compute per chip'"


@dataclass(frozen=True)
class Accelerator:
    """One kind of GPU, or one TPU chip."""

    #: As tables name it. One that is sold with two sizes of memory, at different speeds, has it behind its name.
    name: str
    #: Peak TFLOP/s by dtype.
    tflops: Mapping[str, float] = field(default_factory=dict)
    #: Who says so.
    source: str = ""
    #: GPUs of one node: DGX and HGX systems and AMD's platforms have eight, a compute tray of an NVL72 and a TPU's host
    #: four. V100 (DGX-1 and DGX-2 differ), GH200, L40S, TPU v5e and v6e have no usual node.
    gpus_per_node: int | None = None
    #: What nvidia-smi calls it.
    device: str = ""


def _blackwell(bf16: float, fp8: float, nvfp4: float) -> Mapping[str, float]:
    return {"bf16": bf16, "fp8": fp8, "mxfp8": fp8, "nvfp4": nvfp4}


#: NVIDIA's, AMD's and Google's.
ACCELERATORS: tuple[Accelerator, ...] = (
    Accelerator("H100", {"bf16": 989, "fp8": 1979}, _DGXC, 8, device="NVIDIA H100 80GB HBM3"),
    Accelerator("H200", {"bf16": 989, "fp8": 1979}, _H200, 8, device="NVIDIA H200"),
    Accelerator("GB200", _blackwell(2450, 4900, 9800), _DGXC, 4, device="NVIDIA GB200"),
    Accelerator("B200", _blackwell(2250, 4500, 9000), _DGXC, 8, device="NVIDIA B200"),
    Accelerator("GB300", _blackwell(2450, 4900, 14700), _DGXC, 4, device="NVIDIA GB300"),
    Accelerator("B300", _blackwell(2250, 4500, 13500), _DGXC, 8, device="NVIDIA B300"),
    Accelerator("GH200"),
    Accelerator("H20", gpus_per_node=8),
    *(Accelerator(f"A100{memory}", {"bf16": 312, "fp16": 312}, _A100, 8) for memory in ("", "-40GB", "-80GB")),
    Accelerator("A40"),
    Accelerator("L40S"),
    Accelerator("V100"),
    Accelerator("V100-32GB", {"fp16": 125}, _V100, device="Tesla V100-SXM2-32GB"),
    Accelerator("V100-16GB", {"fp16": 120}, _V100, device="Tesla V100-SXM2-16GB"),
    Accelerator("P100"),
    Accelerator("MI355X", {"bf16": 2500, "fp8": 5000, "mxfp8": 5000, "mxfp4": 10100}, _MI350, 8),
    Accelerator("MI350X", {"bf16": 2300, "fp8": 4600, "mxfp8": 4600, "mxfp4": 9200}, _MI350, 8),
    Accelerator("MI325X", {"bf16": 1307.4, "fp8": 2614.9}, _MI300, 8),
    Accelerator("MI300X", {"bf16": 1307.4, "fp8": 2614.9}, _MI300, 8),
    Accelerator("MI250X"),
    Accelerator("TPU7x", {"bf16": 2307, "fp8": 4614}, _TPU, 4),
    Accelerator("TPU-v6e", {"bf16": 918, "fp8": 918}, _TPU, None),
    Accelerator("TPU-v5p", {"bf16": 459, "fp8": 459}, _TPU, 4),
    Accelerator("TPU-v5e", {"bf16": 197}, _TPU, None),
    Accelerator("TPU-v4", {"bf16": 275}, _TPU, 4),
    Accelerator("TPU-v3"),
    Accelerator("TPU-v2"),
)

BY_NAME: Mapping[str, Accelerator] = {one.name: one for one in ACCELERATORS}
#: The size of memory behind a name, as in ``A100-80GB``.
_MEMORY = re.compile(r"-\d+GB$", re.IGNORECASE)


def is_same(one: str, other: str) -> bool:
    """True if two names are of one accelerator: a name without its memory stands for all of that name."""
    one, other = one.lower(), other.lower()
    return one == other or _MEMORY.sub("", one) == other or one == _MEMORY.sub("", other)


def gpus_per_node(name: str) -> int | None:
    """GPUs of one node by an accelerator, such as ``A100`` or ``H100-80GB``; ``None`` where that varies."""
    known = BY_NAME.get(name) or BY_NAME.get(name.rpartition("-")[0])
    return None if known is None else known.gpus_per_node
