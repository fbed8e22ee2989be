"""Identities between columns: batch, GPUs, model FLOPs, architecture; and those between rows."""

from __future__ import annotations

import pytest

from pytest_gsw.documents.audit.findings import Severity
from tests.unit.documents.audit.rows import LLAMA2, found, row, told

BARE = {key: text for key, text in LLAMA2.items() if key not in {"micro_batch_size", "model_flops", "mfu"}}


def identities(**values: str | None) -> list[tuple[str, str, str, str, str]]:
    figures = {"tokens_per_s": None, "days_to_train_1t_tokens": None, "step_time_s": "7"}
    return [told(one) for one in found(row(base=BARE, **{**figures, **values}))]


@pytest.mark.parametrize(
    "columns",
    [
        # Grok 1: expert parallelism is a factor of its own, of GPUs and of the batch.
        {"gpus": "512", "tp": "4", "pp": "8", "cp": "2", "ep": "8", "dp": "1", "ga": "128", "gbs": "1024"},
        # DeepSeek, Llama 4: expert parallelism is inside of data parallelism.
        {"gpus": "1024", "tp": "2", "pp": "16", "cp": "1", "ep": "64", "dp": "32", "ga": "256", "gbs": "8192"},
        {"gpus": "512", "tp": "4", "pp": "8", "cp": "2", "ep": "8", "dp": "8", "ga": "128", "gbs": "1024"},
        # Llama 3.1 405B: no DP, which follows.
        {"gpus": "576", "tp": "8", "pp": "9", "cp": "2", "ga": "63", "gbs": "252"},
        # ZeRO: no pipeline, no accumulation.
        {"gpus": "64", "tp": "4", "dp": "16", "mbs": "48", "gbs": "768"},
        {"gpus": "64", "dp": "64", "mbs": "8", "gbs": "512"},
        # MaxText: fully sharded data parallelism over a part of the GPUs.
        {"gpus": "2048", "fsdp": "128", "mbs": "2", "gbs": "4096"},
        # Nothing is said of ranks, nothing follows.
        {"gpus": "576", "mbs": "1", "gbs": "252"},
        {"gpus": "576", "tp": "8", "mbs": "1", "gbs": "9"},
    ],
)
def test_conventions_that_fit(columns: dict[str, str]) -> None:
    names = {"ga": "gradient_accumulation_steps", "gbs": "global_batch_size", "mbs": "micro_batch_size"}
    values = {"micro_batch_size": "1", **{names.get(key, key): text for key, text in columns.items()}}
    assert identities(**values) == []


def test_a_product_that_is_not_the_gpus() -> None:
    assert identities(gpus="16", tp="4", pp="8", dp="1") == [
        ("gpus", "contradiction", "16", "32", "one of its inputs: tp 2 or pp 4 would fit")
    ]


def test_degrees_that_do_not_fit_into_the_gpus() -> None:
    assert identities(gpus="64", tp="3", dp="4") == [
        ("gpus", "contradiction", "64", "12", "one of its inputs: tp 16 would fit")
    ]
    assert identities(gpus="64", fsdp="48")[0][:4] == ("gpus", "contradiction", "64", "48")


def test_expert_parallelism_is_told_where_it_is_nearer() -> None:
    (one,) = found(
        row(
            base=BARE,
            gpus="512",
            tp="4",
            pp="8",
            cp="2",
            dp="1",
            ep="4",
            tokens_per_s=None,
            days_to_train_1t_tokens=None,
        )
    )
    assert (one.documented, one.computed, one.formula) == ("512", "256", "tp 4 * pp 8 * cp 2 * dp 1 * ep 4")


def test_a_batch_that_its_factors_do_not_make() -> None:
    values = {"micro_batch_size": "4", "gradient_accumulation_steps": "256", "dp": "1", "tp": "4", "pp": "16"}
    (one,) = found(
        row(
            base=BARE,
            **values,
            global_batch_size="1536",
            step_time_s="84.0",
            tokens_per_s="74898",
            days_to_train_1t_tokens=None,
        )
    )
    assert told(one) == (
        "global_batch_size",
        "contradiction",
        "1536",
        "1024",
        "one of its inputs: micro_batch_size 6 or gradient_accumulation_steps 384 would fit; tokens_per_s is of 1536",
    )
    assert one.formula == "micro_batch_size 4 * gradient_accumulation_steps 256 * dp 1"


