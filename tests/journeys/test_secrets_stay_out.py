"""No secret of an agent, its user or a tool reaches the disk, a log or a span."""

import asyncio
import json
import logging
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from strands import Agent, tool
from strands.types.session import Session, SessionAgent, SessionMessage, SessionType
from support.secret_samples import EACH, PEM, SPOKEN, body, leaks, pieces
from support.spans import record_spans

from memfs import MemoryManager, Vault
from memfs.agent import Fact, IntervalTrigger, InvocationTrigger, WorkingMemory
from memfs.agent.distill.config import VaultMemoryConfig
from memfs.agent.distill.strategies import (
    EpisodeStrategy,
    FactStrategy,
    PreferenceStrategy,
    SummaryStrategy,
    make_store,
)
from memfs.agent.extraction_queue.failed_batches import list_failed, retry
from memfs.agent.models.scripted import ScriptedModel as PlainModel
from memfs.agent.sessions.session_log import SessionLog
from memfs.errors import AggregateMemoryError, ExtractionError, SecretRefusedError
from memfs.integrations.agentcore import AgentCoreVault
from memfs.integrations.strands import MemoryManager as StrandsManager
from memfs.integrations.strands import ScriptedModel, VaultSessionManager, VaultSessionRepository
from memfs.integrations.strands import VaultStore as StrandsStore
from memfs.privacy.policy import Policy
from memfs.stores import AddMessagesContext, InMemoryStore, VaultStore
from memfs.stores.keyed import as_agent_store

SECRETS = [secret for _, _, secret in EACH]
SENTENCES = [said for _, said, _ in EACH]
KINDS = [kind for kind, _, _ in EACH]
TOKEN = next(secret for kind, _, secret in EACH if kind == "github-token")
NEVER = {"trigger": IntervalTrigger(10_000)}
CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
Spans = Callable[[], Sequence[ReadableSpan]]


@pytest.fixture
def spans() -> Iterator[Spans]:
    """Yield a function that returns the finished spans of memfs; those of Strands contain the conversation."""
    exporter = record_spans()
    yield lambda: [span for span in exporter.get_finished_spans() if span.name.startswith("memory.")]
    exporter.shutdown()


def secrets_in(text: str) -> list[str]:
    """Return the kinds of secrets in a text, plain or escaped as in JSON or Python."""
    return [kind for kind, _, secret in EACH if any(piece in text for piece in pieces(secret))]


