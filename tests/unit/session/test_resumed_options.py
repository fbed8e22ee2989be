"""What a session takes from the run that it resumes or replays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_gsw.clusters import SiteSettings
from pytest_gsw.common.masks import MASK
from pytest_gsw.errors import ConfigurationError
from pytest_gsw.jobs.journal import Journal, RunState
from pytest_gsw.session import resumed_options as module
from pytest_gsw.session.options import OPTIONS

NOW: dict[str, Any] = {"baselines": (), "suite": None, "clusters": None}


class Config:
    """A config in which the command line gives these options, and the ini file none."""

    def __init__(self, *words: str, **given: object) -> None:
        self._given = given
        self.invocation_params = type("Params", (), {"args": words})

    def getoption(self, name: str) -> object:
        return self._given.get(name)

    def getini(self, name: str) -> object:
        return None


def config(*words: str, **given: object) -> Any:
    return Config(*words, **given)


def past(**paths: tuple[str, ...]) -> RunState:
    """The run that is resumed."""
    return RunState("eos", (), paths=paths)


def test_paths_of_the_command_line_are_shared() -> None:
    given = {**NOW, "baselines": (Path("/a/../b"),), "suite": Path("/s.yaml")}
    assert module.shared_paths(config(gsw_baselines=["x"]), given, None) == {"baselines": (Path("/b"),)}


def test_paths_of_the_run_count_as_given() -> None:
    assert module.shared_paths(config(), NOW, past(suite=("/s.yaml",))) == {"suite": (Path("/s.yaml"),)}


def test_the_same_path_may_be_given_again() -> None:
    given = {**NOW, "suite": Path("/s.yaml")}
    found = module.shared_paths(config(gsw_suite="s.yaml"), given, past(suite=("/s.yaml",)))
    assert found == {"suite": (Path("/s.yaml"),)}


@pytest.mark.parametrize("selected", ["", "@per-gpu"])
def test_other_paths_than_those_of_the_run(tmp_path: Path, selected: str) -> None:
    given, suite = {**NOW, "suite": Path("/other.yaml")}, tmp_path / "s.yaml"
    suite.touch()
    with pytest.raises(ConfigurationError, match=f"--gsw-suite of that run is {suite}"):
        module.shared_paths(config(gsw_suite="other.yaml"), given, past(suite=(f"{suite}{selected}",)))


def test_a_run_of_another_machine_has_paths_that_are_not_here() -> None:
    given = {**NOW, "baselines": (Path("/here"),)}
    found = module.shared_paths(config(gsw_baselines=["/here"]), given, past(baselines=("/there",)))
    assert found == {"baselines": (Path("/here"),)}


def test_a_resumed_run_is_judged_as_it_began() -> None:
    values = {"tolerance": None, "demo": ()}
    of_run = past(tolerance=("3%",), demo=("a=b", "c=d"), strict=("true",), stall=("2.5",), timeout=())
    found = module.kept_of_run(config(), values, of_run)
    assert found == {"tolerance": "3%", "demo": ("a=b", "c=d")}
    site = SiteSettings(timeout=8.0, stall=1.0, max_jobs=3)
    assert module.site_of_run(site, of_run) == SiteSettings(strict=True, stall=2.5, max_jobs=3)
    assert module.site_of_run(site, None) == site
    assert module.kept_of_run(config(), values, None) == {}


#: Options of one session: a later one of the run may have others.
OF_A_SESSION = {"plan", "results", "report", "replay", "detach", "resume"}
#: Those that a run keeps by other means: its journal, and what it says of its release and history.
KEPT_OTHERWISE = {"cluster", "release", "history"}


def test_every_option_is_kept_by_a_run_or_is_of_one_session() -> None:
    """A new one stands in one of these tables: a resumed run would lose it in silence."""
    tables = (module.KEPT, module._NAMES, OF_A_SESSION, KEPT_OTHERWISE)
    assert sorted(name for table in tables for name in table) == sorted(option.name for option in OPTIONS)


def test_the_command_line_overrides_how_a_run_was_judged() -> None:
    found = module.kept_of_run(config("--gsw-tolerance=5%"), {"tolerance": "5%"}, past(tolerance=("3%",)))
    assert found == {}


def test_a_value_that_the_run_had_left_out() -> None:
    assert module.kept_of_run(config(), {"tolerance": "5%"}, past(tolerance=())) == {"tolerance": None}


@pytest.mark.parametrize(("value", "texts"), [(None, ()), ("3%", ("3%",)), (True, ("True",)), (("a", "b"), ("a", "b"))])
def test_values_in_the_journal(value: object, texts: tuple[str, ...]) -> None:
    assert module.recorded_texts(value) == texts
    assert module._parse_texts(value, texts) == value


def test_values_that_have_changed_since() -> None:
    now, then = {"tolerance": None, "repeat": "3"}, {"tolerance": "3%", "repeat": "3"}
    assert module.changed_since(now, then, SiteSettings(), SiteSettings(max_gain=0.4)) == (
        "--gsw-tolerance is 3%, as when the run began; it is left out now",
        "max_gain is 40%, as when the run began; it is left out now",
    )


def test_a_history_by_default_is_not_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GSW_HISTORY", raising=False)
    assert module.shared_history(config(), Path("/h.sqlite"), None) == (Path("/h.sqlite"), {})


def test_a_history_of_the_command_line_is_recorded() -> None:
    given = config(gsw_history="h.sqlite")
    assert module.shared_history(given, Path("/x/../h.sqlite"), None)[1] == {"history": ("/h.sqlite",)}
    assert module.shared_history(given, None, None)[1] == {"history": ("none",)}


def test_a_resumed_session_has_the_history_of_its_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GSW_HISTORY", raising=False)
    place, kept = module.shared_history(config(), Path("/other.sqlite"), past(history=("/h.sqlite",)))
    assert (place, kept) == (Path("/h.sqlite"), {"history": ("/h.sqlite",)})
    assert module.shared_history(config(), Path("/other.sqlite"), past(history=("none",)))[0] is None


def test_another_history_than_that_of_the_run() -> None:
    with pytest.raises(ConfigurationError, match=r"--gsw-history of that run is /h.sqlite"):
        module.shared_history(config(gsw_history="x"), Path("/x"), past(history=("/h.sqlite",)))


def test_a_history_whose_password_was_not_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GSW_HISTORY", raising=False)
    with pytest.raises(ConfigurationError, match=r"give the option again"):
        module.shared_history(config(), None, past(history=(f"postgresql://{MASK}@host/runs",)))


def test_a_home_that_is_unknown() -> None:
    with pytest.raises(ConfigurationError, match=r"^--gsw-results: "):
        module.path_given("~there-is-none/x", "results")


def begun(results: Path, name: str) -> Path:
    """The directory of a run with a journal."""
    directory = results / "runs" / name
    Journal(directory).session("demo", [])
    return directory


def test_a_run_by_its_id_its_path_or_as_the_last(tmp_path: Path) -> None:
    directory = begun(tmp_path, "night")
    for given in ("night", str(directory), "last"):
        assert module.resumed_run(given, tmp_path) == directory


def test_a_run_that_there_is_not(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"there is no run 'nigth'"):
        module.resumed_run("nigth", tmp_path)
    with pytest.raises(ConfigurationError, match=r"no run to resume"):
        module.resumed_run("last", tmp_path)


def test_the_place_of_logs(tmp_path: Path) -> None:
    log, night = tmp_path / "run.log", begun(tmp_path / "out", "night")
    log.touch()
    for given, place in {"run.log": (log, False), "night": (night, False), "run.log@last": (log, True)}.items():
        assert module.replayed_place(tmp_path / given, tmp_path, tmp_path / "out") == place


def test_no_place_of_logs(tmp_path: Path) -> None:
    for given in ("none.log", "none@last", "last"):
        with pytest.raises(ConfigurationError, match=r"^--gsw-replay: there is no "):
            module.replayed_place(tmp_path / given, tmp_path, tmp_path)
