"""The release whose bundled rows run, and what a session has for an accelerator."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_gsw.clusters import Cluster
from pytest_gsw.errors import ConfigurationError
from pytest_gsw.session.release_choice import RequestedRelease, bundled_rows, resolved_release, tables_of
from pytest_gsw.tables.bundled import bundled_releases

SITE = Cluster("site", "slurm", accelerator="H100")


@pytest.mark.parametrize(
    ("accelerator", "release", "fact", "following"),
    [
        ("H100", None, "H100: 21 releases, newest nemo:26.06, --gsw-release=RELEASE", "pytest --gsw-cluster=site"),
        ("H100", "nemo:26.08", "H100: 21 releases, newest nemo:26.06, ", "=site --gsw-release=nemo:26.06"),
        ("B200", None, "B200: 4 releases, newest nemo:26.04.01, ", "=site --gsw-release=nemo:26.04.01"),
        ("GB200", None, "GB200: 13 releases, newest nemo:26.08, ", "=site --gsw-release=nemo:26.08"),
        ("V100-32GB", None, "V100-32GB: no release has rows for it, the documents' own ", "pytest --gsw-cluster=site"),
        (
            "A100",
            None,
            "A100: only benchmarks of networks have rows for it: all_reduce",
            "pytest --gsw-cluster=site -k all_reduce",
        ),
        ("TPU7x", None, "TPU7x: only tables of no release have rows for it: ", "=site --gsw-baselines="),
        ("MI300X", None, "MI300X: only tables of no release have rows for it: ", "=baselines/releases/primus"),
        ("H200", None, "H200: no bundled table has rows for it", "=site --gsw-baselines=site --gsw-repeat=5"),
        ("H10O", None, "H10O: no bundled table has rows for it; did you mean 'H100'?", "write a table "),
        (
            "NVIDIA H100 80GB HBM3",
            None,
            "NVIDIA H100 80GB HBM3: no bundled table has rows for it; did you mean 'H100'?",
            "",
        ),
        ("GB200-NVL72", None, "GB200-NVL72: no bundled table has rows for it; did you mean 'GB200'?", ""),
    ],
)
def test_what_is_bundled_for_an_accelerator(accelerator: str, release: str | None, fact: str, following: str) -> None:
    found, following_command = bundled_rows(replace(SITE, accelerator=accelerator), release)
    assert found.startswith(fact)
    assert ("did you mean" in found) == ("did you mean" in fact)
    assert following in following_command


@pytest.mark.parametrize("release", ["26.02", "26.08"])
def test_a_release_that_may_be_the_recipes_or_the_containers_is_asked_back(release: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        resolved_release(RequestedRelease(release, "--gsw-release"), None)
    assert str(refused.value).splitlines() == [
        f"release {release} may be the recipes' or the NeMo container's, and only the container's figures are bundled",
        "asked by: --gsw-release",
        (
            f"next: ask for the container's with --gsw-release=nemo:{release}, or name a table of your own for the recipes' "
            "with --gsw-baselines=PATH"
        ),
    ]


def test_a_checkout_of_megatron_bridge_says_that_a_release_is_the_containers(tmp_path: Path) -> None:
    script = tmp_path / "scripts" / "performance" / "setup_experiment.py"
    script.parent.mkdir(parents=True)
    script.touch()
    asked = RequestedRelease("26.06", "the cluster")
    for where in ({"recipes": str(tmp_path)}, {"stage": str(tmp_path)}):
        assert resolved_release(asked, replace(SITE, **where)) == RequestedRelease("nemo:26.06", "the cluster")
    assert resolved_release(RequestedRelease("25.02", "the cluster"), SITE).release == "25.02"


@pytest.mark.parametrize("release", ["25.07", "26.06.00"])
def test_a_release_whose_documents_have_no_figures_says_who_states_some(release: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        tables_of(RequestedRelease(release, "--gsw-release"))
    containers = [name for name in bundled_releases() if name.startswith("nemo:")]
    assert str(refused.value).splitlines()[:3] == [
        f"release {release} has no figures: the recipes state none from 25.07 on",
        f"stated by Megatron-Bridge, for its containers: {', '.join(containers)}",
        "asked by: --gsw-release",
    ]
    assert "did you mean" not in str(refused.value)


def test_a_release_that_there_is_not() -> None:
    with pytest.raises(
        ConfigurationError, match=r"^no bundled table has figures of release 25\.0x; did you mean '25\.0"
    ):
        tables_of(RequestedRelease("25.0x", "--gsw-release"))
