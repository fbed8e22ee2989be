"""Comparison of a log with its row: identity of the run, and its settings.

Only values that both sides state are compared, and only a certain contradiction counts. If a row contradicts itself, as
documents do, its contradictory values are not compared.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_gsw.demo import FIRST_LINE
from pytest_gsw.hardware import accelerator_of, is_same
from pytest_gsw.jobs.spec import configured_variables
from pytest_gsw.logs.identity import RECIPE_MARKER, precision_of
from pytest_gsw.logs.model import Identity
from pytest_gsw.logs.scan import LogFile, matching_records, opened, safe_text
from pytest_gsw.tables.benchmark_settings import amounts, letters, stated_settings
from pytest_gsw.tables.model import Baseline, Parallelism, image_name
from pytest_gsw.tables.release_rows import holds_for
from pytest_gsw.tables.releases import container_of, is_container

_PLAIN = frozenset({"bf16", "fp16", "fp32", "tf32"})
#: Quantizations, as parts of the names of their variants: ``mxfp8``, ``nvfp4``.
_QUANTIZED = ("fp8", "fp4", "int8", "int4")
_NAMES = {"model", "size", "framework", "dtype", "accelerator", "proxy", "gpus", "global_batch_size", "job_id"}
#: Further names of datatypes.
_DTYPES = {"double": "fp64", "float64": "fp64", "fp8_e4m3": "f8e4m3", "fp8_e5m2": "f8e5m2"}
#: The mean of a run may be so many times more or less than a length: that is drawn from a range, an answer may end
#: earlier, and a chat's template adds tokens.
_MEAN, _MEAN_RATIO = "mean ", 4.0
#: A part of the size in a model's name: ``70b``, ``8x7b``; ``17b`` and ``16e``, of parameters and experts.
_SIZE = re.compile(r"(?<![a-z0-9.])\d{1,9}(?:\.\d{1,9})?(?:x\d{1,9})?[bmte](?![a-z0-9])")
#: Name of the comparison, and field of an identity, for the recipe's release.
RELEASE = "release"
#: The same for the NeMo container.
CONTAINER = "container"


@dataclass(frozen=True)
class Compared:
    """One value that log and row both state."""

    name: str
    found: str
    wanted: str
    #: The field of :class:`~pytest_gsw.logs.model.Identity`, by which the line is found.
    field: str
    #: ``None`` if that is not known.
    agrees: bool | None = True

    @property
    def is_name(self) -> bool:
        """True if it identifies the run; other values are settings of the run."""
        return self.field in _NAMES

    @property
    def text(self) -> str:
        """Both values in words."""
        return f"{self.found} in the log, {self.wanted} {'wanted' if self.field == 'job_id' else 'in the row'}"


@dataclass(frozen=True)
class Evidence:
    """Facts about a job from a file: its launcher, or the settings of its run."""

    path: Path
    #: The run to which the file belongs. If it contradicts the row, the log is rejected as if it stated this itself.
    identity: Identity
    #: A reason for which the job's figures are not comparable with the row's; ``None`` if there is none.
    not_comparable: str | None = None
    #: The job's environment, for its record.
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def differing(self, row: Baseline, quantization: str | None) -> Sequence[Compared]:
        """Further differences from the row, in terms that no log has.

        Args:
            row: The row.
            quantization: Quantization of the run, from all sources; ``None`` if unknown.
        """
        return ()


def agreed(compared: tuple[Compared, ...]) -> dict[str, str]:
    """Values that agree, by name, for records."""
    return {value.name: value.found for value in compared if value.agrees}


def compare(
    baseline: Baseline, identity: Identity, *, job_id: str | None, image: str | None = None
) -> Iterator[Compared]:
    """All values that log and row both state.

    Args:
        baseline: The row.
        identity: The log's identity.
        job_id: The job that wrote the log; ``None`` if it may be any.
        image: The image that the row's recipe runs; ``None`` if it may run any.
    """
    parallelism, stated = stated_parallelism(baseline), identity.stated
    for name, wanted, field in (
        ("model", baseline.workload.model, "model"),
        ("model size", baseline.workload.size, "size"),
        ("framework", baseline.workload.framework, "framework"),
        ("dtype", baseline.workload.dtype, "dtype"),
        ("GPUs", baseline.gpus, "gpus"),
        ("global batch size", baseline.batch.global_batch_size, "global_batch_size"),
        ("job", job_id, "job_id"),
        ("sequence length", baseline.workload.sequence_length, "sequence_length"),
        ("layers", baseline.workload.all_layers, "layers"),
        ("hidden size", baseline.workload.hidden_size, "hidden_size"),
        ("micro-batch size", _micro_batch_size(baseline), "micro_batch_size"),
        ("TP", parallelism.tp, "tp"),
        ("PP", parallelism.pp, "pp"),
        ("CP", parallelism.cp, "cp"),
        ("EP", parallelism.ep, "ep"),
        ("DP", parallelism.dp, "dp"),
        ("FSDP", parallelism.fsdp, "fsdp"),
    ):
        # The actual value first; if it is the row's, also the one that the recipe requested.
        for found in (stated.get(field), identity.requested.get(field)):
            if found is not None and wanted is not None:
                # Rows without a name may show one of several collectives.
                agrees = _spelling(wanted, field) in {_spelling(word, field) for word in str(found).split(" or ")}
                yield Compared(name, str(found), str(wanted), field, agrees=agrees)
                if not agrees:
                    break
    yield from _accelerator(baseline, identity)
    yield from _settings(baseline, identity)
    yield from _gpus_of_degrees(baseline, identity)
    yield from _precision(baseline, identity)
    yield from _release(baseline, identity)
    yield from _container(baseline, identity)
    yield from _image(identity, image)


def _spelling(value: object, field: str) -> str:
    """A value in a form common to all spellings: a datatype or a collective as programs and tables name it."""
    text = str(value).lower()
    if field == "model":
        return letters(text)
    return (precision_of(text.encode()) or _DTYPES.get(text, text)) if field == "dtype" else text


def is_same_model(name: str, row: Baseline) -> bool:
    """True if a name may be that of a row's model: one is a part of the other. ``Llama-3.1`` is no ``llama3``."""
    model, own = letters(name.rpartition("/")[2]), "[^a-z0-9]*".join(letters(row.workload.model))
    is_in = re.search(rf"{own}(?!\.\d)", name.lower()) is not None
    return is_in or model in letters(row.workload.model) or model in letters(row.workload.name)


