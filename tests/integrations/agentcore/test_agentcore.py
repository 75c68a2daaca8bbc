"""AgentCore's own clients, unchanged, over a vault: only the boto3 session is replaced."""

import copy
import json
import warnings
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from strands import Agent, tool
from support.commands import Memfs
from support.strands_agents import Guarded, agent

import memfs.agent
from memfs import Vault
from memfs.agent.distill.strategies import FactStrategy, PreferenceStrategy, SummaryStrategy
from memfs.agent.extraction.config import Fact
from memfs.agent.sessions.session_log import SessionLog
from memfs.errors import InvalidSetupError
from memfs.integrations.agentcore import AgentCoreVault, DataPlane
from memfs.integrations.agentcore.control_plane import make_strategy
from memfs.integrations.strands import MemoryManager, ScriptedModel

with warnings.catch_warnings():  # of pydantic, about AgentCore's classes
    warnings.simplefilter("ignore")
    from bedrock_agentcore.memory import MemoryClient
    from bedrock_agentcore.memory.integrations.strands.config import AgentCoreMemoryConfig, RetrievalConfig
    from bedrock_agentcore.memory.integrations.strands.memorystore import AgentCoreMemoryStore
    from bedrock_agentcore.memory.integrations.strands.session_manager import AgentCoreMemorySessionManager

WHO: dict[str, Any] = {"memoryId": "m", "actorId": "alice", "sessionId": "s-1"}
NOW = datetime(2026, 11, 15, 10, 30, tzinfo=UTC)


@pytest.fixture
def core(vault: Vault) -> Iterator[AgentCoreVault]:
    with AgentCoreVault(vault) as made:
        yield made


@pytest.fixture
def data(core: AgentCoreVault) -> DataPlane:
    return core.data


@pytest.fixture
def client(core: AgentCoreVault) -> Any:
    return MemoryClient(boto3_session=core)


def config(session: str = "s-1", **settings: Any) -> Any:
    return AgentCoreMemoryConfig(memory_id="m", session_id=session, actor_id="alice", **settings)


def manager(core: AgentCoreVault, session: str = "s-1", **settings: Any) -> Any:
    return AgentCoreMemorySessionManager(config(session, **settings), boto_session=core)


def send(data: DataPlane, text: str, role: str = "USER", minutes: int = 0, **more: Any) -> dict[str, Any]:
    payload = [{"conversational": {"content": {"text": text}, "role": role}}]
    made = data.create_event(**{**WHO, "payload": payload, "eventTimestamp": NOW + timedelta(minutes=minutes), **more})
    event: dict[str, Any] = made["event"]
    return event


def texts(events: list[dict[str, Any]]) -> list[str]:
    return [part["conversational"]["content"]["text"] for event in events for part in event["payload"]]


@tool
def weather(city: str) -> str:
    """Return the weather."""
    return f"Rain in {city}."


# --- AgentCore's session manager


@pytest.mark.parametrize("batch_size", [1, 10])
def test_agentcores_session_manager_saves_and_restores_a_session(core: AgentCoreVault, batch_size: int) -> None:
    with manager(core, batch_size=batch_size) as session_manager:
        one = agent(
            session_manager, "Noted.", {"tool": "weather", "input": {"city": "Porto"}}, "It rains.", tools=[weather]
        )
        one("I like sushi with tuna")
        one.state.set("mood", "hungry")
        one("What should I buy for lunch today?")
        live = copy.deepcopy(one.messages)

    with manager(core) as session_manager:
        two = agent(session_manager, tools=[weather])
        assert two.messages == live
        assert two.state.get("mood") == "hungry"
    assert (core.vault.root / "sessions/s-1/alice.agent.jsonl").is_file()


@pytest.mark.parametrize("batch_size", [1, 10])
def test_a_session_of_agentcores_manager_is_readable_by_the_sessions_command(
    core: AgentCoreVault, batch_size: int, memfs: Memfs
) -> None:
    with manager(core, batch_size=batch_size) as session_manager:
        one = agent(session_manager, {"tool": "weather", "input": {"city": "Porto"}}, "It rains.", tools=[weather])
        one("How is the weather?")
    show = ["--vault", str(core.vault.root), "sessions", "show", "s-1"]

    shown = memfs(*show).out
    assert shown.startswith("session s-1 with alice, 4 messages\n")
    for words in ("How is the weather?", '[tool weather {"city": "Porto"}]', "[result ", "It rains."):
        assert words in shown
    assert "conversational" not in shown
    found = json.loads(memfs(*show, "--where", "role = assistant", "--json").out)["events"]
    assert len(found) == (2 if batch_size == 1 else 0)  # an event of a whole batch has several roles