def secrets_in_log(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the kinds of secrets in the log records of memfs and their errors."""
    lines = [record for record in caplog.records if record.name.startswith("memfs")]
    texts = [f"{record.getMessage()} {record.args} {record.exc_info}" for record in lines]
    return secrets_in("\n".join([*texts, *(logging.Formatter().format(record) for record in lines)]))


def bodies(vault: Vault) -> list[str]:
    return [memory.body for memory in vault.list(archived=True)]


# --- an agent with all secrets


@tool(name="vaultkeeper")
def vaultkeeper(question: str) -> str:
    """Return all secrets."""
    return SPOKEN


def replies() -> list[Any]:
    """Return the replies of the agent's model, with all secrets in texts, tool calls and memories."""
    return [
        [SPOKEN, {"tool": "vaultkeeper", "input": {"question": SPOKEN}}],
        {"tool": "add_memory", "input": {"entries": [SPOKEN, *SENTENCES]}},
        {"tool": "search_memory", "input": {"query": SPOKEN}},
        f"So it is: {SPOKEN}",
    ]


def repeated(count: int = 20) -> list[Any]:
    """Return the replies of an extracting model, with secrets in every part of a fact."""
    fact = {"content": SPOKEN, "topic": SPOKEN, "context": SPOKEN, "categories": SENTENCES}
    parts = dict.fromkeys(("situation", "intent", "actions", "outcome"), SPOKEN)
    return [[{**fact, **parts, "metadata": {"password": "swordfish", "note": SPOKEN}}]] * count


@pytest.mark.parametrize("batch_size", [1, 100])
def test_no_secret_of_a_conversation_is_stored_anywhere(
    vault: Vault, caplog: pytest.LogCaptureFixture, spans: Spans, monkeypatch: pytest.MonkeyPatch, batch_size: int
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv(CAPTURE, "true")
    facts = StrandsStore(
        vault, "/memory", name="memory", extraction={"trigger": InvocationTrigger()}, tools=("get", "update")
    )
    raw = StrandsStore(vault, "/raw", name="raw", extraction={"trigger": InvocationTrigger(), "extractor": None})
    raw.wants_facts = False  # type: ignore[misc]  # gets the turns as they are
    memory = StrandsManager([facts, raw], add_tool_config=True, model=PlainModel(repeated()))
    distilling = [FactStrategy, PreferenceStrategy, EpisodeStrategy, SummaryStrategy]
    strategies = [make(model=PlainModel(repeated())) for make in distilling]
    plain = SummaryStrategy("plain", "/plain/{sessionId}")
    config = VaultMemoryConfig(
        vault, "s-1", "alice", strategies=[*strategies, plain], batch_size=batch_size,
        default_metadata={"note": SPOKEN},
    )  # fmt: skip
    with VaultSessionManager(config) as session:
        agent = Agent(
            model=ScriptedModel([*replies(), *repeated()]), session_manager=session, memory_manager=memory,
            tools=[vaultkeeper], callback_handler=None,
        )  # fmt: skip
        agent.state.set("login", {"password": "swordfish", "said": SPOKEN, "keys": SENTENCES})
        agent(SPOKEN)
        assert leaks(vault.root, SECRETS) == []
        asyncio.run(memory.flush())
    vault.close()

    assert leaks(vault.root, SECRETS) == []
    assert secrets_in_log(caplog) == []
    assert "swordfish" not in "".join(record.getMessage() for record in caplog.records if "memfs" in record.name)
    assert secrets_in("\n".join(span.to_json() for span in spans())) == []
    assert len(spans()) >= 5
    log = (vault.root / "sessions/s-1/default.agent.jsonl").read_text()
    assert all(log.count(f"[redacted: {kind}]") >= 5 for kind in KINDS)
    assert "swordfish" not in log
    assert any("[redacted: " in text for text in bodies(vault))
    written = {memory.path.split("/")[0] for memory in vault.list()}
    assert written == {"memory", "raw", "facts", "preferences", "episodes", "summaries"}
    failed = [batch.store for batch in list_failed(vault.root)]
    assert failed == ["plain:/plain/s-1"]  # the script has no answer left


def test_the_index_contains_no_secret(vault: Vault) -> None:
    store = VaultStore(vault, "/raw")
    asyncio.run(store.add_messages([{"role": "user", "content": SPOKEN}], AddMessagesContext([0])))
    vault.sync()

    for secret in SECRETS:
        assert not [hit for hit in vault.search(secret, limit=100) if secret in hit.memory.text + hit.snippet]
    assert vault.search("bucket glab twine")


# --- pending and failed turns


def manager_of(vault: Vault, *models: Any, **extraction: Any) -> MemoryManager:
    store = VaultStore(vault, "/facts", extraction={**NEVER, **extraction})
    return MemoryManager([store], add_tool_config={"wait_for_writes": False}, model=PlainModel(models))


def test_pending_turns_contain_no_secret(vault: Vault) -> None:
    manager = manager_of(vault)
    attachment = manager.attach()
    attachment.record({"role": "user", "content": SPOKEN})
    attachment.record({"role": "user", "content": [{"toolResult": {"content": [{"json": {"token": SENTENCES}}]}}]})

    pending = list((vault.root / ".memfs/pending").rglob("*.jsonl"))
    assert leaks(vault.root, SECRETS) == []
    assert len(pending) == 1
    assert all(f"[redacted: {kind}]" in pending[0].read_text() for kind in KINDS)


def test_failed_turns_contain_no_secret(vault: Vault, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    async def talk() -> None:
        async with manager_of(vault, SPOKEN, SPOKEN) as manager:
            attachment = manager.attach()
            attachment.record({"role": "user", "content": SPOKEN})
            await attachment.flush()

    asyncio.run(talk())
    (failure,) = list_failed(vault.root)
    assert failure.messages[0]["content"].count("[redacted: ") == len(KINDS)
    assert leaks(vault.root, SECRETS) == []
    assert secrets_in_log(caplog) == []


def test_the_reason_of_a_failure_is_stored_without_a_secret(vault: Vault) -> None:
    class Quoting:
        async def extract(self, messages: Any, context: Any = None) -> Any:
            raise ExtractionError("model", f"answered {SPOKEN}")

    async def talk() -> None:
        extraction = {"trigger": InvocationTrigger(), "extractor": Quoting()}
        async with MemoryManager([VaultStore(vault, "/facts", extraction=extraction)]) as manager:
            attachment = manager.attach()
            attachment.record({"role": "user", "content": "Alice drinks tea."})
            await attachment.flush()

    asyncio.run(talk())
    (failure,) = list_failed(vault.root)
    assert "answered" in failure.reason
    assert leaks(vault.root, SECRETS) == []


@pytest.mark.parametrize("says", [[[{"content": SPOKEN}]], ["no", "no"]])
def test_pending_turns_of_an_earlier_release_are_redacted_when_they_are_read(vault: Vault, says: list[Any]) -> None:
    async def talk(*models: Any, say: str = "") -> None:
        async with manager_of(vault, *models) as manager:
            attachment = manager.attach()
            if say:
                attachment.record({"role": "user", "content": say})
            await attachment.flush()

    asyncio.run(talk("no", "no", say="Alice drinks tea."))
    (failure,) = list_failed(vault.root)
    place = vault.root / ".memfs/failed" / failure.name
    place.write_text(place.read_text().replace("Alice drinks tea.", json.dumps(SPOKEN)[1:-1]))
    retry(vault.root, list_failed(vault.root)[0])
    assert leaks(vault.root, SECRETS)

    asyncio.run(talk(*says))
    assert leaks(vault.root, SECRETS) == []
    assert len(bodies(vault)) + len(list_failed(vault.root)) == 1


def test_a_replaced_message_contains_no_secret(vault: Vault) -> None:
    config = VaultMemoryConfig(vault, "s-1", "alice", strategies=[FactStrategy(trigger=IntervalTrigger(10_000))])
    session = VaultSessionManager(config)
    Agent(model=ScriptedModel(["Yes."]), session_manager=session, callback_handler=None)("Hello.")
    other: Any = {"role": "user", "content": [{"text": SPOKEN}]}

    session.session_repository.update_message("s-1", "default", SessionMessage(other, 0))
    assert len(list((vault.root / ".memfs/pending").rglob("*.jsonl"))) == 1
    assert leaks(vault.root, SECRETS) == []
    session.close()


def test_a_replacement_of_an_unknown_message_contains_no_secret(vault: Vault) -> None:
    stuck = FactStrategy(trigger=IntervalTrigger(10_000), model=PlainModel([OSError("no network")] * 9))
    config = VaultMemoryConfig(vault, "s-1", "alice", strategies=[stuck])
    with VaultSessionManager(config) as session:
        Agent(model=ScriptedModel(["Yes."]), session_manager=session, callback_handler=None)("Hello.")
    pending = vault.root / ".memfs/pending"
    assert "Hello." in "".join(path.read_text() for path in pending.rglob("*.jsonl"))

    idle = VaultMemoryConfig(vault, "s-1", "alice")
    with VaultSessionManager(idle) as session:
        other: Any = {"role": "user", "content": [{"text": SPOKEN}]}
        session.session_repository.update_message("s-1", "default", SessionMessage(other, 0))
    assert "[redacted: " in "".join(path.read_text() for path in pending.rglob("*.jsonl"))
    assert leaks(vault.root, SECRETS) == []


# --- stores and tools


@pytest.mark.parametrize("kind", KINDS)
def test_a_store_refuses_a_secret_by_kind_and_line_and_never_by_its_text(vault: Vault, kind: str) -> None:
    said, secret = next((said, secret) for name, said, secret in EACH if name == kind)
    store = VaultStore(vault, "/facts")
    line = 2 + said.split(secret)[0].count("\n")

    with pytest.raises(SecretRefusedError) as caught:
        asyncio.run(store.add(f"Of the deploy:\n{said}"))
    assert str(caught.value) == f"text: holds {kind} on line {line}, which is not stored"
    assert (caught.value.kind, caught.value.line) == (kind, line)
    assert secrets_in(repr(caught.value) + caught.value.hint) == []
    assert bodies(vault) == []
    assert leaks(vault.root, SECRETS) == []


@pytest.mark.parametrize("waits", [True, False])
def test_a_model_that_adds_a_secret_gets_the_reason_of_the_refusal(
    vault: Vault, waits: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    manager = MemoryManager([VaultStore(vault, "/facts")], add_tool_config={"wait_for_writes": waits})

    async def remember() -> None:
        await manager.call_tool("add_memory", {"entries": ["Alice drinks tea.", f"Her token: {TOKEN}"]})

    with pytest.raises((AggregateMemoryError, SecretRefusedError), match="holds github-token on line 1"):
        asyncio.run(remember())
    asyncio.run(manager.close())
    assert leaks(vault.root, SECRETS) == []
    assert secrets_in_log(caplog) == []


def test_accepted_facts_are_stored_redacted(vault: Vault) -> None:
    manager = MemoryManager([VaultStore(vault, "/facts")], add_tool_config={"wait_for_writes": False})

    asyncio.run(manager.call_tool("add_memory", {"entries": ["Alice pays with 4111 1111 1111 1111."]}))
    asyncio.run(manager.close())
    assert leaks(vault.root, ["4111 1111 1111 1111"]) == []
    assert bodies(vault) == ["Alice pays with [redacted: card]."]


def test_an_agents_keyed_store_has_the_policy_of_its_vault(vault: Vault) -> None:
    (vault.root / "memfs.yaml").write_text("redaction:\n  email: redact\n")
    store = as_agent_store(f"file:{vault.root}")

    written = asyncio.run(store.add("The mail of Bob is bob@example.org."))
    assert written.redacted == {"email": 1}
    assert leaks(vault.root, ["bob@example.org"]) == []
    store.close()


@pytest.mark.parametrize("make", [lambda vault: VaultStore(vault, "/facts"), lambda _: InMemoryStore()])
def test_every_way_to_write_to_a_store_is_scanned(vault: Vault, make: Callable[[Vault], Any]) -> None:
    store = make(vault)
    known = asyncio.run(store.add("Alice drinks tea.")).id

    attempts: list[Callable[[], Any]] = [
        lambda: store.add(TOKEN),
        lambda: store.add("Text.", {"note": TOKEN}),
        lambda: store.add("Text.", {"deep": [{"er": TOKEN}]}),
        lambda: store.add("Text.", {TOKEN: "a key"}),
        lambda: store.add("Text.", {"password": "swordfish"}),
        lambda: store.add("Text.", {"note": TOKEN.encode()}),
        lambda: store.add("Text.", TOKEN),
        lambda: store.update(known, TOKEN),
        lambda: store.update(known, "Text.", {"note": TOKEN}),
        lambda: store.supersede(known, TOKEN),
        lambda: store.supersede(known, "Text.", {"note": TOKEN}),
    ]
    for attempt in attempts:
        with pytest.raises(SecretRefusedError) as caught:
            asyncio.run(attempt())
        assert TOKEN not in str(caught.value)
    assert [found.content for found in asyncio.run(store.list())] == ["Alice drinks tea."]
    assert leaks(vault.root, SECRETS) == []


def test_a_summary_refuses_a_secret_too(vault: Vault) -> None:
    store = make_store(SummaryStrategy(), vault, actor="alice", session="s-1")

    with pytest.raises(SecretRefusedError, match="holds github-token on line 3"):
        asyncio.run(store.add(f"## Keys\n\n{TOKEN}"))
    written = asyncio.run(store.add("## Keys\n\n4111 1111 1111 1111"))
    assert written.redacted == {"card": 1}
    assert leaks(vault.root, [*SECRETS, "4111 1111"]) == []


def test_a_result_counts_redactions_by_kind(vault: Vault, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    store = VaultStore(vault, "/facts", redaction=Policy({"email": "redact"}))

    written = asyncio.run(store.add("a@example.org, b@example.org", {"card": "4111111111111111"}))
    assert written.redacted == {"email": 2, "card": 1}
    assert "store facts: redacted 1 card, 2 email" in caplog.text
    assert "example.org" not in caplog.text
    memory = vault.read(written.id)
    assert memory.body == "[redacted: email], [redacted: email]"
    assert memory.header.get("card") == "[redacted: card]"
    assert vault.add("Tea.").redacted == {}


def test_a_model_gets_the_redactions_of_its_update(vault: Vault) -> None:
    store = VaultStore(vault, "/facts", tools=("update",))
    known = asyncio.run(store.add("Alice drinks tea.")).id
    (update,) = store.get_tools()

    answer = asyncio.run(update(memory_id=known, content="Alice pays by 4111 1111 1111 1111."))
    assert answer["redacted"] == {"card": 1}


def test_turns_are_never_refused(vault: Vault) -> None:
    store = VaultStore(vault, "/raw")
    split = [{"role": "user", "content": [{"text": half} for half in (PEM[:100], PEM[100:])]}]

    written = asyncio.run(store.add_messages(split))
    assert written is not None
    assert written.redacted == {"private-key": 1}
    assert leaks(vault.root, [PEM]) == []


def test_a_fact_with_a_secret_is_kept_without_it(vault: Vault) -> None:
    class Leaky:
        async def extract(self, messages: Sequence[Any], context: Any = None) -> Sequence[Any]:
            return [Fact(f"The token of the deploy is {TOKEN}.", {"note": TOKEN})]

    async def talk() -> None:
        async with manager_of(vault, extractor=Leaky()) as manager:
            attachment = manager.attach()
            attachment.record({"role": "user", "content": "Remember the token."})
            await attachment.flush()

    asyncio.run(talk())
    assert bodies(vault) == ["The token of the deploy is [redacted: github-token]."]
    assert leaks(vault.root, SECRETS) == []


# --- texts of people


def test_files_saved_by_a_person_are_never_scanned(vault: Vault) -> None:
    added = vault.add(SPOKEN, "/notes", note=TOKEN)
    vault.append(added.id, TOKEN)
    vault.update(added.id, body=f"{TOKEN}\n{PEM}")

    assert vault.read(added.id).body == f"{TOKEN}\n{PEM}"


def test_an_update_by_an_agent_keeps_findings_that_a_person_wrote(vault: Vault) -> None:
    mine = vault.add(f"Bob: bob@example.org, 4111 1111 1111 1111, {TOKEN}.", "/facts")
    store = VaultStore(vault, "/facts", redaction=Policy({"email": "redact"}))

    asyncio.run(store.update(mine.id, f"Bob: bob@example.org, 4111 1111 1111 1111, {TOKEN}. Or eve@example.org."))
    assert vault.read(mine.id).body == f"Bob: bob@example.org, 4111 1111 1111 1111, {TOKEN}. Or [redacted: email]."
    with pytest.raises(SecretRefusedError):
        asyncio.run(store.update(mine.id, f"Bob: {TOKEN[:-1]}z"))


def test_an_update_by_a_fact_keeps_findings_that_a_person_wrote(vault: Vault) -> None:
    vault.add("Bob is bob@example.org.", "/facts")

    class Adds:
        async def extract(self, messages: Sequence[Any], context: Any = None) -> Sequence[Any]:
            (target,) = context.similar
            return [Fact("Bob is bob@example.org, and eve@example.org.", action="update", target=target)]

    async def talk() -> None:
        policy = Policy({"email": "redact"})
        store = VaultStore(vault, "/facts", extraction={**NEVER, "extractor": Adds()}, redaction=policy)
        async with MemoryManager([store]) as manager:
            attachment = manager.attach()
            attachment.record({"role": "user", "content": "Bob has two addresses."})
            await attachment.flush()

    asyncio.run(talk())
    assert bodies(vault) == ["Bob is bob@example.org, and [redacted: email]."]


def test_a_summary_keeps_findings_that_a_person_wrote(vault: Vault) -> None:
    (vault.root / "memfs.yaml").write_text("redaction: {email: redact}\n")
    vault = Vault(vault.root)
    config = VaultMemoryConfig(vault, "s-1", "alice", strategies=[SummaryStrategy(trigger=InvocationTrigger())])
    says = [[{"topic": "Mail", "content": "Bob is bob@example.org."}]]

    def talk(model: Any) -> None:
        with VaultSessionManager(config) as session:
            Agent(model=model, session_manager=session, callback_handler=None)("Which address?")

    talk(ScriptedModel(["Noted.", *(json.dumps(one) for one in says)]))
    summary = vault.root / "summaries/alice/s-1/summary.md"
    summary.write_text(summary.read_text() + "\n## Mine\n\neve@example.org\n")
    talk(ScriptedModel(["Noted.", json.dumps([{"topic": "Tea", "content": "Bob drinks tea: t@example.org."}])]))
    text = summary.read_text()
    assert "eve@example.org" in text
    assert "bob@example.org" not in text
    assert "t@example.org" not in text
    assert "## Tea" in text


# --- sessions


def test_a_session_is_restored_without_secrets_and_otherwise_unchanged(vault: Vault) -> None:
    config = VaultMemoryConfig(vault, "s-1", "alice")
    with VaultSessionManager(config) as session:
        one = Agent(model=ScriptedModel([f"Your token is {TOKEN}."]), session_manager=session, callback_handler=None)
        one(f"I use {TOKEN} here.")
        live = one.messages

    with VaultSessionManager(config) as session:
        two = Agent(model=ScriptedModel(), session_manager=session, callback_handler=None)
        expected = json.dumps(live).replace(TOKEN, "[redacted: github-token]")
        assert json.dumps(two.messages) == expected
    assert TOKEN in json.dumps(live)


@pytest.mark.parametrize(
    "append",
    [
        lambda log: log.append({"role": "user", "content": SPOKEN}),
        lambda log: log.append({"role": "user", "content": "x"}, metadata={"note": SPOKEN}),
        lambda log: log.append({"role": "user", "content": "x"}, remark=SPOKEN),
        lambda log: log.append({"role": "user", "content": [{"text": "\ud800" + SPOKEN}]}),
        lambda log: log.append({"role": "user", "content": [{"image": {"bytes": b"\x00"}}, {"text": SPOKEN}]}),
        lambda log: log.append_many([{"message": {"role": "user", "content": SPOKEN}}]),
        lambda log: log.append_payload([{"conversational": {"content": {"text": json.dumps(SPOKEN)}}}]),
        lambda log: log.append_payload({SPOKEN: {"a": (SPOKEN, [SPOKEN])}}),
        lambda log: log.set_state({"keys": SENTENCES, "said": SPOKEN}),
        lambda log: log.redact(log.append({"role": "user", "content": "x"}).id, {"role": "user", "content": SPOKEN}),
    ],
)
def test_no_event_of_a_session_contains_a_secret(vault: Vault, append: Callable[[SessionLog], Any]) -> None:
    with SessionLog(vault, "s-1") as log:
        event = append(log)

    assert leaks(vault.root, SECRETS) == []
    assert secrets_in(repr(event)) == []
    assert secrets_in(repr(log.events(kinds=None))) == []
    assert "[redacted: " in repr(log.read().events)


def test_bytes_in_a_session_are_not_changed(vault: Vault) -> None:
    data = f"a document with {TOKEN}".encode()
    message = {"role": "user", "content": [{"document": {"source": {"bytes": data}}}, {"text": "Read this."}]}

    SessionLog(vault, "s-1").append(message)
    assert SessionLog(vault, "s-1").messages() == [message]


def test_a_card_number_as_integer_is_redacted(vault: Vault) -> None:
    SessionLog(vault, "s-1").set_state({"card": 4111111111111111, "count": 4111111111111112})

    assert SessionLog(vault, "s-1").state() == {"card": "[redacted: card]", "count": 4111111111111112}


def test_the_strands_repository_uses_its_policy(vault: Vault) -> None:
    policy = Policy({"secrets": "off"}).with_detector("badge", lambda text: [(0, 3)] if text == "E17" else [])
    repository = VaultSessionRepository(vault, redaction=policy)

    repository.create_session(Session("s-1", SessionType.AGENT))
    repository.create_agent("s-1", SessionAgent("main", state={}, conversation_manager_state={}))
    written = SessionMessage.from_message({"role": "user", "content": [{"text": TOKEN}, {"text": "E17"}]}, 0)
    repository.create_message("s-1", "main", written)
    (message,) = repository.list_messages("s-1", "main")
    assert message.message["content"] == [{"text": TOKEN}, {"text": "[redacted: badge]"}]


# --- AgentCore


def test_the_agentcore_clients_store_no_secret(vault: Vault) -> None:
    with AgentCoreVault(vault, strategies=[FactStrategy()], model=PlainModel(repeated())) as core:
        said = {"conversational": {"role": "USER", "content": {"text": json.dumps({"message": SPOKEN})}}}
        core.data.create_event(
            memoryId="m", actorId="alice", sessionId="s-1", eventTimestamp=datetime(2026, 11, 17, tzinfo=UTC),
            payload=[said, {"blob": {"keys": SENTENCES}}], metadata={"note": {"stringValue": SPOKEN}},
        )  # fmt: skip
        records = [
            {"requestIdentifier": kind, "namespaces": ["/facts"], "content": {"text": text}} for kind, text, _ in EACH
        ]
        answer = core.data.batch_create_memory_records(memoryId="m", records=records)
        added = core.data.batch_create_memory_records(
            memoryId="m", records=[{"namespaces": ["/facts"], "content": {"text": "Tea for 4111 1111 1111 1111."}}]
        )
        changed = [{"memoryRecordId": added["successfulRecords"][0]["memoryRecordId"], "content": {"text": TOKEN}}]
        refused = core.data.batch_update_memory_records(memoryId="m", records=changed)
        core.flush()

    assert [one["requestIdentifier"] for one in answer["failedRecords"]] == KINDS
    assert all(one["errorCode"] == refused["failedRecords"][0]["errorCode"] for one in answer["failedRecords"])
    assert secrets_in(repr(answer) + repr(refused)) == []
    assert "Tea for [redacted: card]." in bodies(vault)
    assert leaks(vault.root, SECRETS) == []


# --- logs and spans


def test_an_error_that_quotes_a_secret_is_logged_without_it(
    caplog: pytest.LogCaptureFixture, spans: Spans, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv(CAPTURE, "true")

    class Quotes(InMemoryStore):
        async def search(self, query: str, options: Any = None) -> Any:
            raise RuntimeError(f"cannot search for {query}") from ValueError(SPOKEN)

        async def add(self, content: str, metadata: Any = None) -> Any:
            raise RuntimeError(f"cannot add {content}") from ValueError(SPOKEN)

    manager = StrandsManager([Quotes()], model=PlainModel())
    asyncio.run(manager.search(SPOKEN))
    with pytest.raises(AggregateMemoryError):
        asyncio.run(manager.add(SPOKEN))
    plain = MemoryManager([Quotes()])
    asyncio.run(plain.search(SPOKEN))
    logging.getLogger("memfs.agent").warning("a trigger raised", exc_info=ValueError(SPOKEN))

    def failing(*_: Any, **__: Any) -> str:
        raise ValueError(SPOKEN)

    working = WorkingMemory(max_messages=1, keep=0, model=failing)
    working.add("user", "Alice drinks tea.")
    working.add("user", "Bob drinks coffee.")

    assert "search failed: cannot search for" in caplog.text
    assert "the model made no summary" in caplog.text
    assert secrets_in_log(caplog) == []
    assert len(spans()) >= 3
    assert secrets_in("\n".join(span.to_json() for span in spans())) == []


def test_a_secret_in_a_hit_is_redacted_in_spans(vault: Vault, spans: Spans, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CAPTURE, "true")
    vault.add(f"The token of the deploy is {TOKEN}.", "/notes")
    manager = StrandsManager([StrandsStore(vault, "/notes")])

    (hit,) = asyncio.run(manager.search("token of the deploy"))
    assert TOKEN in hit.content
    exported = "\n".join(span.to_json() for span in spans())
    assert "The token of the deploy is [redacted: github-token]." in exported
    assert TOKEN not in exported


def test_a_log_record_without_a_secret_is_unchanged(caplog: pytest.LogCaptureFixture) -> None:
    error = ValueError("plain")
    logging.getLogger("memfs.agent").warning("store %s: %d", "facts", 3, exc_info=error)

    (record,) = caplog.records
    assert (record.msg, record.args) == ("store %s: %d", ("facts", 3))
    assert record.exc_info is not None
    assert record.exc_info[1] is error


def test_a_third_party_store_gets_no_secret(tmp_path: Path) -> None:
    class Theirs:
        name, description, max_search_results, writable, extraction = "theirs", None, None, True, None

        def __init__(self) -> None:
            self.added: list[Any] = []

        async def search(self, query: str, options: Any = None) -> Sequence[Any]:
            return []

        async def add(self, content: str, metadata: Any = None) -> None:
            self.added.append((content, metadata))

    store = Theirs()
    manager = MemoryManager([store])
    asyncio.run(manager.add("Pays by 4111 1111 1111 1111.", {"metadata": {"n": 1}}))
    with pytest.raises(AggregateMemoryError, match="metadata: holds github-token"):
        asyncio.run(manager.add("Text.", {"metadata": {"note": TOKEN}}))
    assert store.added == [("Pays by [redacted: card].", {"n": 1})]


def test_there_is_a_sample_of_every_kind() -> None:
    assert len(KINDS) == 19
    assert len(set(SECRETS)) == 19
    assert body(10) in TOKEN
