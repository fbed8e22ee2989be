"""Which container image a run used."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_gsw.image import image_in
from pytest_gsw.tables.images import image_name, image_of

LINE = (
    "GSW: MODEL=llama2 FRAMEWORK=maxtext MODEL_SIZE=70b FW_VERSION=2024.12.09 IMAGE={} JOB_ID=481221 BASE_CONFIG=''\n"
)


@pytest.mark.parametrize(
    ("log", "image"),
    [
        (LINE.format("'/lustre/stage/nvidia+jax+maxtext-2024.12.09.sqsh'"), "nvidia+jax+maxtext-2024.12.09.sqsh"),
        (LINE.format("/stage/x.sqsh"), "x.sqsh"),
        (LINE.format("'nvcr.io/nvidia/nemo:24.09'"), "nvcr.io/nvidia/nemo:24.09"),
        ("0: " + LINE.format("'a.sqsh'") + "1: " + LINE.format("'a.sqsh'"), "a.sqsh"),
        (LINE.format("'first.sqsh'") + "step 1\n" + LINE.format("'second.sqsh'"), "second.sqsh"),
        (LINE.format("'\x1b[31mred.sqsh'"), "red.sqsh"),
        (LINE.format("'/stage/x.sqsh'") + "+ echo " + LINE.format("'$IMAGE'"), "x.sqsh"),
        ("+ echo " + LINE.format("'${IMAGE}'"), None),
        (LINE.format("''"), None),
        (LINE.replace("IMAGE={} ", ""), None),
        ("completed step: 1, seconds: 4.3\n", None),
        (LINE.format("'x.sqsh'").strip(), None),  # a line without its end is not whole
        ("", None),
    ],
)
def test_the_image_that_a_log_names(tmp_path: Path, log: str, image: str | None) -> None:
    path = tmp_path / "run.log"
    path.write_text(log)
    assert image_in(path) == image


def test_a_log_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        image_in(tmp_path / "run.log")


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
