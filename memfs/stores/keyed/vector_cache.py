"""VectorCache: vectors of texts by the hash of the text, a file for each model. All of it can be made again."""

import os
import struct
import threading
import zlib
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memfs.errors import InvalidSetupError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]

HASH = 32  # bytes
MAX_NUMBERS = 100_000  # of a vector
_HEAD = struct.Struct("<II")  # checksum, numbers of the vector


def content_hash(text: str) -> bytes:
    """What a text is known by."""
    return sha256(text.encode()).digest()


class VectorCache:
    """Vectors by the hash of their text. A file is only ever appended to, or replaced; what is torn is left out."""

    def __init__(self, folder: str | os.PathLike[str], model: str) -> None:
        self._file = Path(folder) / f"{sha256(model.encode()).hexdigest()[:16]}.vectors"
        try:
            os.makedirs(folder, exist_ok=True)
            with suppress(FileExistsError), open(Path(folder) / ".gitignore", "x", encoding="utf-8") as ignore:
                ignore.write("*\n")
        except OSError as error:
            raise InvalidSetupError("cache", f"{str(folder)!r}: {error.strerror}") from None
        self._seen = 0  # bytes of the file that were read
        self._vectors: dict[bytes, Any] = {}

    def find(self, hashes: Iterable[bytes]) -> dict[bytes, "Vectors"]:
        """The vectors that are there, also those that others have added meanwhile."""
        self._read()
        return {one: self._vectors[one] for one in hashes if one in self._vectors}

    def keep(self, made: Mapping[bytes, "Vectors"]) -> None:
        """Append vectors; a disk that takes none costs time, nothing else."""
        data = b"".join(_packed(one, vector.tobytes()) for one, vector in made.items())
        with suppress(OSError):
            fd = os.open(self._file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                os.write(fd, data)  # one call: others append too
            finally:
                os.close(fd)

    def drop(self, gone: Collection[bytes]) -> None:
        """Write the file anew without some vectors."""
        self._read()
        self._write({one: vector for one, vector in self._vectors.items() if one not in gone})

    def _write(self, kept: "Mapping[bytes, Vectors]") -> None:
        """Replace the file."""
        beside = self._file.with_name(f".{self._file.name}.{os.getpid()}-{threading.get_ident()}")
        with suppress(OSError):
            beside.write_bytes(b"".join(_packed(one, vector.tobytes()) for one, vector in kept.items()))
            os.replace(beside, self._file)
        self._vectors, self._seen = dict(kept), sum(_HEAD.size + HASH + vector.nbytes for vector in kept.values())

    def _read(self) -> None:
        """Read what was appended since; all of a file that was replaced by a shorter one."""
        try:
            with open(self._file, "rb") as file:
                if os.fstat(file.fileno()).st_size < self._seen:
                    self._vectors, self._seen = {}, 0
                file.seek(self._seen)
                data = file.read()
        except OSError:
            return
        is_first, (at, is_whole) = not self._seen, self._take(data)
        self._seen += at
        if not is_whole or (is_first and at < len(data)):  # else somebody may be writing the rest just now
            self._write(self._vectors)

    def _take(self, data: bytes) -> tuple[int, bool]:
        """Take in records; answers how many bytes of them could be read, and whether what follows may become one."""
        import numpy as np

        at = 0
        while at + _HEAD.size <= len(data):
            checksum, numbers = _HEAD.unpack_from(data, at)
            end = at + _HEAD.size + HASH + 4 * numbers
            if end > len(data):
                return at, numbers <= MAX_NUMBERS
            record = data[at + _HEAD.size : end]
            if zlib.crc32(record) != checksum:
                return at, False
            self._vectors[record[:HASH]] = np.frombuffer(record, np.float32, offset=HASH)
            at = end
        return at, True


def _packed(one: bytes, vector: bytes) -> bytes:
    return _HEAD.pack(zlib.crc32(one + vector), len(vector) // 4) + one + vector
