"""Every option of the command line has a key of the ini file that means the same; a site's own are also of clusters.yaml."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_gsw.jobs.journal import Journal
from pytest_gsw.session.options import GROUPS, OPTIONS
from pytest_gsw.session.settings import SETTINGS, Settings, read_settings

CLUSTERS = "clusters:\n  here: {scheduler: local, gpus: 8, stage: stage}\n"
SUITE = "config: {}\nworkloads: {h100: [{pretrain_grok1_314b: {dtypes: [fp8]}}]}\n"

#: By option, the command line and the ini file that say the same.
TWINS = {
    "cluster": (["--gsw-cluster=demo"], "gsw_cluster = demo"),
    "clusters": (["--gsw-cluster=here", "--gsw-clusters=etc.yaml"], "gsw_cluster = here\ngsw_clusters = etc.yaml"),
    "baselines": (["--gsw-baselines=one", "--gsw-baselines=two"], "gsw_baselines =\n    one\n    two"),
    "release": (["--gsw-release=25.02"], "gsw_release = 25.02"),
    "suite": (["--gsw-cluster=demo", "--gsw-baselines=one", "--gsw-suite=suite.yaml@per-gpu"], "gsw_cluster = demo\ngsw_baselines = one\ngsw_suite = suite.yaml@per-gpu"),
    "tolerance": (["--gsw-tolerance=3%"], "gsw_tolerance = 3%"),
    "max-gain": (["-ogsw_max_gain=60%"], "gsw_max_gain = 60%"),
    "confirm": (["--gsw-confirm=2"], "gsw_confirm = 2"),
    "repeat": (["--gsw-repeat=5"], "gsw_repeat = 5"),
    "history": (["--gsw-history=one/nights.sqlite"], "gsw_history = one/nights.sqlite"),
    "strict": (["-ogsw_strict=true"], "gsw_strict = true"),
    "plan": (["--gsw-cluster=demo", "--gsw-plan"], "gsw_cluster = demo\ngsw_plan = yes"),
    "replay": (["--gsw-replay=one"], "gsw_replay = one"),
    "results": (["--gsw-results=out"], "gsw_results = out"),
    "report": (["--gsw-report=out"], "gsw_report = out"),
    "timeout": (["--gsw-timeout=90"], "gsw_timeout = 90"),
    "max-jobs": (["-ogsw_max_jobs=40"], "gsw_max_jobs = 40"),
    "max-gpus": (["--gsw-max-gpus=2304"], "gsw_max_gpus = 2304"),
    "max-pending": (["-ogsw_max_pending=20"], "gsw_max_pending = 20"),
    "retries": (["--gsw-retries=2"], "gsw_retries = 2"),
    "stall": (["-ogsw_stall=15"], "gsw_stall = 15"),
    "slow-start": (["-ogsw_slow_start=2"], "gsw_slow_start = 2"),
    "detach": (["--gsw-detach"], "gsw_detach = true"),
    "resume": (["--gsw-resume=night"], "gsw_resume = night"),
    "poll-interval": (["-ogsw_poll_interval=30"], "gsw_poll_interval = 30"),
    "profile": (["--gsw-profile=nsight:steps=20-30,cpu-metrics"], "gsw_profile = nsight:steps=20-30,cpu-metrics"),
    "demo": (["--gsw-cluster=demo", "--gsw-demo=*x8]=fail", "--gsw-demo=*=slow:3%"], "gsw_cluster = demo\ngsw_demo =\n    *x8]=fail\n    *=slow:3%"),
}  # fmt: skip


def settings(pytester: pytest.Pytester, *arguments: str) -> dict[str, Any]:
    config = pytester.parseconfigure(*arguments)
    found: Settings = config.stash.get(SETTINGS, None) or read_settings(config)
    config._ensure_unconfigure()
    facts = {field.name: getattr(found, field.name) for field in dataclasses.fields(found)}
    facts["run_id"] = None
    if found.cluster is not None:  # a file of the ini file need not be named again in a command
        facts["cluster"] = dataclasses.replace(found.cluster, file_is_given=False)
    if found.cluster is not None and found.cluster.simulated:
        facts["cluster"] = dataclasses.replace(found.cluster, stage=None)  # its stage has the run's own id
    return facts


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_the_ini_twin(pytester: pytest.Pytester, option: object) -> None:
    arguments, ini = TWINS[option.name]  # type: ignore[attr-defined]
    for name in ("one", "two"):
        pytester.mkdir(name)
    (pytester.path / "etc.yaml").write_text(CLUSTERS)
    (pytester.path / "suite.yaml").write_text(SUITE)
    Journal(pytester.path / ".gsw" / "runs" / "night").session("demo", [])
    without = settings(pytester)
    given = settings(pytester, *arguments)
    # Which files the ini file names is there for a session that resumes; by what it judges may change.
    given["shared"] = {
        name: kept for name, kept in given["shared"].items() if name not in {"baselines", "suite", "clusters"}
    }
    pytester.makeini(f"[pytest]\n{ini}\n")
    assert settings(pytester) == given
    assert given != without


def test_the_command_line_counts_before_the_ini_file(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\ngsw_tolerance = 3%\n")
    assert settings(pytester, "--gsw-tolerance=7%")["tolerance"] == 0.07


#: By key of a cluster: its value, what comes of it, and another value of the ini file with what comes of that.
OF_SITE = {
    "max_gain": ("60%", 0.6, "70%", 0.7),
    "strict": ("true", True, "false", False),
    "max_jobs": ("40", 40, "50", 50),
    "max_pending": ("20", 20, "30", 30),
    "stall": ("15", 900.0, "0", math.inf),
    "slow_start": ("2.5", 2.5, "0", math.inf),
    "poll_interval": ("30", 30.0, "0.5", 0.5),
}
#: Where the settings have what is not called as its key.
PLACES = {
    "max_jobs": ("limits", "jobs"),
    "max_pending": ("limits", "pending"),
    "stall": ("policies", "stall_s"),
    "slow_start": ("policies", "slow_start"),
    "poll_interval": ("poll_interval_s",),
}


def test_the_sites_own_keys_are_all_here() -> None:
    assert set(OF_SITE) == {option.ini.removeprefix("gsw_") for option in OPTIONS if option.of_site}


@pytest.mark.parametrize("key", OF_SITE)
def test_a_cluster_sets_what_is_of_the_site_and_the_ini_file_counts_before_it(
    pytester: pytest.Pytester, key: str
) -> None:
    def found(*arguments: str) -> object:
        given: Any = settings(pytester, "--gsw-cluster=here", *arguments)
        first, *more = PLACES.get(key, (key,))
        return getattr(given[first], *more) if more else given[first]

    value, wanted, other, of_other = OF_SITE[key]
    (pytester.path / "clusters.yaml").write_text(CLUSTERS)
    assert found() not in (wanted, of_other) or key == "strict"
    (pytester.path / "clusters.yaml").write_text(CLUSTERS.replace("}", f", {key}: {value}}}"))
    assert found() == wanted
    pytester.makeini(f"[pytest]\ngsw_{key} = {other}\n")
    assert found() == of_other


def test_help_lists_every_option(pytester: pytest.Pytester) -> None:
    text = pytester.runpytest("--help").stdout.str()
    for option in OPTIONS:
        assert (f"{option.flag} " in text or f"{option.flag}=" in text) != option.of_site
        assert f"{option.ini} (" in text


def test_help_has_the_options_in_groups_each_with_its_default(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    lines = pytester.runpytest("--help").stdout.str().split("\n[pytest] ini-options")[0].splitlines()
    places = [lines.index(f"{title}:") for title in GROUPS]
    assert places == sorted(places)
    for place, options in zip(places, GROUPS.values(), strict=True):
        block = "\n".join(lines[place + 1 :]).split("\n\n")[0]
        for option in (one for one in options if not one.of_site):
            told = block.split(f"{option.flag}")[1].split("--gsw-")[0]
            assert f"(default: {option.default.replace('%%', '%')})" in block, told


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--gsw-timeout=0", "--gsw-timeout: got '0', wanted a number above 0"),
        ("--gsw-timeout=nan", "--gsw-timeout: got 'nan', wanted a number above 0"),
        ("-ogsw_poll_interval=fast", "gsw_poll_interval: got 'fast', wanted a number above 0"),
        ("-ogsw_poll_interval=0.1", "gsw_poll_interval: got '0.1', wanted 0.5 to 300 seconds"),
        ("-ogsw_poll_interval=3600", "gsw_poll_interval: got '3600', wanted 0.5 to 300 seconds"),
    ],
)
def test_what_is_no_number_is_a_usage_error(pytester: pytest.Pytester, argument: str, message: str) -> None:
    result = pytester.runpytest(argument)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {message}"])


def test_results_go_where_they_are_told(pytester: pytest.Pytester) -> None:
    pytester.runpytest("--gsw-cluster=demo", "--gsw-results=out", "-k", "gpt3_175b and H100x128")
    assert len(list((pytester.path / "out").glob("runs/*/records/*.json"))) == 1
    assert not (pytester.path / ".gsw").exists()


def test_a_release_chooses_among_the_bundled_tables(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest("--collect-only", "-q", "--gsw-cluster=demo", "--gsw-release=25.03", "-k", "grok1_314b")
    assert "baselines/nemo/grok1_314b.yaml::grok1_314b_fp8[H100x64]" in result.stdout.lines
    assert not any("llama2_70b" in line for line in result.stdout.lines)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--gsw-release=23.01",), "no bundled table has figures of release 23.01*"),
        (("--gsw-release=25.2",), "no bundled table has figures of release 25.2; did you mean '25.02'?"),
        (("--gsw-release=",), "--gsw-release names no release; wanted one such as 25.02"),
        (("--gsw-release=v",), "--gsw-release names no release; wanted one such as 25.02"),
        (
            ("--gsw-release=25.02", "--gsw-baselines=."),
            "--gsw-release and --gsw-baselines exclude each other: a release chooses among the bundled tables",
        ),
    ],
)
def test_a_release_that_cannot_be_chosen(pytester: pytest.Pytester, arguments: tuple[str, ...], message: str) -> None:
    result = pytester.runpytest(*arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {message}"])


def test_who_asked_for_a_release_that_nothing_has(pytester: pytest.Pytester) -> None:
    (pytester.path / "clusters.yaml").write_text(
        "clusters:\n  here:\n    scheduler: local\n    stage: s\n    release: 24.02\n"
    )
    by_option = pytester.runpytest("--gsw-release=24.03")
    by_option.stderr.fnmatch_lines(["ERROR: no bundled table has figures of release 24.03*", "asked by: --gsw-release"])
    by_cluster = pytester.runpytest("--gsw-cluster=here")
    by_cluster.stderr.fnmatch_lines(
        ["ERROR: no bundled table has figures of release 24.02*", "asked by: *clusters.yaml:5, release of here"]
    )
    pytester.makeini("[pytest]\ngsw_release = 24.07\n")
    by_ini = pytester.runpytest()
    by_ini.stderr.fnmatch_lines(["ERROR: *figures of release 24.07*", "asked by: gsw_release in tox.ini"])


def test_a_clusters_release_gives_way_to_tables_that_are_named(pytester: pytest.Pytester) -> None:
    (pytester.path / "clusters.yaml").write_text("clusters: {here: {scheduler: local, stage: s, release: 25.02}}\n")
    pytester.mkdir("one")
    chosen = settings(pytester, "--gsw-cluster=here")
    named = settings(pytester, "--gsw-cluster=here", "--gsw-baselines=one")
    assert (chosen["release"], named["release"]) == ("25.02", None)
    assert named["baselines"] == (pytester.path / "one",)


@pytest.mark.parametrize(
    ("option", "found"),
    [
        ("--gsw-baselines=one", lambda facts: facts["baselines"]),
        ("--gsw-suite=suite.yaml@per-gpu", lambda facts: facts["suite"]),
        ("--gsw-clusters=etc.yaml", lambda facts: facts["cluster"].path),
        ("--gsw-history=nights.sqlite", lambda facts: facts["history"]),
    ],
)
def test_a_resumed_run_has_the_paths_that_it_was_given(
    pytester: pytest.Pytester, option: str, found: Callable[[dict[str, Any]], object]
) -> None:
    name, value = option.split("=")
    pytester.mkdir("one")
    (pytester.path / "clusters.yaml").write_text(CLUSTERS)
    (pytester.path / "etc.yaml").write_text(CLUSTERS)
    (pytester.path / "suite.yaml").write_text(SUITE)
    more = ["--gsw-baselines=one"] if name == "--gsw-suite" else []
    first = settings(pytester, "--gsw-cluster=here", *more, option)
    Journal(pytester.path / ".gsw" / "runs" / "night").session("here", [], paths=first["shared"])
    resumed = settings(pytester, "--gsw-resume=night")
    assert found(resumed) == found(first)
    assert resumed["shared"] == first["shared"]
    assert found(settings(pytester, "--gsw-resume=night", option)) == found(first)
    result = pytester.runpytest("--gsw-resume=night", f"{name}=other/{value}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: --gsw-resume: {name} of that run is *{value}", "next: leave the option out"])


@pytest.mark.parametrize(
    ("option", "name", "other"),
    [
        ("--gsw-tolerance=3%", "tolerance", "--gsw-tolerance=4%"),
        ("-ogsw_max_gain=40%", "max_gain", None),
        ("--gsw-timeout=7", "time_limit_s", "--gsw-timeout=8"),
        ("--gsw-retries=2", "retries", "--gsw-retries=0"),
        ("-ogsw_stall=0", "policies", None),
        ("-ogsw_slow_start=2", "policies", None),
        ("--gsw-demo=*x128]=slow:12%", "faults", "--gsw-demo=*x64]=oom"),
        ("-ogsw_strict=true", "strict", None),
    ],
)
def test_a_resumed_run_judges_as_it_was_told_to(
    pytester: pytest.Pytester, option: str, name: str, other: str | None
) -> None:
    first = settings(pytester, "--gsw-cluster=demo", option)
    assert first[name] != settings(pytester, "--gsw-cluster=demo")[name]
    Journal(pytester.path / ".gsw" / "runs" / "night").session("demo", [], paths=first["shared"])
    resumed = settings(pytester, "--gsw-resume=night")
    assert (resumed[name], resumed["shared"]) == (first[name], first["shared"])
    if other is not None:
        assert settings(pytester, "--gsw-resume=night", other)[name] != first[name]


@pytest.mark.parametrize(
    ("ini", "name", "option"),
    [
        ("gsw_tolerance = 3%", "tolerance", "--gsw-tolerance is 3%"),
        ("gsw_max_gain = 40%", "max_gain", "gsw_max_gain is 40%"),
        ("gsw_timeout = 7", "time_limit_s", "--gsw-timeout is 7"),
        ("gsw_retries = 2", "retries", "--gsw-retries is 2"),
        ("gsw_repeat = 3", "repeats", "--gsw-repeat is 3"),
        ("gsw_confirm = 2", "repeats", "--gsw-confirm is 2"),
        ("gsw_slow_start = 2", "policies", "gsw_slow_start is 2"),
        ("gsw_strict = true", "strict", "gsw_strict is True"),
        ("", "tolerance", "--gsw-tolerance is left out"),
    ],
)
def test_a_resumed_run_judges_by_the_values_of_its_ini_file_then(
    pytester: pytest.Pytester, ini: str, name: str, option: str
) -> None:
    pytester.makeini(f"[pytest]\n{ini}\n")
    first = settings(pytester, "--gsw-cluster=demo")
    Journal(pytester.path / ".gsw" / "runs" / "night").session("demo", [], paths=first["shared"])
    pytester.makeini("[pytest]\n" + ("" if ini else "gsw_tolerance = 50%\n"))
    resumed = settings(pytester, "--gsw-resume=night")
    assert (resumed[name], resumed["shared"]) == (first[name], first["shared"])
    now = "50%" if not ini else "False" if name == "strict" else "left out"
    assert resumed["changed_since"] == (f"{option}, as when the run began; it is {now} now",)


def test_a_resumed_run_has_the_history_that_its_environment_named(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GSW_HISTORY", "first.sqlite")
    first = settings(pytester, "--gsw-cluster=demo")
    Journal(pytester.path / ".gsw" / "runs" / "night").session("demo", [], paths=first["shared"])
    assert settings(pytester, "--gsw-resume=night")["history"] == first["history"]
    monkeypatch.setenv("GSW_HISTORY", "other.sqlite")
    assert settings(pytester, "--gsw-resume=night")["history"] == first["history"]
    monkeypatch.setenv("GSW_HISTORY", "postgresql://gsw:sesame@db.example/nights")
    url = settings(pytester, "--gsw-cluster=demo")
    Journal(pytester.path / ".gsw" / "runs" / "later").session("demo", [], paths=url["shared"])
    assert settings(pytester, "--gsw-resume=later")["history"] == url["history"]  # with its password


def test_a_resumed_run_is_told_the_user_of_its_history_again(pytester: pytest.Pytester) -> None:
    url = "postgresql://gsw:sesame@db.example/nights"
    first = settings(pytester, "--gsw-cluster=demo", f"--gsw-history={url}")
    journal = Journal(pytester.path / ".gsw" / "runs" / "night")
    journal.session("demo", [], paths=first["shared"])
    assert "sesame" not in (pytester.path / ".gsw" / "runs" / "night" / "journal.jsonl").read_text()
    assert settings(pytester, "--gsw-resume=night", f"--gsw-history={url}")["history"] == url
    result = pytester.runpytest("--gsw-resume=night")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        [
            "ERROR: --gsw-resume: --gsw-history of that run is postgresql://[*][*][*]@db.example/nights, of which *",
            "next: give the option again",
        ]
    )


@pytest.mark.parametrize(
    ("option", "found"),
    [
        ("--gsw-report=~/x", lambda facts: facts["report"]),
        ("--gsw-history=~/x", lambda facts: facts["history"]),
    ],
)
def test_a_path_may_begin_at_home(
    pytester: pytest.Pytester, option: str, found: Callable[[dict[str, Any]], object]
) -> None:
    assert found(settings(pytester, option)) == Path("~/x").expanduser()
    result = pytester.runpytest(option.replace("~", "~nobody-here"))
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    name = option.partition("=")[0]
    result.stderr.fnmatch_lines([f"ERROR: {name}: nobody knows the home directory of '~nobody-here'"])


def test_a_run_to_resume_may_be_named_from_home(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(pytester.path))
    Journal(pytester.path / "elsewhere" / "night").session("demo", [])
    assert settings(pytester, "--gsw-resume=~/elsewhere/night")["cluster"].name == "demo"


def test_a_run_to_resume_that_is_not_there(pytester: pytest.Pytester) -> None:
    Journal(pytester.path / ".gsw" / "runs" / "20261120-221000-7f3a").session("demo", [])
    result = pytester.runpytest("--gsw-resume=20261120-221000-7f3b")
    result.stderr.fnmatch_lines(
        [
            "ERROR: --gsw-resume: there is no run '20261120-221000-7f3b' in *runs; did you mean '20261120-221000-7f3a'?",
        ]
    )


def test_the_last_run_is_replayed(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest("--gsw-replay=last")
    result.stderr.fnmatch_lines(["ERROR: --gsw-replay: there is no run to replay in *runs"])
    rows = ("-k", "gpt3_175b and H100x128")
    pytester.runpytest("--gsw-cluster=demo", *rows)
    (run,) = (pytester.path / ".gsw" / "runs").iterdir()
    (pytester.path / ".gsw" / "runs" / "99999999-999999-ffffff").mkdir()  # of a session that ended before it began
    result = pytester.runpytest("--gsw-cluster=demo", "--gsw-replay=last")
    result.assert_outcomes(passed=1, deselected=140)
    result.stdout.fnmatch_lines([f"gsw: 1 row to replay from {run}"])


def test_a_resumed_run_has_its_release(pytester: pytest.Pytester) -> None:
    (pytester.path / "suite.yaml").write_text(SUITE)
    Journal(pytester.path / ".gsw" / "runs" / "night").session("demo", [], release="25.02")
    assert settings(pytester, "--gsw-resume=night")["release"] == "25.02"
    assert settings(pytester, "--gsw-resume=night", "--gsw-release=v25.02")["release"] == "25.02"
    result = pytester.runpytest("--gsw-resume=night", "--gsw-release=25.01")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --gsw-resume: the rows of that run are of release 25.02"])
