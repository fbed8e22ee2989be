from __future__ import annotations

from tests.unit.logs.conftest import Read
from tests.unit.logs.lines import indexes, paxml, paxml_start, seconds


def test_steps_have_no_numbers(read: Read) -> None:
    log = read("paxml", paxml("9.125000") + paxml("4.25"))
    assert (seconds(log), indexes(log), log.attempts) == ([9.125, 4.25], [None, None], 1)


def test_other_status_lines_are_no_steps(read: Read) -> None:
    log = read(
        "paxml",
        b"[PAX STATUS]: Checkpoint load / variable init took 12 seconds\n"
        b"[PAX STATUS]: E2E time: Elapsed time for <_main>: 117.65 seconds  (@ <main.py:486>)\n"
        b"[PAX STATUS] step_i: 10, training loss: 6.5\n" + paxml("4.25"),
    )
    assert (seconds(log), log.not_finite) == ([4.25], None)


def test_one_rank_by_label(read: Read) -> None:
    log = read(
        "paxml", paxml("9.5", 7, "0: ") + paxml("8.5", 7, "1: ") + paxml("4.25", 7, "1: ") + paxml("5.5", 7, "0: ")
    )
    assert seconds(log) == [9.5, 5.5]


def test_one_rank_by_thread_the_one_with_most_lines(read: Read) -> None:
    log = read("paxml", paxml("9.5", 7) + paxml("8.5", 8) + paxml("4.25", 8) + paxml("5.5", 7) + paxml("4.5", 8))
    assert seconds(log) == [8.5, 4.25, 4.5]


def test_ranks_that_nothing_tells_apart_are_counted_by_their_starts(read: Read) -> None:
    steps = b"".join(paxml(time) for time in ("9.1", "9.2", "9.3", "4.1", "4.3", "4.2", "5.0"))
    log = read("paxml", paxml_start() * 3 + steps)
    assert seconds(log) == [9.2, 4.2]


def test_a_requeued_run_appends_to_the_log(read: Read) -> None:
    first = paxml_start(1) + paxml_start(2) + (paxml("9.5", 1) + paxml("9.4", 2)) * 5
    again = paxml_start(3) + paxml_start(4) + (paxml("4.5", 3) + paxml("4.4", 4)) * 3
    log = read("paxml", first + again)
    assert (log.attempts, seconds(log)) == (2, [4.5] * 3)


def test_a_requeued_run_with_the_same_label_and_thread(read: Read) -> None:
    first = paxml_start(1, "0: ") + paxml("9.5", 1, "0: ") * 5
    log = read("paxml", first + paxml_start(1, "0: ") + paxml("4.5", 1, "0: ") * 2)
    assert (log.attempts, seconds(log)) == (2, [4.5, 4.5])


def test_nan_loss_of_the_last_attempt_is_told(read: Read) -> None:
    bad = b"[PAX STATUS] step_i: 10, training loss: nan\n"
    assert read("paxml", paxml("4.5") + bad).not_finite == (10, "[PAX STATUS] step_i: 10, training loss: nan")
    assert read("paxml", paxml("4.5", 1) + bad + paxml_start(1) + paxml("4.5", 1)).not_finite is None
    assert (
        read("paxml", paxml("4.5") + b"[PAX STATUS] Applying nan_to_num, isnan: maybe_inf_to_nan\n").not_finite is None
    )
