"""What a log says of its run, set against its row: whose log it is, and whether the run was set up as the row is.

Only what both sides state is compared, and only a certain contradiction counts. Where a row contradicts itself, as
documents do, what it says of that is not held against a run.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from pytest_gsw.demo import FIRST_LINE
from pytest_gsw.logs.identity import RECIPE_MARKER
from pytest_gsw.logs.model import Identity
from pytest_gsw.logs.scan import LogFile, matching_records, opened, safe_text
from pytest_gsw.tables.load import holds_for
from pytest_gsw.tables.model import Baseline, Parallelism, image_name
from pytest_gsw.tables.releases import container_of, is_container

_PLAIN = frozenset({"bf16", "fp16", "fp32", "tf32"})
#: Kinds of fewer bits, which the names of their variants hold: ``mxfp8``, ``nvfp4``.
_QUANTIZED = ("fp8", "fp4", "int8", "int4")
_NAMES = frozenset({"model", "size", "framework", "dtype", "gpus", "global_batch_size", "job_id"})
#: The name of what is compared, and the field of an identity, that tells the recipe's release.
RELEASE = "release"
#: The same of the NeMo container.
CONTAINER = "container"


@dataclass(frozen=True)
class Compared:
    """One thing that log and row both state."""

    name: str
    said: str
    wanted: str
    #: The field of :class:`~pytest_gsw.logs.model.Identity`, by which the line is found.
    field: str
    agrees: bool = True

    @property
    def is_name(self) -> bool:
        """Whether it tells whose log it is; other things tell how the run was set up."""
        return self.field in _NAMES

    @property
    def text(self) -> str:
        """Both values in words."""
        return f"{self.said} in the log, {self.wanted} {'wanted' if self.field == 'job_id' else 'in the row'}"


@dataclass(frozen=True)
class Evidence:
    """What a file says of a job: of who launched it, or of how its run was set up."""

    path: Path
    #: Of which run the file is. A log is another's where it differs from the row, as it is by what it says itself.
    identity: Identity
    #: What the job was to do so that its figures say nothing of the row's; ``None`` where there is nothing.
    not_comparable: str | None = None
    #: What the job ran with, as a record keeps it.
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def differing(self, row: Baseline, quantization: str | None) -> Sequence[Compared]:
        """What else of it is not the row's, in words that no log has.

        Args:
            row: The row.
            quantization: What was computed in fewer bits, by all that is written of the job; ``None`` if unknown.
        """
        return ()


def evidence_beside(log: Path, job_id: str) -> tuple[Evidence, ...]:
    """What is written beside a log, where there is no session whose hooks could be asked: by NVIDIA's recipes."""
    return tuple(import_module("pytest_gsw.nvidia.evidence").evidence_beside(log, job_id))


def compare(
    baseline: Baseline, said: Identity, *, job_id: str | None, image: str | None = None
) -> tuple[Compared, ...]:
    """Everything that log and row both state.

    Args:
        baseline: The row.
        said: What the log says.
        job_id: The job that the log is to be of; ``None`` where it may be of any.
        image: The image that the row's recipe runs; ``None`` where it may run any.
    """
    return tuple(_compared(baseline, said, job_id, image))


def agreed(compared: tuple[Compared, ...]) -> dict[str, str]:
    """What was compared and agrees, by its name, as records keep it."""
    return {one.name: one.said for one in compared if one.agrees}


def _compared(baseline: Baseline, said: Identity, job_id: str | None, image: str | None) -> Iterator[Compared]:
    parallelism = stated_parallelism(baseline)
    for name, wanted, field in (
        ("model", baseline.model, "model"),
        ("model size", baseline.size, "size"),
        ("framework", baseline.framework, "framework"),
        ("dtype", baseline.dtype, "dtype"),
        ("GPUs", baseline.gpus, "gpus"),
        ("global batch size", baseline.global_batch_size, "global_batch_size"),
        ("job", job_id, "job_id"),
        ("sequence length", baseline.sequence_length, "sequence_length"),
        ("layers", baseline.all_layers, "layers"),
        ("hidden size", baseline.hidden_size, "hidden_size"),
        ("micro-batch size", _micro_batch_size(baseline), "micro_batch_size"),
        *[(name.upper(), getattr(parallelism, name), name) for name in ("tp", "pp", "cp", "ep", "dp", "fsdp")],
    ):
        # What ran, and where that is the row's, what the recipe had asked for.
        for found in (getattr(said, field), said.asked.get(field)):
            if found is not None and wanted is not None:
                agrees = str(found).lower() == str(wanted).lower()
                yield Compared(name, str(found), str(wanted), field, agrees=agrees)
                if not agrees:
                    break
    yield from _gpus_of_degrees(baseline, said)
    yield from _precision(baseline, said)
    yield from _release(baseline, said)
    yield from _container(baseline, said)
    yield from _image(said, image)


def stated_parallelism(baseline: Baseline) -> Parallelism:
    """The row's degrees of parallelism as a framework would state them; none where they do not give its GPUs.

    A document may count data-parallel replicas of all experts; a framework's ``data_parallel_size`` counts the ranks
    that the experts are spread over as well.
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
    """The row's micro-batch size; ``None`` where its batches contradict each other."""
    micro, steps, replicas = (
        baseline.micro_batch_size,
        baseline.gradient_accumulation_steps,
        stated_parallelism(baseline).dp,
    )
    if micro is None or baseline.global_batch_size is None:
        return micro
    least = micro * (steps or 1) * (replicas or 1)
    whole = steps is not None and replicas is not None
    fits = least == baseline.global_batch_size if whole else baseline.global_batch_size % least == 0
    return micro if fits else None


