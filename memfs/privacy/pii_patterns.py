"""Detectors of personal data: email and IP addresses, phone, card and account numbers. Pure, in linear time."""

import re
from collections.abc import Iterator
from ipaddress import ip_address

from memfs.privacy.detectors import GROUPED_RUN, Detector, Span

_AFTER_ESCAPE = r"(?<=\\[nrt])"  # after a line end that is escaped as in JSON
_SEPARATOR = "[ .\u00a0-]"  # between the groups of a number


# --- cards: ISO/IEC 7812 ------------------------------------------------------------------------------

_CARD = re.compile(
    rf"(?:(?<![\w.+])|{_AFTER_ESCAPE})"
    rf"(?:[0-9]{{13,19}}+"
    rf"|[0-9]{{4}}({_SEPARATOR})[0-9]{{4}}\1[0-9]{{4}}(?:\1[0-9]{{1,4}}){{1,2}}+"
    rf"|[0-9]{{4}}({_SEPARATOR})[0-9]{{6}}\2[0-9]{{4,5}}+)"
    rf"(?![0-9A-Za-z_]|\.[0-9])"
)
_LIKE_CARD = re.compile(
    "[0-9][0-9][0-9][0-9][ .\u00a0-]?[0-9][0-9][0-9][0-9][0-9 .\u00a0-]?[0-9 .\u00a0-]?[0-9 .\u00a0-]?[0-9]"
)
_DOUBLED = str.maketrans("0123456789", "0246813579")  # the digit sum of twice a digit
_BRANDS = (  # first digits and lengths of the card numbers of each brand
    (re.compile("4"), {13, 16, 19}),
    (re.compile("5[1-5]|222[1-9]|22[3-9]|2[3-6]|27[01]|2720"), {16}),
    (re.compile("3[47]"), {15}),
    (re.compile("3(?:0[0-59]|[689])"), {14, 16, 19}),
    (re.compile("6011|64[4-9]|65|62|81|220[0-4]|60|508"), {16, 17, 18, 19}),
    (re.compile("35(?:2[89]|[3-8])"), {16, 17, 18, 19}),
    (re.compile("50(?:18|20|38)|5[6-8]|6304|6759|676[1-3]"), {13, 15, 16, 18, 19}),
)


def passes_luhn(digits: str) -> bool:
    """Return whether the last digit is the Luhn check digit of the others."""
    return (sum(map(int, digits[-1::-2])) + sum(map(int, digits[-2::-2].translate(_DOUBLED)))) % 10 == 0


def is_card(digits: str) -> bool:
    """Return whether digits are a card number of a known brand with a valid check digit."""
    return any(len(digits) in lengths and brand.match(digits) for brand, lengths in _BRANDS) and passes_luhn(digits)


def _cards(text: str) -> Iterator[Span]:
    found = _CARD.search(text)
    while found:
        end = _card_end(found)
        if end:
            yield found.start(), end
        found = _CARD.search(text, end or found.start() + 1)


def _card_end(found: re.Match[str]) -> int:
    """Return the end offset of the card number at the start of a match; 0 if there is none.

    The last groups of a match may not belong to the number, but be the month of expiry: then fewer groups are tried.
    """
    groups = re.split(_SEPARATOR, found[0])
    for count in range(len(groups), 0, -1):
        if is_card("".join(groups[:count])):
            return found.start() + sum(map(len, groups[:count])) + count - 1
    return 0


# --- accounts: ISO 13616 ------------------------------------------------------------------------------

_IBAN_LENGTHS = {
    "AD": 24, "AE": 23, "AL": 28, "AT": 20, "AZ": 28, "BA": 20, "BE": 16, "BG": 22, "BH": 22, "BI": 27, "BR": 29,
    "BY": 28, "CH": 21, "CR": 22, "CY": 28, "CZ": 24, "DE": 22, "DJ": 27, "DK": 18, "DO": 28, "EE": 20, "EG": 29,
    "ES": 24, "FI": 18, "FK": 18, "FO": 18, "FR": 27, "GB": 22, "GE": 22, "GI": 23, "GL": 18, "GR": 27, "GT": 28,
    "HR": 21, "HU": 28, "IE": 22, "IL": 23, "IQ": 23, "IS": 26, "IT": 27, "JO": 30, "KW": 30, "KZ": 20, "LB": 28,
    "LC": 32, "LI": 21, "LT": 20, "LU": 20, "LV": 21, "LY": 25, "MC": 27, "MD": 24, "ME": 22, "MK": 19, "MN": 20,
    "MR": 27, "MT": 31, "MU": 30, "NI": 28, "NL": 18, "NO": 15, "OM": 23, "PK": 24, "PL": 28, "PS": 29, "PT": 25,
    "QA": 29, "RO": 24, "RS": 22, "RU": 33, "SA": 24, "SC": 31, "SD": 18, "SE": 24, "SI": 19, "SK": 24, "SM": 27,
    "SO": 23, "ST": 25, "SV": 28, "TL": 23, "TN": 24, "TR": 26, "UA": 29, "VA": 22, "VG": 24, "XK": 20, "YE": 30,
}  # fmt: skip
_IBAN = re.compile(rf"(?:(?<![A-Za-z0-9])|{_AFTER_ESCAPE})[A-Z][A-Z][0-9][0-9](?=[ \u00a0-]?[A-Z0-9])")
_LIKE_IBAN = re.compile("[A-Z][A-Z][0-9][0-9][ \u00a0A-Z0-9-]{11}")
_IBAN_SEPARATORS = " \u00a0-"  # one of them between the groups of an account number


