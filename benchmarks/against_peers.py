"""pytest-gsw against what one would use instead, on one real Slurm cluster on this machine.

    python benchmarks/against_peers.py [--jobs 500] [--rounds 2] [--quick] [-o FILE.json] [--markdown]

Needs root and Slurm's packages (as tests/slurm do), a package index for pip, and tabulate. Makes an environment for
each contender, starts a cluster of 32 nodes with 8 made-up GPUs each, and measures in pairs: in each round all
contenders run the same jobs on the same cluster, one after another, in turned order in every other round. Ratios are
the median over the rounds of the ratio within a round; ReFrame, which takes several times as long, is in one. Every
job is looked up in accounting: a contender whose jobs did not all end well ends the benchmark.

benchmarks/README.md tells what each line of the table means.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from bench_cluster import Seen, SlurmCluster, cancelled, measured, missing_requirements
from contenders import Contender, Environments, Work, loop, pytest_gsw, reframe, submitit
from processes import BenchmarkError, Usage, clean_environ, run
from tabulate import tabulate

from tests.budget.tables import write_tables

HERE = Path(__file__).parent

#: For all contenders of the wall comparison alike.
INTERVAL_S = 1.0


@dataclass(frozen=True)
class Scale:
    """How large all of it is."""

    jobs: int = 500
    rounds: int = 2
    #: ReFrame takes several times as long, so that fewer rounds tell.
    peer_rounds: int = 1
    #: Jobs at each contender's own interval, which is long for peers.
    default_jobs: int = 200
    scaling: tuple[int, int] = (100, 1000)
    cancel_jobs: int = 300
    #: A peer that needs longer to cancel is given up.
    cancel_limit_s: float = 30
    collect_rows: int = 10_000
    log_mb: int = 1024
    followed_logs: int = 500


@dataclass(frozen=True)
class Line:
    """One line of the table. What is smaller is better, throughout."""

    what: str
    ours: str
    against: str = ""
    theirs: str = ""
    ratio: float | None = None
    target: str = ""
    reached: bool | None = None


@dataclass
class Bench:
    """What all parts share."""

    scale: Scale
    environments: Environments
    cluster: SlurmCluster | None
    programs: Path
    #: Everything measured, by part, for the JSON file.
    raw: dict[str, Any] = field(default_factory=dict)
    _peers: dict[str, Contender] = field(default_factory=dict)

    @property
    def ours(self) -> Contender:
        return pytest_gsw(self.programs)

    @property
    def slurm(self) -> SlurmCluster:
        assert self.cluster is not None
        return self.cluster

    def peer(self, name: str) -> Contender:
        """ReFrame or submitit; its environment is made when it is first asked for."""
        if name not in self._peers:
            make = {"reframe": reframe, "submitit": submitit}[name]
            self._peers[name] = make(getattr(self.environments, name)())
        return self._peers[name]

    def rounds(self, contenders: Sequence[Contender], work: Work, part: str) -> dict[str, list[Seen]]:
        """Let them all run, round by round, in turned order every other round."""
        seen: dict[str, list[Seen]] = {contender.name: [] for contender in contenders}
        for number in range(self.scale.rounds):
            for contender in contenders[:: -1 if number % 2 else 1]:
                if contender.name == "ReFrame" and number >= self.scale.peer_rounds:
                    continue
                result = measured(self.slurm, contender, work)
                seen[contender.name].append(result)
                usage = result.usage
                _say(
                    f"{part} {work.jobs} jobs, round {number + 1}: {contender.name} {usage.wall_s:.1f} s, own CPU "
                    f"{usage.own_cpu_s:.2f} s, children {usage.children_cpu_s:.2f} s, {result.after_s:.1f} s after the "
                    f"last job, {result.queries} queries "
                    f"{result.controller | {'sacct': result.accounting}}"
                )
        self.raw.setdefault(part, []).append(
            {"work": asdict(work), "seen": {name: [asdict(result) for result in of] for name, of in seen.items()}}
        )
        return seen


def wall(bench: Bench) -> Iterator[Line]:
    """The same jobs with the same interval: time, processor time, queries."""
    work = Work(bench.scale.jobs, 1, INTERVAL_S)
    peer = bench.peer("reframe")
    seen = bench.rounds([loop(), bench.ours, peer], work, "wall")
    ours = seen["pytest-gsw"]
    jobs = f"{work.jobs} jobs of 1 s"
    for name, target in (("sbatch loop", 1.0), ("ReFrame", 1.0)):
        yield _compared(f"{jobs}, wall", ours, name, seen[name], lambda one: one.usage.wall_s, "s", target)
    for name in ("sbatch loop", "ReFrame"):
        yield _compared(f"{jobs}, seconds after the last job", ours, name, seen[name], lambda one: one.after_s, "s")
    own_ms = statistics.median(one.usage.own_cpu_s / work.jobs * 1000 for one in ours)
    theirs = seen["ReFrame"]
    yield Line(
        "own CPU per row",
        f"{own_ms:.1f} ms",
        "ReFrame",
        f"{statistics.median(one.usage.own_cpu_s / work.jobs * 1000 for one in theirs):.1f} ms",
        _ratio(ours, theirs, lambda one: one.usage.own_cpu_s),
        "≤ 10 ms",
        own_ms <= 10,
    )
    yield _compared("CPU of sbatch, squeue and the like", ours, "ReFrame", theirs, _children_cpu_s, "s")
    yield _compared(
        "CPU of sbatch, squeue and the like", ours, "sbatch loop", seen["sbatch loop"], _children_cpu_s, "s"
    )
    yield _queries_line(f"{jobs}, queries", ours, "ReFrame", theirs, INTERVAL_S)


def scaling(bench: Bench) -> Iterator[Line]:
    """The wall time's ratio with few jobs and with many."""
    ratios = []
    for jobs in bench.scale.scaling:
        seen = bench.rounds([loop(), bench.ours], Work(jobs, 1, INTERVAL_S), "scaling")
        line = _compared(
            f"{jobs} jobs of 1 s, wall", seen["pytest-gsw"], "sbatch loop", seen["sbatch loop"], _wall_s, "s"
        )
        ratios.append(line.ratio or 0.0)
        yield line
    few, many = bench.scale.scaling
    change = ratios[1] / ratios[0]
    yield Line(f"that ratio, {many} against {few} jobs", "", ratio=change, target="≤ 1.00", reached=change <= 1.0)


