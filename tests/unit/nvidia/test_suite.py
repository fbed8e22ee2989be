"""The certification's file, which rows are its cases' figures, and its criterion."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_gsw.errors import FileError
from pytest_gsw.jobs.states import JobState
from pytest_gsw.nvidia.evidence import Case, has_dtype
from pytest_gsw.nvidia.suite import CaseResult, CaseRun, Conclusion, Suite, figures_of, read_suite
from pytest_gsw.nvidia.suite import conclusions_of as conclude
from pytest_gsw.nvidia.suite import table as lines
from pytest_gsw.results.record import Record
from pytest_gsw.stats.decision import Outcome
from pytest_gsw.stats.verdict import Reason, Verdict
from pytest_gsw.tables.load import load_table
from pytest_gsw.tables.model import Baseline, transferred
from tests.messages import wording
from tests.unit.results.records import JOB, SLOW
from tests.unit.rows import LLAMA2_FP8_X128

SUITE = """\
config:
  scale: 256
  repeats: 3
  profile: true
workloads:
  gb200:
    - pretrain_llama3.1_70b:
        dtypes: ['fp8', 'nvfp4']
    - pretrain_qwen3_235b:
        dtypes: [bf16]
  h100:
    - pretrain_kimi-k2_1t:
        dtypes: [fp8]
