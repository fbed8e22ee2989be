"""The README's first command runs where nothing but the plugin is installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
#: What the extras install; an import of one of them fails, as where it is missing.
_WITHOUT_EXTRAS = """\
import sys
extras = ["hypothesis", "importlinter", "jsonschema", "lxml", "markdown_it", "playwright", "prometheus_client",
          "psycopg", "torch", "xdist"]
sys.modules.update(dict.fromkeys(extras))
import pytest
sys.exit(pytest.main(sys.argv[1:]))
"""


def test_nothing_of_the_extras_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    """pytest reads the conftest.py of each folder of ``testpaths``, whatever the session collects."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    options = ["-p", "pytest_gsw.plugin", "--gsw-cluster=demo", "-k", "llama2_70b_fp8", "--collect-only", "-q"]

    run = subprocess.run([sys.executable, "-c", _WITHOUT_EXTRAS, *options], cwd=ROOT, capture_output=True, text=True)

    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.count("llama2_70b_fp8[") == 6