def load(bench: Bench) -> Iterator[Line]:
    """Queries with each contender's own default interval, once; what keeps a peer from being measured, its line has."""
    work = Work(bench.scale.default_jobs, 1, None)
    contenders = [bench.ours, bench.peer("reframe"), bench.peer("submitit")]
    seen: dict[str, list[Seen]] = {}
    problems: dict[str, str] = {}
    for contender in contenders:
        try:
            one = measured(bench.slurm, contender, work)
        except BenchmarkError as error:
            if contender is contenders[0]:
                raise
            problems[contender.name] = str(error).partition("\n")[0]
            _say(f"load: {problems[contender.name]}")
            continue
        seen[contender.name] = [one]
        _say(f"load: {contender.name} {one.usage.wall_s:.1f} s, {one.controller}, sacct {one.accounting}")
    bench.raw["load"] = {name: asdict(one) for name, (one,) in seen.items()}
    ours = seen["pytest-gsw"]
    for name in ("ReFrame", "submitit"):
        line = _queries_line(f"{work.jobs} jobs of 1 s, queries at the defaults", ours, name, seen.get(name, ours), 15)
        yield replace(line, theirs=f"failed: {problems[name]}", ratio=None) if name in problems else line


def cancel(bench: Bench) -> Iterator[Line]:
    """Ctrl-C with all jobs in the queue."""
    scale = bench.scale
    work = Work(scale.cancel_jobs, 600, INTERVAL_S)
    results = {}
    for contender in (loop(), bench.ours, bench.peer("reframe")):
        by_hand = contender.name == "sbatch loop"
        results[contender.name] = cancelled(bench.slurm, contender, work, scale.cancel_limit_s, by_hand=by_hand)
        _say(f"cancel: {contender.name} {results[contender.name]}")
    bench.raw["cancel"] = {name: asdict(result) for name, result in results.items()}
    ours, theirs = results["pytest-gsw"], results["ReFrame"]
    scancel_s = results["sbatch loop"].gone_s or scale.cancel_limit_s
    limit_s = scale.cancel_limit_s
    what = f"Ctrl-C with {work.jobs} jobs"
    yield Line(
        f"{what}: process ended",
        _seconds(ours.process_s, limit_s),
        "ReFrame",
        _seconds(theirs.process_s, limit_s),
        (ours.process_s or limit_s) / (theirs.process_s or limit_s),
        "≤ 3 s",
        ours.process_s is not None and ours.process_s <= 3,
    )
    left = f" ({theirs.left} left)" if theirs.left else ""
    yield Line(
        f"{what}: no job pending or running",
        _seconds(ours.stopped_s, limit_s),
        "ReFrame",
        _seconds(theirs.stopped_s, limit_s) + left,
        (ours.stopped_s or limit_s) / (theirs.stopped_s or limit_s),
        "≤ 3 s",
        ours.stopped_s is not None and ours.stopped_s <= 3,
    )
    yield Line(
        f"{what}: queue empty",
        _seconds(ours.gone_s, limit_s),
        "one scancel by hand",
        f"{scancel_s:.1f} s",
        (ours.gone_s or limit_s) / scancel_s,
    )


