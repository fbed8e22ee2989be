"""Training that trains nothing, attempts that diverged, losses that do not fall, ranks that differ, other batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_gsw.errors import LogError, LogWarning
from pytest_gsw.logs.formats.registry import FORMATS
from pytest_gsw.logs.reader import read_log
from pytest_gsw.tables.model import Baseline, Documented, Recipe
from pytest_gsw.validation.measure import read_metrics
from tests.messages import wording
from tests.unit.logs import lines
from tests.unit.rows import LLAMA2_FP8_X128, with_facts
from tests.unit.validation.ended import of_bytes, raised

ROW = replace(
    LLAMA2_FP8_X128,
    criterion=replace(LLAMA2_FP8_X128.criterion, min_steps=18, statistic="median"),
    recipe=Recipe("maxtext", steps=20),
)
OVERFLOW = (
    b"[2031-02-03 04:05:06,789] [INFO] [loss_scaler.py:190:update_scale] [deepspeed] OVERFLOW! Rank 0 Skipping step. "
)
OVERFLOW += b"Attempted loss scale: 512, reducing to 256\n"
REQUEUE = b"slurmstepd: error: *** JOB 7 ON node7 CANCELLED AT 2031-02-03T04:05:06 DUE TO JOB REQUEUE ***\n"


def row(log_format: str, **changes: object) -> Baseline:
    return with_facts(ROW, log_format=log_format, **changes)


def refused(baseline: Baseline, log: bytes, folder: Path) -> str:
    return raised(LogError, of_bytes, baseline, log, folder).fact


def megatron(step: int, skipped: int = 0, loss: str = " lm loss: 9.5E+00 |", elapsed: str = "4250.0") -> bytes:
    line = lines.megatron(step, elapsed).replace(b"loss scale: 1.0", b"loss scale: 4096.0")
    line = line.replace(b"batch size:    96", b"batch size:   256")
    line = line.replace(b" lm loss: 9.500000E+00 |", loss.encode())
    return line.replace(b"skipped iterations:   0", f"skipped iterations: {skipped:3}".encode())


def summary_of_20(overflows: int) -> bytes:
    return b"  Total optimization steps = 20\n" + OVERFLOW * overflows + lines.summary("60.0")


# ---- Skipped steps -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("log_format", "log"),
    [
        ("megatron", b"".join(megatron(step, skipped=1) for step in range(1, 21))),
        ("megatron", b"".join(megatron(step, loss="") for step in range(1, 21))),
        ("megatron", b"".join(OVERFLOW + megatron(step) for step in range(1, 21))),
        ("deepspeed", b"".join(OVERFLOW + lines.throughput(step, "60.0") for step in range(1, 21))),
        ("deepspeed", b"".join(OVERFLOW + lines.pipe(step, "4.250") for step in range(1, 21))),
        ("huggingface", summary_of_20(20)),
        ("maxtext", b"".join(OVERFLOW + lines.maxtext(step, "4.250") for step in range(20))),
    ],
    ids=["counted", "no loss", "by DeepSpeed", "engine", "pipeline engine", "summary", "another format"],
)
@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_no_step_was_trained(log_format: str, log: bytes, dtype: str, tmp_path: Path) -> None:
    baseline = row(log_format, dtype=dtype, min_steps=1 if log_format == "huggingface" else 18)
    needed = 1 if log_format == "huggingface" else 18 if dtype == "bf16" else 9
    assert refused(baseline, log, tmp_path) == (wording("skipped", few=20, steps=20, trained=0, needed=needed))


@pytest.mark.parametrize(
    "line",
    [
        b"[INFO] [unfused_optimizer.py:207:step] [deepspeed] fp16 dynamic loss scale overflow! Skipping step. Attempted\n",
        b"[INFO] [logging.py:96:log_dist] [Rank 0] Overflow detected. Skipping step. Attempted loss scale: 1\n",
        b"Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 32768.0\n",
    ],
)
def test_the_words_of_other_scalers(line: bytes, tmp_path: Path) -> None:
    log = b"".join(line + lines.throughput(step, "60.0") for step in range(1, 21))
    assert refused(row("deepspeed"), log, tmp_path) == wording("skipped", few=20, steps=20, trained=0, needed=18)


def test_one_count_for_many_steps(tmp_path: Path) -> None:
    def run(*counts: tuple[int, int]) -> bytes:
        """A log of 20 steps, before some of which DeepSpeed counts those that it has skipped."""
        return b"".join(
            b"".join(b"[Rank 0] step=%d, skipped=%d, lr=[1e-06]\n" % count for count in counts if count[0] == step)
            + lines.throughput(step, "60.0")
            for step in range(1, 21)
        )

    for counts, skipped in (([(20, 20)], 20), ([(10, 0), (20, 6)], 6), ([(n, n) for n in range(1, 21)], 20)):
        fact = f"the optimizer skipped {skipped} of 20 steps: {20 - skipped} trained, 18 needed"
        assert refused(row("deepspeed"), run(*counts), tmp_path) == fact
    assert of_bytes(row("deepspeed"), run((10, 0), (20, 1)), tmp_path).steps == 19
    # The counts of a run that went on from a checkpoint begin where that ended.
    log = run((10, 77), (20, 77)).replace(b"step=10, skipped", b"step=1010, skipped")
    assert of_bytes(row("deepspeed"), log.replace(b"step=20, skipped", b"step=1020, skipped"), tmp_path).steps == 20
    # An actor that skips and a critic that does not: nothing tells whose steps the timer counts.
    both = [(step, skipped) for step in range(1, 21) for skipped in (step, 0)]
    assert of_bytes(row("deepspeed"), run(*both), tmp_path).steps == 20


def test_an_overflow_that_each_rank_tells(tmp_path: Path) -> None:
    told = b"".join(OVERFLOW.replace(b"Rank 0", f"Rank {rank}".encode()) for rank in range(16))
    log = b"".join((told if step == 60 else b"") + lines.throughput(step, "60.0") for step in range(10, 101, 10))
    baseline = row("deepspeed", dtype="fp16", recipe=Recipe("deepspeed", steps=100), min_steps=90)
    assert of_bytes(baseline, log, tmp_path).steps == 10


def test_half_precision_begins_with_skipped_steps_which_are_not_measured(tmp_path: Path) -> None:
    log = b"".join(
        megatron(step, skipped=int(step <= 6), elapsed="1000.0" if step <= 6 else "4250.0") for step in range(1, 21)
    )
    baseline = row("megatron", dtype="fp16", statistic="mean")
    result = of_bytes(baseline, log, tmp_path)
    assert (result.judged, result.steps, result.timing.first_s) == (4.25, 14, 4.25)
    assert refused(replace(baseline, workload=replace(baseline.workload, dtype="bf16")), log, tmp_path) == (
        wording("skipped", few=6, steps=20, trained=14, needed=18)
    )


def test_steps_that_are_skipped_later(tmp_path: Path) -> None:
    # A step that is skipped later.
    log = b"".join(
        megatron(step, skipped=int(step == 20), elapsed="1000.0" if step == 20 else "4250.0") for step in range(1, 21)
    )
    assert of_bytes(row("megatron", statistic="last"), log, tmp_path).judged == 4.25
    # Many steps that are skipped later.
    log = b"".join(megatron(step, skipped=int(step > 40 and step % 5 == 0)) for step in range(1, 101))
    log = log.replace(b"/      20", b"/     100")
    baseline = row("megatron", dtype="fp16", recipe=Recipe("megatron", steps=100), min_steps=90)
    assert refused(baseline, log, tmp_path) == (wording("too large", few=12, steps=68, warm_up=32))


def test_lines_of_ten_steps(tmp_path: Path) -> None:
    """As real runs in half precision on V100s: of the first lines most steps are skipped."""
    skipped = {10: 10, 20: 8, 30: 1}
    log = b"".join(
        megatron(step, skipped=skipped.get(step, 0), elapsed="1000.0" if step < 30 else "4250.0")
        for step in range(10, 101, 10)
    )
    baseline = row("megatron", dtype="fp16", statistic="mean[31:40]", recipe=Recipe("megatron"), min_steps=2)
    result = of_bytes(baseline, log, tmp_path)
    assert (result.judged, result.steps) == (4.25, 8)
    assert refused(replace(baseline, criterion=replace(baseline.criterion, statistic="mean[1:10]")), log, tmp_path) == (
        wording("window", statistic="mean[1:10]", why=wording("not in the window", statistic="mean[1:10]"))
    )


def test_a_summary_of_which_few_steps_were_skipped(tmp_path: Path) -> None:
    baseline = row("huggingface", dtype="fp16", min_steps=1)
    assert of_bytes(baseline, summary_of_20(2), tmp_path).steps == 1
    assert "skipped 3 of 20" in refused(baseline, summary_of_20(3), tmp_path)


def told(step: int, norm: str, loss: str = "9.25", every: int = 1) -> bytes:
    """What Hugging Face's Trainer logs of a step."""
    return f"{{'loss': {loss}, 'grad_norm': {norm}, 'learning_rate': 5e-05, 'epoch': {step * every / 20}}}\n".encode()


