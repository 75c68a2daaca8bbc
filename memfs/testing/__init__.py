"""Tests for programs that use memfs: the contract of a keyed store, and pytest fixtures."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memfs.testing.contract import StoreContract

__all__ = ["StoreContract"]


def __getattr__(name: str) -> Any:
    """Import a public name on first use, because pytest loads this package at every start."""
    if name not in __all__:
        raise AttributeError(f"module 'memfs.testing' has no attribute {name!r}")
    import pytest

    pytest.register_assert_rewrite("memfs.testing.contract")  # for detailed messages of failed assertions
    from memfs.testing.contract import StoreContract

    globals()[name] = StoreContract
    return StoreContract


def __dir__() -> list[str]:
    return [*__all__]
