"""Two settings in turns: what may be set, the order, the driver as compute nodes run it, and what pairs say."""

from __future__ import annotations

import json
import math
import os
import random
import shutil
import stat
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

import pytest_gsw.ab
from pytest_gsw.ab.judge import ALPHA, Comparison, Result, compare, least_p
from pytest_gsw.ab.plan import Plan, check_sides, job_of, job_script, read_plan, read_side, turn_order, write_plan
from pytest_gsw.ab.turns import ended_turns
from pytest_gsw.cli.ab_answer import conclusion_text
from pytest_gsw.errors import ConfigurationError, SubmissionError
from pytest_gsw.jobs.model import JobSpec

DRIVER = Path(pytest_gsw.ab.__file__).parent / "turns.sh"

PLAN = Plan("id", "row", "table.yaml", "eos", False, {"NCCL_ALGO": "Ring"}, {}, 6)


# -- what pairs say ---------------------------------------------------------------------------


def times_s(*changes: float) -> list[tuple[float, float]]:
    """Pairs in which B's throughput differs so from A's."""
    return [(10.0, 10.0 / (1 + change)) for change in changes]


def test_slower_in_every_pair() -> None:
    found = compare(times_s(-0.02, -0.03, -0.01, -0.04, -0.05, -0.06))
    assert found.result is Result.SLOWER
    assert (found.pairs, found.p_signed_rank, found.p_sign) == (6, 2 / 64, 2 / 64)
    assert found.median_ratio == pytest.approx(math.sqrt(0.97 * 0.96))
    assert found.interval == pytest.approx((0.94, 0.99))
    assert conclusion_text(found, 6) == (
        "B is slower: its throughput is 3.5 % below A's (95 % interval -6.0 % to -1.0 %; p 0.031 by signed ranks, "
        "0.031 by signs; 6 pairs)"
    )


def test_faster_but_for_a_small_loss() -> None:
    found = compare(times_s(0.05, 0.06, 0.07, -0.01, 0.08, 0.09, 0.05, 0.04))
    assert found.result is Result.FASTER
    assert (found.p_signed_rank, found.p_sign) == (4 / 256, 18 / 256)


def test_noise_shows_no_difference() -> None:
    found = compare(times_s(-0.02, 0.03, -0.01, 0.02, -0.03, 0.01))
    assert found.result is Result.NO_DIFFERENCE
    assert found.p_signed_rank == 27 / 32
    assert found.smallest_shown == pytest.approx(1 - math.sqrt(0.97 / 1.03))
    assert conclusion_text(found, 6) == (
        "no difference shown: B's throughput is +0.0 % (p 0.844 by signed ranks, 1.000 by signs; 6 pairs); "
        "with this noise, -3.0 % would be shown"
    )


def test_a_drift_cancels() -> None:
    # The allocation gets 1 % slower each turn, whichever side runs.
    turn_s = [10 * 1.01**number for number in range(16)]
    pairs = [
        pair if order == ("A", "B") else pair[::-1]
        for pair, order in zip(
            zip(turn_s[::2], turn_s[1::2], strict=True),
            zip(turn_order(8)[::2], turn_order(8)[1::2], strict=True),
            strict=True,
        )
    ]
    found = compare(pairs)
    assert found.result is Result.NO_DIFFERENCE
    assert found.median_ratio == pytest.approx(1)


def test_equal_turns_show_no_difference() -> None:
    found = compare([(4.31, 4.31)] * 6)
    assert (found.result, found.median_ratio, found.p_signed_rank) == (Result.NO_DIFFERENCE, 1.0, 1.0)


@pytest.mark.parametrize("pairs", range(6))
def test_too_few_pairs_are_not_judged(pairs: int) -> None:
    found = compare(times_s(*[-0.5] * pairs))
    assert found.result is Result.NOT_MEASURED
    assert conclusion_text(found, 6) == (
        f"not measured: {pairs} of 6 pairs, and a decision takes 6: fewer have p 0.062 at best"
    )


def test_fewer_pairs_than_asked_are_said() -> None:
    assert "; 6 of 8 pairs)" in conclusion_text(compare(times_s(*[-0.02] * 6)), 8)


def test_the_interval_and_the_test_never_disagree() -> None:
    noise = random.Random(5)  # noqa: S311 - noise
    for _ in range(400):
        found = compare(times_s(*(noise.gauss(0.01, 0.02) for _ in range(noise.randrange(6, 15)))))
        assert found.interval is not None
        low, high = found.interval
        assert (found.result is Result.FASTER) == (low > 1)
        assert (found.result is Result.SLOWER) == (high < 1)