"""


def read(tmp_path: Path, text: str) -> Suite:
    path = tmp_path / "exemplar.yaml"
    path.write_text(text)
    return read_suite(path)


def faults(tmp_path: Path, text: str) -> list[str]:
    with pytest.raises(FileError) as caught:
        read(tmp_path, text)
    return [str(fault) for fault in caught.value.faults]


def test_a_suite_is_its_cases_at_one_scale(tmp_path: Path) -> None:
    suite = read(tmp_path, SUITE)
    assert suite.gpus == 256
    assert suite.repeats == 2  # the third is profiled
    assert suite.accelerators == ("gb200", "h100")
    assert suite.cases == (
        Case("gb200", "llama3.1_70b", "fp8"),
        Case("gb200", "llama3.1_70b", "nvfp4"),
        Case("gb200", "qwen3_235b", "bf16"),
        Case("h100", "kimi-k2_1t", "fp8"),
    )


def test_what_is_not_given_is_what_the_files_own_reader_takes(tmp_path: Path) -> None:
    suite = read(tmp_path, "config: {}\nworkloads: {h100: [{pretrain_qwen3_235b: {dtypes: [bf16]}}]}\n")
    assert (suite.gpus, suite.repeats) == (512, 1)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("  scale: 256\n", "  scales: 256\n", "2:3     config.scales: unknown key; did you mean 'scale'?"),
        ("        dtypes: [bf16]\n", "        dtypes: []\n", "10:17   workloads.gb200[1].pretrain_qwen3_235b.dtypes: is empty, wanted at least one entry"),
        ("        dtypes: [bf16]\n", "        dtypes: [bf16]\n        scale: 8\n", "11:9    workloads.gb200[1].pretrain_qwen3_235b.scale: unknown key"),
        ("    - pretrain_qwen3_235b:\n", "    - finetune_qwen3_235b:\n", "9:7     workloads.gb200[1].finetune_qwen3_235b: wanted a workload such as pretrain_llama3.1_70b"),
        ("    - pretrain_qwen3_235b:\n", "    - pretrain_llama3.1_70b:\n", "9:7     workloads.gb200[1].pretrain_llama3.1_70b: is there twice"),
        ("  h100:\n    - pretrain_kimi-k2_1t:\n        dtypes: [fp8]\n", "  h100: []\n", "11:9    workloads.h100: is empty, wanted at least one entry"),
    ],
)  # fmt: skip
def test_a_fault_is_told_with_its_place(tmp_path: Path, old: str, new: str, told: str) -> None:
    assert SUITE.count(old) == 1
    assert told in faults(tmp_path, SUITE.replace(old, new))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("config: {}\nworkloads: {}\n", "2:12    workloads: is empty, wanted at least one accelerator"),
        ("config: {}\nworkloads: {h100: [{}]}\n", "2:20    workloads.h100[0]: has 0 workloads, wanted one an entry"),
        (
            "config: {}\nworkloads: {h100: [{pretrain_a: {dtypes: [fp8]}, pretrain_b: {dtypes: [fp8]}}]}\n",
            "2:20    workloads.h100[0]: has 2 workloads, wanted one an entry",
        ),
    ],
)  # fmt: skip
def test_what_is_no_suite_is_refused(tmp_path: Path, text: str, told: str) -> None:
    assert any(fault.startswith(told) for fault in faults(tmp_path, text)), faults(tmp_path, text)


# ---- Which rows are a case's figures, and what such a figure is on another number of GPUs --------

HEAD = """\
framework: megatron-bridge
document: site.md
releases: ["26.04"]
recipe: {directory: scripts, steps: 50}
sequence_length: 4096
statistic: mean[35:44]
"""


def rows(tmp_path: Path, *listed: str, head: str = HEAD) -> tuple[Baseline, ...]:
    path = tmp_path / f"table{len(list(tmp_path.iterdir()))}.yaml"
    model, *rest = listed
    shared = "accelerator: GB200, gpus_per_node: 4, global_batch_size: 256, step_time_s: 6.0, line: 3"
    lines = [f"      - {{{shared}, {row}}}" for row in rest]
    path.write_text(f"{model}\n{head}tables:\n  - rows:\n" + "\n".join(lines) + "\n")
    return load_table(path)


def ids(found: tuple[Baseline, ...]) -> list[str]:
    return [row.id for row in found]


QWEN = Case("gb200", "qwen3_235b", "bf16")


def test_the_figures_at_a_scale(tmp_path: Path) -> None:
    # A figure at the scale is taken and no other.
    known = rows(tmp_path, "model: qwen3\nsize: 235b", "gpus: 512, dtype: bf16", "gpus: 256, dtype: bf16")
    found = figures_of(QWEN, 512, known)
    assert ids(found.there) == ["qwen3_235b_bf16[GB200x512]"]
    assert found.elsewhere == ()
    # Without one the nearest scale is named.
    known = rows(tmp_path, "model: qwen3\nsize: 235b", *(f"gpus: {n}, dtype: bf16" for n in (64, 256, 2048)))
    found = figures_of(QWEN, 512, known)
    assert found.there == ()
    assert ids(found.elsewhere) == ["qwen3_235b_bf16[GB200x256]"]
    # Without any nothing is.
    known = rows(tmp_path, "model: qwen3\nsize: 30b", "gpus: 512, dtype: bf16")
    assert figures_of(QWEN, 512, known) == (QWEN, (), ())


@pytest.mark.parametrize(
    "more", ["proxy: true", "case: 26.04-sft", "case: peft", "case: strong-scaling", "canary: true"]
)
def test_another_task_than_a_full_models_training_is_no_figure(tmp_path: Path, more: str) -> None:
    known = rows(tmp_path, "model: qwen3\nsize: 235b", f"gpus: 512, dtype: bf16, {more}")
    assert figures_of(QWEN, 512, known) == (QWEN, (), ())


#: Rows of a dtype, and rows of fp8 whose tables say which.
OF_DTYPE = {
    dtype: replace(LLAMA2_FP8_X128, workload=replace(LLAMA2_FP8_X128.workload, dtype=dtype))
    for dtype in ("fp8", "mxfp8", "nvfp4", "bf16")
} | {precision: replace(LLAMA2_FP8_X128, attributes={"precision": precision}) for precision in ("FP8-MX", "FP8-CS")}


@pytest.mark.parametrize(
    ("workload", "accelerator", "is_mx"),
    [
        # The recipes train these with MXFP8, but on H100.
        ("qwen3_235b", "gb200", True),
        ("qwen3_235b", "h100", False),
        ("deepseek-v3_671b", "gb200", True),
        ("kimi-k2_1t", "gb300", True),
        ("nemotron_3_120b", "b200", True),
        ("llama3.1_70b", "b300", True),
        # And these with a scale for each tensor.
        ("llama3.1_70b", "gb200", False),
        ("llama3.1_405b", "b200", False),
        # A recipe of which nobody knows it.
        ("llama2_70b", "h100", False),
    ],
)
def test_fp8_is_what_the_recipe_makes_of_it(workload: str, accelerator: str, is_mx: bool) -> None:
    case = Case(accelerator, workload, "fp8")
    found = {name: has_dtype(case, row) for name, row in OF_DTYPE.items()}
    assert found == {"fp8": True, "mxfp8": is_mx, "FP8-MX": is_mx, "FP8-CS": not is_mx, "nvfp4": False, "bf16": False}
    # What the job itself states counts before.
    assert [has_dtype(case, OF_DTYPE["mxfp8"], stated) for stated in (True, False)] == [True, False]


def test_any_other_dtype_is_the_rows_or_not() -> None:
    for dtype in ("nvfp4", "bf16"):
        case = Case("gb200", "qwen3_235b", dtype)
        assert [name for name, row in OF_DTYPE.items() if has_dtype(case, row)] == [dtype]


def test_fp8_of_a_table_that_says_no_more_is_what_its_recipe_makes_of_it(tmp_path: Path) -> None:
    known = rows(tmp_path, "model: qwen3\nsize: 235b", "gpus: 512, dtype: fp8")
    assert ids(figures_of(Case("gb200", "qwen3_235b", "fp8"), 512, known).there) == ["qwen3_235b_fp8[GB200x512]"]
    known = rows(tmp_path, "model: llama3.1\nsize: 405b", "gpus: 512, dtype: mxfp8")
    assert figures_of(Case("gb200", "llama3.1_405b", "fp8"), 512, known).there == ()


def test_a_workload_is_found_by_the_name_of_the_table_that_has_it(tmp_path: Path) -> None:
    """``llama3_70b`` of NeMo's tables is the fine-tuning of another release."""
    llama = Case("gb200", "llama3.1_70b", "nvfp4")
    of_nemo = HEAD.replace("megatron-bridge", "nemo")
    row = "gpus: 512, dtype: nvfp4"
    assert figures_of(llama, 512, rows(tmp_path, "model: llama3\nsize: 70b", row)).there
    assert not figures_of(llama, 512, rows(tmp_path, "model: llama3\nsize: 70b", row, head=of_nemo)).there
    assert figures_of(llama, 512, rows(tmp_path, "model: llama3.1\nsize: 70b", row, head=of_nemo)).there


