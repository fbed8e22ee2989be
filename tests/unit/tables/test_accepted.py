"""Figures that clusters have accepted, in a file next to the table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_gsw.errors import ConfigurationError
from pytest_gsw.tables.load import load_table, load_tables, table_files
from pytest_gsw.tables.model import Baseline
from tests.messages import wording
from tests.unit.tables.texts import ENTRY, EOS, TINY

Load = Callable[[str | bytes], tuple[Baseline, ...]]
Message = Callable[[str | bytes], str]

OWN = f"accepted:\n{ENTRY}"
SELENE = ENTRY.replace("eos", "selene")


@pytest.fixture
def beside(tmp_path: Path) -> Callable[[str], object]:
    """Write what clusters have accepted for the rows of ``t.yaml``."""
    return (tmp_path / "t.accepted.yaml").write_text


def test_a_row_has_what_its_clusters_have_accepted(load: Load, beside: Callable[[str], object]) -> None:
    beside(OWN + SELENE.replace("    image: nvidia+jax+maxtext-2024.12.09.sqsh\n", ""))
    one, two = load(TINY)
    assert one.accepted["eos"] == EOS
    assert one.accepted["selene"].image is None
    assert set(one.accepted) == {"eos", "selene"}
    assert two.accepted == {}
    assert one.judged == 1.5  # the documented figure stays
    assert one.location.path == Path("t.yaml")


def test_a_table_has_no_accepted_figures_itself(message: Message) -> None:
    assert message(TINY + OWN) == "t.yaml: 1 problem\n  t.yaml:14:1    accepted: unknown key"


def test_a_row_that_is_judged_by_its_checkpoints(load: Load, beside: Callable[[str], object]) -> None:
    beside(OWN.replace("    step_time_s: 1.612", "    checkpoint_save_time_s: 18.5"))
    (one, _) = load(TINY.replace("step_time_s: 1.5", "metric: checkpoint_save_time, checkpoint_save_time_s: 17.9"))
    assert one.accepted["eos"].judged == 18.5


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("x8]\n", "x9]\n", "2:5     accepted[0]: there is no row 'tiny_1b_bf16[H100x9]' in t.yaml; did you mean 'tiny_1b_bf16[H100x8]'?"),
        ("step_time_s: 1.612", "step_time_s: 1e-310", "4:18    accepted[0].step_time_s: got '1e-310', wanted a number from 1e-09 to 1e+12, such as 4.324"),
        ("step_time_s: 1.612", "step_time_s: 1.7e308", "4:18    accepted[0].step_time_s: got '1.7e308', wanted a number from 1e-09 to 1e+12, such as 4.324"),
        ("step_time_s: 1.612", "step_time_s: 0", "4:18    accepted[0].step_time_s: got '0', wanted a number above 0, such as 4.324"),
        ("    step_time_s: 1.612\n", "", "2:5     accepted[0]: missing 'step_time_s', on which the verdict of tiny_1b_bf16[H100x8] rests"),
        ("jobs: 7", "jobs: 7\n    checkpoint_save_time_s: 3", "2:5     accepted[0]: has checkpoint_save_time_s, but the verdict of tiny_1b_bf16[H100x8] rests on step_time_s"),
        ("    cluster: eos\n", "", "2:5     accepted[0]: missing 'cluster'"),
        ("cluster: eos", "cluster: a b", "3:14    accepted[0].cluster: got 'a b', wanted the name of a cluster, such as eos"),
        ("jobs: 7", "jobs: 0", "5:11    accepted[0].jobs: got '0', wanted a whole number above 0, such as 64"),
        ("0.83%", "\u0663%", "6:13    accepted[0].spread: got '\u0663%', wanted a percentage such as 0.8%"),
        ("0.83%", "0.83", "6:13    accepted[0].spread: got '0.83', wanted a percentage such as 0.8%"),
        ("2026-11-20", "20261120", "9:11    accepted[0].date: got '20261120', wanted a date such as 2026-11-20"),
        ("2026-11-20", "2026-11-31", "9:11    accepted[0].date: got '2026-11-31', wanted a date such as 2026-11-20"),
        ('"3f2a9c1d0e4b"', "3F2A", "10:17   accepted[0].definition: got '3F2A', wanted a definition such as 3f2a9c1d0e4b"),
        ("date:", "dates:", "9:5     accepted[0].dates: unknown key; did you mean 'date'?"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_an_entry(
    message: Message, beside: Callable[[str], object], old: str, new: str, fault: str
) -> None:
    assert OWN.count(old) == 1, old
    beside(OWN.replace(old, new))
    assert f"  t.accepted.yaml:{fault}" in message(TINY).splitlines()


def test_a_row_that_has_no_documented_figure(message: Message, beside: Callable[[str], object]) -> None:
    beside(OWN)
    assert message(TINY.replace("step_time_s: 1.5", "expected_failure: out_of_memory")) == (
        "t.accepted.yaml: 1 problem\n"
        "  t.accepted.yaml:2:5     accepted[0]: the document has no figure for tiny_1b_bf16[H100x8], so none can be accepted for it"
    )


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (f"accepted:\n{SELENE * 2}", "11:5    accepted[1]: selene has accepted a figure for tiny_1b_bf16[H100x8] in line 2 already"),
        ("accepted: []\n", "1:11    accepted: is empty, wanted at least one entry"),
        ("", "1:1     is empty"),
        (f"{OWN}model: tiny\n", "11:1    model: unknown key"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_the_file_beside_the_table(
    message: Message, beside: Callable[[str], object], text: str, fault: str
) -> None:
    beside(text)
    assert message(TINY) == wording("one problem", path="t.accepted.yaml") + f"\n  t.accepted.yaml:{fault}"


def test_a_link_that_leads_nowhere_is_not_taken_for_no_file(message: Message, tmp_path: Path) -> None:
    (tmp_path / "t.accepted.yaml").symlink_to("gone.yaml")
    assert message(TINY).splitlines()[1] == "  t.accepted.yaml:1:1     cannot be read: No such file or directory"


def test_accepted_figures_are_no_table(load: Load, beside: Callable[[str], object], tmp_path: Path) -> None:
    beside(OWN)
    load(TINY)
    assert table_files(tmp_path) == (tmp_path / "t.yaml",)
    assert [set(row.accepted) for row in load_tables([tmp_path])] == [{"eos"}, set()]
    with pytest.raises(
        ConfigurationError, match=r"1:1     has accepted figures of t\.yaml, and no rows; name the table$"
    ):
        load_table(tmp_path / "t.accepted.yaml")


def test_accepted_figures_of_a_table_that_is_gone(beside: Callable[[str], object], tmp_path: Path) -> None:
    beside(OWN)
    (tmp_path / "t.yml").write_text(TINY)
    with pytest.raises(ConfigurationError) as error:
        table_files(tmp_path)
    assert str(error.value) == f"{tmp_path}/t.accepted.yaml " + wording(
        "another cluster's file", path=f"{tmp_path}/t.yaml"
    )
