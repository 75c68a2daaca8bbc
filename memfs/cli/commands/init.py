"""The command `init`: make a vault in a directory."""

import argparse
import os
from pathlib import Path

from memfs.cli.output import count, print_json, safe_text
from memfs.cli.parser import usage_error, vault_option
from memfs.errors import StorageError, VaultNotFoundError
from memfs.fs.files import STATE_DIR
from memfs.vault.vault import Vault
from memfs.vault.vault_directory import FILES


def run_init(args: argparse.Namespace) -> int:
    """Make a vault in a directory, and print the files that were added."""
    if args.dir == "":
        raise usage_error("init", "the name of the directory is empty", "Leave it out to use the current directory.")
    root = Path(args.dir or args.vault or ".").expanduser()
    if root.exists() and not root.is_dir():
        error = StorageError(str(root), "is a file")
        error.hint = "Name a directory, new or existing."
        raise error
    _refuse_inside_another(root)
    before = {name for name in (*FILES, STATE_DIR) if (root / name).exists()}
    lacking = {name: lines for name in before - {STATE_DIR} if (lines := _missing_lines(root / name))}
    vault = Vault.init(root)
    added = [name for name in (*FILES, STATE_DIR) if name not in before]
    memories = len(vault.list())
    if args.json:
        print_json({"vault": str(vault.root), "added": added, "lacking": lacking, "memories": memories})
        return 0
    print(f"{safe_text(vault.root)} is a vault" + ("" if added else " already; nothing changed"))
    if added:
        print("added:", ", ".join(added).replace(STATE_DIR, f"{STATE_DIR}/"))
    for name, lines in sorted(lacking.items()):
        print(
            f"\n{name} exists and was not changed; these lines should be added:",
            *(f"  {line}" for line in lines),
            sep="\n",
        )
    _print_next_steps(str(args.dir or args.vault or ""), memories)
    return 0


def _refuse_inside_another(root: Path) -> None:
    """Raise a usage error inside another vault: every memory would belong to both."""
    try:
        outer = Vault.find(root)
    except VaultNotFoundError:
        return
    inside = Path(os.path.abspath(root)).relative_to(outer)
    if inside.parts:
        hint = f"It is the namespace /{inside.as_posix()} there; a separate vault must be outside."
        raise usage_error("init", f"{root} is in the vault {outer}", hint)


def _missing_lines(path: Path) -> list[str]:
    """Return the lines that a vault needs and a git file does not have."""
    if not path.name.startswith(".git"):
        return []
    present = {line.strip().strip("/") for line in path.read_text(encoding="utf-8", errors="replace").splitlines()}
    return [line for line in FILES[path.name].splitlines() if line.strip("/") not in present]


def _print_next_steps(vault: str, memories: int) -> None:
    option = f" {safe_text(vault_option(vault))}" if vault not in {"", "."} else ""
    print("\nnext:" if not memories else f"\nIt holds {count(memories, 'memory')} already. Next:")
    print(f"  memfs add 'Alice likes sushi with tuna.' --namespace /preferences/alice{option}")
    print(f"  memfs list{option}")