@pytest.mark.parametrize(
    ("columns", "explanation"),
    [
        ({"global_batch_size": "182"}, "128 would fit: two digits of 182 are swapped"),
        # Any multiple of the ranks would do where no steps are stated.
        (
            {"global_batch_size": "182", "gradient_accumulation_steps": None},
            "128 would fit: two digits of 182 are swapped",
        ),
        (
            {"micro_batch_size": "2", "gradient_accumulation_steps": "61", "global_batch_size": "256"},
            "gradient_accumulation_steps 16 gives it: two digits of 61 are swapped",
        ),
        ({"gpus": "23"}, "32 would fit: two digits of 23 are swapped"),
        ({"tp": "21", "gpus": "96"}, "tp 12 gives it: two digits of 21 are swapped"),
    ],
)
def test_two_digits_of_a_count_are_swapped(columns: dict[str, str | None], explanation: str) -> None:
    counts = {"tp": "4", "pp": "1", "dp": "8", "gpus": "32", "micro_batch_size": "1"}
    found_there = identities(**{**counts, "gradient_accumulation_steps": "16", **columns})
    assert [one[1] for one in found_there] == ["contradiction"]
    assert found_there[0][4] == f"digits swapped: {explanation}"


def test_a_batch_that_is_no_multiple() -> None:
    ((identity, _, documented, computed, text),) = identities(dp="64", micro_batch_size="3")
    assert (identity, documented, computed) == ("global_batch_size", "128", "192")
    assert text == "one of its inputs: micro_batch_size 2 would fit"


ARCHITECTURE = {
    "architecture__formula": "llama",
    "architecture__layers": "80",
    "architecture__hidden_size": "8192",
    "architecture__ffn_size": "28672",
    "architecture__attention_heads": "64",
    "architecture__query_groups": "8",
    "architecture__vocabulary_size": "32000",
}


def test_pinned_model_flops() -> None:
    assert found(row(**ARCHITECTURE)) == ()
    (one,) = found(row(**ARCHITECTURE, model_flops="1.28e+15", mfu=None))
    assert told(one) == (
        "model_flops",
        "contradiction",
        "1.28e+15",
        "1.82e+15",
        "digits swapped: 1.82e+15 would fit: two digits of 1.28e+15 are swapped",
    )
    assert one.formula == "the formula 'llama' with 80 layers and sequences of 4096"


def test_model_flops_of_all_layers_at_a_proxy() -> None:
    (one,) = found(row(**ARCHITECTURE, layers="40", mfu=None))
    assert told(one)[4] == "formula: it is that of all 80 layers"


def test_model_flops_of_parameters() -> None:
    values = {"size": "52b", "architecture__formula": "gpt2", "mfu": None}
    assert found(row(**values, model_flops="1.277952e+15")) == ()
    (one,) = found(row(**values, model_flops="1.2e+15"))
    assert told(one) == (
        "model_flops",
        "rounding",
        "1.2e+15",
        "1.3e+15",
        "cut, not rounded: 1.278e+15 was cut, not rounded",
    )
    (other,) = found(row(**values, model_flops="1.1e+15"))
    assert told(other)[1] == "contradiction"


def test_a_published_architecture() -> None:
    (one,) = found(row(**{**ARCHITECTURE, "architecture__query_groups": "16"}, model_flops="1.85e+15", mfu=None))
    assert one.severity is Severity.NOTICE
    assert told(one)[:1] + told(one)[2:4] == ("architecture", "query_groups 16", "query_groups 8")
    assert one.explanation.text.startswith("the published model has 8; it makes model FLOPs ")


def scaled(*times: tuple[str, str, str], **values: str) -> list[tuple[str, str, str, str, str]]:
    rows = [
        row(
            f"x{gpus}",
            BARE,
            gpus=gpus,
            global_batch_size=batch,
            step_time_s=time,
            tokens_per_s=None,
            days_to_train_1t_tokens=None,
            **values,
        )
        for gpus, batch, time in times
    ]
    return [told(one) for one in found(*rows)]


def test_scaling() -> None:
    assert scaled(("64", "128", "7.0"), ("128", "256", "7.1"), ("256", "512", "7.2")) == []
    assert scaled(("64", "128", "7.0"), ("128", "128", "8.0")) == [
        (
            "scaling",
            "notice",
            "8.0 s on 128 GPUs",
            "less than 7 s",
            "unknown: 128 GPUs give 88% of the throughput of 64",
        )
    ]
    assert scaled(("64", "128", "7.0"), ("128", "256", "5.0")) == [
        (
            "scaling",
            "notice",
            "5.0 s on 128 GPUs",
            "about 7 s at least",
            "unknown: each of 128 GPUs gives 140% of what each of 64 gives",
        )
    ]


def test_scaling_is_told_in_a_sentence() -> None:
    """As ``pytest-gsw import`` says it: ``documented`` as documented; ``formula`` is ``computed``."""
    times = {"tokens_per_s": None, "days_to_train_1t_tokens": None, "global_batch_size": "128"}
    slower, faster = (
        found(row("x64", BARE, **times, step_time_s="7.0"), row("x128", BARE, **times, gpus="128", step_time_s=time))[0]
        for time in ("8.0", "2.0")
    )
    assert slower.formula == "the step time with which 128 GPUs give more than the 74898 tokens/s of x64"
    assert faster.formula == "the step time with which 128 GPUs give as much each as those of x64"


