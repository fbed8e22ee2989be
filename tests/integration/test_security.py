"""What others write reaches screen, records and JUnit without secrets and control characters; names stay names."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from lxml import etree

from pytest_gsw.clusters import Cluster, Submission, find_cluster
from pytest_gsw.common.redact import UNSAFE
from pytest_gsw.demo.simulation import parse_faults
from pytest_gsw.errors import FileError
from pytest_gsw.jobs.model import JobSpec
from pytest_gsw.tables.load import load_table
from tests.endless import it_ends
from tests.integration.conftest import Gsw, put_on_path
from tests.messages import wording

ROW = "llama2_70b_fp8 and H100x64"
IN_SESSION = "correct-horse-battery"
IN_CLUSTER = "staple-of-the-cluster"
UNKNOWN = "hf_" + "aZ3kQ9" * 5
SECRETS = (IN_SESSION, IN_CLUSTER, UNKNOWN, "hunter2")

#: A terminal's title, colours, a carriage return, a bell, NUL, text from right to left, half a character.
CONTROL = "\x1b]0;own\x07\x1b[31mred\x1b[0m\r\x07\x00\u202egnp\u2066\u200b\x9b"

#: Runs a session; tells what it has shown.
Run = Callable[..., pytest.RunResult]
Shown = Callable[[pytest.RunResult], str]


@pytest.fixture
def cluster(pytester: pytest.Pytester, table: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs the one row of a site on a cluster whose launch script ends with the given lines."""
    monkeypatch.setenv("HF_TOKEN", IN_SESSION)

    def run(script: str, *options: str, scheduler: str = "local") -> pytest.RunResult:
        launch = pytester.path / "recipes" / "tiny" / "launch.sh"
        launch.parent.mkdir(parents=True, exist_ok=True)
        launch.write_bytes(b"#!/bin/bash\n" + script.encode("utf-8", "surrogateescape"))
        (pytester.path / "clusters.yaml").write_text(
            "defaults: {poll_interval: 0.5}\n"
            f"clusters: {{here: {{scheduler: {scheduler}, accelerator: H100, gpus: 8, stage: stage, recipes: recipes, "
            f"environment: {{SITE_API_KEY: {IN_CLUSTER}}}}}}}\n"
        )
        return pytester.runpytest(
            *("--gsw-cluster=here", f"--gsw-baselines={table.parent}", "--junitxml=junit.xml", "-ra", *options)
        )

    return run


@pytest.fixture
def shown(gsw: Gsw, pytester: pytest.Pytester) -> Shown:
    """Tells everything that a session has shown or written, but for what the jobs themselves wrote."""

    def tell(result: pytest.RunResult) -> str:
        files = [pytester.path / "junit.xml"]
        for directory in (pytester.path / ".gsw" / "runs").iterdir():
            files += [directory / "journal.jsonl", directory / "live.jsonl", *directory.glob("records/*")]
            files.append(pytester.path / "rebuilt.xml")
            gsw("report", "--format=junit", directory, "-o", "rebuilt.xml")
        texts = [file.read_text() for file in files if file.exists()]
        for file in files:
            if file.suffix == ".xml":
                etree.parse(file)
        return "\n".join([str(result.stdout), str(result.stderr), *texts])

    return tell


def check(text: str) -> None:
    """Make sure that nothing that was shown holds a secret or a control character."""
    assert not [secret for secret in SECRETS if secret in text]
    unsafe = re.compile(f"{UNSAFE.pattern}|\\\\u(?:00[01][0-8b-f]|202[a-e]|206[6-9]|d[89a-f])")  # JSON's spelling, too
    assert unsafe.findall(text) == []


LEAK = f"""\
set -x
: curl -H "Authorization: Bearer hunter2" https://me:hunter2@host/x
: $HF_TOKEN $SITE_API_KEY {UNKNOWN}
"""


