"""Never green by accident: what needs no Slurm, for every log format. The rest is in tests/slurm."""

from __future__ import annotations

import fnmatch
import io
import json
import re
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, Protocol

import pytest

import pytest_gsw.demo
from pytest_gsw.demo.recipe import train
from pytest_gsw.jobs import local
from pytest_gsw.jobs.local import LocalLauncher
from pytest_gsw.jobs.model import Job, JobSpec
from pytest_gsw.tables.load import load_table
from tests.integration.conftest import junit, put_on_path, tiny_table
from tests.messages import wording
from tests.writers import ALL_WRITERS


class Shape(NamedTuple):
    """Where the log of a framework has its figures."""

    time: bytes
    #: ``None`` where the format's own lines bear none.
    loss: bytes | None
    #: 40 ms a step, in the format's unit.
    too_fast: bytes
    #: The fewest steps that the log must hold; one line stands for all steps of a Hugging Face run.
    min_steps: int = 18


SHAPES: Mapping[str, Shape] = {
    "maxtext": Shape(rb"completed step: \d+, seconds: ([\d.]+)", rb" loss: ([\d.]+)", b"0.040"),
    "nemo": Shape(rb"train_step_timing in s=([\d.]+)", rb"reduced_train_loss=([\d.]+)", b"0.04"),
    "paxml": Shape(rb"train_step\(\) took ([\d.]+)", rb"training loss: ([\d.]+)", b"0.040000"),
    "megatron": Shape(rb"elapsed time per iteration \(ms\): ([\d.]+)", rb"lm loss: ([\d.E+]+)", b"40.0"),
    "deepspeed": Shape(rb"CurrSamplesPerSec=([\d.]+)", None, b"1600.0"),
    "huggingface": Shape(rb"train_samples_per_second(?:': | +=  +)([\d.]+)", rb"'train_loss': ([\d.]+)", b"1600.0", 1),
}

JOB = {
    "SLURM_JOB_ID": "7",
    "SLURM_JOB_NUM_NODES": "1",
    "JOB_TOTAL_GPUS": "8",
    "GPUS_PER_NODE": "8",
    "MODEL_SIZE": "1b",
    "DTYPE": "bf16",
    "GSW_DEMO_SECONDS": "0",
    "GSW_DEMO_SEED": "1",
}

HUGGINGFACE = "log-huggingface_tiny_1b_8_7.out"

#: A row in JUnit: its element besides the properties, and the first line of that one's text.
Verdict = tuple[str, str]


class Judge(Protocol):
    """Judges the log of each framework in one session, with a fault of the demo's or damaged."""

    def __call__(
        self, damage: Callable[[bytes, Shape], bytes] = ..., fault: str = ..., keys: str = ...
    ) -> dict[str, Verdict]: ...


@pytest.fixture
def judge(pytester: pytest.Pytester) -> Judge:
    def judge(
        damage: Callable[[bytes, Shape], bytes] = lambda log, _: log, fault: str = "slow:0%", keys: str = ""
    ) -> dict[str, Verdict]:
        results = pytester.path / "stage" / "results" / "24.11" / "bf16" / "1b" / "8"
        results.mkdir(parents=True)
        tables = pytester.mkdir("site")
        for framework, shape in SHAPES.items():
            table = tables / f"{framework}.yaml"
            row_text = f"gpus: 8, case: {framework}, step_time_s: 1.000, min_steps: {shape.min_steps}, line: 10"
            row_text += f", layers: 24, tp: 2, dp: 4{keys}"
            table.write_text(tiny_table(row_text, framework=framework))
            (row,) = load_table(table)
            log = io.BytesIO()
            train(row, {**JOB, "GSW_DEMO": f"*={fault}"}, log, ALL_WRITERS)
            (results / f"log-{framework}_tiny_1b_8_7.out").write_bytes(damage(log.getvalue(), shape))
        result = pytester.runpytest("--gsw-replay=stage", "--gsw-baselines=site", "--junitxml=junit.xml")
        found = verdicts(pytester.path)
        outcomes = result.parseoutcomes()
        assert outcomes.get("errors", outcomes.get("error", 0)) == sum(kind == "error" for kind, _ in found.values())
        assert outcomes.get("passed", 0) == sum(kind == "" for kind, _ in found.values())
        assert outcomes.get("skipped", 0) == sum(kind == "skipped" for kind, _ in found.values())
        has_failed = "errors" in outcomes or "failed" in outcomes
        not_judged = 6 if "skipped" in outcomes else pytest.ExitCode.OK
        assert result.ret == (pytest.ExitCode.TESTS_FAILED if has_failed else not_judged)
        return {name.partition("x8-")[2].rstrip("]"): verdict for name, verdict in found.items()}

    return judge


