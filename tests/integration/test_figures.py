"""Rows that are judged by a benchmark's figure: bandwidths, rates, latencies, times to train, and a table's own."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from pytest_gsw.tables.load import load_table
from tests.integration.conftest import Gsw, junit, properties, records, tiny_table
from tests.messages import wording

GIB = 1 << 30
SIZES = (4 * GIB, 8 * GIB, 16 * GIB)
ROW = "all_reduce_float[CPUx1]"
HEAD = """\
model: {model}
framework: {framework}
dtype: float
accelerator: CPU
gpus_per_node: 1
recipe: {{directory: ./own}}
tables:
  - {{title: "A benchmark, at a point", {keys}, rows: [{{gpus: 1, value: {value}}}]}}
"""
LAUNCH = """\
#!/bin/bash
set -eu
results=$STAGE_PATH/results/v1/$DTYPE/any/1
mkdir -p "$results"
cp "$OWN_LOG" "$results/log-nccl-tests_all_reduce_any_1_$SLURM_JOB_ID.out"
"""


def table(keys: str, value: object = 470, model: str = "all_reduce", framework: str = "nccl-tests") -> str:
    return HEAD.format(model=model, framework=framework, keys=keys, value=value)


def write(pytester: pytest.Pytester, text: str, log: str) -> None:
    (pytester.path / "own.yaml").write_text(text)
    (pytester.path / "own.log").write_text(log)


def nccl(busbw: float, sizes: tuple[int, ...] = SIZES, wrong: int = 0, collective: str = "all_reduce") -> str:
    figures = f"64248.1 267.40 {busbw:.2f} {wrong}"
    rows = "".join(f" {size} {size // 4} float sum -1 {figures} {figures}\n" for size in sizes)
    return (
        f"# Collective test starting: {collective}_perf\n"
        f"# nThread 1 nGpus 1 minBytes {SIZES[0]} maxBytes {SIZES[-1]} step: 2(factor) warmup iters: 5 iters: 20 "
        "agg iters: 1 validation: 1 graph: 0\n#  Rank  0 Group  0 Pid   4242 on n001 device  0 [0000:1b:00] CPU\n"
        "#  size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n"
        f"{rows}# Out of bounds values : {wrong} {'FAILED' if wrong else 'OK'}\n# Avg bus bandwidth    : {busbw:g}\n"
    )


def serving(rate: float = 1996.53, ttft: float = 33.5, asked: int = 8, done: int = 8, failed: int = 0) -> str:
    return (
        f"Namespace(backend='vllm', num_prompts={asked}, seed=0)\n"
        "============ Serving Benchmark Result ============\n"
        f"Successful requests:                     {done}\nFailed requests:                         {failed}\n"
        f"Maximum request concurrency:             256\nOutput token throughput (tok/s):         {rate}\n"
        f"Median TTFT (ms):                        {ttft}\n{'=' * 50}\n"
    )


def mllog(minutes: float, status: str = "success") -> str:
    def event(key: str, at_ms: float, **metadata: str) -> str:
        return f":::MLLOG {json.dumps({'time_ms': at_ms, 'key': key, 'value': None, 'metadata': metadata})}\n"

    return event("run_start", 1e12) + event("run_stop", 1e12 + minutes * 60_000, status=status)


def rl(*rates: float) -> str:
    return "".join(
        f"========================= Step {step}/{len(rates)} =========================\n  • Loss: 0.01\n"
        f"  • Total step time: 35.7s\n    - Generation Worker Group (Tokens/sec/gpu): {rate}\n"
        for step, rate in enumerate(rates, 1)
    )


BUSBW = table("metric: busbw_gbs, at: 16 GiB")
TTFT = table("metric: ttft_ms_median, at: concurrency 256", 33.5, "qwen3", "serving")
STEPS = "{line: 'step * rate={}', each: 3, statistic: median}"
PATTERN = table(f"metric: rate, unit: img/s, better: higher, read: {STEPS}", 100, "net", "own")
READS = "".join(f"step {n} rate={rate}\n" for n, rate in enumerate((99, 101, 250)))


@pytest.mark.parametrize(
    ("text", "log", "word", "line"),
    [
        (BUSBW, nccl(471), "PASSED", "bus bandwidth +0.2 %  471 GB/s at 16 GiB"),
        (BUSBW, nccl(355.1), "REGRESSED", "bus bandwidth -24.4 %  355.1 GB/s at 16 GiB"),
        (BUSBW, nccl(520), "IMPROVED", "bus bandwidth +10.6 %  520 GB/s at 16 GiB"),
        (TTFT, serving(), "PASSED", "median time to first token +0.0 %  33.5 ms at concurrency 256"),
        (
            TTFT,
            serving(ttft=40),
            "REGRESSED",
            "median time to first token +19.4 %  40 ms at concurrency 256",
        ),
        (
            TTFT,
            serving(ttft=30),
            "IMPROVED",
            "median time to first token -10.4 %  30 ms at concurrency 256",
        ),
        (
            table("metric: output_tokens_per_s, at: concurrency 256", 21000, "qwen3", "serving"),
            serving(18400.25),
            *("REGRESSED", "output throughput -12.4 %  18,400 tokens/s at concurrency 256"),
        ),
        (
            table("metric: time_to_train_min", 90, "llama2", "mllog"),
            mllog(99.5),
            *("REGRESSED", "time to train +10.6 %  99.5 min"),
        ),
        (
            table("metric: generation_tokens_per_s_per_gpu, statistic: median", 1000, "qwen3", "nemo-rl"),
            rl(500, 900, 901, 902, 903),
            *("REGRESSED", "generation throughput of a GPU -9.9 %  901 tokens/s/GPU"),
        ),
        (PATTERN, READS, "PASSED", "rate +1.0 %  101 img/s"),
        (PATTERN.replace("unit:", "label: image rate, unit:"), READS, "PASSED", "image rate +1.0 %  101 img/s"),
        (PATTERN.replace("median", "last"), READS, "INCONCLUSIVE", "rate +150.0 %  too good to be true"),
        (PATTERN.replace("higher", "lower").replace("100", "80"), READS, "REGRESSED", "rate +26.2 %  101 img/s"),
    ],
)
def test_a_figure_is_judged_in_its_direction_and_shown_with_its_unit(
    pytester: pytest.Pytester, text: str, log: str, word: str, line: str
) -> None:
    write(pytester, text, log)
    result = pytester.runpytest("--gsw-replay=own.log", "own.yaml")
    outcome = {"PASSED": "passed", "IMPROVED": "passed", "REGRESSED": "failed", "INCONCLUSIVE": "skipped"}[word]
    result.assert_outcomes(**{outcome: 1})
    result.stdout.fnmatch_lines([f"*x1]  {word:9}  {line}*".replace("[", "[[]")])


def test_the_report_of_a_lost_bandwidth(pytester: pytest.Pytester) -> None:
    write(pytester, BUSBW, nccl(355.1))
    result = pytester.runpytest("--gsw-replay=own.log", "own.yaml", "--junitxml=junit.xml")
    result.stdout.fnmatch_lines(
        [
            wording(
                "bandwidth",
                measured="355.1",
                size="16 GiB",
                change="24.4",
                side="% below",
                documented="470 GB/s (allowed 5 %)",
            ),
            "metric                            measured    documented    change    allowed*",
            "bus bandwidth at 16 GiB (GB/s)       355.1           470   -24.4 %     -5.0 %  regressed",
        ],
        consecutive=False,
    )
    (record,) = records(pytester.path)
    assert (record["metric"], record["at"], record["measured"]["value"]) == ("busbw_gbs", "16 GiB", 355.1)
    assert record["verdict"]["measured"] == record["job"]["judged"] == 355.1
    seen = properties(junit(pytester.path / "junit.xml")[ROW])
    assert (seen["gsw_measured_busbw_gbs"], seen["gsw_documented_busbw_gbs"]) == ("355.1", "470.0")
    assert (seen["gsw_unit"], seen["gsw_at"], seen["gsw_change"]) == ("GB/s", "16 GiB", "-0.244468")


def test_a_latency_may_rise_by_what_the_tolerance_makes_of_it(pytester: pytest.Pytester) -> None:
    write(pytester, TTFT.replace("value:", "tolerance: 5%, value:"), serving(ttft=40))
    result = pytester.runpytest("--gsw-replay=own.log", "own.yaml")
    result.stdout.fnmatch_lines(
        [
            wording(
                "latency",
                label="median",
                measured="time to first token 40",
                point="concurrency 256",
                change="19.4",
                side="% above",
                documented="33.5 ms",
                allowed="5.26 %",
            ),
            "median time to first token at concurrency 256 (ms) *40 *33.5 *+19.4 % *+5.3 %  regressed",
        ]
    )


def test_the_line_of_a_latency_has_the_rise_that_is_allowed(pytester: pytest.Pytester) -> None:
    write(pytester, TTFT.replace("value:", "tolerance: 20%, value:"), serving(ttft=40))
    result = pytester.runpytest("--gsw-replay=own.log", "own.yaml")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["* PASSED  *+19.4 % (allowed 25 %) *"])


@pytest.mark.parametrize(
    ("stated", "options", "own", "further"),
    [
        ("", (), "passed", "passed"),  # 7.5 % of 10 %
        ("tolerance: 5%, ", (), "regressed", "regressed"),
        ("", ("--gsw-tolerance=5%",), "regressed", "regressed"),
        ("tolerance: 5%, ", ("--gsw-tolerance=10%",), "passed", "passed"),
    ],
)
def test_a_latency_has_a_tolerance_of_its_own_unless_one_is_stated(
    pytester: pytest.Pytester, stated: str, options: tuple[str, ...], own: str, further: str
) -> None:
    metrics = "metric: ttft_ms_median, at: concurrency 256, metrics: {ttft_ms_median: {value: 33.5}}"
    text = table(metrics, 33.5, "qwen3", "serving").replace("value: 33.5}]", f"{stated}value: 33.5}}]")
    write(pytester, text, serving(ttft=36.0))
    pytester.runpytest("--gsw-replay=own.log", *options, "own.yaml")
    (record,) = records(pytester.path)
    assert ((record["verdict"]["own_outcome"] or record["outcome"]), record["verdict"]["metrics"][0]["outcome"]) == (
        own,
        further,
    )


@pytest.mark.parametrize(
    ("text", "log", "fact"),
    [
        (BUSBW, nccl(471).replace("validation: 1", "validation: 0"), "validation was off"),
        (BUSBW, nccl(471).replace(" sum ", " max "), "reduction max"),
        (BUSBW, nccl(471).replace("#  Rank", "#  rank"), "number of ranks not known"),
        (BUSBW, re.sub("# Coll.*\n", "", nccl(471)), "collective not known"),
    ],
)
def test_what_is_unusual_or_not_known_is_on_the_line_of_a_row(
    pytester: pytest.Pytester, text: str, log: str, fact: str
) -> None:
    write(pytester, text, log)
    result = pytester.runpytest("--gsw-replay=own.log", "own.yaml")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines([f"*PASSED     bus bandwidth +0.2 %  {fact}*"])
    assert records(pytester.path)[0]["remarks"] == fact


def test_survivors_of_an_unknown_number_of_requests_decide_nothing(pytester: pytest.Pytester) -> None:
    log = re.sub("Namespace.*\n|Failed.*\n", "", serving(done=40))
    write(pytester, TTFT, log)
    result = pytester.runpytest("--gsw-replay=own.log", "own.yaml")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*INCONCLUSIVE *not known*"])
    (record,) = records(pytester.path)
    assert wording("unknown requests", count=40) in record["fact"]
    assert (record["outcome"], record["verdict"]["given_reason"]) == ("inconclusive", "not known")


def test_a_run_of_more_nodes_than_the_row_has(pytester: pytest.Pytester) -> None:
    nodes = ':::MLLOG {"time_ms": 1, "key": "submission_num_nodes", "value": 16, "metadata": {}}\n'
    write(pytester, table("metric: time_to_train_min", 90, "llama2", "mllog"), nodes + mllog(90))
    result = pytester.runpytest("--gsw-replay=own.log", "own.yaml")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        [wording("other set-up", differs=wording("differs", ran="nodes 16", wanted=1)), "said at    *own.log:1"]
    )


@pytest.mark.parametrize(
    ("text", "log", "fact"),
    [
        (BUSBW, nccl(471, wrong=3), "*#wrong '3' at 4 GiB*"),
        (BUSBW, nccl(471, SIZES[:2]), "*the log ends before the row of 16 GiB*"),
        (BUSBW, nccl(471)[:-80], "*the log ends before the row of 16 GiB"),
        (BUSBW, nccl(471) + nccl(471), "the log holds 2 runs, and the figure of a row is that of one"),
        (BUSBW, nccl(471, collective="broadcast"), "the log belongs to another run, by its model"),
        (BUSBW.replace("16 GiB", "2 GiB"), nccl(471), "the log holds no bus bandwidth (busbw_gbs) at 2 GiB*"),
        (BUSBW.replace(", at: 16 GiB", ""), nccl(471), "the log holds no bus bandwidth (busbw_gbs) without a point*"),
        (TTFT, serving(done=7, failed=1), "*failed requests: 1, 7 succeeded"),
        (TTFT, serving() + serving(), "the log holds 2 runs, and the figure of a row is that of one"),
        (TTFT, serving()[:-60], "*"),
        (table("metric: time_to_train_min", 90, "llama2", "mllog"), mllog(80, "aborted"), "*aborted*"),
        (PATTERN, "step 0 rate=nan\n", "*no single positive number at its place: step 0 rate=nan"),
        (PATTERN, "nothing\n", "*"),
        (BUSBW.replace("at:", "label: bandwidth, at:"), "x", "*has 'label', and busbw_gbs is called bus bandwidth*"),
    ],
)
def test_a_broken_benchmark_is_an_error(pytester: pytest.Pytester, text: str, log: str, fact: str) -> None:
    write(pytester, text, log)
    result = pytester.runpytest("--gsw-replay=own.log", "own.yaml")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([fact.replace("[", "[[]")])


def test_a_missing_point_names_those_that_are_there(pytester: pytest.Pytester) -> None:
    write(pytester, BUSBW.replace("16 GiB", "2 GiB"), nccl(471))
    pytester.runpytest("--gsw-replay=own.log", "own.yaml").stdout.fnmatch_lines(["points     4 GiB, 8 GiB, 16 GiB"])


@pytest.mark.parametrize(
    ("metrics", "fact"),
    [
        ("ttft_ms_median: {most: 30}", "median time to first token 33.5 ms is 11.7 % above the limit 30 (at most)"),
        ("output_tokens_per_s: {least: 2000}", "output throughput 1997 tokens/s is 0.2 % below the limit 2000*"),
        ("output_tokens_per_s: {value: 2200}", "output throughput 1997 tokens/s is 9.2 % below the documented 2200*"),
        ("successful_requests: {value: 9}", "successful requests 8 is 11.1 % below the documented 9*"),
    ],
)
def test_further_figures_have_values_and_limits(pytester: pytest.Pytester, metrics: str, fact: str) -> None:
    good = "ttft_ms_median: {most: 34}, output_tokens_per_s: {least: 1900}, successful_requests: {value: 8}"
    keys = "metric: ttft_ms_median, at: concurrency 256, metrics: {%s}"
    write(pytester, table(keys % good, 33.5, "qwen3", "serving"), serving())
    result = pytester.runpytest("--gsw-replay=own.log", "own.yaml")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*PASSED     median time to first token +0.0 %*"])
    (record,) = records(pytester.path)
    assert {one["outcome"] for one in record["verdict"]["metrics"]} == {"passed"}
    write(pytester, table(keys % metrics, 33.5, "qwen3", "serving"), serving())
    result = pytester.runpytest("--gsw-replay=own.log", "own.yaml")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [f"{fact.replace('30 (at', '30 ms (at')}; median time to first token 33.5 ms at concurrency 256 is 0.0 %*"]
    )


@pytest.mark.parametrize(
    ("loss", "stated", "fact"),
    [
        ("8.94", "{value: 8.931, within: 0.5 %}", ""),
        (
            "9.3",
            "{value: 8.931, within: 0.5 %}",
            "final loss 9.3 is 4.1 % above the documented 8.931 (allowed 0.5 %, *)",
        ),
        (
            "8.1",
            "{value: 8.931, within: 0.5 %}",
            "final loss 8.1 is 9.3 % below the documented 8.931 (allowed 0.5 %, *)",
        ),
        ("9.3", "{most: 9.0}", "final loss 9.3 is 3.3 % above the limit 9 (at most)"),
        ("2.1", "{most: 9.0}", ""),
    ],
)
def test_a_row_that_trains_may_state_the_loss_to_be_reached(
    pytester: pytest.Pytester, loss: str, stated: str, fact: str
) -> None:
    row = tiny_table(f"gpus: 8, step_time_s: 1.000, metrics: {{final_loss: {stated}}}, line: 10")
    write(
        pytester,
        row,
        "".join(f"completed step: {n}, seconds: 1.0, loss: {loss if n == 19 else 9.5}\n" for n in range(20)),
    )
    result = pytester.runpytest("--gsw-replay=own.log", "own.yaml")
    result.assert_outcomes(**{"failed" if fact else "passed": 1})
    if fact:  # by the loss alone
        result.stdout.fnmatch_lines([f"{fact}; throughput *is 0.0 % above the documented *"])
        assert records(pytester.path)[-1]["verdict"]["own_outcome"] == "passed"


def test_a_format_without_losses_cannot_reach_one(pytester: pytest.Pytester) -> None:
    write(pytester, table("metric: busbw_gbs, at: 16 GiB, metrics: {final_loss: {most: 9}}"), nccl(471))
    result = pytester.runpytest("--gsw-replay=own.log", "own.yaml")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([wording("with the point", name="final loss", key="final_loss", point="16 GiB")])


def site(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """A recipe that prints the log of the environment, on this machine."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    (pytester.path / "own").mkdir()
    (pytester.path / "own" / "launch.sh").write_text(LAUNCH)
    monkeypatch.setenv("OWN_LOG", str(pytester.path / "own.log"))


