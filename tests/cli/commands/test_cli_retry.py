"""`memfs retry`: failed batches, and pending logs of agents that are gone."""

import re
from pathlib import Path

import pytest
from support.agents import say
from support.commands import Memfs
from support.files import Snapshot
from support.messages import user
from support.pending import crash, facts_in, log_of, state_dir, turn

from memfs import Vault
from memfs.agent import MemoryManager
from memfs.agent.extraction_queue.failed_batches import drop, keep_failed, list_failed
from memfs.agent.extraction_queue.pending_log import PendingSummary, list_pending

ALICE = "facts:/facts/alice"


@pytest.fixture
def garden(example: Path) -> Vault:
    return Vault(example)


def failed(vault: Vault, *texts: str) -> list[str]:
    return [keep_failed(vault.root, ALICE, "no JSON", [user(text)]).removesuffix(".json") for text in texts]


def left(vault: Vault, name: str = "7-aaaaaaaaaaaa/1", *stores: str) -> str:
    path = state_dir(vault) / f"{name}.jsonl"
    path.parent.mkdir(exist_ok=True)
    fact = {"fact": "k", "content": "tea", "stores": [ALICE], "metadata": None}
    mark = {"store": ALICE, "mark": 0}
    path.write_bytes(log_of(turn(0, "a"), turn(1, "b"), turn(2, "c"), mark, fact, stores=stores or [ALICE]))
    return name


def test_failed_batches_and_pending_logs_are_listed_separately(memfs: Memfs, garden: Vault) -> None:
    (name,) = failed(garden, "I drink tea")
    pending = left(garden, "7-aaaaaaaaaaaa/1", ALICE, "notes:/gone")

    lines = memfs("retry").out.splitlines()
    assert lines[0].split() == ["batch", "time", "store", "size", "reason"]
    assert re.fullmatch(rf"{name}  \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\dZ  {ALICE}  1 message  no JSON", lines[1])
    assert lines[4].split() == ["pending", "time", "size", "stores"]
    assert lines[5].split()[:1] + lines[5].split()[3:] == [
        pending, "3", "turns,", "1", "fact", f"{ALICE},", "notes:/gone",
    ]  # fmt: skip
    assert lines[6] == ("The next agent with these stores saves them; `memfs retry --drop PENDING` drops one.")


def test_suggested_commands_contain_the_vault_option(memfs: Memfs, garden: Vault) -> None:
    failed(garden, "I drink tea")
    left(garden)

    output = memfs("retry", "--vault", str(garden.root)).out
    assert output.count("`memfs ") == output.count(f"`memfs --vault {garden.root} retry ") == 3


def test_drop_needs_a_batch_or_all(memfs: Memfs, garden: Vault) -> None:
    failed(garden, "I drink tea")

    assert memfs("retry", "--drop").code == 2
    assert memfs("retry", "--drop", "--all").out == "1 batch dropped\n"


def test_all_without_a_failed_batch_does_nothing_and_lists_pending_logs(memfs: Memfs, garden: Vault) -> None:
    pending = left(garden)

    for words, done in ((("--all", "--drop"), "dropped"), (("--all",), "put back")):
        first, _, line, _ = memfs("retry", *words).out.splitlines()
        assert first == f"No batch failed: nothing was {done}. Pending:"
        assert line.startswith(pending)
    assert memfs("retry", "--all", "--vault", str(garden.root)).code == 0


def test_retry_json_has_stable_keys(memfs: Memfs, garden: Vault) -> None:
    failed(garden, "I drink tea")
    left(garden)
    value = memfs("retry", "--json").value

    assert list(value) == ["failed", "pending"]
    assert list(value["failed"][0]) == ["name", "time", "store", "reason", "messages"]
    assert value["failed"][0]["messages"] == [{"role": "user", "text": "I drink tea"}]
    assert value["pending"][0].pop("time").endswith("Z")
    assert value["pending"] == [{"name": "7-aaaaaaaaaaaa/1", "stores": [ALICE], "turns": 2, "facts": 1}]
    assert memfs("retry", "--all", "--json").value["pending"] == []