def test_agentcores_session_manager_retrieves_memories_of_the_vault(core: AgentCoreVault) -> None:
    core.vault.add("Alice likes sushi with tuna.", "/preferences/alice", type="preference")
    core.vault.add("Bob likes sushi with rice.", "/preferences/bob", type="preference")
    core.vault.add("Alice works on Atlas.", "/preferences/alice", type="preference")
    model = ScriptedModel(["With tuna."])
    retrieval = {"/preferences/{actorId}": RetrievalConfig(top_k=5, relevance_score=0.7)}
    with manager(core, retrieval_config=retrieval) as session_manager:
        agent(session_manager, model=model)("Which sushi does Alice like?")

    assert "<user_context>Alice likes sushi with tuna.</user_context>" in model.calls[0].text


def test_text_redacted_by_agentcores_session_manager_is_nowhere_in_the_vault(core: AgentCoreVault) -> None:
    with manager(core) as session_manager:
        one = agent(session_manager, model=Guarded(["I cannot say."]))
        one("My password is xyzzyplugh")

    with manager(core) as session_manager:
        assert [message["content"] for message in agent(session_manager).messages] == [
            [{"text": "[taken out]"}], [{"text": "I cannot say."}],
        ]  # fmt: skip
    assert all(b"xyzzyplugh" not in path.read_bytes() for path in core.vault.root.rglob("*") if path.is_file())


def test_a_session_is_distilled_when_the_vault_is_closed(vault: Vault) -> None:
    likes = {"content": "Alice likes sushi with tuna.", "context": "Said at lunch.", "categories": ["food"]}
    strategies = [
        SummaryStrategy("SessionSummarizer", model=memfs.agent.ScriptedModel([[{"topic": "Lunch", "content": "S."}]])),
        PreferenceStrategy("PreferenceLearner", model=memfs.agent.ScriptedModel([[likes]])),
        FactStrategy("FactExtractor", model=memfs.agent.ScriptedModel([[]])),
    ]  # fmt: skip
    with AgentCoreVault(vault, strategies=strategies) as core, manager(core) as session_manager:
        agent(session_manager, "ok")("I like sushi with tuna")

    (memory,) = vault.list("/preferences/alice")
    assert memory.header.source == "session s-1, message 0"
    assert [one.path for one in vault.list("/summaries")] == ["summaries/alice/s-1/summary.md"]
    with AgentCoreVault(vault, strategies=strategies) as core:
        found = core.data.retrieve_memory_records(
            memoryId="m",
            namespacePath="/",
            searchCriteria={"searchQuery": "sushi", "memoryStrategyId": "PreferenceLearner"},
        )
        assert [one["memoryRecordId"] for one in found["memoryRecordSummaries"]] == [memory.id]


@pytest.mark.parametrize("given", [{"model": ScriptedModel()}, {"strategies": [FactStrategy(model=ScriptedModel())]}])
def test_a_model_of_strands_is_refused_at_once_and_named(vault: Vault, given: Any) -> None:
    with pytest.raises(InvalidSetupError, match="ScriptedModel: is a model of Strands") as caught:
        AgentCoreVault(vault, **given)
    assert "StrandsModel(...) of memfs.integrations.strands" in caught.value.hint


def test_a_session_is_distilled_on_flush(vault: Vault) -> None:
    model = memfs.agent.ScriptedModel([[{"content": "Alice works on Atlas."}]])
    with AgentCoreVault(vault, strategies=[FactStrategy()], model=model) as core:
        send(core.data, "I work on Atlas.")
        core.flush()

        assert [memory.body.strip() for memory in vault.list("/facts/alice")] == ["Alice works on Atlas."]


