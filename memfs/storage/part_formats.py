"""Format numbers of the parts of `.memfs`, kept in `.memfs/formats.json`.

A part with an older number is read, or rebuilt from the files. A part with a newer number belongs to a later memfs:
it is neither read nor written, and a warning or an error names it. The index and the state of a hub have their number
in their own first line. A state directory without `formats.json` was written by version 0.9: all numbers are 1.
"""

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import suppress

from memfs.errors import MemfsError, NewerSchemaError
from memfs.fs.files import STATE_DIR, open_directory, read, write

FORMATS_FILE = "formats.json"
FORMATS = {  # part -> the number that this version reads and writes
    "failed": 1,
    "history": 1,
    "journal": 1,
    "pending": 1,
    "text-vectors": 1,
    "usage": 1,
    "vectors": 1,
}
log = logging.getLogger("memfs")
_logged: set[tuple[str, int]] = set()  # part and number of each warning


def record_formats(directory: int) -> None:
    """Write the numbers of this version into a state directory that has none. Errors are ignored."""
    with suppress(OSError):
        write(directory, FORMATS_FILE, json.dumps(FORMATS, indent=1).encode() + b"\n", durable=False)


def check_format(root: int, part: str, segments: tuple[str, ...] = (STATE_DIR,)) -> None:
    """Raise NewerSchemaError if a later memfs wrote this part; `segments` are the directory of part and numbers."""
    found = _read_numbers(root, segments).get(part, 1)
    if found > FORMATS[part]:
        raise NewerSchemaError("/".join((*segments, part)), found, FORMATS[part])


def format_check(part: str, *segments: str) -> Callable[[int], None]:
    """Return `check_format` of one part, as a function of the root."""
    return lambda root: check_format(root, part, segments or (STATE_DIR,))


def newer_parts(root: int) -> Iterator[NewerSchemaError]:
    """Yield an error for each part of `.memfs` that a later memfs wrote."""
    for part in FORMATS:
        try:
            check_format(root, part)
        except NewerSchemaError as error:
            yield error


def log_once(error: NewerSchemaError, consequence: str) -> None:
    """Log that a part cannot be used, and the consequence, once per process."""
    if (error.place, error.found) not in _logged:
        _logged.add((error.place, error.found))
        log.warning("%s; %s. %s", error, consequence, error.hint)


def _read_numbers(root: int, segments: tuple[str, ...]) -> dict[str, int]:
    """Return the recorded numbers; a missing or damaged file counts as that of version 0.9."""
    try:
        with open_directory(root, segments) as directory:
            numbers = json.loads(read(directory, FORMATS_FILE).data)
    except (OSError, MemfsError, ValueError, RecursionError):
        return {}
    return {part: number for part, number in numbers.items() if type(number) is int} if type(numbers) is dict else {}
