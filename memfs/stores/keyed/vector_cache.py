"""VectorCache: embeddings by the hash of their text, in one file per model. All of it can be computed again."""

import os
import struct
import threading
import zlib
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memfs.errors import InvalidSetupError, NewerSchemaError
from memfs.fs.files import STATE_DIR, open_root
from memfs.storage.part_formats import check_format, log_once

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]

HASH_BYTES = 32
MAX_DIMENSIONS = 100_000  # of a vector; a record with more is damaged
_RECORD_HEADER = struct.Struct("<II")  # checksum, dimensions of the vector


def content_hash(text: str) -> bytes:
    """Return the SHA-256 of a text, which identifies it."""
    return sha256(text.encode()).digest()


def _has_known_format(directory: Path) -> bool:
    """Return whether this version can read the cache. Only a cache in `.memfs` of a vault has a format number."""
    if directory.parent.name != STATE_DIR:
        return True
    root = open_root(directory.parent.parent)
    try:
        check_format(root, directory.name)
    except NewerSchemaError as error:
        log_once(error, "vectors are computed again in each process")
        return False
    finally:
        os.close(root)
    return True


class VectorCache:
    """Vectors by the hash of their text. The file is only appended to or replaced; torn records are dropped."""

    def __init__(self, directory: str | os.PathLike[str], model: str) -> None:
        self._file = Path(directory) / f"{sha256(model.encode()).hexdigest()[:16]}.vectors"
        try:
            os.makedirs(directory, exist_ok=True)
            with suppress(FileExistsError), open(Path(directory) / ".gitignore", "x", encoding="utf-8") as ignore:
                ignore.write("*\n")
        except OSError as error:
            raise InvalidSetupError("cache", f"{str(directory)!r}: {error.strerror}") from None
        self._is_usable = _has_known_format(Path(directory))  # otherwise all methods do nothing
        self._offset = 0  # bytes of the file that were read
        self._vectors: dict[bytes, Any] = {}

    def find(self, hashes: Iterable[bytes]) -> dict[bytes, "Vectors"]:
        """Return the cached vectors of some hashes, including those that other processes appended."""
        self._read()
        return {key: self._vectors[key] for key in hashes if key in self._vectors}

    def append(self, vectors: Mapping[bytes, "Vectors"]) -> None:
        """Append vectors. A failed write is ignored: the vectors are computed again."""
        if not self._is_usable:
            return
        data = b"".join(_pack(key, vector.tobytes()) for key, vector in vectors.items())
        with suppress(OSError):
            fd = os.open(self._file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                os.write(fd, data)  # one call: other processes append too
            finally:
                os.close(fd)

    def remove(self, hashes: Collection[bytes]) -> None:
        """Replace the file by one without some vectors. A failed write is ignored."""
        if not self._is_usable:
            return
        self._read()
        self._replace({key: vector for key, vector in self._vectors.items() if key not in hashes})

    def _replace(self, vectors: "Mapping[bytes, Vectors]") -> None:
        temporary = self._file.with_name(f".{self._file.name}.{os.getpid()}-{threading.get_ident()}")
        with suppress(OSError):
            temporary.write_bytes(b"".join(_pack(key, vector.tobytes()) for key, vector in vectors.items()))
            os.replace(temporary, self._file)
        self._vectors = dict(vectors)
        self._offset = sum(_RECORD_HEADER.size + HASH_BYTES + vector.nbytes for vector in vectors.values())

    def _read(self) -> None:
        """Read the appended records; the whole file if it was replaced by a shorter one. Repair a damaged file."""
        if not self._is_usable:
            return
        try:
            with open(self._file, "rb") as file:
                if os.fstat(file.fileno()).st_size < self._offset:
                    self._vectors, self._offset = {}, 0
                file.seek(self._offset)
                data = file.read()
        except OSError:
            return
        is_first, (size, is_sound) = not self._offset, self._parse(data)
        self._offset += size
        if not is_sound or (is_first and size < len(data)):  # otherwise a writer may be writing the rest right now
            self._replace(self._vectors)

    def _parse(self, data: bytes) -> tuple[int, bool]:
        """Parse records. Return the number of bytes parsed, and whether the rest may be the start of a record."""
        import numpy as np

        offset = 0
        while offset + _RECORD_HEADER.size <= len(data):
            checksum, dimensions = _RECORD_HEADER.unpack_from(data, offset)
            end = offset + _RECORD_HEADER.size + HASH_BYTES + 4 * dimensions
            if end > len(data):
                return offset, dimensions <= MAX_DIMENSIONS
            record = data[offset + _RECORD_HEADER.size : end]
            if zlib.crc32(record) != checksum:
                return offset, False
            self._vectors[record[:HASH_BYTES]] = np.frombuffer(record, np.float32, offset=HASH_BYTES)
            offset = end
        return offset, True


def _pack(key: bytes, vector: bytes) -> bytes:
    return _RECORD_HEADER.pack(zlib.crc32(key + vector), len(vector) // 4) + key + vector
