"""Options of sbatch are read as sbatch reads them, however they are written."""

from __future__ import annotations

import math

import pytest

from pytest_gsw.jobs.scripts import Option, options_in, seconds_of, value_of


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ("--partition=batch", [("partition", "batch")]),
        ("--partition batch", [("partition", "batch")]),
        ("--part=batch", [("partition", "batch")]),
        ("--part batch", [("partition", "batch")]),
        ("-p batch", [("partition", "batch")]),
        ("-pbatch", [("partition", "batch")]),
        ("-Hpbatch --hold", [("hold", None), ("partition", "batch"), ("hold", None)]),
        ("-QHt 30", [("quiet", None), ("hold", None), ("time", "30")]),
        # As sbatch has it: the sign is part of the value.
        ("-p=batch", [("partition", "=batch")]),
        ("--time=30", [("time", "30")]),
        ("--time-m=5", [("time-min", "5")]),
        ("--exclusive=user --exclusive", [("exclusive", "user"), ("exclusive", None)]),
        ("-koff -N2", [("no-kill", None), ("nodes", "2")]),
        ("--cluster=eos", [("clusters", "eos")]),
        ("--gpus-per-n=8", [("gpus-per-node", "8")]),
        ("-p", [("partition", "")]),
        # Ambiguous, or of no release that is known: as it is written.
        ("--tim=30", [("tim", "30")]),
        ("--of-a-site=7 --flag", [("of-a-site", "7"), ("flag", None)]),
        ("hetjob", [("", None)]),
        ("-Z7", [("", None)]),
        ("- --", [("", None), ("", None)]),
    ],
)
def test_options(words: str, options: list[tuple[str, str | None]]) -> None:
    assert [(option.name, option.value) for option in options_in(words.split())] == options


def test_an_option_is_shown_as_it_was_written() -> None:
    assert list(options_in(["--arr", "1-2", "-Ha3"])) == [
        Option("array", "1-2", "--arr 1-2"),
        Option("hold", None, "-Ha3"),
        Option("array", "3", "-Ha3"),
    ]


def test_the_last_one_counts() -> None:
    words = ["-p", "first", "--account=eng", "--part", "last", "--exclusive"]
    assert (value_of(words, "partition"), value_of(words, "exclusive"), value_of(words, "qos")) == ("last", "", None)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30", 1800),
        ("30:15", 1815),
        ("1:00:00", 3600),
        ("2-12", 216000),
        ("1-01:02", 90120),
        ("1-01:02:03", 90123),
        ("UNLIMITED", math.inf),
        ("INFINITE", math.inf),
        ("", None),
        ("soon", None),
        ("1:2:3:4", None),
    ],
)
def test_times_as_slurm_writes_them(text: str, seconds: float | None) -> None:
    assert seconds_of(text) == seconds
