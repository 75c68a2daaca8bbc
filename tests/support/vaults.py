"""The memories of a vault, and the traces that writes leave in it."""

from pathlib import Path
from typing import Any

from memfs import Memory, Vault


def history(root: Path) -> bytes:
    """Return the raw bytes of all kept versions, in any layout."""
    places = (root / ".memfs" / "history", root / ".git" / "memfs")
    return b"\n".join(path.read_bytes() for place in places for path in sorted(place.rglob("*")) if path.is_file())


def temporary_files_left(root: Path) -> list[str]:
    """Return the paths of the temporary files of memfs that still exist."""
    state = root / ".memfs"
    entries = [path for name in ("tmp", "late") if (state / name).exists() for path in (state / name).rglob("*")]
    return sorted(str(path.relative_to(root)) for path in {*entries, *root.rglob("*.part")})


def assert_cleaned_up(root: Path) -> None:
    """Open the vault, write once, close; raise AssertionError if a temporary file remains."""
    with Vault(root) as vault:
        vault.remove(vault.add("The next start.", "/next-start").path)
    assert temporary_files_left(root) == []


def put(vault: Vault, path: str, text: str | bytes) -> Memory:
    """Write a file directly, as an editor does, and read it through memfs."""
    file = vault.root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return vault.read(path)


def data_by_path(vault: Vault, *, archived: bool = False) -> dict[str, bytes]:
    """Return the bytes of every memory, by path."""
    return {memory.path: memory.data for memory in vault.list(archived=archived)}


def bodies(vault: Vault, namespace: str = "/") -> list[str]:
    """Return the bodies of the memories in a namespace, sorted."""
    return sorted(memory.body.strip() for memory in vault.list(namespace))


def paths(vault: Vault, question: str, **options: Any) -> list[str]:
    """Return the paths of the hits of a question, best first."""
    return [hit.memory.path for hit in vault.search(question, **options)]
