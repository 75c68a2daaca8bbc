"""Detectors and policies: findings, false positives, actions, and that a finding never contains the text."""

import dataclasses
import json
import random
import re
import uuid
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.commands import REPOSITORY
from support.people import CODING, facts
from support.secret_samples import ALL, EACH, PEM, SAMPLES, SPOKEN, body, hexes, pieces

from memfs import InMemoryStore, Vault, VaultMemoryConfig
from memfs.errors import InvalidSetupError, SecretRefusedError, SettingsError
from memfs.ids import new_id
from memfs.privacy.detectors import Detector, Finding, find_all
from memfs.privacy.pii_patterns import is_card, passes_luhn, passes_mod_97
from memfs.privacy.policy import DEFAULT_ACTIONS, DETECTORS, Policy, is_secret, scan_text
from memfs.privacy.secret_patterns import TOKENS
from memfs.protocols import system_clock
from memfs.vault.settings import KINDS, PERSONAL_KINDS, SECRET_KINDS, load

AWS = SAMPLES["aws-secret"][0][1]
EVERYTHING = Policy({**dict.fromkeys(PERSONAL_KINDS, "redact"), "secrets": "redact"})


def found(text: str) -> list[tuple[str, str]]:
    return [(one.kind, text[one.start : one.end]) for one in scan_text(text)]


# --- secrets


@pytest.mark.parametrize(("kind", "sample", "secret"), ALL, ids=lambda value: value[:24])
def test_a_secret_is_found_at_its_offsets_and_nothing_else(kind: str, sample: str, secret: str) -> None:
    assert (kind, secret) in found(sample)
    assert {name for name, _ in found(sample)} <= {kind, "aws-key"}  # one sample names its key
    assert all(sample[one.start : one.end].count("\n") or one.line == 1 for one in scan_text(sample))


@pytest.mark.parametrize(("kind", "sample", "secret"), ALL, ids=lambda value: value[:24])
def test_a_secret_is_found_in_json_and_in_nested_json(kind: str, sample: str, secret: str) -> None:
    for text in (json.dumps({"text": f"a\n{sample}"}), json.dumps({"text": json.dumps({"text": f"a\n{sample}"})})):
        cleaned = EVERYTHING.redact(text)
        assert not any(piece in cleaned.value for piece in pieces(secret))
        assert kind in cleaned.counts


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ('{"password": "tea\'s4two!"}', '{"password": "[]"}'),
        (json.dumps({"password": 'Tea4"two"\\end'}), '{"password": "[]"}'),
        (json.dumps({"password": "t\u00e94two!", "n": "x"}), '{"password": "[]", "n": "x"}'),
        (json.dumps(json.dumps({"password": 'Tea4"two!'})), json.dumps('{"password": "[]"}')),
        ('{"password": "Tea4two', '{"password": "[]'),
        ('{"name": "DB_PASSWORD", "value": "Tea4two!"}', '{"name": "DB_PASSWORD", "value": "[]"}'),
        ("- name: DB_PASSWORD\n  value: Tea4two\n", "- name: DB_PASSWORD\n  value: []\n"),
        (json.dumps("- name: DB_PASSWORD\n  value: Tea4two"), json.dumps("- name: DB_PASSWORD\n  value: []")),
        ('<input name="password" value="Tea4two">', '<input name="password" value="[]">'),
        ("password           :   Tea4two", "password           :   []"),
        ("password:\u00a0Tea4two", "password:\u00a0[]"),
        ("password=b'Tea4two'", "password=b'[]'"),
        ('password = """Tea4two"""', 'password = """[]"""'),
        ("**Password:** Tea4two!", "**Password:** []!"),
        ("The password for staging: Tea4two", "The password for staging: []"),
        ("login --password Tea4two now", "login --password [] now"),
        ("<password>Tea4two</password>", "<password>[]</password>"),
        ("Reset your password at https://a.example/reset?id=9", "Reset your password at https://a.example/reset?id=9"),
    ],
)
def test_a_password_is_redacted_completely_in_every_notation(text: str, cleaned: str) -> None:
    assert Policy().redact(text).value == cleaned.replace("[]", "[redacted: password]")


