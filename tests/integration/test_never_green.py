"""Never green by accident: what needs no Slurm, for every log format. The rest is in tests/slurm."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, Protocol

import pytest

from pytest_gsw.demo.recipe import train
from pytest_gsw.fleet import fleet
from pytest_gsw.jobs.local import LocalLauncher
from pytest_gsw.tables.load import load_table
from tests.integration.conftest import junit, tiny_table


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

#: A row in JUnit: its element besides the properties, and the first line of that one's text.
Verdict = tuple[str, str]


class Judge(Protocol):
    """Judges the log of each framework in one session, with a fault of the demo's or damaged."""

    def __call__(
        self, damage: Callable[[bytes, Shape], bytes] = ..., fault: str = ..., keys: str = ...
    ) -> dict[str, Verdict]: ...


def healthy(log: bytes, _: Shape) -> bytes:
    return log


@pytest.fixture
def judge(pytester: pytest.Pytester) -> Judge:
    def judge(
        damage: Callable[[bytes, Shape], bytes] = healthy, fault: str = "slow:0%", keys: str = ""
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
            train(row, {**JOB, "GSW_DEMO": f"*={fault}"}, log)
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


class Refused(NamedTuple):
    """A log that must not be judged."""

    damage: Callable[[bytes, Shape], bytes]
    #: A regular expression of what is said.
    fact: str
    #: Formats whose logs say nothing of it, so that they pass.
    spared: frozenset[str] = frozenset()
    fault: str = "slow:0%"
    keys: str = ""


def not_finite(word: str) -> Mapping[str, Refused]:
    return {
        f"step time {word}": Refused(
            lambda log, shape: from_the_middle(log, shape.time, word.encode()), rf"finite.*: step time {word}"
        ),
        f"loss {word}": Refused(
            lambda log, shape: log if shape.loss is None else from_the_middle(log, shape.loss, word.encode()),
            rf"the loss or a step time is not finite.*{word}$",
            frozenset({"deepspeed"}),
        ),
    }


OVERFLOW = b"\n[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 1, reducing to 1\n"


def skip_every_step(log: bytes, shape: Shape) -> bytes:
    skips = OVERFLOW * (20 if shape.min_steps == 1 else 1)
    return re.sub(rb"[^\r\n]*" + shape.time, lambda line: skips + line[0], log)


def keep_the_loss(log: bytes, shape: Shape) -> bytes:
    each = shape.loss and (rb"'loss': ([\d.]+)" if shape.min_steps == 1 else shape.loss)
    return log if each is None else re.sub(each, lambda text: text[0].replace(text[1], b"7.0"), log)


#: What tells of a bad end behind a healthy run, although nothing but the log does; tests/truth has all of them.
BAD_ENDS = {
    b"kernel: NVRM: Xid (PCI:0000:41:00): 79, pid=42, GPU has fallen off the bus.\n": "GPU error (Xid)",
    b"[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB.\n": "CUDA out of memory",
    b'Traceback (most recent call last):\n  File "t.py", line 7, in main\nValueError: bad\n': "an exception",
}


def bad_end(line: bytes, name: str) -> Refused:
    return Refused(lambda log, _: log + line, f"the log tells of an end by {re.escape(name)}$")


#: By what of the run is another's: what the log says, and what it says instead.
OTHER_RUNS = {
    "model size": (b"MODEL_SIZE=1b", b"MODEL_SIZE=7b"),
    "job": (b"JOB_ID=7", b"JOB_ID=6"),
}


def another_run(said: bytes, instead: bytes, what: str) -> Refused:
    return Refused(lambda log, _: log.replace(said, instead), f"the log belongs to another run, by its {what}$")


def set_up_as(said: bytes, instead: bytes, fact: str, *spared: str) -> Refused:
    return Refused(lambda log, _: re.sub(said, instead, log), f"the run was not the row's: {fact}", frozenset(spared))


REFUSED = {
    **not_finite("nan"),
    **not_finite("inf"),
    "skipped": Refused(skip_every_step, r"the optimizer skipped (\d\d) of \d\d steps: [01] trained, \d+ needed"),
    "no loss": Refused(
        lambda log, shape: log if shape.loss is None else re.sub(shape.loss, b"", log),
        "step 0 has no loss: 20 of 20 steps|the optimizer skipped 20 of 20 steps",
        frozenset({"deepspeed", "huggingface", "paxml"}),  # which have none in each step's line
    ),
    "the loss stays": Refused(
        keep_the_loss, "the loss does not fall: 7 over|too few to tell whether|prints no loss", keys=", loss: falls"
    ),
    "nan before another attempt": Refused(
        lambda log, shape: from_the_middle(log, shape.loss or shape.time, b"nan") + log, "attempt [12] of [24] diverged"
    ),
    "no step time": Refused(lambda log, shape: re.sub(shape.time, b"", log), r"no \w+ step times in the log: log-"),
    **{name: bad_end(line, name) for line, name in BAD_ENDS.items()},
    "MFU": Refused(
        lambda log, shape: from_the_middle(log, shape.time, shape.too_fast), r"MFU 121\.3 % is impossible: no hardware"
    ),
    **{f"another {what}": another_run(said, instead, what) for what, (said, instead) in OTHER_RUNS.items()},
    "sequence length": set_up_as(
        rb"(seq_length \.+|seq_length:|seq_len :|max_target_length:) \d+",
        rb"\1 17",
        "sequence length 17 in the log, 1024 in the row",
        *("deepspeed", "huggingface"),
    ),
    "precision": set_up_as(
        rb"(params_dtype \.+ torch\.|precision: |param dtype: |fprop_dtype : dtype\[|)b(?:f16|float16)(=|\]|\n)",
        rb"\1fp16\2",
        "precision fp16 in the log, bf16 in the row",
        "deepspeed",  # whose two switches are left as they are
    ),
    "empty": Refused(lambda *_: b"", "the log is empty: log-"),
    # The run stops without a word after 60 % of its steps, or before the last digit of its last figure.
    "short": Refused(healthy, "the log holds 1[02] steps, 18 of 20 needed|no huggingface step times", fault="short"),
    "truncated": Refused(
        healthy,
        r"the log ends (?:at step 1[89], the run's last step is|in the middle of a line)|17 steps, 18|no huggingface step",
        fault="truncated",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_log_that_must_not_be_judged(judge: Judge, name: str) -> None:
    damage, fact, spared, fault, keys = REFUSED[name]
    found = judge(damage, fault, keys)
    assert {framework for framework, verdict in found.items() if verdict == ("", "")} == spared
    for framework in found.keys() - spared:
        kind, said = found[framework]
        assert kind == "error", framework
        assert re.search(fact, said), (framework, said)


def test_a_loss_that_is_to_fall_and_falls(judge: Judge) -> None:
    found = judge(keys=", loss: falls")
    assert {framework for framework, (kind, _) in found.items() if kind} == {"paxml", "deepspeed"}  # nothing tells


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
        "deepspeed": ("error", "inf s is no time of a step"),
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
    result.stdout.fnmatch_lines([message, "*tables[[]0].rows[[]0]: missing 'step_time_s', on which the verdict rests"])
    assert set(verdicts(pytester.path).values()) == {("error", message)}
    assert not list(pytester.path.glob(".gsw/runs/*/batch"))  # nothing was submitted


def test_no_row_selected(pytester: pytest.Pytester, table: Path) -> None:
    result = pytester.runpytest("--gsw-cluster=demo", "--gsw-baselines=site", "-k", "nosuch", "--junitxml=junit.xml")
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED == 5
    result.assert_outcomes(deselected=3)
    result.stdout.fnmatch_lines(
        ["collecting ... collected 3 items / 3 deselected / 0 selected", "*= 3 deselected in *="]
    )
    assert junit(pytester.path / "junit.xml") == {}


def test_a_job_id_that_two_rows_are_given(
    pytester: pytest.Pytester, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit = LocalLauncher.submit
    monkeypatch.setattr(LocalLauncher, "submit", lambda launcher, spec: replace(submit(launcher, spec), id="7"))
    monkeypatch.setattr(fleet, "UNKNOWN_LIMIT_S", 0.0)  # the launcher knows no job 7: one that is not told is over
    result = pytester.runpytest("--gsw-cluster=demo", "--gsw-baselines=site", "-k", "H100", "--junitxml=junit.xml")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    twice = ("error", "the scheduler gave the id 7 twice, to tiny_1b_bf16[H100x16] and tiny_1b_bf16[H100x8]")
    assert verdicts(pytester.path) == {"tiny_1b_bf16[H100x8]": twice, "tiny_1b_bf16[H100x16]": twice}
