"""The documents say what is there: options, hooks with examples that run, links that resolve."""

from __future__ import annotations

import configparser
import dataclasses
import json
import re
import shlex
import textwrap
from importlib.metadata import entry_points
from pathlib import Path

import pytest
import yaml

from pytest_gsw import JobState, JobStatus, Launcher, hookspecs
from pytest_gsw.clusters import CLUSTER_FIELDS, LAUNCHER_KEYS, find_cluster
from pytest_gsw.demo.simulation import FAULTS
from pytest_gsw.importing.facts import read_facts
from pytest_gsw.logs.formats.registry import FORMATS
from pytest_gsw.logs.signatures import SIGNATURES
from pytest_gsw.results.outcomes import OUTCOMES
from pytest_gsw.session.options import OPTIONS
from pytest_gsw.tables.schema import FILE_FIELDS
from tests.integration.conftest import tiny_table
from tests.messages import is_worded, wording
from tests.shown import as_pattern

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
HOOKS = [name for name in vars(hookspecs) if name.startswith("pytest_gsw_")]
TICK_TABLE = """\
model: own
size: 1b
framework: own
log_format: tick
accelerator: X100
gpus_per_node: 8
document: own.md
recipe: {directory: own, steps: 3}
sequence_length: 1024
global_batch_size: 8
model_flops: 6.0e+12
tables: [{dtype: bf16, rows: [{gpus: 8, step_time_s: 0.7, line: 1}]}]
"""


#: Hooks with an example in a file of its own, to which the hook's section leads.
ON_ITS_OWN = {
    "pytest_gsw_make_job_spec": "examples/hooks/make_job_spec.py",
    "pytest_gsw_make_launcher": "examples/flux/flux_launcher.py",
    "pytest_gsw_log_format": "examples/hooks/log_format.py",
    "pytest_gsw_find_logs": "examples/hooks/cloudai.py",
    "pytest_gsw_evidence": "examples/hooks/evidence.py",
    "pytest_gsw_suite_rows": "examples/suite.py",
    "pytest_gsw_metrics": "examples/hooks/peak_memory.py",
    "pytest_gsw_judge": "examples/hooks/judge.py",
    "pytest_gsw_job_state_changed": "examples/hooks/states.py",
    "pytest_gsw_run_recorded": "examples/hooks/throughput.py",
    "pytest_gsw.testing": "examples/contracts.py",
}