def test_there_are_samples_of_every_kind_of_secret() -> None:
    assert set(SAMPLES) == set(SECRET_KINDS)
    assert {one.kind for one in DETECTORS} == {*PERSONAL_KINDS, *SECRET_KINDS} == set(DEFAULT_ACTIONS)


@pytest.mark.parametrize("start", [(kind, start) for kind, starts in TOKENS.items() for start in starts])
def test_every_token_passes_the_prefilter_and_is_found(start: tuple[str, str]) -> None:
    kind, prefix = start
    bodies = {
        "hooks.slack.com/": "services/T01ABCDEF/B01ABCDEF/" + body(24), "SG.": body(22) + "." + body(43),
        "AGE-SECRET-KEY-1": body(58).upper(), "secret_": body(43), "AIza": body(35), "sess-": body(40),
    }  # fmt: skip
    is_hex = prefix.startswith(("do", "shp", "dapi", "SK"))
    length = 64 if prefix.startswith("do") else 32
    upper = body(16).upper() if kind == "aws-key" else None
    token = prefix + (upper or bodies.get(prefix) or (hexes(length) if is_hex else body(60)))
    if prefix == ":AA":
        token = f"123456789{prefix}{body(33)}"

    policy = Policy({**dict.fromkeys(SECRET_KINDS, "off"), kind: "reject"})
    for text in (token, f"see '{token}'", json.dumps({"a": f"line\n{token}"})):
        assert policy.may_find(text)
        assert kind in [one.kind for one in policy.findings(text)], text
    assert policy.findings(prefix + "x" * 64) == []  # a placeholder


def test_a_truncated_private_key_is_redacted_completely() -> None:
    start = PEM.rpartition("\n")[0]

    assert EVERYTHING.redact(f"Look: {start}").value == "Look: [redacted: private-key]"
    assert EVERYTHING.redact(json.dumps(f"Look: {start}")).value == '"Look: [redacted: private-key]"'
    assert found("-----BEGIN RSA " + "PRIVATE KEY-----\n...\n-----END RSA " + "PRIVATE KEY-----") == []


@pytest.mark.parametrize(
    "text",
    [
        "The password is required.",
        "password: required",
        "Password: must be at least 8 characters",
        "passwords are SHA256-hashed, the password is base64-encoded, the password is 12-chars-long",
        "password: str = Field(min_length=8)",
        "password = getpass.getpass('Password: ')",
        "password=os.environ['DB_PASSWORD']",
        "password: ${DB_PASSWORD}",
        "password: <your-password>",
        "password=self.password2",
        "password: ********",
        "password: xxxxxxxxxxxx",
        "postgres://user:password@localhost/db",
        "postgres://postgres:postgres@localhost/test",
        "https://example.org:8443/a@b",
        "api_key = os.environ['OPENAI_API_KEY']",
        "api_key: your-api-key-here-12345",
        "api_key=settings.openai_api_key",
        "the key is under the mat, next to the token machine",
        "key: 3f9a0c7be12d4586a1b2c3d4e5f60718",
        "max_tokens: 4096, tokens = 128000",
        "next_token: abcDEF123ghiJKL456",
        "nextPageToken=CAoQAA0a1b2c3d4e5f6",
        "publicKeyToken=1fc8b3b9a1e18e3b",
        "ChangeToken: abcd12f2-46da-4fdb-b8d5-fbd4c466928f",
        "Bearer authentication is described below.",
        "Authorization: Bearer <token>",
        "Authorization: Bearer $TOKEN",
        "task-force-" + "a" * 40,
        "risk-averse disk-based sk-learn ask-me-anything",
        "sk-",
        "ghp_ tokens begin so",
        "hf_hub_download and npm_config_registry",
        "AKIA is how they begin; ASIA too",
        "eyJ is how they begin",
        "xoxb-",
        "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAUAAAAFCAYAAACNbyblAAAAHElEQVQI12P4",
        "git@github.com:alice/atlas.git and https://github.com/alice/atlas/commit/" + hexes(40),
        "aws s3 cp " + hexes(40),
        "the secret of good soup is time",
        "[redacted: password] password: [redacted: password]",
    ],
)
def test_texts_about_secrets_have_no_findings(text: str) -> None:
    assert [one for one in scan_text(text) if is_secret(one.kind)] == []