def _served_model(baseline: Baseline, name: str) -> Iterator[Compared]:
    """The model that a server was asked for, by its name on a hub, a name of the site's own, or a path.

    An own name that is not like the row's leaves the model open, and so does a path with a size; another path is none.
    """
    name = name.partition("/snapshots/")[0].rstrip("/")
    # The last part of a path that has the model or a size; below it may be the format of the weights.
    parts = [part for part in name.split("/") if letters(baseline.workload.model) in letters(part) or _sizes(part)]
    is_own, is_path = is_same_model(name, baseline), name.startswith(("/", ".", "~"))
    sizes, wanted = _sizes(parts[-1]) if parts else set(), _sizes(baseline.workload.size or "")
    if is_own or sizes or not is_path:
        is_on_hub = "/" in name and not is_path
        yield Compared("model", name, baseline.workload.name, "model", agrees=is_own or (False if is_on_hub else None))
    if sizes and wanted:
        # 109b may be all parameters of 17B-16E.
        has_experts, is_wanted = (not set("xe").isdisjoint("".join(parts)) for parts in (sizes, wanted))
        agrees = wanted <= sizes or (None if has_experts != is_wanted else False)
        yield Compared("model size", "-".join(sorted(sizes)), str(baseline.workload.size), "size", agrees=agrees)


def _sizes(name: str) -> set[str]:
    """The parts of a size in a name."""
    return set(_SIZE.findall(name.lower().replace("_", "-")))


def _accelerator(baseline: Baseline, identity: Identity) -> Iterator[Compared]:
    """The accelerator, if both names are those of GPUs."""
    wanted, name = accelerator_of(baseline.accelerator.upper()), identity.accelerator or ""
    # A driver may have one name for two models: MI250X/MI250.
    devices = [list(filter(None, map(accelerator_of, device.split("/")))) for device in name.split(",")]
    if wanted is not None and any(devices):
        agrees = all(any(is_same(device_name, wanted) for device_name in names) for names in devices if names)
        yield Compared("accelerator", name, baseline.accelerator, "accelerator", agrees=agrees)


