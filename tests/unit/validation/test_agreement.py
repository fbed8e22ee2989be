"""What a log says of its run, set against its row; which image and versions it used."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_gsw.logs.model import Identity
from pytest_gsw.tables.bundled import bundled_baselines
from pytest_gsw.tables.load import load_tables
from pytest_gsw.tables.model import Baseline, Parallelism, Source
from pytest_gsw.validation.agreement import agreed, compare, provenance_in, stated_parallelism
from tests.messages import wording
from tests.unit.rows import LLAMA2_FP8_X128

ROW = replace(
    LLAMA2_FP8_X128,
    workload=replace(LLAMA2_FP8_X128.workload, dtype="bf16", sequence_length=1024, layers=24, hidden_size=2048),
    gpus=64,
    batch=replace(LLAMA2_FP8_X128.batch, global_batch_size=256, micro_batch_size=4, gradient_accumulation_steps=None),
    parallelism=Parallelism(tp=4, pp=2, dp=8),
    source=Source("readme.md", 31, "v25.02"),
)


def differences(row: Baseline, said: Identity, image: str | None = None) -> list[str]:
    return [f"{one.name} {one.text}" for one in compare(row, said, job_id="7", image=image) if not one.agrees]


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (Identity(sequence_length=256), "sequence length 256 in the log, 1024 in the row"),
        (Identity(layers=2), "layers 2 in the log, 24 in the row"),
        (Identity(hidden_size=512), "hidden size 512 in the log, 2048 in the row"),
        (Identity(micro_batch_size=8), "micro-batch size 8 in the log, 4 in the row"),
        (Identity(global_batch_size=8), "global batch size 8 in the log, 256 in the row"),
        (Identity(degrees={"tp": 8}), "TP 8 in the log, 4 in the row"),
        (Identity(degrees={"pp": 1}), "PP 1 in the log, 2 in the row"),
        (Identity(degrees={"dp": 4}), "DP 4 in the log, 8 in the row"),
        (Identity(precision="fp16"), "precision fp16 in the log, bf16 in the row"),
        (Identity(precision="bf16", quantization="fp8"), "precision fp8 in the log, bf16 in the row"),
        (Identity(release="24.11"), "release 24.11 in the log, v25.02 in the row"),
        (Identity(job_id="8"), "job 8 in the log, 7 wanted"),
    ],
)
def test_a_run_that_was_set_up_in_another_way(said: Identity, expected: str) -> None:
    assert differences(ROW, said) == [expected]


def test_a_run_that_was_set_up_as_the_row_is() -> None:
    said = Identity(
        sequence_length=1024,
        layers=24,
        hidden_size=2048,
        micro_batch_size=4,
        global_batch_size=256,
        precision="bf16",
        quantization="none",
        release="25.02",
        degrees={"tp": 4, "pp": 2, "cp": 1, "dp": 8},
    )
    compared = (*compare(ROW, said, job_id="7"),)
    assert agreed(compared) == {
        "global batch size": "256",
        "sequence length": "1024",
        "layers": "24",
        "hidden size": "2048",
        "micro-batch size": "4",
        "TP": "4",
        "PP": "2",
        "DP": "8",
        "GPUs by TP·PP·CP·DP": "64",
        "precision": "bf16",
        "release": "25.02",
    }
    assert len(compared) == 11


def test_what_ran_and_what_the_recipe_had_asked_for() -> None:
    wanted = ROW.gpus
    assert differences(ROW, Identity(gpus=wanted, requested={"gpus": 2 * wanted})) == [
        f"GPUs {2 * wanted} in the log, {wanted} in the row"
    ]
    assert differences(ROW, Identity(gpus=2 * wanted, requested={"gpus": wanted})) == [
        f"GPUs {2 * wanted} in the log, {wanted} in the row"
    ]
    assert len(differences(ROW, Identity(gpus=1, requested={"gpus": 2}))) == 1


def test_the_degrees_of_a_log_give_its_gpus() -> None:
    # What a log does not say is not compared.
    assert not [*compare(ROW, Identity(), job_id="7", image="a.sqsh")]
    row = replace(ROW, workload=replace(ROW.workload, hidden_size=None))
    assert not [*compare(row, Identity(hidden_size=3, degrees={"ep": 2, "cp": 4, "fsdp": 8}), job_id=None)]
    row = replace(ROW, parallelism=Parallelism())
    assert differences(row, Identity(degrees={"tp": 4, "pp": 2, "dp": 4})) == [
        wording("differs", ran="GPUs by TP·PP·DP 32", wanted=64)
    ]
    assert differences(row, Identity(degrees={"tp": 4, "pp": 2, "cp": 2, "dp": 4})) == []
    assert differences(row, Identity(degrees={"tp": 4, "pp": 2})) == []


@pytest.mark.parametrize(
    ("dtype", "said", "agrees"),
    [
        ("bf16", Identity(precision="bf16"), True),
        ("bf16", Identity(precision="fp32"), False),
        ("bf16", Identity(quantization="none"), None),
        ("bf16", Identity(quantization="int8"), False),
        ("fp16", Identity(precision="fp16", quantization="none"), True),
        ("fp32", Identity(precision="bf16"), False),
        ("tf32", Identity(precision="fp32"), True),
        # What a row of FP8 computes the rest in is nobody's business, and not every log speaks of FP8.
        ("fp8", Identity(precision="bf16"), None),
        ("fp8", Identity(precision="fp16", quantization="fp8"), True),
        ("fp8", Identity(precision="bf16", quantization="none"), False),
        ("fp8", Identity(quantization="mxfp8"), True),
        ("fp8", Identity(quantization="int8"), False),
        ("nvfp4", Identity(precision="bf16", quantization="none"), None),
        ("nvfp4", Identity(precision="bf16", quantization="fp8"), False),
        ("nvfp4", Identity(precision="bf16", quantization="fp4"), True),
        ("mxfp8", Identity(quantization="fp8"), True),
        ("int8", Identity(quantization="fp8"), False),
        ("int8", Identity(quantization="int8"), True),
        ("hybrid", Identity(quantization="fp8"), None),
    ],
)
def test_precision(dtype: str, said: Identity, agrees: bool | None) -> None:
    compared = [
        one
        for one in compare(replace(ROW, workload=replace(ROW.workload, dtype=dtype)), said, job_id=None)
        if one.name == "precision"
    ]
    assert [one.agrees for one in compared] == ([] if agrees is None else [agrees])


def test_a_run_of_fp8_that_was_none_names_what_it_was() -> None:
    row = replace(ROW, workload=replace(ROW.workload, dtype="fp8"))
    assert differences(row, Identity(quantization="none")) == [wording("differs", ran="precision no fp8", wanted="fp8")]
    assert differences(row, Identity(precision="bf16", quantization="none")) == [
        wording("differs", ran="precision bf16", wanted="fp8")
    ]


@pytest.mark.parametrize(
    ("own", "gpus", "expected"),
    [
        (Parallelism(tp=4, pp=2, dp=8), 64, Parallelism(tp=4, pp=2, dp=8)),
        (Parallelism(tp=4, pp=2), 64, Parallelism(tp=4, pp=2)),
        (Parallelism(dp=8), 64, Parallelism(dp=8)),
        # Replicas of all experts: 4 * 2 * 1 is 8 of 64 ranks.
        (Parallelism(tp=4, pp=2, ep=8, dp=1), 64, Parallelism(tp=4, pp=2, ep=8, dp=8)),
        (Parallelism(tp=4, pp=8, dp=1), 16, Parallelism()),
        (Parallelism(tp=4, pp=8, dp=1), 64, Parallelism()),
    ],
)
def test_a_row_that_contradicts_itself_is_not_held_against_a_run(
    own: Parallelism, gpus: int, expected: Parallelism
) -> None:
    assert stated_parallelism(replace(ROW, gpus=gpus, parallelism=own)) == expected


@pytest.mark.parametrize(
    ("steps", "batch", "is_compared"), [(8, 256, True), (None, 256, True), (8, 512, False), (None, 100, False)]
)
def test_a_micro_batch_that_does_not_fit_its_row_is_not_compared(
    steps: int | None, batch: int, is_compared: bool
) -> None:
    row = replace(ROW, batch=replace(ROW.batch, gradient_accumulation_steps=steps, global_batch_size=batch))
    assert len([*compare(row, Identity(micro_batch_size=8), job_id=None)]) == is_compared


def test_layers_of_the_full_model_are_not_a_proxys() -> None:
    row = replace(ROW, workload=replace(ROW.workload, layers=None, model_layers=126))
    assert differences(row, Identity(layers=7)) == [wording("differs", ran="layers 7", wanted=126)]
    proxy = replace(row, workload=replace(row.workload, proxy=True))
    assert not [*compare(proxy, Identity(layers=7), job_id=None)]
    assert differences(replace(row, workload=replace(row.workload, proxy=True, layers=21)), Identity(layers=7)) == [
        wording("differs", ran="layers 7", wanted=21)
    ]


@pytest.mark.parametrize(
    ("release", "releases", "said", "agrees"),
    [
        ("v25.01.1", (), "25.01", True),
        ("v25.03", (), "25.02", True),  # its scripts say so
        ("v25.04.02", (), "25.04.01", True),
        ("v25.02", (), "25.04", False),
        ("v25.02", (), "demo", None),
        ("main", (), "25.02", None),
        (None, (), "25.02", None),
        # What its figures are of counts before what it was published with.
        ("v24.11.1", ("25.01", "25.01.1"), "25.01", True),
        ("v24.11.1", ("25.03",), "25.02", True),
        ("v24.11.1", ("25.04",), "25.04.01", False),
        ("v24.11.1", ("25.04.02",), "25.04.01", True),
        ("v24.11.1", ("24.11.1",), "26.11", False),  # of a release that is not known yet, too
        ("v24.11.1", ("24.11.1",), "demo", None),
        ("v24.11.1", ("24.11.1",), None, None),
    ],
)
def test_release(release: str | None, releases: tuple[str, ...], said: str | None, agrees: bool | None) -> None:
    row = replace(ROW, source=Source("readme.md", 31, release, releases))
    compared = compare(row, Identity(release=said), job_id=None)
    assert [one.agrees for one in compared] == ([] if agrees is None else [agrees])


@pytest.mark.parametrize(
    ("image", "said", "agrees"),
    [
        ("/lustre/a/nemo.sqsh", "/scratch/nemo.sqsh", True),
        ("nemo.sqsh", "other.sqsh", False),
        ("nvcr.io/nvidia/nemo:24.09", "nvcr.io/nvidia/nemo:24.12", False),
        # A file and a registry have each their own name for one image.
        ("nvcr.io/nvidia/nemo:24.09", "/images/nvidia+nemo+24.09.sqsh", None),
        (None, "a.sqsh", None),
    ],
)
def test_image(image: str | None, said: str, agrees: bool | None) -> None:
    compared = compare(ROW, Identity(image=said), job_id=None, image=image)
    assert [one.agrees for one in compared] == ([] if agrees is None else [agrees])


def test_bundled_rows_know_their_architecture() -> None:
    rows = load_tables([bundled_baselines()])
    known = {
        row.workload.name: (row.workload.all_layers, row.workload.hidden_size)
        for row in rows
        if not row.workload.proxy and row.workload.hidden_size
    }
    assert known["gpt3_175b"] == (96, 12288)
    assert known["llama2_70b"] == (80, 8192)
    assert known["llama3.1_405b"] == (126, 16384)
    assert known["grok1_314b"] == (64, 6144)


# ---- Which container image and versions a run used -----------------------------------------------

BANNER = "| NVIDIA-SMI 550.54.15   Driver Version: 550.54.15   CUDA Version: 12.4     |\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("NCCL version 2.21.5+cuda12.4\n", {"nccl": "2.21.5+cuda12.4"}),
        ("n17:42:99 [0] NCCL INFO cudaDriverVersion 12040\n", {"cuda_driver": "12040"}),
        (BANNER, {"driver": "550.54.15", "cuda": "12.4"}),
        (
            "GSW: MODEL=tiny FRAMEWORK=maxtext NCCL_VERSION=2.23.4 DRIVER_VERSION=560.28.03 CUDA_VERSION=12.6\n",
            {"nccl": "2.23.4", "driver": "560.28.03", "cuda": "12.6"},
        ),
        ("NCCL version 2.20.3\nstep 1\nNCCL version 2.21.5\n", {"nccl": "2.21.5"}),
        ("completed step: 0, seconds: 1.0\n", {}),
        ("NCCL version unknown\nDriver Version: N/A\n", {}),
        ("", {}),
    ],
)
def test_the_versions_that_a_log_names(tmp_path: Path, text: str, expected: dict[str, str]) -> None:
    log = tmp_path / "log"
    log.write_text(text)
    assert provenance_in(log).versions == expected


def test_a_version_without_an_end_is_cut(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"NCCL version 2" + b"." * 1_000 + b"\n")
    assert len(provenance_in(log).versions["nccl"]) == 41
    # A log that is not there.
    with pytest.raises(OSError, match="log"):
        provenance_in(tmp_path / "gone.log")


LINE = (
    "GSW: MODEL=llama2 FRAMEWORK=maxtext MODEL_SIZE=70b FW_VERSION=2024.12.09 IMAGE={} JOB_ID=481221 BASE_CONFIG=''\n"
)


@pytest.mark.parametrize(
    ("log", "image"),
    [
        (LINE.format("'/lustre/stage/nvidia+jax+maxtext-2024.12.09.sqsh'"), "nvidia+jax+maxtext-2024.12.09.sqsh"),
        (LINE.format("/stage/x.sqsh"), "x.sqsh"),
        (LINE.format("'nvcr.io/nvidia/nemo:24.09'"), "nvcr.io/nvidia/nemo:24.09"),
        ("0: " + LINE.format("'a.sqsh'") + "1: " + LINE.format("'a.sqsh'"), "a.sqsh"),
        (LINE.format("'first.sqsh'") + "step 1\n" + LINE.format("'second.sqsh'"), "second.sqsh"),
        (LINE.format("'\x1b[31mred.sqsh'"), "red.sqsh"),
        (LINE.format("'/stage/x.sqsh'") + "+ echo " + LINE.format("'$IMAGE'"), "x.sqsh"),
        ("+ echo " + LINE.format("'${IMAGE}'"), None),
        (LINE.format("''"), None),
        (LINE.replace("IMAGE={} ", ""), None),
        ("completed step: 1, seconds: 4.3\n", None),
        (LINE.format("'x.sqsh'").strip(), None),  # a line without its end is not whole
        ("", None),
    ],
)
def test_the_image_that_a_log_names(tmp_path: Path, log: str, image: str | None) -> None:
    path = tmp_path / "run.log"
    path.write_text(log)
    assert provenance_in(path).image == image