def test_jobs_history_report_and_accepted_figures(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, gsw: Gsw
) -> None:
    site(pytester, monkeypatch)
    options = ("--gsw-cluster=local", "--gsw-history=h.db", "own.yaml")
    for busbw in (470, 471, 469, 472):
        write(pytester, BUSBW, nccl(busbw))
        pytester.runpytest(*options).assert_outcomes(passed=1)
    write(pytester, BUSBW, nccl(400))
    result = pytester.runpytest(*options, "--gsw-confirm=1", "--gsw-report=report", "--junitxml=junit.xml")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*bus bandwidth -14.9 %, " + wording("further runs", number=1, most=1) + "*",
            wording(
                "median of jobs",
                value="bus bandwidth 400",
                size="16 GiB",
                jobs=2,
                change="14.9 %",
                documented="470 GB/s",
                allowed="5 %*",
            ),
            "median     400 GB/s",
        ]
    )
    assert properties(junit(pytester.path / "junit.xml")[ROW])["gsw_job_1"].endswith(" 400 GB/s on localhost")
    lines = gsw("history", "--history=h.db").out
    assert " 470 GB/s " in lines
    assert " 400 GB/s " in lines
    (series,) = json.loads(gsw("history", "--history=h.db", "--json").out)
    assert (series["metric"], series["unit"]) == ("busbw_gbs", "GB/s")
    assert [round(point["judged"], 6) for point in series["points"]] == [470, 471, 469, 472, 400, 400]
    # A replay judges the logs again, by the noise then.
    again = pytester.runpytest(*options, f"--gsw-replay={max(pytester.path.glob('.gsw/runs/*'))}")
    again.assert_outcomes(failed=1)
    again.stdout.fnmatch_lines(["*REGRESSED  bus bandwidth -14.9 %  400 GB/s at 16 GiB*"])
    first, *_, last = sorted(pytester.path.glob(".gsw/runs/*"))[:5]
    assert "470 GB/s" in gsw("compare", first, last, status=1).out
    pages = "".join(path.read_text() for path in (pytester.path / "report").rglob("*.html"))
    assert "Bus bandwidth of 5 runs (GB/s), higher is better" in pages
    assert "documented 470 GB/s" in pages
    assert "all_reduce: bus bandwidth" in pages
    assert ">bus bandwidth (%)</th>" in pages
    assert ">measured (GB/s)</th>" in pages
    assert ">400</td>" in pages
    prom = gsw("report", max(pytester.path.glob(".gsw/runs/*")), "--format=openmetrics").out
    for of in ("", "_documented"):
        assert re.search(
            rf'^gsw{of}_metric\{{.*metric="busbw_gbs",unit="GB/s",better="higher is better"\}} ', prom, re.MULTILINE
        )