def collect(bench: Bench) -> Iterator[Line]:
    """--collect-only with many rows, against as many cases of parametrize."""
    rows = bench.scale.collect_rows
    taken: dict[str, list[Usage]] = {"tables": [], "parametrize": []}
    with tempfile.TemporaryDirectory(prefix="gsw-bench-") as name:
        directory = Path(name)
        (directory / "pytest.ini").write_text("[pytest]\n")
        write_tables(directory / "rows", rows)
        (directory / "test_rows.py").write_text(
            "import pytest\n\n\n"
            f'@pytest.mark.parametrize("row", range({rows}))\n'
            "def test_row(row):\n    assert row >= 0\n"
        )
        pytest = [str(bench.programs / "pytest"), "--collect-only", "-q"]
        clusters = directory / "clusters.yaml"
        clusters.write_text(
            "clusters:\n  bench:\n    scheduler: slurm\n    accelerator: H100\n    stage: stage\n    recipes: recipes\n"
        )
        commands = {
            "tables": [*pytest, "--gsw-cluster=bench", f"--gsw-baselines={directory}/rows"],
            "parametrize": [*pytest, "-p", "no:pytest_gsw.plugin", "test_rows.py"],
        }
        output = directory / "output"
        for number in range(max(bench.scale.rounds, 3)):
            for kind in list(commands)[:: -1 if number % 2 else 1]:
                usage = run(commands[kind], directory, clean_environ() | {"HOME": name}, output)
                lines = sum(line.endswith("]") for line in output.read_text().splitlines())
                if lines != rows:
                    raise BenchmarkError(f"{kind}: {lines} lines, wanted {rows}\n{output.read_text()[-2000:]}")
                taken[kind].append(usage)
                _say(f"collect {kind}: {usage.wall_s:.2f} s, {usage.peak_mib:.0f} MiB")
    bench.raw["collect"] = {kind: [asdict(usage) for usage in usages] for kind, usages in taken.items()}
    ours, theirs = taken["tables"], taken["parametrize"]
    what = f"collecting {rows:,} rows"
    yield _compared(f"{what}, wall", ours, "parametrize", theirs, lambda usage: usage.wall_s, "s", 1.3)
    yield _compared(f"{what}, peak memory", ours, "parametrize", theirs, lambda u: u.peak_mib, "MiB", 1.3)


