"""One run of the benchmarks: its directories, and data that is built once and used by several groups."""

import os
import shutil
import subprocess
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from benchmarks import corpus
from benchmarks.baselines import PlainTantivy
from benchmarks.corpus import Question
from benchmarks.filter_index import FilterIndex
from benchmarks.measure import Size
from memfs import Vault
from memfs.storage.stat_scan import COARSE_RACY_NS

STATE = ".memfs"
MAX_COMMITTED = 200_000  # memories; git is too slow for more
SCRATCH = "scratch"  # namespace of memories that benchmarks add
_GIT = ["-c", "user.name=bench", "-c", "user.email=bench@localhost", "-c", "core.compression=0", "-c", "gc.auto=0"]
_GIT += ["-c", "core.bigFileThreshold=1"]  # puts all objects into one file


def _source_hash(source: str) -> str:
    """Return a checksum of a module's source."""
    return f"{zlib.crc32(Path(__file__).with_name(source).read_bytes()):08x}"


def bytes_below(folder: Path, *, without: str = "") -> int:
    """Return the size of all files below a directory, without one directory in it."""
    found = 0
    for directory, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != without]
        found += sum(os.lstat(os.path.join(directory, name)).st_size for name in names)
    return found


@dataclass(frozen=True)
class BenchRun:
    """One run: its size, a temporary directory, and a cache directory that keeps vaults and peers for the next run."""

    size: Size
    folder: Path
    cache: Path
    peers: bool = True
    notes: list[str] = field(default_factory=list)  # skipped rows, with the reason

    @cached_property
    def root(self) -> Path:
        """Return the vault of the corpus, committed to git if it is not too large, without data of earlier runs."""
        root = self._cached("vault", self._fill)
        shutil.rmtree(root / SCRATCH, ignore_errors=True)
        shutil.rmtree(root / STATE, ignore_errors=True)
        return root

    @cached_property
    def indexed(self) -> Path:
        """Return the same vault, with its index."""
        with Vault(self.root) as vault:
            vault.sync()
        return self.root

    @cached_property
    def raw(self) -> Path:
        """Return the index of tantivy alone."""
        return self._cached("raw", lambda folder: PlainTantivy.build(self.root, folder), "baselines.py")

    @cached_property
    def filter_index(self) -> Path:
        """Return the index of tantivy alone with the fields for filters."""
        return self._cached("filter_index", lambda folder: FilterIndex.build(self.root, folder), "filter_index.py")

    @cached_property
    def questions(self) -> list[Question]:
        return corpus.questions(self.size.memories, self.size.questions)

    def clear_scratch(self) -> None:
        """Remove the memories that benchmarks added to the vault."""
        shutil.rmtree(self.root / SCRATCH, ignore_errors=True)
        with Vault(self.root) as vault:
            vault.sync()

    def _cached(self, name: str, make: Callable[[Path], None], *sources: str) -> Path:
        """Return a directory that is built once per corpus and builder source; an incomplete one is never used."""
        folder = self.cache / f"{self.size.memories}-{_source_hash('corpus.py')}"
        folder.mkdir(parents=True, exist_ok=True)
        final = folder / "-".join([name, *map(_source_hash, sources)])
        part = final.with_suffix(".part")
        if not final.exists():
            shutil.rmtree(part, ignore_errors=True)
            make(part)
            part.rename(final)
        return final

    def _fill(self, root: Path) -> None:
        Vault.init(root).close()
        directories = set()
        for sample in corpus.samples(self.size.memories):
            path = f"{root}/{sample.path}"
            directory = path.rpartition("/")[0]
            if directory not in directories:
                os.makedirs(directory)
                directories.add(directory)
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
            os.write(fd, sample.text.encode())
            os.close(fd)
        if shutil.which("git") and self.size.memories <= MAX_COMMITTED:
            for command in (["init", "-q"], [*_GIT, "add", "-A"], [*_GIT, "commit", "-qm", "corpus"]):
                subprocess.run(["git", *command], cwd=root, check=True)
        time.sleep(COARSE_RACY_NS / 1e9)  # files with a racy stamp are read on every scan
