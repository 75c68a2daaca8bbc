"""Namespaces that try to leave their scope, and the calls that must refuse them."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from memfs import Memory, Vault, Written
from memfs.namespace import fold
from support.files import Snapshot

HOSTILE = [
    # outside the vault
    "..", "../..", "../alice2", "../alice2/secret.md", "../../..", "../../outside.md", "../../../outside.md",
    "actors/alice/..", "actors/alice/../alice2", "actors/alice/../alice2/secret.md",
    "actors/alice/../../../outside.md",
    "./actors/alice2/secret.md", "actors/./alice2", "actors//alice2/secret.md", "//actors/alice2", "archive/../..",
    "archive/../actors/alice2/secret.md", "archive/actors/alice2", "archive/actors/alice2/old.md", "archive", ".",
    "/",
    "", "/..", "...", "....//....//outside.md", "..\\..\\outside.md", "actors\\alice2\\secret.md", "C:\\outside.md",
    "C:outside.md", "\\\\server\\share", "/etc/passwd", "/etc/passwd.md", "file:///etc/passwd", "~", "~root/x",
    "~/x.md",
    "%2e%2e", "%2e%2e/%2e%2e/outside.md", "..%2foutside.md", "%00", "..;/outside.md", "$HOME/x", "$(touch x)", "`x`",
    # another subtree, and directories without memories
    "actors", "actors/alice2", "actors/alice2/secret.md", "/actors/alice2/secret", "actors/alice2/secret", "m-secret",
    "people/bob.md", "people", "README.md", "readme.md", "ReadMe", "memfs.yaml", ".memfs", ".memfs/tmp",
    ".memfs/x.md",
    "sessions", "sessions/s1/log.md", "Sessions/s1/log.md", "SESSIONS", "sessions/../actors/alice2", ".git",
    ".git/config",
    ".git/hooks/x.md", ".GIT", ".hidden", ".hidden/x.md", ".md", "..md", ".obsidian/app.md", ".gitignore",
    # symlinks in the subtree to targets outside it
    "actors/alice/link", "actors/alice/link/outside.md", "actors/alice/link/new", "actors/alice/up",
    "actors/alice/loop",
    "actors/alice/up/alice2/secret.md", "actors/alice/pointer.md", "actors/alice/loop/x.md",
    "actors/alice/dangling.md",
    # names with a special meaning on some system
    "con", "CON", "nul.md", "aux", "prn.txt", "com1", "lpt9.md", "COM¹", "con.tar.gz", "actors/alice/nul", "name.",
    "name ", " name", "name. ", "-x", "--force", "-rf", "#auto#", "~lock", "a:b", "a*b", "a?b", "a<b>", 'a"b', "a|b",
    # characters
    "\0", "a\0b", "a\0/../../outside.md", "a\nb", "a\rb", "a\tb", "a\x1b[2Jb", "\x7f", "\x85", "\u2028",
    "\u202etxt.exe",
    "a\u200bb", "\ufeff", "\u2066x\u2069", "\ud800", "a\udfffb", "\udc80", "\ue000", "\uffff", "\U000e0001", "\u0378",
    # other spellings of the scope
    "actors/ALICE", "Actors/Alice/own.md", "actors/al\u0131ce", "actors/alıce/secret.md", "actors/ａｌｉｃｅ",
    "actors/alice\u0301", "actors/alice ", "actors/alice.", "actors/alice/", "actors/alice//",
    "actors/alice\u200b/x.md", "actors/alice/own.md/", "actors/alice/own.md/x", "actors/alice/own", "OWN",
    # sizes
    "x" * 101, "x" * 300, "x" * 300 + ".md", "東" * 100, "東" * 255, "x/" * 200 + "x", "x/" * 5000 + "x.md", "/" * 300,
    "😀" * 64, "e\u0301" * 100,
    # placeholders of templates and format strings
    "{0.__class__}", "{0.__class__.__init__.__globals__}", "{actorId}", "{sessionId}", "{}", "{", "}", "%s", "{{x}}",
    "${x}",
    "actors/{actorId}", "[[people/bob]]", "a,b", "a;b", "null", "true", "0", "*", "**", "*.md", "?", "[a-z]",
]  # fmt: skip


def build(root: Path) -> Path:
    files = {
        "actors/alice/own.md": "---\nid: m-own\n---\n\nMine.\n",
        "actors/alice2/secret.md": "---\nid: m-secret\n---\n\nSecret.\n",
        "actors/alice2/bad.md": "---\nid: [\n---\n\nSecret.\n",
        "archive/actors/alice2/old.md": "---\nid: m-old\n---\n\nSecret.\n",
        "people/bob.md": "---\nid: m-bob\n---\n\nSecret.\n",
        "sessions/s1/log.md": "Secret.\n",
        "README.md": "Secret.\n",
        ".hidden/x.md": "Secret.\n",
        ".git/config": "[core]\n",
        "../outside.md": "Secret.\n",
        "../elsewhere/outside.md": "Secret.\n",
    }
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    links = {"link": "../../../elsewhere", "up": "..", "loop": "loop", "pointer.md": "../../../outside.md"}
    for name, target in {**links, "dangling.md": "../../../elsewhere/new.md"}.items():
        (root / "actors/alice" / name).symlink_to(target)
    with Vault.init(root) as vault:
        vault.update("actors/alice2/secret.md", importance=2)
        vault.remove(vault.add("Gone.", "actors/alice2").id)
    return root


def outside(take: Snapshot, root: Path) -> dict[str, tuple[object, ...]]:
    """Return the state of everything outside alice's namespace, in the vault and around it."""
    seen = take(root.parent, "vault/.memfs", "vault/.git/memfs")
    hers = ("vault/actors/alice/", "vault/archive/actors/alice/")
    return {path: state for path, state in seen.items() if not fold(path + "/").startswith(hers)}


