"""The parts of benchmarks/against_base.py that measure nothing."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from benchmarks import against_base
from benchmarks.workloads import WORKLOADS
from pytest_gsw.tables.load import read_tables

LOG = """\
GSW: MODEL=pytest_gsw FRAMEWORK=program JOB_ID=7
base: 1.000 s, 50.0 MiB
new: 2.000 s, 60.0 MiB
processor time: 2.0000 of base
peak memory: 1.2000 of base
new: 3.000 s, 70.0 MiB
base: 1.500 s, 52.0 MiB
processor time: 2.0000 of base
peak memory: 1.3462 of base
"""


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a single commit, of a file that is gone since."""
    monkeypatch.setattr(against_base, "ROOT", tmp_path)
    (tmp_path / "old.py").touch()
    who = ("-c", "user.name=x", "-c", "user.email=x@y")
    for arguments in (("init", "-q"), ("add", "old.py"), (*who, "commit", "-q", "-m", "x")):
        subprocess.run(["git", *arguments], cwd=tmp_path, check=True)
    (tmp_path / "old.py").unlink()
    return tmp_path


def test_the_base_is_the_commit_of_its_file(clone: Path) -> None:
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=clone, check=True, stdout=subprocess.PIPE, text=True)
    commit = head.stdout.strip()
    assert against_base.base_commit(f"{commit[:10]}\n") == commit


@pytest.mark.parametrize("text", ["", "main", "--all", "abc", "0123456\n89abcdef"])
def test_a_base_that_is_no_commit_is_an_error(clone: Path, text: str) -> None:
    with pytest.raises(against_base.GuardError, match="wanted a commit"):
        against_base.base_commit(text)


def test_a_clone_without_the_base_is_an_error_with_the_way_to_fetch_it(
    clone: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["against_base.py", f"--base={'0' * 40}"])
    assert against_base.main() == 2
    assert "lacks 0000" in (said := capsys.readouterr().err)
    assert "next: git fetch --unshallow" in said


def test_each_workload_is_a_row_that_may_cost_so_much_more(tmp_path: Path) -> None:
    (tmp_path / "program.yaml").write_text(against_base.table(Path("/home"), "f" * 40, 0.25))
    rows = read_tables([tmp_path / "program.yaml"]).rows
    assert [row.id for row in rows] == [f"pytest_gsw_python[CPUx1-{workload.name}]" for workload in WORKLOADS]
    assert {(row.criterion.metric, row.criterion.better, row.documented.value) for row in rows} == {
        ("processor_time", "lower", 1)
    }
    assert {round(row.criterion.tolerance, 6) for row in rows} == {0.2}
    for row in rows:
        base, new = row.attributes["base"], row.attributes["new"]
        assert base != new
        assert base.replace("/base", "/this") == new


def test_a_source_is_what_git_does_not_ignore(clone: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    home = tmp_path_factory.mktemp("home")
    (clone / ".gitignore").write_text("ignored\n")
    (clone / "ignored").touch()
    (clone / "package").mkdir()
    (clone / "package" / "new.py").write_text("x = 1\n")
    trees = against_base.sources("HEAD", home)
    assert [path.name for path in trees["base"].iterdir()] == ["old.py"]
    assert {str(path.relative_to(trees["this"])) for path in trees["this"].rglob("*") if path.is_file()} == {
        ".gitignore",
        "package/new.py",
    }


def test_the_medians_of_all_runs_of_a_row(tmp_path: Path) -> None:
    (tmp_path / "7.out").write_text(LOG)
    (tmp_path / "8.out").write_text("base: 9.000 s, 90.0 MiB\n")
    first, second = {"log": str(tmp_path / "7.out")}, {"log": str(tmp_path / "8.out")}
    rows = [
        {"row": "pytest_gsw_python[CPUx1-tile-search]", "job": first, "repeats": [second]},
        {"row": "pytest_gsw_python[CPUx1-broken]", "job": {"log": None}, "repeats": []},
        {"row": "pytest_gsw_python[CPUx1-refused]", "job": None, "repeats": []},
    ]
    _, *lines = against_base.summary(rows)
    assert [line.split() for line in lines] == [
        ["tile-search", "1.50", "s", "2.50", "s", "1.67", "52", "MiB", "65", "MiB", "1.25"],
        ["broken", "not", "measured"],
        ["refused", "not", "measured"],
    ]


def test_nothing_of_the_environment_changes_what_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYTHONDONTWRITEBYTECODE", "GSW_HISTORY", "SLURM_JOB_ID", "STAGE_PATH", "PIP_INDEX_URL"):
        monkeypatch.setenv(name, "x")
    environ = against_base.clean_environ()
    assert {"PIP_INDEX_URL", "PYTHONHASHSEED"} <= environ.keys()
    assert environ.keys().isdisjoint({"PYTHONDONTWRITEBYTECODE", "GSW_HISTORY", "SLURM_JOB_ID", "STAGE_PATH"})
