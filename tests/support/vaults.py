"""The traces that writes leave in a vault: kept versions and temporary files."""

from pathlib import Path

from memfs import Vault


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