def test_how_often_equal_sides_are_called_different() -> None:
    noise = random.Random(7)  # noqa: S311 - noise
    results = [compare(times_s(*(noise.gauss(0, 0.02) for _ in range(6)))).result for _ in range(2000)]
    assert sum(result is not Result.NO_DIFFERENCE for result in results) / 2000 < ALPHA
    assert 0.01 < sum(result is Result.SLOWER for result in results) / 2000 < 0.025


def test_the_least_number_of_pairs_that_can_decide() -> None:
    assert (least_p(4), least_p(5), least_p(6)) == (0.125, 0.0625, 0.03125)
    assert least_p(0) == 1


def test_a_comparison_without_pairs() -> None:
    assert compare([]) == Comparison(Result.NOT_MEASURED, 0)


# -- what is compared -------------------------------------------------------------------------


def test_every_other_pair_begins_with_b() -> None:
    assert "".join(turn_order(4)) == "ABBAABBA"


def test_a_side() -> None:
    assert read_side("--a", ["NCCL_ALGO=Ring", "GSW_DEMO=*=slow:2%", "EMPTY="]) == {
        "NCCL_ALGO": "Ring",
        "GSW_DEMO": "*=slow:2%",
        "EMPTY": "",
    }


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (["NCCL_ALGO"], "--a: got 'NCCL_ALGO', wanted NAME=VALUE such as NCCL_ALGO=Ring"),
        (["1X=1"], "--a: got '1X=1', wanted NAME=VALUE such as NCCL_ALGO=Ring"),
        (["A[$(id)]=1"], "--a: got 'A[$(id)]=1', wanted NAME=VALUE such as NCCL_ALGO=Ring"),
        (["X=1", "X=2"], "--a: X is given twice"),
        (["DTYPE=fp8"], "--a: DTYPE cannot be compared: it is part of the launch contract, the same for both sides"),
        (
            ["GSW_ROW_X=1"],
            "--a: GSW_ROW_X cannot be compared: it is part of the launch contract, the same for both sides",
        ),
        (
            ["SRUN_OUTPUT=x"],
            "--a: SRUN_OUTPUT cannot be compared: it is not handed on to jobs: it changes where they run, or where they write",
        ),
        (
            ["SBATCH_QOS=x"],
            "--a: SBATCH_QOS cannot be compared: it is read when the job is submitted, and both sides share one job",
        ),
        (["SLURM_JOB_ID=1"], "--a: SLURM_JOB_ID cannot be compared: it is the job's, and both sides share one job"),
        (["GSW_AB_ORDER=B"], "--a: GSW_AB_ORDER cannot be compared: it is the comparison's own"),
        (["GSW_LOCAL=1"], "--a: GSW_LOCAL cannot be compared: it is the launcher's own"),
    ],
)
def test_what_no_side_may_set(given: list[str], problem: str) -> None:
    with pytest.raises(ConfigurationError) as wrong:
        read_side("--a", given)
    assert str(wrong.value) == problem


@pytest.mark.parametrize(
    ("a", "b"), [({}, {}), ({"X": "1"}, {"X": "1"}), ({}, {"HERE": "1"}), ({"HERE": "1", "X": "2"}, {"X": "2"})]
)
def test_sides_must_differ_from_each_other_in_the_job(a: Mapping[str, str], b: Mapping[str, str]) -> None:
    with pytest.raises(ConfigurationError) as wrong:
        check_sides({"HERE": "1"}, a, b)
    assert str(wrong.value) == (
        "A and B are the same: nothing to compare\nnext: --a NCCL_ALGO=Ring --b NCCL_ALGO=Tree, or one of the two"
    )


@pytest.mark.parametrize(
    ("environment", "b", "where"),
    [({}, {"ENABLE_PROFILE": "true"}, "--b"), ({"ENABLE_PROFILE": "1"}, {"X": "1"}, "the environment")],
)
def test_profiled_turns_are_refused(environment: Mapping[str, str], b: Mapping[str, str], where: str) -> None:
    with pytest.raises(ConfigurationError) as wrong:
        check_sides(environment, {}, b)
    assert str(wrong.value) == (
        f"ENABLE_PROFILE is set in {where}: figures of profiled runs cannot be compared\nnext: unset ENABLE_PROFILE"
    )


