from __future__ import annotations

from tests.unit.logs.conftest import Read
from tests.unit.logs.lines import NOISE, indexes, maxtext, seconds


def test_steps_with_their_numbers_and_offsets(read: Read) -> None:
    first = maxtext(0, "9.125")
    log = read("maxtext", NOISE + first + NOISE + maxtext(1, "4.250"))
    assert log.format == "maxtext"
    assert [(step.index, step.seconds) for step in log.steps] == [(0, 9.125), (1, 4.25)]
    assert [step.offset for step in log.steps] == [len(NOISE), 2 * len(NOISE) + len(first)]
    assert log.attempts == 1
    assert log.total_steps is None


def test_of_two_runs_in_a_log_the_last_counts(read: Read) -> None:
    profiling = b"".join(maxtext(step, "6.500") for step in range(15))
    measured = b"".join(maxtext(step, "4.250") for step in range(50))
    log = read("maxtext", profiling + measured)
    assert log.attempts == 2
    assert indexes(log) == list(range(50))
    assert set(seconds(log)) == {4.25}


def test_a_step_is_the_median_over_the_ranks(read: Read) -> None:
    log = read("maxtext", maxtext(0, "4.000") + maxtext(0, "5.000") + maxtext(0, "4.100"))
    assert seconds(log) == [4.1]


def test_a_rank_that_lags_is_no_restart(read: Read) -> None:
    lines = [maxtext(step, f"4.{rank}00") for step in range(20) for rank in range(4)]
    # Rank 3 prints each step after rank 0 has printed the next one.
    for step in range(19):
        at = 4 * step + 3
        lines[at], lines[at + 1] = lines[at + 1], lines[at]
    log = read("maxtext", b"".join(lines))
    assert log.attempts == 1
    assert indexes(log) == list(range(20))
    assert set(seconds(log)) == {4.15}


def test_a_lagging_rank_in_each_of_two_runs(read: Read) -> None:
    one_run = b"".join(
        maxtext(step, "4.100") + maxtext(step + 1, "4.200") if step % 2 == 0 else b"" for step in range(10)
    ) + b"".join(maxtext(step, "4.300") for step in (8, 9))
    log = read("maxtext", one_run.replace(b"4.", b"6.") + one_run)
    assert log.attempts >= 2
    assert max(seconds(log)) < 5


def test_a_resumed_run_is_a_new_attempt(read: Read) -> None:
    ranks = range(8)
    before = b"".join(maxtext(step, "6.000") for step in range(12) for _ in ranks)
    after = b"".join(maxtext(step, "4.000") for step in range(11, 14) for _ in ranks)
    log = read("maxtext", before + after)
    assert (log.attempts, indexes(log), seconds(log)) == (2, [11, 12, 13], [4.0, 4.0, 4.0])


def test_older_forms_and_prefixes(read: Read) -> None:
    log = read(
        "maxtext",
        b"completed step: 1, seconds: 8.5, TFLOP/s: 1.731, loss: 9.206\n"
        b"# completed step: 2, seconds: 0.5, TFLOP/s/device: 4.9, loss: 875.4\n"
        b" 12: I0203 04:05:06.789012 139 metric_logger.py:226] completed step: 3, seconds: 0.25, live slice count: 2,\n"
        b"[Rampup Batch Size Phase], completed step: 4, seconds: 0.125, total_weights: 4, loss: 9.1\n",
    )
    assert seconds(log) == [8.5, 0.5, 0.25, 0.125]


def test_evaluations_profiler_lines_and_the_shell_trace_are_no_steps(read: Read) -> None:
    log = read(
        "maxtext",
        b"Completed eval step: 5, seconds: 1.2, TFLOP/s/device: 1.0\n"
        b"completed profiler activation/deactivation step: 9\n"
        b"completed step: 101, ...\n"
        b"+ grep 'completed step: 3, seconds: 1.0' run.log\n"
        b"12: + echo completed step: 3, seconds: 1.0, loss: 1\n" + maxtext(0, "4.250"),
    )
    assert seconds(log) == [4.25]


def test_lines_glued_by_ranks_are_parted(read: Read) -> None:
    log = read("maxtext", maxtext(0, "4.250").rstrip(b"\n") + maxtext(1, "4.500"))
    assert seconds(log) == [4.25, 4.5]


def test_nan_loss_is_told(read: Read) -> None:
    log = read("maxtext", maxtext(0, "4.250") + maxtext(1, "4.250", loss="nan") + maxtext(2, "4.250", loss="nan"))
    assert log.not_finite == (1, "loss: nan")


def test_nan_of_an_earlier_run_does_not_count(read: Read) -> None:
    assert read("maxtext", maxtext(4, "4.0", loss="nan") + maxtext(0, "4.0")).not_finite is None


def test_an_infinite_perplexity_is_no_problem(read: Read) -> None:
    line = maxtext(0, "4.250").replace(b"\n", b", perplexity: inf\n")
    assert read("maxtext", line).not_finite is None


def test_a_nan_step_time_is_told_and_never_a_number(read: Read) -> None:
    log = read("maxtext", maxtext(0, "nan") + maxtext(1, "inf") + maxtext(2, "4.250"))
    assert indexes(log) == [2]
    assert log.not_finite == (0, "step time nan")
