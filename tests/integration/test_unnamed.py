"""What a session says that selects by a word which is misspelt."""

from __future__ import annotations

from pathlib import Path

import pytest

DEMO = "--gsw-cluster=demo"


def told(result: pytest.RunResult) -> list[str]:
    return [line for line in result.outlines if line.startswith(("gsw: -k", "gsw: -m"))]


@pytest.mark.parametrize(
    ("expression", "lines"),
    [
        ("llama2-70b", ["gsw: -k: nothing is called 'llama2-70b'; did you mean 'llama2_70b'?"]),
        ("grok2 or Llma2_70b", [
            "gsw: -k: nothing is called 'grok2'; did you mean 'grok1'?",
            "gsw: -k: nothing is called 'Llma2_70b'; did you mean 'llama2_70b'?",
        ]),
        ("llama2_70b_fp8[h100x65]", ["gsw: -k: nothing is called 'llama2_70b_fp8[h100x65]'; did you mean 'llama2_70b_fp8[H100x64]'?"]),
        ("zzzzzzzz", ["gsw: -k: nothing is called 'zzzzzzzz'"]),
        # One word of them selects rows.
        ("H100x65", ["gsw: -k: nothing is called 'H100x65'; did you mean 'H100x64'?"]),
        ("gpt3_175b and x128 or grok2", ["gsw: -k: nothing is called 'grok2'; did you mean 'grok1'?"]),
        ("gpt3_175b and x128 and not grok2 and not (a or b_c)", []),
        # By markers, and by the table's name.
        ("proxy and gpt3", []),
        ("paxml/gpt3_175b.yaml and x128", []),
    ],
)  # fmt: skip
def test_a_word_that_is_in_no_name(pytester: pytest.Pytester, expression: str, lines: list[str]) -> None:
    assert told(pytester.runpytest(DEMO, "--collect-only", "-k", expression)) == lines


@pytest.mark.parametrize(
    ("expression", "lines"),
    [
        ("gsw(gpus=65)", ["gsw: -m: no row has gpus=65; rows have 1, 2, 8, 16, 32, 64, 96, 128, 192, 256, 512, 576 and 4 more"]),
        ("gsw(dtype='fb8') and proxy", ["gsw: -m: no row has dtype='fb8'; did you mean 'fp8'? rows have 'bf16', 'fp16', 'fp32', 'fp8'"]),
        ("gsw(gpus='64')", ["gsw: -m: no row has gpus='64'; did you mean '64'? rows have 1, 2, 8, 16, 32, 64, 96, 128, 192, 256, 512, 576 and 4 more"]),
        ("prxy", ["gsw: -m: nothing is marked 'prxy'; did you mean 'proxy'?"]),
        # Both are of rows, but of none together.
        ("gsw(gpus=64, dtype='fp32')", []),
        ("not slow and gsw(gpus=64)", []),
    ],
)  # fmt: skip
def test_a_marker_that_no_row_has(pytester: pytest.Pytester, expression: str, lines: list[str]) -> None:
    assert told(pytester.runpytest(DEMO, "--collect-only", "-m", expression)) == lines


@pytest.mark.parametrize("expression", ["gsw(gpu=64)", "not gsw(gpu=64)"])
def test_a_keyword_that_the_marker_does_not_have(pytester: pytest.Pytester, expression: str) -> None:
    result = pytester.runpytest(DEMO, "-m", expression)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        [
            "ERROR: -m: the marker gsw has no 'gpu'; did you mean 'gpus'?",
            "known: row, workload, model, size, *, document",
        ]
    )


def test_a_keyword_that_a_sites_own_marker_has(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """
        import pytest

        def pytest_itemcollected(item):
            item.add_marker(pytest.mark.gsw(rack=7))
        """
    )
    result = pytester.runpytest(DEMO, "--collect-only", "-q", "-m", "gsw(rack=7)", "-k", "gpt3_175b and H100x128")
    result.stdout.fnmatch_lines(["baselines/paxml/gpt3_175b.yaml::gpt3_175b_fp8[[]H100x128]"])


def test_tests_beside_rows_have_names_and_markers_as_well(pytester: pytest.Pytester, table: Path) -> None:
    pytester.makeini("[pytest]\nmarkers =\n    slow: takes a while\n")
    pytester.makepyfile("import pytest\n\n@pytest.mark.slow\ndef test_gateway(): pass\n")
    names = pytester.runpytest(DEMO, "--gsw-baselines=site", "-k", "gateway or tiny_2b", ".")
    assert told(names) == ["gsw: -k: nothing is called 'tiny_2b'; did you mean 'tiny_1b'?"]
    names.assert_outcomes(passed=1, deselected=3)
    marks = pytester.runpytest(DEMO, "--gsw-baselines=site", "-m", "slow", ".")
    assert told(marks) == []
    marks.assert_outcomes(passed=1, deselected=3)