def test_the_job_has_the_directives_of_the_launch_script(tmp_path: Path) -> None:
    launch = tmp_path / "launch.sh"
    launch.write_text(
        "#!/usr/bin/env bash\n\n#SBATCH --mem=0\n# a remark\n#SBATCH -n 8 # all\nset -eu\n#SBATCH --late\n"
    )
    assert job_script(launch, "#!/bin/bash\nrest\n") == "#!/bin/bash\n#SBATCH --mem=0\n#SBATCH -n 8 # all\nrest\n"


def test_a_launch_script_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SubmissionError) as wrong:
        job_script(tmp_path / "launch.sh", "")
    assert str(wrong.value) == (
        f"the launch script {tmp_path}/launch.sh cannot be read: No such file or directory\n\n"
        f"next       is the recipe set up? ls -l {tmp_path}"
    )


def test_a_plan_that_was_written_is_read(tmp_path: Path) -> None:
    write_plan(tmp_path, PLAN)
    assert read_plan(tmp_path) == PLAN


@pytest.mark.parametrize("text", ["", "[]", "{}", "1"])
def test_what_is_no_plan(tmp_path: Path, text: str) -> None:
    (tmp_path / "plan.json").write_text(text)
    with pytest.raises(ConfigurationError) as wrong:
        read_plan(tmp_path)
    assert str(wrong.value) == (
        f"there is no comparison in {tmp_path}: plan.json: it is no plan of compare-ab\nnext: ls {tmp_path.parent}"
    )