def test_an_event_that_is_sent_twice_is_distilled_once(vault: Vault) -> None:
    model = memfs.agent.ScriptedModel([[]])
    with AgentCoreVault(vault, strategies=[FactStrategy()], model=model) as core:
        for _ in range(2):
            send(core.data, "I work on Atlas.", clientToken="t-1")

    assert model.last_prompt.count("I work on Atlas.") == 1


def test_events_with_extraction_mode_skip_are_not_distilled(vault: Vault) -> None:
    with AgentCoreVault(vault, strategies=[FactStrategy(model=memfs.agent.ScriptedModel([]))]) as core:
        send(core.data, "Do not learn this.", extractionMode="SKIP")

    assert vault.list("/facts") == []


def test_strategies_can_be_created_with_agentcores_client(vault: Vault) -> None:
    """The set-up is copied from AgentCore's documentation."""
    likes = {"content": "Alice likes sushi with tuna.", "context": "Said at lunch.", "categories": ["food"]}

    def answer(messages: Any) -> Any:
        return [likes] if "Extract the preferences" in messages[0]["content"] else []

    with AgentCoreVault(vault, model=memfs.agent.ScriptedModel([answer] * 3)) as core:
        client = MemoryClient(boto3_session=core)
        memory = client.create_memory_and_wait(
            name="ComprehensiveAgentMemory",
            description="Full-featured memory with all built-in strategies",
            strategies=[
                {
                    "summaryMemoryStrategy": {
                        "name": "SessionSummarizer",
                        "namespaces": ["/summaries/{actorId}/{sessionId}"],
                    }
                },
                {
                    "userPreferenceMemoryStrategy": {
                        "name": "PreferenceLearner",
                        "namespaces": ["/preferences/{actorId}"],
                    }
                },
                {"semanticMemoryStrategy": {"name": "FactExtractor", "namespaces": ["/facts/{actorId}"]}},
            ],
        )
        settings = AgentCoreMemoryConfig(memory_id=memory["id"], session_id="s-1", actor_id="alice")
        with AgentCoreMemorySessionManager(settings, boto_session=core) as session_manager:
            agent(session_manager, "ok")("I like sushi with tuna")

    assert [strategy["type"] for strategy in memory["strategies"]] == ["SUMMARY", "USER_PREFERENCE", "SEMANTIC"]
    assert [one.header.source for one in vault.list("/preferences/alice")] == ["session s-1, message 0"]


def test_strategies_without_a_namespace_have_agentcores_default(core: AgentCoreVault, client: Any) -> None:
    made = client.create_memory("m", strategies=[{"semanticMemoryStrategy": {"name": "facts"}}])
    client.add_episodic_strategy(
        "m",
        "past",
        reflection_namespace_templates=["/past/{actorId}"],
        namespace_templates=["/past/{actorId}/{sessionId}"],
    )

    assert made["strategies"][0]["namespaces"][0].startswith("/")
    assert client.get_memory_status("m") == "ACTIVE"
    assert [one["name"] for one in client.get_memory_strategies("m")] == ["facts", "past"]
    assert [memory["id"] for memory in client.list_memories()] == ["m"]
    assert core.types() == {"facts": "fact", "past": "episode"}
    client.delete_memory("m")
    with pytest.raises(ClientError, match="ResourceNotFoundException"):
        client.get_memory_status("m")


def test_append_to_prompt_of_a_custom_strategy_is_used(core: AgentCoreVault) -> None:
    override = {"semanticOverride": {"extraction": {"appendToPrompt": "Think of allergies.", "modelId": "x"}}}
    custom = {"customMemoryStrategy": {"name": "own", "namespaces": ["/own/{actorId}"], "configuration": override}}

    strategy = make_strategy(custom)
    assert isinstance(strategy, FactStrategy)
    assert (strategy.namespace, strategy.append_to_prompt) == ("/own/{actorId}", "Think of allergies.")


@pytest.mark.parametrize(
    "given", [{"dreamMemoryStrategy": {"name": "x"}}, {}, "x", {"customMemoryStrategy": {"name": "x"}}]
)
def test_an_unknown_strategy_is_refused(client: Any, given: Any) -> None:
    with pytest.raises(ClientError, match="ValidationException"):
        client.gmcp_client.create_memory(name="m", memoryStrategies=[given])


# --- AgentCore's store


