"""Where a diff applies, and by which command."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_gsw import baseline_updates as patches
from pytest_gsw.baseline_updates import LeftOut, Patch, Proposal, apply_command, make_patch, proposal_text, review_text
from pytest_gsw.tables.load import load_table
from pytest_gsw.tables.model import Accepted
from tests.messages import wording
from tests.unit.tables.texts import change

#: One row of it, with an MFU.
TABLE = change("      - {gpus: 16, step_time_s: 0.75, line: 11}\n", "").replace("1.5,", "1.5, mfu: 40%,")
EOS = Accepted("eos", 1.61, 5, 0.014, "1, 2, 3, 4, 5", "2026-11-20", "3f2a9c1d0e4b")


def proposal(path: Path, text: str = TABLE) -> Proposal:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return Proposal(load_table(path)[0], EOS, 1.59, 1.65)


def names(patch: Patch) -> list[str]:
    return [line for line in patch.text.splitlines() if line.startswith(("--- ", "+++ "))]


def test_tables_that_share_no_more_than_a_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    patch = make_patch([proposal(tmp_path / "x" / "one" / "t.yaml"), proposal(tmp_path / "x" / "two" / "t.yaml")])
    assert names(patch)[1::2] == ["+++ b/one/t.accepted.yaml", "+++ b/two/t.accepted.yaml"]
    (here / "b.diff").write_text(patch.text)
    command = apply_command(patch, Path("b.diff"))
    assert command == ["git", "-C", f"{tmp_path}/x", "apply", f"{here}/b.diff"]
    subprocess.run(command, check=True)
    assert all(load_table(path)[0].accepted for path in tmp_path.rglob("t.yaml"))


def test_below_the_top_of_another_repository_git_would_do_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".git").mkdir()
    path = tmp_path / "lib" / "site-packages" / "pytest_gsw" / "baselines" / "maxtext" / "t.yaml"
    one = proposal(path)
    monkeypatch.setattr(patches.bundled, "bundled_baselines", lambda: path.parents[1])
    patch = make_patch([one])
    package = path.parents[2]
    assert patch.base == package
    assert names(patch)[1] == "+++ b/baselines/maxtext/t.accepted.yaml"
    assert "\n# These tables are part of an installed package: apply this to copies of them.\n" in patch.text
    assert apply_command(patch, Path("/b.diff")) == ["patch", "-d", str(package), "-p1", "-i", "/b.diff"]
    assert review_text(patch, Path("/b.diff")) == (
        "for review: /b.diff; its tables are part of an installed package, which no diff changes; to use copies of them with "
        f"--gsw-baselines=baselines: mkdir -p baselines/maxtext && cp {path} baselines/maxtext && patch -p1 -i /b.diff"
    )


@pytest.mark.parametrize("name", ['a"b.yaml', "a\\b.yaml", "a\nb.yaml"])
def test_a_name_that_no_diff_can_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    patch = make_patch([proposal(tmp_path / name)])
    why = f"{tmp_path / name} cannot be changed: its name is not allowed in a diff"
    assert (patch.text, patch.left_out) == ("", (LeftOut("tiny_1b_bf16[H100x8]", "eos", why),))


def test_the_line_of_a_proposal(tmp_path: Path) -> None:
    one = proposal(tmp_path / "t.yaml")
    made_of = "median of 5 jobs from 1.59 to 1.65 s, spread 1.4 %"
    start = "tiny_1b_bf16[H100x8] on eos: 1.61 s"
    assert proposal_text(one) == wording(
        "beside it", figure=start, documented="1.5 s", change="throughput -6.8 %", jobs=made_of
    )
    assert (
        proposal_text(one, documented=True)
        == f"{start} " + wording("in its place", documented="1.5 s", change="throughput -6.8 %") + f"; {made_of}"
    )
    old = replace(EOS, judged=1.7, date="2026-11-01")
    before = replace(one, row=replace(one.row, accepted={"eos": old}))
    assert proposal_text(before) == (
        f"{start} of 2026-11-20 beside the documented 1.5 s (throughput -6.8 %), 1.7 s accepted on 2026-11-01; {made_of}"
    )
    assert proposal_text(before, documented=True) == (
        f"{start} of 2026-11-20 "
        + wording("in its place", documented="1.5 s", change="throughput -6.8 %")
        + wording("page counts", counts=", and", rows="the 1.7 s accepted", cluster=f"2026-11-01; {made_of}")
    )
    single = replace(one, accepted=replace(EOS, jobs=1, spread=0.0))
    assert proposal_text(single).endswith("; median of 1 job from 1.59 to 1.65 s, spread 0 %")


def entry(cluster: str) -> str:
    return (
        f"  - row: tiny_1b_bf16[H100x8]\n    cluster: {cluster}\n    step_time_s: 1.7\n    jobs: 5\n    spread: 1%\n"
        '    job_ids: "1"\n    date: 2026-11-01\n    definition: "3f2a9c1d0e4b"\n'
    )


@pytest.mark.parametrize("others", ["", entry("selene")])
def test_a_documented_figure_takes_the_clusters_accepted_one_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, others: str
) -> None:
    monkeypatch.chdir(tmp_path)
    path, beside = tmp_path / "t.yaml", tmp_path / "t.accepted.yaml"
    one = proposal(path)
    text = TABLE.replace("mfu: 40%, ", "")
    path.write_text(text)
    beside.write_text(f"accepted:\n{entry('eos')}{others}")
    patch = make_patch([replace(one, row=load_table(path)[0])], documented=True)
    assert patch.left_out == ()
    (tmp_path / "b.diff").write_text(patch.text)
    subprocess.run(apply_command(patch, Path("b.diff")), check=True)
    measured = "      # measured on eos, 2026-11-20: median of 5 jobs, spread 1.40 % (1, 2, 3, 4, 5)\n      - "
    assert path.read_text() == text.replace("1.5", "1.610").replace("      - {", f"{measured}{{")
    assert beside.exists() is bool(others)
    assert not others or beside.read_text().endswith("\naccepted:\n" + others.replace("1%", "1.00%"))


def test_a_table_that_is_a_link_has_its_figures_beside_the_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    there = proposal(tmp_path / "shared" / "t.yaml").row.location.path
    link = tmp_path / "site" / "t.yaml"
    link.parent.mkdir()
    link.symlink_to(there)
    patch = make_patch([Proposal(load_table(link)[0], EOS, 1.59, 1.65)])
    assert names(patch)[1] == "+++ b/site/t.accepted.yaml"
    (tmp_path / "b.diff").write_text(patch.text)
    subprocess.run(apply_command(patch, Path("b.diff")), check=True)
    assert [bool(load_table(path)[0].accepted) for path in (link, there)] == [True, False]
