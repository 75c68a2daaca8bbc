"""Detectors of secrets: keys, tokens, passwords. Pure, in linear time.

A pattern begins with the letters that a token is known by, so that looking for it is fast; only then it is looked at
what stands before them. Repeats are possessive: none is tried twice.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache

from memfs.privacy.detectors import BLOCK, RUN, Detector, Find, Span, lower

_WORD = "[A-Za-z0-9]"
_LOOSE = "[A-Za-z0-9_-]"
_LEAST = 6  # different signs in what is no mere placeholder


# --- tokens that are known by how they begin --------------------------------------------------------

TOKENS = {  # by kind: how a token begins, and what follows
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
        **{f"{who}_{mode}_": f"{_WORD}{{16,255}}+" for who in ("sk", "rk") for mode in ("live", "test")},
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


LIKE_TOKEN = re.compile(
    "[_.-][A-Za-z0-9_+/=-]{14}"
)  # is in all of these but for those whose beginning has no such sign


def _detector(kind: str) -> Detector:
    signs = [start for start in TOKENS[kind] if not set("_.-") & set(start)]
    pattern = LIKE_TOKEN if len(signs) < len(TOKENS[kind]) else None
    return Detector(kind, _tokens(kind), anchors=signs, pattern=pattern, shape=RUN)


def _tokens(kind: str) -> Find:
    def find(text: str) -> Iterator[Span]:
        for start, rest in TOKENS[kind].items():
            if start in text:
                for found in _beginning(start, rest).finditer(text):
                    if len(set(found[0][len(start) :])) >= _LEAST:
                        yield found.span()

    return find


@cache
def _beginning(start: str, rest: str) -> re.Pattern[str]:
    """A pattern of what begins a word; behind an escape of JSON or of a URL a word begins, too."""
    known = re.escape(start)
    if not start[0].isalnum():
        return re.compile(known + rest)
    return re.compile(rf"{known}(?:(?<!{_WORD}{known})|(?<=\\[nrt]{known})|(?<=%[0-9A-F]{{2}}{known})){rest}")


_JWT = rf"(?<![_-]eyJ){_LOOSE}{{11,}}+(?:\.{_LOOSE}{{8,}}+)\.{_LOOSE}*+(?:\.{_LOOSE}++)*+"


def _jwts(text: str) -> Iterator[Span]:
    return (found.span() for found in _beginning("eyJ", _JWT).finditer(text))


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
        rest = end or _ARMOUR.match(text, begin.end())  # of a key that was cut short, all that may be of it
        at = max(rest.end() if rest else 0, begin.end())
        if _ARMOURED.search(text, begin.end(), end.start() if end else at):
            yield begin.start(), at


# --- AWS secrets, which begin like nothing --------------------------------------------------------------

_FORTY = re.compile(r"(?<![A-Za-z0-9/+=])[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=])")
_AWS = re.compile("(?i:secret)|A(?:KI|SI)A[A-Z0-9]{16}")
_NEAR = 120  # signs before a secret in which it has to be named so, or to have its key


def _aws_secrets(text: str) -> Iterator[Span]:
    for found in _FORTY.finditer(text):
        if _is_dense(found[0]) and _AWS.search(text, max(0, found.start() - _NEAR), found.start()):
            yield found.span()


def _is_dense(value: str) -> bool:
    """Tell whether a value is no hash, which has fewer signs, and no path, which has them more often."""
    is_mixed = value not in (value.lower(), value.upper()) and any(map(str.isdigit, value))
    return is_mixed and entropy(value) >= 4.3


# --- passwords in addresses -----------------------------------------------------------------------------

_LOGIN = re.compile(r"""://([^\s/?#@:"'<>\\`]{0,128}+):([^\s/"'<>\\`]{1,256})@(?=[\w\[])""")


def _url_passwords(text: str) -> Iterator[Span]:
    for found in _LOGIN.finditer(text):
        if not is_placeholder(found[2]) and found[1] != found[2]:
            yield found.span(2)


# --- what is called a secret ----------------------------------------------------------------------------

