"""Detectors of secrets: keys, tokens, passwords. Pure, in linear time.

A pattern begins with the literal prefix of a token, so that the search is fast; a lookbehind after the prefix checks
the characters before it. Repeats are possessive: there is no backtracking.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache

from memfs.privacy.detectors import GROUPED_RUN, TOKEN_RUN, Detector, FindSpans, Span, lower

_WORD = "[A-Za-z0-9]"
_LOOSE = "[A-Za-z0-9_-]"  # the characters of a word, and those of base64url
_MIN_DISTINCT_CHARS = 6  # fewer mean a placeholder


# --- tokens with a known prefix --------------------------------------------------------

TOKENS = {  # kind -> prefix -> regex of the rest
    "aws-key": dict.fromkeys(("AKIA", "ASIA", "ABIA", "ACCA"), "[A-Z0-9]{16}(?![A-Za-z0-9])"),
    "github-token": {
        **{f"gh{letter}_": f"{_WORD}{{30,255}}+" for letter in "pousr"},
        "github_pat_": "[A-Za-z0-9_]{30,255}+",
    },
    "gitlab-token": {
        f"gl{name}-": f"{_LOOSE}{{14}}[A-Za-z0-9_.-]{{6,255}}+"
        for name in ("pat", "ptt", "dt", "rt", "cbt", "soat", "ft", "imt", "agent", "oas", "rtr", "wt")
    },
    "slack-token": {
        **{f"xox{letter}-": "[A-Za-z0-9-]{14,255}+" for letter in "abeoprs"},
        "xapp-": "[A-Za-z0-9-]{20,255}+",
        "hooks.slack.com/": "(?:services|workflows|triggers)/[A-Za-z0-9/_-]{20,255}+",
    },
    "stripe-key": {
        **{f"{key}_{mode}_": f"{_WORD}{{16,255}}+" for key in ("sk", "rk") for mode in ("live", "test")},
        "whsec_": "[A-Za-z0-9+/=]{24,255}+",
    },
    "anthropic-key": {"sk-ant-": f"{_LOOSE}{{20,255}}+"},
    "openai-key": {
        **{f"sk-{name}-": f"{_LOOSE}{{20,255}}+" for name in ("proj", "svcacct", "admin", "None", "or-v1")},
        "sk-": f"{_WORD}{{32,255}}+",
        "sess-": f"{_WORD}{{40}}+",
    },
    "google-key": {
        "AIza": f"{_LOOSE}{{35}}",
        "ya29.": f"{_LOOSE}{{20,2048}}+",
        "GOCSPX-": f"{_LOOSE}{{20,64}}+",
    },
    "npm-token": {"npm_": f"{_WORD}{{30,255}}+"},
    "pypi-token": {"pypi-AgE": f"{_LOOSE}{{16,2048}}+"},
    "huggingface-token": {"hf_": f"{_WORD}{{30,255}}+", "api_org_": f"{_WORD}{{30,255}}+"},
    "service-token": {
        **{f"do{letter}_v1_": "[a-f0-9]{40,64}+" for letter in "opr"},
        **{f"shp{name}_": "[a-fA-F0-9]{32}" for name in ("at", "ca", "pa", "ss")},
        **dict.fromkeys(("gsk_", "r8_", "lin_api_", "ntn_", "tvly-", "fw_", "pplx-"), f"{_WORD}{{30,255}}+"),
        **dict.fromkeys(("hvs.", "dp.pt.", "figd_", "dckr_pat_", "sntrys_", "xai-"), f"{_LOOSE}{{20,512}}+"),
        **dict.fromkeys(("glsa_", "sbp_", "PMAK-", "sq0atp-", "sq0csp-", "atlasv1."), f"{_LOOSE}{{20,512}}+"),
        "secret_": f"{_WORD}{{43}}(?!{_WORD})",
        "SG.": f"{_LOOSE}{{16,32}}+\\.{_LOOSE}{{16,64}}+",
        "dapi": "[a-f0-9]{32}",
        "SK": "[a-f0-9]{32}(?![A-Za-z0-9])",
        "AccountKey=": "[A-Za-z0-9+/]{40,120}+={0,2}",
        "AGE-SECRET-KEY-1": "[A-Z0-9]{50,70}+",
        ":AA": f"(?<=[0-9]{{8}}:AA){_LOOSE}{{33}}(?!{_LOOSE})",
    },
}


LIKE_TOKEN = re.compile("[_.-][A-Za-z0-9_+/=-]{14}")  # matches in every token whose prefix has one of `_.-`


def _token_detector(kind: str) -> Detector:
    anchors = [prefix for prefix in TOKENS[kind] if not set("_.-") & set(prefix)]
    pattern = LIKE_TOKEN if len(anchors) < len(TOKENS[kind]) else None
    return Detector(kind, _tokens(kind), anchors=anchors, pattern=pattern, required_run=TOKEN_RUN)


def _tokens(kind: str) -> FindSpans:
    def find(text: str) -> Iterator[Span]:
        for prefix, rest in TOKENS[kind].items():
            if prefix in text:
                for found in _token_pattern(prefix, rest).finditer(text):
                    if len(set(found[0][len(prefix) :])) >= _MIN_DISTINCT_CHARS:
                        yield found.span()

    return find


@cache
def _token_pattern(prefix: str, rest: str) -> re.Pattern[str]:
    """Return the pattern of a token at the start of a word; a word also starts after an escape of JSON or of a URL."""
    start = re.escape(prefix)
    if not prefix[0].isalnum():
        return re.compile(start + rest)
    return re.compile(rf"{start}(?:(?<!{_WORD}{start})|(?<=\\[nrt]{start})|(?<=%[0-9A-F]{{2}}{start})){rest}")


_JWT = rf"(?<![_-]eyJ){_LOOSE}{{11,}}+(?:\.{_LOOSE}{{8,}}+)\.{_LOOSE}*+(?:\.{_LOOSE}++)*+"


def _jwts(text: str) -> Iterator[Span]:
    return (found.span() for found in _token_pattern("eyJ", _JWT).finditer(text))


# --- private keys ---------------------------------------------------------------------------------------

_BEGIN = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_END = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_ARMOUR = re.compile(r"[A-Za-z0-9+/=\s\\:,.-]*+")
_ARMOURED = re.compile("[A-Za-z0-9+/=]{12}")


def _private_keys(text: str) -> Iterator[Span]:
    at, has_end = 0, True
    while begin := _BEGIN.search(text, at):
        end = _END.search(text, begin.end()) if has_end else None
        has_end = end is not None
        rest = end or _ARMOUR.match(text, begin.end())  # for a truncated key, all that may belong to it
        at = max(rest.end() if rest else 0, begin.end())
        if _ARMOURED.search(text, begin.end(), end.start() if end else at):
            yield begin.start(), at


# --- AWS secrets, which have no prefix --------------------------------------------------------------

_AWS_SECRET = re.compile(r"(?<![A-Za-z0-9/+=])[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=])")
_AWS_CONTEXT = re.compile("(?i:secret)|A(?:KI|SI)A[A-Z0-9]{16}")
_AWS_CONTEXT_CHARS = 120  # before a secret, where the word `secret` or a key id has to be


def _aws_secrets(text: str) -> Iterator[Span]:
    for found in _AWS_SECRET.finditer(text):
        if _is_dense(found[0]) and _AWS_CONTEXT.search(text, max(0, found.start() - _AWS_CONTEXT_CHARS), found.start()):
            yield found.span()


def _is_dense(value: str) -> bool:
    """Return whether a value mixes cases and digits with high entropy. The entropy of a hash in hex and of a path is
    lower: the hash has few distinct characters, the path repeats letters."""
    is_mixed = value not in (value.lower(), value.upper()) and any(map(str.isdigit, value))
    return is_mixed and entropy(value) >= 4.3


# --- passwords in URLs -----------------------------------------------------------------------------

_LOGIN = re.compile(r"""://([^\s/?#@:"'<>\\`]{0,128}+):([^\s/"'<>\\`]{1,256})@(?=[\w\[])""")


