"""Each log, read by an expression of its own that owes nothing to pytest_gsw.logs."""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from pytest_gsw.tables.model import Baseline
from tests.unit.demo.conftest import Trained

Train = Callable[..., Trained]
Rows = Mapping[str, Baseline]


def paxml(text: str) -> list[float]:
    pattern = r"^I\d{4} [\d:.]{15} (\d+) programs\.py:\d+\] \[PAX STATUS\]: train_step\(\) took (\d+\.\d{6}) seconds\.$"
    by_thread: dict[str, list[float]] = {}
    for thread, seconds in re.findall(pattern, text, re.MULTILINE):
        by_thread.setdefault(thread, []).append(float(seconds))
    first, second = by_thread.values()
    assert first != second
    assert len(first) == len(second)
    return first


def nemo(text: str) -> list[float]:
    head = r"\rEpoch 0: : +\d+%\|.{10}\| \d+/50 \[[\d:]+<[\d:]+, v_num=demo, "
    pattern = head + r"[^\]]*global_step=([\d.]+), [^\]]*timing in s=([\d.]+)\]"
    return list({float(step): float(seconds) for step, seconds in re.findall(pattern, text)}.values())


def maxtext(text: str) -> list[float]:
    found = re.findall(r"^completed step: (\d+), seconds: (\d+\.\d{3}), TFLOP/s/device: ", text, re.MULTILINE)
    starts = [position for position, (step, _) in enumerate(found) if step == "0"]
    assert len(starts) == 4  # two runs of two ranks
    return [float(seconds) for _, seconds in found[starts[2] :: 2]]


def torchtitan(text: str) -> list[float]:
    pattern = r"^\[rank0\]:\[titan\] .* step: +\d+  loss: +[\d.]+  .*  tps: ([\d,]+)  tflops: [\d,.]+  mfu: N/A$"
    return [4096 * 128 / 64 / int(rate.replace(",", "")) for rate in re.findall(pattern, text, re.MULTILINE)]


def composer(text: str) -> list[float]:
    pattern = r"^\[batch=\d+/50\]:\n(?:\t .*\n)*?\t Train throughput/device/tokens_per_sec: (\d+\.\d{4})$"
    return [4096 * 128 / 64 / float(rate) for rate in re.findall(pattern, text, re.MULTILINE)]


def automodel(text: str) -> list[float]:
    iteration = r"\| Iteration \d+ \| num_label_tokens=524288 \| .* \| loss=\d+\.\d{4}"
    found = re.findall(rf"{iteration}\n.* \| Max iter time: (\d+\.\d{{6}}) seconds$", text, re.MULTILINE)
    return [float(seconds) for seconds in found]


def megatron(text: str) -> list[float]:
    pattern = (
        r"^ iteration +\d+/ +\d+ \| consumed samples: +\d+ \| elapsed time per iteration \(ms\): (\d+\.\d) \|"
        r" learning rate: \S+ \| global batch size: +\d+ \| lm loss: \d\.\d{6}E\+\d\d \|.*"
        r" number of nan iterations:   0 \|$"
    )
    return [float(milliseconds) / 1000 for milliseconds in re.findall(pattern, text, re.MULTILINE)]


def checkpoint(text: str) -> list[float]:
    found = re.findall(r"^time \(ms\) \| save-checkpoint: (\d+\.\d\d)$", text, re.MULTILINE)
    return [float(milliseconds) / 1000 for milliseconds in found]


def deepspeed(text: str) -> list[float]:
    return [1024 / float(rate) for rate in re.findall(r"global_step=\d+, Running\S+ CurrSamplesPerSec=([\d.]+),", text)]


def huggingface(text: str) -> list[float]:
    summaries = re.findall(r"^\{'train_runtime': .*\}$", text.replace("\r", "\n"), re.MULTILINE)
    return [512 / json.loads(line.replace("'", '"'))["train_samples_per_second"] for line in summaries]