@pytest.mark.parametrize(
    ("last", "fact"),
    [
        (
            'echo "RuntimeError: CUDA out of memory. password=hunter2 $HF_TOKEN $SITE_API_KEY"; exit 1',
            "job * CUDA out*",
        ),
        ("env | grep -E 'TOKEN|KEY'; kill -9 $$", "job * failed by signal 9"),
    ],
)
def test_what_a_job_prints(cluster: Run, shown: Shown, last: str, fact: str) -> None:
    result = cluster(LEAK + last)
    result.assert_outcomes(errors=1, skipped=1)
    result.stdout.fnmatch_lines([fact])
    text = shown(result)
    assert "***" in text
    check(text)


def test_the_log_of_a_run_that_was_cut(pytester: pytest.Pytester, cluster: Run, shown: Shown) -> None:
    log = "stage/results/x/bf16/1b/8/log-maxtext_tiny_1b_8_$SLURM_JOB_ID.out"
    script = f'cd {pytester.path}; mkdir -p $(dirname {log}); echo "step: token=$HF_TOKEN {UNKNOWN}" > {log}'
    result = cluster(script)
    result.stdout.fnmatch_lines(
        [wording("no step times", log_format="maxtext") + ": *", "last       step: token=[*][*][*] [*][*][*]"]
    )
    check(shown(result))
    (written,) = pytester.path.glob("stage/results/*/*/*/*/*.out")
    assert IN_SESSION in written.read_text()  # a job's own log is the job's affair


SAID = f"{CONTROL} HF_TOKEN={IN_SESSION} {IN_CLUSTER} {UNKNOWN} password: hunter2"
SAID = SAID.replace("\0", "").replace("\r", "")  # no argument holds the one, and the other ends a line


