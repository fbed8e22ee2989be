"""The ini file of subcommands is the one that pytest reads, by pytest's own reader."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_gsw.cli import main
from pytest_gsw.cli.arguments import read_ini
from pytest_gsw.errors import ConfigurationError

FORMS = {
    "pytest.ini": "[pytest]\ngsw_results = out\n",
    ".pytest.ini": "[pytest]\ngsw_results = out\n",
    "pyproject.toml": '[tool.pytest.ini_options]\ngsw_results = "out"\n',
    "tox.ini": "[tox]\nenvlist = x\n[pytest]\ngsw_results = out\n",
    "setup.cfg": "[metadata]\nname = x\n[tool:pytest]\ngsw_results = out\n",
}
#: Files that are none of pytest's, as the one above them is.
OTHERS = {"pyproject.toml": '[project]\nname = "x"\n', "tox.ini": "[tox]\nenvlist = x\n", "setup.cfg": "[metadata]\n"}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("GSW_HISTORY", raising=False)
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    return tmp_path


@pytest.mark.parametrize("name", FORMS)
def test_each_file_that_pytest_reads(site: Path, name: str) -> None:
    (site / name).write_text(FORMS[name])
    for other, text in OTHERS.items():
        (site / "below" / other).write_text(text)
    found = read_ini()
    assert (found.directory, found.runs) == (site, site / "out" / "runs")


def test_paths_are_relative_to_the_file(site: Path) -> None:
    text = "gsw_baselines = a 'b c'\ngsw_clusters = x.yaml\ngsw_cluster = eos\ngsw_history = h.sqlite\n"
    (site / "pytest.ini").write_text(f"[pytest]\n{text}")
    found = read_ini()
    assert found.baselines == (site / "a", site / "b c")
    assert (found.clusters, found.cluster, found.history(None)) == (site / "x.yaml", "eos", site / "h.sqlite")
    assert found.history("mine.sqlite") == Path("mine.sqlite")
    assert found.results == site / ".gsw"


def test_addopts_come_before_the_files_own_values(site: Path) -> None:
    text = "addopts = -q --gsw-cluster=dgx --gsw-baselines x --gsw-baselines=y\ngsw_cluster = eos\ngsw_baselines = z\n"
    (site / "pytest.ini").write_text(f"[pytest]\n{text}")
    assert read_ini().cluster == "dgx"
    assert {path.name for path in read_ini().baselines} == {"x", "y"}


def test_without_a_file_all_is_in_the_working_directory(site: Path) -> None:
    found = read_ini()
    assert (found.runs, found.history(None), found.tables(None)) == (
        Path(".gsw/runs"),
        Path(".gsw/history.sqlite"),
        None,
    )


@pytest.mark.parametrize(("options", "named"), [([], "eos"), (["--cluster=jz"], "jz")])
def test_the_command_line_comes_first(
    site: Path, capsys: pytest.CaptureFixture[str], options: list[str], named: str
) -> None:
    (site / "pytest.ini").write_text("[pytest]\ngsw_cluster = eos\ngsw_clusters = x.yaml\n")
    (site / "x.yaml").write_text("clusters: {other: {scheduler: slurm}}\n")
    assert main(["rows", *options]) == 2
    errors = capsys.readouterr().err
    assert named in errors
    assert "x.yaml" in errors


def test_a_file_that_cannot_be_read_is_named(site: Path) -> None:
    (site / "pytest.ini").write_text("[pytest\n")
    with pytest.raises(ConfigurationError, match=r"pytest\.ini"):
        read_ini()


@pytest.mark.parametrize("key", ["history", "results", "cluster", "clusters", "baselines"])
@pytest.mark.parametrize("line", ["gsw_{} =", "addopts = --gsw-{}=", "addopts = -q --gsw-{} ' '"])
def test_an_empty_key_is_no_absent_one(site: Path, key: str, line: str) -> None:
    (site / "pytest.ini").write_text(f"[pytest]\n{line.format(key)}\n")
    with pytest.raises(ConfigurationError, match=f"^{'gsw_' if line.startswith('gsw') else '--gsw-'}{key} is empty"):
        getattr(read_ini(), key) if key != "history" else read_ini().history(None)
