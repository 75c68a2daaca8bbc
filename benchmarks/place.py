"""Where a run happens: its directory, and what is made once and used by several groups."""

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
from benchmarks.corpus import Question
from benchmarks.floors import Raw
from benchmarks.keyed import Keyed
from benchmarks.measure import Size
from memfs import Vault
from memfs.storage.stat_scan import COARSE_RACY_NS

STATE = ".memfs"
COMMITTED = 200_000  # memories that git takes in before one loses patience
SCRATCH = "scratch"  # the namespace for what a benchmark adds
_GIT = ["-c", "user.name=bench", "-c", "user.email=bench@localhost", "-c", "core.compression=0", "-c", "gc.auto=0"]
_GIT += ["-c", "core.bigFileThreshold=1"]  # which puts all objects into one file


def _mark(source: str) -> str:
    """What differs when a module does."""
    return f"{zlib.crc32(Path(__file__).with_name(source).read_bytes()):08x}"


def bytes_below(folder: Path, *, without: str = "") -> int:
    """The size of all files below a directory, but for one directory in it."""
    found = 0
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != without]
        found += sum(os.lstat(os.path.join(place, name)).st_size for name in names)
    return found


@dataclass(frozen=True)
class Place:
    """The size, a directory that is emptied after the run, and one that keeps vaults and peers for the next run."""

    size: Size
    folder: Path
    cache: Path
    peers: bool = True
    notes: list[str] = field(default_factory=list)  # what was left out, and why

    @cached_property
    def root(self) -> Path:
        """The vault of the corpus, committed to git if it is not too large, without what earlier runs left in it."""
        root = self._kept("vault", self._fill)
        shutil.rmtree(root / SCRATCH, ignore_errors=True)
        shutil.rmtree(root / STATE, ignore_errors=True)
        return root

    @cached_property
    def indexed(self) -> Path:
        """The same vault, with its index."""
        with Vault(self.root) as vault:
            vault.sync()
        return self.root

    @cached_property
    def raw(self) -> Path:
        """The index of tantivy by itself."""
        return self._kept("raw", lambda folder: Raw.build(self.root, folder), "floors.py")

    @cached_property
    def keyed(self) -> Path:
        """The same, with what filters need."""
        return self._kept("keyed", lambda folder: Keyed.build(self.root, folder), "keyed.py")

    @cached_property
    def questions(self) -> list[Question]:
        return corpus.questions(self.size.memories, self.size.questions)

    def cleared(self) -> None:
        """Take what was added to the vault out of it again."""
        shutil.rmtree(self.root / SCRATCH, ignore_errors=True)
        with Vault(self.root) as vault:
            vault.sync()

    def _kept(self, name: str, make: Callable[[Path], None], *sources: str) -> Path:
        """A directory that is made once for a corpus and what makes it; a half-made one is never taken."""
        folder = self.cache / f"{self.size.memories}-{_mark('corpus.py')}"
        folder.mkdir(parents=True, exist_ok=True)
        final = folder / "-".join([name, *map(_mark, sources)])
        part = final.with_suffix(".part")
        if not final.exists():
            shutil.rmtree(part, ignore_errors=True)
            make(part)
            part.rename(final)
        return final

    def _fill(self, root: Path) -> None:
        Vault.init(root).close()
        places = set()
        for sample in corpus.samples(self.size.memories):
            path = f"{root}/{sample.path}"
            place = path.rpartition("/")[0]
            if place not in places:
                os.makedirs(place)
                places.add(place)
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
            os.write(fd, sample.text.encode())
            os.close(fd)
        if shutil.which("git") and self.size.memories <= COMMITTED:
            for command in (["init", "-q"], [*_GIT, "add", "-A"], [*_GIT, "commit", "-qm", "corpus"]):
                subprocess.run(["git", *command], cwd=root, check=True)
        time.sleep(COARSE_RACY_NS / 1e9)  # files that changed a moment ago are read each time they are found
