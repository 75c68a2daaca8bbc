"""For tests of programs that use memfs: the contract of a store, and pytest fixtures."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memfs.testing.contract import StoreContract

__all__ = ["StoreContract"]


def __getattr__(name: str) -> Any:
    """Import a public name when it is asked for: pytest loads this package at every start."""
    if name not in __all__:
        raise AttributeError(f"module 'memfs.testing' has no attribute {name!r}")
    import pytest

    pytest.register_assert_rewrite("memfs.testing.contract")  # so that what fails says by what
    from memfs.testing.contract import StoreContract

    globals()[name] = StoreContract
    return StoreContract


def __dir__() -> list[str]:
    return [*__all__]