def logs(bench: Bench) -> Iterator[Line]:
    """benchmarks/read_logs.py, in pytest-gsw's environment."""
    measured_logs = _of_script(bench, "read_logs.py", "--size-mb", str(bench.scale.log_mb))
    bench.raw["logs"] = measured_logs
    for one in measured_logs:
        peak = "" if one["peak_mib"] is None else f", {one['peak_mib']:.0f} MiB"
        yield Line(
            f"{bench.scale.log_mb} MB log, {one['what']}",
            f"{one['ours_s'] * 1000:.1f} ms{peak}",
            one["against"],
            f"{one['theirs_s'] * 1000:.1f} ms",
            one["ours_s"] / one["theirs_s"],
            one["target"],
            one["reached"],
        )


def follow(bench: Bench) -> Iterator[Line]:
    """benchmarks/follow_logs.py, in pytest-gsw's environment."""
    bench.raw["follow"] = _of_script(bench, "follow_logs.py", "--logs", str(bench.scale.followed_logs))
    for one in bench.raw["follow"]:
        yield Line(
            f"following {bench.scale.followed_logs} growing logs, {one['case']}",
            f"{one['of_one_core']:.2%} of a core",
            target="< 5 %",
            reached=one["of_one_core"] < 0.05,
        )


def _of_script(bench: Bench, script: str, *options: str) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="gsw-bench-") as name:
        output = Path(name) / "output"
        command = [str(bench.programs / "python"), str(HERE / script), *options, "--json"]
        run(command, Path(name), clean_environ() | {"PYTHONDONTWRITEBYTECODE": "1"}, output)
        read: list[dict[str, Any]] = json.loads(output.read_text())
        return read


# -- figures ----------------------------------------------------------------------------------


def _wall_s(one: Seen) -> float:
    return one.usage.wall_s


def _children_cpu_s(one: Seen) -> float:
    return one.usage.children_cpu_s


def _ratio(ours: Sequence[Any], theirs: Sequence[Any], figure: Callable[[Any], float]) -> float:
    """The median over the rounds that both took part in of what ours took for each of theirs."""
    return statistics.median(figure(one) / max(figure(other), 1e-9) for one, other in zip(ours, theirs, strict=False))


def _compared(
    what: str,
    ours: Sequence[Any],
    against: str,
    theirs: Sequence[Any],
    figure: Callable[[Any], float],
    unit: str,
    target: float | None = None,
) -> Line:
    ratio = _ratio(ours, theirs, figure)
    medians = [statistics.median(map(figure, of)) for of in (ours, theirs)]
    shown = [f"{median:.1f} {unit}" if median >= 0.95 else f"{median:.2f} {unit}" for median in medians]
    wanted = "" if target is None else f"≤ {target:.2f}"
    return Line(what, shown[0], against, shown[1], ratio, wanted, None if target is None else ratio <= target)


def _queries_line(what: str, ours: Sequence[Seen], against: str, theirs: Sequence[Seen], interval_s: float) -> Line:
    """Queries against one an interval, and one for each batch that has ended: at most one an interval as well."""
    allowed = [2 * (int(one.usage.wall_s / interval_s) + 1) for one in ours]
    counts = [statistics.median_high(one.queries for one in of) for of in (ours, theirs)]
    reached = all(one.queries <= most for one, most in zip(ours, allowed, strict=True))
    ratio = _ratio(ours, theirs, lambda one: one.queries)
    shown = [f"{count:g} ({_median_one(of)})" for count, of in zip(counts, (ours, theirs), strict=True)]
    return Line(what, shown[0], against, shown[1], ratio, f"≤ {statistics.median_high(allowed):g}", reached)