# --- numbers with check digits


CARDS = (
    "4111111111111111", "4012888888881881", "4222222222222", "5555555555554444", "5105105105105100", "2223003122003222",
    "378282246310005", "371449635398431", "6011111111111117", "6011000990139424", "3530111333300000", "30569309025904",
    "38520000023237", "6200000000000005",
)  # fmt: skip
IBANS = (
    "GB82WEST12345698765432", "DE89370400440532013000", "FR1420041010050500013M02606", "NO9386011117947",
    "CH9300762011623852957", "MT84MALT011000012345MTLCAST001S", "NL91ABNA0417164300", "ES9121000418450200051332",
    "IT60X0542811101000000123456", "BE68539007547034", "SE4550000000058398257466", "PL61109010140000071219812874",
)  # fmt: skip


@pytest.mark.parametrize("number", CARDS)
def test_a_card_number_needs_a_valid_luhn_digit(number: str) -> None:
    assert passes_luhn(number)
    assert is_card(number)
    assert found(f"Card: {number}, please.") == [("card", number)]
    for at, digit in enumerate(number):
        wrong = number[:at] + str((int(digit) + 1) % 10) + number[at + 1 :]
        assert not passes_luhn(wrong)
        assert found(f"Card: {wrong}, please.") == []


@pytest.mark.parametrize(
    ("text", "card"),
    [
        ("4111 1111 1111 1111", "4111 1111 1111 1111"),
        ("4111-1111-1111-1111", "4111-1111-1111-1111"),
        ("4111.1111.1111.1111", "4111.1111.1111.1111"),
        ("3782 822463 10005", "3782 822463 10005"),
        ("pay 4111 1111 1111 1111 12/27 123", "4111 1111 1111 1111"),
        ("in 2026 4111 1111 1111 1111", "4111 1111 1111 1111"),
        ('{"card":"4111111111111111"}', "4111111111111111"),
        ("number\\n4111111111111111\\n", "4111111111111111"),
    ],
)
def test_a_card_number_is_found_in_common_notations(text: str, card: str) -> None:
    assert found(text) == [("card", card)]


def test_luhn_on_known_numbers() -> None:
    assert passes_luhn("79927398713")
    assert [last for last in range(10) if passes_luhn(f"7992739871{last}")] == [3]


@pytest.mark.parametrize(
    "text",
    [
        "1234567812345670",  # a valid check digit, but no known brand
        "0000 0000 0000 0000",
        "1763373600000 and 1763373600000000000",  # times
        "41111111111111112222333344445555",
        "id4111111111111111",
        "4111111111111111.25",
        "1.4111111111111111",
        "+4111111111111111",
        "9780306406157",
    ],
)
def test_other_long_numbers_are_not_cards(text: str) -> None:
    assert found(text) == []


@pytest.mark.parametrize("iban", IBANS)
def test_an_account_number_needs_valid_check_digits(iban: str) -> None:
    spaced = " ".join(iban[at : at + 4] for at in range(0, len(iban), 4))

    assert passes_mod_97(iban)
    assert found(f"IBAN {iban}.") == [("iban", iban)]
    assert found(f"IBAN {spaced} AND MORE") == [("iban", spaced)]
    for at in range(4, len(iban)):
        if iban[at].isdigit():
            wrong = iban[:at] + str((int(iban[at]) + 1) % 10) + iban[at + 1 :]
            assert not passes_mod_97(wrong)
            assert found(f"IBAN {wrong}.") == []
    assert found(f"IBAN {iban}9.") == []


def test_mod_97_on_known_numbers() -> None:
    assert int("3214282912345698765432161182") % 97 == 1  # GB82 WEST 1234 5698 7654 32, as the standard has it
    assert passes_mod_97("GB82WEST12345698765432")
    assert not passes_mod_97("GB28WEST12345698765432")