def add_and_list(vault: Vault, space: str) -> list[Memory]:
    scope = vault.scope(space)
    scope.add("Deeper.")
    return scope.list(archived=True)


def add_and_move(vault: Vault, to: str) -> Written:
    return vault.move(vault.add(f"To {to!a}.").id, to)


def attempts(alice: Vault, name: str) -> list[Callable[[], Any]]:
    """Return calls of every method of a scope, with the name in each argument that takes one."""
    below = f"actors/alice/{name}"
    refs: list[Callable[[], Any]] = []
    for ref in (name, below, f"{name}.md", f"archive/{name}"):
        refs += [
            partial(alice.read, ref),
            partial(alice.update, ref, importance=3),
            partial(alice.append, ref, "More."),
            partial(alice.versions, ref),
            partial(alice.restore, ref),
            partial(alice.move, ref, "actors/alice/taken"),
            partial(alice.forget, ref),
            partial(alice.remove, ref),
        ]
    spaces: list[Callable[[], Any]] = []
    for space in (name, below, f"archive/{name}"):
        spaces += [
            partial(alice.add, "Text.", space),
            partial(alice.list, space, archived=True),
            partial(alice.check, space),
            partial(add_and_list, alice, space),
            partial(add_and_move, alice, space),
            partial(add_and_move, alice, f"{space}.md"),
        ]
    titled: list[Callable[[], Any]] = [
        partial(alice.add, "Titled.", title=name),
        partial(alice.add, f"{name}\n"),
        partial(alice.add_many, [{"text": "Many.", "namespace": name}, {"text": name}]),
        partial(alice.update_many, [{"ref": name, "importance": 4}]),
        partial(alice.forget_many, [name]),
    ]
    return [*spaces, *titled, *refs]


def assert_inside(result: Any) -> None:
    """Assert that no item of a result comes from outside alice's subtree."""
    for item in result if isinstance(result, list) else [result]:
        path = getattr(item, "path", None)
        assert path is None or fold(path).startswith(("actors/alice/", "archive/actors/alice/")), item
        assert not isinstance(item, Memory) or "Secret" not in item.text
