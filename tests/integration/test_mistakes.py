"""Mistakes as they are typed, each answered with its exit status, its place, and the word that was meant or the next step."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_gsw.cli import main
from tests.integration.runs import write_runs
from tests.unit.tables.texts import TINY

RUN = "20261114-221000-7f3a"


def eos(lines: str = "", *, scheduler: str = "scheduler: slurm") -> str:
    return f"clusters:\n  eos:\n    {scheduler}\n    stage: stage\n" + (f"    {lines}\n" if lines else "")


def hook(text: str) -> str:
    return f"{text}\n    return None\n"


def row(written: str) -> str:
    return TINY.replace("gpus: 8, step_time_s: 1.5,", written)


#: Files by name; those whose names are typed, and those of a directory that is typed, are there.
FILES = {
    "wrong/account.yaml": eos("acount: eng"),
    "wrong/bare.yaml": eos("account: $FOO"),
    "wrong/unset.yaml": eos("account: ${GSW_UNSET}"),
    "wrong/tab.yaml": "clusters:\n\teos:\n\t\tscheduler: slurm\n",
    "wrong/top.yaml": "cluster:\n  eos:\n    scheduler: slurm\n",
    "wrong/percent.yaml": eos("tolerance: 5 percent"),
    "wrong/eight.yaml": eos("gpus_per_node: eight"),
    "wrong/interval.yaml": eos("poll_interval: 0.1"),
    "wrong/timeout.yaml": eos("timeout: 0.0"),
    "wrong/gres.yaml": eos('gres: "8"'),
    "wrong/smoke.yaml": eos("smoke: /site/check 'all"),
    "wrong/sbatch.yaml": eos("sbatch: --qos=acceptance"),
    "wrong/launcher.yaml": eos("launcher: sbach"),
    "wrong/placeholder.yaml": eos('environment: {SIZE: "{size_}"}'),
    "wrong/twice.yaml": eos("scheduler: local"),
    "wrong/colon.yaml": eos(scheduler="scheduler:slurm"),
    "wrong/quote.yaml": eos(scheduler='scheduler: "slurm'),
    "wrong/forbidden.yaml": eos("sbatch: [--nodes=4]"),
    "wrong/slrum.yaml": eos(scheduler="scheduler: slrum"),
    "wrong/h1000.yaml": eos("accelerator: H1000"),
    "wrong/blank.yaml": eos("sbatch: [--qos acceptance]"),
    "wrong/minute.yaml": eos("smoke_limit: 1m"),
    "wrong/capital.yaml": eos(scheduler="scheduler: Slurm"),
    "wrong/notes.md": "# Notes\n",
    "wrong/eos.yaml": eos("accelerator: H100"),
    "tables/key.yaml": row("gpus: 8, step_time: 1.5,"),
    "tables/framework.yaml": TINY.replace("maxtext", "maxtxt"),
    "tables/comma.yaml": row("gpus: 8, step_time_s: 1,5,"),
    "tables/negative.yaml": row("gpus: 8, step_time_s: -1.5,"),
    "tables/twice.yaml": TINY.replace("gpus: 16", "gpus: 8"),
    "tables/tab.yaml": TINY.replace("    rows:", "\trows:"),
    "tables/metric.yaml": row("gpus: 8, step_time_s: 1.5, metric: step-time,"),
    "tables/brace.yaml": TINY.replace("line: 11}", "line: 11"),
    "tables/h1000.yaml": TINY.replace("H100", "H1000"),
    "tables/capital.yaml": TINY.replace("bf16", "BF16"),
    "tables/none.yaml": row("gpus: 8,"),
    "notes/notes.md": "# Notes\n",
    "named/conftest.py": hook("def pytest_gsw_make_luncher(config, cluster):"),
    "argued/conftest.py": hook("\ndef pytest_gsw_make_launcher(config, clustr):"),
    "keyed/pytest.ini": "[pytest]\ngsw_results = .gsw\ngsw_clustr = demo\n",
    "valued/pytest.ini": "[pytest]\ngsw_cluster = dmo\n",
}
DEMO = "pytest --gsw-cluster=demo"
PLAN = "pytest --gsw-plan --gsw-cluster=eos"
ON = "pytest-gsw rows --cluster=eos --clusters=wrong"

#: What is typed, the exit status, and what the answer has: the place first, then the word that was meant or the next step.
MISTAKES: list[tuple[str, int, str, str]] = [
    # options and their values
    ("pytest --gsw-clustr=demo", 4, "option --gsw-clustr", "did you mean '--gsw-cluster'?"),
    (f"{DEMO} --gsw-stall=5", 4, "option --gsw-stall", "write it into clusters.yaml, as defaults: {stall: VALUE}"),
    (f"{DEMO} -o gsw_stall=5", 4, "key gsw_stall ", "write it into clusters.yaml, as defaults: {stall: VALUE}"),
    (f"{DEMO} -o gsw_confrm=5", 4, "key gsw_confrm ", "did you mean 'gsw_confirm'?"),
    ("pytest --gsw-cluster=dmo", 4, "no cluster 'dmo'", "did you mean 'demo'?"),
    (f"{DEMO} --gsw-tolerance=five", 4, "--gsw-tolerance: got 'five'", "wanted a percentage such as 5%"),
    (f"{DEMO} --gsw-tolerance=500", 4, "--gsw-tolerance: got '500'", "wanted a percentage such as 5%"),
    (f"{DEMO} --gsw-confirm=yes", 4, "--gsw-confirm: got 'yes'", "wanted a whole number such as 1"),
    (f"{DEMO} -o gsw_plan=maybe", 4, "gsw_plan: invalid truth value 'maybe'", "next: write true or false"),
    (f"{DEMO} -o gsw-stall=5", 4, "key gsw-stall ", "defaults: {stall: VALUE}"),
    ("pytest --gsw_cluster=demo", 4, "option --gsw_cluster ", "did you mean '--gsw-cluster'?"),
    ("pytest --cluster=demo", 4, "option --cluster ", "did you mean '--gsw-cluster'?"),
    (f"{DEMO} --gsw-profile=nsite", 4, "--gsw-profile: got 'nsite'", "did you mean 'nsight'?"),
    (f"{DEMO} --gsw-demo='*=slo:12%'", 4, "'*=slo:12%'", "did you mean 'slow'?"),
    (f"{DEMO} -k fp8 --gsw-demo='*x129]=fail'", 4, "no selected row matches '*x129]'", "next: pytest-gsw rows"),
    (f"{DEMO} -k fp8 --gsw-demo=node:demo-1=down", 4, "matches 'node:demo-1'", "did you mean 'node:demo-16'?"),
    (f"{DEMO} -k fp8 --gsw-demo='*fp8*=down'", 4, "got '*fp8*=down'", "wanted a node such as node:demo-06=down"),
    (f"{DEMO} -k fp8 --gsw-tile=block", 4, "--gsw-tile=block", "next: --gsw-tile=switch"),
    (f"{DEMO} --gsw-release=25.2", 4, "asked by: --gsw-release", "did you mean '25.02'?"),
    (f"{DEMO} --gsw-baselines=nope", 4, "--gsw-baselines", "there is no file or directory"),
    (f"{DEMO} --gsw-baselines=/dev/null", 4, "--gsw-baselines", "there is no file or directory"),
    ("pytest --gsw-plan", 4, "--gsw-plan", "add --gsw-cluster=NAME"),
    (f"{PLAN} --gsw-clusters=nope", 4, "--gsw-clusters", "next: for a cluster of that name, --gsw-cluster=nope"),
    ("pytest llama2_70b_fp8[H100x128]", 4, "-k selects rows", "--gsw-cluster=NAME -k 'llama2_70b_fp8[H100x128]'"),
    (f"{DEMO} llama2_70b_fp8", 4, "there is no file llama2_70b_fp8", "--gsw-cluster=demo -k llama2_70b_fp8"),
    ("pytest -k llama2_70b_fp8", 5, "none is named", "next: pytest --gsw-cluster=NAME -k llama2_70b_fp8"),
    (f"{DEMO} -k '(fp8 or bf16'", 4, "'-k': (fp8 or bf16", "next: close"),
    (f"{DEMO} --gsw-report=/dev/null/night", 4, "--gsw-report: /dev/null is no directory", "next: name another one"),
    (f"{DEMO} -k '*fp8*'", 4, "'-k': *fp8*", "join by and, or, not"),
    (f"{DEMO} -m gsw(dtype=fp8)", 4, "'-m': gsw(dtype=fp8)", "-m \"gsw(gpus=64, dtype='fp8')\""),
    (f"{DEMO} -m gsw(gpus>64)", 4, "'-m': gsw(gpus>64)", "next: compare by ="),
    (f"{DEMO} -m gsw(gpus='64')", 5, "-m: no row has gpus='64'", "did you mean 64?"),
    (f"{DEMO} {RUN}", 4, f"there is no file {RUN}", f"next: pytest --gsw-cluster=demo --gsw-replay={RUN}"),
    (f"cd notes && {DEMO} --gsw-baselines=. -k fp8", 5, "there is no row in .", "tables are .yaml files"),
    (f"{DEMO} --gsw-baselines=wrong/eos.yaml -k fp8", 2, "eos.yaml:1:1 ", "of another kind, by its keys clusters"),
    (f"{DEMO} --gsw-report=night.html", 4, "--gsw-report: got the file", "next: --gsw-report=night"),
    (f"{DEMO} -k none --gsw-history=nope/h.sqlite", 5, "nope/h.sqlite is a new one", "its directory is not there"),
    # runs
    (f"{DEMO} --gsw-replay=lasst", 4, "--gsw-replay", "did you mean 'last'?"),
    (f"{DEMO} --gsw-replay=20261114-2210", 4, "--gsw-replay", f"did you mean '{RUN}'?"),
    (f"{DEMO} --gsw-replay=/tmp/nope/stage", 4, "/tmp/nope/stage", "next: ls .gsw/runs, or 'last' for the newest"),
    ("pytest --gsw-resume=lasst", 4, "--gsw-resume", "did you mean 'last'?"),
    ("pytest-gsw report nope", 2, "'nope' in .gsw/runs", "next: ls .gsw/runs, or 'last' for the newest"),
    ("pytest-gsw compare last lasst", 2, "'lasst'", "did you mean 'last'?"),
    ("pytest-gsw baseline propose nope/x", 2, "there is no directory nope/x", "next: ls .gsw/runs"),
    # selection
    (f"{DEMO} -k llama2_70b_fp88", 5, "-k: no row has 'llama2_70b_fp88'", "did you mean 'llama2_70b_fp8'?"),
    (f"{PLAN} --gsw-clusters=wrong/eos.yaml -k llama3.2", 5, "-k: no row has 'llama3.2'", "did you mean 'llama3.1'?"),
    (
        f"{DEMO} --gsw-release=25.02 -k gpt_oss",
        5,
        "other releases have it: nemo:26.02,",
        "--gsw-release=nemo:26.08 -k gpt_oss",
    ),
    (f"{DEMO} -k 'fp8 and bf16'", 5, "no row matches -k 'fp8 and bf16'", "next: pytest-gsw rows"),
    (f"{DEMO} -m gsw(gpu=64)", 5, "-m: no row has a fact 'gpu'", "did you mean 'gpus'?"),
    (f"{DEMO} -m gsw(dtype='pf8')", 5, "-m: no row has dtype='pf8'", "did you mean 'fp8'?"),
    (f"{DEMO} -m prox", 5, "-m: unknown marker 'prox'", "did you mean 'proxy'?"),
    (f"{DEMO} baselines/maxtxt", 4, "baselines/maxtxt", "did you mean 'baselines/maxtext/llama2_70b.yaml'?"),
    (
        f"{DEMO} baselines/maxtext/llama2_70b.yaml::llama2_70b_fp8[H100x129]",
        4,
        "llama2_70b_fp8[H100x129]",
        "did you mean 'llama2_70b_fp8[H100x128]'?",
    ),
    # clusters.yaml
    (f"{ON}/account.yaml", 2, "account.yaml:5:5 ", "did you mean 'account'?"),
    (f"{PLAN} --gsw-clusters=wrong/bare.yaml", 4, "bare.yaml:5:14 ", "got '$FOO', wanted ${FOO}"),
    (f"{PLAN} --gsw-clusters=wrong/unset.yaml", 4, "unset.yaml:5:14 ", "export GSW_UNSET=… or write the value here"),
    (f"{ON}/tab.yaml", 2, "tab.yaml:2:1 ", "line 2 is indented with a tab, indent it with spaces"),
    (f"{ON}/top.yaml", 2, "top.yaml:1:1 ", "did you mean 'clusters'?"),
    (f"{ON}/percent.yaml", 2, "percent.yaml:5:16 ", "wanted a percentage such as 5%"),
    (f"{ON}/eight.yaml", 2, "eight.yaml:5:20 ", "wanted a whole number above 0, such as 64"),
    (f"{ON}/interval.yaml", 2, "interval.yaml:5:20 ", "wanted 0.5 to 300 seconds"),
    (f"{ON}/timeout.yaml", 2, "timeout.yaml:5:14 ", "wanted minutes above 0, such as 30"),
    (f"{PLAN} --gsw-clusters=wrong/gres.yaml", 4, "gres.yaml:5:11 ", "wanted resources of a node such as gpu:8"),
    (f"{PLAN} --gsw-clusters=wrong/smoke.yaml", 4, "smoke.yaml:5:12 ", "no closing quotation"),
    (f"{ON}/minute.yaml", 2, "minute.yaml:5:18 ", "wanted a number of seconds such as 30"),
    (f"{ON}/capital.yaml", 2, "capital.yaml:3:16 ", "did you mean 'slurm'?"),
    (f"{PLAN} --gsw-clusters=wrong/blank.yaml", 4, "blank.yaml:5:14 ", "such as --qos=acceptance"),
    (f"{ON}/sbatch.yaml", 2, "sbatch.yaml:5:13 ", "wanted a list"),
    (f"{ON}/launcher.yaml", 2, "launcher.yaml:5:15 ", "did you mean 'sbatch'?"),
    (f"{PLAN} --gsw-clusters=wrong/placeholder.yaml", 4, "placeholder.yaml:5:18 ", "did you mean 'size'?"),
    (f"{ON}/twice.yaml", 2, "twice.yaml:5:5 ", "is there twice"),
    (f"{ON}/colon.yaml", 2, "colon.yaml:4:10 ", "line 3, in which a colon may lack the space behind it"),
    (f"{ON}/quote.yaml", 2, "quote.yaml:5:1 ", "it begins in line 3"),
    (
        f"{PLAN} --gsw-clusters=wrong/forbidden.yaml",
        4,
        "forbidden.yaml:5:14 ",
        "got --nodes, which breaks the launch contract",
    ),
    (f"{PLAN} --gsw-clusters=wrong/slrum.yaml -k fp8", 4, "slrum.yaml:3:16 ", "did you mean 'slurm'?"),
    (f"{PLAN} --gsw-clusters=wrong/h1000.yaml -k fp8", 5, "h1000.yaml:5:18,", "did you mean 'H100'?"),
    # tables
    ("pytest-gsw rows tables/key.yaml", 2, "key.yaml:12:19 ", "did you mean 'step_time_s'?"),
    (f"{DEMO} --gsw-baselines=tables/framework.yaml", 2, "framework.yaml:3:12 ", "did you mean 'maxtext'?"),
    ("pytest-gsw rows tables/comma.yaml", 2, "comma.yaml:12:34 ", "a comma ends the value before it"),
    ("pytest-gsw rows tables/negative.yaml", 2, "negative.yaml:12:32 ", "wanted a number above 0, such as 4.324"),
    ("pytest-gsw rows tables/twice.yaml", 2, "twice.yaml:13:9 ", "give it a 'case' of its own"),
    ("pytest-gsw rows tables/tab.yaml", 2, "tab.yaml:11:1 ", "line 11 is indented with a tab, indent it with spaces"),
    ("pytest-gsw rows tables/metric.yaml", 2, "metric.yaml:12:45 ", "did you mean 'step_time'?"),
    ("pytest-gsw rows tables/brace.yaml", 2, "brace.yaml:14:1 ", "it begins in line 13"),
    ("pytest-gsw rows tables/capital.yaml", 2, "capital.yaml:10:12 ", "did you mean 'bf16'?"),
    ("pytest-gsw rows tables/none.yaml", 2, "none.yaml:12:9 ", "step_time_s"),
    (
        f"{PLAN} --gsw-clusters=wrong/eos.yaml --gsw-baselines=tables/h1000.yaml",
        5,
        "in tables/h1000.yaml",
        "next: correct 'accelerator'",
    ),
    ("pytest-gsw rows llama2_70b", 2, "no baselines at llama2_70b", "next: pytest-gsw rows"),
    # hooks of a conftest.py, and the ini file
    (f"cd named && {DEMO}", 4, "conftest.py:1: ", "did you mean 'pytest_gsw_make_launcher'?"),
    (f"cd argued && {DEMO}", 4, "conftest.py:2: ", "did you mean 'cluster'?"),
    ("cd keyed && pytest", 4, "pytest.ini:3:1: ", "did you mean 'gsw_cluster'?"),
    ("cd valued && pytest", 4, "no cluster 'dmo'", "did you mean 'demo'?"),
    # variables
    (f"GSW_HISTORY=postgresq://x {DEMO}", 4, "GSW_HISTORY", "wanted a SQLite file, a postgresql:// URL, or 'none'"),
    # commands
    ("pytest-gsw reprt", 2, "'reprt'", "did you mean 'report'?"),
    ("pytest-gsw --json history", 2, "--json", "did you mean 'history --json'?"),
    (
        "pytest-gsw --gsw-cluster=demo",
        2,
        "--gsw-cluster=demo",
        "it is an option of sessions, pytest --gsw-cluster=NAME",
    ),
    ("pytest-gsw rows -k fp8", 2, "arguments: -k", "next: pytest-gsw rows --help"),
    (f"pytest-gsw history --exclude {RUN}", 2, "--exclude", "did you mean 'history exclude'?"),
    (f"pytest-gsw metrics {RUN}", 2, f"there is no log in .gsw/runs/{RUN}", "wanted: *.out"),
    ("pytest-gsw import wrong/notes.md -o site", 1, "notes.md: 0 rows", "docs/importing.md says what is read"),
    ("pytest-gsw report last --fomat=junit", 2, "--fomat=junit", "did you mean '--format'?"),
    ("pytest-gsw report last --format=jnit", 2, "--format", "did you mean 'junit'?"),
    ("pytest-gsw report last --format=prometheus", 2, "--format", "did you mean 'openmetrics'?"),
    ("pytest-gsw compare last", 2, "RUN_B", "next: pytest-gsw compare RUN last"),
    ("pytest-gsw alarms acknowlege a1", 2, "'acknowlege'", "did you mean 'acknowledge'?"),
    ("pytest-gsw history excude x", 2, "'excude'", "did you mean 'exclude'?"),
    ("pytest-gsw history tiny_1b_bf16[H100x9]", 2, "'tiny_1b_bf16[H100x9]'", "did you mean 'tiny_1b_bf16[H100x8]'?"),
    ("pytest-gsw history --last=x", 2, "--last: got 'x'", "wanted a whole number above 0"),
    ("pytest-gsw history --history=nope.sqlite", 2, "nope.sqlite", "next: pytest-gsw history --add .gsw/runs/*"),
    ("pytest-gsw nodes --since=yesterday", 2, "--since: got 'yesterday'", "wanted a day such as 2026-11-30"),
    ("pytest-gsw nodes --cluster=eso", 2, "--cluster", "did you mean 'eos'?"),
    ("pytest-gsw metrics nope.log", 1, "log        nope.log", "next       find out whether the job started"),
    ("pytest-gsw metrics wrong/eos.yaml --format=maxtxt", 2, "'maxtxt'", "did you mean 'maxtext'?"),
    ("pytest-gsw import wrong/eos.yaml", 2, "-o says which directory", "next: add -o DIR"),
    ("pytest-gsw import wrong/eos.yaml -o site --labels=recips", 2, "--labels", "did you mean 'recipes'?"),
]

Answer = Callable[[str], tuple[int, str]]


@pytest.fixture
def answer(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], table: Path
) -> Answer:
    """The exit status and the text of what is typed next to a few runs; a session that is refused collects nothing."""

    def type_it(typed: str) -> tuple[int, str]:
        for name, content in FILES.items():
            if name in typed or f"cd {name.partition('/')[0]} " in typed:
                path = pytester.path / name
                path.parent.mkdir(exist_ok=True)
                path.write_text(content)
        place, _, rest = typed.rpartition("cd ")[2].rpartition(" && ")
        words = shlex.split(rest if place else typed) if "m gsw(" not in typed else typed.split()
        monkeypatch.chdir(pytester.path / place)
        while "=" in words[0]:
            monkeypatch.setenv(*words.pop(0).split("=", 1))
        if "replay" in typed or RUN in typed:
            (pytester.path / ".gsw" / "runs" / RUN).mkdir(parents=True)
        if words[0] == "pytest-gsw":
            if {"history", "nodes", "compare", "baseline"} & {*words}:
                main(["history", "--add", *map(str, write_runs(pytester.path / ".gsw", table))])
            return typed_command(words[1:])
        if "-k" in words or "-m" in words or "tables/" in typed:
            result = pytester.runpytest(*words[1:])
            return int(result.ret), "\n".join([*result.outlines, *result.errlines])
        try:
            pytester.parseconfigure(*words[1:])
        except pytest.UsageError as error:
            return int(pytest.ExitCode.USAGE_ERROR), str(error)
        return 0, ""

    def typed_command(words: list[str]) -> tuple[int, str]:
        capsys.readouterr()
        try:
            status = main(words)
        except SystemExit as end:
            status = int(end.code or 0)
        return status, "".join(capsys.readouterr())

    return type_it


@pytest.mark.parametrize(("typed", "status", "place", "step"), MISTAKES, ids=[typed for typed, *_ in MISTAKES])
def test_a_mistake_is_answered(answer: Answer, typed: str, status: int, place: str, step: str) -> None:
    found, text = answer(typed)
    assert found == status, text
    assert place in text
    assert step in text
    assert "Traceback" not in text


@pytest.mark.parametrize(
    "words",
    [
        ("import", "PLACE", "-o", "site"),
        ("import", "PLACE", "--check"),
        ("import", "doc.md", "-o", "site", "--facts", "PLACE"),
        ("rows", "PLACE"),
        ("metrics", "PLACE"),
        ("metrics", "PLACE", "--row", "llama2_70b_fp8[H100x128]"),
        ("history", "--history=PLACE"),
        ("report", "run"),
    ],
)
@pytest.mark.parametrize("place", ["/dev/zero", "pipe", "directory", "nowhere", "loop", "n\udce9"])
def test_a_place_that_is_no_file_is_told_and_bounded(
    pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], place: str
) -> None:
    os.mkfifo("pipe")
    Path("directory").mkdir()
    Path("nowhere").symlink_to("gone")
    Path("loop").symlink_to("loop")
    Path("doc.md").write_text("| GPUs | seconds |\n|---|---|\n| 8 | 1.0 |\n")
    (records := Path("run", "records")).mkdir(parents=True)
    (records / "row.json").symlink_to(place if place.startswith("/") else Path(place).absolute())
    given = [word.replace("PLACE", place) for word in words]
    status, error = main(given), capsys.readouterr().err
    assert status == 0 or (status in {1, 2} and (error.startswith("pytest-gsw") or place == "directory"))


def test_a_session_in_a_place_that_is_not_utf_8(pytester: pytest.Pytester, table: Path) -> None:
    place = Path(os.fsdecode(b"d\xe9"))
    place.mkdir()
    options = (
        "--gsw-cluster=demo",
        f"--gsw-results={place}",
        f"--gsw-history={place}/h.db",
        f"--junitxml={place}/j.xml",
    )
    result = pytester.runpytest(*options, f"--gsw-report={place}/report", "--gsw-baselines=site", "-k", "H100x8")
    result.assert_outcomes(passed=1, deselected=2)
    assert result.ret == 0
    table.rename(table.with_name(os.fsdecode(b"t\xe9.yaml")))
    result = pytester.runpytest(
        "--gsw-cluster=demo", f"--gsw-baselines={os.fsdecode(bytes(table.parent))}/t\udce9.yaml"
    )
    assert result.ret == pytest.ExitCode.USAGE_ERROR