_QUOTE = r"""\\{0,3}["'`]"""
_OF = r"(?:[ \t]++(?:for|of|on|to|at)(?:[ \t]++[\w.@/'-]{1,64}+){1,5}?)?"
_STRONG = r"(?:\*\*|__)?"
_SAID = rf"(?i:{_OF}(?:[ \t]++(?:is|was|to)(?=[:\s]):?|:(?=\s)))"
_BREAK = r"(?:\\{1,3}[nrt]|\s)"
_BESIDE = rf"(?:{_QUOTE})?,?{_BREAK}{{0,40}}+(?:{_QUOTE})?(?i:value)(?:{_QUOTE})?[:=]"  # `name: password, value: ...`
_SAYS = (
    rf"(?:(?:{_QUOTE})?\]?{_STRONG}(?:[ \t]{{0,40}}+(?::=|=>|==?|[:：])|{_SAID})|{_BESIDE}"
    r"|(?<=--password)[ \t]|(?<=<password)>)"
    rf"{_STRONG}[ \t\u00a0]{{0,40}}+"
)
_QUOTED = (  # up to the same quote, behind escapes and other quotes; in JSON in JSON escapes are doubled
    r"""[bru]?(?P<mark>["'`])(?P<quoted>(?:[^"'`\\\n]|\\[^\n]|(?!(?P=mark))["'`]){4,512}+)(?=(?P=mark))"""
    r"""|(?P<far>\\{1,3}["'`])(?P<nested>(?:[^"'`\\\n]|(?!(?P=far))(?:\\{2}(?:\\[^\n]|[^\\\n])|["'`])){4,512}+)"""
    r"(?=(?P=far))"
)
_ASSIGNED = re.compile(rf"""{_SAYS}(?:{_QUOTED}|(?:{_QUOTE}){{0,3}}(?P<bare>[^\s"'`<>\\]{{4,512}}+))""")
_PASSWORD = re.compile("pass(?:word|wd|phrase|code)|pwd")
_ABOUT = frozenset(  # last words of names of what is said of a password
    "at on date time url uri link path file field page policy length hint changed updated expires expiry expired "
    "required enabled strength type count attempts manager status age days rule rules error errors message "
    "format".split()
)
_LAST = re.compile("(?:[A-Z]?[a-z]+|[A-Z]+)$")
_API_KEY = re.compile("key|token|secret|credentials?")
_QUALITY = re.compile(
    "(?:api|access|auth|authorization|secret|private|signing|encryption|client|app|application|service|account|bot|"
    "master|deploy|webhook|license|subscription|security|storage|shared)[ _-]?$"
)
_NO_SECRET = re.compile("(?:public.?key|next|page|continuation|sync|cursor|csrf|idempotency|client|pagination)[ _-]?$")
_NEXT = re.compile(r"[;&](?=[ \w]{1,40}=)")  # ends a value in an address or a connection string
_TRAILING = ".,;:!?)]}*_"
_CODE = re.compile(
    r"[A-Za-z_][\w.]*[(\[{]|[A-Za-z_]\w*(?:(?:\.|::|->)[A-Za-z_]\w*)+$|[$%&*{\[(.=!|-]|https?:|/\w+/|[\w.+-]+@[\w-]+\.[\w.-]+$"
)
_TECHNICAL = re.compile(  # what is said of passwords, and is none
    r"(?:sha|md|base|aes|rsa|utf|bcrypt|scrypt|argon|pbkdf)-?\d{0,4}(?:-[a-z]+)*$"
    r"|.*-(?:hashed|encoded|encrypted|protected|based|only|long|characters?|chars?)$"
)
_CHANGE = re.compile("[A-Za-z](?=[0-9])|[0-9](?=[A-Za-z])")
_UUID = re.compile("[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")  # as a token, of a request more often
_WORDS = re.compile("[a-z]+(?:-[a-z]+){3,}")
_PLACEHOLDERS = frozenset(
    "password passwd pass mypassword mypass passphrase passcode pwd secret token key apikey user username changeme "
    "example sample dummy test testing none null true false string str text required optional hidden undefined "
    "redacted removed masked placeholder value todo foo bar foobar empty unknown invalid incorrect wrong "
    "missing".split()
)
_STANDS_FOR = ("your", "example", "placeholder", "insert", "replace", "enter-", "enter_", "xxx", "***", "...")
_HEADER = re.compile(rf"(?:{_QUOTE})?[ \t]?[:=][ \t]?(?:{_QUOTE})?(?i:basic|bearer|token|digest|apikey)[ \t]++")
_CARRIED = re.compile("[A-Za-z0-9._~+/-]{8,4096}+={0,2}")


def _passwords(text: str) -> Iterator[Span]:
    for _, start, end, is_quoted in _assigned(_PASSWORD, text):
        if is_password(text[start:end], is_quoted=is_quoted):
            yield start, end


def _api_keys(text: str) -> Iterator[Span]:
    for name, start, end, _ in _assigned(_API_KEY, text):
        value = text[start:end]
        if is_key(value) and not (name == "token" and _UUID.fullmatch(value)):
            yield start, end