# --- personal data


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Write to alice.moreau+work@mail.example.org.", [("email", "alice.moreau+work@mail.example.org")]),
        ("<bob@example.co.uk>, zoë@müller.example", [("email", "bob@example.co.uk"), ("email", "zoë@müller.example")]),
        ("git@github.com:a/b, @app.route, user@host, a@b", []),
        ("call +33 6 12 34 56 78 or (415) 555-2671", [("phone", "+33 6 12 34 56 78"), ("phone", "(415) 555-2671")]),
        ("+14155552671, 415-555-2671, 06 12 34 56 78", [
            ("phone", "+14155552671"), ("phone", "415-555-2671"), ("phone", "06 12 34 56 78"),
        ]),
        ("phone: 030 1234567", [("phone", "030 1234567")]),
        ("version 10.15.7, 1.2.3-4567, 2026-11-17, 12:30:45, call at 2026-11-17", []),
        ("call 10.0.19041.1234 on 17.11.2026", []),
        ("from 192.168.1.254, 8.8.8.8", [("ip", "192.168.1.254"), ("ip", "8.8.8.8")]),
        ("at 2001:db8::8a2e:370:7334 and fe80::1ff:fe23:4567:890a.", [
            ("ip", "2001:db8::8a2e:370:7334"), ("ip", "fe80::1ff:fe23:4567:890a"),
        ]),
        ("version 1.2.3.4, 256.1.1.1, 1.2.3.4.5, v1.2.3.4, std::vector, a::b, 10:30:45", []),
    ],
)  # fmt: skip
def test_personal_data_is_found_in_common_notations(text: str, expected: list[tuple[str, str]]) -> None:
    assert found(text) == expected


# --- false positives


def test_the_example_vault_has_no_findings() -> None:
    files = [path for path in (REPOSITORY / "example-vault").rglob("*") if path.is_file()]
    texts = {path: path.read_text(encoding="utf-8") for path in files}

    assert len(texts) > 40
    assert [path for path, text in texts.items() if Policy().findings(text)] == []
    assert [Policy().admit(text).value == text for text in texts.values()].count(False) == 0