def test_listing_changes_no_file(memfs: Memfs, garden: Vault, snapshot: Snapshot) -> None:
    failed(garden, "I drink tea")
    left(garden)
    left(garden, "8-b")
    for name in (".new-9-aaaaaaaaaaaa", "9-bbbbbbbbbbbb"):
        (state_dir(garden) / name).mkdir()
    before = snapshot(garden.root)

    assert memfs("retry").code == 0
    assert memfs("retry", "--json").code == 0
    assert snapshot(garden.root) == before


def test_logs_of_a_live_process_are_not_listed(garden: Vault) -> None:
    manager = MemoryManager([facts_in(garden)])
    chats = [manager.attach() for _ in range(2)]
    for chat in chats:
        say(chat, "a", "b")

    assert list_pending(garden.root) == []
    crash()
    assert [(one.stores, one.turns, one.facts) for one in list_pending(garden.root)] == [([ALICE], 2, 0)] * 2


def test_a_retried_batch_becomes_pending(memfs: Memfs, garden: Vault) -> None:
    first, second = failed(garden, "I drink tea", "I like cake")

    assert memfs("retry", first).out == "1 batch put back: the next agent on this vault retries them\n"
    value = memfs("retry", "--json").value
    assert [one["name"] for one in value["failed"]] == [f"{second}.json"]
    assert [(one["stores"], one["turns"]) for one in value["pending"]] == [([ALICE], 1)]


def test_all_failed_batches_can_be_retried(memfs: Memfs, garden: Vault) -> None:
    failed(garden, "I drink tea", "I like cake")

    assert memfs("retry", "--all").out.startswith("2 batches put back")
    assert (list_failed(garden.root), len(list_pending(garden.root))) == ([], 2)


def test_failed_batches_and_pending_logs_can_be_dropped(memfs: Memfs, garden: Vault) -> None:
    first, second = failed(garden, "I drink tea", "I like cake")
    left(garden)
    left(garden, "8-b")

    assert memfs("retry", "--drop", first, "7-", "8-b", "8-b").out == "3 batches dropped\n"
    assert [one.name for one in list_failed(garden.root)] == [f"{second}.json"]
    assert list(state_dir(garden).iterdir()) == []
    left(garden)
    assert memfs("retry", "--drop", "--all").out == "1 batch dropped\n"
    assert len(list_pending(garden.root)) == 1
    drop(garden.root, PendingSummary("7-aaaaaaaaaaaa/2", [], 0, 0, 0.0))


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["nothing"], "'nothing': no such batch"),
        ([""], "'': no such batch"),
        (["7-"], "'7-': no such batch"),
        (["--drop", "7-"], "'7-': more than one batch begins with this"),
    ],
)
def test_an_unknown_or_ambiguous_batch_name_is_refused(
    memfs: Memfs, garden: Vault, words: list[str], reason: str
) -> None:
    left(garden)
    left(garden, "7-aaaaaaaaaaaa/10")
    ran = memfs("retry", *words)

    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith(f"memfs: {reason}\nhint: See which there are with `memfs retry`")
    assert len(list_pending(garden.root)) == 2
    assert memfs("retry", "--drop", "7-aaaaaaaaaaaa/1").code == 0


def test_impossible_times_and_control_characters_do_not_hide_entries(memfs: Memfs, garden: Vault) -> None:
    place = state_dir(garden, "failed")
    for number, time in enumerate(("1e300", "NaN", "-1e300")):
        (place / f"{number}.json").write_text(
            f'{{"store": "s\\u001b[2J", "reason": "r", "time": {time}, "messages": []}}'
        )
    (state_dir(garden) / "5-headless.jsonl").write_bytes(log_of(turn(0, "whose?")).partition(b"\n")[2])
    ran = memfs("retry")

    assert ran.out.count("s\\x1b[2J") == 3
    assert "5-headless" in ran.out
    assert "\x1b" not in ran.out
