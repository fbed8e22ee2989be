"""What is said of a table that is wrong: whole messages, to the letter."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from pytest_gsw.errors import FileError
from pytest_gsw.tables import yaml_values
from pytest_gsw.tables.load import load_table
from tests.messages import wording
from tests.unit.tables.texts import TINY, billion_laughs, change

Message = Callable[[str | bytes], str]

SEVERAL_FAULTS = """\
modle: tiny
framework: maxtext
document: site.md
tolerance: 5
recipe:
  directory: tiny
  steps: 20
  environment: {NODES: "{node}", TASKS: "{"}
tables:
  - dtype: bf16
    dtype: fp8
    rows:
      - {gpus: 0, step_time_s: .nan, proxy: yes, line: [1]}
      - {gpus: 8, metric: step-time, mfu: 52.59, attributes: {a: 1, a: 2}}
"""


def test_every_fault_of_a_file_is_told_at_once(message: Message) -> None:
    assert message(SEVERAL_FAULTS) == (
        "t.yaml: 17 problems\n"
        "  t.yaml:1:1     missing 'model'\n"
        "  t.yaml:1:1     modle: unknown key; did you mean 'model'?\n"
        "  t.yaml:4:12    tolerance: got '5', wanted a percentage such as 5%\n"
        "  t.yaml:8:24    recipe.environment.NODES: unknown placeholder {node}; did you mean 'nodes'?\n"
        "  t.yaml:8:41    recipe.environment.TASKS: got '{', whose braces do not match; "
        "a brace itself is written twice\n"
        "  t.yaml:11:5    tables[0].dtype: is there twice\n"
        "  t.yaml:13:9    tables[0].rows[0]: missing 'accelerator' (here, at its table or at the file)\n"
        "  t.yaml:13:9    tables[0].rows[0]: missing 'gpus_per_node' (here, at its table or at the file)\n"
        "  t.yaml:13:16   tables[0].rows[0].gpus: got '0', wanted a whole number above 0, such as 64\n"
        "  t.yaml:13:32   tables[0].rows[0].step_time_s: got '.nan', wanted a number above 0, such as 4.324\n"
        "  t.yaml:13:45   tables[0].rows[0].proxy: got 'yes', wanted true or false\n"
        "  t.yaml:13:56   tables[0].rows[0].line: wanted a whole number above 0\n"
        "  t.yaml:14:9    tables[0].rows[1]: missing 'accelerator' (here, at its table or at the file)\n"
        "  t.yaml:14:9    tables[0].rows[1]: missing 'gpus_per_node' (here, at its table or at the file)\n"
        "  t.yaml:14:27   tables[0].rows[1].metric: got 'step-time', wanted a metric such as step_time or "
        "busbw_gbs; did you mean 'step_time'?\n"
        "  t.yaml:14:43   tables[0].rows[1].mfu: got '52.59', wanted a percentage such as 5%\n"
        "  t.yaml:14:69   tables[0].rows[1].attributes.a: is there twice"
    )


WHOLE = "wanted a whole number above 0, such as 64"
NUMBER = "wanted a number above 0, such as 4.324"
PERCENTAGE = "wanted a percentage such as 5%"
CASE = "wanted a short name of a-z, 0-9, '.' and '-', at most 60 characters"


@pytest.mark.parametrize(
    ("key", "written", "problem"),
    [
        ("gpus_per_node", "0", f"got '0', {WHOLE}"),
        ("gpus_per_node", "-1", f"got '-1', {WHOLE}"),
        ("gpus_per_node", "8.0", f"got '8.0', {WHOLE}"),
        ("gpus_per_node", "\uff16\uff14", f"got '\uff16\uff14', {WHOLE}"),
        ("gpus_per_node", "[8]", "wanted a whole number above 0"),
        ("gpus_per_node", '""', f"got '', {WHOLE}"),
        ("tokens_per_s", "0.0", f"got '0.0', {NUMBER}"),
        ("tokens_per_s", "-1", f"got '-1', {NUMBER}"),
        ("tokens_per_s", "nan", f"got 'nan', {NUMBER}"),
        ("tokens_per_s", "1e999", f"got '1e999', {NUMBER}"),
        ("tokens_per_s", "1e-999", f"got '1e-999', {NUMBER}"),
        ("tokens_per_s", "1_000", f"got '1_000', {NUMBER}"),
        ("mfu", "5", f"got '5', {PERCENTAGE}"),
        ("mfu", "0%", f"got '0%', {PERCENTAGE}"),
        ("mfu", "100.1%", f"got '100.1%', {PERCENTAGE}"),
        ("mfu", "[5%]", PERCENTAGE),
        ("tolerance", "100%", "got '100%', wanted a percentage above 0% and below 100%, such as 5%"),
        ("tolerance", "100.00 %", "got '100.00 %', wanted a percentage above 0% and below 100%, such as 5%"),
        ("tolerance", "[5%]", "wanted a percentage below 100%, such as 5%"),
        ("proxy", "yes", "got 'yes', wanted true or false"),
        ("proxy", "True", "got 'True', wanted true or false"),
        ("metric", "Speed", "got 'Speed', wanted a metric such as step_time or busbw_gbs"),
        ("statistic", '"mean[9:3]"', "got 'mean[9:3]', whose window ends before it starts"),
        ("statistic", "[9]", "wanted a statistic such as last, mean[35:44] or median[-10:]"),
        ("case", "Big_Batch", f"got 'Big_Batch', {CASE}"),
        ("case", "x-", f"got 'x-', {CASE}"),
        ("case", "x" * 61, f"got '{'x' * 61}', {CASE}"),
        ("size", "70B", "got '70B', wanted a name such as 70b; did you mean '70b'?"),
        ("dtype", '"fp8\\n"', "got 'fp8\\n', wanted a name such as fp8"),
        ("size", "a" * 61, "has 61 characters, wanted at most 60"),
        ("accelerator", "two words", "got 'two words', wanted a name such as H100"),
        ("notes", '" "', "is empty"),
        ("attributes", "5", "wanted a mapping of keys"),
    ],
)
def test_a_value_of_the_wrong_kind(message: Message, key: str, written: str, problem: str) -> None:
    text = change("gpus: 8,", f"gpus: 8, {key}: {written},")
    assert message(text) == wording("one problem", path="t.yaml") + "\n" + wording(
        "problem of a row", place=f"  t.yaml:12:{21 + len(key):<4}", key=key, problem=problem
    )


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("[peak_memory_gib]", ": wanted a mapping of keys"),
        ("{peak_memory_gib: 61.2}", ".peak_memory_gib: wanted a mapping of keys"),
        ("{Peak: {value: 1}}", ".Peak: wanted a name of a-z, 0-9 and '_'"),
        ("{[a]: {value: 1}}", ": wanted a plain word as the key"),
        ("{a: {value: 0}}", f".a.value: got '0', {NUMBER}"),
        ("{a: {value: 1, unit: GB}}", ".a.unit: unknown key"),
        ("{a: {value: 1}, a: {value: 2}}", ".a: is there twice"),
    ],
)
def test_metrics_of_the_wrong_kind(message: Message, written: str, problem: str) -> None:
    text = message(change("gpus: 8,", f"gpus: 8, metrics: {written},"))
    assert text.startswith(wording("one problem", path="t.yaml") + "\n  t.yaml:12:")
    assert text.endswith(f" tables[0].rows[0].metrics{problem}")


@pytest.mark.parametrize("key", ["tokens_per_s", "tokens_per_s_per_gpu", "mfu"])
def test_a_figure_of_the_row_itself_is_no_further_metric(message: Message, key: str) -> None:
    text = message(change("gpus: 8,", f"gpus: 8, metrics: {{{key}: {{value: 1}}}},"))
    assert text.endswith(wording("no key", key=f"metrics.{key}"))


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("size: 1b", "size: 1b\nwhatever: 5", "3:1     whatever: unknown key"),
        ("dtype: bf16", "dtype: bf16\n    <<: {dtype: bf16}", "11:5    tables[0].<<: unknown key"),
        ("dtype: bf16", "dtype: bf16\n    ? [a, b]\n    : 1", "11:7    tables[0]: wanted a plain word as the key"),
        (
            "step_time_s: 1.5",
            "step_time_s: 1.5, metric: calibrated_step_time",
            "12:9    tables[0].rows[0]: missing 'calibration_flops', the calibration with which 'step_time_s' was measured",
        ),
        (
            "directory: tiny, ",
            "directory: ../up, ",
            "7:21    recipe.directory: got '../up', wanted a relative directory such as maxtext",
        ),
        (
            "steps: 20",
            "script: /bin/sh, steps: 20",
            "7:35    recipe.script: got '/bin/sh', wanted a file name such as launch.sh",
        ),
        ("{directory: tiny, steps: 20}", "tiny", "7:9     recipe: wanted a mapping of keys"),
        ("steps: 20", "steps: 20, environment: [A=1]", "7:51    recipe.environment: wanted a mapping of keys"),
        (
            "steps: 20",
            "steps: 20, environment: {A-B: 1}",
            "7:52    recipe.environment.A-B: wanted a name of letters, digits and '_'",
        ),
        ("steps: 20", "steps: 20, environment: {A: [1]}", "7:55    recipe.environment.A: wanted a text"),
        ("steps: 20", "steps: 20, environment: {A: 1, A: 1}", "7:58    recipe.environment.A: is there twice"),
        ("steps: 20", "steps: 20, environment: {[A]: 1}", "7:52    recipe.environment: wanted a plain word as the key"),
        ("size: 1b", "size: 1b\narchitecture: {layers: 4}", "3:15    architecture: missing 'formula'"),
        (
            "gpus: 16",
            "gpus: 8",
            "13:9    tables[0].rows[1]: has the id tiny_1b_bf16[H100x8] of line 12; give it a 'case' of its own",
        ),
        ("step_time_s: 1.5, ", "", "12:9    tables[0].rows[0]: missing 'step_time_s', on which the verdict rests"),
        (
            "      - {gpus: 8, step_time_s: 1.5, line: 10}",
            "      - 8 GPUs",
            "12:9    tables[0].rows[0]: wanted a mapping",
        ),
    ],
)
def test_one_fault(message: Message, old: str, new: str, fault: str) -> None:
    assert message(change(old, new)) == wording("one problem", path="t.yaml") + f"\n  t.yaml:{fault}"


@pytest.mark.parametrize(
    ("key", "written", "problem"),
    [
        ("step_time_s", "4,324", f"got '4,324', {NUMBER}; decimal comma? write 4.324; thousands? write 4324"),
        ("step_time_s", "4,3", f"got '4,3', {NUMBER}; decimal comma? write 4.3"),
        ("step_time_s", "1,234,567.5", f"got '1,234,567.5', {NUMBER}; thousands? write 1234567.5"),
        ("step_time_s", "1,2,3", f"got '1,2,3', {NUMBER}"),
        ("step_time_s", "4,3 s", f"got '4,3 s', {NUMBER}"),
        ("gpus_per_node", "1,024", f"got '1,024', {WHOLE}; thousands? write 1024"),
        ("gpus_per_node", "8,0", f"got '8,0', {WHOLE}"),
        ("mfu", "52,59%", f"got '52,59%', {PERCENTAGE}; decimal comma? write 52.59%"),
        ("case", "a,b", f"got 'a,b', {CASE}"),
    ],
)
def test_a_comma_in_a_value(message: Message, key: str, written: str, problem: str) -> None:
    text = TINY.replace(", step_time_s: 1.5", "") if key == "step_time_s" else TINY
    on_lines = text.replace("dtype: bf16", f"dtype: bf16\n    {key}: {written}")
    assert (
        message(on_lines)
        == wording("one problem", path="t.yaml") + f"\n  t.yaml:11:{7 + len(key):<4} tables[0].{key}: {problem}"
    )


def test_a_comma_in_braces_ends_a_value(message: Message) -> None:
    assert message(TINY.replace("step_time_s: 1.5", "step_time_s: 4,324")) == wording(
        "one problem", path="t.yaml"
    ) + "\n" + wording(
        "problem of a row", place="  t.yaml:12:34  ", key="324", problem="unknown key; a comma ends the value before it"
    )


def test_a_misspelt_key_is_not_missing_as_well(message: Message) -> None:
    text = TINY.replace("step_time_s: 1.5", "step_times_s: 4,3").replace("gpus: 16", "gpus: 12")
    assert message(text) == (
        "t.yaml: 3 problems\n"
        "  t.yaml:12:19   tables[0].rows[0].step_times_s: unknown key; did you mean 'step_time_s'?\n"
        "  t.yaml:12:35   tables[0].rows[0].3: unknown key; a comma ends the value before it\n"
        "  t.yaml:13:9    tables[0].rows[1]: 12 GPUs do not fill whole nodes of 8"
    )


@pytest.mark.parametrize(
    ("template", "problem"),
    [
        ("{foo}", "unknown placeholder {foo}"),
        ("{tp}x{}", "unknown placeholder {}"),
        ("{gpus.real}", "unknown placeholder {gpus.real}; did you mean 'gpus'?"),
        ("{gpus!r}", "got '{gpus!r}', wanted placeholders without a format, such as {gpus}"),
        ("{gpus:>{tp}}", "got '{gpus:>{tp}}', wanted placeholders without a format, such as {gpus}"),
        ("{gpus", "got '{gpus', whose braces do not match; a brace itself is written twice"),
        ("a}", "got 'a}', whose braces do not match; a brace itself is written twice"),
    ],
)
def test_a_template_that_cannot_be_filled_in(message: Message, template: str, problem: str) -> None:
    text = change("steps: 20", f"steps: 20, environment: {{NODES: '{template}'}}")
    assert message(text) == f"t.yaml: 1 problem\n  t.yaml:7:59    recipe.environment.NODES: {problem}"


ROWS = TINY.partition("    rows:")[0]


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("", "1:1     is empty"),
        ("# nothing yet\n", "1:1     is empty"),
        ("- model: tiny\n", "1:1     wanted a mapping of keys at the top of the file"),
        ("tiny\n", "1:1     wanted a mapping of keys at the top of the file"),
        (TINY.partition("tables:")[0], "1:1     missing 'tables'"),
        (ROWS, "10:5    tables[0]: missing 'rows'"),
        (f"{ROWS}    rows:\n", "11:10   tables[0].rows: wanted a list"),
        (f"{ROWS}    rows: []\n", "11:11   tables[0].rows: is empty, wanted at least one entry"),
        (TINY.partition("tables:")[0] + "tables: []\n", "9:9     tables: is empty, wanted at least one entry"),
        (b"model: tiny\nsize: \xff\n", "2:1     is not UTF-8 text"),
        (TINY.encode("utf-16"), "1:1     is not UTF-8 text"),
        (
            "model: a\n---\nmodel: b\n",
            "2:1     is not YAML: expected a single document in the stream but found another document",
        ),
    ],
)
def test_a_file_that_is_no_table(message: Message, content: str | bytes, fault: str) -> None:
    assert message(content) == wording("one problem", path="t.yaml") + f"\n  t.yaml:{fault}"


QUOTES = "; a text with ': ', braces or brackets, or with @, %, & or * in front needs quotes"
SYNTAX = [
    ("model: [1, 2\n", "2:1", "while parsing a flow sequence did not find expected ',' or ']'; it begins in line 1"),
    ("model: tiny\n\tsize: 1b\n", "2:1", "line 2 is indented with a tab, indent it with spaces"),
    ("a: b: c\n", "1:5", f"mapping values are not allowed in this context{QUOTES}"),
    ("a: {b: /c/{d}}\n", "1:11", f"while parsing a flow mapping did not find expected ',' or '}}'{QUOTES}"),
    (
        "a: @b\n",
        "1:4",
        f"while scanning for the next token found character that cannot start any token{QUOTES}",
    ),
    ('model: "tiny\n', "2:1", "while scanning a quoted scalar found unexpected end of stream; it begins in line 1"),
    ("model: *tiny\n", "1:8", "found undefined alias"),
    ("model: \x00\n", "1:1", "unacceptable character #x0000: control characters are not allowed"),
]


@pytest.mark.skipif(not hasattr(yaml, "CSafeLoader"), reason="PyYAML was built without libyaml, whose words these are")
@pytest.mark.parametrize(("content", "place", "problem"), SYNTAX)
def test_a_syntax_error_has_its_place(message: Message, content: str, place: str, problem: str) -> None:
    assert message(content) == wording("one problem", path="t.yaml") + f"\n  t.yaml:{place:<7} " + wording(
        "no yaml", problem=problem
    )


@pytest.mark.parametrize(("content", "place"), [case[:2] for case in SYNTAX])
def test_without_libyaml_the_place_is_the_same(
    message: Message, monkeypatch: pytest.MonkeyPatch, content: str, place: str
) -> None:
    monkeypatch.setattr(yaml_values, "_Loader", yaml.SafeLoader)
    assert message(content).startswith(
        wording("one problem", path="t.yaml") + f"\n  t.yaml:{place:<7} " + wording("no yaml", problem="")
    )


def test_a_long_text_is_shortened_and_still_says_what_is_wanted(message: Message) -> None:
    problem = f"got '{'X' * 195} ... {'X' * 172}', wanted a name such as fp8"
    text = change("dtype: bf16", f"dtype: {'X' * 100_000}")
    assert message(text) == f"t.yaml: 1 problem\n  t.yaml:10:12   tables[0].dtype: {problem}"


def test_a_tag_constructs_nothing(load: Callable[[str], object], message: Message, tmp_path: Path) -> None:
    call = "!!python/object/apply:os.mkdir [made]"
    assert message(change("dtype: bf16", f"dtype: {call}")) == (
        "t.yaml: 1 problem\n  t.yaml:10:12   tables[0].dtype: wanted a name such as fp8"
    )
    load(change("dtype: bf16", "dtype: !!python/object/apply:os.mkdir bf16"))
    assert [path.name for path in tmp_path.iterdir()] == ["t.yaml"]


@pytest.mark.parametrize(
    "content",
    [
        billion_laughs(15),
        "&a [*a]\n",
        "tables: &t\n  - rows: *t\n",
        "? &a [*a]\n: 1\n",
        "tables:\n  - &t\n    rows:\n      - &r {attributes: {a: 1}}\n" + "      - *r\n" * 2000 + "  - *t\n" * 2000,
    ],
    ids=["billion-laughs", "itself", "inside-itself", "key", "two-levels"],
)
def test_aliases_that_make_a_small_file_large(message: Message, content: str) -> None:
    assert message(content) == (
        "t.yaml: 1 problem\n  t.yaml:1:1     has more than 1,000,000 values once its aliases are written out"
    )


@pytest.mark.parametrize(
    ("opening", "place"), [("[", "1:21"), ("{a: ", "1:81"), ("- ", "1:41"), ("? ", "1:41"), ("[{a: ", "1:51")]
)
def test_a_file_that_is_nested_too_deeply(message: Message, opening: str, place: str) -> None:
    assert (
        message(opening * 200_000)
        == wording("one problem", path="t.yaml") + f"\n  t.yaml:{place:<7} is nested too deeply"
    )


def test_a_file_that_is_far_too_large(message: Message, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_values, "MAX_BYTES", 100)
    assert message(TINY) == "t.yaml: 1 problem\n  t.yaml:1:1     is larger than 100 bytes; this is no table"


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("random") / "t.yaml"


def loads_or_says_why(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    try:
        assert load_table(path)
    except FileError as error:
        wrong = error
    else:
        return
    assert wrong.faults
    assert all(fault.line > 0 and fault.column > 0 and fault.problem for fault in wrong.faults)
    assert len(str(wrong).split("\n")) == len(wrong.faults) + 1


FRAGMENTS = [
    *("&a ", "*a", "{", "}", "[", "]", ": ", "- ", "\n", "\t", "? ", "| ", '"', "'", "%", "#"),
    *("!!python/name:os.system ", "~", "null", "-1", "0", "1e999", ".nan", "5%", "{gpus}", "{x", "<<: *a"),
    *("---\n", "...\n", "\0", "\u2028", "\ufeff", "gpus: 8", "rows:", "tables:", "case: x", "metric: step_time"),
    *("environment: {A: '{'}", "statistic: mean[1:"),
]


@given(
    edits=st.lists(
        st.tuples(st.integers(0, len(TINY)), st.integers(0, 12), st.sampled_from(FRAGMENTS)), min_size=1, max_size=5
    )
)
def test_a_damaged_table_raises_nothing_but_a_file_error(scratch: Path, edits: list[tuple[int, int, str]]) -> None:
    text = TINY
    for place, removed, inserted in edits:
        text = text[:place] + inserted + text[place + removed :]
    loads_or_says_why(scratch, text.encode())


NCCL = """\
model: all_reduce
framework: nccl-tests
dtype: float
accelerator: H100
gpus_per_node: 8
recipe: {directory: nccl}
tables:
  - rows: [{gpus: 16, KEYS}]