def test_prose_and_code_have_no_findings() -> None:
    sources = [*(REPOSITORY / "memfs").rglob("*.py"), *REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").glob("*.md")]
    texts = [path.read_text(encoding="utf-8") for path in sources if path.name != "safety.md"]
    texts += [text for _, text in facts(2000)] + CODING

    assert sum(map(len, texts)) > 1_000_000
    assert [text[one.start - 40 : one.start] for text in texts for one in Policy().findings(text)] == []


def test_ids_hashes_dates_and_versions_have_no_findings() -> None:
    pick = random.Random(1)
    for _ in range(500):
        number = pick.getrandbits(128)
        words = [
            str(uuid.UUID(int=number)),
            *(f"{pick.getrandbits(bits):0{bits // 4}x}" for bits in (128, 160, 256)),
            *(new_id(system_clock()), new_id(system_clock()).upper()),
            f"2026-{pick.randint(1, 12):02}-{pick.randint(1, 28):02}",
            f"2026-11-17T10:{pick.randint(10, 59)}:00.{pick.getrandbits(19)}+00:00",
            f"1.{pick.randint(0, 99)}.{number % 1000}",
            f"session s-2026-11-17, message {number % 1000}",
            str(1_700_000_000_000 + number % 10**11),
        ]
        assert Policy().findings(", ".join(words)) == []


# --- policies


def test_by_default_secrets_are_rejected_numbers_redacted_and_addresses_kept() -> None:
    policy = Policy()

    assert {policy.action(kind) for kind in SECRET_KINDS} == {"reject"}
    assert {kind: policy.action(kind) for kind in PERSONAL_KINDS} == {
        "email": "off", "phone": "off", "card": "redact", "iban": "redact", "ip": "off",
    }  # fmt: skip
    text = "bob@example.org, 4111 1111 1111 1111, DE89370400440532013000, 8.8.8.8"
    assert policy.admit(text) == (
        "bob@example.org, [redacted: card], [redacted: iban], 8.8.8.8",
        {"card": 1, "iban": 1},
    )


def test_a_redacted_text_has_a_marker_and_a_count() -> None:
    cleaned = EVERYTHING.redact("a@example.org b@example.org\n10.0.0.1")

    assert cleaned.value == "[redacted: email] [redacted: email]\n[redacted: ip]"
    assert cleaned.counts == {"email": 2, "ip": 1}
    assert "example" not in repr(cleaned)


def test_a_finding_has_offsets_and_never_the_text() -> None:
    findings = scan_text("one\ntwo a@example.org\n\nfour 8.8.8.8")

    assert findings == [Finding("email", 8, 21, 2), Finding("ip", 28, 35, 4)]
    assert {field.name for field in dataclasses.fields(Finding)} == {"kind", "start", "end", "line"}


def test_settings_set_kinds_and_all_secrets_at_once() -> None:
    policy = Policy({"email": "redact", "card": "reject", "secrets": "redact", "jwt": "off"})

    assert [policy.action(kind) for kind in ("email", "card", "github-token", "jwt", "phone")] == [
        "redact", "reject", "redact", "off", "off",
    ]  # fmt: skip
    with pytest.raises(SecretRefusedError, match=r"^text: holds card on line 2, which is not stored$"):
        policy.admit("tea\n4111 1111 1111 1111")
    assert policy.redact("4111 1111 1111 1111").value == "[redacted: card]"


def test_a_vault_sets_its_policy_in_memfs_yaml(tmp_path: Path) -> None:
    (tmp_path / "memfs.yaml").write_text("redaction: {email: redact, card: reject, secrets: redact, ip: off}\n")
    policy = Policy.of(Vault(tmp_path))

    assert (policy.action("email"), policy.action("card"), policy.action("password")) == ("redact", "reject", "redact")
    assert Policy.of(Vault.init(tmp_path / "plain")) == Policy()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("redaction: {emial: redact}", f"redaction: unknown kind 'emial'; known kinds: {', '.join(KINDS)}"),
        ("redaction: {email: maybe}", "redaction.email: Input should be 'off', 'redact' or 'reject'"),
        ("redaction: {email: true}", "redaction.email: Input should be"),
        ("redaction: off", "redaction: Input should be a valid dictionary"),
    ],
)
def test_wrong_settings_are_refused_with_the_known_kinds(text: str, reason: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load(text)

    assert str(caught.value).startswith(f"memfs.yaml: {reason}")


def test_a_policy_in_code_is_checked_too() -> None:
    with pytest.raises(InvalidSetupError, match="redaction: unknown kind 'emial'; known: email, phone"):
        Policy({"emial": "redact"})
    with pytest.raises(InvalidSetupError, match="redaction: email: 'maybe' is not one of off, redact, reject"):
        Policy({"email": "maybe"})
    with pytest.raises(InvalidSetupError, match="redaction: 'email' is not a policy"):
        InMemoryStore(redaction="email")  # type: ignore[arg-type]
    with pytest.raises(InvalidSetupError, match="redaction: 'email' is not a policy"):
        VaultMemoryConfig("notes", "s-1", "alice", redaction="email")  # type: ignore[arg-type]


def test_a_custom_detector_is_used() -> None:
    def badges(text: str) -> list[tuple[int, int]]:
        return [found.span() for found in re.finditer(r"\bE-\d{4}\b", text)]

    policy = Policy().with_detector("badge", badges, "reject")
    assert policy.redact("Bob is E-1234.").value == "Bob is [redacted: badge]."
    assert policy.redact({"E-1": ["E-1234", "short"]}).value == {"E-1": ["[redacted: badge]", "short"]}
    with pytest.raises(SecretRefusedError, match="holds badge on line 1"):
        policy.admit("E-1234")
    assert policy.action("badge") == "reject"
    assert Policy().findings("E-1234") == []


@pytest.mark.parametrize("kind", ["email", "secrets", "", None])
def test_a_custom_detector_needs_a_new_name(kind: Any) -> None:
    with pytest.raises(InvalidSetupError, match="a detector needs a new name"):
        Policy().with_detector(kind, lambda _: [])


def test_invalid_spans_of_a_detector_are_harmless() -> None:
    policy = Policy().with_detector("odd", lambda text: [(-5, 2), (3, 1), (4, 999), (5, 5)])

    assert policy.redact("abcdef").value.count("[redacted: odd]") >= 2
    assert len(policy.redact("abcdef").value) < 200


# --- values


def test_a_value_without_findings_is_returned_as_the_same_object() -> None:
    message = {"role": "user", "content": [{"text": "Hello."}], "bytes": b"x", "n": 3, "none": None}

    assert Policy().redact(message).value is message


def test_redaction_copies_a_value_and_keeps_the_original() -> None:
    token = EACH[3][2]
    message = {"role": "user", "content": [{"text": token}, {"image": {"bytes": b"\x00"}}], "n": (1, token)}
    before = json.dumps(message, default=str)

    cleaned = Policy().redact(message)
    assert cleaned.value == {
        "role": "user",
        "content": [{"text": "[redacted: github-token]"}, {"image": {"bytes": b"\x00"}}],
        "n": [1, "[redacted: github-token]"],
    }
    assert json.dumps(message, default=str) == before


@pytest.mark.parametrize(
    ("value", "cleaned"),
    [
        ({"password": "swordfish"}, {"password": "[redacted: password]"}),
        ({"DB_PASSWORD": "a b"}, {"DB_PASSWORD": "a b"}),
        ({"password": "required"}, {"password": "required"}),
        ({"password": None, "pwd": 7}, {"password": None, "pwd": 7}),
        ({"SecretAccessKey": AWS}, {"SecretAccessKey": "[redacted: api-key]"}),
        ({"apiKey": hexes(32)}, {"apiKey": "[redacted: api-key]"}),
        ({"key": hexes(32), "token_id": hexes(32)}, {"key": hexes(32), "token_id": hexes(32)}),
        ({"tokens": [body(24)]}, {"tokens": [body(24)]}),
        ({"token": [body(24), "x"]}, {"token": ["[redacted: api-key]", "x"]}),
        ({"password": {"stringValue": "swordfish"}}, {"password": {"stringValue": "[redacted: password]"}}),
        ({"name": "DB_PASSWORD", "value": "swordfish"}, {"name": "DB_PASSWORD", "value": "[redacted: password]"}),
        ({"password": {"type": "text1"}}, {"password": {"type": "text1"}}),
        ({"password_changed_at": "2026-11-17"}, {"password_changed_at": "2026-11-17"}),
        ({"passwordResetUrl": "https://a.example/reset"}, {"passwordResetUrl": "https://a.example/reset"}),
        ({"passwordConfirmation": "swordfish"}, {"passwordConfirmation": "[redacted: password]"}),
    ],
)
def test_a_key_can_make_its_value_a_secret(value: Any, cleaned: Any) -> None:
    assert Policy().redact(value).value == cleaned


def test_redacted_keys_stay_distinct() -> None:
    one, two = EACH[3][2], "ghp" + "_" + body(36, 11)

    cleaned = Policy().redact({one: 1, two: 2}).value
    assert sorted(cleaned.values()) == [1, 2]
    assert all(key.startswith("[redacted: github-token]") for key in cleaned)


def test_recursive_and_deeply_nested_values_are_redacted() -> None:
    token = EACH[3][2]
    round_trip: dict[str, Any] = {"text": token}
    round_trip["self"] = round_trip
    deep: Any = token
    for _ in range(5000):
        deep = [deep]

    cleaned = Policy().redact(round_trip).value
    assert cleaned["self"] is cleaned
    assert cleaned["text"] == "[redacted: github-token]"
    value = Policy().redact(deep).value
    while isinstance(value, list):
        (value,) = value
    assert value == "[redacted: github-token]"


def test_an_object_is_scanned_as_its_string() -> None:
    class Wordy:
        def __str__(self) -> str:
            return f"holds {EACH[3][2]}"

    cleaned: Any = Policy().redact({"it": Wordy()}).value
    assert cleaned == {"it": "holds [redacted: github-token]"}
    plain = object()
    assert Policy().redact({"it": plain, "token": EACH[3][2]}).value["it"] is plain


# --- properties of any text


FRAGMENTS = st.sampled_from(
    [
        *(sample for _, sample, _ in ALL), *CARDS, *IBANS, "password: ", "api_key=", " is ", "://", "@", "\n", "\\n",
        '"', "'", "{", "-----BEGIN ", "PRIVATE KEY-----", "ghp_", "eyJ", "AKIA", "bearer ", "a@example.org", "8.8.8.8",
        "é", "İ", "+33 6 12 34 56 78", "[redacted: password]", "4111 ", "\u00a0", "0", "x", " ",
    ]
)  # fmt: skip


@given(st.lists(FRAGMENTS | st.text(max_size=8), max_size=12).map("".join))
def test_a_redacted_text_has_no_findings(text: str) -> None:
    cleaned = EVERYTHING.redact(text).value

    assert EVERYTHING.findings(cleaned) == []
    assert EVERYTHING.redact(cleaned).value == cleaned
    assert EVERYTHING.admit(cleaned).counts == {}


@given(st.lists(FRAGMENTS | st.text(max_size=8), max_size=12).map("".join))
def test_a_text_with_findings_passes_the_prefilter_also_as_json(text: str) -> None:
    findings = EVERYTHING.findings(text)

    assert EVERYTHING.may_find(text) or not findings
    assert EVERYTHING.may_find(json.dumps({"a": [text]}, ensure_ascii=False)) or not findings
    assert all(left.end <= right.start for left, right in pairwise(findings))
    assert all(one.line == text.count("\n", 0, one.start) + 1 for one in findings)


UNFILTERED = [Detector(one.kind, one.find) for one in DETECTORS]


@given(st.lists(FRAGMENTS | st.text(max_size=8), max_size=12).map("".join))
def test_the_prefilter_of_a_detector_loses_no_finding(text: str) -> None:
    assert find_all(DETECTORS, text) == find_all(UNFILTERED, text)


@pytest.mark.parametrize(("kind", "sample", "secret"), ALL, ids=lambda value: value[:24])
def test_a_secret_passes_the_prefilter_of_its_detector(kind: str, sample: str, secret: str) -> None:
    for text in (sample, secret, json.dumps({"text": f"a\n{sample}"}, ensure_ascii=False)):
        assert find_all(DETECTORS, text) == find_all(UNFILTERED, text)


@given(st.text(max_size=300))
def test_any_text_can_be_scanned(text: str) -> None:
    for one in scan_text(text):
        assert 0 <= one.start < one.end <= len(text)


HOSTILE = (
    "a", "4", "1 ", "4111 ", "4111-", "eyJ", "-eyJ", "eyJaaaaaaaaa.", "\\neyJ", "%3DeyJ", "sk-", "ghp_", "AKIA",
    "xoxb-1-", "-----BEGIN RSA " + "PRIVATE KEY-----", "SG." + "a" * 20 + ".", "key=", "api_key=", "password is ",
    "password for a ", "password:", "İpassword: ", "secret\\", "secret: " + "a/" * 20 + " ", "bearer ",
    "authorization: bearer ", "://", "://a:", "://a:b@", "@", "a@", "@a.a", "a.", "a" * 64 + "@b.co ", ":", "1.",
    "1.1.1.1 ", "f:", "AA11 ", "DE11", "+1", "+1 2 3 4 5 6 7 8 9", "call me at ", "\n", '"', "\\",
)  # fmt: skip


@pytest.mark.parametrize("piece", HOSTILE, ids=lambda piece: repr(piece)[:16])
def test_a_hostile_text_is_scanned_in_linear_time(piece: str) -> None:
    """On these texts, which start many matches, a quadratic pattern would take minutes."""
    text = (piece * 200_000)[:200_000]

    assert isinstance(scan_text(text), list)
    assert [one for one in scan_text(EVERYTHING.redact(text[:20_000]).value) if is_secret(one.kind)] == []


def test_a_detector_without_a_prefilter_runs_on_every_text() -> None:
    assert Detector("own", lambda _: []).is_unfiltered
    assert Policy().with_detector("own", lambda _: [(0, 1)]).may_find("x")
    assert not Policy().may_find("Please book the train to Zurich for Thursday.")


def test_all_samples_are_redacted_in_one_text() -> None:
    cleaned = Policy().redact(SPOKEN)

    assert cleaned.counts == dict.fromkeys(SECRET_KINDS, 1)
