"""Fake secrets, assembled at run time so that no scanner reports this file."""

import base64
import json
from pathlib import Path

_RANDOM = "q7RzT2mK9vXpL4wN8bYcF3hJ6dGsA1eUo5iZtQkWxVyB0nMrPjHgCfDlSaEuI2"


def body(length: int, start: int = 0) -> str:
    """Return a number of letters and digits that look generated."""
    return (_RANDOM[start:] + _RANDOM * 4)[:length]


def hexes(length: int) -> str:
    return "3f9a0c7be12d4586a1b2c3d4e5f60718293a4b5c6d7e8f900f1e2d3c4b5a69788796a5b4"[:length]


def _url_safe(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


JWT = ".".join([_url_safe({"alg": "HS256", "typ": "JWT"}), _url_safe({"sub": "alice", "iat": 1516239022}), body(43)])
PEM = "\n".join(
    ["-----BEGIN RSA " + "PRIVATE KEY-----", *(body(64, at) for at in (0, 7, 19)), "-----END RSA " + "PRIVATE KEY-----"]
)

SAMPLES: dict[str, tuple[tuple[str, str], ...]] = {  # kind -> template of a sentence, and the secret in it
    "private-key": (("my key:\n{}\nkeep it", PEM), ("openssh {}", PEM.replace("RSA", "OPENSSH"))),
    "aws-key": (("use {} for the bucket", "AKIA" + "IOSFODNN7EXAMPLQ"), ("id={}", "ASIA" + "Y34FZKBOKMUTVV7A")),
    "aws-secret": (
        ("aws_secret_access_key = {}", "wJalrXUtnFEMI/K7MDENG" + "/bPxRfiCYEXAMPLEKEX"),
        ("AKIA" + "IOSFODNN7EXAMPLQ,{}", "wJalrXUtnFEMI/K7MDENG" + "/bPxRfiCYEXAMPLEKEX"),
    ),
    "github-token": (
        ("{}", "ghp" + "_" + body(36)),
        ("GH_TOKEN={} make", "ghs" + "_" + body(36, 5)),
        ("that is {}.", "github" + "_pat_" + body(22) + "_" + body(59)),
    ),
    "gitlab-token": (("glab login {}", "glpat" + "-" + body(20)), ("'{}'", "glrt" + "-" + body(20, 3))),
    "slack-token": (
        ("bot {}", "xoxb" + "-123456789012-1234567890123-" + body(24)),
        ("post to https://{}", "hooks.slack.com" + "/services/T01ABCDEF/B01ABCDEF/" + body(24)),
    ),
    "stripe-key": (("key {}", "sk" + "_live_" + body(24)), ("hook {}", "whsec" + "_" + body(32))),
    "openai-key": (
        ("export OPENAI={}", "sk" + "-" + body(48)),
        ("{} works", "sk" + "-proj-" + body(60) + "-" + body(20)),
    ),
    "anthropic-key": (("{}", "sk" + "-ant-api03-" + body(80) + "-" + body(10) + "AA"),),
    "google-key": (("maps {}", "AI" + "za" + body(35)), ("oauth {}", "GOC" + "SPX-" + body(28))),
    "npm-token": (("//registry/:_authToken={}", "npm" + "_" + body(36)),),
    "pypi-token": (("twine {}", "pypi" + "-AgEIcHlwaS5vcmc" + body(80)),),
    "huggingface-token": (("login {}", "hf" + "_" + body(34)),),
    "service-token": (
        ("sendgrid {}", "SG" + "." + body(22) + "." + body(43)),
        ("groq {}", "gsk" + "_" + body(52)),
        ("ocean {}", "dop" + "_v1_" + hexes(64)),
        ("twilio {}", "SK" + hexes(32)),
        ("telegram bot 123456789{}", ":AA" + body(33)),
    ),
    "jwt": (("session {} ends", JWT),),
    "authorization": (
        ("curl -H 'Authorization: Bearer {}'", body(30)),
        ('"authorization": "Basic {}"', base64.b64encode(b"alice:swordfish").decode()),
    ),
    "url-password": (
        ("postgres://app:{}@db.internal:5432/app", "Sw0rdf1sh!x"),
        ("redis://:{}@cache:6379/0", "b3tterpass"),
        ("mongodb+srv://root:{}@c0.example.net", "pl3asure"),
    ),
    "api-key": (
        ('api_key = "{}"', body(32)),
        ("CLIENT_SECRET={}", hexes(40)),
        ("the access token for the billing system is {}", body(28)),
        ('{"apiKey": "{}"}', body(24, 9)),
    ),
    "password": (
        ("password: {}", "hunter2x"),
        ("the password for the staging server is {}.", "Tr0ub4dor&3"),
        ("DB_PASSWORD='{}'", "c0rrect!horse"),
        ('"passphrase": "{}"', "v0ice-of-the-sea"),
        ("Pwd={};Database=app", "Tr0ub4dored"),
        ("passphrase is {}", "correct-horse-battery-staple"),
    ),
}  # fmt: skip


def sentence(template: str, secret: str) -> str:
    return template.replace("{}", secret)


ALL = [(kind, sentence(template, secret), secret) for kind, samples in SAMPLES.items() for template, secret in samples]
EACH = [(kind, sentence(*samples[0]), samples[0][1]) for kind, samples in SAMPLES.items()]  # one of a kind
SPOKEN = "\n\n".join(text for _, text, _ in EACH)


def pieces(secret: str) -> list[str]:
    """Return the parts of a secret that a file would contain: its lines, without separators."""
    return [line for line in secret.split("\n") if "-----" not in line]


def leaks(root: Path, secrets: list[str]) -> list[str]:
    """Return the files below a directory that contain one of some secrets in their bytes or names."""
    found = []
    for path in sorted(root.rglob("*")):
        data = str(path.relative_to(root)).encode()
        if path.is_file() and not path.is_symlink():
            data += b"\0" + path.read_bytes()
        for secret in secrets:
            found += [f"{path}: {piece[:12]}..." for piece in pieces(secret) if piece.encode() in data]
    return found