def _gpus_of_degrees(baseline: Baseline, said: Identity) -> Iterator[Compared]:
    """The GPUs that follow from the degrees of parallelism that a log states, where it states all of them."""
    if said.tp is None or said.pp is None or said.dp is None or said.fsdp is not None:
        return
    degrees = {"TP": said.tp, "PP": said.pp, **({"CP": said.cp} if said.cp is not None else {}), "DP": said.dp}
    gpus = math.prod(degrees.values())
    name = "GPUs by " + "·".join(degrees)
    yield Compared(name, str(gpus), str(baseline.gpus), "dp", agrees=gpus == baseline.gpus)


def _precision(baseline: Baseline, said: Identity) -> Iterator[Compared]:
    """What the run computed in. A row of FP8 computes the rest in BF16 as a rule, but no document says so."""
    wanted, quantized = baseline.dtype.lower(), said.quantization
    if wanted in _PLAIN:
        if quantized not in {None, "none"}:
            yield Compared("precision", str(quantized), wanted, "quantization", agrees=False)
        elif said.precision is not None:
            agrees = said.precision == ("fp32" if wanted == "tf32" else wanted)
            yield Compared("precision", said.precision, wanted, "precision", agrees=agrees)
        return
    kind = next((kind for kind in _QUANTIZED if kind in wanted), None)
    # That nothing is quantized is only said where a log knows of FP8.
    if kind is not None and quantized is not None and (quantized != "none" or kind == "fp8"):
        shown = quantized if quantized != "none" else said.precision or "no fp8"
        # Where it is said how FP8 is scaled, MXFP8 is none of the other ways.
        is_kind = kind in quantized and not (wanted == "mxfp8" and quantized.startswith("fp8_"))
        yield Compared("precision", shown, wanted, "quantization", agrees=is_kind)


def _release(baseline: Baseline, said: Identity) -> Iterator[Compared]:
    """The recipe's release. Its scripts say one constant for several; a row's figures are those of some."""
    source = baseline.source
    agrees = holds_for(source, said.release or "")
    if agrees is not None:
        wanted = ", ".join(source.releases) or str(source.release)
        yield Compared(RELEASE, str(said.release), wanted, RELEASE, agrees=agrees)


def _container(baseline: Baseline, said: Identity) -> Iterator[Compared]:
    """The NeMo container, where the row's figures are of some and the run's image tells which one it is."""
    ran = container_of(said.image or "")
    wanted = [release for release in baseline.source.releases if is_container(release)]
    if ran is not None and wanted:
        yield Compared(CONTAINER, ran, ", ".join(wanted), "image", agrees=ran in wanted)


def _image(said: Identity, image: str | None) -> Iterator[Compared]:
    """The container image. A file and a registry have each their own name for one image, which are not compared."""
    if said.image is None or image is None:
        return
    # Enroot separates the registry by a "#".
    found, wanted = (image_name(name).replace("#", "/") for name in (said.image, image))
    if found == wanted or _is_file(found) == _is_file(wanted):
        yield Compared("image", found, wanted, "image", agrees=found == wanted)


def _is_file(image: str) -> bool:
    return image.endswith((".sqsh", ".sif", ".simg", ".img"))


# -- Which container image and which versions of driver, NCCL and the like a run used, by its log's own word


#: Every rank says at the log's beginning who it is, and libraries say their versions when they start.
_SEARCHED_BYTES = 4 << 20
_MARKERS = (b"NCCL version ", b"Driver Version: ", b"cudaDriverVersion ", RECIPE_MARKER)
#: By the name that a record has for it: ``NCCL version 2.21.5+cuda12.4`` (NCCL_DEBUG=VERSION), nvidia-smi's banner
#: ``Driver Version: 550.54.15    CUDA Version: 12.4``, and a recipe's own ``GSW: MODEL=… NCCL_VERSION=2.21.5``, which
#: has the release of the recipe and that of the framework as well.
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
    """What a log says of the software that its run used; of several runs in one file, the last one's."""

    image: str | None = None
    #: By what they are of: ``recipe``, ``framework``, ``nccl``, ``driver``, ``cuda``, ``cuda_driver``.
    versions: Mapping[str, str] = dataclasses.field(default_factory=dict)
    #: Whether its first line says that nothing was run.
    is_simulated: bool = False


def provenance_in(log: Path | LogFile) -> Provenance:
    """The image that a recipe's own line in a log names, the versions that the log names, and whether anything was run.

    Raises:
        OSError: The log cannot be read.
    """
    image = b""
    versions: dict[str, str] = {}
    with opened(log) as file:
        for _, record in matching_records(file, _MARKERS, stop=_SEARCHED_BYTES):
            named = _IMAGE.search(record)
            # A shell that traces its commands shows the one that is to print the line, variables and all.
            if named is not None and b"$" not in named[0]:
                image = named[1] or named[2]
            for name, pattern in _VERSIONS.items():
                version = pattern.search(record[:8000])
                if version is not None:
                    versions[name] = safe_text(version[1])
        return Provenance(image_name(safe_text(image)) or None, versions, is_simulated(file))


def is_simulated(log: Path | LogFile) -> bool:
    """Whether a log's first line says that nothing was run.

    Raises:
        OSError: The log cannot be read.
    """
    with opened(log) as file:
        return file.read(0, len(FIRST_LINE)) == FIRST_LINE.encode()