def test_agentcores_store_searches_and_writes_through_a_manager(core: AgentCoreVault) -> None:
    core.vault.add("Alice is allergic to peanuts.", "/facts/alice", type="fact")
    core.vault.add("Bob is allergic to cats.", "/facts/bob", type="fact")
    store = AgentCoreMemoryStore(
        memory_id="m", actor_id="alice", session_id="s-1", namespace_path="/facts/{actorId}", min_score=0.2,
        writable=True, extraction=True, client=MemoryClient(boto3_session=core),
    )  # fmt: skip
    model = ScriptedModel(["Peanuts."])
    with Agent(model=model, memory_manager=MemoryManager([store]), callback_handler=None) as one:
        one("What is Alice allergic to?")

    assert "Alice is allergic to peanuts." in model.calls[0].text
    assert "cats" not in model.calls[0].text
    assert texts(core.data.list_events(**WHO)["events"]) == ["What is Alice allergic to?", "Peanuts."]


# --- AgentCore's client


def test_agentcores_client_forks_and_lists_branches(client: Any) -> None:
    one = client.create_event("m", "alice", "s-1", [("Hello", "USER"), ("Hi", "ASSISTANT")])
    client.create_event("m", "alice", "s-1", [("Bye", "USER")])
    client.fork_conversation("m", "alice", "s-1", one["eventId"], "other", [("Again", "USER")])

    branches = {branch["name"]: branch for branch in client.list_branches("m", "alice", "s-1")}
    assert set(branches) == {"main", "other"}
    assert branches["other"]["rootEventId"] == one["eventId"]
    whole = client.list_branch_events("m", "alice", "s-1", "other", include_parent_branches=True)
    assert texts(whole) == ["Again", "Hello", "Hi"]
    assert texts(client.list_branch_events("m", "alice", "s-1")) == ["Bye", "Hello", "Hi"]
    assert [len(turn) for turn in client.get_last_k_turns("m", "alice", "s-1", k=2)]


def test_agentcores_client_pages_through_events(client: Any) -> None:
    for number in range(250):
        client.create_event(
            "m", "alice", "s-1", [(f"word {number}", "USER")], event_timestamp=NOW + timedelta(seconds=number)
        )

    assert texts(client.list_events("m", "alice", "s-1", max_results=1000)) == [f"word {n}" for n in range(249, -1, -1)]


def test_agentcores_client_retrieves_with_filters(client: Any, vault: Vault) -> None:
    vault.add("Sushi is due.", "/facts/alice", priority=7)
    vault.add("Sushi is late.", "/facts/alice", priority=3)
    expression = {
        "left": {"metadataKey": "priority"}, "operator": "GREATER_THAN", "right": {"metadataValue": {"numberValue": 5}},
    }  # fmt: skip

    found = client.retrieve_memories("m", namespace_path="/facts", query="sushi", metadata_filters=[expression])
    assert [one["content"]["text"] for one in found] == ["Sushi is due."]


# --- events


def test_an_event_is_a_line_of_a_log_and_is_returned_unchanged(data: DataPlane) -> None:
    made = send(data, "Hello", metadata={"place": {"stringValue": "Porto"}})

    got = data.get_event(**WHO, eventId=made["eventId"])["event"]
    assert got == made
    assert got["eventTimestamp"] == NOW
    assert got["metadata"] == {"place": {"stringValue": "Porto"}}
    assert "branch" not in got


def test_blobs_of_any_type_are_stored(data: DataPlane) -> None:
    payload: list[Any] = [{"blob": b"\x00\xff"}, {"blob": {"a": [1, None]}}, {"json": {"content": {"b": 2}}}]
    made = data.create_event(**WHO, payload=payload, eventTimestamp=NOW)["event"]

    assert data.get_event(**WHO, eventId=made["eventId"])["event"]["payload"] == payload


def test_events_are_listed_newest_first_and_filtered(data: DataPlane) -> None:
    send(data, "second", minutes=2, metadata={"kind": {"stringValue": "x"}})
    send(data, "first", minutes=1, metadata={"kind": {"stringValue": "y"}})
    send(data, "third", minutes=3)

    def listed(*wanted: Any) -> list[str]:
        return texts(data.list_events(**WHO, filter={"eventMetadata": list(wanted)})["events"])

    left = {"left": {"metadataKey": "kind"}}
    right = {"right": {"metadataValue": {"stringValue": "y"}}}
    assert listed() == ["third", "second", "first"]
    assert listed({**left, "operator": "EQUALS_TO", **right}) == ["first"]
    assert listed({**left, "operator": "EXISTS"}) == ["second", "first"]
    assert listed({**left, "operator": "NOT_EXISTS"}) == ["third"]
    assert data.list_events(**WHO, includePayloads=False)["events"][0]["payload"] == []
    with pytest.raises(ClientError, match="ValidationException"):
        listed({**left, "operator": "LIKE", **right})


