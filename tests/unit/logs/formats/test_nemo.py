from __future__ import annotations

import json

from tests.unit.logs.conftest import Read
from tests.unit.logs.lines import bar, dll, indexes, printer, seconds


def bars(*repaints: bytes) -> bytes:
    return b"".join(b"\r" + repaint for repaint in repaints) + b"\n"


def test_the_first_repaint_still_shows_the_step_before(read: Read) -> None:
    log = read(
        "nemo",
        bars(
            bar(1, "0.000", "21.40"),
            bar(2, "0.000", "21.40"), bar(2, "1.000", "12.80"),
            bar(3, "1.000", "12.80"), bar(3, "2.000", "9.980"),
        ),
    )  # fmt: skip
    assert (indexes(log), seconds(log), log.attempts, log.total_steps) == ([0, 1, 2], [21.4, 12.8, 9.98], 1, 50)


def test_the_last_bar_is_told_three_times(read: Read) -> None:
    last = bar(50, "49.00", "12.80")
    assert seconds(read("nemo", bars(last, last) + last + b"[NeMo I 2031-02-03] Removing checkpoint\n")) == [12.8]


def test_step_numbers_of_three_digits(read: Read) -> None:
    log = read("nemo", bars(*(bar(done, "2e+3", "6.500", total="2000") for done in (1998, 1999, 2000))))
    assert (indexes(log), log.total_steps) == ([1997, 1998, 1999], 2000)


def test_beyond_999_each_step_counts_once_and_at_its_own_time(read: Read) -> None:
    repaints = []
    for step in range(990, 1030):
        shown = f"{step:.3g}".replace("e+0", "e+") if step > 999 else f"{step}.0"
        before = f"{step - 1:.3g}".replace("e+0", "e+") if step > 1000 else f"{step - 1}.0"
        repaints += [bar(step + 1, before, f"{step - 1}.00"), bar(step + 1, shown, f"{step}.00")]
    log = read("nemo", bars(*repaints))
    assert seconds(log) == [989.0, *map(float, range(990, 1030))]
    assert indexes(log) == list(range(989, 1030))
    assert log.attempts == 1


def test_a_run_of_several_epochs_ends_with_an_epoch(read: Read) -> None:
    assert read("nemo", printer(19, 19, "7.5") + printer(0, 20, "7.75", epoch=1)).total_steps == 40
    assert (
        read("nemo", bars(bar(50, "49.00", "4.5"), bar(1, "49.00", "4.5"), bar(1, "50.00", "4.5"))).total_steps == 100
    )
    # Resumed, NeMo 2 shows the run's end in each epoch.
    resumed = printer(0, 7, "7.5", epoch=1) + printer(6, 13, "7.5", epoch=1)
    assert read("nemo", resumed).total_steps == 20
    # The step's number has but three digits, and the bar's counter is that of an epoch.
    assert read("nemo", bars(bar(7, "2e+3", "4.5"))).total_steps is None


def test_the_first_repaint_of_the_last_bar_is_not_the_last_step(read: Read) -> None:
    log = read("nemo", bars(bar(49, "48.00", "4.5"), bar(50, "48.00", "4.5")))
    assert (indexes(log), log.total_steps) == ([48], 50)
    assert read("nemo", bars(bar(50, "48.00", "4.5"))).total_steps == 50


def test_bars_that_count_batches_of_which_several_make_a_step_name_no_end(read: Read) -> None:
    assert read("nemo", bars(bar(40, "9.000", "4.5", total="160"))).total_steps is None
    assert read("nemo", printer(16, 3, "4.5")).total_steps is None


def test_lightning_says_when_it_stops_before_the_end_of_an_epoch(read: Read) -> None:
    stopped = b"`Trainer.fit` stopped: `max_steps=%d` reached.\n"
    steps = bars(*(bar(done, f"{done - 1}.000", "4.5", total="5000") for done in range(1, 9)))
    assert read("nemo", steps).total_steps == 5000
    assert read("nemo", steps + b"0: " + stopped % 8).total_steps == 8
    assert read("nemo", steps[:-1] + stopped % 8).total_steps == 8
    assert read("nemo", printer(3, 3, "7.5") + stopped % 4).total_steps == 4
    again = bars(bar(1, "0.000", "4.5", total="5000"))
    assert read("nemo", steps + stopped % 8 + again).total_steps == 5000


def test_a_bar_that_begins_anew_is_a_restart(read: Read) -> None:
    log = read("nemo", bars(bar(8, "7.000", "9.000"), bar(9, "8.000", "9.000"), bar(6, "5.000", "4.250")))
    assert (log.attempts, indexes(log), seconds(log)) == (2, [5], [4.25])


def test_dllogger_is_preferred_to_the_bar_it_is_glued_to(read: Read) -> None:
    log = read(
        "nemo", bar(1, "0.000", "21.40") + dll(0, "21.367358684539795") + bar(2, "1.000", "12.80") + dll(1, "12.8175")
    )
    assert (seconds(log), indexes(log), log.total_steps) == ([21.367359, 12.8175], [0, 1], 50)


def test_dllogger_json(read: Read) -> None:
    def record(step: int, time: float) -> bytes:
        data = {"reduced_train_loss": 9.5, "global_step": float(step), "train_step_timing in s": time, "epoch": 0}
        return f"DLLL {json.dumps({'type': 'LOG', 'step': step, 'data': data})}\n".encode()

    config = b'DLLL {"type": "LOG", "step": "PARAMETER", "data": {"cfg/global_batch_size": 2048}}\n'
    log = read("nemo", config + record(0, 107.25) + record(1, 32.5))
    assert (seconds(log), indexes(log), log.identity.global_batch_size) == ([107.25, 32.5], [0, 1], 2048)


