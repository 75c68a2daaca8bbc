"""Build the JSON of the command line's `--json` (and of any other interface that returns the same objects).

Each `*_json` function returns a dict that `dump_json` can serialise; keys and their order are part of the interface.
Values of packages above this module (stats, triples, faded memories) are read by attribute.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from datetime import UTC, date, datetime
from typing import Any

from memfs.data_types import Change, Hit, IndexStatus, Memory, Problem, Reason, SyncReport, Version, Written

UNSAFE_CHARACTERS = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_PROBLEM_KEYS = ("path", "line", "reason", "key", "value", "hint")
_TRIPLE_KEYS = ("subject", "relation", "object", "line", "note", "target", "since", "until", "in_force")

JsonObject = dict[str, Any]


# --- values -------------------------------------------------------------------------------------------


def dump_json(value: Any, *, ascii_only: bool = False) -> str:
    """Return a value as JSON text in which control and direction characters are escaped."""
    text = json.dumps(value, default=_to_jsonable, ensure_ascii=ascii_only)
    return UNSAFE_CHARACTERS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _to_jsonable(value: Any) -> Any:
    if isinstance(value, date):
        return format_time(value)
    return dict(value) if isinstance(value, Mapping) else str(value)


def format_time(moment: date) -> str:
    """Return a date or a time as memfs writes it: ISO 8601, times in UTC with a Z."""
    if isinstance(moment, datetime):
        return moment.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"
    return moment.isoformat()


def error_json(message: str, hint: str, exit_code: int) -> JsonObject:
    """Return an error of a command."""
    return {"error": message, "hint": hint, "exit_code": exit_code}


# --- memories -----------------------------------------------------------------------------------------


def memory_json(memory: Memory) -> JsonObject:
    """Return a memory as a listing shows it: without header and body."""
    header = memory.header
    return {
        "id": memory.id, "path": memory.path, "namespace": str(memory.namespace), "type": header.type,
        "title": memory.title, "tags": header.tags, "importance": header.importance,
        "created": memory.created, "updated": memory.updated, "stamp": str(memory.stamp),
    }  # fmt: skip


def memory_content_json(memory: Memory) -> JsonObject:
    """Return a memory with its header, body and problems."""
    return {
        "id": memory.id, "path": memory.path, "namespace": str(memory.namespace), "header": memory.header.values,
        "title": memory.title, "body": memory.body, "stamp": str(memory.stamp),
        "problems": problems_json(memory.problems),
    }  # fmt: skip


def version_json(version: Version, *, current: bool) -> JsonObject:
    """Return a kept version; `current` is whether the file has this content now."""
    return {"hash": version.hash, "time": version.time, "size": version.size, "current": current}


def written_json(written: Written) -> JsonObject:
    """Return the result of a write."""
    stamp = str(written.stamp) if written.stamp else None
    return {"id": written.id, "path": written.path, "outcome": written.outcome, "stamp": stamp}


def change_json(change: Change, memory_id: str | None, time: datetime) -> JsonObject:
    """Return a change event; the id is None if the memory cannot be read any more."""
    return {
        "kind": change.kind, "path": change.path, "old_path": change.old_path, "id": memory_id, "time": time,
    }  # fmt: skip


# --- search -------------------------------------------------------------------------------------------


def hit_json(hit: Hit, *, why: bool) -> JsonObject:
    """Return a hit: the keys of a listing, the scores and the snippet, and with `why` the reasons."""
    result = memory_json(hit.memory) | {
        "date": hit.date, "relevance": hit.relevance, "rank": hit.rank, "snippet": hit.snippet, "marks": hit.marks,
    }  # fmt: skip
    return result | {"why": reasons_json(hit.why)} if why else result


def reasons_json(reasons: Iterable[Reason]) -> list[JsonObject]:
    """Return the reasons why a memory was found, or was not."""
    return [{"text": reason.text, "score": reason.score} for reason in reasons]


def explain_miss_json(memory: Memory, question: str, reasons: Iterable[Reason]) -> JsonObject:
    """Return why a search does or does not return a memory."""
    return {"id": memory.id, "path": memory.path, "question": question, "reasons": reasons_json(reasons)}


# --- health -------------------------------------------------------------------------------------------


def problems_json(problems: Iterable[Problem]) -> list[JsonObject]:
    """Return problems in files, each with its place."""
    return [{key: getattr(problem, key) for key in _PROBLEM_KEYS} for problem in problems]


def check_json(memories: int, archived: int, problems: Iterable[Problem], orphans: int) -> JsonObject:
    """Return the result of a check: numbers of memories, archived memories and orphans, and the problems."""
    return {"memories": memories, "archived": archived, "problems": problems_json(problems), "orphans": orphans}


def doctor_json(found: Sequence[Problem], remaining: Sequence[Problem], file_problems: int) -> JsonObject:
    """Return the index problems found and remaining after a repair, and the number of problems in files."""
    return {
        "found": problems_json(found), "mended": max(len(found) - len(remaining), 0),
        "left": problems_json(remaining), "problems": file_problems,
    }  # fmt: skip


def sync_report_json(report: SyncReport) -> JsonObject:
    """Return what a sync changed in the index."""
    return {
        "memories": report.memories, "added": report.added, "updated": report.updated, "removed": report.removed,
        "unchanged": report.unchanged, "seconds": round(report.seconds, 6),
        "problems": problems_json(report.problems),
    }  # fmt: skip


def status_json(root: object, status: IndexStatus) -> JsonObject:
    """Return the state of the index of the vault at `root`."""
    return {"root": root} | {field.name: getattr(status, field.name) for field in fields(status)}


# --- links and decay ----------------------------------------------------------------------------------


def triple_json(triple: object) -> JsonObject:
    """Return a link as a triple (memfs.upkeep.link_graph.Triple)."""
    return {key: getattr(triple, key) for key in _TRIPLE_KEYS}


def faded_json(faded: Any) -> JsonObject:
    """Return a memory with its retention and recalls (memfs.upkeep.pruning.MemoryRetention)."""
    last_recall = _time_of(faded.recalls.last) if faded.recalls.times else None
    return memory_json(faded.memory) | {
        "retention": faded.retention, "recalls": faded.recalls.times, "last_recall": last_recall,
    }  # fmt: skip


def prune_json(found: Iterable[Any], below: float, archived: Mapping[str, str], *, moved: bool) -> JsonObject:
    """Return the faded memories; `archived` maps the ids of those that were moved to the archive to their new paths."""
    memories = [
        faded_json(one) | {"spared": one.spared, "archived": archived.get(one.memory.id)} for one in found
    ]  # fmt: skip
    return {"below": below, "moved": moved, "memories": memories}


def stats_json(root: str, namespace: str, stats: Any) -> JsonObject:
    """Return the figures of a vault or a namespace (memfs.upkeep.stats.Stats)."""
    searches, rules = stats.searches, stats.forgetting
    return {
        "root": root, "namespace": namespace,
        "memories": stats.memories, "archived": stats.archived, "bytes": stats.size,
        "namespaces": stats.namespaces, "types": stats.types, "statuses": stats.statuses,
        "oldest": _dated_json(stats.oldest, "created"), "newest": _dated_json(stats.newest, "updated"),
        "retention": {
            "enabled": rules.enabled, "half_life_days": rules.half_life_days, "prune_below": rules.prune_below,
            "mean": stats.mean_retention, "pinned": stats.pinned, "bins": [one._asdict() for one in stats.retention],
        },
        "recalls": {
            "memories": stats.recalled, "never": stats.memories - stats.recalled, "times": stats.recalls,
            "most": [faded_json(one) for one in stats.most_recalled],
        },
        "searches": {
            "total": searches.searches, "found": searches.found, "ratio": searches.share,
            "since": _time_of(searches.since) if searches.searches else None,
        },
    }  # fmt: skip


def _dated_json(memory: Memory | None, key: str) -> JsonObject | None:
    return {"path": memory.path, key: getattr(memory, key)} if memory else None


def _time_of(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
