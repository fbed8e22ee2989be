"""Rows as values: their ids, statistics, and names of images."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gsw.hardware import accelerator_of, is_same
from pytest_gsw.tables.model import Kind, Statistic, image_name, image_of, parse_statistic, row_matches

ROW = "tiny_1b_bf16[H100x8]"


@pytest.mark.parametrize(
    ("pattern", "row", "is_selected"),
    [
        (None, ROW, True),
        (ROW, ROW, True),
        (f"site/tiny.yaml::{ROW}", ROW, True),
        ("tiny*", ROW, True),
        ("*[H100x8]", ROW, True),
        ("*x?]", ROW, True),
        ("tiny_1b_bf16[H100x16]", ROW, False),
        ("tiny_1b_bf16H", ROW, False),
        ("*x[8]]", ROW, False),
        ("TINY*", ROW, False),
        ("tiny", ROW, False),
        ("", ROW, False),
    ],
)
def test_the_brackets_of_ids_are_not_special(pattern: str | None, row: str, is_selected: bool) -> None:
    assert row_matches(pattern, row) is is_selected


WANTED = "wanted last, mean or median, optionally with a window such as mean[35:44] or median[-10:]"


@pytest.mark.parametrize(
    ("text", "statistic"),
    [
        ("last", Statistic("last")),
        ("mean", Statistic("mean")),
        ("median", Statistic("median")),
        ("mean[35:44]", Statistic("mean", 35, 44)),
        ("mean[:44]", Statistic("mean", None, 44)),
        ("mean[0:]", Statistic("mean", 0, None)),
        ("median[-10:]", Statistic("median", -10, None)),
        ("mean[5:-2]", Statistic("mean", 5, -2)),
    ],
)
def test_what_a_statistic_says(text: str, statistic: Statistic) -> None:
    assert parse_statistic(text) == statistic
    assert str(statistic) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", f"got '', {WANTED}"),
        ("mode", f"got 'mode', {WANTED}"),
        ("mean[35]", f"got 'mean[35]', {WANTED}"),
        ("mean[3.5:44]", f"got 'mean[3.5:44]', {WANTED}"),
        ("mean[1:2:3]", f"got 'mean[1:2:3]', {WANTED}"),
        ("mean[]", f"got 'mean[]', {WANTED}"),
        ("mean[:]", f"got 'mean[:]', an empty window; {WANTED}"),
        ("last[1:2]", "got 'last[1:2]', but 'last' is one step and takes no window"),
        ("last[:]", "got 'last[:]', but 'last' is one step and takes no window"),
        ("mean[44:35]", "got 'mean[44:35]', whose window ends before it starts"),
        ("median[-1:-10]", "got 'median[-1:-10]', whose window ends before it starts"),
    ],
)
def test_what_is_no_statistic(text: str, message: str) -> None:
    with pytest.raises(ValueError, match="got") as error:
        parse_statistic(text)
    assert str(error.value) == message


@st.composite
def statistics(draw: st.DrawFn) -> Statistic:
    kind: Kind = draw(st.sampled_from(["last", "mean", "median"]))
    if kind == "last":
        return Statistic(kind)
    bounds = st.none() | st.integers(-(10**9), 10**9)
    first, last = draw(bounds), draw(bounds)
    if first is not None and last is not None and (first < 0) == (last < 0):
        first, last = sorted((first, last))
    return Statistic(kind, first, last)


@given(statistics())
def test_a_statistic_reads_back_as_itself(statistic: Statistic) -> None:
    assert parse_statistic(str(statistic)) == statistic


@pytest.mark.parametrize(
    ("environment", "image"),
    [
        ({"RUN_CONF_IMAGE": "/stage/nvidia+nemo+24.12.sqsh"}, "nvidia+nemo+24.12.sqsh"),
        ({"RUN_CONF_IMAGE": "docker://nvcr.io#nvidia/nemo:24.12"}, "docker://nvcr.io#nvidia/nemo:24.12"),
        ({"RUN_CONF_IMAGE": " "}, None),
        ({}, None),
    ],
)
def test_the_image_that_an_environment_chooses(environment: dict[str, str], image: str | None) -> None:
    assert image_of(environment) == image


def test_a_name_is_one_line() -> None:
    assert image_name("./a/b\nc.sqsh") == "b c.sqsh"


@pytest.mark.parametrize(
    ("image", "name"),
    [
        ("docker://bob:hunter22@nvcr.io/nvidia/nemo:24.09", "docker://nvcr.io/nvidia/nemo:24.09"),
        ("docker://bob@nvcr.io#nvidia/nemo:24.09", "docker://nvcr.io#nvidia/nemo:24.09"),
        ("bob:hunter22@nvcr.io/nvidia/nemo", "nvcr.io/nvidia/nemo"),
        ("bob@nvcr.io#nvidia/nemo", "nvcr.io#nvidia/nemo"),
        ("https://images/x.sqsh?token=abc", "https://images/x.sqsh"),
        # Of a digest, the "@" is part of the name.
        ("docker://nvidia/nemo@sha256:0123abcd", "docker://nvidia/nemo@sha256:0123abcd"),
        ("docker://nemo@sha256:0123abcd", "docker://***@sha256:0123abcd"),
        ("nvcr.io/nvidia/nemo@sha256:0123abcd", "nvcr.io/nvidia/nemo@sha256:0123abcd"),
        ("/lustre/a@b/nemo@24.09.sqsh", "nemo@24.09.sqsh"),
        ("~/images/x.sqsh", "x.sqsh"),
        ("nvcr.io/nvidia/nemo:24.09", "nvcr.io/nvidia/nemo:24.09"),
    ],
)
def test_a_name_says_neither_who_nor_where(image: str, name: str) -> None:
    assert image_name(image) == name
    assert image_name(name) == name


@pytest.mark.parametrize("letters", ["a/b@c", "~x", "/..", ".", " / / x", "@", "u@r/i", "s://u@r@i?x"])
def test_a_name_stays_what_it_is(letters: str) -> None:
    assert image_name(image_name(letters)) == image_name(letters)


@pytest.mark.parametrize(
    ("device", "same", "others"),
    [
        ("NVIDIA H100 80GB HBM3", ("H100", "H100-80GB"), ("H200", "A100", "GH200", "H100-94GB", "H100-MIG")),
        ("NVIDIA A100-SXM4-40GB", ("A100", "A100-40GB"), ("A100-80GB",)),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", ("H100-MIG",), ("H100",)),
        ("Tesla V100-SXM2-32GB", ("V100", "V100-32GB"), ("V100-16GB",)),
        ("NVIDIA GB200", ("GB200",), ("B200", "GB300")),
        ("NVIDIA GH200 120GB", ("GH200", "GH200-96GB"), ("H100", "GB200")),
        ("AMD Instinct MI300X OAM", ("MI300X",), ("MI250X",)),
    ],
)
def test_the_accelerator_of_a_device(device: str, same: tuple[str, ...], others: tuple[str, ...]) -> None:
    name = accelerator_of(device) or ""
    assert [one for one in (*same, *others) if is_same(name, accelerator_of(one) or "")] == [*same]


@pytest.mark.parametrize("device", ["", "Graphics Device", "gfx942", "CPU", "TPU-v5p", "NVIDIA GeForce RTX 3090"])
def test_a_device_without_a_model_is_no_accelerator(device: str) -> None:
    assert accelerator_of(device) is None
