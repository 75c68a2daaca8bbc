"""Run by the environment of markdown-vault-mcp: its library, an index on disk, keyword search."""

import importlib
import sys
from pathlib import Path

from benchmarks.serving import HIT_LIMIT, serve

vaults = importlib.import_module("markdown_vault_mcp.vault")


def main(root: str, state: str) -> None:
    """Index the files of a vault, and search them."""
    settings = vaults.VaultSettings(index_path=Path(state) / "index.db")
    vault = vaults.Vault(source_dir=Path(root), settings=settings)
    try:
        serve(
            vault.index.build_index,
            lambda words: [found.path for found in vault.reader.search(words, limit=HIT_LIMIT, mode="keyword")],
        )
    finally:
        vault.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
