"""Writing many memories at once: each directory is fsynced once per batch, and each item has its own result."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from memfs.data_types import Written
from memfs.errors import InvalidMemoryError, MemfsError
from memfs.fs.files import DirectorySync


def write_batch(items: Iterable[Any], write: Callable[[DirectorySync, Any], Written]) -> list[Written | MemfsError]:
    """Call `write` for each item and return its result or its MemfsError; an error does not stop the others."""
    sync, results = DirectorySync(batch=True), list[Written | MemfsError]()
    try:
        for item in items:
            try:
                results.append(write(sync, item))
            except MemfsError as error:
                results.append(error)
            except (TypeError, AttributeError) as error:  # an item of the wrong shape, perhaps from JSON
                results.append(InvalidMemoryError("item", str(error)))
    finally:
        sync.flush()
    return results


def check_item(item: Mapping[str, Any], required: str) -> Mapping[str, Any]:
    """Return an item of a batch. Raises InvalidMemoryError unless it is a mapping with the required argument."""
    if not isinstance(item, Mapping) or required not in item:
        raise InvalidMemoryError(required, "is missing in an item of the batch")
    return item
