"""Values of single options, and what settings say of themselves."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_gsw.clusters import Cluster, SiteSettings
from pytest_gsw.errors import ConfigurationError
from pytest_gsw.executor.limits import Policies
from pytest_gsw.session import settings as module
from pytest_gsw.session.options import OPTIONS
from pytest_gsw.session.release_choice import RequestedRelease
from pytest_gsw.stats.repeats import Repeats
from pytest_gsw.tables.bundled import bundled_baselines, bundled_releases
from tests.unit.session.sessions import EOS, SETTINGS, replay_of

#: Every option as if it was not given.
NONE: dict[str, Any] = {option.name: False if option.kind == "flag" else None for option in OPTIONS}


@pytest.mark.parametrize("given", ["0", "-1", "1.5", "x", "", "1234567890"])
def test_repeats_are_a_whole_number_above_0(given: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^--gsw-repeat: "):
        module._repeat(given)


def test_repeats() -> None:
    assert (module._repeat("3"), module._repeat(None)) == (3, 1)


@pytest.mark.parametrize("given", ["-1", "1.5", "1234", "x"])
def test_retries_are_a_small_number(given: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^--gsw-retries: "):
        module._retries("retries", given)


def test_no_retries_by_default() -> None:
    assert (module._retries("retries", None), module._retries("retries", "0")) == (0, 0)


@pytest.mark.parametrize(("given", "hours"), [(None, None), ("unlimited", 0.0), ("300", 300.0), ("0.5", 0.5)])
def test_gpu_hours_of_a_search(given: str | None, hours: float | None) -> None:
    assert module._find_gpu_hours(given) == hours


@pytest.mark.parametrize("given", ["0", "-3", "all"])
def test_no_gpu_hours_of_a_search(given: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^--gsw-find: "):
        module._find_gpu_hours(given)


@pytest.mark.parametrize(("number", "value"), [(0.0, math.inf), (2.0, 120.0), (None, None)])
def test_0_turns_a_limit_off(number: float | None, value: float | None) -> None:
    assert module._or_never(number, 60) == value


def test_options_that_are_left_out() -> None:
    jobs = module._job_options(NONE, SiteSettings())
    assert (jobs.time_limit_s, jobs.poll_interval_s, jobs.retries, jobs.detach) == (None, None, 0, False)
    assert (jobs.limits.jobs, jobs.limits.gpus, jobs.limits.pending) == (math.inf, math.inf, math.inf)
    assert (jobs.limits.queue_s, jobs.policies) == (86400.0, Policies())
    judging = module._judging(NONE, SiteSettings())
    assert (judging.tolerance, judging.max_gain, judging.repeats, judging.strict) == (None, None, Repeats(1, 0), False)


def test_a_search_confirms_what_is_slow_in_place_of_further_jobs() -> None:
    given = {**NONE, "confirm": "2", "repeat": "3"}
    assert module._judging(given, SiteSettings()).repeats == Repeats(3, 2)
    assert module._judging({**given, "find": "unlimited"}, SiteSettings()).repeats == Repeats(3, 0)


def test_shares_are_percentages() -> None:
    judging = module._judging({**NONE, "tolerance": "3%"}, SiteSettings(max_gain=0.5))
    assert (judging.tolerance, judging.max_gain) == (0.03, 0.5)
    with pytest.raises(ConfigurationError, match=r"^--gsw-tolerance: "):
        module._judging({**NONE, "tolerance": "a lot"}, SiteSettings())


def test_a_profile() -> None:
    profile = module._profile("nsight:steps=45-50,ranks=0-2,gpu-metrics")
    assert profile is not None
    assert (profile.kind, profile.steps, profile.ranks) == ("nsight", (45, 50), (0, 1, 2))
    assert (profile.gpu_metrics, profile.cpu_metrics) == (True, False)


def test_a_profile_of_one_step() -> None:
    profile = module._profile("nsight:steps=45")
    assert profile is not None
    assert (profile.steps, profile.ranks) == ((45, 45), ())


@pytest.mark.parametrize("given", ["nsys", "nccl-trace:steps=1", "nsight:steps=5-4", "nsight:all"])
def test_no_such_profile(given: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^--gsw-profile: "):
        module._profile(given)


def test_a_report_is_a_directory(tmp_path: Path) -> None:
    (tmp_path / "there").touch()
    for given in (tmp_path / "there", tmp_path / "report.html", tmp_path / "there" / "below"):
        with pytest.raises(ConfigurationError, match=r"^--gsw-report: "):
            module._report(given)
    assert module._report(tmp_path / "new" / "report") == tmp_path / "new" / "report"


def test_the_bundled_tables_by_default() -> None:
    assert module._baselines((), None) == (bundled_baselines(),)
    assert module._baselines((), RequestedRelease("25.02", "--gsw-release")) == bundled_releases()["25.02"]


def test_tables_that_are_missing(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"^--gsw-baselines: "):
        module._baselines((tmp_path / "none",), None)


def test_what_a_session_judges() -> None:
    assert not SETTINGS.judges
    assert replace(SETTINGS, cluster=EOS).judges
    assert replace(SETTINGS, replay=replay_of("/run")).judges


def test_a_row_needs_the_options_that_its_cluster_has_not() -> None:
    of_release = replace(SETTINGS, release="25.02", suite=Path("/suite.yaml"))
    assert of_release.row_options == ("--gsw-release=25.02", "--gsw-suite=/suite.yaml")
    assert replace(SETTINGS, release="25.02", cluster=Cluster("eos", "slurm", release="25.02")).row_options == ()


@pytest.mark.parametrize(
    ("tile", "hours", "options"),
    [
        (None, None, ()),
        (("node", ""), None, ("--gsw-tile=node",)),
        (("switch", "n[1-9]"), 0.0, ("--gsw-tile=switch:n[1-9]", "--gsw-find")),
        (("8", ""), 12.5, ("--gsw-tile=8", "--gsw-find=12.5")),
    ],
)
def test_the_options_of_tiles(tile: tuple[str, str] | None, hours: float | None, options: tuple[str, ...]) -> None:
    assert replace(SETTINGS, tile=tile, find_gpu_hours=hours).tile_options == options


def test_a_replay_as_its_option() -> None:
    assert replay_of("/stage").option == "/stage"
    assert replay_of("/stage", takes_newest=True).option == "/stage@last"


def test_the_directory_of_a_run() -> None:
    assert SETTINGS.run_directory == Path("/nowhere/runs/tonight")