def test_a_latency_that_grew_is_above_its_document_on_all_pages(pytester: pytest.Pytester) -> None:
    write(pytester, TTFT, serving(ttft=40))
    result = pytester.runpytest("--gsw-replay=own.log", "own.yaml", "--gsw-report=report")
    result.assert_outcomes(failed=1)
    (record,) = records(pytester.path)
    assert record["verdict"]["measured"] > record["verdict"]["documented"]
    overview = (pytester.path / "report" / "index.html").read_text()
    assert ">median time to first token (%)</th>" in overview
    assert "+19.4" in overview
    assert "\N{MINUS SIGN}16.2" not in overview


def test_a_figure_can_be_accepted(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, gsw: Gsw) -> None:
    site(pytester, monkeypatch)
    write(pytester, BUSBW, nccl(440))
    pytester.runpytest("--gsw-cluster=local", "--gsw-repeat=5", "own.yaml").assert_outcomes(failed=1)
    (directory,) = pytester.path.glob(".gsw/runs/*")
    proposed = gsw("baseline", "propose", directory)
    entry = "\n+  - row: all_reduce_float[CPUx1]\n+    cluster: local\n+    value: 440\n+    documented: 470\n"
    assert entry in proposed.out
    assert "440 GB/s beside the documented 470 GB/s (bus bandwidth -6.4 %)" in proposed.out
    Path("b.diff").write_text(proposed.out)
    pytester.run("git", "apply", "b.diff")
    (row,) = load_table(pytester.path / "own.yaml")
    assert row.accepted["local"].judged == 440
    result = pytester.runpytest("--gsw-cluster=local", "own.yaml")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        [wording("changes of two", metric="*PASSED", change="    bus bandwidth +0.0 %", documented="-6.4 %") + "*"]
    )

    # An erratum ends what was accepted against another figure, and a few more digits do not.
    write(pytester, BUSBW.replace("value: 470", "value: 470.03"), nccl(440))
    pytester.runpytest("--gsw-cluster=local", "own.yaml").assert_outcomes(passed=1)
    write(pytester, BUSBW.replace("value: 470", "value: 650"), nccl(440))
    result = pytester.runpytest("--gsw-cluster=local", "own.yaml", "--junitxml=junit.xml")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*REGRESSED  bus bandwidth -32.3 %  accepted figure not used *"])
    assert properties(junit(pytester.path / "junit.xml")[ROW])["gsw_accepted"] == (
        f"the accepted figure of local (440 GB/s, {row.accepted['local'].date}) has ended: the document had 470 GB/s "
        "then, and has 650 GB/s now, which is used; to accept what runs since then show: "
        "pytest-gsw baseline propose '--row=all_reduce_float[CPUx1]' --cluster=local RUN"
    )
    assert "440 GB/s, 20" in (listed := gsw("rows", "own.yaml", "--cluster=local").out)
    assert ", accepted against 470 GB/s: not used" in listed
    (facts,) = json.loads(gsw("rows", "own.yaml", "--json").out)
    assert (facts["accepted"]["local"]["judged"], facts["accepted"]["local"]["counts"]) == (440, False)

    # A file of the first release does not say what it was accepted against.
    accepted = Path("own.accepted.yaml")
    accepted.write_text(accepted.read_text().replace("    documented: 470\n", ""))
    pytester.runpytest("--gsw-cluster=local", "own.yaml").assert_outcomes(passed=1)


