"""What is quoted from others holds no secret and no control character; what is neither stays as it is."""

from __future__ import annotations

import dataclasses
import itertools
import os
import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gsw.common import masks
from pytest_gsw.common.masks import MASK, is_secret
from pytest_gsw.common.redact import UNSAFE, masked_text, printable, redact
from pytest_gsw.errors import JobError
from pytest_gsw.jobs.states import JobState, JobStatus
from tests.endless import it_ends
from tests.integration.test_docs import DOCUMENTS

HF = "hf_" + "aZ3kQ9" * 5
HEX = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
PEM = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"+ huggingface-cli login --token {HF}", "+ huggingface-cli login --token ***"),
        (f"using {HF}.", "using ***."),
        ("ghp_0123456789abcdefABCDEF0123456789abcd pushed", "*** pushed"),
        ("github_pat_11ABCDEFG0abcdefghijkl_mnopqrstuvwxyz", "***"),
        ("glpat-ABCdef_123-456ghi789", "***"),
        ("id AKIAIOSFODNN7EXAMPLE,", "id ***,"),
        ("aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "aws_secret_access_key = ***"),
        ("sk-proj-Ab3dEf6hIj9lMn2pQr5tUv8x", "***"),
        ("xoxb-1234567890-abcdefGHIJ", "***"),
        ("nvapi-Ab3dEf6hIj9lMn2pQr5tUv8x-_z", "***"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P", "***"),
        ("Authorization: Bearer abc", "Authorization: Bearer ***"),
        ("> authorization: Basic dXNlcjpwYXNz", "> authorization: Basic ***"),
        ("{'Authorization': 'token 12ab'}", "{'Authorization': 'token ***'}"),
        ("401 for Bearer abcdefghijklmnop-12", "401 for Bearer ***"),
        ("password=hunter2 user=me", "password=*** user=me"),
        ("PGPASSWORD='two words' psql", "PGPASSWORD='***' psql"),
        ('"password": "two words"}', '"password": "***"}'),
        ("db: password: hunter2", "db: password: ***"),
        ("--password hunter2 --user me", "--password *** --user me"),
        ("client_secret=abc&x=1", "client_secret=***&x=1"),
        ("client_secret: abc1de", "client_secret: ***"),
        ("password='cut", "password=***"),
        ("token: a1b2c3", "token: ***"),
        ("HF_TOKEN=1a2b3c4d", "HF_TOKEN=***"),
        ("Namespace(api_key='k3y-value', x=1)", "Namespace(api_key='***', x=1)"),
        ("WANDB_API_KEY=0123456789abcdef0123456789abcdef01234567", "WANDB_API_KEY=***"),
        ("DB_PASS=hunter22", "DB_PASS=***"),
        ("https://me:hunter2@host/x", "https://***@host/x"),
        ("DB_PWD=hunter2 x", "DB_PWD=*** x"),
        ("export MYSQL_PW='hunter2'", "export MYSQL_PW='***'"),
        ("GIT_PAT=abcdef", "GIT_PAT=***"),
        ("LDAP_BINDPW: hunter2", "LDAP_BINDPW: ***"),
        ("LICENSE_CODE=AAAA-BBBB", "LICENSE_CODE=***"),
        ("SENTRY_DSN=postgres.example", "SENTRY_DSN=***"),
        ("S3_CREDS=ab12cd34", "S3_CREDS=***"),
        ("ALERT_WEBHOOK_URL=http://x/y", "ALERT_WEBHOOK_URL=***"),
        ("wandb: using key 0123456789abcdef0123456789abcdef01234567.", "wandb: using key ***."),
        ("+ wandb login --relogin 0123456789abcdef0123456789abcdef01234567", "+ wandb login --relogin ***"),
        ("key wandb_v1_Ab3dEf6hIj9lMn2pQr5tUv8x", "key ***"),
        (
            "POST https://hooks.slack.com/services/T000/B000/XXXXXXXX 200",
            "POST https://hooks.slack.com/services/*** 200",
        ),
        (
            "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq==;",
            "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=***;",
        ),
        (
            "https://a.blob.core.windows.net/c/f?sv=2024-01-01&sig=Ab3dEf6hIj9lMn2pQr5tUv8x%2Fz0%3D&sp=r",
            "https://a.blob.core.windows.net/c/f?sv=2024-01-01&sig=***&sp=r",
        ),
        ("+ curl -s -u me:hunter2 https://host/x", "+ curl -s -u me:*** https://host/x"),
        ("curl --user 'me:hunter2' host", "curl --user 'me:***' host"),
        ("docker login -u me -p hunter2 nvcr.io", "docker login -u me -p *** nvcr.io"),
        ("sshpass -p hunter2 ssh n7", "sshpass -p *** ssh n7"),
        ("sshpass -p'hunter2' ssh n7", "sshpass -p'***' ssh n7"),
        ("aws secret key: wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "aws secret key: ***"),
        ("using ya29.a0AfH6SMBx-Ab3dEf6hIj9lMn2p for it", "using *** for it"),
        ("pip install git+https://ghp_x@github.com/a/b", "pip install git+https://***@github.com/a/b"),
        ("-----BEGIN RSA PRIVATE KEY-----\\nMIIE\\n-----END", "***"),
        (f"-----BEGIN PRIVATE KEY-----\n{PEM}\n{PEM[:-4]}\nnext       x", "***\n***\n***\nnext       x"),
        (f"last       {PEM}\n           {PEM}", "last       ***\n           ***"),
    ],
)
def test_what_looks_like_a_secret_is_masked(text: str, shown: str) -> None:
    assert masked_text(text) == shown
    assert masked_text(shown) == shown


ORDINARY = [
    "commit 0123456789abcdef0123456789abcdef01234567",
    "wandb: run 3k2j at git commit 0123456789abcdef0123456789abcdef01234567",
    "PWD=/opt/train OLDPWD=/opt",
    "curl -u https://host/x failed",
    "docker run -p 8080:80 image",
    "mkdir -p /opt/login/x",
    "aws-ofi-nccl at 0123456789abcdef0123456789abcdef01234567",
    "design=0123456789abcdef0123456789",
    "srun --nodelist=n[001-128],m3 --container-image=nvcr.io#nvidia/nemo@sha256:9f86d081884c7d659a2feaa0c55ad015",
    "205,442 tokens/s is 10.7 % below the documented 230,153 (allowed 5 %)",
    "tokens per step: 4096, time per token: 12.5us, per-token: 3.2e-05, ms/token=0.125",
    "max_tokens=2048 max_token=2048 --max-token 2048 bos_token_id=1 tokens=1 secrets",
    "eos_token: </s> pad_token='<pad>' eos_token=<|end_of_text|> unk_token=<unk>",
    "Invalid user token: please log in; use_auth_token=True token=None password=None api_key: null, token: ",
    "this is a secret: tokens of a user; no secret=None",
    "OSError: token expired, run huggingface-cli login; password is required; Enter password: ",
    "TOKENIZERS_PARALLELISM=false tokenizer: llama3.1-8b tokenizer_path=/data/tok3",
    f"sha256:{HEX} commit {HEX[:40]} image nvcr.io/nvidia/nemo:24.11.rc0@sha256:{HEX}",
    f"{HEX}{HEX}",
    "job 481220 COMPLETED 0:0 in 1s on pool0-[0017-0032]",
    "/lustre/fsw/coreai/Users/Jane/results/24.11/fp8/70b/64/log-maxtext_llama2_70b_64_481220.out",
    "/Lustre/fsw/CoreAi/Users/Jane/Results/Checkpoints/Llama2/Step1000/Model/Weights/Rank0/Shard1",
    "hf_model_parallel_size=8 hf_transformerscheckpointing sk-learn-contributed-extension task-1234567890123456789",
    ':::MLLOG {"namespace": "", "time_ms": 1700000000000, "key": "run_stop", "value": null}',
    'step: 49, loss: 2.31, grad_norm: 0.4, key: "value1", KEY=1234abcd5678',
    "ssh://host/path tcp://10.0.0.1:29500 s3://bucket/a@b mail me@host author: jane key=loss1 monkey=abc123def",
    "token_file=/run/secrets/token1 HF_TOKEN_PATH=/home/me/.cache/huggingface/token1 credentials: ~/.config/x1",
    "slurmstepd: error: *** JOB 481220 ON n1 CANCELLED AT 2026-11-21T10:00:00 DUE TO TIME LIMIT ***",
    "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has 79.11 GiB; auth/munge: ok",
    "",
]


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_the_documents_hold_no_secrets(path: Path) -> None:
    text = path.read_text()
    assert redact(text) == text


@pytest.mark.parametrize(
    ("environment", "text", "shown"),
    [
        ({"HF_TOKEN": "correct-horse"}, "x=correct-horse;acorrect-horseb", "x=***;a***b"),
        ({"HF_TOKEN": "1", "API_KEY": "true", "PASSWORD": "1234567"}, "1 true 1234567", "1 true 1234567"),
        ({"HF_TOKEN": " padded-secret\n"}, "(padded-secret)", "(***)"),
        ({"SSH_KEY": "BEGIN\nfirst-line\nsecond-line\n"}, "second-line first-line BEGIN", "*** *** BEGIN"),
        ({"A_TOKEN": "beginning", "B_TOKEN": "beginning-end"}, "beginning-end beginning", "*** ***"),
        ({"MODEL": "llama-2-70b", "MONKEY": "bananas-bananas"}, "llama-2-70b bananas-bananas", None),
        ({"HF_TOKEN_PATH": "/home/me", "SSH_AUTH_SOCK": "/run/user/1"}, "/home/me/x /run/user/1", None),
        ({"HF_TOKEN": ""}, "a b", None),
    ],
)
def test_values_of_secret_variables_are_masked(environment: dict[str, str], text: str, shown: str | None) -> None:
    assert masked_text(text, environment) == (text if shown is None else shown)
    assert masked_text(text, {}, environment) == masked_text(text, environment)


def test_a_secret_of_this_process_is_masked_from_when_it_is_set_until_it_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert redact("correct-horse", os.environ) == "correct-horse"
    monkeypatch.setenv("HF_TOKEN", "correct-horse")
    assert redact("correct-horse", os.environ) == MASK
    monkeypatch.setenv("HF_TOKEN", "bätterie-staple")
    assert redact("correct-horse bätterie-staple", os.environ) == f"correct-horse {MASK}"
    monkeypatch.delenv("HF_TOKEN")
    assert redact("bätterie-staple", os.environ) == "bätterie-staple"


def test_a_list_in_a_mapping_is_looked_through() -> None:
    facts = {"changes": ["image correct-horse", ("driver correct-horse", 1)]}
    shown = redact(facts, {"HF_TOKEN": "correct-horse"})
    assert shown == {"changes": [f"image {MASK}", (f"driver {MASK}", 1)]}


def test_a_secret_that_is_coloured_or_torn_is_still_one() -> None:
    environment = {"HF_TOKEN": "correct-horse"}
    assert redact("correct\x1b[31m-horse correct-\u200bhorse", environment) == "*** ***"


_SECRETS = st.text(string.ascii_letters + string.digits + "-_./+=:@ ", min_size=8, max_size=40).map(str.strip)
_WORDS = "token password Bearer hf_ sk- :// @ : = \" ' A1b2C3 -- *** /"
_PIECES = st.sampled_from([*_WORDS.split(), " ", "\n", PEM])


@given(st.lists(_PIECES | st.text(max_size=5) | _SECRETS).map("".join), st.lists(_SECRETS, max_size=3))
def test_masking_again_changes_nothing(text: str, secrets: list[str]) -> None:
    environment = {f"TOKEN_{number}": secret for number, secret in enumerate(secrets)}
    once = redact(text, environment)
    assert redact(once, environment) == once


#: What a mask may begin with, what may stand behind that, and what is hidden.
_BEGINNINGS = """
    ftp://a authorization=token Bearer eyJhbGciOiJI. hf_ ghp_ gho_ ghu_ ghs_ ghr_ github_pat_ glpat- glcbt- AKIA ASIA
    sk- xoxb- nvapi- AIza npm_ pypi- dckr_pat_ hvs. wandb_v1_ passwd PGPASSWORD passphrase token secret api_key
    ACCESS-KEY private_key credential Cookie auth jwt DBPASS X_PASS X_PWD X_PW X_PAT X_DSN X_CREDS X_CONNECTION_STRING
    X_WEBHOOK_URL BINDPW LICENSE_CODE ya29. hooks.slack.com/services/ AccountKey SharedAccessKey ?sig
    SharedAccessSignature pa\u017fsword
"""
_OPENINGS = (
    *(*_BEGINNINGS.split(), "-----BEGIN PRIVATE KEY-----", "Authorization: Basic", "curl -u a:", "docker login -p"),
    *("sshpass -p", "wandb key", "weights & biases key", "aws secret", "amazon login", ""),
)
_BETWEEN = ("", " ", "=", ": ", "@", '": "')
_HIDDEN = ("A1b2C3d4E5f6G7h8", "hunter2", "eyJhbGciOiJI.eyJzdWIiOiIxMjM0", "a1" * 20, PEM, "x@y")


def test_a_text_without_a_hint_has_no_secret() -> None:
    hidden = set()
    for parts in itertools.product(_OPENINGS, _BETWEEN, _HIDDEN):
        text = looked_for = "".join(parts)
        for _, pattern, mask in masks._MASKS:
            looked_for = pattern.sub(mask, looked_for)
        assert masked_text(text) == looked_for
        hidden |= {parts[0]} if looked_for != text else set()
    assert hidden == set(_OPENINGS)


@given(st.text(), st.text(), st.lists(_SECRETS.filter(lambda text: len(text) >= 8), min_size=1, max_size=3))
def test_no_known_secret_survives(before: str, after: str, secrets: list[str]) -> None:
    environment = {f"TOKEN_{number}": secret for number, secret in enumerate(secrets)}
    shown = redact(before + after.join(secrets) + after, environment)
    assert not [secret for secret in secrets if secret in shown]


@given(st.lists(st.sampled_from([*" ".join(ORDINARY[:4]).split(), "3.14", "\n"])).map(" ".join))
def test_words_of_a_log_in_any_order_stay(text: str) -> None:
    assert redact(text, {"HF_TOKEN": "correct-horse"}) == text


@given(st.text())
def test_nothing_unsafe_is_left(text: str) -> None:
    shown = redact(text)
    assert UNSAFE.search(shown) is None
    shown.encode()  # no half characters


@given(st.text(string.printable.translate({9: None, 11: None, 12: None, 13: None})))
def test_printable_text_stays(text: str) -> None:
    assert printable(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m \x1b]0;title\x07x", "red x"),
        ("a\tb\r\nc", "a b\nc"),
        ("\u202egnp.exe\u2066", "gnp.exe"),
        ("caf\udce9 \0\x9b", "caf\ufffd "),
    ],
)
def test_control_characters_are_left_out(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_errors_and_statuses_are_quoted_as_a_whole() -> None:
    environment = {"HF_TOKEN": "correct-horse"}
    error = JobError("a \x1b[1mcorrect-horse", (("reason", "correct-horse"),), ("\u202ex", "y"), "correct-horse")
    same = redact(error, environment)
    assert type(same) is JobError
    assert str(same) == f"a {MASK}\n\nreason     {MASK}\nlast       x\n           y\nnext       {MASK}"
    status = JobStatus(JobState.FAILED, "FAILED", 1, reason="correct-horse", nodes="n\x07[1-2]", end_s=2.0)
    assert redact(status, environment) == dataclasses.replace(status, reason=MASK, nodes="n[1-2]")
    assert redact(same, environment) is same
    assert redact(status) is not status
    assert redact(redact(status), {}) == dataclasses.replace(status, nodes="n[1-2]")
    assert redact({"a": "correct-horse", "b": 1, "c": None}, environment) == {"a": MASK, "b": 1, "c": None}


#: A quadratic pattern takes longer than the test waits over so many characters, and a linear one a fraction of a second.
LONG = 200_000

HOSTILE = [
    *("a", "=", "-", "--", "eyJ", "eyJa-", "hf_", "-sk-", "://", "a://", "@", "token", "token=", "--token ", "token='"),
    *("password=", "password:'", '"', "Bearer ", "authorization:", "-----BEGIN ", "-----BEGIN PRIVATE KEY-----"),
    *("curl ", "curl -u ", "docker login ", "docker login -p", "wandb key", "aws", "aws secret key ", "sig=", "&sig=a"),
    *("Ab1/", "A1b\n", "\t", " ", "_PASS=", 'passwd="', "\x1b]", "\x1b[", "\x1b[0", "é", "\u202e", "aZ0+" * 16 + " "),
]


@pytest.mark.sampled(14)
@pytest.mark.parametrize("piece", HOSTILE)
def test_hostile_text_takes_a_time_proportional_to_its_length(piece: str) -> None:
    text = (piece * (LONG // len(piece) + 1))[:LONG]
    with it_ends(20):
        redact(text, {"HF_TOKEN": piece * 8 + "x"})


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        *((name, True) for name in ("DB_PWD", "MYSQL_PW", "GIT_PAT", "S3_CREDS", "DB_CONNECTION_STRING", "DBPWD")),
        *((name, True) for name in ("ALERT_WEBHOOK_URL", "SENTRY_DSN", "LICENSE_CODE", "LDAP_BINDPW", "BINDPW")),
        *((name, True) for name in ("HF_TOKEN", "NGC_API_KEY", "APIKEY", "AWS_SECRET_ACCESS_KEY", "PGPASSWORD", "KEY")),
        *((name, True) for name in ("wandb_api_key", "GITHUB_TOKEN_FILE", "DB_PASSWORD_2", "DB_PASS", "SSHPASS")),
        *((name, True) for name in ("AUTH_HEADER", "GOOGLE_APPLICATION_CREDENTIALS", "session_cookie", "WANDB_AUTH")),
        *((name, False) for name in ("TOKENIZERS_PARALLELISM", "MONKEY", "AUTHOR", "PASSES", "MAX_TOKENS", "KEYBOARD")),
        *((name, False) for name in ("PWD", "OLDPWD", "PATH", "PATTERN", "POWER", "DSNAME", "LICENSES", "CREDIT")),
    ],
)
def test_names_of_secrets(name: str, is_one: bool) -> None:
    assert is_secret(name) is is_one
