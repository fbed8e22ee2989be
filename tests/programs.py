"""Outputs of benchmarks, written by hand in the forms of the programs, around one figure; and tables that read it."""

from __future__ import annotations

import json
from pathlib import Path

from pytest_gsw.errors import LogError
from pytest_gsw.logs.formats.registry import format_of
from pytest_gsw.logs.reader import read_log
from pytest_gsw.tables.load import load_table
from pytest_gsw.tables.model import Baseline

_TABLE = """\
model: net
framework: {framework}
dtype: any
accelerator: H100
gpus_per_node: 8
recipe: {{directory: x}}
tables:
  - {{title: t, {keys}, rows: [{{gpus: 8, value: {value}}}]}}
"""
RULE = "-" * 80
THICK = "=" * 80


def table(keys: str, value: float = 1, framework: str = "own") -> str:
    """A table of one row."""
    return _TABLE.format(keys=keys, value=value, framework=framework)


def row_of(directory: Path, keys: str) -> Baseline:
    """The row of a table."""
    path = directory / "own.yaml"
    path.write_text(table(keys))
    return load_table(path)[0]


def figure(row: Baseline, path: Path) -> float:
    """The figure of a row in a log; a LogError if it has none."""
    log_format = format_of(row.workload.log_format, row.criterion.read, row.criterion.key_at(row.criterion.metric))
    assert log_format is not None
    log = read_log(path, log_format)
    if log.attempts > 1:
        raise LogError("two runs")
    assert [*log.figures] == [row.criterion.key_at(row.criterion.metric)]
    return log.figures[row.criterion.key_at(row.criterion.metric)][0]


def hpl(gflops: str = "4.8221e+02", size: int = 29184, time: str = "34.37", behind: str = "") -> str:
    heading = "T/V                N    NB     P     Q               Time                 Gflops"
    return (
        f"{THICK}\nHPLinpack 2.3  --  High-Performance Linpack benchmark  --   December 2, 2018\n{THICK}\n\n"
        "An explanation of the input/output parameters follows:\nT/V    : Wall time / encoded variant.\n"
        "Gflops : Rate of execution for solving the linear system.\n\n"
        f"{THICK}\n{heading}{' (   per GPU)' if behind else ''}\n{RULE}\n"
        f"WR11C2R4       {size:5d}   192     2     2        {time:>12s}             {gflops}{behind}\n"
        "HPL_pdgesv() start time Mon Oct  5 10:00:00 2026\n\nHPL_pdgesv() end time   Mon Oct  5 10:00:34 2026\n\n"
        f"{RULE}\n||Ax-b||_oo/(eps*(||A||_oo*||x||_oo+||b||_oo)*N)=   3.91824507e-03 ...... PASSED\n{THICK}\n\n"
        "Finished      1 tests with the following results:\n"
        "              1 tests completed and passed residual checks,\n"
        "              0 tests completed and failed residual checks,\n"
        f"              0 tests skipped because of illegal input values.\n{RULE}\n\nEnd of Tests.\n{THICK}\n"
    )


def hpcg(gflops: str = "231.417") -> str:
    return (
        "HPCG-Benchmark version=3.1\nRelease date=March 28, 2019\nFinal Summary=\n"
        f"Final Summary::HPCG result is VALID with a GFLOP/s rating of={gflops}\n"
        "Final Summary::HPCG 2.4 rating for historical reasons is=233.902\n"
        "Final Summary::Results are valid but execution time (sec) is=62.11\n"
    )


def stream(triad: str = "203451.7") -> str:
    rows = (("Copy", "188340.2"), ("Scale", "187114.9"), ("Add", "202887.3"), ("Triad", triad))
    return (
        f"{RULE}\nSTREAM version $Revision: 5.10 $\n{RULE}\nThis system uses 8 bytes per array element.\n{RULE}\n"
        "Function    Best Rate MB/s  Avg time     Min time     Max time\n"
        + "".join(f"{name + ':':<12s}{rate:>12s}     0.087112     0.086904     0.087533\n" for name, rate in rows)
        + f"{RULE}\nSolution Validates: avg error less than 1.000000e-13 on all three arrays\n{RULE}\n"
    )


def osu(
    figure: str = "24512.37", kind: str = "Bandwidth (MB/s)", size: int = 4194304, test: str = "MPI Bandwidth"
) -> str:
    return (
        f"\n# OSU {test} Test v7.4\n# Datatype: MPI_CHAR.\n# Size      {kind}\n"
        f"1                       3.17\n4096                 6410.66\n{size}             {figure}\n"
    )


def ior(write: str = "18432.61", read: str = "20117.44") -> str:
    names = "Max(MiB)   Min(MiB)  Mean(MiB)     StdDev   Max(OPs)   Min(OPs)  Mean(OPs)     StdDev    Mean(s) Stonewall(s) Stonewall(MiB)"

    def row(name: str, rate: str) -> str:
        behind = "0.00    4608.15    4608.15    4608.15       0.00   14.22117         NA"
        return f"{name:<8s} {rate:>12s} {rate:>10s} {rate:>10s} {behind}            NA     0     64   8    1   0 POSIX      0\n"

    return (
        "IOR-4.0.0: MPI Coordinated Test of Parallel I/O\nBegan               : Mon Oct  5 10:00:00 2026\n\nResults: \n\n"
        "access    bw(MiB/s)  IOPS       Latency(s)  block(KiB) xfer(KiB)  total(s)   iter\n"
        "------    ---------  ----       ----------  ---------- ---------  --------   ----\n"
        f"write     {write}   4608.30    0.013821    4194304    4096.00    14.22      0   \n"
        f"read      {read}   5029.51    0.012663    4194304    4096.00    13.03      0   \n\n"
        f"Max Write: {write} MiB/sec\nMax Read:  {read} MiB/sec\n\nSummary of all tests:\nOperation   {names} Test# #Tasks tPN reps fPP API RefNum\n"
        f"{row('write', write)}{row('read', read)}Finished            : Mon Oct  5 10:00:29 2026\n"
    )


