"""Files that try to lead a reader out of the vault, or to make it hang."""

import os
import socket
import subprocess
from pathlib import Path

SECRET = "the-secret-of-another"


def header(text: str) -> bytes:
    return f"---\n{text}\n---\n\nBody of it.\n".encode()


ALIASES = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "\n".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


MERGES = "a: &a {x: 1}\n" + "\n".join(
    f"{name}: &{name}\n  <<: [{', '.join([f'*{before}'] * 12)}]"
    for before, name in zip("abcdefghijk", "bcdefghijkl", strict=True)
)


# name -> bytes; those of REPORTED are problems of `check`, too
REPORTED = {
    "latin-1.md": "---\ntitle: Zürich\n---\n\nCafé.\n".encode("latin-1"),
    "utf-16.md": "---\ntitle: Zürich\n---\n\nCafé.\n".encode("utf-16"),
    "utf-16-be.md": "---\na: b\n---\n".encode("utf-16-be") + b"\xff",
    "half-a-character.md": "日本".encode()[:-1],
    "unclosed.md": b"---\ntitle: a\n\nBody.\n",
    "unclosed-large.md": b"---\n" + b"key: value\n" * 90_000,
    "alias-bomb.md": header(ALIASES),
    "merge-bomb.md": header(MERGES),
    "laughs.md": header("lol: &lol ha\n" + "\n".join(f"k{n}: [*lol, *lol]" for n in range(9))),
    "deep-flow.md": header("a: " + "[" * 50_000),
    "deep-flow-closed.md": header("a: " + "[" * 25_000 + "]" * 25_000),
    "deep-maps.md": header("a: " + "{a: " * 12_000),
    "deep-block.md": header("a:\n" + "".join(" " * depth + "- \n" for depth in range(1, 300))),
    "deep-dashes.md": header("a:\n  " + "- " * 30_000 + "x"),
    "deep-keys.md": header("? " * 30_000 + "x"),
    "deep-50000.md": header("\n".join(" " * (depth % 300) + f"k{depth}:" for depth in range(50_000))),
    "python-object.md": header("a: !!python/object/apply:os.system ['touch /tmp/memfs-was-here']"),
    "python-name.md": header("!!python/name:os.system : x"),
    "tag.md": header("%TAG ! tag:x,2000:\n---\na: !y z"),
    "duplicate.md": header("a: 1\nb: 2\na: 3"),
    "too-many.md": header("\n".join(f"k{n}: {n}" for n in range(5000))),
    "large-header.md": header("a: " + "x" * 100_000),
    "nul-in-header.md": b"---\na: \0\n---\n\nBody.\n",
    "escape-in-header.md": b"---\na: \x1b[2J\n---\n\nBody.\n",
    "long-number.md": header("importance: " + "9" * 60_000),
    "conflict.md": b"<<<<<<< HEAD\nours\n=======\ntheirs\n>>>>>>> x\n",
    "conflict-in-header.md": header("<<<<<<< HEAD\na: 1\n=======\na: 2\n>>>>>>> x"),
    "colons.md": header(":" * 40_000),
    "bad-values.md": header("importance: 1e999\ncreated: 99999-01-01\npinned: maybe\ntags: {a: b}\nexpires: -1"),
}


QUIET = {
    "bom.md": b"\xef\xbb\xbf---\ntitle: a\n---\n\nBody.\n",
    "two-boms.md": b"\xef\xbb\xbf\xef\xbb\xbfBody.\n",
    "crlf.md": b"---\r\ntitle: a\r\n---\r\n\r\nBody.\r\n",
    "cr.md": b"---\rtitle: a\r---\r\rBody.\r",
    "nul.md": b"Body\0of\0nul\0" * 1000,
    "empty.md": b"",
    "blank.md": b"\n\n\n",
    "fences.md": b"---\n---\n---\n" * 10_000,
    "one-line.md": b"x" * 4_000_000,
    "markers.md": b"<<<<<<< a\n" * 300_000,
    "heading.md": b"# a" + b"#" * 2_000_000 + b"x\n",
    "spaces.md": b"# " + b" " * 2_000_000 + b"x" + b" " * 1_000_000 + b"\n",
    "dots.md": b"." * 2_000_000 + b"a",
    "quotes.md": header("a: '" + "''" * 20_000 + "'"),
    "con.md": b"A device elsewhere.\n",
    "new\nline.md": b"A name of two lines.\n",
    "\x1b[2J.md": b"A name that clears the screen.\n",
    "-rf.md": b"A name that is an option.\n",
    "{0.__class__}.md": b"A name that is a format.\n",
}


NOT_TEXT = os.fsdecode(b"not-utf-8-\xff.md")


BAD_NAMES = [
    NOT_TEXT,
    "fifo.md",
    "socket.md",
    "device.md",
    "sparse.md",
    "away.md",
    "loop.md",
    "dangling.md",
    "passwd.md",
]


def make_traps(parent: Path) -> Path:
    """Make a vault with one good memory beside entries that are named like memories and are no files of the vault."""
    root, outside = parent / "vault", parent / "outside"
    for folder in (root / "bad/folder.md", root / "good", outside / "folder"):
        folder.mkdir(parents=True)
    (root / "good/m001.md").write_bytes(header("id: m-good-1\ntags:\n  - good"))
    (root / "bad" / NOT_TEXT).write_bytes(b"A name that is no text.\n")
    os.mkfifo(root / "bad/fifo.md")
    with socket.socket(socket.AF_UNIX) as server:
        here = os.getcwd()
        os.chdir(root / "bad")
        server.bind("socket.md")
        os.chdir(here)
    subprocess.run(["mknod", root / "bad/device.md", "c", "1", "5"], check=True)  # /dev/zero: endless
    (root / "bad/sparse.md").touch()
    os.truncate(root / "bad/sparse.md", 50 << 20)
    (outside / "secret.md").write_text(f"---\nid: {SECRET}\n---\n\n{SECRET}\n")
    (outside / "folder/secret.md").write_text(SECRET)
    (root / "bad/away.md").symlink_to(outside / "secret.md")
    (root / "bad/passwd.md").symlink_to("/etc/passwd")
    (root / "bad/loop.md").symlink_to("loop.md")
    (root / "bad/dangling.md").symlink_to(outside / "new.md")
    (root / "bad/folder").symlink_to(outside / "folder")
    (root / "bad/self").symlink_to("..")
    return root
