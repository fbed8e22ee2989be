"""``--gsw-find`` where no Slurm answers."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--gsw-find"], "--gsw-find looks among tiles"),
        (
            ["--gsw-tile=node", "--gsw-find=many"],
            "--gsw-find: got 'many', wanted GPU-hours such as --gsw-find=300, or unlimited",
        ),
        (["--gsw-tile=node", "--gsw-find=0"], "--gsw-find: got '0', wanted *"),
        (["--gsw-tile=node", "--gsw-find=nan"], "--gsw-find: got 'nan', wanted *"),
        (["--gsw-tile=node", "--gsw-find", "--gsw-replay=."], "--gsw-* and --gsw-replay exclude each other: *"),
    ],
)
def test_what_is_no_search(pytester: pytest.Pytester, arguments: list[str], message: str) -> None:
    result = pytester.runpytest("--gsw-cluster=demo", *arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {message}"])