def mdtest(creation: str = "31877.406", colon: str = " :") -> str:
    rows = (
        ("File creation", creation),
        ("File stat", "144902.117"),
        ("File read", "98110.552"),
        ("Tree creation", "0.000"),
    )
    return (
        "-- started at 10/05/2026 10:00:00 --\n\nmdtest-4.0.0 was launched with 64 total task(s) on 8 node(s)\n"
        "64 tasks, 64000 files\n\nSUMMARY rate: (of 1 iterations)\n"
        "   Operation                     Max            Min           Mean        Std Dev\n"
        "   ---------                     ---            ---           ----        -------\n"
        + "".join(f"   {name:<22s}{colon}{rate:>15s}{rate:>15s}{rate:>15s}          0.000\n" for name, rate in rows)
        + "-- finished at 10/05/2026 10:00:41 --\n"
    )


def fio(
    read: float = 7_113_482_240, iops: float = 1736.690123, error: int = 0, jobs: int = 1, compact: bool = False
) -> str:
    def way(rate: float, per_s: float) -> dict[str, object]:
        return {"io_bytes": 107374182400, "bw_bytes": rate, "bw": rate // 1024, "iops": per_s, "runtime": 15095}

    job = {"jobname": "seq", "error": error, "read": way(read, iops), "write": way(0, 0.0)}
    document = {"fio version": "fio-3.36", "timestamp": 1790000000, "jobs": [job] * jobs, "disk_util": []}
    text = json.dumps(document) if compact else json.dumps(document, indent=2, separators=(",", " : "))
    return f"fio: this platform does not support process shared mutexes\n{text}\n"


def nvbandwidth(total: str = "442.87", test: str = "host_to_device_memcpy_ce", version: str = "v0.8") -> str:
    return (
        f"nvbandwidth Version: {version}\nBuilt from Git version: {version}\n\nCUDA Runtime Version: 13000\n"
        f"Driver Version: 580.95.05\n\nRunning {test}.\nmemcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)\n"
        "           0         1         2         3\n 0    110.71    110.72    110.72    110.72\n\n"
        f"SUM {test} {total}\n\nNOTE: The reported results may not reflect the full capabilities of the platform.\n"
    )


def dcgm(memory: str = "Pass - All", version: str = "4.2.3") -> str:
    def row(name: str, result: str) -> str:
        return f"| {name:<25s} | {result:<46s} |\n"

    rule = f"+{'-' * 27}+{'-' * 48}+\n"
    return (
        f"Successfully ran diagnostic for group.\n{rule}{row('Diagnostic', 'Result')}{rule.replace('-', '=')}"
        f"|-----  Metadata  ----------+{'-' * 48}|\n{row('DCGM Version', version)}"
        f"|-----  Deployment  --------+{'-' * 48}|\n{row('software', 'Pass')}"
        f"+-----  Hardware  ----------+{'-' * 48}+\n{row('memory', memory)}{row('pcie', 'Skip')}{rule}"
    )


def aiperf(rate: str = "10,944.03", title: str = "NVIDIA AIPerf | LLM Metrics", wrapped: bool = False) -> str:
    def row(*cells: str, line: str = "│") -> str:
        return f"{line}{line.join(f' {cell:>38s} ' for cell in cells)}{line}\n"

    def figure(name: str, unit: str, *cells: str) -> str:
        return f"{row(name, *cells)}{row(unit, '', '')}" if wrapped else row(f"{name} {unit}", *cells)

    return (
        f"                     {title}\n┏{'━' * 40}┳{'━' * 40}┳{'━' * 40}┓\n{row('Metric', 'avg', 'p99', line='┃')}"
        f"┡{'━' * 40}╇{'━' * 40}╇{'━' * 40}┩\n{row('Time to First Token (ms)', '151.23', '715.53')}"
        f"{figure('Output Token Throughput Per User', '(tokens/sec/user)', '88.71', '97.40')}"
        f"{figure('Output Token Throughput', '(tokens/sec)', rate, 'N/A')}"
        f"{figure('Request Throughput', '(requests/sec)', '255.54', 'N/A')}{row('Request Count (requests)', '640.00', 'N/A')}"
        f"└{'─' * 40}┴{'─' * 40}┴{'─' * 40}┘\n"
    )


def trtllm(rate: str = "5530.7382", user: str = "Per User Output Throughput (tokens/sec/user):     2.0563") -> str:
    rule = "=" * 59
    return (
        f"{rule}\n= PERFORMANCE OVERVIEW\n{rule}\nRequest Throughput (req/sec):                     43.2089\n"
        f"Total Output Throughput (tokens/sec):             {rate}\n{user}\n"
        "Total Token Throughput (tokens/sec):              94022.5497\nTotal Latency (ms):                               115716.92\n"
    )


def ib_write_bw(average: str = "390.87", size: int = 65536, warning: str = "", test: str = "RDMA_Write BW") -> str:
    return (
        f"{RULE}\n                    {test} Test\n Dual-port       : OFF\t\tDevice         : mlx5_0\n{RULE}\n"
        f" #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n{warning}"
        f" {size}      5000             391.02             {average}               0.745524\n{RULE}\n"
    )


def checkpoint(slowest: str = "41.52", ranks: int = 8) -> str:
    return "".join(
        f"[rank {r}] checkpoint loaded in {slowest if r == 3 else f'38.{r}7'} s\n"
        for r in (1, 0, 2, 3, 5, 4, 7, 6)[:ranks]
    )
