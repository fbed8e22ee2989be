"""How runs with faults end in this process, and what their logs say beside the figures that tests/truth measures."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_gsw.demo import recipe
from pytest_gsw.demo.recipe import find_row, play, train
from pytest_gsw.demo.writers import Event
from pytest_gsw.errors import ConfigurationError
from pytest_gsw.jobs.states import JobState, JobStatus
from pytest_gsw.logs.formats.registry import FORMATS
from pytest_gsw.stats.decision import Outcome
from pytest_gsw.stats.verdict import verdict_of
from pytest_gsw.tables.bundled import bundled_baselines
from pytest_gsw.tables.load import load_tables
from pytest_gsw.tables.model import Baseline
from pytest_gsw.validation.checks import read_steps
from pytest_gsw.validation.job_end import check_job
from pytest_gsw.validation.run import Run, ran_out_of_memory
from tests.unit.demo.conftest import ENVIRONMENT, ROWS, Trained
from tests.unit.validation.ended import measure_as_documented

Train = Callable[..., Trained]
Rows = Mapping[str, Baseline]
BUNDLED = load_tables([bundled_baselines()])


@pytest.mark.parametrize(
    ("name", "fault", "error"),
    [
        ("maxtext", "oom", "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to "),
        ("nemo", "oom", "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB. GPU 3 has "),
        ("megatron", "fail", "Traceback (most recent call last):\n"),
    ],
)
def test_a_training_that_raises(rows: Rows, trained: Train, name: str, fault: str, error: str) -> None:
    """What is left of its steps, tests/truth says of each format and fault."""
    run = trained(rows[name], fault)
    assert run.exit_code == 1
    assert f"\n{error}" in run.text


def test_wrong_identity(rows: Rows, trained: Train) -> None:
    assert " MODEL_SIZE=8b " in trained(rows["maxtext"], "wrong-identity").text
    assert (
        " MODEL_SIZE=70b "
        in trained(
            replace(rows["maxtext"], workload=replace(rows["maxtext"].workload, size="8b")), "wrong-identity"
        ).text
    )


def test_seeds(rows: Rows, trained: Train) -> None:
    row = rows["maxtext"]
    assert trained(row).log == trained(row).log
    other_job = trained(row, SLURM_JOB_ID="481221").text.replace("481221", "481220")
    assert other_job != trained(row).text
    seeded = trained(row, GSW_DEMO_SEED="7")
    assert seeded.text == trained(row, SLURM_JOB_ID="481221", GSW_DEMO_SEED="7").text.replace("481221", "481220")


def test_a_run_takes_the_seconds_it_is_given(rows: Rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 1000.0

    def sleep(seconds: float) -> None:
        nonlocal now_s
        now_s += seconds

    monkeypatch.setattr(recipe, "time", SimpleNamespace(monotonic=lambda: now_s, sleep=sleep))
    train(rows["maxtext"], {**ENVIRONMENT, "GSW_DEMO_SECONDS": "0.3"}, io.BytesIO())
    assert now_s == pytest.approx(1000.3)
    longer = {"MAX_STEPS": "500", "STAGE_PATH": str(tmp_path)}
    train(rows["nemo"], {**ENVIRONMENT, "GSW_DEMO_SECONDS": "0.3", **longer}, io.BytesIO())
    assert now_s == pytest.approx(1003.3)


def test_each_event_can_be_read_at_once() -> None:
    class Pipe(io.BytesIO):
        seen: tuple[bytes, ...] = ()

        def flush(self) -> None:
            self.seen = (*self.seen, self.getvalue())

    out = Pipe()
    play([Event(1.0, b"one\n"), Event(2.0, b"two")], 0.0, out)
    assert out.seen == (b"one\n", b"one\ntwo")


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"SLURM_JOB_ID": ""}, "SLURM_JOB_ID is not set; launch.sh and pytest-gsw set it for every job"),
        ({"JOB_TOTAL_GPUS": "h100:512"}, "JOB_TOTAL_GPUS: got 'h100:512', wanted a whole number"),
        ({"GSW_DEMO_SECONDS": "nan"}, "GSW_DEMO_SECONDS: got 'nan', wanted a number of seconds, 0 or more"),
    ],
)
def test_wrong_surroundings(rows: Rows, trained: Train, environment: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        trained(rows["maxtext"], **environment)
    assert str(caught.value) == message


@pytest.mark.parametrize("name", ["maxtext", "nemo", "megatron"])
def test_a_node_is_lost_after_a_step(rows: Rows, trained: Train, name: str) -> None:
    demo = {"GSW_DEMO": "node:demo-03=lost:1", "SLURM_JOB_NODELIST": "demo-[01-08]"}
    run = trained(rows[name], **demo)
    assert run.exit_code == 1
    assert re.search(
        r"\nsrun: error: Node failure on demo-03\nslurmstepd: error: \*\*\* STEP 481220.0 ON demo-03 CANCELLED AT "
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS \*\*\*\n$",
        run.text,
    )
    others = trained(rows[name], **demo | {"SLURM_JOB_NODELIST": "demo-[04-11]"})
    late = trained(rows[name], **demo | {"GSW_DEMO": "node:demo-03=lost:9000"})
    whole = trained(rows[name])
    assert (others.exit_code, late.exit_code) == (0, 0)
    assert len(run.log) < len(others.log) == len(late.log) == len(whole.log)


def test_a_longer_training_begins_again_at_its_checkpoint(rows: Rows, trained: Train, tmp_path: Path) -> None:
    variables = {"MAX_STEPS": "200", "STAGE_PATH": str(tmp_path), "SLURM_JOB_NODELIST": "demo-03"}
    lost = trained(rows["nemo"], **variables, GSW_DEMO="node:demo-03=lost:120")
    assert lost.exit_code == 1
    assert (tmp_path / "checkpoints" / rows["nemo"].id).read_text() == "100"
    again = trained(rows["nemo"], **variables)
    steps = [int(step) for step in re.findall(r" (\d+)/200 \[", again.text)]
    assert (min(steps[1:]), max(steps), again.exit_code) == (101, 200, 0)
    checkpoint = f"{tmp_path}/checkpoints/{rows['nemo'].id}"
    assert f"\nRestoring states from the checkpoint path at {checkpoint}\n" in again.text
    assert "Restoring" not in trained(rows["nemo"], STAGE_PATH=str(tmp_path)).text
    assert "Restoring" not in trained(rows["maxtext"], **variables).text


def test_a_format_without_a_writer(rows: Rows, trained: Train) -> None:
    with pytest.raises(ConfigurationError, match=r"^the demo writes no mine logs, only paxml, nemo, "):
        trained(replace(rows["maxtext"], workload=replace(rows["maxtext"].workload, log_format="mine")))


def test_a_job_without_a_row() -> None:
    with pytest.raises(ConfigurationError, match=r"^GSW_BASELINE_FILE is not set"):
        find_row({})


@pytest.mark.parametrize("table", sorted({row.location.path for row in BUNDLED}), ids=lambda path: path.stem)
def test_every_bundled_row_comes_to_what_is_documented(table: Path, trained: Train, tmp_path: Path) -> None:
    """As a session measures and judges it, but for the job."""
    log = tmp_path / "run.log"
    for row in (one for one in BUNDLED if one.location.path == table):
        variables = {"JOB_TOTAL_GPUS": str(row.gpus), "SLURM_JOB_NUM_NODES": str(row.nodes)}
        run = trained(row, GPUS_PER_NODE=str(row.gpus_per_node), GSW_DEMO_SEED="20", **variables)
        log.write_bytes(run.log)
        ended = Run("481220", JobStatus(JobState.COMPLETED, exit_code=run.exit_code), log)
        if row.criterion.expected_failure:
            assert run.exit_code == 1, row.id
            assert ran_out_of_memory(replace(ended, status=JobStatus(JobState.FAILED, exit_code=1))), row.id
            continue
        check_job(ended, row.recipe.may_fail)
        log_format = FORMATS[row.workload.log_format]
        measurement = measure_as_documented(row, ended, read_steps(row, ended, log_format)[0], log_format)
        assert verdict_of(row, measurement, row.criterion.tolerance).outcome is Outcome.PASSED, row.id


# ---- What logs of the demo say beside their figures, which tests/truth measures ------------------


@pytest.mark.parametrize("name", ROWS)
def test_every_log_says_that_it_is_simulated_and_whose_it_is(rows: Rows, trained: Train, name: str) -> None:
    row = rows[name]
    lines = trained(row).text.splitlines()
    assert lines[0] == "pytest-gsw demo: this is a simulation, no GPU was used"
    assert lines[1] == (
        f"GSW: MODEL={row.workload.model} FRAMEWORK={row.workload.framework} MODEL_SIZE={row.workload.size} JOB_NUM_NODES=8 GPUS_PER_NODE=8"
        f" DTYPE={row.workload.dtype} SYNTHETIC_DATA=True GSW_VERSION=demo FW_VERSION=simulation IMAGE='simulation'"
        " JOB_ID=481220 JOB_MODE=training OPTIMIZATION_NAME='' OPTIMIZATION_CODE='' BASE_CONFIG=''"
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
    assert re.search(
        line, trained(replace(rows[name], workload=replace(rows[name].workload, dtype="mxfp8"))).text, re.MULTILINE
    )