def gradients(*bad: int, norm: str = "inf", total: bool = True, copies: int = 1, every: int = 1) -> bytes:
    """A run of 20 steps in which the gradients of some steps are not finite."""
    lines_of_steps = (told(step, norm if step in bad else "2.5", every=every) for step in range(1, 20 // every + 1))
    start = b"  Total optimization steps = 20\n" if total else b""
    return start + b"".join(line * copies for line in lines_of_steps) + lines.summary("60.0") * copies


@pytest.mark.parametrize("norm", ["inf", "'inf'", "nan"])
@pytest.mark.parametrize("total", [True, False], ids=["total", "no total"])
@pytest.mark.parametrize("copies", [1, 2])
def test_gradients_that_the_loss_scaler_finds_to_overflow(norm: str, total: bool, copies: int, tmp_path: Path) -> None:
    baseline = row("huggingface", dtype="fp16", min_steps=1)
    assert of_bytes(baseline, gradients(1, 2, norm=norm, total=total, copies=copies), tmp_path).steps == 1
    fact = "the optimizer skipped 3 of 20 steps: 0 trained, 1 needed"
    assert refused(baseline, gradients(1, 2, 3, norm=norm, total=total, copies=copies), tmp_path) == fact


def test_gradients_that_overflow_seldom_or_before(tmp_path: Path) -> None:
    # A gradient of every tenth step stands for ten.
    baseline = row("huggingface", dtype="fp16", min_steps=1)
    fact = "the optimizer skipped 10 of 20 steps: 0 trained, 1 needed"
    assert refused(baseline, gradients(1, every=10), tmp_path) == fact
    # Gradients that no loss scaler looks at.
    baseline = row("huggingface", dtype="bf16", min_steps=1)
    fact = "the loss or a step time is not finite: 'grad_norm': inf"
    assert refused(baseline, gradients(1), tmp_path) == fact
    # Gradients of an attempt before.
    start = b"***** Running training *****\n"
    log = start + gradients(1, 2, 3, 4) + start + gradients()
    assert of_bytes(row("huggingface", dtype="fp16", min_steps=1), log, tmp_path).steps == 1


@pytest.mark.parametrize("loss", ["nan", "inf", "0.0"])  # 0.0: the Trainer shows no loss that is not finite
def test_gradients_beside_a_loss_that_is_not_finite(loss: str, tmp_path: Path) -> None:
    log = gradients() + told(1, "inf", loss=loss)
    assert refused(row("huggingface", dtype="fp16", min_steps=1), log, tmp_path) == (
        wording("never finite", what=f"'loss': {loss}")
        if loss != "0.0"
        else wording("never finite", what="'grad_norm': inf")
    )


# ---- Losses --------------------------------------------------------------------------------------


def test_a_step_without_a_loss(tmp_path: Path) -> None:
    log = b"".join(lines.maxtext(step, "4.250") for step in range(20))
    without = log.replace(
        b"step: 7, seconds: 4.250, TFLOP/s/device: 301.500, Tokens/s/device: 912.250, total_weights: 32768, loss: 8.125",
        b"step: 7, seconds: 4.250, ",
    )
    assert refused(row("maxtext"), without, tmp_path) == wording("no loss", step=7, few=1, steps=20)
    assert of_bytes(row("maxtext"), log.replace(b"loss: 8.125", b"loss: 0.000"), tmp_path).steps == 20


@pytest.mark.parametrize(
    ("log_format", "log"),
    [
        ("nemo", b"".join(lines.printer(step, step, "4.25") for step in range(20)).replace(b"reduced_train_loss: 9.25 | ", b"")),
        ("nemo", b"".join(lines.dll(step, "4.25").replace(b"reduced_train_loss : 9.25  ", b"") for step in range(20))),
    ],
    ids=["printer", "dllogger"],
)  # fmt: skip
def test_no_step_has_a_loss(log_format: str, log: bytes, tmp_path: Path) -> None:
    assert refused(row(log_format), log, tmp_path) == wording("no loss", step=0, few=20, steps=20)


def test_a_loss_that_one_of_two_ranks_prints_whole(tmp_path: Path) -> None:
    torn = b"completed step: 7, seconds: 4.250, TFLOP/s/de"
    whole = [lines.maxtext(step, "4.250") for step in range(20)]
    log = b"".join((torn if step == 7 else line) + line for step, line in enumerate(whole))
    assert of_bytes(row("maxtext"), log, tmp_path).steps == 20


@pytest.mark.parametrize(
    ("losses", "fact"),
    [
        ([9 - step / 10 for step in range(20)], None),
        ([9 + step / 10 for step in range(20)], "the loss does not fall: 9.05 over the first tenth of the steps, 10.85 over the last"),
        ([9.0] * 20, "the loss does not fall: 9 over the first tenth of the steps, 9 over the last"),
        ([0.0] * 20, "the loss does not fall: 0 over the first tenth of the steps, 0 over the last"),
    ],
)  # fmt: skip
def test_a_loss_that_is_to_fall(losses: list[float], fact: str | None, tmp_path: Path) -> None:
    log = b"".join(lines.maxtext(step, "4.250", str(loss)) for step, loss in enumerate(losses))
    assert of_bytes(row("maxtext"), log, tmp_path).steps == 20
    if fact is None:
        assert of_bytes(row("maxtext", loss="falls"), log, tmp_path).steps == 20
    else:
        assert refused(row("maxtext", loss="falls"), log, tmp_path) == fact


def test_a_loss_of_which_nothing_tells_whether_it_falls(tmp_path: Path) -> None:
    baseline = row("maxtext", loss="falls", min_steps=1, recipe=Recipe("maxtext"))
    log = b"".join(lines.maxtext(step, "4.250", str(9 - step)) for step in range(9))
    assert refused(baseline, log, tmp_path) == wording("few losses", losses=9)
    log = b"".join(lines.throughput(step, "60.0") for step in range(1, 21))
    fact = "the row asks that the loss falls, and deepspeed prints no loss"
    assert refused(row("deepspeed", loss="falls"), log, tmp_path) == fact


def test_losses_in_lines_of_their_own(tmp_path: Path) -> None:
    told = b"".join(
        f"{{'loss': {9 - step / 4}, 'learning_rate': 5e-05, 'epoch': 0.{step}}}\n".encode() for step in range(12)
    )
    baseline = row("huggingface", loss="falls", min_steps=1)
    assert of_bytes(baseline, told + lines.summary("60.0"), tmp_path).steps == 1
    flat = b"".join(f"{{'loss': 9.0, 'epoch': 0.{step}}}\n".encode() for step in range(10, 22))
    assert "does not fall" in refused(baseline, flat + lines.summary("60.0"), tmp_path)


# ---- A model that stands still: a gradient norm of 0 and one loss ---------------------------------

#: One step of each format whose framework prints both, by step, loss and norm. A new format is here or below.
STILL: Mapping[str, Callable[[int, str, str], str]] = {
    "maxtext": lambda n, loss, norm: f"completed step: {n - 1}, seconds: 4.250, grad_norm: {norm}, loss: {loss}\n",
    "nemo": lambda n, loss, norm: (
        f"Training epoch 0, iteration {n - 1}/19 | global_step: {n - 1} | reduced_train_loss: {loss} | "
        f"train_step_timing in s: 4.25 | grad_norm: {norm}\n"
    ),
    "megatron": lambda n, loss, norm: (
        f" iteration {n:8d}/      20 | elapsed time per iteration (ms): 4250.0 | lm loss: {loss} | grad norm: {norm} |\n"
    ),
    "torchtitan": lambda n, loss, norm: f"step: {n:2}  loss: {loss}  grad_norm: {norm}  tps: 2,048  mfu: N/A\n",
    "automodel": lambda n, loss, norm: (
        f" | Iteration {n - 1} | num_label_tokens=2097152 | grad_norm={norm} | loss={float(loss):.4f}\n"
        " | Max iter time: 4.250000 seconds\n"
    ),
    "composer": lambda n, loss, norm: (
        lines.composer(n, "2048.0000", loss=f"{float(loss):.4f}").decode() + f"\t Train l2_norm/grad/global: {norm}\n"
    ),
    "huggingface": lambda n, loss, norm: (
        f"{{'loss': {loss}, 'grad_norm': '{norm}', 'epoch': 0.1}}\n"
        + ("" if n < 20 else lines.summary("60.0").decode())
    ),
    "deepspeed": lambda n, loss, norm: lines.pipe(n, "4.250", loss).decode().replace("iter", f"grad_norm: {norm} iter"),
    "nanotron": lambda n, loss, norm: (
        lines.nanotron(n, "4.25K", loss).decode().replace("grad_norm: 6.5", f"grad_norm: {norm}")
    ),
    "olmo-core": lambda n, loss, norm: (
        lines.olmo_core(n, "2,048", loss).decode().replace("grad norm=1.250", f"grad norm={norm}")
    ),
    "nemo-rl": lambda n, loss, norm: (
        f"{'=' * 25} Step {n}/20 {'=' * 25}\n  • Loss: {loss}\n  • Grad Norm: {norm}\n  • Total step time: 4.25s\n"
    ),
}
#: Paxml prints no norm, and benchmarks train nothing.
WITHOUT_NORM = {"paxml", "nccl-tests", "serving", "mllog"}


def still(log_format: str, steps: Iterable[tuple[str, str]]) -> bytes:
    """The log of a run with these losses and norms."""
    return "".join(STILL[log_format](n, loss, norm) for n, (loss, norm) in enumerate(steps, 1)).encode()


def outcome_of(log_format: str, log: bytes, folder: Path, **changes: object) -> str:
    """The fact of the error, or empty."""
    baseline = row(log_format, min_steps=1 if log_format == "huggingface" else 18, **changes)
    try:
        of_bytes(baseline, log, folder)
    except LogError as error:
        return error.fact
    return ""


@pytest.mark.parametrize("log_format", FORMATS)
def test_a_model_that_stands_still(log_format: str, tmp_path: Path) -> None:
    assert (log_format in STILL) != (log_format in WITHOUT_NORM)
    if log_format in WITHOUT_NORM:
        return
    of = "lines" if log_format == "huggingface" else "steps"
    for dies in (1, 10, 16):
        log = still(
            log_format, ((f"{11 - min(n, dies) / 8:.5f}", "0.000" if n >= dies else "1.2") for n in range(1, 21))
        )
        fact = f"the model does not train: gradient norm 0 in {21 - dies} of {21 - dies} {of}"
        assert outcome_of(log_format, log, tmp_path) == fact
    for healthy in (
        [("9.5", "0.000")] * 4,  # too few of a run that has moved
        [("9.5", "1.2")] * 20,  # one loss, by rounding
        [(f"{9.5 + n / 8}", "0.000") for n in range(20)],  # a norm of 0 alone
        [(f"{max(0.0, 9 - n):.5f}", "0.000" if n > 8 else "1.2") for n in range(20)],  # learnt by heart
        [("0.00000", "0.000")] * 20,
        [("9.5", "0.001")] * 20,
    ):
        before = [(f"{11 - n / 8}", "1.2") for n in range(20 - len(healthy))]
        assert outcome_of(log_format, still(log_format, [*before, *healthy]), tmp_path) == ""


@pytest.mark.parametrize("norm", ["0", "0.0", "-0.0", "0e+00", "0.000E+00"])
def test_zero_in_any_notation(norm: str, tmp_path: Path) -> None:
    log = still("megatron", [("1.037349E+01", norm)] * 20)
    assert outcome_of("megatron", log, tmp_path) == wording("no gradient", norm=0, few=20, steps=20)
    assert "not finite" in outcome_of("nemo-rl", still("nemo-rl", [("9.5", "nan")] * 20), tmp_path)
    assert "not finite" in outcome_of("composer", still("composer", [("9.5", "nan")] * 20), tmp_path)


def test_a_model_that_stands_still_in_the_measured_steps_alone(tmp_path: Path) -> None:
    steps = [("9.5", "0.0") if 5 <= n <= 14 else (f"{11 - n / 8}", "1.2") for n in range(1, 21)]
    log, fact = still("megatron", steps), "the model does not train: gradient norm 0 in 8 of 8 steps"
    assert outcome_of("megatron", log, tmp_path, statistic="mean[6:13]") == fact
    assert outcome_of("megatron", log, tmp_path, statistic="mean[6:15]") == ""
    assert outcome_of("megatron", log, tmp_path, statistic="mean[15:20]") == ""


def test_ranks_of_the_first_pipeline_stages_print_no_loss(tmp_path: Path) -> None:
    """TorchTitan's print -1, and the ranks print in any order."""

    def log(norm: str) -> bytes:
        pairs = [("-1.00000", "9.50000"), ("9.50000", "-1.00000")]
        return "".join(
            f"{rank}: " + STILL["torchtitan"](n, loss, norm)
            for n in range(1, 21)
            for rank, loss in enumerate(pairs[n % 2])
        ).encode()

    assert outcome_of("torchtitan", log("0.0000"), tmp_path).endswith(wording("gradient", norm=0, few=20, steps=20))
    assert outcome_of("torchtitan", log("1.2000"), tmp_path) == ""


def test_skipped_steps_between_those_that_stand_still(tmp_path: Path) -> None:
    log = b"".join(
        megatron(n, skipped=int(n == 18), loss="" if n == 18 else " lm loss: 9.5E+00 |").replace(b"1.250", b"0.000")
        for n in range(1, 21)
    )
    assert outcome_of("megatron", log, tmp_path) == wording("no gradient", norm=0, few=19, steps=19)


@pytest.mark.parametrize("loss", ["-0.01250", "0.00000"])
def test_a_final_loss_of_zero_or_below(loss: str, tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_bytes(still("nemo-rl", [("0.5", "1.2")] * 19 + [(loss, "1.2")]))
    baseline = row("nemo-rl", metrics={"final_loss": Documented(0.5)})
    log = read_log(path, FORMATS["nemo-rl"])
    error = raised(LogError, read_metrics, baseline, path, log, {})
    assert error.fact == wording("one loss", loss=f"{float(loss):g}", step=20)


# ---- A run that began again from a checkpoint ------------------------------------------------------


#: Of each framework, the line with which it loads a checkpoint of step 20, and the line of a step.
LOADS: dict[str, tuple[bytes, Callable[[int], bytes]]] = {
    "megatron": (b"  successfully loaded checkpoint from /c [ t 1/1, p 1/1 ] at iteration 20", megatron),
    "nemo": (b"[default0]:Restored all states from the checkpoint at /c/step=19", lambda n: lines.printer(n, n, "4.25")),
    "maxtext": (b"restoring from this run's directory step 20", lambda n: lines.maxtext(n, "4.250")),
    "torchtitan": (b"[titan] - root - INFO - Loading the checkpoint at step 20.", lambda n: lines.titan(n, "1500")),
    "nanotron": (b"[INFO|DP=0]: Loading checkpoint from /c/20", lambda n: lines.nanotron(n, "4.25K")),
    "olmo-core": (b"olmo_core.train:902 Loading checkpoint from '/c'...", lambda n: lines.olmo_core(n, "1500")),
    "composer": (b"composer.trainer: Loading checkpoint from /c/latest", lambda n: lines.composer(n, "1500.0000")),
    "automodel": (b"Loading checkpoint from /c/step_20", lambda n: lines.automodel(n, "4.250000")),
    "deepspeed": (b"[Torch] Loaded checkpoint from /c/global_step20/mp_rank_00.pt.", lambda n: lines.pipe(n, "4.250")),
}  # fmt: skip


@pytest.mark.parametrize("name", LOADS)
def test_a_run_that_began_again_from_a_checkpoint(name: str, tmp_path: Path) -> None:
    load, step = LOADS[name]
    baseline = replace(row(name, min_steps=20), recipe=Recipe(name, steps=50))
    for steps in (range(21, 51), range(21, 24), range(21, 100)):  # whole, cut, and beyond its end
        log = b"started\n" + load + b"\n" + b"".join(step(n) for n in steps)
        error = raised(LogError, of_bytes, baseline, log, tmp_path)
        assert error.fact == wording("began again", step=21)
        assert (error.evidence[-2][1], error.evidence[-1][1]) == (load.decode().strip(), f"{tmp_path / 'run.log'}:2")
        assert error.advice == wording("next checkpoint")


def test_what_is_no_run_from_a_checkpoint(tmp_path: Path) -> None:
    loads, whole = b" successfully loaded checkpoint from /c at iteration 10\n", [megatron(n) for n in range(1, 21)]
    nothing = b"No existing checkpoints found, not restoring checkpoint.\n"
    shards = b"Loading checkpoint shards: 100%|##########| 3/3\n"
    for log, is_resumed in (
        (loads + b"".join(whole[10:]), True),
        (loads + b"".join(whole[10:15]), True),
        (b"".join([*whole[:15], loads, *whole[10:]]), True),
        (b"".join([*whole[:15], *whole[10:]]), True),
        (loads + megatron(15) + megatron(20), True),  # one line of five
        (b"".join(whole[10:]), False),  # its beginning may be missing
        (nothing + b"".join(whole[10:]), False),
        (shards + b"".join(whole[10:]), False),
        (loads.replace(b"10", b"0") + b"".join(whole[10:]), False),
        (loads + b"".join(whole[:10]), False),
    ):
        error = raised(LogError, of_bytes, row("megatron"), log, tmp_path)
        assert (error.fact == wording("began again", step=11)) == is_resumed, log
    # DeepSpeed has no time of its first two steps.
    log = b"[Torch] Loaded checkpoint from /weights.\n" + b"".join(lines.throughput(n, "60.0") for n in range(3, 21))
    assert of_bytes(row("deepspeed"), log, tmp_path).steps == 18


# ---- More steps than there are -------------------------------------------------------------------

BRIDGE = b"Step Time : 4.25s GPU utilization: 663.5MODEL_TFLOP/s/GPU\n"
BRIDGE_BEGINS = b"[after dataloaders are built] datetime: 2031-02-03 04:05:06 \n"
BRIDGE_ENDS = b"[after training is done] datetime: 2031-02-03 04:05:06 \n"


def test_two_attempts_of_which_only_the_last_is_measured(tmp_path: Path) -> None:
    log = BRIDGE_BEGINS + 19 * BRIDGE.replace(b"4.25", b"1.00") + BRIDGE_BEGINS + 20 * BRIDGE + BRIDGE_ENDS
    assert (of_bytes(row("megatron"), log, tmp_path).steps, of_bytes(row("megatron"), log, tmp_path).judged) == (
        20,
        4.25,
    )
    assert refused(row("megatron"), log[: log.rindex(BRIDGE_BEGINS)] + BRIDGE_BEGINS + 9 * BRIDGE, tmp_path) == (
        wording("few steps", steps=9, needed=18, wanted=20)
    )


@pytest.mark.parametrize(
    ("log_format", "log", "count"),
    [
        ("megatron", 27 * BRIDGE, 27),
        ("paxml", b"".join(lines.paxml("4.250000") for _ in range(21)), 21),
    ],
)
def test_lines_of_more_steps_than_the_run_has(log_format: str, log: bytes, count: int, tmp_path: Path) -> None:
    fact = f"the log holds {count} steps and nothing that numbers them, and the run has 20"
    error = raised(LogError, of_bytes, row(log_format), log, tmp_path)
    assert error.fact == fact
    assert error.advice.startswith(wording("next attempts"))


def test_lines_of_more_steps_than_the_log_says(tmp_path: Path) -> None:
    baseline = row("megatron", recipe=Recipe("megatron"))
    log = b"  train_iters: 20\n" + 27 * BRIDGE
    assert refused(baseline, log, tmp_path) == (wording("unnumbered", steps=27, wanted=20))


# ---- Attempts ------------------------------------------------------------------------------------

DIVERGED = b"".join(lines.maxtext(step, "4.250", "nan") for step in range(20))
HEALTHY = b"".join(lines.maxtext(step, "4.250") for step in range(20))


def test_an_attempt_that_diverged_is_an_error(tmp_path: Path) -> None:
    error = raised(LogError, of_bytes, row("maxtext"), b"a line\n" + DIVERGED + HEALTHY, tmp_path)
    assert error.fact == wording("diverged", attempt=1, attempts=2, step=0, what="loss: nan")
    assert error.evidence == (
        ("log", f"{tmp_path}/run.log:41"),
        ("steps", "20 read as maxtext, the last of 2 runs in the file"),
        ("job", "7 COMPLETED 0:0"),
        ("attempt", f"{tmp_path}/run.log:2"),
    )


@pytest.mark.parametrize(
    "between",
    [
        REQUEUE,
        REQUEUE.replace(b"JOB REQUEUE", b"PREEMPTION"),
        REQUEUE.replace(b"JOB REQUEUE", b"NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS"),
        REQUEUE.replace(b"JOB 7", b"STEP 7.0"),
        b"SLURM_RESTART_COUNT=1\n",
    ],
)
def test_the_scheduler_itself_began_the_job_anew(between: bytes, tmp_path: Path) -> None:
    with pytest.warns(LogWarning) as told:
        result = of_bytes(row("maxtext"), DIVERGED + between + HEALTHY, tmp_path)
    assert result.steps == 20
    (warning,) = told
    assert str(warning.message) == (
        "job 7: " + wording("diverged", attempt=1, attempts=2, step=0, what="loss: nan; " + wording("requeued"))
    )


@pytest.mark.parametrize(
    "between",
    [
        b"",
        b"SLURM_RESTART_COUNT=0\n",
        REQUEUE.replace(b" DUE TO JOB REQUEUE", b""),
        REQUEUE.replace(b"JOB REQUEUE", b"TIME LIMIT"),
    ],
)
def test_what_is_no_requeue(between: bytes, tmp_path: Path) -> None:
    assert "diverged" in refused(row("maxtext"), DIVERGED + between + HEALTHY, tmp_path)
    assert "diverged" in refused(row("maxtext"), REQUEUE + DIVERGED + between + HEALTHY, tmp_path)
    assert refused(row("maxtext"), DIVERGED + between + HEALTHY + REQUEUE, tmp_path)


@pytest.mark.parametrize(
    ("log_format", "bad", "good"),
    [
        ("megatron", megatron(1, loss=" lm loss: nan |", elapsed="4260.0"), megatron(1)),
        ("nemo", lines.printer(0, 0, "4.26", loss="nan"), lines.printer(0, 0, "4.25")),
        ("deepspeed", lines.pipe(1, "4.260", "nan"), lines.pipe(1, "4.250")),
        ("deepspeed", b"step: 1, loss: nan\n" + lines.throughput(1, "60.0") + lines.throughput(2, "60.0") + lines.throughput(3, "60.0"), lines.throughput(1, "60.0")),
        ("torchtitan", lines.titan(1, "410").replace(b"7.50000", b"nan") + lines.titan(2, "410") + lines.titan(3, "410"), lines.titan(1, "410")),
        ("paxml", lines.paxml("nan"), lines.paxml("4.25", thread=139000000000002)),
        ("huggingface", b"***** Running training *****\n" + lines.summary("60.0", "nan"), b"***** Running training *****\n" + lines.summary("60.0")),
        ("huggingface", b"***** Running training *****\n{'loss': nan, 'epoch': 0.1}\n", b"***** Running training *****\n" + lines.summary("60.0")),
    ],
)  # fmt: skip
def test_every_format_tells_that_an_attempt_diverged(log_format: str, bad: bytes, good: bytes, tmp_path: Path) -> None:
    baseline = row(log_format, min_steps=1, recipe=Recipe(log_format))
    assert refused(baseline, bad + good, tmp_path).startswith("attempt 1 of 2 diverged")


def test_an_attempt_that_diverged_before_another_run_said_whose_it_is(tmp_path: Path) -> None:
    identity = (
        b"GSW: MODEL=llama2 FRAMEWORK=maxtext MODEL_SIZE=70b JOB_NUM_NODES=16 GPUS_PER_NODE=8 DTYPE=fp8 JOB_ID=7\n"
    )
    log = identity + DIVERGED + identity + HEALTHY
    assert refused(row("maxtext"), log, tmp_path) == wording(
        "diverged", attempt=1, attempts=2, step=0, what="loss: nan"
    )


# ---- Ranks ---------------------------------------------------------------------------------------


def of_ranks(label: str) -> bytes:
    """Four ranks, of which the last printer is the slow one; unlabelled ones in another order at each step."""
    log = b""
    for step in range(20):
        order = [(rank + step) % 4 for rank in range(4)]
        log += b"".join(
            lines.maxtext(step, "9.000" if rank == 2 else "4.250", head=label.format(rank)) for rank in order
        )
    return log


def test_ranks_that_differ(tmp_path: Path) -> None:
    for label in ("{}: ", "[rank{}]:", "[1,{}]<stdout>:"):
        result = of_bytes(row("maxtext"), of_ranks(label), tmp_path)
        assert result.judged == 4.25
        assert dict(result.ranks_s) == {"rank 0": 4.25, "rank 1": 4.25, "rank 2": 9.0, "rank 3": 4.25}
    unlabelled = of_bytes(row("maxtext"), of_ranks(""), tmp_path)
    assert dict(unlabelled.ranks_s) == {"fastest of 4": 4.25, "middle of 4": 4.25, "slowest of 4": 9.0}
    # One rank.
    assert of_bytes(row("maxtext"), HEALTHY, tmp_path).ranks_s == {}
    # torchrun's local ranks: two printers of each step bear the same label.
    log = b"".join(
        lines.maxtext(step, took, head="[default0]:") for step in range(20) for took in ("4.250", "9.000", "4.250")
    )
    ranks_s = of_bytes(row("maxtext"), log, tmp_path).ranks_s
    assert dict(ranks_s) == {"fastest of 3": 4.25, "middle of 3": 4.25, "slowest of 3": 9.0}


def test_ranks_over_the_measured_steps_alone(tmp_path: Path) -> None:
    log = b"".join(
        lines.maxtext(step, "9.000" if rank and step < 15 else "4.250", head=f"{rank}: ")
        for step in range(20)
        for rank in range(2)
    )
    result = of_bytes(row("maxtext", statistic="median[-5:]"), log, tmp_path)
    assert dict(result.ranks_s) == {"rank 0": 4.25, "rank 1": 4.25}


def test_ranks_of_other_formats(tmp_path: Path) -> None:
    tokens = str(round(4096 * 256 / 128 / 4.0))
    titan = b"".join(lines.titan(step, tokens, head=f"{rank}: ") for step in range(1, 21) for rank in range(2))
    assert dict(of_bytes(row("torchtitan"), titan, tmp_path).ranks_s) == {"rank 0": 4.0, "rank 1": 4.0}
    one, two = 139000000000001, 139000000000002
    pax = b"".join(lines.paxml(took, thread) for _ in range(20) for took, thread in (("4.0", one), ("9.0", two)))
    baseline = row("paxml", recipe=Recipe("paxml", steps=100, logged_steps=20))
    assert dict(of_bytes(baseline, pax, tmp_path).ranks_s) == {f"thread {one}": 4.0, f"thread {two}": 9.0}
    told = b"".join(head.encode() + megatron(step, elapsed=took) for step in range(1, 21) for took, head in (("4000.0", "3: "), ("9000.0", "7: ")))  # fmt: skip
    assert dict(of_bytes(row("megatron"), told, tmp_path).ranks_s) == {"rank 3": 4.0, "rank 7": 9.0}


# ---- What a step's own line states holds for that step: a measured step of another batch is no step of the row

RAMPED_ROW = replace(
    LLAMA2_FP8_X128,
    workload=replace(LLAMA2_FP8_X128.workload, log_format="megatron"),
    recipe=Recipe("megatron", steps=50),
)
#: A ramp-up that ends with step 24.
RAMP = [(step, 128 if step < 25 else 256) for step in range(1, 51)]


def ramped(steps: Iterable[tuple[int, int]], rest: str = "") -> bytes:
    """A log of steps with their global batch sizes."""
    return b"".join(
        lines.megatron(step, "4556.0", total=50, rest=rest).replace(b"size:    96", f"size: {batch:5}".encode())
        for step, batch in steps
    )


def error_of(baseline: Baseline, log: bytes, folder: Path) -> LogError:
    return raised(LogError, of_bytes, baseline, log, folder)


def test_a_batch_that_ramps_up_within_the_measured_steps(tmp_path: Path) -> None:
    error = error_of(
        replace(RAMPED_ROW, criterion=replace(RAMPED_ROW.criterion, statistic="mean")), ramped(RAMP), tmp_path
    )
    assert error.fact == (
        "24 of 50 "
        + wording(
            "other lines", lines="steps were", differs=wording("differs", ran="global batch size 128", wanted=256)
        )
    )
    assert error.evidence == (
        ("log", f"{tmp_path}/run.log:50"),
        ("steps", "50 read as megatron"),
        ("job", "7 COMPLETED 0:0"),
        ("changes at", f"{tmp_path}/run.log:25, step 25: from 128 to 256"),
        ("baseline", "baselines/maxtext/llama2_70b.yaml:41"),
    )
    assert error.advice == (
        "write 'statistic: mean[25:]' in the table, which leaves those steps out, or run without a ramp-up"
    )


@pytest.mark.parametrize(
    ("statistic", "strays", "left"),
    [
        ("median", "24 of 50", "median[25:]"),
        ("mean[10:44]", "15 of 35", "mean[25:44]"),
        ("median[-40:]", "14 of 40", "median[25:]"),
        ("mean[:-2]", "24 of 49", "mean[25:-2]"),
        ("mean[24:50]", "1 of 27", "mean[25:50]"),
    ],
)
def test_whatever_the_statistic(tmp_path: Path, statistic: str, strays: str, left: str) -> None:
    error = error_of(
        replace(RAMPED_ROW, criterion=replace(RAMPED_ROW.criterion, statistic=statistic)), ramped(RAMP), tmp_path
    )
    assert error.fact.startswith(f"{strays} measured steps w")
    assert f"'statistic: {left}'" in error.advice
    # What is to be typed next works.
    assert (
        of_bytes(
            replace(RAMPED_ROW, criterion=replace(RAMPED_ROW.criterion, statistic=left)), ramped(RAMP), tmp_path
        ).judged
        == 4.556
    )


@pytest.mark.parametrize("statistic", ["last", "mean[25:50]", "median[-10:]", "mean[25:]"])
def test_a_ramp_that_the_row_leaves_out_as_warm_up(tmp_path: Path, statistic: str) -> None:
    assert (
        of_bytes(
            replace(RAMPED_ROW, criterion=replace(RAMPED_ROW.criterion, statistic=statistic)), ramped(RAMP), tmp_path
        ).judged
        == 4.556
    )


def test_a_line_that_stands_for_ten_steps_states_its_last_ones(tmp_path: Path) -> None:
    """The ramp-up ends somewhere within the steps 21 to 30, and their line states what held at its end."""
    log = ramped((step, 128 if step < 30 else 256) for step in range(10, 51, 10))
    error = error_of(
        replace(RAMPED_ROW, criterion=replace(RAMPED_ROW.criterion, statistic="mean[21:50]")), log, tmp_path
    )
    assert error.fact == "1 of 3 " + wording(
        "other lines", lines="lines was", differs=wording("differs", ran="global batch size 128", wanted=256)
    )
    assert ("changes at", f"{tmp_path}/run.log:3, step 30: from 128 to 256") in error.evidence
    assert "'statistic: mean[31:50]'" in error.advice
    assert (
        of_bytes(
            replace(RAMPED_ROW, criterion=replace(RAMPED_ROW.criterion, statistic="mean[31:50]")), log, tmp_path
        ).judged
        == 4.556
    )


def test_a_batch_that_grows_beyond_the_rows(tmp_path: Path) -> None:
    """A last step of the row's own batch makes none of the others one."""
    log = ramped((step, 512 if 20 < step < 50 else 256) for step in range(1, 51))
    error = error_of(replace(RAMPED_ROW, criterion=replace(RAMPED_ROW.criterion, statistic="mean[:40]")), log, tmp_path)
    assert error.fact == (
        "20 of 40 "
        + wording(
            "other lines", lines="steps were", differs=wording("differs", ran="global batch size 512", wanted=256)
        )
    )
    assert error.advice == (
        "correct what the recipe is given (recipe.environment in the table, or the launch script), or the row"
    )
    # A row without a batch is compared with none.
    row = replace(
        RAMPED_ROW,
        criterion=replace(RAMPED_ROW.criterion, statistic="mean"),
        batch=replace(RAMPED_ROW.batch, global_batch_size=None, micro_batch_size=None),
    )
    assert of_bytes(row, ramped(RAMP), tmp_path).judged == 4.556


def test_a_sequence_length_that_a_curriculum_raises(tmp_path: Path) -> None:
    steady = [(step, 256) for step in range(1, 51)]
    short = " actual seqlen:  1024 |"
    error = error_of(RAMPED_ROW, ramped(steady, short), tmp_path)
    assert error.fact == "1 of 1 " + wording(
        "other lines", lines="step was", differs=wording("differs", ran="sequence length 1024", wanted=4096)
    )
    assert ("said at", f"{tmp_path}/run.log:50") in error.evidence
    raised = ramped(steady[:20], short) + ramped(steady[20:], " actual seqlen:  4096 |")
    assert of_bytes(RAMPED_ROW, raised, tmp_path).judged == 4.556
    error = error_of(replace(RAMPED_ROW, criterion=replace(RAMPED_ROW.criterion, statistic="median")), raised, tmp_path)
    assert ("changes at", f"{tmp_path}/run.log:21, step 21: from 1024 to 4096") in error.evidence


def test_nemo_prints_the_batch_of_each_step(tmp_path: Path) -> None:
    row = replace(
        RAMPED_ROW,
        workload=replace(RAMPED_ROW.workload, log_format="nemo"),
        criterion=replace(RAMPED_ROW.criterion, statistic="mean", min_steps=18),
        recipe=Recipe("nemo", steps=20),
    )
    log = b"".join(lines.printer(step, step, "4.556") for step in range(20))
    assert of_bytes(row, log, tmp_path).judged == 4.556
    ramp = log.replace(b"global_batch_size: 256", b"global_batch_size: 128", 6)
    error = error_of(row, ramp, tmp_path)
    assert error.fact == "6 of 20 " + wording(
        "other lines", lines="steps were", differs=wording("differs", ran="global batch size 128", wanted=256)
    )
    assert ("changes at", f"{tmp_path}/run.log:7, step 6: from 128 to 256") in error.evidence
