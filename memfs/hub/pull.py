"""pull: receive the changes of a hub. A file that changed in the vault too is not overwritten."""

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import ExitStack

from memfs.fs.files import MAX_FILE_BYTES
from memfs.hub.apply import StepResult, apply_step, needs_content, preview_step
from memfs.hub.local_files import (
    find_files,
    key_prefix,
    list_files,
    mirrored_namespace,
    open_vault_root,
    read_files,
)
from memfs.hub.plan import LocalFile, PullStep, batches, match_moves, plan_pull, possibly_moved_rows
from memfs.hub.remote import Hub, RemoteFile
from memfs.hub.report import HubReport, Progress, ReportBuilder
from memfs.hub.sync_state import SyncedFile, SyncState, open_sync_state
from memfs.namespace import ARCHIVE, fold
from memfs.storage.stat_scan import is_memory
from memfs.vault.scope import has_first_segment
from memfs.vault.vault import Vault

THREADS = 8  # that wait for fsync at the same time: the disk flushes several files in about the time of one
_REPORT_LISTS = {"create": "created", "replace": "updated", "remove": "removed"}  # kind of a step -> list of the report


def pull(
    vault: Vault,
    hub: str | Hub,
    *,
    namespace: str | None = None,
    tenant: str | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> HubReport:
    """Apply the changes of a hub below a namespace to a vault. `tenant` is used only if `hub` is a URL.

    If a memory changed here too, the hub's version is written beside it. A memory that was removed on the hub is moved
    to `archive/`. `progress` is called with the numbers of steps done and in total.
    """
    began, scope = time.monotonic(), mirrored_namespace(vault, namespace)
    prefix = key_prefix(scope)
    with ExitStack() as stack:
        source = hub if isinstance(hub, Hub) else stack.enter_context(Hub(hub, tenant=tenant))
        root = stack.enter_context(open_vault_root(vault))
        status = source.status()
        state = stack.enter_context(open_sync_state(root, status.hub))
        puller = Puller(vault, root, source, state, dry_run=dry_run)
        pending = [key for key in state.position.pending if key.startswith(prefix)]
        if pending or state.last_seq(prefix) != status.seq:
            puller.run(prefix, status.seq, pending, progress)
    seconds = time.monotonic() - began
    return puller.builder.build("pull", source.address, str(scope), seconds=seconds, dry_run=dry_run)


class Puller:
    """One running pull."""

    def __init__(self, vault: Vault, root: int, hub: Hub, state: SyncState, *, dry_run: bool) -> None:
        self._vault, self._root, self._hub, self._state, self._is_dry = vault, root, hub, state, dry_run
        self._pending: set[str] = set()  # keys that the next pull tries again
        self.builder = ReportBuilder()

    def run(self, prefix: str, until: int, pending: Sequence[str], progress: Progress | None) -> None:
        """Apply all changes below a key prefix up to the change number `until`, and retry the pending keys."""
        synced = self._state.entries  # read first: a damaged log also resets the position
        after = self._state.last_seq(prefix)
        after = 0 if after > until else after  # the hub was restored from a backup: compare everything
        rows = self._hub.changes(prefix, after, until, pending)
        steps = self._plan([row for row in rows if self._is_valid(row)], synced)
        done = 0
        with ThreadPoolExecutor(THREADS, "memfs-pull") as pool:
            for batch in batches(steps, lambda step: step.row.size):
                self._run_batch(pool, batch)
                done += len(batch)
                if progress:
                    progress(done, len(steps))
        if not self._is_dry:
            self._state.record_pull(prefix, until, self._pending)

    def _is_valid(self, row: RemoteFile) -> bool:
        """Return whether a vault can have sent a row: other programs may write to the database. If not, report it."""
        fault = ""
        if not is_memory(row.path) or has_first_segment(row.path.split("/"), ARCHIVE) or fold(row.path) != row.key:
            fault = "its path is not the path of a memory"
        elif row.size > MAX_FILE_BYTES:
            fault = f"larger than {MAX_FILE_BYTES >> 20} MiB"
        if fault:
            self._skip(row, fault)
        return not fault

    def _plan(self, rows: list[RemoteFile], synced: Mapping[str, SyncedFile]) -> list[PullStep]:
        """Return the steps for some rows. Report local files that cannot be read, and leave their keys pending."""
        local: dict[str, LocalFile] = {}
        for key, found in find_files(self._root, {row.key: row.path for row in rows}, synced).items():
            if isinstance(found, LocalFile):
                local[key] = found
            else:
                self.builder.problems.append(found)
                self._pending.add(key)
        rows = [row for row in rows if row.key not in self._pending]
        missing = possibly_moved_rows(rows, synced, local)
        return plan_pull(rows, synced, local, self._find_moved(missing, synced) if missing else {})

    def _find_moved(self, missing: Sequence[RemoteFile], synced: Mapping[str, SyncedFile]) -> dict[str, LocalFile]:
        """Return the files that were moved in the vault, by old key.

        They are matched with the synced version, and with the hub's version, which an interrupted pull may have written
        already.
        """
        paths = list_files(self._root, self._vault.namespace).paths
        new = {path: key for key, path in paths.items() if key not in synced}
        new_files = read_files(self._root, new)
        found = {new[path]: file._replace(data=b"") for path, file in new_files if isinstance(file, LocalFile)}
        pulled = {row.key: SyncedFile(row.path, row.hash, row.id) for row in missing if row.hash}
        moved = match_moves(pulled, found) | match_moves({key: synced[key] for key in pulled}, found)
        return {old: found[key] for old, key in moved.items()}

    def _run_batch(self, pool: Executor, batch: list[PullStep]) -> None:
        """Apply some steps, the namespaces in parallel. If one raises, record the other namespaces, and raise it."""
        if self._is_dry:
            for step in batch:
                self._report(preview_step(step))
            return
        wanted = [step.row for step in batch if needs_content(step)]
        data = self._hub.fetch(wanted) if wanted else {}
        synced = self._state.entries

        def work(steps: list[PullStep]) -> list[StepResult]:
            return [apply_step(self._vault, step, data.get(step.row.key), synced) for step in steps]

        futures = [pool.submit(work, steps) for steps in _by_namespace(batch)]
        errors = [error for error in map(Future.exception, futures) if error]
        results = [result for future in futures if not future.exception() for result in future.result()]
        self._state.record(item for result in results for item in result.synced.items())
        for result in results:
            self._report(result)
        if errors:
            raise errors[0]

    def _skip(self, row: RemoteFile, reason: str) -> None:
        self.builder.add_problem(row.path, f"not pulled: {reason}")
        self._pending.add(row.key)

    def _report(self, result: StepResult) -> None:
        step = result.step
        path = step.file.path if step.file else step.row.path
        if result.is_outdated:
            return
        if result.fault:
            self._skip(step.row, result.fault)
            return
        if step.kind == "move":
            self.builder.moved.append((path, step.row.path))
        elif step.kind in _REPORT_LISTS:
            getattr(self.builder, _REPORT_LISTS[step.kind]).append(path)
        elif step.kind == "record" and step.file:
            self.builder.unchanged += 1
        if step.conflict:
            current_path = step.row.path if step.kind == "move" else path
            self.builder.add_conflict(
                current_path, step.conflict, result.copy if "copy" in {step.kind, step.then} else ""
            )


def _by_namespace(steps: Sequence[PullStep]) -> list[list[PullStep]]:
    groups: dict[str, list[PullStep]] = {}
    for step in steps:
        groups.setdefault(step.row.path.rpartition("/")[0], []).append(step)
    return list(groups.values())