def test_per_gpu_the_batch_grows_and_the_step_stays(tmp_path: Path) -> None:
    (row,) = rows(
        tmp_path,
        "model: qwen3\nsize: 235b",
        'gpus: 64, dtype: bf16, case: "26.04", tp: 2, pp: 4, dp: 8, tokens_per_s_per_gpu: 2730, days_to_train_1t_tokens: 66',
    )
    moved = transferred(row, 512)
    assert moved is not None
    assert (moved.id, moved.gpus, moved.nodes) == ("qwen3_235b_bf16[GB200x512-26.04-of-64]", 512, 128)
    assert moved.batch.global_batch_size == 8 * 256
    assert moved.documented.step_time_s == row.documented.step_time_s
    assert moved.documented.tokens_per_s == 2730 * 512
    assert moved.documented.days_to_train_1t_tokens == 66 / 8
    assert (moved.parallelism.tp, moved.parallelism.pp, moved.parallelism.dp) == (2, 4, None)
    assert moved.source.in_words.startswith('"qwen3_235b_bf16[GB200x64-26.04], transferred per GPU from 64 GPUs"')


def test_what_cannot_be_divided_is_not_transferred(tmp_path: Path) -> None:
    (row,) = rows(tmp_path, "model: qwen3\nsize: 235b", "gpus: 96, dtype: bf16")
    assert transferred(row, 512) is None  # a batch of 1365.33
    assert transferred(replace(row, batch=replace(row.batch, global_batch_size=None)), 192) is None
    assert transferred(row, 6) is None  # one node and a half
    assert transferred(row, 48) is not None


# ---- The certification's criterion over a suite --------------------------------------------------

RELEASES = ("26.06", "26.08")


