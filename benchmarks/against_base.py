"""This checkout against a base commit: processor time and peak memory of whole processes, judged by pytest-gsw itself.

    python benchmarks/against_base.py                        # 25 % more fails
    python benchmarks/against_base.py --more 5 --pairs 9     # 5 % more fails
    python benchmarks/against_base.py -k session --gsw-report=report --junitxml=junit.xml

base.txt has the base commit. Both sides are installed as wheels, in environments of their own. Each workload of
workloads.py is a row that runs on both sides in turn (docs/examples/program). Its figures are the costs of this
checkout divided by those of the base; 1 is documented. A row beyond the limit runs up to four times more, and the
median of its jobs decides. Other arguments are passed to the session. The exit status is the session's, or 2 if the
sides cannot be compared.
"""

from __future__ import annotations

import argparse
import io
import json
import re
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks import processes  # noqa: E402 - found from the checkout
from benchmarks.workloads import WORKLOADS, Workload  # noqa: E402 - found from the checkout

HERE = ROOT / "benchmarks"
EXAMPLE = ROOT / "docs" / "examples" / "program"
SIDES = ("base", "this")
CONFIRM = 4
_CLUSTERS = """\
clusters:
  guard:
    scheduler: local
    accelerator: CPU
    gpus_per_node: 1
    gpus: 1
    stage: {home}/stage
    poll_interval: 0.5
    timeout: 30
    environment: {{PAIRS: "{pairs}"}}
"""
_COST = re.compile(r"^(base|new): (\S+) s, (\S+) MiB$", re.MULTILINE)


class GuardError(Exception):
    """Nothing can be compared."""