def series(times: str, tokens: str) -> list[tuple[str, str, str, str, str]]:
    """Findings of rows with 64, 128, … GPUs, one batch, and these step times and throughputs."""
    both = zip(times.split(), tokens.split(), strict=True)
    rows = [
        row(
            f"x{64 * 2**n}",
            BARE,
            gpus=str(64 * 2**n),
            step_time_s=time,
            tokens_per_s=rate,
            days_to_train_1t_tokens=None,
        )
        for n, (time, rate) in enumerate(both)
    ]
    return [told(one) for one in found(*rows) if one.identity == "scaling"]


def test_two_swapped_figures_of_a_series() -> None:
    assert series("8.0 4.0 2.0", "65536 131072 262144") == []
    (one, _) = series("8.0 2.0 4.0", "65536 131072 262144")
    assert one == (
        "scaling",
        "contradiction",
        "4.0 s on 256 GPUs",
        "less than 2 s",
        "swapped column: with the step_time_s of x128 and x256 swapped, throughput grows and tokens_per_s fits",
    )
    # Of rows that are no neighbours.
    found_there = series("2.0 4.0 8.0", "65536 131072 262144")
    assert [one[1] for one in found_there] == ["contradiction", "contradiction"]
    assert "of x64 and x256 swapped" in found_there[0][4]
    # Where the throughput is that of the step times as they stand, nothing says that they are swapped.
    assert {one[1] for one in series("8.0 2.0 4.0", "65536 262144 131072")} == {"notice"}


def test_only_rows_that_are_alike_scale() -> None:
    slower = [row("a", BARE), row("b", BARE, gpus="128", global_batch_size="1", step_time_s="9", dtype="fp8")]
    assert all(one.identity != "scaling" for one in found(*slower))
    unknown = {"dtype": "", "tokens_per_s": None, "days_to_train_1t_tokens": None}
    slower = [row("a", BARE, **unknown), row("b", BARE, **unknown, gpus="128", global_batch_size="1", step_time_s="9")]
    assert found(*slower) == ()


def test_samples_scale_where_there_are_no_tokens() -> None:
    values = {"global_batch_size": None, "step_time_s": None, "tokens_per_s": None, "days_to_train_1t_tokens": None}
    rows = [
        row(f"x{gpus}", BARE, gpus=gpus, samples_per_s=rate, **values) for gpus, rate in (("8", "1.247"), ("16", "1.1"))
    ]
    (one,) = found(*rows)
    assert (one.severity, one.documented, one.computed, one.formula) == (
        Severity.NOTICE,
        "1.1 samples/s on 16 GPUs",
        "more than 1.247 samples/s",
        "the throughput of more GPUs than the 8 of x8",
    )


def test_one_configuration_with_several_figures() -> None:
    times = ("129", "217", "125", "225")
    rows = [
        row(f"run{n}", BARE, step_time_s=time, notes=str(n), tokens_per_s=None, days_to_train_1t_tokens=None)
        for n, time in enumerate(times)
    ]
    (one,) = found(*rows)
    assert told(one) == (
        "duplicate",
        "notice",
        "129 s, 217 s, 125 s, 225 s",
        "one figure",
        "another run: 4 runs; the slowest took 80% more time than the fastest",
    )
    assert (one.row, one.formula) == ("run1", "the same configuration: run0, run1, run2, run3")
    assert found(*[row(f"run{n}", BARE, notes=str(n)) for n in range(3)]) == ()


@pytest.mark.parametrize(
    ("cases", "alike"),
    [
        (("pp16-gas256-mbs4-0525", "pp16-gas256-mbs4-0526"), True),
        (("offload-optimizer-run1", "offload-optimizer-run2"), True),
        (("zero-tp4-mbs48-0527", "zero-tp4-mbs48"), True),
        (("finetuning-sft", "finetuning-lora"), False),
        (("max", None), False),
    ],
)
def test_cases_that_may_be_runs_of_one_configuration(cases: tuple[str, str | None], alike: bool) -> None:
    times = {"tokens_per_s": None, "days_to_train_1t_tokens": None}
    rows = [row(f"run{n}", BARE, case=case, step_time_s=str(5 + n), **times) for n, case in enumerate(cases)]
    assert [one.identity for one in found(*rows)] == ["duplicate"] * alike


def test_what_has_no_dtype_is_no_known_configuration() -> None:
    for dtype in ("", None):
        times = {"tokens_per_s": None, "days_to_train_1t_tokens": None, "dtype": dtype}
        rows = [row(f"run{n}", {**BARE, "dtype": "bf16"}, step_time_s=str(5 + n), **times) for n in range(2)]
        assert found(*rows) == ()


def test_rows_of_one_configuration_with_another_id() -> None:
    assert (
        found(
            row("a", BARE),
            row(
                "b",
                BARE,
                attributes__id="2",
                step_time_s="7.000",
                tokens_per_s="74898.29",
                days_to_train_1t_tokens=None,
            ),
        )
        == ()
    )
