"""The contenders: each in an environment of its own, each given the same jobs in its own way."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from processes import BenchmarkError, clean_environ

from tests.budget.tables import write_tables

PEERS = Path(__file__).parent / "peers"
#: What every contender gives sbatch besides a name: one GPU of one node.
SBATCH_OPTIONS = ("-N", "1", "--no-requeue", "--gres=gpu:1")
_CLUSTERS = """\
clusters:
  bench:
    scheduler: slurm
    accelerator: H100
    gpus_per_node: 8
    gpus: 256
    gres: gpu:1
    stage: {stage}
    recipes: {recipes}
"""


@dataclass(frozen=True)
class Work:
    """What a contender is to do."""

    jobs: int
    #: How long each job sleeps.
    job_s: float
    #: Seconds between two questions to Slurm; ``None`` for the contender's own default.
    interval_s: float | None


@dataclass(frozen=True)
class Contender:
    """One way to run many jobs."""

    name: str
    #: Write what it needs into the directory, and name the command.
    prepare: Callable[[Path, Work], list[str]]
    #: What its output must hold if all went well.
    success: Callable[[Work], str]
    environ: Mapping[str, str] = field(default_factory=dict)

    def check(self, output: Path, work: Work) -> None:
        """Make sure that it says itself that all jobs went well.

        Raises:
            BenchmarkError: It does not.
        """
        said = output.read_text(errors="replace")
        if re.search(self.success(work), said) is None:
            end = "\n".join(said.splitlines()[-40:])
            raise BenchmarkError(f"{self.name} does not say {self.success(work)!r}\n{end}")


class Environments:
    """A virtual environment for each contender.

    Args:
        directory: Where they are made; those of peers that are there already are used again.
        source: The pytest-gsw to measure, installed anew each time.
        log: File that takes pip's output.
    """

    def __init__(self, directory: Path, source: Path, log: Path) -> None:
        self._directory = directory
        self._source = source
        self._log = log
        self.versions: dict[str, str] = {}

    def pytest_gsw(self) -> Path:
        """The directory of pytest-gsw's programs."""
        shutil.rmtree(self._directory / "pytest-gsw", ignore_errors=True)
        return self._make("pytest-gsw", str(self._source), "pytest-gsw", "pytest")

    def reframe(self) -> Path:
        """The directory of ReFrame's programs."""
        return self._make("reframe", "reframe-hpc", "reframe-hpc")

    def submitit(self) -> Path:
        """The directory of the programs of an environment that has submitit."""
        return self._make("submitit", "submitit", "submitit")

    def _make(self, name: str, requirement: str, *told: str) -> Path:
        place = self._directory / name
        programs = place / "bin"
        if not (place / "complete").exists():
            shutil.rmtree(place, ignore_errors=True)
            venv.create(place, with_pip=True)
            with self._log.open("ab") as log:
                subprocess.run(
                    [f"{programs}/python", "-m", "pip", "install", "--disable-pip-version-check", requirement],
                    env=clean_environ(), stdout=log, stderr=subprocess.STDOUT, check=True,
                )  # fmt: skip
            (place / "complete").touch()
        ask = "import importlib.metadata as m, sys; print(*map(m.version, sys.argv[1:]))"
        done = subprocess.run(
            [f"{programs}/python", "-c", ask, *told], env=clean_environ(), stdout=subprocess.PIPE, text=True, check=True
        )
        self.versions |= dict(zip(told, done.stdout.split(), strict=True))
        return programs


def job_environ(directory: Path, work: Work) -> dict[str, str]:
    """What launch.sh and the contenders' own files are told."""
    return {
        "HOME": str(directory),
        "STAGE_PATH": f"{directory}/stage",
        "DTYPE": "fp8",
        "MODEL_SIZE": "70b",
        "NUM_NODES": "1",
        "RUN_CONF_GPU_PER_NODE": "1",
        "BENCH_JOB_S": f"{work.job_s:g}",
        "BENCH_JOBS": str(work.jobs),
        "BENCH_INTERVAL_S": "" if work.interval_s is None else f"{work.interval_s:g}",
        "BENCH_SBATCH_OPTIONS": " ".join(_joined(SBATCH_OPTIONS)),
        "BENCH_SCRIPT": str(_script(directory)),
    }


def loop() -> Contender:
    """A bash loop of sbatch; what it costs to have Slurm run the jobs, and nothing else."""

    def prepare(directory: Path, work: Work) -> list[str]:
        options = [*SBATCH_OPTIONS, str(_script(directory))]
        return ["bash", str(PEERS / "loop.sh"), str(work.jobs), f"{work.interval_s or 15:g}", *options]

    return Contender("sbatch loop", prepare, lambda _: r"\A(?:\d+\n)+\Z")


def pytest_gsw(programs: Path) -> Contender:
    """pytest with the plugin, as a user starts it: one line for each row, records, journal and JUnit."""

    def prepare(directory: Path, work: Work) -> list[str]:
        write_tables(directory / "rows", work.jobs)
        stage, recipes = directory / "stage", directory / "recipes"
        interval = "" if work.interval_s is None else f"    poll_interval: {work.interval_s:g}\n"
        (directory / "clusters.yaml").write_text(_CLUSTERS.format(stage=stage, recipes=recipes) + interval)
        (directory / "pytest.ini").write_text("[pytest]\n")
        options = ["--gsw-cluster=bench", f"--gsw-baselines={directory}/rows", "--junitxml=junit.xml"]
        return [str(programs / "pytest"), *options]

    return Contender("pytest-gsw", prepare, lambda work: rf"= {work.jobs} passed in ")


def reframe(programs: Path) -> Contender:
    """ReFrame with its asynchronous policy (its default), and a report and JUnit."""

    def prepare(_directory: Path, _work: Work) -> list[str]:
        files = ["-C", str(PEERS / "reframe_settings.py"), "-c", str(PEERS / "reframe_rows.py")]
        return [str(programs / "reframe"), *files, "--prefix=reframe", "--report-junit=junit.xml", "-r"]

    def success(work: Work) -> str:
        return rf"Ran {work.jobs}/{work.jobs} test case\(s\) from {work.jobs} check\(s\) \(0 failure\(s\)"

    return Contender("ReFrame", prepare, success)


def submitit(programs: Path) -> Contender:
    """submitit, each job a function that runs the script."""

    def prepare(_directory: Path, _work: Work) -> list[str]:
        return [str(programs / "python"), str(PEERS / "submitit_rows.py")]

    return Contender("submitit", prepare, lambda work: rf"(?m)^{work.jobs} jobs ended well$")


def set_up(directory: Path) -> None:
    """What all contenders find in their directory: the script, where a recipe has it."""
    script = _script(directory)
    script.parent.mkdir(parents=True)
    shutil.copy(PEERS / "launch.sh", script)
    (directory / "stage").mkdir()


def _script(directory: Path) -> Path:
    return directory / "recipes" / "maxtext" / "launch.sh"


def _joined(options: tuple[str, ...]) -> list[str]:
    """Options as ReFrame writes them behind #SBATCH: one line each."""
    text = " ".join(options)
    return re.sub(r"-N (\d+)", r"-N\1", text).split()
