"""The Vault class, the entry point of the core, with scopes, settings and checks."""

from typing import TYPE_CHECKING

from memfs.lazy_imports import lazy_attributes

if TYPE_CHECKING:
    from memfs.vault.vault import Vault

__all__ = ["Vault"]

__getattr__, __dir__ = lazy_attributes(__name__, {"Vault": "vault"})