def test_the_document_of_a_table_without_one_is_the_table(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, gsw: Gsw
) -> None:
    site(pytester, monkeypatch)
    assert "document:" not in BUSBW
    write(pytester, BUSBW, nccl(440))
    pytester.runpytest("--gsw-cluster=local", "--gsw-repeat=5", "own.yaml").assert_outcomes(failed=1)
    (directory,) = pytester.path.glob(".gsw/runs/*")
    proposed = gsw("baseline", "propose", directory, "--documented")
    assert wording("in its place", documented="470 GB/s", change="bus bandwidth -6.4 %") in proposed.out
    Path("b.diff").write_text(proposed.out)
    pytester.run("git", "apply", "b.diff")
    assert load_table(pytester.path / "own.yaml")[0].judged == 440


def test_a_log_is_measured_by_the_command_line(pytester: pytest.Pytester, gsw: Gsw) -> None:
    write(pytester, BUSBW, nccl(355.1))
    told = gsw("metrics", "own.log", "--row", ROW, "--baselines=own.yaml", "--json", status=1).out
    facts = json.loads(told)
    assert (facts["busbw_gbs"], facts["unit"], facts["at"], facts["documented"]) == (355.1, "GB/s", "16 GiB", 470)
    assert (facts["verdict"], "first_step_time_s" in facts) == ("regressed", False)
    assert "bus bandwidth 470 GB/s at 16 GiB" in gsw("rows", "own.yaml").out
    heading, *lines = gsw("metrics", "own.log").out.partition("    at ")[2].splitlines()
    figures = dict(zip(heading.split(), next(line for line in lines if "16 GiB " in line).split()[2:], strict=True))
    assert figures["busbw_gbs"] == "355.1"


