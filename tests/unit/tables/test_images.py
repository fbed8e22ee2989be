"""Names of container images."""

from __future__ import annotations

import pytest

from pytest_gsw.tables.model import image_name, image_of


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