def verdicts(directory: Path) -> dict[str, Verdict]:
    found = {}
    for name, case in junit(directory / "junit.xml").items():
        said = [child for child in case if child.tag != "properties"]
        assert len(said) <= 1
        found[name] = (said[0].tag, (said[0].text or "").split("\n")[0]) if said else ("", "")
    return found


def from_the_middle(log: bytes, figure: bytes, instead: bytes) -> bytes:
    """The log with the second half of its figures replaced; of three or fewer, with all."""
    found = list(re.finditer(figure, log))
    for match in reversed(found[len(found) // 2 if len(found) > 3 else 0 :]):
        log = log[: match.start(1)] + instead + log[match.end(1) :]
    return log


def test_the_logs_pass_as_they_are(judge: Judge) -> None:
    assert judge() == dict.fromkeys(SHAPES, ("", ""))


@pytest.mark.parametrize("word", ["nan", "inf"])
def test_a_step_time_that_is_not_finite(judge: Judge, word: str) -> None:
    not_finite = "the loss or a step time is not finite"
    assert judge(lambda log, shape: from_the_middle(log, shape.time, word.encode())) == {
        "maxtext": ("error", f"{not_finite} at step 2: step time {word}"),
        "nemo": ("error", f"{not_finite} at step 10: step time {word}"),
        "paxml": ("error", f"{not_finite}: step time {word}"),
        "megatron": ("error", f"{not_finite} at step 11: step time {word}"),
        "deepspeed": ("error", f"{not_finite} at step 12: step time {word}"),
        "huggingface": (
            "error",
            wording("no finite step time", log_format="huggingface", what=f"step time {word}: {HUGGINGFACE}"),
        ),
    }


@pytest.mark.parametrize("word", ["nan", "inf"])
def test_a_loss_that_is_not_finite(judge: Judge, word: str) -> None:
    not_finite = "the loss or a step time is not finite"

    def damage(log: bytes, shape: Shape) -> bytes:
        return log if shape.loss is None else from_the_middle(log, shape.loss, word.encode())

    found = judge(damage)
    del found["deepspeed"]  # its engine's lines say nothing of a loss
    assert found == {
        "maxtext": ("error", f"{not_finite} at step 2: loss: {word}"),
        "nemo": ("error", f"{not_finite} at step 10: reduced_train_loss={word}"),
        "paxml": ("error", f"{not_finite} at step 10: [PAX STATUS] step_i: 10, training loss: {word}"),
        "megatron": ("error", f"{not_finite} at step 11: loss: {word}"),
        "huggingface": ("error", f"{not_finite}: 'train_loss': {word}"),
    }


OVERFLOW = b"\n[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 1, reducing to 1\n"


def test_an_optimizer_that_skips_every_step(judge: Judge) -> None:
    def damage(log: bytes, shape: Shape) -> bytes:
        skips = OVERFLOW * (20 if shape.min_steps == 1 else 1)
        return re.sub(rb"[^\r\n]*" + shape.time, lambda line: skips + line[0], log)

    assert judge(damage) == {
        **dict.fromkeys(SHAPES, ("error", wording("skipped", few=20, steps=20, trained=0, needed=18))),
        "maxtext": ("error", wording("skipped", few=19, steps=20, trained=1, needed=18)),  # its first is a run's end
        "deepspeed": ("error", wording("skipped", few=18, steps=18, trained=0, needed=18)),
        "huggingface": ("error", wording("skipped", few=20, steps=20, trained=0, needed=1)),
    }


def test_step_lines_without_a_loss(judge: Judge) -> None:
    found = judge(lambda log, shape: log if shape.loss is None else re.sub(shape.loss, b"", log))
    for without_one_in_each_step_line in ("deepspeed", "huggingface", "paxml"):
        assert found.pop(without_one_in_each_step_line) == ("", "")
    assert found == {
        "maxtext": ("error", wording("no loss", step=0, few=20, steps=20)),
        "nemo": ("error", wording("no loss", step=0, few=20, steps=20)),
        "megatron": ("error", wording("skipped", few=20, steps=20, trained=0, needed=18)),
    }


@pytest.mark.parametrize("falls", [True, False], ids=["falls", "does not fall"])
def test_a_table_that_asks_for_a_loss_that_falls(judge: Judge, falls: bool) -> None:
    def damage(log: bytes, shape: Shape) -> bytes:
        each = shape.loss and (rb"'loss': ([\d.]+)" if shape.min_steps == 1 else shape.loss)
        return log if falls or each is None else re.sub(each, lambda text: text[0].replace(text[1], b"7.0"), log)

    fact = "the loss does not fall: 7 over the first tenth of the steps, 7 over the last"
    assert judge(damage, keys=", loss: falls") == {
        **dict.fromkeys(SHAPES, ("", "") if falls else ("error", fact)),
        "paxml": ("error", wording("few losses", losses=2)),
        "deepspeed": ("error", wording("no falling loss", log_format="deepspeed")),
    }


def test_nan_before_a_second_attempt_within_the_job(judge: Judge) -> None:
    found = judge(lambda log, shape: from_the_middle(log, shape.loss or shape.time, b"nan") + log)
    assert found == {
        "maxtext": ("error", wording("diverged", attempt=2, attempts=4, step=2, what="loss: nan")),
        "nemo": ("error", wording("diverged", attempt=1, attempts=2, step=10, what="reduced_train_loss=nan")),
        "paxml": ("error", "attempt 1 of 2 diverged at step 10: [PAX STATUS] step_i: 10, training loss: nan"),
        "megatron": ("error", wording("diverged", attempt=1, attempts=2, step=11, what="loss: nan")),
        "deepspeed": ("error", wording("diverged", attempt=1, attempts=2, step=12, what="step time nan")),
        "huggingface": ("error", wording("attempt diverged", attempt=1, attempts=2, what="'train_loss': nan")),
    }


def test_a_metric_that_is_not_in_the_log(judge: Judge) -> None:
    assert judge(lambda log, shape: re.sub(shape.time, b"", log)) == {
        framework: ("error", wording("no step times", log_format=framework) + f": log-{framework}_tiny_1b_8_7.out")
        for framework in SHAPES
    }


#: What tells of a bad end behind a healthy run, although nothing but the log does.
BAD_ENDS = {
    b"kernel: NVRM: Xid (PCI:0000:41:00): 79, pid=42, GPU has fallen off the bus.\n": "GPU error (Xid)",
    b"RuntimeError: CUDA error: uncorrectable ECC error encountered\n": "ECC error",
    b"[Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=2, OpType=ALLREDUCE\n": "NCCL time-out",
    b"[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB.\n": "CUDA out of memory",
    b"srun: error: task 3: Exited with exit code 1\n": "a failed task",
    b"slurmstepd: error: *** STEP 7.0 ON n7 CANCELLED AT 2031-02-03T04:05:06 ***\n": "cancelled",
    b"job.sh: line 3:  4242 Segmentation fault      (core dumped) python train.py\n": "segmentation fault",
    b'Traceback (most recent call last):\n  File "t.py", line 7, in main\nValueError: bad\n': "an exception",
    b"HW Exception by GPU node-4 (Agent handle: 0x1ebc04e0) reason :GPU Hang\n": "GPU hang",
    b"kernel: amdgpu 0000:c3:00.0: amdgpu: GPU reset begin!\n": "GPU hang",
    b"RuntimeError: Unable to initialize backend 'cuda': No visible GPU devices.\n": "no GPU found",
    b"E0203 04:05:06 CoordinationServiceError: task 3 has not sent a heartbeat\n": "coordination service lost",
}


@pytest.mark.parametrize(("line", "name"), BAD_ENDS.items(), ids=lambda value: value[:12])
def test_a_log_that_tells_of_a_bad_end(judge: Judge, line: bytes, name: str) -> None:
    bad = ("error", f"the log shows a failure: {name}")
    assert judge(lambda log, _: log + line) == dict.fromkeys(SHAPES, bad)


def test_what_is_printed_when_a_healthy_run_is_torn_down(judge: Judge) -> None:
    teardown = (
        b"[rank0]:[W203 04:05:06.1 ProcessGroupNCCL.cpp:1] Warning: destroy_process_group() was not called\n"
        b"Exception ignored in: <function Pool.__del__ at 0x7f>\n"
        b'Traceback (most recent call last):\n  File "pool.py", line 7, in __del__\nOSError: handle is closed\n'
    )
    assert judge(lambda log, _: log + teardown) == dict.fromkeys(SHAPES, ("", ""))


@pytest.mark.parametrize(
    ("statistic", "is_slow"),
    [
        ("last", lambda place, count: place < 0.83 * count),
        ("median", lambda place, count: place >= 0.65 * count),
        ("'mean[-3:]'", lambda place, count: place < 0.83 * count),
    ],
    ids=["all but the last three", "throttled", "all but the window"],
)
def test_a_statistic_that_is_better_than_most_steps(
    judge: Judge, statistic: str, is_slow: Callable[[int, int], bool]
) -> None:
    """Some steps take twice as long; the figure of the document is as documented all the same."""

    def damage(log: bytes, shape: Shape) -> bytes:
        found = list(re.finditer(shape.time, log))[-40:]  # of the run itself, which some formats print twice a step
        factor = 0.5 if shape.too_fast == b"1600.0" else 2.0
        for place, match in reversed([*enumerate(found)]):
            if is_slow(place, len(found)):
                log = log[: match.start(1)] + b"%.3f" % (float(match[1]) * factor) + log[match.end(1) :]
        return log

    found, named = judge(damage, keys=f", statistic: {statistic}"), re.escape(statistic.strip("'"))
    del found["huggingface"]  # it has one figure for the whole run
    for kind, fact in found.values():
        assert kind == "skipped"
        said = (
            rf"median of the steady steps; a statistic is not a run \({named} [\d.]+ s, steady steps [12][\d.]* s\): "
        )
        assert re.search(said, fact), fact


@pytest.mark.parametrize("statistic", ["last", "median"])
@pytest.mark.parametrize(("share", "times"), [(0.45, 2.0), (1 / 3, 1.6)])
def test_a_third_of_the_run_that_is_slow(judge: Judge, statistic: str, share: float, times: float) -> None:
    def damage(log: bytes, shape: Shape) -> bytes:
        found = list(re.finditer(shape.time, log))[-40:]
        factor = 1 / times if shape.too_fast == b"1600.0" else times
        for match in reversed(found[: int(len(found) * share)]):
            log = log[: match.start(1)] + b"%.3f" % (float(match[1]) * factor) + log[match.end(1) :]
        return log

    found = judge(damage, keys=f", statistic: {statistic}")
    del found["huggingface"]  # it has one figure for the whole run
    for kind, fact in found.values():
        assert (kind, "; a third of its steps took " in fact) == ("skipped", True), fact


@pytest.mark.parametrize("statistic", ["last", "median", "'mean[-3:]'"])
def test_a_step_of_no_time(judge: Judge, statistic: str) -> None:
    def damage(log: bytes, shape: Shape) -> bytes:
        found = list(re.finditer(shape.time, log))[-40:]
        for match in reversed(found[len(found) * 6 // 10 : len(found) * 7 // 10]):
            log = log[: match.start(1)] + b"0.000" + log[match.end(1) :]
        return log

    found = judge(damage, keys=f", statistic: {statistic}")
    del found["huggingface"]  # it has one figure for the whole run
    assert found == {
        **dict.fromkeys(found, ("error", "0 s is no time of a step")),
        "deepspeed": ("error", wording("infinite time")),
    }


def test_an_mfu_above_100_percent(judge: Judge) -> None:
    impossible = ("error", "MFU 121.3 % is impossible: no hardware takes 0.04 s for a step")
    assert judge(lambda log, shape: from_the_middle(log, shape.time, shape.too_fast)) == dict.fromkeys(
        SHAPES, impossible
    )


@pytest.mark.parametrize(
    ("said", "instead", "what"),
    [
        (b"MODEL=tiny", b"MODEL=teeny", "model"),
        (b"MODEL_SIZE=1b", b"MODEL_SIZE=7b", "model size"),
        (b"DTYPE=bf16", b"DTYPE=fp8", "dtype"),
        (b"JOB_NUM_NODES=1", b"JOB_NUM_NODES=2", "GPUs"),
        (b"JOB_ID=7", b"JOB_ID=6", "job"),
    ],
)
def test_a_log_of_another_run(judge: Judge, said: bytes, instead: bytes, what: str) -> None:
    other = ("error", f"the log belongs to another run, by its {what}")
    assert judge(lambda log, _: log.replace(said, instead)) == dict.fromkeys(SHAPES, other)


@pytest.mark.parametrize(
    ("said", "instead", "differs", "silent"),
    [
        (
            rb"(seq_length \.+|seq_length:|seq_len :|max_target_length:) \d+",
            rb"\1 17",
            "sequence length 17 in the log, 1024 in the row",
            {"deepspeed", "huggingface"},
        ),
        (
            rb"(num_layers \.+|num_layers:|num_decoder_layers:|x_times :) \d+",
            rb"\1 3",
            "layers 3 in the log, 24 in the row",
            {"deepspeed", "huggingface"},
        ),
        (
            rb"(params_dtype \.+ torch\.|precision: |param dtype: |fprop_dtype : dtype\[|)b(?:f16|float16)(=|\]|\n)",
            rb"\1fp16\2",
            "precision fp16 in the log, bf16 in the row",
            {"deepspeed"},  # whose two switches are left as they are
        ),
        (
            rb"(tensor_model_parallel_size \.+|tensor_model_parallel_size:|world_size \.+) \d+",
            rb"\1 8",
            "* 8 in the log, ? in the row*",
            {"maxtext", "paxml", "huggingface"},
        ),
    ],
    ids=["sequence length", "layers", "precision", "parallelism"],
)
def test_a_run_that_was_set_up_in_another_way(
    judge: Judge, said: bytes, instead: bytes, differs: str, silent: set[str]
) -> None:
    found = judge(lambda log, _: re.sub(said, instead, log))
    assert {name for name, verdict in found.items() if verdict == ("", "")} == silent
    for name in found.keys() - silent:
        kind, fact = found[name]
        assert kind == "error"
        assert fnmatch.fnmatch(fact, wording("other set-up", differs=differs)), (name, fact)


def test_an_empty_log(judge: Judge) -> None:
    assert judge(lambda *_: b"") == {
        framework: ("error", f"the log is empty: log-{framework}_tiny_1b_8_7.out") for framework in SHAPES
    }


def test_fewer_steps_than_documented(judge: Judge) -> None:
    """The run stops without a word after 60 % of its steps."""
    short = ("error", "the log holds 12 steps, 18 of 20 needed")
    assert judge(fault="short") == {
        "maxtext": short,
        "nemo": short,
        "paxml": short,
        "megatron": short,
        "deepspeed": ("error", wording("few steps", steps=10, needed=18, wanted=20)),  # it never times the first two
        "huggingface": ("error", wording("no step times", log_format="huggingface") + f": {HUGGINGFACE}"),
    }


def test_a_log_that_ends_in_the_middle_of_a_line(judge: Judge) -> None:
    """All but one digit of the last step's figure is there."""
    found = judge(fault="truncated")
    numbered = {name: verdict for name, verdict in found.items() if name != "paxml"}
    assert numbered == {
        "maxtext": ("error", wording("ended before its last", step=18, last=19)),
        "nemo": ("error", wording("ended before its last", step=18, last=19)),
        "megatron": ("error", wording("ended before its last", step=19, last=20)),
        "deepspeed": ("error", wording("few steps", steps=17, needed=18, wanted=20)),
        "huggingface": ("error", wording("no step times", log_format="huggingface") + f": {HUGGINGFACE}"),
    }


STATES = {
    "cancelled": "CANCELLED",
    "timeout": "TIMEOUT",
    "out-of-memory": "OUT_OF_MEMORY",
    "node-fail": "NODE_FAIL",
    "preempted": "PREEMPTED",
    "boot-fail": "BOOT_FAIL",
    "deadline": "DEADLINE",
    "revoked": "REVOKED",
}


#: What Slurm says of the steps of jobs that COMPLETED, and what is told of them.
STEPS: dict[str, tuple[dict[str, object], str]] = {
    "step-failed": (
        {"steps": ["0|FAILED|1:0|n1|100|101|train"], "derived_exit_code": "1:0"},
        "{job} completed, but its step 0 (train) failed with exit code 1",
    ),
    "rank-killed": (
        {"steps": ["0|CANCELLED|0:9|n1|100|101|train"], "derived_exit_code": "0:9"},
        "{job} completed, but its step 0 (train) ended CANCELLED by signal 9",
    ),
    "step-without-an-end": (
        {"steps": ["0|RUNNING||n1|100||train"], "derived_exit_code": "0:0"},
        "{job} completed, but its step 0 (train) has no end on record: it is RUNNING",
    ),
    "array-of-two": (
        {"steps": [], "derived_exit_code": "0:0", "siblings": ["8"]},
        "2 jobs are behind the one submission of {job}, and one row is one job",
    ),
    "no-accounting": (
        {"derived_exit_code": "1:0"},
        "{job} completed, but one of its steps failed (DerivedExitCode 1:0)",
    ),
}


def test_every_bad_end_with_exit_code_0_and_a_perfect_log(pytester: pytest.Pytester) -> None:
    table = pytester.mkdir("site") / "tiny.yaml"
    rows = [f"gpus: 8, case: {case}, step_time_s: 1.000, line: 10" for case in (*STATES, *STEPS, "failed", "good")]
    table.write_text(tiny_table(*rows))
    pytester.runpytest("--gsw-cluster=demo", "--gsw-baselines=site").assert_outcomes(passed=len(rows))
    (run,) = (pytester.path / ".gsw" / "runs").iterdir()
    jobs = {}
    for path in run.glob("records/*.json"):
        record = json.loads(path.read_text())
        case = record["row"].partition("x8-")[2].rstrip("]")
        jobs[case] = record["job"]["id"]
        record["job"] |= {"state": STATES.get(case, "FAILED" if case == "failed" else "COMPLETED"), "exit_code": 0}
        record["job"] |= STEPS.get(case, ({}, ""))[0]
        path.write_text(json.dumps(record))
    result = pytester.runpytest(f"--gsw-replay={run}", "--gsw-baselines=site", "--junitxml=junit.xml")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(errors=len(rows) - 1, passed=1)
    assert verdicts(pytester.path) == {
        "tiny_1b_bf16[H100x8-good]": ("", ""),
        "tiny_1b_bf16[H100x8-failed]": ("error", f"job {jobs['failed']} failed"),
        **{
            f"tiny_1b_bf16[H100x8-{case}]": ("error", f"job {jobs[case]} ended {state}")
            for case, state in STATES.items()
        },
        **{
            f"tiny_1b_bf16[H100x8-{case}]": ("error", fact.format(job=f"job {jobs[case]}"))
            for case, (_, fact) in STEPS.items()
        },
    }


def test_a_table_without_the_figure_that_is_judged(pytester: pytest.Pytester, table: Path) -> None:
    table.write_text(table.read_text().replace("step_time_s: 1.000, tokens_per_s: 65536, ", ""))
    result = pytester.runpytest("--gsw-cluster=demo", "--gsw-baselines=site", "--junitxml=junit.xml")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.assert_outcomes(errors=1)
    message = f"{table}: 1 problem"
    result.stdout.fnmatch_lines([message, "*tables[[]0].rows[[]0]: " + wording("no step time")])
    assert set(verdicts(pytester.path).values()) == {("error", message)}
    assert not list(pytester.path.glob(".gsw/runs/*/batch"))  # nothing was submitted


def test_no_row_selected(pytester: pytest.Pytester, table: Path) -> None:
    result = pytester.runpytest("--gsw-cluster=demo", "--gsw-baselines=site", "-k", "nosuch", "--junitxml=junit.xml")
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED == 5
    result.assert_outcomes(deselected=3)
    result.stdout.fnmatch_lines(["collected 3 items / 3 deselected / 0 selected", "*= 3 deselected in *="])
    assert junit(pytester.path / "junit.xml") == {}


def a_cluster_here(pytester: pytest.Pytester, scheduler: str = "local\n    gpus: 64") -> Path:
    """A cluster file of a site's own; the launch script of its recipe."""
    recipe = pytester.path / "recipes" / "tiny"
    recipe.mkdir(parents=True)
    (pytester.path / "clusters.yaml").write_text(
        f"""\
clusters:
  here:
    scheduler: {scheduler}
    accelerator: H100
    stage: {pytester.path}/stage
    recipes: {pytester.path}/recipes
"""
    )
    return Path(shutil.copy(Path(pytest_gsw.demo.__file__).parent / "launch.sh", recipe))


def test_a_row_for_another_accelerator(pytester: pytest.Pytester, table: Path) -> None:
    a_cluster_here(pytester)
    result = pytester.runpytest("--gsw-cluster=here", "--gsw-baselines=site", "-rs", "--junitxml=junit.xml")
    assert result.ret == pytest.ExitCode.OK
    result.assert_outcomes(passed=2, deselected=1)
    result.stdout.fnmatch_lines([wording("rows left out", rows="1 row for B200", why="here has H100")])
    assert "tiny_1b_bf16[B200x8]" not in junit(pytester.path / "junit.xml")
    assert len(list(pytester.path.rglob("log-*.out"))) == 2  # it was not run


def test_a_profiled_run(pytester: pytest.Pytester, table: Path) -> None:
    result = pytester.runpytest(
        "--gsw-cluster=demo", "--gsw-baselines=site", "-k", "H100x16", "--gsw-profile=nsight", "--junitxml=junit.xml"
    )
    assert result.ret == pytest.ExitCode.OK
    result.assert_outcomes(skipped=1, deselected=2)
    skipped = junit(pytester.path / "junit.xml")["tiny_1b_bf16[H100x16]"].find("skipped")
    assert skipped is not None
    assert re.fullmatch(
        r"not judged, because --gsw-profile=nsight makes the figures not comparable: "
        r"throughput [+-]0\.\d %  0\.\d+ s/step  MFU 4\.\d %  job \d+  simulated",
        skipped.attrib["message"],
    )


def test_the_wall_clock_jumps_backwards(
    pytester: pytest.Pytester, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The session's clock is a day behind from the submission on."""
    submit, now = LocalLauncher.submit, time.time

    def submit_and_jump(launcher: LocalLauncher, spec: JobSpec) -> Job:
        job = submit(launcher, spec)
        monkeypatch.setattr(time, "time", lambda: now() - 86400)
        return job

    monkeypatch.setattr(LocalLauncher, "submit", submit_and_jump)
    result = pytester.runpytest(
        *("--gsw-cluster=demo", "--gsw-baselines=site", "--junitxml=junit.xml"),
        *("--gsw-demo=*H100x8]=slow:50%", "--gsw-demo=*H100x16]=exit:3", "--gsw-demo=*B200x8]=no-log"),
    )
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(failed=1, errors=2)
    found = verdicts(pytester.path)
    assert {name: kind for name, (kind, _) in found.items()} == {
        "tiny_1b_bf16[H100x8]": "failure",
        "tiny_1b_bf16[H100x16]": "error",
        "tiny_1b_bf16[B200x8]": "error",
    }
    assert re.fullmatch(
        wording(
            "throughput", measured="43,\\d{3}", change="33\\.\\d", side="% below", documented="65,536 \\(allowed 5 %\\)"
        ),
        found["tiny_1b_bf16[H100x8]"][1],
    )
    assert re.fullmatch(wording("failed", job="\\d+", code=3), found["tiny_1b_bf16[H100x16]"][1])
    assert re.fullmatch(r"no log of job \d+", found["tiny_1b_bf16[B200x8]"][1])


def test_a_heterogeneous_job_in_the_launch_script(
    pytester: pytest.Pytester, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is refused before sbatch is called, which would take it."""
    monkeypatch.setenv("PATH", str(pytester.path))
    put_on_path(pytester.path / "bin", monkeypatch, sbatch="exit 1")
    script = a_cluster_here(pytester, "slurm\n    account: none\n    partition: none")
    script.write_text(script.read_text().replace("#SBATCH --exclusive", "#SBATCH hetjob"))
    result = pytester.runpytest("--gsw-cluster=here", "--gsw-baselines=site", "--junitxml=junit.xml", "-k", "H100")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    several = ("error", "#SBATCH hetjob makes several jobs of one row")
    assert verdicts(pytester.path) == {"tiny_1b_bf16[H100x8]": several, "tiny_1b_bf16[H100x16]": several}


def test_an_older_log_of_a_job_id_that_is_given_out_again(
    pytester: pytest.Pytester, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job wrote it a moment ago, and the next one of its id writes none."""
    script = a_cluster_here(pytester)
    monkeypatch.setattr(local, "next_job_id", lambda _: "7")
    options = ("--gsw-cluster=here", "--gsw-baselines=site", "-k", "H100x8]", "--junitxml=junit.xml")
    pytester.runpytest(*options).assert_outcomes(passed=1, deselected=2)
    script.write_text("exit 0\n")
    result = pytester.runpytest(*options)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    kind, fact = verdicts(pytester.path)["tiny_1b_bf16[H100x8]"]
    assert kind == "error"
    assert re.fullmatch(
        wording("older log", job=7) + wording("last written", time="\\d{4}-\\d\\d-\\d\\d [\\d:]{8}"), fact
    )


def test_a_job_id_that_two_rows_are_given(
    pytester: pytest.Pytester, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit = LocalLauncher.submit
    monkeypatch.setattr(LocalLauncher, "submit", lambda launcher, spec: replace(submit(launcher, spec), id="7"))
    monkeypatch.setattr(
        LocalLauncher, "unknown_limit_s", 0.0
    )  # the launcher knows no job 7: one that is not told is over
    result = pytester.runpytest("--gsw-cluster=demo", "--gsw-baselines=site", "-k", "H100", "--junitxml=junit.xml")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    twice = ("error", "the scheduler gave the id 7 twice, to tiny_1b_bf16[H100x16] and tiny_1b_bf16[H100x8]")
    assert verdicts(pytester.path) == {"tiny_1b_bf16[H100x8]": twice, "tiny_1b_bf16[H100x16]": twice}