"""


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ("metric: busbw_gbs", "missing 'value', on which the verdict rests"),
        ("metric: busbw_gb, value: 1", "has the unknown metric 'busbw_gb'; did you mean 'busbw_gbs'?"),
        ("metric: speed, value: 1", "has the unknown metric 'speed'; one of your own has its block in read"),
        ("metric: busbw_gbs, value: 1, better: lower", "has 'better', but busbw_gbs is in GB/s, and higher is better"),
        ("metric: time_us, value: 1, unit: ms", "has 'unit', but time_us is in us, and lower is better"),
        ("metric: rate, value: 1, unit: x, read: 'rate={}'", "missing 'better' of the metric rate"),
        ("metric: rate, value: 1, better: lower, read: 'rate={}'", "missing 'unit' of the metric rate"),
        (
            "metric: busbw_gbs, value: 1, at: 1 GiB, read: 'bandwidth {}'",
            "has 'at' and 'read', and a block finds no points",
        ),
        ("step_time_s: 1, value: 2", "has 'value', which belongs to a figure, and its metric is step_time"),
        ("step_time_s: 1, at: 16 GiB", "has 'at', which belongs to a figure, and its metric is step_time"),
        (
            "metric: successful_requests, value: 2",
            "has the unknown metric 'successful_requests'; one of your own has its block in read",
        ),
        ("step_time_s: 1, metrics: {a: {tolerance: 5%}}", "'metrics.a' has to have 'value', 'most' or 'least'"),
        ("step_time_s: 1, metrics: {a: {most: 1, least: 1}}", "'metrics.a' has to have 'value', 'most' or 'least'"),
        (
            "step_time_s: 1, metrics: {a: {most: 1, within: 5%}}",
            "'metrics.a' has 'tolerance' or 'within', one of which goes with 'value'",
        ),
        (
            "step_time_s: 1, metrics: {a: {value: 1, within: 5%, tolerance: 5%}}",
            "'metrics.a' has 'tolerance' or 'within', one of which goes with 'value'",
        ),
    ],
)
def test_a_figure_that_cannot_be_judged(message: Message, keys: str, problem: str) -> None:
    text = NCCL.replace("KEYS", keys)
    assert message(text) == wording("one problem", path="t.yaml") + "\n" + wording(
        "no values in rows", place="  t.yaml:8:12   ", problem=problem
    )


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ("metric: rate, value: 1, read: '(a+)+b: '", "'read' '(a+)+b: ' is no simple expression around one number"),
        ("metric: rate, value: 1, read: 'rate=x'", "'read' 'rate=x' is no simple expression around one number"),
        (
            "metric: rate, value: 1, read: {line: 'rate *'}",
            "'read' has to have '{}' in 'line', or 'column', for the number",
        ),
        ("metric: rate, value: 1, read: {line: 'rate {}', each: 2}", "'read' has to have both 'each' and 'statistic'"),
        *(
            (f"metric: {name}, value: 1, unit: x, better: lower, read: 'rate={{}}'", f"has the metric '{name}', a name")
            for name in ("tokens_per_s", "mfu", "step_time_s", "successful_requests", "final_loss", "gsw_outcome")
        ),
        ("metric: rate, value: 1, read: 'rate={}', statistic: median", "has 'statistic', and 'read' has 'each'"),
        ("metric: rate, value: 1, read: 'rate={}', min_steps: 5", "has 'min_steps', and 'read' has 'each'"),
        ("metric: output_tokens_per_s, value: 1, read: 'a {}', better: lower", "has 'better', but output_tokens_per_s"),
        ("read: hpl, value: 1, unit: s", "has 'unit: s', and it is Gflop/s"),
        ("read: hpl, value: 1, better: lower", "has 'better: lower', and it is higher"),
        ("read: hpl, value: 1, metric: rate", "has the metric 'rate', and hpl has hpl_gflops"),
        ("read: hpl, value: 1, at: 5", "has 'at' and 'read', and a block finds no points"),
        ("read: osu, value: 1", "missing 'at', the point of the benchmark that is judged"),
        (
            "read: aiperf, value: 1, better: lower",
            "has 'better', but output_tokens_per_s is in tokens/s, and higher is better",
        ),
    ],
)
def test_a_read_that_finds_no_figure_or_means_another(message: Message, keys: str, problem: str) -> None:
    assert problem in message(NCCL.replace("KEYS", keys))
