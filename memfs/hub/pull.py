"""pull: what changed on a hub, taken into a vault. A file that changed here too is not overwritten."""

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import ExitStack

from memfs.fs.files import MAX_FILE_BYTES
from memfs.hub.apply import Taken, foretold, take, wants_bytes
from memfs.hub.local_files import locate, opened, prefix_of, read, survey, within
from memfs.hub.plan import Here, Step, astray, batches, moves, plan_pull
from memfs.hub.remote import Hub, There
from memfs.hub.report import HubReport, Progress, Tally
from memfs.hub.sync_state import Ancestor, Shared, remembered
from memfs.namespace import ARCHIVE, fold
from memfs.storage.stat_scan import is_memory
from memfs.vault.scope import is_below
from memfs.vault.vault import Vault

THREADS = 8  # that wait for the disk at the same time: what it makes durable together takes as long as one
_LISTS = {"create": "created", "replace": "updated", "remove": "removed"}


def pull(
    vault: Vault,
    hub: str | Hub,
    *,
    namespace: str | None = None,
    tenant: str | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> HubReport:
    """Take what changed on a hub, by its URL, below a namespace into a vault.

    Where a memory changed here too, the hub's version is put beside it. One that was removed there goes to `archive/`.
    """
    began, where = time.monotonic(), within(vault, namespace)
    prefix = prefix_of(where)
    with ExitStack() as stack:
        source = hub if isinstance(hub, Hub) else stack.enter_context(Hub(hub, tenant=tenant))
        root = stack.enter_context(opened(vault))
        status = source.status()
        known = stack.enter_context(remembered(root, status.hub))
        puller = Puller(vault, root, source, known, dry_run=dry_run)
        waiting = [key for key in known.place.unsettled if key.startswith(prefix)]
        if waiting or known.position(prefix) != status.seq:
            puller.run(prefix, status.seq, waiting, progress)
    seconds = time.monotonic() - began
    return puller.tally.report("pull", source.address, str(where), seconds=seconds, dry_run=dry_run)


class Puller:
    """One pull on its way."""

    def __init__(self, vault: Vault, root: int, hub: Hub, known: Ancestor, *, dry_run: bool) -> None:
        self._vault, self._root, self._hub, self._known, self._is_dry = vault, root, hub, known, dry_run
        self._unsettled: set[str] = set()
        self.tally = Tally()

    def run(self, prefix: str, until: int, waiting: Sequence[str], progress: Progress | None) -> None:
        """Take all changes up to a number."""
        shared = self._known.entries  # before the position, which a damaged log has none of
        after = self._known.position(prefix)
        rows = self._hub.changes(prefix, 0 if after > until else after, until, waiting)
        steps = self._plan([row for row in rows if self._is_sound(row)], shared)
        done = 0
        with ThreadPoolExecutor(THREADS, "memfs-pull") as pool:
            for batch in batches(steps, lambda step: step.row.size):
                self._run_batch(pool, batch)
                done += len(batch)
                if progress:
                    progress(done, len(steps))
        if not self._is_dry:
            self._known.arrive(prefix, until, self._unsettled)

    def _is_sound(self, row: There) -> bool:
        """Tell whether a vault may have sent a row; anybody may have written to the database."""
        fault = ""
        if not is_memory(row.path) or is_below(row.path.split("/"), ARCHIVE) or fold(row.path) != row.key:
            fault = "a path that no memory has"
        elif row.size > MAX_FILE_BYTES:
            fault = f"larger than {MAX_FILE_BYTES >> 20} MiB"
        if fault:
            self._leave(row, fault)
        return not fault

    def _plan(self, rows: list[There], shared: Mapping[str, Shared]) -> list[Step]:
        here: dict[str, Here] = {}
        for key, found in locate(self._root, {row.key: row.path for row in rows}, shared).items():
            if isinstance(found, Here):
                here[key] = found
            else:
                self.tally.problems.append(found)
                self._unsettled.add(key)
        rows = [row for row in rows if row.key not in self._unsettled]
        lost = astray(rows, shared, here)
        return plan_pull(rows, shared, here, self._strays(lost, shared) if lost else {})

    def _strays(self, lost: Sequence[There], shared: Mapping[str, Shared]) -> dict[str, Here]:
        """Where memories went that are not where they were, as they were or, after a pull that was killed, as taken."""
        paths = survey(self._root, self._vault.namespace).paths
        new = {path: key for key, path in paths.items() if key not in shared}
        found = {new[path]: here._replace(data=b"") for path, here in read(self._root, new) if isinstance(here, Here)}
        taken = {row.key: Shared(row.path, row.hash, row.id) for row in lost if row.hash}
        places = moves(taken, found) | moves({key: shared[key] for key in taken}, found)
        return {old: found[key] for old, key in places.items()}

    def _run_batch(self, pool: Executor, batch: list[Step]) -> None:
        """Take some memories, each namespace's by one thread, and remember what is done, also where one fails."""
        if self._is_dry:
            for step in batch:
                self._tell(foretold(step))
            return
        wanted = [step.row for step in batch if wants_bytes(step)]
        data = self._hub.fetch(wanted) if wanted else {}
        shared = self._known.entries

        def work(steps: list[Step]) -> list[Taken]:
            return [take(self._vault, step, data.get(step.row.key), shared) for step in steps]

        futures = [pool.submit(work, steps) for steps in _by_namespace(batch)]
        errors = [error for error in map(Future.exception, futures) if error]
        taken = [one for future in futures if not future.exception() for one in future.result()]
        self._known.note(note for one in taken for note in one.notes.items())
        for one in taken:
            self._tell(one)
        if errors:
            raise errors[0]

    def _leave(self, row: There, reason: str) -> None:
        self.tally.problem(row.path, f"not taken from the hub: {reason}")
        self._unsettled.add(row.key)

    def _tell(self, taken: Taken) -> None:
        step = taken.step
        path = step.here.path if step.here else step.row.path
        if taken.is_late:
            return
        if taken.fault:
            self._leave(step.row, taken.fault)
            return
        if step.kind == "move":
            self.tally.moved.append((path, step.row.path))
        elif step.kind in _LISTS:
            getattr(self.tally, _LISTS[step.kind]).append(path)
        elif step.kind == "note" and step.here:
            self.tally.unchanged += 1
        if step.conflict:
            where = step.row.path if step.kind == "move" else path
            self.tally.conflict(where, step.conflict, taken.copy if "copy" in {step.kind, step.then} else "")


def _by_namespace(steps: Sequence[Step]) -> list[list[Step]]:
    groups: dict[str, list[Step]] = {}
    for step in steps:
        groups.setdefault(step.row.path.rpartition("/")[0], []).append(step)
    return list(groups.values())