def example(hook: str) -> str:
    """The conftest.py under a hook's heading, or the file that the section leads to."""
    text = (ROOT / "docs" / "hooks.md").read_text()
    section = re.search(rf"^## {hook}$(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert section is not None, f"docs/hooks.md has no section {hook}"
    place = section.group(1)
    if hook in ON_ITS_OWN:
        assert f"({ON_ITS_OWN[hook]})" in place
        return (ROOT / "docs" / ON_ITS_OWN[hook]).read_text()
    (code,) = re.findall(r"```python\n(.*?)```", place, re.DOTALL)
    return str(code)


def run(pytester: pytest.Pytester, hook: str, *options: str) -> pytest.RunResult:
    pytester.makeconftest(example(hook))
    return pytester.runpytest("--gsw-cluster=demo", *(options or ("-k", "gpt3_175b and H100x128")))


@pytest.mark.parametrize("hook", HOOKS)
def test_every_hook_is_documented(hook: str) -> None:
    assert f"| `{hook}` |" in (ROOT / "docs" / "hooks.md").read_text()
    assert example(hook)
    spec = getattr(hookspecs, hook)
    assert spec.__doc__
    assert spec.__doc__.startswith("Called ")
    arguments = set(spec.__annotations__) - {"return"}
    assert all(f":param {name}:" in spec.__doc__ for name in arguments)


@pytest.mark.parametrize(
    ("heading", "names"),
    [
        ("JobStatus", [field.name for field in dataclasses.fields(JobStatus)]),
        ("JobState", [state.value for state in JobState]),
        ("pytest_gsw_make_launcher", [name for name in vars(Launcher) if not name.startswith("_")]),
        ("pytest_gsw_metrics", ["key", "unit", "label", "direction", "read", "statistic"]),
    ],
)
def test_the_tables_of_hooks_name_every_field(heading: str, names: list[str]) -> None:
    text = (ROOT / "docs" / "hooks.md").read_text()
    section = re.search(rf"^#+ {heading}$(.*?)(?=^#+ |\Z)", text, re.MULTILINE | re.DOTALL)
    assert section is not None
    assert [name for name in names if not re.search(rf"^\|.*`{name}\b[^|]*\|", section.group(1), re.MULTILINE)] == []


def test_the_contract_of_launchers_is_that_of_the_page() -> None:
    text = (ROOT / "docs" / "hooks.md").read_text()
    required, _, rest = text.partition("these methods are required:")[2].partition("These have defaults:")
    defaults = rest.partition("\nA job id is")[0]

    def names(table: str) -> set[str]:
        cells = re.findall(r"^\| (`[^|]*) \|", table, re.MULTILINE)
        return {name for cell in cells for name in re.findall(r"`(\w+)", cell)}

    members = {name for name in (*vars(Launcher), *Launcher.__annotations__) if not name.startswith("_")}
    assert names(required) == Launcher.__abstractmethods__ == {"submit", "poll", "cancel"}
    assert names(defaults) == members - Launcher.__abstractmethods__ - {"name"}
    keys = re.search(r"^\| `cluster_keys` \|(.*?);", defaults, re.MULTILINE)
    assert keys is not None
    assert set(re.findall(r"`(\w+)`", keys[1])) == LAUNCHER_KEYS


@pytest.mark.parametrize("key", sorted(LAUNCHER_KEYS))
def test_the_page_of_clusters_has_each_key_of_a_launcher(key: str) -> None:
    assert f"| `{key}` |" in (ROOT / "docs" / "clusters.md").read_text()


def test_the_example_of_make_job_spec(pytester: pytest.Pytester) -> None:
    result = run(pytester, "pytest_gsw_make_job_spec", "--gsw-plan", "-k", "gpt3_175b and H100x128")
    result.stdout.fnmatch_lines(["  environment  NCCL_DEBUG=WARN"])


def test_the_examples_of_log_format_and_peak_flops(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(f"{example('pytest_gsw_log_format')}\n{example('pytest_gsw_peak_flops')}")
    (pytester.path / "own.yaml").write_text(TICK_TABLE)
    log = pytester.path / "own.log"
    times = ("2.0", "0.72", "0.71")
    log.write_text("".join(f"tick {n} took {s} s, loss {9 - n}\n" for n, s in enumerate(times, start=1)))
    result = pytester.runpytest("--gsw-replay=own.log", "own.yaml")
    result.assert_outcomes(passed=1)
    mfu = 8 * 6.0e12 / 0.71 / 8 / 1200e12
    result.stdout.fnmatch_lines(
        [f"own_1b_bf16[[]X100x8]  PASSED     throughput -1.4 %  0.71 s/step  MFU {mfu * 100:.1f} % *"]
    )


@pytest.mark.parametrize(("started", "outcome"), [("512", "passed"), ("256", "errors"), ("512", "skipped")])
def test_the_example_of_evidence(pytester: pytest.Pytester, started: str, outcome: str) -> None:
    pytester.makeconftest(example("pytest_gsw_evidence"))
    lines = "".join(f"completed step: {n}, seconds: 1.0, loss: 9.0\n" for n in range(20))
    (pytester.path / "run.log").write_text(lines)
    (pytester.path / "started.json").write_text(f'{{"batch": {started}, "traced": {json.dumps(outcome == "skipped")}}}')
    row = "gpus: 8, step_time_s: 1.000, global_batch_size: 512, line: 10"
    (pytester.path / "tiny.yaml").write_text(tiny_table(row))
    result = pytester.runpytest("--gsw-replay=run.log", "tiny.yaml")
    result.assert_outcomes(**{outcome: 1})
    if outcome == "errors":
        result.stdout.fnmatch_lines(
            [wording("differs", ran="*global batch size 256", wanted=512), "said in *started.json"]
        )


@pytest.mark.parametrize(("fault", "status"), [("none", 0), ("*x128]=slow:40%", 1)])
def test_the_example_of_suite_rows(pytester: pytest.Pytester, fault: str, status: int) -> None:
    (pytester.path / "own.txt").write_text("llama2_70b_fp8[H100x64]\nllama2_70b_fp8[H100x128]\n")
    demo = () if fault == "none" else (f"--gsw-demo={fault}",)
    result = run(
        pytester, "pytest_gsw_suite_rows", "--gsw-suite=own.txt", f"--gsw-baselines={ROOT}/baselines/maxtext", *demo
    )
    assert result.ret == status, result.stdout.str()
    result.stdout.fnmatch_lines(["gsw: suite of 2 rows", f"*{2 - status} of 2 passed"])


def test_the_example_of_judge(pytester: pytest.Pytester) -> None:
    slow = ("--gsw-demo=*=slow:4%", "-k", "gpt3_175b and H100x128")
    pytester.runpytest("--gsw-cluster=demo", *slow).assert_outcomes(passed=1, deselected=140)
    run(pytester, "pytest_gsw_judge", *slow).assert_outcomes(failed=1, deselected=140)


def test_the_example_of_job_state_changed(pytester: pytest.Pytester) -> None:
    run(pytester, "pytest_gsw_job_state_changed").assert_outcomes(passed=1, deselected=140)
    states = (pytester.path / "states.txt").read_text().splitlines()
    assert states[-1].split()[0] == "gpt3_175b_fp8[H100x128]"
    assert states[-1].split()[2] == "COMPLETED"


def test_the_example_of_run_recorded(pytester: pytest.Pytester) -> None:
    run(pytester, "pytest_gsw_run_recorded").assert_outcomes(passed=1, deselected=140)
    fields = (pytester.path / "throughput.csv").read_text().strip().split(",")
    assert fields[1:3] == ["gpt3_175b_fp8[H100x128]", "passed"]
    assert float(fields[3]) == pytest.approx(70186, rel=0.05)


def test_the_example_of_the_contracts(pytester: pytest.Pytester, flux: Path) -> None:
    pytester.makeconftest(example("pytest_gsw_log_format"))
    pytester.makepyfile(example("pytest_gsw.testing"), flux_launcher=example("pytest_gsw_make_launcher"))
    pytester.syspathinsert()
    pytester.runpytest("-p", "no:cacheprovider").assert_outcomes(passed=16)


def test_every_option_is_documented() -> None:
    text = (ROOT / "docs" / "options.md").read_text()
    for option in OPTIONS:
        assert f"`{option.flag}" in text, option.name
        (line,) = (line for line in text.splitlines() if f"| `{option.ini}` |" in line)
        assert line.endswith(f"| {option.default.replace('%%', '%')} |"), option.name


@pytest.mark.parametrize(
    ("page", "wanted"),
    [
        ("demo", [f"| `{fault}` | {told} |" for fault, told in FAULTS.items()]),
        ("baselines", [f"| `{key}` |" for key in FILE_FIELDS]),
        ("clusters", [f"| `{key}` |" for key in CLUSTER_FIELDS]),
        ("formats", [f"| `{name}` |" for name in FORMATS]),
        ("hooks", [f"`{name}`" for name in (*JobState, *LAUNCHER_KEYS)]),
        ("ci", [f"`{outcome.word}`" for outcome in OUTCOMES]),
        ("troubleshooting", [signature.name for signature in SIGNATURES]),
    ],
)
def test_every_fault_key_and_cause_is_documented(page: str, wanted: list[str]) -> None:
    text = (ROOT / "docs" / f"{page}.md").read_text().replace("\n", " ")
    assert [line for line in wanted if line not in text] == []


@pytest.mark.parametrize("key", CLUSTER_FIELDS)
def test_a_key_of_clusters_has_its_meaning_on_the_page(key: str) -> None:
    text = (ROOT / "docs" / "clusters.md").read_text()
    (line,) = (line for line in text.splitlines() if line.startswith(f"| `{key}` |"))
    assert f" | {CLUSTER_FIELDS[key].help}" in line


def test_the_example_clusters_load() -> None:
    environ = {"SLURM_ACCOUNT": "eng", "STAGE_PATH": "/stage"}
    eos, bridge = (
        find_cluster(name, [ROOT / "docs" / "examples" / "clusters.yaml"], environ) for name in ("eos", "hsg")
    )
    assert (eos.accelerator, eos.gpus, eos.stage) == ("H100", 4608, "/stage/{recipe}")
    assert (bridge.submission.account, bridge.gpus_per_node, bridge.submission.arguments[0]) == ("eng", 4, "--offline")


def test_the_example_facts_load() -> None:
    facts = read_facts(ROOT / "docs" / "examples" / "facts.yaml")
    assert len(facts.families["ours"].labels) > 10
    assert set(facts.documents["grok1/README.md"].tables) == {29, 46}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_resolve(document: Path) -> None:
    text = re.sub(r"```.*?```", "", document.read_text(), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if not target.startswith(("http://", "https://", "#", "mailto:")):
            path, _, anchor = target.partition("#")
            found = document.parent / path
            assert found.exists(), f"{document.name} links to {target}"
            if anchor:
                headings = re.findall(r"^#+ (.*)$", found.read_text(), re.MULTILINE)
                slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
                assert anchor in slugs, f"{document.name} links to {target}"


def test_troubleshooting_quotes_messages_as_they_are() -> None:
    quoted = re.findall(r"^> (.+)$", (ROOT / "docs" / "troubleshooting.md").read_text(), re.MULTILINE)
    assert len(quoted) > 15
    assert [text for text in quoted if not is_worded(text)] == []


def tox_ini() -> configparser.ConfigParser:
    config = configparser.ConfigParser(interpolation=None)
    config.read(ROOT / "tox.ini")
    return config


def test_ci_runs_the_commands_that_set_up() -> None:
    blocks = re.findall(r"```sh\n(.*)\n```", (ROOT / "README.md").read_text())
    commands = [line for line in blocks if line.startswith("python3 -m venv .venv && ")]
    run = [line.strip() for line in (ROOT / ".ci" / "run").read_text().splitlines()]
    assert [line for line in run if line in commands] == commands
    assert len(commands) == 2


def test_ci_runs_the_same_tests_by_the_readme_and_leaves_them_out_of_tox() -> None:
    tox, run = tox_ini()["testenv"]["commands"], (ROOT / ".ci" / "run").read_text()
    (folders,) = re.findall(r"-n 2 -rs (tests/.*)\n", run)
    assert f" {folders} {{posargs}}" in tox
    assert re.findall(r"TOX_SKIP_ENV='?([^'\n]*)", run) == ["tests", "tests|speed"]


def test_a_commit_is_checked_as_a_change_is() -> None:
    """By tox's environment ``lint``; the contract of imports is one of the tests there."""
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    hooks = [hook["entry"].removeprefix(".venv/bin/") for repo in config["repos"] for hook in repo["hooks"]]
    assert hooks == [*tox_ini()["testenv:lint"]["commands"].split("\n")[1:], "lint-imports"]
    assert entry_points(group="console_scripts", name="lint-imports")


def _masked(screen: str) -> str:
    """Without what differs from one run to the next: noise, times, ids, and how wide they are."""
    numbers = re.sub(r"[+-]?\d[\d.,a-f-]*", "0", screen)
    return re.sub(r"([=_])\1{3,}", r"\1", re.sub(r" +", " ", numbers))


def test_the_readme_shows_what_its_two_commands_print(pytester: pytest.Pytester) -> None:
    readme = (ROOT / "README.md").read_text()
    screens = re.findall(r"```sh\n(.*cluster=demo.*)\n```\n(?:\n|\S.*\n)*((?:    .*\n|\n)+)", readme)
    assert len(screens) == 2
    for command, text in screens:
        result = pytester.runpytest(*shlex.split(command.rpartition(".venv/bin/pytest")[2]))
        shown, printed = textwrap.dedent(text).strip(), result.stdout.str() + "\n"
        assert re.fullmatch(as_pattern(_masked(shown)), _masked(printed)), printed
    (place,) = re.findall(r"^baseline +(\S+:\d+) ", shown, re.MULTILINE)
    assert f" {place} " in printed