def record(*jobs_s: float, outcome: Outcome = Outcome.PASSED, said: str = "26.08", **facts: object) -> Record:
    """A record of jobs that took so long, where 100 s are documented."""
    measured_s = sorted(jobs_s)[len(jobs_s) // 2]
    verdict = Verdict(outcome, measured_s, 100.0, 0.05, jobs=jobs_s)
    jobs = [replace(JOB, id=str(number), judged=job_s) for number, job_s in enumerate(jobs_s)]
    return replace(
        SLOW,
        outcome=outcome.value,
        verdict=replace(verdict, **facts),  # type: ignore[arg-type]
        jobs=replace(SLOW.jobs, last=jobs[-1], repeats=tuple(jobs[:-1]), attempts=()),
        figures=replace(SLOW.figures, measured={"step_time_s": measured_s}),
        run=replace(SLOW.run, compared={"release": said} if said else {}),
    )


def case(*records: Record | None, name: str = "llama3.1_70b fp8", releases: tuple[str, ...] = RELEASES) -> CaseResult:
    runs = tuple(CaseRun(100.0, releases, one) for one in records)
    return CaseResult("H100", name, "a row" if runs else "none", "" if runs else "no figure", runs)


def concluded(*cases: CaseResult) -> Conclusion:
    (conclusion,) = conclude(cases)
    return conclusion


def test_it_is_met_by_more_than_95_percent_in_every_case() -> None:
    conclusion = concluded(case(record(105.2)), case(record(99.0), name="qwen3_235b bf16"))
    assert conclusion.is_met
    assert conclusion.text == wording("suite met", accelerator="H100", few=2, cases=2, release="release 26.08")


@pytest.mark.parametrize("step_s", [100 / 0.95, 100 / 0.95 - 1e-13, 105.3, 112.0])
def test_95_percent_is_not_more(step_s: float) -> None:
    conclusion = concluded(case(record(step_s)), case(record(99.0), name="qwen3_235b bf16"))
    assert not conclusion.is_met
    assert conclusion.is_missed
    assert conclusion.text == wording("suite failed", accelerator="H100", few=1, cases=2, why="1 not reached")


def test_what_changes_no_figure() -> None:
    # An accepted figure and a tolerance change nothing.
    """A slow cluster may accept 112 s for itself, and a row of 12 % less may pass by its tolerance."""
    assert case(record(112.0, accepted=112.0, tolerance=0.2)).why_not == "not reached"
    # A fast one may accept 90 s: 97 s are a regression for it, and 103 % of the figure.
    assert case(record(97.0, outcome=Outcome.REGRESSED, accepted=90.0)).why_not == ""
    # It may hold a row against a figure of its own, and call what it likes the measured time.
    assert case(record(112.0, documented=300.0)).why_not == "not reached"
    assert case(record(112.0, measured=98.0)).why_not == "not reached"


@pytest.mark.parametrize(
    ("one", "why"),
    [
        (None, "not run"),
        (record(50.0, outcome=Outcome.INCONCLUSIVE, given_reason=Reason.TOO_GOOD), "too good to be true"),
        (record(98.0, outcome=Outcome.INCONCLUSIVE, given_reason=Reason.RANKS_DIFFER), "ranks differ"),
        (replace(record(98.0), outcome="error", verdict=None), "not measured: error"),
        (replace(record(98.0), outcome="profiled"), "not measured: profiled"),
        (replace(record(98.0), not_comparable="mbridge_args"), "not comparable"),
    ],
)
def test_what_is_not_known_has_not_reached_it(one: Record | None, why: str) -> None:
    found = case(one)
    assert found.why_not == why
    assert not concluded(found).is_met
    assert not concluded(found).is_missed


def test_the_worst_row_counts() -> None:
    # A case without a row has not reached it.
    assert concluded(case(), case(record(98.0))).text == wording(
        "suite failed", accelerator="H100", few=1, cases=2, why="1 no figure"
    )
    # Of several rows the worst counts.
    assert case(record(98.0), record(110.0), record(99.0)).why_not == "not reached"
    assert case(record(98.0), None).why_not == "not run"


def test_the_median_of_all_jobs_counts_and_the_best_is_named() -> None:
    conclusion = concluded(case(record(110.0, 101.0, 108.0, outcome=Outcome.REGRESSED)))
    assert lines([conclusion]) == [
        "case                   figure      throughput    first job    best job    jobs  criterion",
        "H100 llama3.1_70b fp8  a row           92.6 %       90.9 %      99.0 %       3  not reached",
        "",
        "criterion: > 95 % of the figure for each workload of the suite, one release for all",
        "H100: not met: 0 of 1 case reached it; 1 not reached",
        "reached by its best job alone, which is a passing run, and not counted: H100 llama3.1_70b fp8 (99.0 %)",
    ]
    # Jobs that failed are counted.
    of = record(98.0)
    cancelled = replace(JOB, id="6", state=JobState.CANCELLED, why_repeated="its session ended early")
    failed = (cancelled, replace(JOB, id="7", why_repeated="node failure"))
    (_, row, *_) = lines([concluded(case(replace(of, jobs=replace(of.jobs, attempts=failed))))])
    assert row.endswith("3 (1 failed)  reached")


@pytest.mark.parametrize(
    ("other", "releases", "why"),
    [
        ("26.06", RELEASES, "the runs are not of the same release"),
        ("26.07", RELEASES, "1 run is of no known release, by log and table"),
        ("", RELEASES, "1 run is of no known release, by log and table"),
        ("26.08", (), "1 run is of no known release, by log and table"),
    ],
)
def test_runs_must_be_known_to_be_of_one_release(other: str, releases: tuple[str, ...], why: str) -> None:
    conclusion = concluded(case(record(98.0)), case(record(98.0, said=other), name="other", releases=releases))
    assert not conclusion.is_met
    assert conclusion.text == wording("suite failed", accelerator="H100", few=2, cases=2, why=why)


def test_a_container_is_a_release_of_its_figures() -> None:
    of = record(98.0, said="")
    in_container = replace(of, run=replace(of.run, compared={"container": "nemo:26.04.01"}))
    assert concluded(case(in_container, releases=("nemo:26.04.01",))).text.endswith("release nemo:26.04.01")
    assert not concluded(case(in_container, releases=("nemo:26.06",))).is_met


def test_each_accelerator_has_its_own() -> None:
    found = conclude([case(record(98.0)), replace(case(None), accelerator="B200")])
    assert [one.is_met for one in found] == [True, False]