def base_commit(text: str) -> str:
    """The commit that base.txt names.

    Raises:
        GuardError: It names none, or the clone lacks it.
    """
    name = text.strip()
    if re.fullmatch("[0-9a-f]{7,40}", name) is None:
        raise GuardError(f"benchmarks/base.txt: got {name[:60]!r}, wanted a commit")
    shown = subprocess.run(
        ["git", "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}"],
        cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    if shown.returncode:
        raise GuardError(f"this clone lacks {name}, the commit in benchmarks/base.txt\nnext: git fetch --unshallow")
    return shown.stdout.strip()


def sources(commit: str, home: Path) -> dict[str, Path]:
    """The files of each side, without those that git ignores."""
    trees = {side: home / "sources" / side for side in SIDES}
    archive = subprocess.run(["git", "archive", commit], cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(trees["base"], filter="data")
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
    for name in filter(None, names.split("\0")):
        if (ROOT / name).is_file():
            (trees["this"] / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, trees["this"] / name)
    return trees


def install(source: Path, environment: Path) -> None:
    """Make an environment with a wheel of a source, compiled as users have it."""
    run(sys.executable, "-m", "venv", "--without-pip", environment)
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", environment / "bin" / "python")
    run(*pip, "install", "--compile", source)


def run(*command: str | Path, folder: Path | None = None) -> None:
    """Run a command to its end.

    Raises:
        GuardError: It failed.
    """
    ended = subprocess.run(
        [str(one) for one in command], cwd=folder, env=clean_environ(), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    if ended.returncode:
        said = "\n".join(ended.stdout.splitlines()[-25:])
        raise GuardError(f"{' '.join(map(str, command))}: exit code {ended.returncode}\n{said}")


def clean_environ() -> dict[str, str]:
    """The environment of all that is measured."""
    kept = processes.clean_environ(None, "STAGE_PATH", "SLURM_", "SBATCH_")
    return kept | {"PYTHONHASHSEED": "0", "LC_ALL": "C.UTF-8"}


def command_of(workload: Workload, home: Path, side: str) -> str:
    """The command of a side's run."""
    folder = home / "work" / side
    programs = shlex.quote(f"{home / side / 'bin'}:{folder / 'slurm'}")
    return f'cd {shlex.quote(str(folder))} && PATH={programs}:"$PATH" && {workload.command}'


def table(home: Path, commit: str, more: float) -> str:
    """The rows: one for each kind of work.

    Args:
        home: The directory of both sides.
        commit: The base.
        more: Accepted further cost, such as 0.25.
    """
    rows = [
        {
            "gpus": 1,
            "case": workload.name,
            "value": 1,
            "metrics": {"peak_memory": {"value": 1, "tolerance": f"{more:.6%}"}},
            "attributes": {"base": command_of(workload, home, "base"), "new": command_of(workload, home, "this")},
        }
        for workload in WORKLOADS
    ]
    document = {
        "model": "pytest_gsw",
        "framework": "program",
        "dtype": "python",
        "accelerator": "CPU",
        "gpus_per_node": 1,
        "recipe": {"directory": "./program", "environment": {"PROGRAM": "{model}"}},
        "tables": [
            {
                "title": f"Cost of the base {commit[:12]}",
                "metric": "processor_time",
                "read": "median of processor time: {} of base",
                "unit": "x",
                "better": "lower",
                # 25 % more time is 20 % less throughput.
                "tolerance": f"{more / (1 + more):.6%}",
                "max_gain": "100000%",
                "rows": rows,
            }
        ],
    }
    return json.dumps(document, indent=2)  # which is YAML, too


def medians(log: str) -> dict[str, tuple[float, ...]]:
    """The median processor seconds and peak MiB of each side's runs in a log; a side without runs is left out."""
    runs = {
        side: [(float(s), float(mib)) for name, s, mib in _COST.findall(log) if name == side]
        for side in ("base", "new")
    }
    return {side: tuple(map(statistics.median, zip(*costs, strict=True))) for side, costs in runs.items() if costs}


def summary(records: Iterable[Mapping[str, Any]]) -> list[str]:
    """The medians of all runs of each row, one line a row."""
    lines = [f"{'':<12}{'base':>10}{'this':>10}{'ratio':>8}{'base':>12}{'this':>12}{'ratio':>8}"]
    for record in records:
        logs = [job["log"] for job in (record["job"], *record["repeats"]) if job and job["log"]]
        found = medians("".join(Path(log).read_text(errors="replace") for log in logs))
        name = record["row"].partition("x1-")[2].rstrip("]")
        if len(found) < 2:
            lines.append(f"{name:<12}not measured")
            continue
        (base_s, base_mib), (new_s, new_mib) = found["base"], found["new"]
        time_cells = f"{base_s:>8.2f} s{new_s:>8.2f} s{new_s / base_s:>8.2f}"
        lines.append(f"{name:<12}{time_cells}{base_mib:>8.0f} MiB{new_mib:>8.0f} MiB{new_mib / base_mib:>8.2f}")
    return lines


def make(commit: str, home: Path) -> None:
    """Install both sides, and write what their workloads read."""
    trees = sources(commit, home)
    install(trees["base"], home / "base")
    base, this = (home / side / "bin" / "python" for side in SIDES)
    script = HERE / "workloads.py"
    with ThreadPoolExecutor() as threads:
        other = threads.submit(install, trees["this"], home / "this")
        run(base, script, "prepare", home / "work" / "base")
        other.result()
    shutil.rmtree(home / "sources")
    run(this, script, "adopt", home / "work" / "base", home / "work" / "this")


def judge(commit: str, home: Path, more: float, pairs: int, arguments: Sequence[str]) -> int:
    """Run the session and print the medians.

    Returns:
        Its exit status.
    """
    site = home / "site"
    shutil.copytree(EXAMPLE, site)
    (site / "program.yaml").write_text(table(home, commit, more))
    (site / "clusters.yaml").write_text(_CLUSTERS.format(home=home, pairs=pairs))
    (site / "pytest.ini").write_text("[pytest]\n")
    session = [
        *(home / "this" / "bin" / "pytest", "-c", site / "pytest.ini", site / "program.yaml", "--gsw-cluster=guard"),
        *(f"--gsw-clusters={site}/clusters.yaml", f"--gsw-results={home}/results", f"--gsw-confirm={CONFIRM}"),
        *arguments,
    ]
    # The session itself cancels its jobs.
    signal.signal(signal.SIGINT, lambda *_: None)
    status = subprocess.run([str(one) for one in session], env=clean_environ(), check=False).returncode
    records = [json.loads(path.read_text()) for path in sorted(home.glob("results/runs/*/records/*.json"))]
    print("", *summary(records), "", f"base {commit[:12]}, at most {more:.0%} more", sep="\n")
    if status:
        print("next: python benchmarks/against_base.py -k WORKLOAD measures one again")
    elif any(record["outcome"] == "improved" for record in records):
        print("next: move benchmarks/base.txt, so that what is faster stays so")
    return status


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--more", type=float, default=25, metavar="PERCENT", help="accepted further cost (%(default)s)")
    parser.add_argument("--pairs", type=int, default=2, help="runs of each side in a job (%(default)s)")
    parser.add_argument("--base", help="another commit than that of base.txt")
    options, arguments = parser.parse_known_args()
    home = Path(tempfile.mkdtemp(prefix="gsw-base-"))
    try:
        commit = base_commit(options.base or (HERE / "base.txt").read_text())
        make(commit, home)
        return judge(commit, home, options.more / 100, options.pairs, arguments)
    except GuardError as error:
        print(f"against_base: {error}", file=sys.stderr)
        return 2
    finally:
        shutil.rmtree(home)


if __name__ == "__main__":
    sys.exit(main())
