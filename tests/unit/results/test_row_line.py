"""A row's line on the screen, to the letter: at most as wide as it may be, whatever it is called."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gsw.results.record import MetricFacts, Record
from pytest_gsw.results.row_line import WIDEST, RowLine, change_text, figures, fitted, line_of, telling_line
from tests.unit.results.records import JOB, SAVE, SLOW, varied

FAILED = varied(SLOW, outcome="error", fact="job 481221 failed with exit code 1: ECC error", measured={}, reason="")


@pytest.mark.parametrize(
    ("record", "text"),
    [
        (SLOW, "REGRESSED  throughput -10.8 %  5.11 s/step  MFU 36.0 %  job 481221"),
        (varied(SLOW, outcome="passed"), "PASSED     throughput -10.8 %  5.11 s/step  MFU 36.0 %  job 481221"),
        (varied(SLOW, outcome="improved"), "IMPROVED   throughput -10.8 %  5.11 s/step  MFU 36.0 %  job 481221"),
        (
            varied(SLOW, outcome="inconclusive", reason="within noise", limit=0.11, sigma=0.04, sigma_jobs=20),
            "INCONCLUSIVE  throughput -10.8 %  within noise  5.11 s/step  MFU 36.0 %",
        ),
        (
            varied(SLOW, measured={"step_time_s": 435.0}, documented={}, outcome="passed"),
            "PASSED     435 s/step  job 481221",
        ),
        (SAVE, "REGRESSED  throughput -9.9 % (allowed 40 %)  19.93 s/save  job 481221"),
        (
            varied(SLOW, accepted={"step_time_s": 5.0}, outcome="passed"),
            "PASSED     throughput -2.2 % to accepted, -10.8 % to documented",
        ),
        (
            varied(SLOW, attempts=(replace(JOB, id="1"),) * 2),
            "REGRESSED  throughput -10.8 %  5.11 s/step  MFU 36.0 %  job 481221",
        ),
        (FAILED, "ERROR      ECC error, job 481221 on pool0-[0017-0032]"),
        (
            varied(FAILED, fact="the end of job 481221 is not known: no answer"),
            "ERROR      the end of job 481221 is not known: no answer",
        ),
        (
            varied(FAILED, fact="job 481221 ended TIMEOUT"),
            "ERROR      ended TIMEOUT, job 481221 on pool0-[0017-0032]",
        ),
        (varied(FAILED, fact="sbatch refused the job", job=None), "ERROR      sbatch refused the job"),
        (
            varied(FAILED, outcome="expected_failure", fact="ran out of memory, as documented"),
            "AS DOCUMENTED  ran out of memory, as documented  job 481221",
        ),
        (
            varied(FAILED, outcome="unexpected_success", fact="is documented to run out of memory, but it did not"),
            "UNEXPECTED  is documented to run out of memory, but it did not  job 481221",
        ),
    ],
)
def test_a_row_on_one_line(record: Record, text: str) -> None:
    assert line_of(record).text(WIDEST) == f"llama2_70b_fp8[H100x128]  {text}"


def test_what_a_log_said_last_stands_for_a_cause_that_is_not_known() -> None:
    record = varied(FAILED, fact="job 481221 failed with exit code 1")
    assert line_of(record, "RuntimeError: shape is invalid").parts == ("exit code 1: RuntimeError: shape is invalid",)
    assert line_of(record).parts == ("failed with exit code 1, job 481221 on pool0-[0017-0032]",)
    # A cause that is known says more.
    assert line_of(FAILED, "Error: x").parts == ("ECC error, job 481221 on pool0-[0017-0032]",)


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ([], ""),
        (["", "  "], ""),
        (["step 3", "step 4 "], ""),
        (["Epoch 0: 100%|###| 50/50 [18:11<00:00]"], ""),
        (["Segmentation fault (core dumped)", "step 1 by default"], "Segmentation fault (core dumped)"),
        (["slurmstepd: Unable to create step", "bye"], "slurmstepd: Unable to create step"),
        (["step 1", "RuntimeError: first", "  ValueError: no such shape ", "cleaning up"], "ValueError: no such shape"),
        (["Error: first", "srun: error: second", ""], "srun: error: second"),
    ],
)
def test_the_line_of_a_log_that_looks_most_like_a_cause(lines: list[str], found: str) -> None:
    assert telling_line(lines) == found


def test_a_site_s_metrics_stand_behind_the_throughput() -> None:
    memory = MetricFacts("peak_memory_gib", "peak memory", "GiB", "lower is better", 70.1, 61.2, 0.05, "regressed")
    assert figures(varied(SLOW, metrics=(memory,)))[:2] == ("throughput -10.8 %", "peak memory 70.1 GiB (+14.5 %)")


def test_a_simulation_and_a_replay_say_so_last() -> None:
    assert figures(varied(SLOW, simulated=True))[-1] == "simulated"
    assert figures(varied(SLOW, job=replace(JOB, state="REPLAYED")))[-1] == "log only"


@pytest.mark.parametrize(("seconds", "text"), [(4.5559, "throughput +0.0 %"), (4.0, "throughput +13.9 %")])
def test_a_change_is_of_throughput_and_plus_is_better(seconds: float, text: str) -> None:
    assert change_text(varied(SLOW, measured={"step_time_s": seconds})) == text


def test_the_least_important_parts_are_left_out_and_the_first_is_cut() -> None:
    parts = ("throughput -10.8 %", "5.11 s/step", "job 481221")
    assert fitted(parts, 50) == "  throughput -10.8 %  5.11 s/step  job 481221"
    assert fitted(parts, 40) == "  throughput -10.8 %  5.11 s/step"
    assert fitted(parts, 17) == "  throughput -..."
    assert fitted(parts, 8) == ""


def test_a_long_id_leaves_room_for_the_change_on_a_narrow_screen() -> None:
    row = RowLine("gpt2_52b_fp16[V100-32GBx64-ds3d-gas256-mbs4-gbs1024]", "REGRESSED", ("throughput -10.8 %", "job 7"))
    assert row.text(100) == f"{row.row}  REGRESSED  throughput -10.8 %  job 7"
    assert row.text(80) == "gpt2_52b_fp16[V100...s256-mbs4-gbs1024]  REGRESSED  throughput -10.8 %  job 7"
    assert row.text(60) == "gpt2_52b_fp1...s4-gbs1024]  REGRESSED  throughput -10.8 %"


@given(st.text(max_size=300), st.lists(st.text(min_size=1, max_size=200), max_size=6), st.integers(0, 200))
def test_no_line_is_longer_than_it_may_be(row: str, parts: list[str], ids: int) -> None:
    for word in ("PASSED", "INCONCLUSIVE", "AS DOCUMENTED"):
        assert len(RowLine(row, word, tuple(parts)).text(WIDEST, ids)) <= WIDEST
