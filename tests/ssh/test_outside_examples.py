"""The examples for CI servers that reach a cluster from outside, run against a real OpenSSH server."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.slurm.sessions import LAUNCH, PLUGIN_ALONE, TABLE

from .login_node import HOST, LoginNode
from .toy_slurm import ToySlurm

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"
CLUSTERS = """\
defaults: {{poll_interval: 1}}
clusters:
  eos:
    scheduler: slurm
    host: eos-login
    ssh: [-F, "${{SSH_CONFIG}}"]
    accelerator: H100
    gpus_per_node: 8
    stage: {there}/stage
    recipes: {there}/recipes
"""


def commands_of(name: str) -> list[str]:
    """The shell commands of an example, without the installation."""
    example = yaml.safe_load((EXAMPLES / name).read_text())
    if "jobs" in example:
        texts = [step["run"] for step in example["jobs"]["nightly"]["steps"] if "run" in step]
    else:
        texts = [*example["performance"]["before_script"], *example["performance"]["script"]]
    return [text for text in texts if "pip install" not in text]


@pytest.mark.parametrize("name", ["github-outside.yml", "gitlab-outside.yml"])
def test_the_example_measures_from_outside(
    name: str, start_node: Callable[..., LoginNode], toy_slurm: ToySlurm, tmp_path: Path
) -> None:
    home, there, project = (tmp_path / place for place in ("home", "there", "project"))
    files = {
        home / ".bash_profile": f"export PATH={toy_slurm.path}\n",
        there / "recipes/tiny/launch.sh": LAUNCH.format(directives="", body="perfect"),
        project / "baselines/tiny.yaml": TABLE,
        project / "pytest.ini": "[pytest]\ngsw_baselines = baselines\n",
        project / "clusters.yaml": CLUSTERS.format(there=there),
        project / ".venv/bin/pytest": f'#!/bin/sh\nexec {sys.executable} -m pytest "$@"\n',
        project / ".venv/bin/pytest-gsw": f'#!/bin/sh\nexec {sys.executable} -m pytest_gsw.cli "$@"\n',
    }
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
    node = start_node(environment={"HOME": str(home)}, home=home)
    known = re.search(r"^(\S+) (.*)$", (node.directory / "known_hosts").read_text(), re.MULTILINE)
    assert known is not None
    secret = "a-token-of-this-machine"  # noqa: S105 - of no one
    environ = os.environ | PLUGIN_ALONE | {
        "EOS_HOST": f"127.0.0.1:{node.port}",
        "EOS_USER": "root",
        "EOS_KNOWN_HOSTS": f"[127.0.0.1]:{node.port} {known[2]}",
        "EOS_KEY": (node.directory / "client_key").read_text(),
        "SSH_CONFIG": str(project / ".ssh/config"),
        "EXAMPLE_TOKEN": secret,
    }  # fmt: skip
    environ.pop("STAGE_PATH", None)
    for text in commands_of(name):
        done = subprocess.run(
            ["bash", "-ec", textwrap.dedent(text)],
            cwd=project,
            env=environ,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert secret not in done.stdout
    cases = list(ET.parse(project / "junit.xml").getroot().iter("testcase"))  # noqa: S314 - our own file
    assert [(case.attrib["name"], [child.tag for child in case]) for case in cases] == [
        ("tiny_1b_bf16[H100x8]", ["properties"])
    ]
    assert (project / "report/index.html").is_file()
    assert len(toy_slurm.submissions) == 1
    assert not [path for path in there.rglob("*") if path.is_file() and secret in path.read_text(errors="replace")]
    assert HOST in (project / ".ssh/config").read_text()
