"""All rows of a run in a few lines, to the letter: no row is behind another."""

from __future__ import annotations

import pytest

from pytest_gsw.results.summary import not_passed_lines, run_table
from tests.unit.results.a_run import RUN, row
from tests.unit.results.records import PASSED_BY_ACCEPTED, varied


def test_a_run_by_case_and_gpus() -> None:
    assert run_table(RUN, 120) == [
        "GPUs                 64                128               256                  512    1024",
        "llama2_70b bf16  +1.2 %",
        "llama2_70b fp8   -0.3 %  REGRESSED -10.8 %  IMPROVED +13.9 %  INCONCLUSIVE -8.9 %   ERROR",
    ]


def test_a_row_that_passed_by_an_accepted_figure_alone_is_marked() -> None:
    assert run_table([PASSED_BY_ACCEPTED, row("passed", 64)], 120) == [
        "GPUs                64              128",
        "llama2_70b fp8  +0.0 %  ACCEPTED -4.1 %",
    ]


def test_on_a_narrow_screen_the_table_is_cut_between_gpu_counts() -> None:
    assert run_table(RUN, 48) == [
        "GPUs                 64                128",
        "llama2_70b bf16  +1.2 %",
        "llama2_70b fp8   -0.3 %  REGRESSED -10.8 %",
        "",
        "GPUs                         256",
        "llama2_70b fp8  IMPROVED +13.9 %",
        "",
        "GPUs                            512    1024",
        "llama2_70b fp8  INCONCLUSIVE -8.9 %   ERROR",
    ]


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_no_row_is_lost_on_any_screen(width: int) -> None:
    text = "\n".join(run_table(RUN, width))
    words = ("REGRESSED", "IMPROVED", "INCONCLUSIVE", "ERROR", "+1.2 %", "-0.3 %")
    assert [text.count(word) for word in words] == [1] * 6


def test_several_accelerators_have_lines_of_their_own() -> None:
    lines = run_table([RUN[0], varied(RUN[0], accelerator="B200")], 80)
    assert [line.split("  ")[0] for line in lines] == ["GPUs", "llama2_70b fp8 B200", "llama2_70b fp8 H100"]


def test_rows_that_share_a_place_are_counted_with_the_worst_and_the_best() -> None:
    shared = [row("passed", 64, 4.5 + number / 100, f"-mbs{number}") for number in range(20)]
    shared += [row("regressed", 64, 8.1, "-tp4"), row("regressed", 64, 5.11, "-tp8"), row("error", 32, None, "-tp2")]
    assert run_table([*shared, row("passed", 8, 4.5, dtype="bf16")], 80) == [
        "GPUs                  8",
        "llama2_70b bf16  +1.2 %",
        "",
        "llama2_70b fp8 on 32 GPUs  1 error",
        "llama2_70b fp8 on 64 GPUs  20 passed, 2 regressed, worst -43.8 %, best +1.2 %",
    ]


def test_a_strategy_that_scales_has_a_line() -> None:
    rows = [row("passed", gpus, 4.5, suffix) for gpus in (8, 16) for suffix in ("", "-tp4")]
    assert run_table([*rows, row("passed", 8, 4.556, "-odd")], 80) == [
        "GPUs                     8      16",
        "llama2_70b fp8      +1.2 %  +1.2 %",
        "llama2_70b fp8 tp4  +1.2 %  +1.2 %",
        "",
        "llama2_70b fp8 on 8 GPUs  1 passed, +0.0 %",
    ]


def test_an_empty_run_has_no_table() -> None:
    assert run_table([], 80) == []


def test_rows_that_are_not_passed_are_listed_the_worst_first() -> None:
    assert not_passed_lines(RUN, 100, 20) == [
        "llama2_70b_fp8[H100x128]  REGRESSED  throughput -10.8 %  5.11 s/step  job 481221",
        "llama2_70b_fp8[H100x512]  INCONCLUSIVE  throughput -8.9 %  5 s/step  job 481221",
    ]


def test_those_beyond_the_most_are_counted() -> None:
    many = [row("regressed", number, 5.11) for number in range(1, 31)]
    lines = not_passed_lines(many, 100, 20)
    assert (len(lines), lines[-1]) == (21, "and 10 more rows, each with its line above")
