"""``pytest-gsw audit``."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from pytest_gsw.cli import main
from pytest_gsw.documents.audit.figures import read_row
from pytest_gsw.documents.audit.prose import prose
from pytest_gsw.documents.audit.text import read_text
from pytest_gsw.tables.bundled import bundled_baselines
from pytest_gsw.tables.load import table_files
from pytest_gsw.tables.stated import stated_rows

ROOT = Path(__file__).resolve().parents[2]

TABLE = """\
model: tiny
size: 1b
framework: maxtext
accelerator: H100
gpus_per_node: 8
document: README.md
recipe: {directory: tiny, steps: 20}
sequence_length: 1024
global_batch_size: 64
tables:
  - dtype: bf16
    rows:
      - {gpus: 8, step_time_s: 1.000, tokens_per_s: 65536, line: 10}
      - {gpus: 16, step_time_s: 0.510, tokens_per_s: 131072, line: 11KNOWN}
"""

README = """\
# Tiny

Performance is the last training step timing. The sequence length is taken from the example.

(sequence length) * (global batch size) / (training_step_timing) = (throughput in tokens per second)

E.g. 1024 * 64 / 1.000 = 65563

completed step: 49, seconds: 1.000, TFLOP/s/device: 460.480

| Tiny 1b BF16 | 8x H100 GPUs (GBS=64) | 16x H100 GPUs (GBS=64) |
|---|---|---|
| Training step time (seconds per step) | 1.000 | 0.510 |
| Throughput in tokens per second | 65536 | 131072 |
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(path: Path, known: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(TABLE.replace("KNOWN", f", acknowledged: {{{known}}}" if known else ""))
    return path


def audited(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    status = main(["audit", "--format=json", *arguments])
    facts: dict[str, Any] = json.loads(capsys.readouterr().out)
    return status, facts


def test_a_contradiction_is_exit_status_1(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(here / "site" / "tiny.yaml")
    assert main(["audit", "site"]) == 1
    assert capsys.readouterr() == (
        """\
site/tiny.yaml
  14:54    contradiction  tiny_1b_bf16[H100x16]  tokens_per_s  (README.md:11)
    documented 131072, computed 128502: 1024 * 64 / 0.510 s
    typo: 0.500 s gives it: one digit of 0.510 s is wrong
    the verdict uses the computed one: it rests on the step time, 0.510 s

2 rows, 3 figures checked: 1 contradiction
next: put it right, or say in the table why it stays: acknowledged: {mfu: reason}
""",
        "",
    )


def test_what_is_acknowledged_is_exit_status_0(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(here / "tiny.yaml", "tokens_per_s: the document's own")
    assert main(["audit", "tiny.yaml"]) == 0
    out = capsys.readouterr().out
    assert "    acknowledged: the document's own\n" in out
    assert out.endswith("2 rows, 3 figures checked: 1 contradiction (1 acknowledged)\n")


def test_what_is_not_found_any_more(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(here / "tiny.yaml", "tokens_per_s: known, mfu: gone")
    assert main(["audit", "tiny.yaml"]) == 0
    assert "    acknowledged, but not found any more: gone\n" in capsys.readouterr().out
    assert main(["audit", "--strict", "tiny.yaml"]) == 1


def test_a_wrong_table_is_exit_status_2(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "wrong.yaml").write_text("[]\n")
    assert main(["audit", "wrong.yaml"]) == 2
    assert capsys.readouterr() == (
        "",
        "pytest-gsw audit: wrong.yaml: 1 problem\n  wrong.yaml:1:1     wanted a mapping of keys at the top of the file\n",
    )
    assert main(["audit", "missing"]) == 2
    assert capsys.readouterr().err == (
        "pytest-gsw audit: there is nothing to audit at missing: there is no such file or directory\n"
    )
    (here / "empty").mkdir()
    assert main(["audit", "empty"]) == 2
    assert capsys.readouterr().err == (
        "pytest-gsw audit: there is nothing to audit in empty: there is no .yaml, .yml or .md file\n"
    )
    with pytest.raises(SystemExit) as ended:
        main(["audit", "--format=xml"])
    assert ended.value.code == 2


def test_the_bundled_tables_are_the_default(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    _, facts = audited(capsys)
    assert facts["rows"] == 141
    assert {found["file"] for found in facts["findings"]} < {
        str(path.relative_to(ROOT)) for path in table_files(bundled_baselines())
    }


def test_a_file_is_audited_once(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(here / "site" / "tiny.yaml")
    _, facts = audited(capsys, "site", "site/tiny.yaml", str(here / "site"))
    assert facts["rows"] == 2


def test_github(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(here / "site" / "tiny.yaml")
    assert main(["audit", "--format=github", str(path)]) == 1
    out = capsys.readouterr().out
    assert out.startswith(
        "::error file=site/tiny.yaml,line=14,col=54,title=audit%3A tokens_per_s::tiny_1b_bf16[H100x16]: "
    )


def test_junit(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(here / "tiny.yaml")
    assert main(["audit", "--format=junit", "-o", "out/audit.xml", "tiny.yaml"]) == 1
    assert capsys.readouterr().out == "out/audit.xml: 2 rows, 3 figures checked: 1 contradiction\n"
    (suite,) = ET.parse(here / "out" / "audit.xml").getroot()  # noqa: S314 - this test's own
    assert [(case.get("classname"), case.get("name"), len(case)) for case in suite] == [
        ("tiny.yaml", "tiny_1b_bf16[H100x8]", 0),
        ("tiny.yaml", "tiny_1b_bf16[H100x16]", 1),
    ]


def test_a_document(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("markdown_it")
    (here / "README.md").write_text(README)
    status, facts = audited(capsys, "README.md")
    assert status == 1
    assert [(found["file"], found["identity"], found["line"]) for found in facts["findings"]] == [
        ("README.md", "tokens_per_s", 14),
        ("README.md", "line_7", 7),
    ]
    assert facts["documents"] == ["README.md"]
    assert [found["explanations"][0]["text"] for found in facts["findings"]] == [
        "0.500 s gives it: one digit of 0.510 s is wrong",
        "65536 would fit: two digits of 65563 are swapped",
    ]


def test_a_table_acknowledges_for_its_document(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("markdown_it")
    (here / "docs").mkdir()
    (here / "docs" / "README.md").write_text(README)
    (here / "docs" / ".hidden").mkdir()
    (here / "docs" / ".hidden" / "OTHER.md").write_text("8 * 8 = 63\n")
    write(here / "site" / "tiny.yaml", "tokens_per_s: known, line_7: known")
    status, facts = audited(capsys, "docs", "site")
    assert status == 0
    assert [(found["file"], found["identity"], found["acknowledged"]) for found in facts["findings"]] == [
        ("docs/README.md", "tokens_per_s", "known"),
        ("docs/README.md", "line_7", "known"),
        ("site/tiny.yaml", "tokens_per_s", "known"),
    ]
    assert facts["stale"] == []


def test_a_document_without_what_reads_markdown(here: Path) -> None:
    (here / "README.md").write_text(README)
    blocked = here / "blocked" / "markdown_it"
    blocked.mkdir(parents=True)
    (blocked / "__init__.py").write_text("raise ModuleNotFoundError('markdown_it', name='markdown_it')\n")
    ended = subprocess.run(
        [sys.executable, "-m", "pytest_gsw.cli", "audit", "README.md"],
        env={**os.environ, "PYTHONPATH": str(here / "blocked")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "pip install '.[import]' in a checkout of pytest-gsw" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_what_others_wrote_is_fit_to_be_shown(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(here / "tiny.yaml", 'tokens_per_s: "token: a1b2c3d4 and\n more"')
    assert main(["audit", "tiny.yaml"]) == 0
    out = capsys.readouterr().out
    assert "a1b2c3d4" not in out
    assert "    acknowledged: token: *** and more\n" in out


#: The contradictions of the documents' text, made by hand of their figures: the line in the document, and what it says.
TEXTS = {
    "001_d72875405c2646ca.txt": {
        18: "global_step=49.00, consumed_samples=12600.0, train_step_timing in s=12.80]",
        26: "E.g. 8192 * 252 / 12.84 = 160778",
        49: "MFU = 252 * 2.17E+16 / 11.24 / 576 / 1979E+12 = 42.71%",
        153: "model flops = 8129 * (659,545,915,392 + 1,978,637,746,176 + 12,608,077,824) = 2.17E16",
    },
    "002_3c57c1fddbf54bf7.txt": {
        55: "THROUGHPUT=122",
        56: "NNODES=16",
        57: "MSIZE=52",
        58: "MICRO_BATCH_SIZE=4",
        59: "DP_SIZE=1",
        60: "PP_CHUNKS=256",
        61: 'echo "($MSIZE*4*2*1024*$MICRO_BATCH_SIZE*$DP_SIZE*$PP_CHUNKS)/($THROUGHPUT*$NNODES*4*1000)" | bc -l',
        62: "55.86675409836065573770",
        500: "perl -le '$ng=64; $ms=52; $gbs=512; $sp=139.52; print $ms*4*2*1024*$gbs / ( $sp * $ng * 1e3)'",
        501: "22",
        512: "perl -le '$ng=64; $ms=52; $gbs=1024; $sp=127; print $ms*4*2*1024*$gbs / ( $sp * $ng * 1e3)'",
    },
    "003_74aabd83c4a30565.txt": {
        7: "completed step: 49, seconds: 7.908, TFLOP/s/device: 460.480",
        10: "E.g. 4096 * 128 / 7.908 = 66298.43",
        13: "E.g. 1e12 / 66298.43 / 86400 = 174.57 days",
        18: "E.g. Llama 2 70b BF16 on 64x H100 GPUs (GBS=128)",
        20: "training step time = 7.908 s",
    },
    "004_e3558243c967e79c.txt": {
        29: "global_step=49.00, consumed_samples=51200.0, train_step_timing in s=24.00]",
        37: "E.g. 8192 * 4096 / 24 = 1398101",
        43: "E.g. 1e12 / 1398101 / 86400 = 8.28 days",
        55: "E.g. Grok 1 BF16 on 2048x H100 GPUs (GBS=4096)",
        58: "training step time = 24",
    },
}
FOUND = {
    "001_d72875405c2646ca.txt": {18, 26, 49, 153},
    "002_3c57c1fddbf54bf7.txt": {55, 501, 512},
    "003_74aabd83c4a30565.txt": {13, 20},
    "004_e3558243c967e79c.txt": {37, 58},
}


def listed() -> dict[str, str]:
    """The findings of each document as docs/notes/findings.md lists them."""
    text = (ROOT / "docs" / "notes" / "findings.md").read_text().partition("\n## Seen by eye")[0]
    sections = re.split(r"^## .*\(`(.*)`\)$", text, flags=re.MULTILINE)
    return dict(zip(sections[1::2], sections[2::2], strict=True))


@pytest.mark.parametrize("document", TEXTS)
def test_the_documents_texts_are_listed(document: str) -> None:
    rows = [row for path in table_files(bundled_baselines()) for row in map(read_row, stated_rows(path))]
    rows = [row for row in rows if row.text("document") == document]
    lines = [TEXTS[document].get(number, "") for number in range(1, max(TEXTS[document]) + 1)]
    found = [one for one in prose(read_text(document, lines), rows) if one is not None]
    assert {one.line for one in found} == FOUND[document]
    for one in found:
        (line,) = re.findall(rf"^\| {one.line} \| text: .*$", listed()[document], re.MULTILINE)
        assert f"| {one.documented} | {one.computed} | {one.explanation.kind.value}: " in line


#: What docs/notes/findings.md has above its lists.
LISTS = {
    "contradiction": "Contradictions",
    "discrepancy": "Discrepancies",
    "rounding": "Rounding",
    "notice": "Notices",
}


def test_the_tables_findings_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    _, facts = audited(capsys)
    for found in facts["findings"]:
        document = found["source"].partition(":")[0]
        figures = f"{found['row']} {found['identity']} | {found['documented']} | {found['computed']} | "
        _, _, below = listed()[document].partition(f"\n{LISTS[found['severity']]}:\n\n")
        assert figures in below.partition("\n\n")[0]
        assert found["explanations"][0]["kind"] in listed()[document]