def test_a_repeated_client_token_returns_the_same_event(data: DataPlane) -> None:
    one, two = (send(data, "Hello", clientToken="t-1") for _ in range(2))

    assert one == two
    assert texts(data.list_events(**WHO)["events"]) == ["Hello"]


def test_nothing_of_a_deleted_event_is_left_in_the_vault(data: DataPlane, vault: Vault) -> None:
    event = send(data, "xyzzyplugh")
    send(data, "stays")

    assert data.delete_event(**WHO, eventId=event["eventId"]) == {"eventId": event["eventId"]}
    assert texts(data.list_events(**WHO)["events"]) == ["stays"]
    assert b"xyzzyplugh" not in b"".join(path.read_bytes() for path in vault.root.rglob("*.jsonl"))
    with pytest.raises(ClientError, match="ResourceNotFoundException"):
        data.get_event(**WHO, eventId=event["eventId"])


def test_pages_and_tokens(data: DataPlane) -> None:
    for number in range(5):
        send(data, f"word {number}", minutes=number)
    first = data.list_events(**WHO, maxResults=2)
    second = data.list_events(**WHO, maxResults=2, nextToken=first["nextToken"])
    third = data.list_events(**WHO, maxResults=2, nextToken=second["nextToken"])

    assert texts(first["events"] + second["events"] + third["events"]) == [f"word {n}" for n in (4, 3, 2, 1, 0)]
    assert "nextToken" not in third
    for given in ({"maxResults": 0}, {"maxResults": True}, {"nextToken": "x"}):
        with pytest.raises(ClientError, match="ValidationException"):
            data.list_events(**WHO, **given)


def test_actors_and_sessions_are_listed(data: DataPlane) -> None:
    for actor, session in (("alice", "s-1"), ("alice", "s-2"), ("bob", "s-2")):
        send(data, "Hello", actorId=actor, sessionId=session)

    assert [one["actorId"] for one in data.list_actors(memoryId="m")["actorSummaries"]] == ["alice", "bob"]
    listed = data.list_sessions(memoryId="m", actorId="alice")["sessionSummaries"]
    assert {one["sessionId"] for one in listed} == {"s-1", "s-2"}
    assert [one["sessionId"] for one in data.list_sessions(memoryId="m", actorId="bob")["sessionSummaries"]] == ["s-2"]
    assert data.list_sessions(memoryId="m", actorId="nobody")["sessionSummaries"] == []


def test_a_new_branch_needs_a_root_event(data: DataPlane) -> None:
    send(data, "Hello")

    with pytest.raises(ClientError, match="rootEventId"):
        send(data, "Other", branch={"name": "other"})
    with pytest.raises(ClientError, match="ResourceNotFoundException"):
        send(data, "Other", branch={"name": "other", "rootEventId": "nowhere"})
    assert data.list_events(**WHO, filter={"branch": {"name": "other"}})["events"] == []


# --- records


def record(text: str, place: str = "/facts/alice", **more: Any) -> dict[str, Any]:
    return {"requestIdentifier": text, "namespaces": [place], "content": {"text": text}, "timestamp": NOW, **more}


def test_a_batch_returns_one_result_per_record(data: DataPlane, vault: Vault) -> None:
    made = data.batch_create_memory_records(
        memoryId="m",
        records=[
            record("Alice likes tea.", metadata={"score": {"numberValue": 3}, "tags": {"stringListValue": ["drink"]}}),
            record("  "),
            record("Outside?", "/a/../b"),
            {"requestIdentifier": "odd", "content": {}},
            record("Alice likes tea.", memoryStrategyId="preference"),
        ],
    )

    assert [one["requestIdentifier"] for one in made["successfulRecords"]] == [
        "Alice likes tea.", "Outside?", "Alice likes tea.",
    ]  # fmt: skip
    assert vault.list("/a")[0].path == "a/%2E%2E/b/outside.md"
    assert [one["requestIdentifier"] for one in made["failedRecords"]] == ["  ", "odd"]
    (memory,) = vault.list("/facts/alice")
    assert memory.created == NOW
    assert (memory.header.get("score"), list(memory.header.tags)) == (3, ["drink"])