def _settings(baseline: Baseline, identity: Identity) -> Iterator[Compared]:
    """The settings of a benchmark at the row's point that the row states, or gives to its recipe."""
    if not identity.settings:
        return
    given = configured_variables(baseline, {}, baseline.nodes)
    row = stated_settings(baseline.workload.log_format, {**given, **baseline.attributes}) | {
        "nodes": str(baseline.nodes)
    }
    for key, stated in identity.settings.items():
        name, _, point = key.partition(" at ")
        if point not in {"", baseline.criterion.at}:
            continue
        wanted = row.get(name.removeprefix(_MEAN), "")
        if name == "model" and not wanted:
            yield from _served_model(baseline, stated)
        ratio = _MEAN_RATIO if name.startswith(_MEAN) else 1.0
        ours, theirs = amounts(stated), amounts(wanted)
        if wanted and bool(ours) == bool(theirs):
            agrees = any(amount <= other * ratio <= amount * ratio**2 for amount in theirs for other in ours)
            yield Compared(name, stated, wanted, key, agrees=agrees or stated.lower() == wanted.lower())


def stated_parallelism(baseline: Baseline) -> Parallelism:
    """The row's degrees of parallelism as a framework would state them; empty if they do not give its GPUs.

    A document may count data-parallel replicas of all experts; a framework's ``data_parallel_size`` also counts the
    ranks over which the experts are spread.
    """
    own = baseline.parallelism
    degrees = (own.tp, own.pp, own.cp, own.dp)
    product = math.prod([degree or 1 for degree in degrees])
    whole = own.tp is not None and own.pp is not None and own.dp is not None
    if product == baseline.gpus or (not whole and baseline.gpus % product == 0):
        return own
    if own.dp is not None and own.ep is not None and product * own.ep == baseline.gpus:
        return Parallelism(own.tp, own.pp, own.cp, own.ep, own.dp * own.ep, own.vp, own.fsdp)
    return Parallelism(ep=own.ep, fsdp=own.fsdp)


def _micro_batch_size(baseline: Baseline) -> int | None:
    """The row's micro-batch size; ``None`` if its batches contradict each other."""
    micro, steps = baseline.batch.micro_batch_size, baseline.batch.gradient_accumulation_steps
    replicas = stated_parallelism(baseline).dp
    if micro is None or baseline.batch.global_batch_size is None:
        return micro
    least = micro * (steps or 1) * (replicas or 1)
    whole = steps is not None and replicas is not None
    fits = least == baseline.batch.global_batch_size if whole else baseline.batch.global_batch_size % least == 0
    return micro if fits else None


def _gpus_of_degrees(baseline: Baseline, identity: Identity) -> Iterator[Compared]:
    """The product of a log's degrees of parallelism in GPUs, if it states all of them."""
    degrees = identity.degrees
    if not {"tp", "pp", "dp"} <= degrees.keys() or "fsdp" in degrees:
        return
    gpus = math.prod(degrees.get(name, 1) for name in ("tp", "pp", "cp", "dp"))
    name = f"GPUs by TP·PP·{'CP·' if 'cp' in degrees else ''}DP"
    yield Compared(name, str(gpus), str(baseline.gpus), "dp", agrees=gpus == baseline.gpus)


def _precision(baseline: Baseline, identity: Identity) -> Iterator[Compared]:
    """Precision of the run. A row of FP8 computes the rest in BF16 as a rule, but no document states it."""
    wanted, quantized = baseline.workload.dtype.lower(), identity.quantization
    if wanted in _PLAIN:
        if quantized not in {None, "none"}:
            yield Compared("precision", str(quantized), wanted, "quantization", agrees=False)
        elif identity.precision is not None:
            agrees = identity.precision == ("fp32" if wanted == "tf32" else wanted)
            yield Compared("precision", identity.precision, wanted, "precision", agrees=agrees)
        return
    kind = next((kind for kind in _QUANTIZED if kind in wanted), None)
    # Only a log that lists FP8 settings shows that nothing is quantized.
    if kind is not None and quantized is not None and (quantized != "none" or kind == "fp8"):
        text = quantized if quantized != "none" else identity.precision or "no fp8"
        # If the scaling of FP8 is known, MXFP8 is none of the others.
        is_kind = kind in quantized and not (wanted == "mxfp8" and quantized.startswith("fp8_"))
        yield Compared("precision", text, wanted, "quantization", agrees=is_kind)


def _release(baseline: Baseline, identity: Identity) -> Iterator[Compared]:
    """The recipe's release. Its scripts print one constant for several releases; a row's figures hold for some."""
    source = baseline.source
    agrees = holds_for(source, identity.release or "")
    if agrees is not None:
        wanted = ", ".join(source.releases) or str(source.release)
        yield Compared(RELEASE, str(identity.release), wanted, RELEASE, agrees=agrees)


