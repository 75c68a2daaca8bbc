"""Check docstrings, comments, messages and docs for wording that a reader has to decode.

    python scripts/check_language.py [PATH ...]

Prints `file:line: text -- advice` per finding and exits with 1 if there are any. CONTRIBUTING.md has the rules.
"""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
CHECKED = "memfs tests benchmarks examples scripts docs README.md ARCHITECTURE.md CONTRIBUTING.md CHANGELOG.md".split()

_UNITS = (
    "actor|agent|call|change|command|directory|document|fact|file|group|key|line|memory|message|model|module|namespace|"
    "package|process|question|row|second|session|text|thread|topic|turn|vault|vector|word|write"
)
_BEFORE_WHO = "of|by|for|to|if|and|or|that|in|as|than|with|from|on|when|while|until|so|unless|beside|before"
_VAGUE = (
    "known|told|there|asked|kept|pending|derived|said|left|wrong|meant|given|wanted|missing|looked|held|written|read|"
    "found|changed|new|old|ours|theirs|behind|around|nearest|sought|due"
)
PATTERNS = {
    r"\b(tells?|told|telling|untold)\b": "data is returned, reported, sent or shown; nobody tells it",
    r"\b(hears?|heard|hearing)\b": "data is received, read or recorded",
    r"\b(says|said) (of|what|who|so|which|where|how|by)\b": "name what states it: the header, the log, the error",
    rf"(?:^|[.;:,(] ?|\b(?:{_BEFORE_WHO}) )who(ever)? (?!else\b)\w+": "name the actor: the caller, a writer, a reader",
    rf"\bwhat (is|was|are|were) (not )?({_VAGUE})\b": "use a noun: the known state, the kept versions, the result",
    rf"\b(a|one) ({_UNITS}) (a|each) ({_UNITS})\b": "write 'one X per Y'",
    rf"\b(lines?|files?|vectors?|modules?|messages?|directory|times?) an? ({_UNITS})\b": "write 'per'",
    r"\brooms?\b": "a directory, a module or space",
    r"\b(anew|whereof|thereof|wherein|hitherto|lest)\b": "write 'again', 'new' or a plain clause",
    r"\bof which nobody\b|\bnobody (tells|looks|knows|asks|reads|hears)\b": "state the fact without inversion",
    r"\b(one's|a person's) own\b": "'your own' or 'a custom'",
    r"\bgates?\b": "the lock queue",
    r"\b(overlay|catalog|shelf|shelved|witness(es)?|ledger)\b": "use the name of the module: see ARCHITECTURE.md",
    r"\b(is to|can|could) be had\b": "available",
    r"\bthe house\b": "the project",
    r"\bstands? still\b|\bstandstill\b": "pauses, blocks",
}
_PATTERNS = [(re.compile(pattern, re.IGNORECASE), advice) for pattern, advice in PATTERNS.items()]
_OPENING = re.compile(
    r"(?:The|An?|What|Which|Who|Whoever|Whose|Whether|How|When|Where|Why|Tell|Tells|Have|Has|This|These|Those|Its?|All|One|"
    r"Every|Each|Any|No|Nothing|As|Of|In|From|For|By|With|Without|To|At|On|Some|Several|Many|Where|True|False|None|That|"
    r"There|Equal|Only|Same|Not)\b"
)


Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


class Finding(NamedTuple):
    """One place to reword."""

    path: str
    line: int
    text: str
    advice: str


def findings(path: Path) -> Iterator[Finding]:
    """Yield the findings of one Python file or Markdown page."""
    name, text = path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        yield from _in_page(name, text)
        return
    tree = ast.parse(text)
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, Documented):
            yield from _in_docstring(name, node)
        elif isinstance(node, ast.Constant) and id(node) not in docstrings and name.startswith("memfs/"):
            yield from _in_message(name, node)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield from _matches(name, token.start[0], token.string.lstrip("# "))


def _in_message(name: str, node: ast.Constant) -> Iterator[Finding]:
    if isinstance(node.value, str) and node.value.count(" ") > 2:  # shorter texts are keys and names
        yield from _matches(name, node.lineno, node.value)


def _in_docstring(name: str, node: Documented) -> Iterator[Finding]:
    if not (docstring := ast.get_docstring(node)):
        return
    lines, start = docstring.split("\n"), node.body[0].lineno
    for number, text in enumerate(lines):
        yield from _matches(name, start + number, text)
    if name.startswith("memfs/") and _needs_a_verb(node) and _OPENING.match(docstring):
        yield Finding(name, start, lines[0], "start with a verb: Return, Read, Write, Raise ...")


def _needs_a_verb(node: Documented) -> bool:
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    return not any("property" in ast.unparse(decorator) for decorator in node.decorator_list)


def _in_page(name: str, text: str) -> Iterator[Finding]:
    in_code = False
    for number, line in enumerate(text.split("\n"), 1):
        if line.lstrip().startswith("```"):
            in_code = not in_code
        elif not in_code:
            yield from _matches(name, number, re.sub(r"`[^`]*`", "``", line))


def _matches(name: str, line: int, text: str) -> Iterator[Finding]:
    for pattern, advice in _PATTERNS:
        if found := pattern.search(text):
            yield Finding(name, line, found[0].strip(), advice)


def files(given: list[str]) -> Iterator[Path]:
    """Yield the Python files and pages below the given paths."""
    for one in given or CHECKED:
        path = ROOT / one if not Path(one).is_absolute() else Path(one)
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.suffix in {".py", ".md"} and file != Path(__file__).resolve():
                yield file


def main() -> int:
    """Print the findings and return the exit code."""
    found = [finding for path in files(sys.argv[1:]) for finding in findings(path)]
    for finding in found:
        print(f"{finding.path}:{finding.line}: {finding.text} -- {finding.advice}")
    print(f"language: {len(found)} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