def test_records_are_changed_moved_and_deleted_in_batches(data: DataPlane, vault: Vault) -> None:
    one, two = (vault.add(text, "/facts/alice").id for text in ("One.", "Two."))
    changed = data.batch_update_memory_records(
        memoryId="m",
        records=[
            {"memoryRecordId": one, "content": {"text": "One more."}, "metadata": {"k": {"stringValue": "v"}}},
            {"memoryRecordId": two, "timestamp": NOW, "namespaces": ["/facts/bob/"]},
            {"memoryRecordId": "gone", "timestamp": NOW},
        ],
    )  # fmt: skip

    assert [len(changed["successfulRecords"]), changed["failedRecords"][0]["errorCode"]] == [2, 404]
    assert (vault.read(one).body.strip(), vault.read(one).header.get("k")) == ("One more.", "v")
    assert str(vault.read(two).namespace) == "/facts/bob"
    deleted = data.batch_delete_memory_records(memoryId="m", records=[{"memoryRecordId": one}, {"memoryRecordId": "x"}])
    assert [len(deleted[key]) for key in ("successfulRecords", "failedRecords")] == [1, 1]
    assert [memory.id for memory in vault.list()] == [two]


def test_a_record_can_be_read_listed_and_deleted(data: DataPlane, vault: Vault) -> None:
    kept = vault.add("Kept.", "/facts/alice", type="fact", tags=["a"], importance=3)
    vault.add("Below.", "/facts/alice/deep")
    got = data.get_memory_record(memoryId="m", memoryRecordId=kept.id)["memoryRecord"]

    assert got["content"] == {"text": "Kept."}
    assert got["namespaces"] == ["/facts/alice"]
    assert got["memoryStrategyId"] == "fact"
    assert got["metadata"] == {"tags": {"stringListValue": ["a"]}, "importance": {"numberValue": 3.0}}

    def listed(**where: Any) -> list[str]:
        found = data.list_memory_records(memoryId="m", **where)["memoryRecordSummaries"]
        return sorted(one["content"]["text"] for one in found)

    assert listed(namespace="/facts/alice/") == ["Kept."]
    assert listed(namespacePath="/facts/alice") == ["Below.", "Kept."]
    assert listed(namespacePath="/", memoryStrategyId="fact") == ["Kept."]
    data.delete_memory_record(memoryId="m", memoryRecordId=kept.id)
    for call in (data.get_memory_record, data.delete_memory_record):
        with pytest.raises(ClientError, match="ResourceNotFoundException"):
            call(memoryId="m", memoryRecordId=kept.id)
    with pytest.raises(ClientError, match="give one of namespace and namespacePath"):
        data.list_memory_records(memoryId="m")


def test_an_invalid_filter_is_refused(data: DataPlane) -> None:
    given = {"left": {"metadataKey": "priority"}, "operator": "LIKE", "right": {"metadataValue": {"stringValue": "x"}}}

    with pytest.raises(ClientError, match="unknown operator 'LIKE'"):
        data.list_memory_records(memoryId="m", namespacePath="/", metadataFilters=[given])


def test_names_that_are_not_valid_directory_names_are_found_again(data: DataPlane, vault: Vault) -> None:
    data.batch_create_memory_records(memoryId="m", records=[record("Tea.", "/facts/user:42 %")])

    found = data.list_memory_records(memoryId="m", namespace="/facts/user:42 %/")["memoryRecordSummaries"]
    assert found[0]["namespaces"] == ["/facts/user:42 %"]
    assert vault.list()[0].path == "facts/user%3A42%20%25/tea.md"


def test_a_score_is_the_relevance_of_a_search(data: DataPlane, vault: Vault) -> None:
    vault.add("Alice likes sushi with tuna.", "/preferences/alice")
    criteria = {"searchQuery": "sushi with tuna for lunch", "topK": 5}
    (found,) = data.retrieve_memory_records(memoryId="m", namespace="/preferences/alice", searchCriteria=criteria)[
        "memoryRecordSummaries"
    ]

    assert found["score"] == vault.search("sushi with tuna for lunch")[0].relevance


