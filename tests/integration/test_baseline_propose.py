"""``pytest-gsw baseline propose``: a diff that git applies, and nothing that was not asked for."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from functools import partial
from pathlib import Path

import pytest

from pytest_gsw.tables.load import load_table
from tests.integration.conftest import Gsw
from tests.integration.runs import record, write_runs
from tests.messages import wording

ROW = "tiny_1b_bf16[H100x8]"
DIFF = f"""\
# {ROW} on eos: 1.04 s beside the documented 1 s (throughput -3.8 %); median of 5 jobs from 1.02 to 1.06 s, spread 1.5 %
--- /dev/null
+++ b/site/tiny.accepted.yaml
@@ -0,0 +1,12 @@
+# Written whole by pytest-gsw baseline propose, by row and cluster: what else is written here is lost.
+accepted:
+  - row: {ROW}
+    cluster: eos
+    step_time_s: 1.04
+    documented: 1
+    jobs: 5
+    spread: 1.52%
+    job_ids: "481220, 481221, 481222, 481223, 481224"
+    image: simulation
+    date: 2026-11-14
+    definition: "DEFINITION"
"""


@pytest.fixture(autouse=True)
def _here(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(pytester.path)


@pytest.fixture
def propose(gsw: Gsw) -> Gsw:
    return partial(gsw, "baseline", "propose")


def git(*arguments: str, cwd: Path | None = None) -> str:
    return subprocess.run(["git", *arguments], cwd=cwd, check=True, capture_output=True, text=True).stdout


#: How it says that there is nothing, and of which row and cluster that is.
NOTHING = f"pytest-gsw baseline: nothing can be proposed\n  {ROW} on eos: "


def diff_of(table: Path) -> str:
    return DIFF.replace("DEFINITION", record(table, 0, 1.0).row.definition)


def test_the_whole_diff(table: Path, pytester: pytest.Pytester, propose: Gsw) -> None:
    text = table.read_text()
    assert propose(*write_runs(pytester.path / ".gsw", table)) == (diff_of(table), "")
    assert table.read_text() == text  # never in place
    assert sorted(path.name for path in table.parent.iterdir()) == ["tiny.yaml"]


def test_runs_that_only_the_shared_history_has(table: Path, pytester: pytest.Pytester, gsw: Gsw, propose: Gsw) -> None:
    runs = write_runs(pytester.path / ".gsw", table)
    gsw("history", "--add", *runs, "--history=shared.sqlite")
    shutil.rmtree(pytester.path / ".gsw")
    ids = [run.name for run in runs]
    assert propose(*ids, "--history=shared.sqlite") == (diff_of(table), "")
    assert propose(*ids, "nowhere", "--history=shared.sqlite", status=2).err == (
        "pytest-gsw baseline: "
        + wording("no run of it anywhere", name="nowhere", history="shared.sqlite")
        + "\n"
        + wording("next run")
        + "\n"
    )


@pytest.mark.parametrize("in_git", [True, False])
def test_the_diff_applies_by_the_command_that_is_told(
    table: Path,
    pytester: pytest.Pytester,
    propose: Gsw,
    monkeypatch: pytest.MonkeyPatch,
    in_git: bool,
) -> None:
    if in_git:
        git("init", "-q", cwd=pytester.path)
    old = table.read_text()
    monkeypatch.chdir(table.parent if in_git else pytester.path)
    runs = write_runs(pytester.path / ".gsw", table)
    given = ["--baselines", str(table.parent)] if in_git else []
    out, error = propose(*runs, *given, "--output=out/b.diff")
    proposed, review = out.splitlines()
    where = f"git -C {pytester.path} apply {table.parent}/out/b.diff" if in_git else "git apply out/b.diff"
    assert proposed == diff_of(table).splitlines()[0].removeprefix("# ")
    assert (review, error) == (wording("review", path="out/b.diff", command=where), "")
    assert Path("out/b.diff").read_text() == diff_of(table)
    subprocess.run(shlex.split(where), check=True)
    assert table.read_text() == old
    row = load_table(table)[0]
    assert (row.judged, row.accepted["eos"].judged) == (1.0, 1.04)
    # What is accepted is not proposed twice.
    assert propose(*runs, *given, status=1).err == f"{NOTHING}" + wording("accepted already", jobs="5 jobs") + "\n"


def test_rows_and_clusters_can_be_chosen(table: Path, pytester: pytest.Pytester, propose: Gsw) -> None:
    results = pytester.path / ".gsw"
    runs = [*write_runs(results, table), *write_runs(results, table, (0.5,) * 5, row=1)]
    runs += write_runs(pytester.path / "other", table, cluster="selene")
    assert propose(*runs, "--row", ROW, "--cluster=eos") == (diff_of(table), "")
    assert [line for line in propose(*runs, "--row=*x16]").out.splitlines() if "row:" in line] == [
        "+  - row: tiny_1b_bf16[H100x16]"
    ]
    assert [line.split()[1:4] for line in propose(*runs).out.splitlines() if line.startswith("# ")] == [
        [ROW, "on", "eos:"],
        [ROW, "on", "selene:"],
        ["tiny_1b_bf16[H100x16]", "on", "eos:"],
    ]
    assert propose(*runs, "--cluster=eso", status=2).err == (
        "pytest-gsw baseline: --cluster: these runs are of eos, selene, not of eso; did you mean 'eos'?\n"
    )
    assert propose(*runs, "--row=tiny_1b_bf16[H100x9]", status=2).err == (
        "pytest-gsw baseline: --row: no run is of the row 'tiny_1b_bf16[H100x9]'; did you mean 'tiny_1b_bf16[H100x8]'?\n"
    )


def test_fewer_and_noisier_jobs_only_when_told(table: Path, pytester: pytest.Pytester, propose: Gsw) -> None:
    runs = write_runs(pytester.path / ".gsw", table, (1.0, 1.1, 1.2))
    assert propose(*runs, status=1) == (
        "",
        wording("few jobs", jobs=f"{NOTHING}3 jobs", least=5) + "\n",
    )
    noisy = "the spread of 3 jobs is 9.1 % (1 to 1.2 s), at most 3 % allowed (--max-spread)"
    assert propose(*runs, "--min-jobs=3", status=1).err == f"{NOTHING}{noisy}\n"
    assert "+    step_time_s: 1.1\n" in propose(*runs, "--min-jobs=3", "--max-spread=10%").out


def test_the_documented_figures_of_a_sites_own_table(table: Path, pytester: pytest.Pytester, propose: Gsw) -> None:
    runs = write_runs(pytester.path / ".gsw", table)
    assert (
        "1.04 s " + wording("in its place", documented="1 s", change="throughput -3.8 %") + ";"
        in propose(*runs, "--documented", "-o", "b.diff").out
    )
    old = table.read_text()
    git("apply", "b.diff")
    ids = "481220, 481221, 481222, 481223, 481224"
    assert table.read_text() == old.replace(
        "      - {gpus: 8, step_time_s: 1.000, tokens_per_s: 65536,",
        f"      # measured on eos, 2026-11-14: median of 5 jobs, spread 1.52 % ({ids}), image simulation\n"
        "      - {gpus: 8, step_time_s: 1.040, tokens_per_s: 63015,",
    )
    assert load_table(table)[0].judged == 1.04
    # Its figure was another when the jobs ran: whether that was known to them nobody can say.
    changed = "the documented figure has changed since, from 1 s to 1.04 s"
    assert propose(*runs, status=1).err == f"{NOTHING}{changed} (5 runs)\n"


def test_tables_that_have_moved(table: Path, pytester: pytest.Pytester, propose: Gsw) -> None:
    runs = write_runs(pytester.path / ".gsw", table)
    moved = pytester.mkdir("new tables") / "site"
    table.parent.rename(moved)
    gone = "there is no table site/tiny.yaml here; go to where it is, or name it with --baselines=PATH"
    assert propose(*runs, status=1).err == f"{NOTHING}{gone} (5 runs)\n"
    propose(*runs, "--baselines=new tables", "-o", "b.diff")
    assert "\n--- /dev/null\n+++ b/new tables/site/tiny.accepted.yaml\t\n" in Path("b.diff").read_text()
    git("apply", "b.diff")
    assert load_table(moved / "tiny.yaml")[0].accepted["eos"].judged == 1.04


@pytest.mark.parametrize("name", ["b.txt", "site/tiny.yaml"])
def test_a_file_that_is_no_diff_by_its_name(table: Path, propose: Gsw, name: str) -> None:
    old = table.read_text()
    assert propose(".", "-o", name, status=2).err == ("pytest-gsw baseline: " + wording("no diff", name=name) + "\n")
    assert table.read_text() == old


def test_runs_that_nobody_believes_are_proposed_only_up_to_a_gain(
    table: Path, pytester: pytest.Pytester, propose: Gsw
) -> None:
    too_good = {"outcome": "inconclusive", "reason": "too good to be true", "max_gain": 0.25}
    runs = write_runs(pytester.path / ".gsw", table, (0.49, 0.5, 0.5, 0.51, 0.5), **too_good)
    out, err = propose(*runs, status=1)
    assert (out, err.splitlines()[0]) == ("", "pytest-gsw baseline: " + wording("nothing proposed"))
    why = "is too good to be true; --max-gain=PERCENT counts such runs, once it is clear why they are so fast (5 runs)"
    assert why in err
    # 1 s / 0.49 s is a gain of 104 %.
    propose(*runs, "--max-gain=99%", status=1)
    assert (
        "0.5 s beside the documented 1 s (throughput +100.0 %); median of 5 jobs from 0.49 to 0.51 s"
        in propose(*runs, "--max-gain=105%").out
    )
