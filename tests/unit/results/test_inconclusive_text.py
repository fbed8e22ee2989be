"""What people read of a row that is neither passed nor regressed, to the letter."""

from __future__ import annotations

from dataclasses import replace

from pytest_gsw.performance.noise import Noise
from pytest_gsw.performance.verdict import Outcome, RanksApart, Reason
from pytest_gsw.results import row_text
from tests.unit.results.records import NOISY, REGRESSED, SLOW, WONDER, varied

INCONCLUSIVE = varied(SLOW, outcome="inconclusive", reason="within noise", fact="throughput is 10.8 % below")


def test_why_a_noisy_row_is_inconclusive() -> None:
    noisy = replace(NOISY, noise=Noise(0.08, 30))
    assert row_text.inconclusive_text(INCONCLUSIVE, noisy) == (
        "inconclusive: throughput is 10.8 % below; jobs of this row differ by as much: "
        "72 jobs would tell a loss of 5 % from noise (--gsw-repeat)"
    )
    assert row_text.inconclusive_line(INCONCLUSIVE) == "within noise: throughput is 10.8 % below"
    assert row_text.inconclusive_line(varied(INCONCLUSIVE, reason="")) == "throughput is 10.8 % below"
    assert row_text.inconclusive_line(SLOW) == ""


def test_what_is_too_good_to_be_true() -> None:
    fact = row_text.verdict_fact(SLOW.figures.documented, WONDER, 2_301_530.0)
    assert fact == (
        "throughput 2,301,530 tokens/s is 900.0 % above the documented 230,153 "
        "(allowed 5 %, and no more than 25 % is believed)"
    )
    record = varied(SLOW, outcome="inconclusive", fact="throughput is 900.0 % above", log="/stage/a.log")
    assert row_text.inconclusive_text(record, WONDER) == (
        "inconclusive: throughput is 900.0 % above; that is too good to be true; look at the 4.556 s in "
        f"{record.row.baseline} (decimal point, unit, statistic last), and at what /stage/a.log says of batch, sequence "
        "length and steps; if it is true, max_gain: 901% in the table or in clusters.yaml accepts it"
    )
    several = replace(WONDER, measured_s=4.6, jobs_s=(4.6, 4.7, 0.4))
    assert "; that is too good to be true: one of its jobs took 0.4 s; look at" in (
        row_text.inconclusive_text(varied(record, log=None), several)
    )
    assert "what its log says" in row_text.inconclusive_text(varied(record, log=None), several)


def test_which_ranks_differ() -> None:
    ranks = RanksApart((("3", 3.0), ("node1:7", 2.0)), 0.9)
    verdict = replace(WONDER, measured_s=4.5, given_reason=Reason.RANKS_DIFFER, ranks=ranks)
    assert row_text.verdict_fact(SLOW.figures.documented, verdict, None).endswith(
        "(allowed 5 %); of its ranks, rank 3 took 3 s, node1:7 took 2 s, and their median is 0.9 s"
    )
    many = RanksApart(tuple((str(rank), 9.0) for rank in range(900)), 0.9)
    assert row_text.verdict_fact(SLOW.figures.documented, replace(verdict, ranks=many), None).endswith(
        "rank 3 took 9 s and 896 more differ, and their median is 0.9 s"
    )
    record = varied(SLOW, outcome="inconclusive", fact="4.5 s")
    assert row_text.inconclusive_text(record, verdict) == (
        "inconclusive: 4.5 s; ranks of one job wait for each other in every step, so that all take the same time: "
        "look at the nodes of these ranks, and whether its log is that of one run"
    )


def test_why_a_row_is_inconclusive_beside_a_slow_canary() -> None:
    verdict = replace(REGRESSED, outcome=Outcome.INCONCLUSIVE, given_reason=Reason.CANARY)
    assert row_text.inconclusive_text(INCONCLUSIVE, verdict, ["all_reduce_bf16[H100x64]"]) == (
        "inconclusive: throughput is 10.8 % below; the canary all_reduce_bf16[H100x64] was too slow as well: "
        "the cluster is not in its usual state"
    )
    assert row_text.inconclusive_text(INCONCLUSIVE, verdict) == (
        "inconclusive: throughput is 10.8 % below; the canary row was too slow as well: "
        "the cluster is not in its usual state"
    )
    assert row_text.inconclusive_text(varied(INCONCLUSIVE, canary=True), verdict) == (
        "inconclusive: throughput is 10.8 % below; it is a canary: the cluster is not in its usual state, "
        "and rows that are too slow say nothing"
    )