# --- the vault in place of a boto3 session


def test_another_service_is_refused(core: AgentCoreVault) -> None:
    with pytest.raises(InvalidSetupError, match="service 's3'"):
        core.client("s3")


def test_an_invalid_strategy_is_refused_on_creation(vault: Vault) -> None:
    with pytest.raises(InvalidSetupError, match=r"strategies\[0\]"):
        AgentCoreVault(vault, strategies=["facts"])  # type: ignore[list-item]


def test_a_vault_can_be_a_path(tmp_path: Path) -> None:
    Vault.init(tmp_path / "notes")
    with AgentCoreVault(tmp_path / "notes") as core:
        send(core.data, "Hello")

    assert texts(AgentCoreVault(tmp_path / "notes").data.list_events(**WHO)["events"]) == ["Hello"]


# --- invalid input and concurrent changes


class EveryMessage:
    """A strategy that makes one fact from each message."""

    name, namespace, type = "each", "/facts/{actorId}", "fact"

    async def extract(self, messages: Any, context: Any) -> list[Fact]:
        return [Fact(message["content"]) for message in messages]


@pytest.mark.parametrize(
    "payload",
    [
        "text",
        {"blob": 1},
        ["text"],
        [{}],
        [{"conversational": "text"}],
        [{"conversational": {"content": "text", "role": "USER"}}],
        [{"conversational": {"content": {"text": 3}, "role": "USER"}}],
        [{"conversational": {"content": {"text": "x"}, "role": "user"}}],
        [{"conversational": {"content": {"text": "x"}}}],
        [{"blob": 1}, {"blob": object()}],
    ],
)
def test_an_invalid_payload_is_refused_and_nothing_is_written(data: DataPlane, payload: Any) -> None:
    with pytest.raises(ClientError, match="ValidationException"):
        data.create_event(**WHO, payload=payload, eventTimestamp=NOW)
    with pytest.raises(ClientError, match="ValidationException"):
        data.create_event(**WHO, payload=[], eventTimestamp=NOW, metadata="x")  # type: ignore[arg-type]

    assert data.list_events(**WHO)["events"] == []


def test_lines_of_other_kinds_do_not_break_event_operations(vault: Vault) -> None:
    given = [{"conversational": {"content": "text"}}, 5, {"conversational": {"content": {"text": '{"message": 1}'}}}]
    SessionLog(vault, "s-1", "alice", actor="alice").append_payload(given)

    with AgentCoreVault(vault, strategies=[EveryMessage()]) as core:
        send(core.data, '{"message": {"role": "user", "content": 5}}')
        send(core.data, "fine", minutes=1)
    assert "fine" in [memory.body.strip() for memory in vault.list("/facts/alice")]


@pytest.mark.parametrize("actor", ["team/alice", "a/b/c", "/x", "Team"])
def test_an_actor_with_any_name_finds_the_memories_distilled_from_its_messages(vault: Vault, actor: str) -> None:
    vault.add("The code of another is 98.", "/facts/team/alice")
    with AgentCoreVault(vault, strategies=[EveryMessage()]) as core:
        send(core.data, "My code is 99.", actorId=actor)
        core.flush()
        for name in ("namespace", "namespacePath"):
            place: dict[str, Any] = {"memoryId": "m", name: f"/facts/{actor}"}
            found = core.data.retrieve_memory_records(**place, searchCriteria={"searchQuery": "my code"})
            assert "My code is 99." in [one["content"]["text"] for one in found["memoryRecordSummaries"]]
            listed = core.data.list_memory_records(**place)["memoryRecordSummaries"]
            (record,) = [one for one in listed if one["content"]["text"] == "My code is 99."]
        named = {"memoryId": "m", "memoryRecordId": record["memoryRecordId"], "namespace": f"/facts/{actor}"}
        assert core.data.get_memory_record(**named)["memoryRecord"]["content"] == record["content"]
        core.data.delete_memory_record(**named)
        assert not [one for one in vault.list("/facts") if "99" in one.body]


