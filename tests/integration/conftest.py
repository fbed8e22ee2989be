"""What the integration tests share: sessions of their own on the demo cluster, without waiting."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import pytest

import pytest_gsw.demo
from pytest_gsw.cli import main
from pytest_gsw.jobs.local import LocalLauncher
from tests.integration.flux import end_all, install
from tests.shown import as_pattern, blocks
from tests.unit.tables.texts import HEAD


def tiny_table(*rows: str, framework: str = "maxtext") -> str:
    """A small table of a site's own with these rows."""
    head = HEAD.replace("maxtext", framework)
    more = "global_batch_size: 64\nmodel_flops: 6.0e+12\ntables:\n  - dtype: bf16\n    rows:\n"
    return head + more + "".join(f"      - {{{row}}}\n" for row in rows)


@pytest.fixture(autouse=True)
def _quick_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let simulated steps take no time, and keep the machine's own settings out."""
    monkeypatch.setattr(LocalLauncher, "poll_interval_s", 0.02)
    monkeypatch.setenv("GSW_DEMO_SECONDS", "0")
    monkeypatch.setenv("GSW_DEMO_SEED", "20")  # the same noise in every run
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("GSW_PYTHON", sys.executable)
    for name in ("GSW_DEMO", "STAGE_PATH", "SLURM_ACCOUNT", "SLURM_PARTITION", "ENABLE_PROFILE", "ENABLE_NCCL_TRACE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def table(pytester: pytest.Pytester) -> Path:
    """A small table of a site's own: three rows, one a proxy, one for another accelerator."""
    path = pytester.path / "site" / "tiny.yaml"
    path.parent.mkdir()
    path.write_text(
        tiny_table(
            "gpus: 8, step_time_s: 1.000, tokens_per_s: 65536, line: 10",
            "gpus: 16, step_time_s: 0.500, tokens_per_s: 131072, proxy: true, line: 11",
            "gpus: 8, accelerator: B200, step_time_s: 0.400, line: 12",
        )
    )
    return path


@pytest.fixture
def recipes(pytester: pytest.Pytester) -> Path:
    """A directory of recipes as a site has it: the simulated recipe under the documented ones' names."""
    launch = Path(pytest_gsw.demo.__file__).parent / "launch.sh"
    root = pytester.path / "recipes"
    for name in ("maxtext", "paxml", "llama3.1", "grok1"):
        (root / name).mkdir(parents=True)
        shutil.copy(launch, root / name / "launch.sh")
    return root


@pytest.fixture
def flux(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An instance of the stand-in for Flux, whose command is on the PATH; its jobs end with the test."""
    root = tmp_path_factory.mktemp("flux")
    command, instance = install(root / "bin"), root / "instance"
    instance.mkdir()
    monkeypatch.setenv("PATH", f"{command.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("FLUX_URI", f"local://{instance}")
    yield instance
    end_all(instance)


class Told(NamedTuple):
    """What a subcommand has printed."""

    out: str
    err: str


class Gsw(Protocol):
    """Runs ``pytest-gsw`` with these words, which ends with this status."""

    def __call__(self, *words: object, status: int = 0) -> Told: ...


@pytest.fixture
def gsw(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Gsw:
    # The plugins that a command loads are in this process already.
    monkeypatch.setenv("PYTEST_ADDOPTS", "-W ignore::pytest.PytestAssertRewriteWarning")

    def run(*words: object, status: int = 0) -> Told:
        capsys.readouterr()
        ended = main([*map(str, words)])
        told = Told(*capsys.readouterr())
        assert ended == status, told
        return told

    return run


def put_on_path(directory: Path, monkeypatch: pytest.MonkeyPatch, **commands: str) -> None:
    """Put commands of one's own in front of the machine's, each with what bash runs for it."""
    directory.mkdir(exist_ok=True)
    for name, body in commands.items():
        (directory / name).write_text(f"#!/bin/bash\n{body}\n")
        (directory / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{directory}{os.pathsep}{os.environ['PATH']}")


def check_page(page: Path, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the commands of a page in their order, in a directory, and compare what they print with what it shows."""
    python = f'exec "{sys.executable}"'
    put_on_path(
        directory / "bin",
        monkeypatch,
        pytest=f'{python} -m pytest "$@"',
        **{"pytest-gsw": f'{python} -c "import sys; from pytest_gsw.cli import main; sys.exit(main())" "$@"'},
    )
    monkeypatch.setenv("COLUMNS", "100")
    for line, commands, exit_status, output in blocks(page.read_text()):
        shell = ["bash", "--noprofile", "--norc", "-c", commands]
        ended = subprocess.run(shell, cwd=directory, capture_output=True, text=True, check=False)
        printed = ended.stdout + ended.stderr
        assert ended.returncode == exit_status, f"{page.name}:{line}\n{printed}"
        assert output is not None
        assert re.fullmatch(as_pattern(output), printed), f"{page.name}:{line}\n{printed}"


#: Has a session run, unless a test of the same file has had it run already; returns the directory of its run.
RunOnce = Callable[[pytest.Pytester, Callable[[], object]], Path]


@pytest.fixture(scope="module")
def run_once(tmp_path_factory: pytest.TempPathFactory) -> RunOnce:
    """For tests of a file that look at what one session has left: each has a copy, in which records name its own logs."""
    kept = tmp_path_factory.mktemp("kept")
    origins: list[str] = []

    def once(pytester: pytest.Pytester, run: Callable[[], object]) -> Path:
        here = pytester.path / ".gsw"
        if origins:
            shutil.copytree(kept / ".gsw", here)
            for record in here.glob("runs/*/records/*.json"):
                record.write_text(record.read_text().replace(origins[0], f"{here}/"))
        else:
            run()
            shutil.copytree(here, kept / ".gsw")
            origins.append(f"{here}/")
        (directory,) = (here / "runs").iterdir()
        return directory

    return once


def unwrapped(lines: Iterable[str]) -> list[str]:
    """Lines of a screen, each with those that go on with it."""
    found: list[str] = []
    for line in lines:
        if line.startswith("    ") and found:
            found[-1] += f" {line.strip()}"
        else:
            found.append(line)
    return found


def records(directory: Path) -> list[dict[str, Any]]:
    """What the records of all runs in a directory say, the newest last."""
    paths = sorted(directory.glob(".gsw/runs/*/records/*.json"), key=lambda path: path.stat().st_mtime_ns)
    return [json.loads(path.read_text()) for path in paths]


def junit(path: Path) -> dict[str, ET.Element]:
    """The test cases of a JUnit file by their names."""
    return {case.attrib["name"]: case for case in ET.parse(path).getroot().iter("testcase")}  # noqa: S314 - our own file


def properties(case: ET.Element) -> dict[str, str]:
    """The properties of one JUnit test case."""
    return {p.attrib["name"]: p.attrib["value"] for p in case.iter("property")}


def suite_properties(path: Path) -> dict[str, str]:
    """The properties of the suite of a JUnit file."""
    found = ET.parse(path).getroot().iterfind("testsuite/properties/property")  # noqa: S314 - our own file
    return {p.attrib["name"]: p.attrib["value"] for p in found}