def test_no_plan(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as wrong:
        read_plan(tmp_path)
    assert str(wrong.value) == (
        f"there is no comparison in {tmp_path}: plan.json: No such file or directory\nnext: ls {tmp_path.parent}"
    )


# -- the driver -------------------------------------------------------------------------------

Drive = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def drive(tmp_path: Path) -> Drive:
    """Run the driver as a job does, in places whose names have all that a shell trips over."""
    stage = tmp_path / "a stage [1] * 'x'"
    recipe = tmp_path / "a recipe"
    directory = tmp_path / "the turns"
    for place in (stage, recipe, directory):
        place.mkdir()

    def run(
        body: str, a: Mapping[str, str], b: Mapping[str, str], *, turns: str = "AB", limit_s: float | None = None
    ) -> subprocess.CompletedProcess[str]:
        (recipe / "launch.sh").write_text(
            'set -eu\nlogs="$STAGE_PATH/results/24.11/fp8/70b/8"\nlog="$logs/log-x_y_70b_8_$SLURM_JOB_ID"\n'
            f'mkdir -p "$logs"\n{body}\n'
        )
        spec = JobSpec(
            *("row", "name", recipe / "launch.sh", recipe, stage, 1, 8),
            environment={"STAGE_PATH": str(stage), "SLURM_JOB_ID": "7"},
            log_glob="results/*/fp8/70b/8/log-x_y_70b_8_{job_id}.out",
        )
        job = job_of(spec, directory, turns, a, b, time_limit_s=None, turn_limit_s=limit_s)
        return subprocess.run(
            ["/bin/bash", str(DRIVER)],
            cwd=recipe,
            env={"PATH": os.environ["PATH"], **job.environment},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return run


def ended(tmp_path: Path, turn: str) -> dict[str, object]:
    found: dict[str, object] = json.loads((tmp_path / "the turns" / turn / "ended.json").read_text())
    return found


def log(tmp_path: Path, turn: str, suffix: str = "out") -> str:
    return (tmp_path / "the turns" / turn / "results/24.11/fp8/70b/8" / f"log-x_y_70b_8_7.{suffix}").read_text()


HARMLESS = "Ring"
ODD = "a 'b' \"c\" $(touch /tmp/gsw-ab-must-not-be) `id` * \\n\nsecond line\t%s &"


@pytest.mark.parametrize("value", [HARMLESS, ODD, "", " ", "=", "-n"])
@pytest.mark.parametrize("name", ["NCCL_ALGO", "value", "name", "aside", "turn", "side", "_x"])
def test_each_turn_has_its_sides_variables_alone(tmp_path: Path, drive: Drive, name: str, value: str) -> None:
    done = drive(f'printf "%s" "${{{name}-unset}}" >"$log.out"', {name: value, "OTHER": "1"}, {}, turns="ABBA")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "turn 1, side A\nturn 2, side B\nturn 3, side B\nturn 4, side A\n"
    assert [log(tmp_path, turn) for turn in ("1-A", "4-A")] == [value, value]
    assert [log(tmp_path, turn) for turn in ("2-B", "3-B")] == ["unset", "unset"]


def test_a_launch_script_sees_nothing_of_the_driver(tmp_path: Path, drive: Drive) -> None:
    drive('env | grep -c -e GSW_AB -e "^OTHER" >"$log.out" || true; [[ ! -t 0 ]]', {"X": "1"}, {"OTHER": "1"})
    assert (log(tmp_path, "1-A"), log(tmp_path, "2-B")) == ("0\n", "1\n")


def test_a_turn_that_fails_is_kept_and_the_next_one_runs(tmp_path: Path, drive: Drive) -> None:
    done = drive('echo said; echo "$X" >"$log.out"; echo wrong >"$log.err"; exit "$X"', {"X": "3"}, {"X": "0"})
    assert done.returncode == 0
    first, second = ended(tmp_path, "1-A"), ended(tmp_path, "2-B")
    assert (first["job_id"], first["exit_code"], second["exit_code"]) == ("7", 3, 0)
    assert (log(tmp_path, "1-A"), log(tmp_path, "2-B")) == ("3\n", "0\n")
    assert log(tmp_path, "1-A", "err") == "wrong\n"
    assert (tmp_path / "the turns" / "1-A" / "output").read_text() == "said\n"
    assert ended_turns(replace(PLAN, pairs=1), tmp_path / "the turns") == 2


def test_a_turn_without_a_log(tmp_path: Path, drive: Drive) -> None:
    assert drive('[[ $X ]] || touch "$log.out"', {"X": ""}, {"X": "1"}).returncode == 0
    assert log(tmp_path, "1-A") == ""
    assert not (tmp_path / "the turns" / "2-B" / "results").exists()


def test_a_turn_that_does_not_end(tmp_path: Path, drive: Drive) -> None:
    done = drive('touch "$log.out"; sleep "$X"', {"X": "50"}, {"X": "0"}, limit_s=1)
    assert (done.returncode, ended(tmp_path, "1-A")["exit_code"], ended(tmp_path, "2-B")["exit_code"]) == (0, 124, 0)


def test_a_variable_that_no_shell_can_set(tmp_path: Path, drive: Drive) -> None:
    assert drive('touch "$log.out"', {"UID": "3"}, {}).returncode == 0
    assert (ended(tmp_path, "1-A")["exit_code"], ended(tmp_path, "2-B")["exit_code"]) == (1, 0)
    assert "UID: readonly variable" in (tmp_path / "the turns" / "1-A" / "output").read_text()


def test_a_log_of_an_earlier_job_with_the_same_id(tmp_path: Path, drive: Drive) -> None:
    place = tmp_path / "a stage [1] * 'x'" / "results/24.11/fp8/70b/8"
    place.mkdir(parents=True)
    old = place / "log-x_y_70b_8_7.out"
    old.write_text("old")
    (place / "log-x_y_70b_8_70.out").write_text("another job's")
    done = drive("", {}, {})
    assert (done.returncode, done.stderr) == (
        1,
        f"job 7 has not begun, and there is its log: {old}\nAn earlier job had the same id; move its results away.\n",
    )
    assert old.read_text() == "old"
    assert list((tmp_path / "the turns").iterdir()) == []


def test_a_directory_that_cannot_be_written(tmp_path: Path, drive: Drive) -> None:
    (tmp_path / "the turns" / "2-B").write_text("in the way")
    done = drive('touch "$log.out"', {}, {}, turns="ABBA")
    assert done.returncode == 1
    assert "2-B" in done.stderr
    assert not (tmp_path / "the turns" / "3-B").exists()


def test_each_turn_of_the_simulated_recipe_has_noise_of_its_own(tmp_path: Path, drive: Drive) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GSW_DEMO_SEED", "no part of the job's environment")
        drive('echo "${GSW_DEMO_SEED-none}" >"$log.out"', {"GSW_DEMO_SEED": "9"}, {})
    assert (log(tmp_path, "1-A"), log(tmp_path, "2-B")) == ("9\n", "none\n")


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
def test_shellcheck_finds_nothing_in_the_driver() -> None:
    done = subprocess.run(["shellcheck", str(DRIVER)], capture_output=True, text=True, check=False)
    assert done.stdout == ""


def test_the_driver_is_part_of_the_package() -> None:
    assert stat.S_ISREG(DRIVER.stat().st_mode)
    assert DRIVER.read_text().startswith("#!/bin/bash\n")