def test_no_event_is_on_two_pages_while_others_are_added_and_deleted(data: DataPlane) -> None:
    made = [send(data, str(number), minutes=number) for number in range(6)]

    first = data.list_events(**WHO, maxResults=2)
    send(data, "later", minutes=9)
    data.delete_event(**WHO, eventId=made[4]["eventId"])
    second = data.list_events(**WHO, maxResults=2, nextToken=first["nextToken"])
    third = data.list_events(**WHO, maxResults=2, nextToken=second["nextToken"])
    assert [texts(page["events"]) for page in (first, second, third)] == [["5", "4"], ["3", "2"], ["1", "0"]]
    assert "nextToken" not in third


def test_all_records_are_listed_page_by_page_while_they_are_deleted(data: DataPlane, vault: Vault) -> None:
    place = vault.root / "facts" / "alice"
    place.mkdir(parents=True)
    for number in range(1_050):
        (place / f"f{number}.md").write_text(f"Fact {number}.")
    listed: list[str] = []
    answer: dict[str, Any] = {"nextToken": None}

    while "nextToken" in answer:
        request: dict[str, Any] = {"memoryId": "m", "namespace": "/facts/alice", "maxResults": 100}
        answer = data.list_memory_records(**request, nextToken=answer["nextToken"])
        listed += [one["memoryRecordId"] for one in answer["memoryRecordSummaries"]]
        if len(listed) == 100:
            for one in listed:
                data.delete_memory_record(memoryId="m", memoryRecordId=one)
    assert len(listed) == len(set(listed)) == 1_050


@pytest.mark.parametrize("token", ["", "x", "9" * 5_000, "\u0663", 5, "2026-11-15"])
def test_an_invalid_token_is_refused(data: DataPlane, token: Any) -> None:
    send(data, "x")

    calls: list[tuple[Any, dict[str, Any]]] = [
        (data.list_events, WHO),
        (data.list_actors, {"memoryId": "m"}),
        (data.list_memory_records, {"memoryId": "m", "namespace": "/facts"}),
    ]
    for call, request in calls:
        with pytest.raises(ClientError, match=r"ValidationException.*nextToken"):
            call(**request, nextToken=token)


@pytest.mark.parametrize(
    "given",
    [
        "x",
        {"operator": "EXISTS"},
        {"operator": "EXISTS", "left": {}},
        {"operator": "EQUALS_TO", "left": {"metadataKey": "a"}, "right": {}},
    ],
)
def test_an_incomplete_filter_is_refused(data: DataPlane, given: Any) -> None:
    with pytest.raises(ClientError, match=r"ValidationException.*eventMetadata"):
        data.list_events(**WHO, filter={"eventMetadata": [given]})
    with pytest.raises(ClientError, match=r"ValidationException.*metadataFilters"):
        data.list_memory_records(memoryId="m", namespace="/facts", metadataFilters=[given])


def test_messages_of_two_processes_have_unique_numbers(vault: Vault) -> None:
    with (
        AgentCoreVault(vault, strategies=[EveryMessage()]) as one,
        AgentCoreVault(vault, strategies=[EveryMessage()]) as two,
    ):
        for minutes, (core, text) in enumerate([(one, "tea"), (two, "rice"), (two, "tuna"), (one, "soup")]):
            send(core.data, f"Said {text}.", minutes=minutes)

    words = ("tea", "rice", "tuna", "soup")
    sources = {memory.body.strip(): memory.header.source for memory in vault.list("/facts/alice")}
    assert sources == {f"Said {text}.": f"session s-1, message {number}" for number, text in enumerate(words)}


def test_an_event_deleted_before_distillation_is_not_distilled(vault: Vault) -> None:
    with AgentCoreVault(vault, strategies=[EveryMessage()]) as core:
        send(core.data, "First.")
        gone = send(core.data, "My PIN is 1234.", minutes=1)
        core.data.delete_event(**WHO, eventId=gone["eventId"])
        assert all(b"1234" not in path.read_bytes() for path in vault.root.rglob("*") if path.is_file())
        send(core.data, "Third.", minutes=2)

    sources = {memory.body.strip(): memory.header.source for memory in vault.list("/facts/alice")}
    assert sources == {"First.": "session s-1, message 0", "Third.": "session s-1, message 2"}