def test_what_sbatch_says(
    pytester: pytest.Pytester, cluster: Run, shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_on_path(
        pytester.path / "bin",
        monkeypatch,
        sbatch=f"cat >&2 <<'END'\nsbatch: error: Batch job submission failed: {SAID}\nEND\nexit 1\n",
        squeue="exit 0\n",
        sacct="exit 0\n",
    )
    result = cluster("", scheduler="slurm")
    result.assert_outcomes(errors=1, skipped=1)
    result.stdout.fnmatch_lines(
        ["sbatch refused the job: redgnp HF_TOKEN=[*][*][*] [*][*][*] [*][*][*] password: [*][*][*]"]
    )
    check(shown(result))


def test_what_squeue_and_sacct_say(
    pytester: pytest.Pytester, cluster: Run, shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = pytester.path / "name"
    put_on_path(
        pytester.path / "bin",
        monkeypatch,
        sbatch=f'[[ $1 == --version ]] && exit\nwhile [[ $1 != -J ]]; do shift; done; echo "$2" > {name}; echo 7\n',
        scontrol="exit 1\n",
        squeue="exit 0\n",
        sacct=f"now=$(date +%s)\ncat <<END\n7|FAILED|2:0|0:0|{SAID}|n\x1b[1m[1-2]|$now|$now|$now|$(cat {name})\nEND\n",
    )
    result = cluster("", scheduler="slurm")
    result.assert_outcomes(errors=1, skipped=1)
    result.stdout.fnmatch_lines(
        [wording("failed", job=7, code=2), "reason *redgnp HF_TOKEN=[*][*][*] [*][*][*] [*][*][*] password: [*][*][*]"]
    )
    text = shown(result)
    assert '"nodes": "n[1-2]"' in text
    check(text)


def test_a_plan(pytester: pytest.Pytester, cluster: Run) -> None:
    result = cluster("", "--gsw-plan")
    result.stdout.fnmatch_lines(["  environment  SITE_API_KEY=[*][*][*]"])
    check(str(result.stdout))


def test_a_wrong_cluster_file(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", IN_SESSION)
    pytester.makefile(".yaml", clusters="clusters: {here: {scheduler: slurm, stage: s, sbatch: ['${HF_TOKEN}']}}")
    result = pytester.runpytest("--gsw-cluster=here")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["*clusters.here.sbatch: got '[*][*][*]', wanted options of one list entry each, such as --qos=acceptance"]
    )


def test_a_hook_that_fails(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", IN_SESSION)
    pytester.makeconftest(
        """\
import os
def judge(environment, spec): raise ValueError(environment["HF_TOKEN"])
def pytest_gsw_judge(config, baseline): judge({"HF_TOKEN": os.environ["HF_TOKEN"]}, "\\x1b[31m")
"""
    )
    result = pytester.runpytest("--gsw-cluster=demo", "-k", ROW, "--showlocals", "--junitxml=junit.xml")
    result.assert_outcomes(errors=1, deselected=140)
    result.stdout.fnmatch_lines(["pytest_gsw_judge of conftest.py raised ValueError: [*][*][*]"])
    check(f"{result.stdout}{(pytester.path / 'junit.xml').read_text()}")


def test_what_a_traceback_would_show_of_a_job_and_of_a_cluster() -> None:
    facts = {"environment": {"HF_TOKEN": "hunter2"}}
    spec = JobSpec("r", "n", Path("s"), Path(), Path(), 1, 8, **facts, options=("--export=ALL,HF_TOKEN=hunter2",))
    cluster = Cluster("here", "slurm", **facts, submission=Submission(sbatch=("--comment=hunter2",)))
    assert "hunter2" not in f"{spec!r} {cluster!r}"


@pytest.fixture
def recorded(pytester: pytest.Pytester) -> Path:
    """A run whose record holds what Slurm had said as it was."""
    result = pytester.runpytest("--gsw-cluster=demo", "--gsw-demo=*=exit:3", "-k", ROW)
    result.assert_outcomes(errors=1, deselected=140)
    (directory,) = (pytester.path / ".gsw" / "runs").iterdir()
    (path,) = directory.glob("records/*.json")
    record = json.loads(path.read_text())
    record["fact"] = f"job failed: {CONTROL} {UNKNOWN} {IN_SESSION}"
    record["not_comparable"] = CONTROL
    record["job"]["reason"] = f"{CONTROL} password=hunter2"
    record["job"]["nodes"] = f"n1{CONTROL}"
    path.write_text(json.dumps(record))
    return directory


def test_a_hostile_record_as_junit(recorded: Path, monkeypatch: pytest.MonkeyPatch, gsw: Gsw) -> None:
    monkeypatch.setenv("HF_TOKEN", IN_SESSION)
    text = gsw("report", "--format=junit", recorded).out
    (case,) = etree.fromstring(text.encode()).iter("testcase")
    assert case.find("error").get("message") == 'failed on setup with "job failed: redgnp *** ***"'
    check("".join(case.itertext()) + " ".join(value for one in case.iter() for value in one.attrib.values()))


def test_the_metrics_of_a_log(pytester: pytest.Pytester, gsw: Gsw) -> None:
    log = pytester.path / "x.log"
    log.write_text(f"{CONTROL}\ntoken: {UNKNOWN}\n")
    error = gsw("metrics", log, status=1).err
    assert "last       gnp\n" in error  # what a line was before a carriage return, it is no more
    assert "           token: ***\n" in error
    check(error)


@pytest.mark.parametrize(
    "line",
    [f"{CONTROL} ]]><!--&amp;<error/> \udcff\udc80", "x" * 1_000_000, "\x1b[" * 300_000],
    ids=["control-and-xml-and-not-utf-8", "1MB", "1MB-of-escapes"],
)
def test_odd_lines(pytester: pytest.Pytester, cluster: Run, shown: Shown, line: str) -> None:
    """As the cause of a failure, and as the last line."""
    text = f"RuntimeError: CUDA out of memory. {line}\n{line}\n"
    (pytester.path / "line").write_bytes(text.encode("utf-8", "surrogateescape"))
    with it_ends():
        result = cluster(f"cat {pytester.path}/line; exit 1")
    result.assert_outcomes(errors=1, skipped=1)
    text = shown(result)
    assert max(map(len, text.splitlines())) < 5000
    check(text)


@pytest.mark.parametrize("key", ["document", "title", "notes", "attributes", "case", "model", "directory"])
@pytest.mark.parametrize(
    ("written", "code"), [("\\e[31m", "001B"), ("\\0", "0000"), ("\\u202e", "202E"), ("\\x9b", "009B")]
)
def test_no_control_character_comes_in_by_a_table(table: Path, key: str, written: str, code: str) -> None:
    value = f'"a{written}b"'
    text = table.read_text()
    table.write_text(
        {
            "document": text.replace("site.md", value),
            "title": text.replace("dtype: bf16", f"dtype: bf16\n    title: {value}"),
            "notes": text.replace("gpus: 8, step", f"gpus: 8, notes: {value}, step"),
            "attributes": text.replace("gpus: 8, step", f"gpus: 8, attributes: {{a: {value}}}, step"),
            "case": text.replace("gpus: 8, step", f"gpus: 8, case: {value}, step"),
            "model": text.replace("model: tiny", f"model: {value}"),
            "directory": text.replace("directory: tiny", f"directory: {value}"),
        }[key]
    )
    with pytest.raises(FileError) as wrong:
        load_table(table)
    fault = f"holds U+{code}, which is not seen but changes what is; leave it out"
    assert re.fullmatch(rf"{re.escape(f'{table}: 1 problem')}\n.*:[0-9]+:[0-9]+ +{re.escape(fault)}", str(wrong.value))


LONG = "a" * 300


@pytest.mark.parametrize(
    "change",
    [
        *(("size: 1b", f"size: {text}") for text in ("../1b", "/1b", "-1b", '"1b\\n"', LONG)),
        *(("model: tiny", f"model: {text}") for text in ("a/b", LONG)),
        ("maxtext", "../maxtext"),
        ("dtype: bf16", "dtype: ../bf16"),
        ("accelerator: H100", "accelerator: ../H"),
        ("document: site.md", 'document: "a\\nb"'),
        *(("directory: tiny", f"directory: {text}") for text in ("../tiny", "tiny/../../x", "/tiny", LONG)),
        *(("steps: 20", f"steps: 20, script: {text}") for text in ("../launch.sh", "-c", LONG)),
    ],
)
def test_names_that_become_paths(table: Path, change: tuple[str, str]) -> None:
    table.write_text(table.read_text().replace(*change))
    with pytest.raises(
        FileError, match=r"1 problem\n.*: (got .*, wanted a|has 300 characters, wanted at most|has more)"
    ):
        load_table(table)


def test_a_session_with_such_a_name_makes_nothing(pytester: pytest.Pytester, table: Path) -> None:
    table.write_text(table.read_text().replace("directory: tiny", "directory: ../tiny"))
    result = pytester.runpytest("--gsw-cluster=demo", f"--gsw-baselines={table}")
    result.assert_outcomes(errors=1)
    fault = "7:21    recipe.directory: got '../tiny', wanted a relative directory such as maxtext"
    assert f"  {table}:{fault}" in result.outlines
    # Other plugins of pytest may make directories of their own.
    assert [path for path in pytester.path.rglob("*") if "tiny" in path.name or ".gsw" in path.parts] == [table]
    assert not (pytester.path.parent / "tiny").exists()


@pytest.mark.parametrize("name", ["../eos", "/eos", "-eos", '"e\\nos"', "e os", LONG])
def test_names_of_clusters(tmp_path: Path, name: str) -> None:
    path = tmp_path / "clusters.yaml"
    path.write_text(f"clusters: {{{name}: {{scheduler: slurm}}}}")
    with pytest.raises(FileError) as wrong:
        find_cluster("eos", [path], {})
    assert str(wrong.value) == (
        f"{path}: 1 problem\n  {path}:1:12    clusters.{name.strip(chr(34))}: "
        "wanted a name of at most 60 letters, digits, '.', '_' and '-'"
    )


@pytest.mark.parametrize(
    ("content", "fault"),  # the beginning of the last fault's line
    [
        (f"gpus: {'9' * 1_000_000}\n", f"1:7     gpus: got '{'9' * 195} ... 999"),
        (f"model_flops: {'9' * 1_000_000}\n", f"1:14    model_flops: got '{'9' * 195} ... 999"),
        (f"model_flops: 1e{'9' * 1_000_000}\n", f"1:14    model_flops: got '1e{'9' * 193} ... 999"),
        (f"statistic: mean[{'9' * 1_000_000}:]\n", "1:12    statistic: "),
        (f"model: a\n? {'k' * 1_000_000}\n: 1\n", f"2:3     {'k' * 200} ... {'k' * 200}: unknown key"),
    ],
    ids=["integer", "float", "exponent", "statistic", "key"],
)
def test_tables_that_are_bombs(tmp_path: Path, content: str, fault: str) -> None:
    path = tmp_path / "bomb.yaml"
    path.write_text(content)
    with it_ends(), pytest.raises(FileError) as wrong:
        load_table(path)
    last = str(wrong.value).splitlines()[-1]
    assert last.startswith(f"  {path}:{fault}")
    assert len(last) < 1000


def test_a_pattern_of_the_demo_cannot_hang() -> None:
    with it_ends():
        (fault,) = parse_faults("*a" * 1_000 + "*b=fail")
        assert not fault.matches("a" * 5_000)


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


@pytest.mark.parametrize("mask", [0o077, 0])
def test_who_may_read_and_write_what_a_session_makes(pytester: pytest.Pytester, mask: int) -> None:
    options = ("--gsw-report=report", "--gsw-history=.gsw/history.sqlite")
    with umask(mask):
        pytester.runpytest("--gsw-cluster=demo", "-k", ROW, *options).assert_outcomes(passed=1, deselected=140)
    modes = {path.relative_to(pytester.path): stat.S_IMODE(path.lstat().st_mode) for path in pytester.path.rglob("*")}
    # What decides on rows is the user's alone: whoever edits a record makes a failure a success.
    (records,) = [path for path in modes if path.name == "records"]
    files = [path for path in modes if path.parent == records or path.name.startswith("slurm-")]
    private = [records, records.parent / "live.jsonl", *files]
    assert len(private) == 4
    assert not [path for path in private if modes[path] & 0o077]
    # What people share is as the user wants all files to be, and never writable by everybody.
    made = {path: mode for path, mode in modes.items() if path.parts[0] == "report" or path.suffix == ".sqlite"}
    assert {path.parts[0] for path in made} == {"report", ".gsw"}
    directories = {path for path in made if (pytester.path / path).is_dir()}
    assert {mode for path, mode in made.items() if path in directories} == {0o775 & ~mask}
    assert {mode for path, mode in made.items() if path not in directories} == {0o664 & ~mask}
    assert not [
        path for path in modes if path.parts[0] == ".gsw" and (pytester.path / path).is_dir() and modes[path] & 2
    ]


def test_a_job_whose_log_is_a_link_out(pytester: pytest.Pytester, cluster: Run) -> None:
    log = f"{pytester.path}/stage/results/x/bf16/1b/8/log-maxtext_tiny_1b_8_$SLURM_JOB_ID.out"
    result = cluster(
        f"echo other > {pytester.path}/other; mkdir -p $(dirname {log}); ln -s {pytester.path}/other {log}"
    )
    result.assert_outcomes(errors=1, skipped=1)
    results = pytester.path / "stage" / "results"
    result.stdout.fnmatch_lines(
        [
            "no log of job *",
            wording("another link", path=f"passed over {results}/x/bf16/1b/8/log-*.out", root=results),
        ]
    )