def _assigned(names: re.Pattern[str], text: str) -> Iterator[tuple[str, int, int, bool]]:
    """The values that follow a name, each with that and whether it is in quotes; none twice."""
    lowered, last = lower(text), 0
    for name in names.finditer(lowered):
        if name.start() < last or not _is_meant(name, lowered):
            continue
        if value := _ASSIGNED.match(text, name.end()):
            held = next(name for name in ("quoted", "nested", "bare") if value[name] is not None)
            is_quoted = held != "bare"
            start, last = value.span(held)
            end = last
            if not is_quoted:
                end = start + len(_NEXT.split(value["bare"], maxsplit=1)[0].rstrip(_TRAILING))
            yield name[0], start, end, is_quoted


def _is_meant(name: re.Match[str], lowered: str) -> bool:
    """Tell whether a name is that of a secret: a key may be that of a table, and a token that of the next page."""
    before = lowered[max(0, name.start() - 14) : name.start()]
    return bool(_QUALITY.search(before)) if name[0] == "key" else name[0] != "token" or not _NO_SECRET.search(before)


def _headers(text: str) -> Iterator[Span]:
    for name in re.finditer("bearer[ \t]|authorization", lower(text)):
        header = _HEADER.match(text, name.end()) if name[0] == "authorization" else None
        if header is None and name[0] == "authorization":
            continue
        token = _CARRIED.match(text, header.end() if header else name.end())
        if token and not is_placeholder(token[0]) and (header or is_key(token[0])):
            yield token.span()


def kind_of_named(name: str, value: str) -> str | None:
    """The kind of secret that a value in a mapping is by its name; None if it is none."""
    lowered = lower(name)
    last = _LAST.search(name)
    if _PASSWORD.search(lowered) and last and last[0].lower() in _ABOUT:
        return None
    if _PASSWORD.search(lowered) and len(value) >= 4 and not is_placeholder(value) and not value.isspace():
        return "password" if " " not in value.strip() else None
    found = [one for one in _API_KEY.finditer(lowered) if one.end() == len(lowered) and _is_meant(one, lowered)]
    is_meant = bool(found) and is_key(value) and not (found[-1][0] == "token" and _UUID.fullmatch(value))
    return "api-key" if is_meant else None


def is_password(value: str, *, is_quoted: bool) -> bool:
    """Tell whether a value that is called a password looks like one: more than a word of a sentence or of code."""
    if len(value) < 6 or is_placeholder(value) or _TECHNICAL.match(value.lower()):
        return False
    if not is_quoted and _CODE.match(value):
        return False
    has_digit, has_sign = any(map(str.isdigit, value)), any(sign in "!@#$%^&*+~?" for sign in value)
    if any(map(str.isalpha, value)) and (has_digit or has_sign):
        return " " not in value
    return _WORDS.fullmatch(value) is not None


def is_key(value: str) -> bool:
    """Tell whether a value that is called a key or a token looks like one."""
    if len(value) < 12 or " " in value or is_placeholder(value) or _CODE.match(value):
        return False
    return is_random(value) or (len(value) >= 32 and _is_dense(value))


def is_random(value: str) -> bool:
    """Tell whether a value looks as if made by a machine: letters and digits change often."""
    return len(_CHANGE.findall(value)) >= 3 and entropy(value) >= 3.0


def entropy(value: str) -> float:
    """Bits a sign."""
    total = len(value)
    return -sum(count / total * math.log2(count / total) for count in Counter(value).values())


def is_placeholder(value: str) -> bool:
    """Tell whether a value only stands where a secret would."""
    plain = value.lower()
    if plain.strip("_-*.!?") in _PLACEHOLDERS or plain.startswith(_STANDS_FOR) or len(set(plain)) <= 2:
        return True
    return value[0] in "$%{<[(" or "redacted" in plain


SECRETS = (
    Detector("private-key", _private_keys, anchors=("PRIVATE KEY",), shape=BLOCK),
    *map(_detector, TOKENS),
    Detector("aws-secret", _aws_secrets, words=("secret",), anchors=("AKIA", "ASIA"), shape=RUN),
    Detector("jwt", _jwts, anchors=("eyJ",), shape=RUN),
    Detector("authorization", _headers, words=("bearer", "authorization")),
    Detector("url-password", _url_passwords, anchors=("://",)),
    Detector("api-key", _api_keys, words=("key", "token", "secret", "credential")),
    Detector("password", _passwords, words=("passw", "passp", "passc", "pwd")),
)