#: Reader, what it finds in a healthy log, the seconds that the row documents, and which of the steps count.
LOGS: dict[str, tuple[Callable[[str], list[float]], int, float, slice]] = {
    "paxml": (paxml, 20, 7.47, slice(-1, None)),
    "nemo": (nemo, 50, 12.84, slice(-1, None)),
    "maxtext": (maxtext, 50, 4.324, slice(-1, None)),
    "torchtitan": (torchtitan, 50, 4.324, slice(-1, None)),
    "automodel": (automodel, 50, 4.324, slice(-1, None)),
    "composer": (composer, 49, 4.324, slice(-1, None)),
    "megatron": (megatron, 12, 137.0, slice(None)),
    "megatron-window": (megatron, 6, 0.661, slice(3, 4)),
    "megatron-deepspeed": (megatron, 12, 137.0, slice(None)),
    "checkpoint": (checkpoint, 2, 17.96068, slice(None)),
    "deepspeed": (deepspeed, 10, 137.0, slice(-1, None)),
    "huggingface": (huggingface, 2, 139.0, slice(None)),
}


@pytest.mark.parametrize("name", LOGS)
@pytest.mark.parametrize(("fault", "factor"), [("", 1.0), ("slow:12%", 1.12), ("fast:10%", 0.90)])
def test_the_log_says_what_is_documented(rows: Rows, trained: Train, name: str, fault: str, factor: float) -> None:
    read, count, documented_s, counted = LOGS[name]
    run = trained(rows[name], fault, GSW_DEMO_SEED="1")
    steps = read(run.text)
    assert run.exit_code == 0
    assert len(steps) == count
    assert statistics.fmean(steps[counted]) == pytest.approx(documented_s * factor, rel=0.01)


@pytest.mark.parametrize("name", LOGS)
def test_every_log_says_that_it_is_simulated_and_whose_it_is(rows: Rows, trained: Train, name: str) -> None:
    row = rows[name]
    lines = trained(row, OPTIMIZATION_NAME="try").text.splitlines()
    assert lines[0] == "pytest-gsw demo: this is a simulation, no GPU was used"
    assert lines[1] == (
        f"GSW: MODEL={row.model} FRAMEWORK={row.framework} MODEL_SIZE={row.size} JOB_NUM_NODES=8 GPUS_PER_NODE=8"
        f" DTYPE={row.dtype} SYNTHETIC_DATA=True GSW_VERSION=demo FW_VERSION=simulation IMAGE='simulation'"
        " JOB_ID=481220 JOB_MODE=training OPTIMIZATION_NAME='try' OPTIMIZATION_CODE='' BASE_CONFIG=''"
    )
    assert any(" NCCL INFO " in line for line in lines)


def test_nemo_draws_each_step_twice_and_the_first_is_stale(rows: Rows, trained: Train) -> None:
    text = trained(rows["nemo"]).text
    bars = re.findall(r"\| (\d+)/50 \[[^\]]*global_step=([\d.]+), [^\]]*\]", text)
    assert bars[:4] == [("1", "0.000"), ("2", "0.000"), ("2", "1.000"), ("3", "1.000")]
    assert bars.count(("50", "49.00")) == 3
    assert "consumed_samples=6400.0," in text
    assert re.search(r"]\[NeMo W \d{4}-", text)  # glued to a bar
    assert "`Trainer.fit` stopped: `max_steps=50` reached." in text


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("megatron", r"^  fp8 \.+ hybrid$"),
        ("nemo", r"^      fp8: true$"),
        ("torchtitan", r" Float8 tensorwise scaled training active$"),
        ("composer", r"^precision: amp_fp8$"),
    ],
)
def test_a_variant_of_fp8_is_fp8(rows: Rows, trained: Train, name: str, line: str) -> None:
    assert re.search(line, trained(replace(rows[name], dtype="mxfp8")).text, re.MULTILINE)