def _container(baseline: Baseline, identity: Identity) -> Iterator[Compared]:
    """The NeMo container, if the row's figures hold for some and the run's image shows its release."""
    container = container_of(identity.image or "")
    wanted = [release for release in baseline.source.releases if is_container(release)]
    if container is not None and wanted:
        yield Compared(CONTAINER, container, ", ".join(wanted), "image", agrees=container in wanted)


def _image(identity: Identity, image: str | None) -> Iterator[Compared]:
    """The container image. A file and a registry have different names for one image, which are not compared."""
    if identity.image is None or image is None:
        return
    # Enroot separates the registry by a "#".
    ran, wanted = (image_name(name).replace("#", "/") for name in (identity.image, image))
    if ran == wanted or _is_file(ran) == _is_file(wanted):
        yield Compared("image", ran, wanted, "image", agrees=ran == wanted)


def _is_file(image: str) -> bool:
    return image.endswith((".sqsh", ".sif", ".simg", ".img"))


# -- Container image and versions of driver, NCCL and the like of a run, from its log --


#: Ranks print their identity at the log's beginning, and libraries their versions at start.
_SEARCHED_BYTES = 4 << 20
_MARKERS = (b"NCCL version ", b"Driver Version: ", b"cudaDriverVersion ", RECIPE_MARKER)
#: By the name in a record: ``NCCL version 2.21.5+cuda12.4`` (NCCL_DEBUG=VERSION), nvidia-smi's banner ``Driver Version:
#: 550.54.15    CUDA Version: 12.4``, and a recipe's own ``GSW: MODEL=… NCCL_VERSION=2.21.5``, which has the release of
#: the recipe and that of the framework as well.
_VERSIONS = {
    "recipe": re.compile(rb"\bGSW: MODEL=.{1,4000}? GSW_VERSION=([0-9][\w.+-]{0,40})"),
    "framework": re.compile(rb"\bGSW: MODEL=.{1,4000}? FW_VERSION=([0-9][\w.+-]{0,40})"),
    "nccl": re.compile(rb"\bNCCL(?: version |_VERSION=)([0-9][\w.+-]{0,40})"),
    "driver": re.compile(rb"\b(?:Driver Version:\s{1,9}|DRIVER_VERSION=)([0-9][\w.+-]{0,40})"),
    "cuda": re.compile(rb"\bCUDA(?: Version:\s{1,9}|_VERSION=)([0-9][\w.+-]{0,40})"),
    "cuda_driver": re.compile(rb"\bcudaDriverVersion ([0-9]{1,9})"),
}
_IMAGE = re.compile(rb"\bGSW: MODEL=.{1,4000}? IMAGE=(?:'([^']{1,400})'|([^\s']{1,400}))")


@dataclass(frozen=True)
class Provenance:
    """Software of a run, from its log; the last run's if a file holds several."""

    image: str | None = None
    #: By component: ``recipe``, ``framework``, ``nccl``, ``driver``, ``cuda``, ``cuda_driver``.
    versions: Mapping[str, str] = dataclasses.field(default_factory=dict)
    #: True if its first line states that nothing was run.
    is_simulated: bool = False


def provenance_in(log: Path | LogFile) -> Provenance:
    """The image in a recipe's own line of a log, the versions in the log, and its simulation mark.

    Raises:
        OSError: The log cannot be read.
    """
    image = b""
    versions: dict[str, str] = {}
    with opened(log) as file:
        for _, record in matching_records(file, _MARKERS, stop=_SEARCHED_BYTES):
            line = _IMAGE.search(record)
            # A shell that traces its commands shows the command that prints the line, with its variables.
            if line is not None and b"$" not in line[0]:
                image = line[1] or line[2]
            for name, pattern in _VERSIONS.items():
                version = pattern.search(record[:8000])
                if version is not None:
                    versions[name] = safe_text(version[1])
        return Provenance(image_name(safe_text(image)) or None, versions, is_simulated(file))


def is_simulated(log: Path | LogFile) -> bool:
    """True if a log's first line states that nothing was run.

    Raises:
        OSError: The log cannot be read.
    """
    with opened(log) as file:
        return file.read(0, len(FIRST_LINE)) == FIRST_LINE.encode()