def passes_mod_97(compact: str) -> bool:
    """Return whether the check digits of an account number are valid (ISO 7064 modulo 97)."""
    return int("".join(str(int(char, 36)) for char in compact[4:] + compact[:4])) % 97 == 1


def _ibans(text: str) -> Iterator[Span]:
    for found in _IBAN.finditer(text):
        end, compact = _without_separators(text, found.start(), _IBAN_LENGTHS.get(found[0][:2], 0))
        if compact and passes_mod_97(compact):
            yield found.start(), end


def _without_separators(text: str, at: int, length: int) -> tuple[int, str]:
    """Return the end of an account number that starts at an offset and has this length, and its characters without
    separators; "" instead of them if there is no such number."""
    chars: list[str] = []
    while len(chars) < length and at < len(text):
        char = text[at]
        if char.isascii() and (char.isdigit() or char.isupper()):
            chars.append(char)
        elif char not in _IBAN_SEPARATORS or text[at - 1] in _IBAN_SEPARATORS:
            break
        at += 1
    is_complete = bool(chars) and len(chars) == length and not text[at : at + 1].isalnum()
    return at, "".join(chars) if is_complete else ""


# --- mail, phone, network -----------------------------------------------------------------------------

_DOMAIN = re.compile(r"@([^\W_][\w-]{0,62}(?:\.[\w-]{1,63}+)*\.[^\W\d_]{2,24}+)(?![\w@-])")
_LOCAL_PART = re.compile(r"[\w.%+'-]{1,64}+")
_REMOTE_USERS = frozenset({"git", "hg", "svn"})  # of remotes such as git@github.com
_IN_URL_LOGIN = re.compile(r"://[^\s/?#]*$")  # the user part of a URL
_PHONE_END = r"(?![\w]|[.-][0-9])"  # lookahead after a phone number
_PHONE_START = r"(?<![\w.+-])(?<![0-9] )"  # lookbehind before a phone number without a country code
_PHONES = (
    re.compile(rf"(?<![\w+.])\+[0-9](?:[ .()/\u00a0-]{{0,2}}+[0-9]){{7,14}}{_PHONE_END}"),
    re.compile(
        rf"{_PHONE_START}(?:\([2-9][0-9]{{2}}\) ?|[2-9][0-9]{{2}}[. -])[2-9][0-9]{{2}}[. -][0-9]{{4}}{_PHONE_END}"
    ),
    re.compile(rf"{_PHONE_START}0[1-9](?:[ .-][0-9]{{2}}){{4}}(?!\w|[ .-][0-9])"),
    re.compile(
        r"\b(?i:phone|telephone|tel|mobile|cell|fax|whatsapp|call|dial)\b[^\w\n+]{0,3}+"
        rf"(?:(?i:is|at|no|number|me|us)[^\w\n+]{{1,3}}+){{0,2}}+(\(?[0-9](?:[ ()/-]{{0,2}}+[0-9]){{6,14}}){_PHONE_END}"
    ),
)
_DATE = re.compile(r"(?:19|20)[0-9]{2}([./ -])[0-9]{1,2}\1[0-9]{1,2}|[0-9]{1,2}([./ -])[0-9]{1,2}\2(?:19|20)[0-9]{2}")
_LIKE_PHONE = re.compile("[0-9][0-9 .()/\u00a0-]{4}")
_DECIMAL_BYTE = "(?:25[0-5]|2[0-4][0-9]|1?[0-9]{1,2})"
_IPV4 = re.compile(rf"(?<![\w.-])(?:{_DECIMAL_BYTE}\.){{3}}{_DECIMAL_BYTE}(?![\w-]|\.\w)")
_IPV6 = re.compile(r"(?<![\w:.])[0-9A-Fa-f:]{3,45}+(?:(?<=:[0-9])[0-9]{0,2}+(?:\.[0-9]{1,3}+){3})?(?!\w)")
_LIKE_IP = re.compile(r"[0-9]\.[0-9]{1,3}\.[0-9]|:[0-9A-Fa-f]{0,4}:")
_BEFORE_VERSION = re.compile(r"(?i:\bv|version|release)[ :=]{0,3}$")


def _emails(text: str) -> Iterator[Span]:
    for found in _DOMAIN.finditer(text):
        before = _LOCAL_PART.match(text[max(0, found.start() - 64) : found.start()][::-1])
        name = before[0][::-1].lstrip(".'") if before else ""
        start = found.start() - len(name)
        if (
            name
            and name not in _REMOTE_USERS
            and not name.endswith(".")
            and not _IN_URL_LOGIN.search(text, max(0, start - 64), start)
        ):
            yield start, found.end()


def _phones(text: str) -> Iterator[Span]:
    for pattern in _PHONES:
        for found in pattern.finditer(text):
            if not _DATE.fullmatch(found[pattern.groups]):
                yield found.span(pattern.groups)


def _ips(text: str) -> Iterator[Span]:
    for found in _IPV4.finditer(text):
        if not _BEFORE_VERSION.search(text[max(0, found.start() - 12) : found.start()]):
            yield found.span()
    for found in _IPV6.finditer(text):
        address = found[0].rstrip(":") if not found[0].endswith("::") else found[0]
        if len(address) >= 6 and address.count(":") >= 2 and any(map(str.isdigit, address)) and _is_ip(address):
            yield found.start(), found.start() + len(address)


def _is_ip(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


PII_DETECTORS = (
    Detector("card", _cards, pattern=_LIKE_CARD, required_run=GROUPED_RUN),
    Detector("iban", _ibans, pattern=_LIKE_IBAN, required_run=GROUPED_RUN),
    Detector("email", _emails, anchors=("@",)),
    Detector("ip", _ips, pattern=_LIKE_IP),
    Detector("phone", _phones, pattern=_LIKE_PHONE),
)