def test_of_several_logs_the_newest_complete_one_is_judged(pytester: pytest.Pytester) -> None:
    write(pytester, BUSBW, "")
    logs = pytester.path / "stage" / "results" / "v1" / "float" / "any" / "1"
    logs.mkdir(parents=True)
    for job, text in ((1, nccl(471)), (2, nccl(400)), (3, nccl(471)[:-80])):
        path = logs / f"log-nccl-tests_all_reduce_any_1_{job}.out"
        path.write_text(text)
        os.utime(path, (1.75e9 + job, 1.75e9 + job))
    result = pytester.runpytest("--gsw-replay=stage@last", "own.yaml")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*REGRESSED  bus bandwidth -14.9 %  newer jobs passed over*"])


def test_old_logs_of_a_figure_show_its_drift(pytester: pytest.Pytester, gsw: Gsw) -> None:
    write(pytester, BUSBW.replace("framework:", "size: 16g\nframework:"), "")
    logs = pytester.path / "stage" / "results" / "v1" / "float" / "16g" / "1"
    logs.mkdir(parents=True)
    for day in range(45):
        path = logs / f"log-nccl-tests_all_reduce_16g_1_{4200 + day}.out"
        path.write_text(nccl((470 if day < 35 else 456) + day % 3))
        os.utime(path, (1.75e9 + day * 86400, 1.75e9 + day * 86400))
    told = gsw("history", "--history=h.db", "--from-logs=stage", "--cluster=local", "--baselines=own.yaml").out
    assert "45" in told
    told = gsw("history", "--history=h.db", "--drift", "--baselines=own.yaml", status=1).out
    assert "471 GB/s" in told
    assert "457 GB/s" in told
    assert "-3.0 %" in told
    assert "bus bandwidth" in told.splitlines()[0]
    assert "throughput" not in told
    (series,) = json.loads(gsw("history", "--history=h.db", "--json", "--last=100").out)
    assert series["noise"]["jobs"] >= 30
    assert 0 < series["noise"]["sigma"] < 0.01
    assert (series["median"], len(series["points"])) == (pytest.approx(471, abs=1), 45)


def test_a_record_of_a_tables_own_metric_needs_no_table(pytester: pytest.Pytester, gsw: Gsw) -> None:
    write(pytester, PATTERN.replace("unit:", "label: image rate, unit:"), READS)
    pytester.runpytest("--gsw-replay=own.log", "own.yaml").assert_outcomes(passed=1)
    (pytester.path / "own.yaml").unlink()
    (run,) = pytester.path.glob(".gsw/runs/*")
    gsw("report", run, "-o", "pages")
    assert "image rate" in Path("pages", "index.html").read_text()
    gsw("report", run, "--format=junit", "-o", "junit.xml")
    seen = properties(junit(pytester.path / "junit.xml")["net_float[CPUx1]"])
    assert (seen["gsw_measured_rate"], seen["gsw_unit"], seen["gsw_change"]) == ("101.0", "img/s", "0.01")
    text = gsw("report", run, "--format=openmetrics").out
    assert 'metric="rate",unit="img/s",better="higher is better"} 101.0' in text