def _median_one(seen: Sequence[Seen]) -> str:
    """How the queries of the round in the middle were asked."""
    one = sorted(seen, key=lambda other: other.queries)[len(seen) // 2]
    return f"{one.queries - one.accounting} slurmctld, {one.accounting} slurmdbd"


def _seconds(seconds: float | None, limit_s: float) -> str:
    return f"> {limit_s:g} s" if seconds is None else f"{seconds:.1f} s"


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')}  {text}", file=sys.stderr, flush=True)


# -- the table --------------------------------------------------------------------------------


def table(lines: Sequence[Line], markdown: bool) -> str:
    """What was measured, one line each."""
    reached = {True: "yes", False: "NO", None: ""}
    rows = [
        (
            line.what,
            line.ours,
            line.against,
            line.theirs,
            "" if line.ratio is None else f"{line.ratio:.2f}" if line.ratio >= 0.095 else f"{line.ratio:.2g}",
            line.target,
            reached[line.reached],
        )
        for line in lines
    ]
    headers = ("what", "pytest-gsw", "against", "theirs", "ratio", "to reach", "reached")
    return tabulate(rows, headers, tablefmt="github" if markdown else "simple", disable_numparse=True)


def machine(bench: Bench) -> dict[str, Any]:
    """What the figures depend on."""
    slurm = subprocess.run(["sinfo", "--version"], env=bench.slurm.environ, capture_output=True, text=True, check=True)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "date": time.strftime("%Y-%m-%d"),
        "cores": os.cpu_count(),
        "memory_gib": round(memory / 2**30),
        "load_before": os.getloadavg()[0],
        "python": platform.python_version(),
        "slurm": slurm.stdout.split()[-1],
        "nodes": len(bench.slurm.node_names),
        "gpus_per_node": bench.slurm.gpus_per_node,
        "poll_interval_s": INTERVAL_S,
        "scale": asdict(bench.scale),
    }


def main() -> int:
    """Measure, print, write."""
    options = _options()
    problem = missing_requirements()
    if problem is not None:
        print(problem, file=sys.stderr)
        return 2
    if options.quick:
        scale = Scale(options.jobs or 30, options.rounds or 1, 1, 30, (10, 40), 30, 30, 1000, 64, 50)
    else:
        scale = Scale(options.jobs or 500, options.rounds or 2)
    with ExitStack() as stack:
        place = options.environments or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gsw-bench-env-")))
        place.mkdir(parents=True, exist_ok=True)
        environments = Environments(place.resolve(), options.source.resolve(), place / "pip.log")
        _say("environments")
        programs = environments.pytest_gsw()
        _say("cluster")
        cluster = stack.enter_context(SlurmCluster(32, gpus_per_node=8))
        bench = Bench(scale, environments, cluster, programs)
        facts = machine(bench)
        lines: list[Line] = []
        for part in options.parts:
            _say(part)
            lines += PART_FUNCTIONS[part](bench)
            print(table(lines, markdown=False), file=sys.stderr, flush=True)
            facts["versions"] = environments.versions
            if options.output:  # after each part: what was measured is not lost to a later one
                result = {"machine": facts, "table": [asdict(line) for line in lines], "raw": bench.raw}
                options.output.write_text(json.dumps(result, indent=1) + "\n")
    print(table(lines, options.markdown))
    print(f"\n{_conditions(facts)}")
    return 0


PART_FUNCTIONS: dict[str, Callable[[Bench], Iterator[Line]]] = {
    "wall": wall,
    "scaling": scaling,
    "load": load,
    "cancel": cancel,
    "collect": collect,
    "logs": logs,
    "follow": follow,
}


def _conditions(facts: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    return (
        f"{facts['date']}, {facts['cores']} cores, {facts['memory_gib']} GiB, load {facts['load_before']:.1f} before, "
        f"Python {facts['python']}, Slurm {facts['slurm']} with {facts['nodes']} nodes x {facts['gpus_per_node']} "
        f"GPUs, {versions}; median of {facts['scale']['rounds']} rounds, interval {facts['poll_interval_s']:g} s"
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="pytest-gsw against what one would use instead.")
    parser.add_argument("--jobs", type=int, help="jobs of the main comparison (default: 500)")
    parser.add_argument("--rounds", type=int, help="rounds of each pair (default: 2)")
    parser.add_argument("--quick", action="store_true", help="everything small, one round: to see that it works")
    parser.add_argument(
        "--parts",
        nargs="+",
        choices=[*PART_FUNCTIONS],
        default=[*PART_FUNCTIONS],
        help="what to measure (default: all)",
    )
    parser.add_argument("--source", type=Path, default=HERE.parent, help="the pytest-gsw to measure (this checkout)")
    parser.add_argument("--environments", type=Path, help="keep the environments here, and take peers' from here")
    parser.add_argument("-o", "--output", type=Path, help="write everything measured to this JSON file")
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