def _url_passwords(text: str) -> Iterator[Span]:
    for found in _LOGIN.finditer(text):
        if not is_placeholder(found[2]) and found[1] != found[2]:
            yield found.span(2)


# --- values that are named as secrets -------------------------------------------------------------------

_QUOTE = r"""\\{0,3}["'`]"""
_OF = r"(?:[ \t]++(?:for|of|on|to|at)(?:[ \t]++[\w.@/'-]{1,64}+){1,5}?)?"
_STRONG = r"(?:\*\*|__)?"  # bold in markdown
# `password for the server is ...`, `password: ...`
_SENTENCE = rf"(?i:{_OF}(?:[ \t]++(?:is|was|to)(?=[:\s]):?|:(?=\s)))"
_BREAK = r"(?:\\{1,3}[nrt]|\s)"
# `name: password, value: ...`
_NAME_VALUE = rf"(?:{_QUOTE})?,?{_BREAK}{{0,40}}+(?:{_QUOTE})?(?i:value)(?:{_QUOTE})?[:=]"
_ASSIGNMENT = (
    rf"(?:(?:{_QUOTE})?\]?{_STRONG}(?:[ \t]{{0,40}}+(?::=|=>|==?|[:：])|{_SENTENCE})|{_NAME_VALUE}"
    r"|(?<=--password)[ \t]|(?<=<password)>)"
    rf"{_STRONG}[ \t\u00a0]{{0,40}}+"
)
_QUOTED = (  # up to the same quote, across escapes and other quotes; JSON within JSON doubles the escapes
    r"""[bru]?(?P<mark>["'`])(?P<quoted>(?:[^"'`\\\n]|\\[^\n]|(?!(?P=mark))["'`]){4,512}+)(?=(?P=mark))"""
    r"""|(?P<far>\\{1,3}["'`])(?P<nested>(?:[^"'`\\\n]|(?!(?P=far))(?:\\{2}(?:\\[^\n]|[^\\\n])|["'`])){4,512}+)"""
    r"(?=(?P=far))"
)
_ASSIGNED_VALUE = re.compile(rf"""{_ASSIGNMENT}(?:{_QUOTED}|(?:{_QUOTE}){{0,3}}(?P<bare>[^\s"'`<>\\]{{4,512}}+))""")
_PASSWORD = re.compile("pass(?:word|wd|phrase|code)|pwd")
_PASSWORD_METADATA = frozenset(  # last words of names such as `password_changed_at`, which are not passwords
    "at on date time url uri link path file field page policy length hint changed updated expires expiry expired "
    "required enabled strength type count attempts manager status age days rule rules error errors message "
    "format".split()
)
_LAST_WORD = re.compile("(?:[A-Z]?[a-z]+|[A-Z]+)$")
_API_KEY = re.compile("key|token|secret|credentials?")
_KEY_QUALIFIER = re.compile(
    "(?:api|access|auth|authorization|secret|private|signing|encryption|client|app|application|service|account|bot|"
    "master|deploy|webhook|license|subscription|security|storage|shared)[ _-]?$"
)
_NOT_SECRET_PREFIX = re.compile(
    "(?:public.?key|next|page|continuation|sync|cursor|csrf|idempotency|client|pagination)[ _-]?$"
)
_VALUE_END = re.compile(r"[;&](?=[ \w]{1,40}=)")  # ends a value in a URL or a connection string
_TRAILING = ".,;:!?)]}*_"  # characters at the end of a value that belong to the sentence
_CODE = re.compile(  # a call, an attribute, a variable, a URL, a path or an address instead of the value itself
    r"[A-Za-z_][\w.]*[(\[{]|[A-Za-z_]\w*(?:(?:\.|::|->)[A-Za-z_]\w*)+$|[$%&*{\[(.=!|-]|https?:|/\w+/|[\w.+-]+@[\w-]+\.[\w.-]+$"
)
_TECHNICAL = re.compile(  # technical terms after the word `password`
    r"(?:sha|md|base|aes|rsa|utf|bcrypt|scrypt|argon|pbkdf)-?\d{0,4}(?:-[a-z]+)*$"
    r"|.*-(?:hashed|encoded|encrypted|protected|based|only|long|characters?|chars?)$"
)
_LETTER_DIGIT_CHANGE = re.compile("[A-Za-z](?=[0-9])|[0-9](?=[A-Za-z])")
# A `token` that is a UUID is usually the id of a request.
_UUID = re.compile("[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_PASSPHRASE = re.compile("[a-z]+(?:-[a-z]+){3,}")
_PLACEHOLDERS = frozenset(
    "password passwd pass mypassword mypass passphrase passcode pwd secret token key apikey user username changeme "
    "example sample dummy test testing none null true false string str text required optional hidden undefined "
    "redacted removed masked placeholder value todo foo bar foobar empty unknown invalid incorrect wrong "
    "missing".split()
)
_PLACEHOLDER_PREFIXES = ("your", "example", "placeholder", "insert", "replace", "enter-", "enter_", "xxx", "***", "...")
_HEADER = re.compile(rf"(?:{_QUOTE})?[ \t]?[:=][ \t]?(?:{_QUOTE})?(?i:basic|bearer|token|digest|apikey)[ \t]++")
_HEADER_TOKEN = re.compile("[A-Za-z0-9._~+/-]{8,4096}+={0,2}")


def _passwords(text: str) -> Iterator[Span]:
    for _, start, end, is_quoted in _assigned_values(_PASSWORD, text):
        if is_password(text[start:end], is_quoted=is_quoted):
            yield start, end


def _api_keys(text: str) -> Iterator[Span]:
    for name, start, end, _ in _assigned_values(_API_KEY, text):
        value = text[start:end]
        if is_key(value) and not (name == "token" and _UUID.fullmatch(value)):
            yield start, end


def _assigned_values(names: re.Pattern[str], text: str) -> Iterator[tuple[str, int, int, bool]]:
    """Yield the values that are assigned to a name: the name, start, end and whether it is in quotes; each once."""
    lowered, last = lower(text), 0
    for name in names.finditer(lowered):
        if name.start() < last or not _is_secret_name(name, lowered):
            continue
        if value := _ASSIGNED_VALUE.match(text, name.end()):
            group = next(group for group in ("quoted", "nested", "bare") if value[group] is not None)
            is_quoted = group != "bare"
            start, last = value.span(group)
            end = last
            if not is_quoted:
                end = start + len(_VALUE_END.split(value["bare"], maxsplit=1)[0].rstrip(_TRAILING))
            yield name[0], start, end, is_quoted


def _is_secret_name(name: re.Match[str], lowered: str) -> bool:
    """Return whether a name is that of a secret, judged by the word before it: `key` may also be that of a table, and
    `token` that of the next page."""
    before = lowered[max(0, name.start() - 14) : name.start()]
    return (
        bool(_KEY_QUALIFIER.search(before))
        if name[0] == "key"
        else name[0] != "token" or not _NOT_SECRET_PREFIX.search(before)
    )


def _headers(text: str) -> Iterator[Span]:
    """Yield the tokens of Authorization headers, and those that follow the word `bearer` if they look like a key."""
    for name in re.finditer("bearer[ \t]|authorization", lower(text)):
        header = _HEADER.match(text, name.end()) if name[0] == "authorization" else None
        if header is None and name[0] == "authorization":
            continue
        token = _HEADER_TOKEN.match(text, header.end() if header else name.end())
        if token and not is_placeholder(token[0]) and (header or is_key(token[0])):
            yield token.span()


def secret_kind_by_name(name: str, value: str) -> str | None:
    """Return the kind of secret that a value in a mapping is, judged by its name; None if it is none."""
    lowered = lower(name)
    last_word = _LAST_WORD.search(name)
    if _PASSWORD.search(lowered) and last_word and last_word[0].lower() in _PASSWORD_METADATA:
        return None
    if _PASSWORD.search(lowered) and len(value) >= 4 and not is_placeholder(value) and not value.isspace():
        return "password" if " " not in value.strip() else None
    found = [one for one in _API_KEY.finditer(lowered) if one.end() == len(lowered) and _is_secret_name(one, lowered)]
    is_api_key = bool(found) and is_key(value) and not (found[-1][0] == "token" and _UUID.fullmatch(value))
    return "api-key" if is_api_key else None


def is_password(value: str, *, is_quoted: bool) -> bool:
    """Return whether a value named a password looks like one, and not like a word of a sentence or of code."""
    if len(value) < 6 or is_placeholder(value) or _TECHNICAL.match(value.lower()):
        return False
    if not is_quoted and _CODE.match(value):
        return False
    has_digit, has_symbol = any(map(str.isdigit, value)), any(char in "!@#$%^&*+~?" for char in value)
    if any(map(str.isalpha, value)) and (has_digit or has_symbol):
        return " " not in value
    return _PASSPHRASE.fullmatch(value) is not None


def is_key(value: str) -> bool:
    """Return whether a value named a key or a token looks like one."""
    if len(value) < 12 or " " in value or is_placeholder(value) or _CODE.match(value):
        return False
    return is_random(value) or (len(value) >= 32 and _is_dense(value))


def is_random(value: str) -> bool:
    """Return whether a value looks generated: it often changes between letters and digits."""
    return len(_LETTER_DIGIT_CHANGE.findall(value)) >= 3 and entropy(value) >= 3.0


def entropy(value: str) -> float:
    """Return the entropy of a value in bits per character."""
    total = len(value)
    return -sum(count / total * math.log2(count / total) for count in Counter(value).values())


def is_placeholder(value: str) -> bool:
    """Return whether a value is a placeholder for a secret."""
    plain = value.lower()
    if plain.strip("_-*.!?") in _PLACEHOLDERS or plain.startswith(_PLACEHOLDER_PREFIXES) or len(set(plain)) <= 2:
        return True
    return value[0] in "$%{<[(" or "redacted" in plain


SECRET_DETECTORS = (
    Detector("private-key", _private_keys, anchors=("PRIVATE KEY",), required_run=GROUPED_RUN),
    *map(_token_detector, TOKENS),
    Detector("aws-secret", _aws_secrets, words=("secret",), anchors=("AKIA", "ASIA"), required_run=TOKEN_RUN),
    Detector("jwt", _jwts, anchors=("eyJ",), required_run=TOKEN_RUN),
    Detector("authorization", _headers, words=("bearer", "authorization")),
    Detector("url-password", _url_passwords, anchors=("://",)),
    Detector("api-key", _api_keys, words=("key", "token", "secret", "credential")),
    Detector("password", _passwords, words=("passw", "passp", "passc", "pwd")),
)