def test_a_session_without_rows_is_pytests_own(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_gateway(): pass\n")
    for options in (("-k", "gatewya"), ("-m", "gsw(gpu=64)")):
        result = pytester.runpytest(*options)
        assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
        assert "gsw:" not in result.stdout.str()
        assert pytester.runpytest("--gsw-tolerance=3%", *options).ret == pytest.ExitCode.NO_TESTS_COLLECTED


def test_a_cluster_that_is_taken_for_a_file(pytester: pytest.Pytester) -> None:
    (pytester.path / "clusters.yaml").write_text("clusters: {eos: {scheduler: slurm, stage: s}}\n")
    result = pytester.runpytest("--gsw-clusters=eos")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["ERROR: --gsw-clusters: there is no file */eos, but a cluster eos", "next: --gsw-cluster=eos"]
    )
    result = pytester.runpytest("--gsw-clusters=dgx")
    assert result.stderr.lines[1] == "next: for a cluster of that name, --gsw-cluster=dgx"
    result = pytester.runpytest("--gsw-clusters=nope.yaml")
    assert result.stderr.lines[0] == f"ERROR: --gsw-clusters: there is no file {pytester.path}/nope.yaml"


def test_a_file_of_the_ini_file_is_for_sessions_with_a_cluster(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\ngsw_clusters = of-the-login-node.yaml\n")
    pytester.makepyfile("def test_one(): pass\n")
    pytester.runpytest("test_a_file_of_the_ini_file_is_for_sessions_with_a_cluster.py").assert_outcomes(passed=1)


def test_every_fault_that_is_of_no_row(pytester: pytest.Pytester) -> None:
    faults = "--gsw-demo=nope*=slow:3%;grok1_314b*=fail;lama2*=slow:2%", "--gsw-demo=llama2_70b_fp8[H100x65]=fail"
    result = pytester.runpytest(DEMO, *faults, "-k", "grok1_314b or llama2_70b")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert result.errlines[:3] == [
        "ERROR: --gsw-demo: no selected row matches 'nope*'",
        "--gsw-demo: no selected row matches 'lama2*'; did you mean 'llama2'?",
        "--gsw-demo: no selected row matches 'llama2_70b_fp8[H100x65]'; did you mean 'llama2_70b_fp8[H100x64]'?",
    ]


@pytest.mark.parametrize("by_path", [False, True])
def test_a_row_of_a_table_that_is_not_there(pytester: pytest.Pytester, table: Path, by_path: bool) -> None:
    arguments = ["site/tiny.yaml::tiny_1b_bf16[H100x9]"] if by_path else ["baselines/tiny.yaml::tiny_1b_bf16[H100x9]"]
    if not by_path:
        table.parent.rename(pytester.path / "there")
        arguments = ["--gsw-baselines=there", "there/tiny.yaml::tiny_1b_bf16[H100x9]"]
    result = pytester.runpytest(DEMO, *arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["ERROR: not found: *tiny.yaml::tiny_1b_bf16[[]H100x9]; did you mean 'tiny_1b_bf16[[]H100x8]'?"]
    )


@pytest.mark.parametrize(
    ("option", "lines"),
    [
        ("--gsw-cluser=demo", ["  --gsw-cluser: did you mean --gsw-cluster?"]),
        ("--gsw_max_gain=5", ["  --gsw_max_gain: did you mean --gsw-max-gain?"]),
        ("--gws-cluster=demo", ["  --gws-cluster: did you mean --gsw-cluster?"]),
        ("--gsw-zzzzz", []),
    ],
)
def test_an_option_that_is_misspelt(pytester: pytest.Pytester, option: str, lines: list[str]) -> None:
    result = pytester.runpytest(option, "-k", "llama2_70b")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*: error: unrecognized arguments: {option}"])
    assert [line for line in result.errlines if "did you mean" in line] == lines


def test_an_option_of_a_conftest_py_is_not_misspelt(pytester: pytest.Pytester) -> None:
    pytester.makeconftest('def pytest_addoption(parser): parser.addoption("--gsw-cluste")')
    pytester.makepyfile("def test_it(): pass")
    result = pytester.runpytest("--gsw-cluste=here")
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*did you mean*")