def test_nemo_2_lines(read: Read) -> None:
    log = read("nemo", printer(0, 0, "10.51") + printer(1, 1, "1.249e+03"))
    assert (seconds(log), log.identity.global_batch_size, log.total_steps) == ([10.51, 1249.0], 256, 20)


def test_nemo_2_iterations_begin_anew_in_each_epoch_global_steps_do_not(read: Read) -> None:
    log = read("nemo", printer(18, 18, "7.5") + printer(0, 19, "7.75", epoch=1))
    assert (log.attempts, indexes(log)) == (1, [18, 19])


def test_nemo_2_without_global_step(read: Read) -> None:
    lines = printer(18, 18, "7.5") + printer(19, 19, "7.6") + printer(0, 20, "7.75", epoch=1)
    plain = b"\n".join(line.replace(b"global_step", b"other") for line in lines.split(b"\n"))
    assert indexes(read("nemo", plain)) == [18, 19, 20]


def test_nemo_2_resumed_after_a_crash(read: Read) -> None:
    before = b"".join(printer(step, step, "7.6") for step in range(16))
    after = b"".join(printer(step, step, "7.5") for step in range(10, 20))
    log = read("nemo", before + after)
    assert (log.attempts, indexes(log), set(seconds(log))) == (2, list(range(10, 20)), {7.5})


def test_validation_is_no_step(read: Read) -> None:
    log = read(
        "nemo",
        b"Validation: iteration 1/20\nStep 3: validation_step_timing in s=2.034\nlog_train_step_timing: True\n"
        b"  train_step_timing: true\nStep 12: train_step_timing in s=2.25\n",
    )
    assert (seconds(log), indexes(log)) == ([2.25], [12])


def test_plain_lightning_bars_number_their_steps_over_epochs(read: Read) -> None:
    def plain(epoch: int, done: int, time: str, total: str = "3") -> bytes:
        values = f"0.37it/s, v_num=1, train_step_timing in s={time}"
        return f"Epoch {epoch}:  33%|███▎ | {done}/{total} [00:02<00:05, {values}]".encode()

    log = read(
        "nemo",
        bars(
            plain(0, 1, "2.710"), plain(0, 2, "2.710"), plain(0, 2, "0.250"), plain(0, 3, "0.375"),
            plain(1, 0, "0.375"), plain(1, 1, "0.375"), plain(1, 1, "0.500", total="?"),
        ),
    )  # fmt: skip
    assert (seconds(log), indexes(log), log.attempts) == ([2.71, 0.25, 0.375, 0.5], [0, 1, 2, 3], 1)


def test_plain_bars_whose_heads_other_lines_took_away(read: Read) -> None:
    def headless(done: int, head: str = "[NeMo I 2031-02-03 nemo_logging:393]     ") -> bytes:
        return f"{head}| {done}/41 [00:02<00:24, 1.53it/s, train_step_timing in s=0.250]\n".encode()

    one_epoch = b"".join(headless(done) for done in (4, 24, 4, 39))
    log = read("nemo", one_epoch + headless(41, "Epoch 0: 100%") + one_epoch + headless(41, "Epoch 1: 100%"))
    assert log.attempts == 1
    assert indexes(log) == [3, 23, 27, 62, 64, 68, 88, 92, 127, 129]
    again = read("nemo", headless(8, "Epoch 1:  20%") + headless(2, "Epoch 0:   5%") + headless(3, "Epoch 0:   7%"))
    assert (again.attempts, indexes(again)) == (2, [1, 2])


def test_cursor_moves_part_repaints(read: Read) -> None:
    log = read("nemo", bar(1, "0.000", "21.40") + b"\x1b[A\x1b[K" + bar(2, "1.000", "12.80") + b"\x1b[A\n")
    assert seconds(log) == [21.4, 12.8]


def test_mlperf_records_count_tokens_not_steps(read: Read) -> None:
    def record(time: float, tokens: float, key: str = "train_step_timing in s") -> bytes:
        value = {"key": "tracked_stats", "value": {key: time, "reduced_train_loss": 7.5}, "metadata": {"step": tokens}}
        return f"  0: :::MLLOG {json.dumps(value)}\n".encode()

    log = read("nemo", record(10.75, 4194304) + record(10.5, 8388608))
    assert (seconds(log), indexes(log)) == ([10.75, 10.5], [None, None])
    newer = read("nemo", record(20.25, 896.0, "train_step_time") + record(19.5, 1792.0, "train_step_time"))
    assert seconds(newer) == [20.25, 19.5]
    again = read("nemo", record(10.75, 4194304) + record(10.5, 8388608) + record(9.5, 4194304))
    assert (seconds(again), again.attempts) == ([9.5], 2)


def test_the_list_at_the_end_where_there_is_nothing_better(read: Read) -> None:
    line = b"[NeMo I 2031-02-03 04:05:06 nemo_logging:393] train_step_timing in s: [21.37, 12.82, 9.98]\n"
    assert seconds(read("nemo", line)) == [21.37, 12.82, 9.98]
    assert seconds(read("nemo", bar(1, "0.000", "21.40") + b"\r" + line)) == [21.4]


def test_what_is_not_finite_is_told(read: Read) -> None:
    assert read("nemo", printer(0, 0, "7.5", loss="nan")).not_finite == (0, "reduced_train_loss: nan")
    line = bar(3, "2.000", "4.250").replace(b"loss=9.250", b"loss=nan.0")
    assert read("nemo", line + b"\n").not_finite == (2, "reduced_train_loss=nan")


def test_a_bar_that_was_cut_is_no_step(read: Read) -> None:
    cut = bar(2, "1.000", "12.80")[:-3] + b"\n"
    assert seconds(read("nemo", bar(1, "0.000", "21.40") + b"\n" + cut)) == [21.4]
