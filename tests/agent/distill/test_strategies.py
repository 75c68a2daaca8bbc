"""Strategies: the memories that are distilled from a session, with scripted models or without a model."""

import logging
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from support.messages import user

from memfs import Vault
from memfs.agent import Fact, InvocationTrigger, ScriptedModel, wait
from memfs.agent.conversation_state import ConversationState
from memfs.agent.distill.config import PersistenceMode, RetrievalConfig, VaultMemoryConfig
from memfs.agent.distill.distiller import with_position
from memfs.agent.distill.long_term import LongTerm
from memfs.agent.distill.strategies import (
    EpisodeStrategy,
    FactStrategy,
    PreferenceStrategy,
    Strategy,
    SummaryStrategy,
    make_store,
)
from memfs.agent.distill.summaries import edited_titles, parse_sections, section_marks
from memfs.agent.messages import Message
from memfs.data_types import Memory

WAIT_SECONDS = 30  # the limit of any wait
TOOLS: list[Message] = [
    {"role": "user", "content": [{"text": "What is the weather in Porto?"}]},
    {"role": "assistant", "content": [{"toolUse": {"toolUseId": "t", "name": "weather", "input": {"city": "Porto"}}}]},
    {"role": "user", "content": [{"toolResult": {"toolUseId": "t", "content": [{"text": "Rain, 12 degrees."}]}}]},
    {"role": "assistant", "content": [{"text": "It rains."}]},
]


def assistant(text: str) -> Message:
    return {"role": "assistant", "content": text}


def start_session(
    vault: Vault, *strategies: Strategy, session: str = "s-1", model: Any = None
) -> tuple[LongTerm, ConversationState]:
    memory = LongTerm(VaultMemoryConfig(vault, session, "alice", strategies=strategies), model=model)
    attachment = memory.attach()
    assert attachment is not None
    return memory, attachment


def distil(
    vault: Vault,
    messages: Sequence[Message],
    *strategies: Strategy,
    session: str = "s-1",
    first: int = 0,
    **options: Any,
) -> None:
    """Run a session with these messages, and close it."""
    memory, attachment = start_session(vault, *strategies, session=session, **options)
    for number, message in enumerate(messages, first):
        attachment.record(with_position(message, session, number))
    wait(memory.close())


def only(vault: Vault, namespace: str) -> Memory:
    (memory,) = vault.list(namespace)
    return memory


def prompt_of(model: ScriptedModel, call: int = -1) -> str:
    return str(model.calls[call].messages[0]["content"])


# --- facts


def test_a_fact_is_a_memory_with_its_source_message(vault: Vault) -> None:
    model = ScriptedModel([[{"content": "Alice works on Atlas."}]])
    distil(vault, [user("Hello!"), assistant("Hello."), user("I work on Atlas.")], FactStrategy(model=model), first=4)

    memory = only(vault, "/facts/alice")
    assert memory.body.strip() == "Alice works on Atlas."
    assert memory.header.type == "fact"
    assert memory.header.source == "session s-1, message 6"


def test_the_source_of_a_fact_is_the_message_that_shares_most_words(vault: Vault) -> None:
    model = ScriptedModel(
        [[{"content": "Alice works on Atlas."}, {"content": "Bob leads the work on Atlas in Porto."}]]
    )
    messages = [
        user("Hi, Alice!"),
        user("I work on Atlas."),
        assistant("In Porto, where Bob leads Atlas?"),
        user("Yes."),
    ]
    distil(vault, messages, FactStrategy(model=model))

    assert {memory.body.strip(): memory.header.source for memory in vault.list("/facts")} == {
        "Alice works on Atlas.": "session s-1, message 1",
        "Bob leads the work on Atlas in Porto.": "session s-1, message 2",
    }


def test_a_fact_without_a_common_word_has_the_last_user_message_as_source(vault: Vault) -> None:
    model = ScriptedModel([[{"content": "Vegetarisch."}]])
    distil(vault, [user("No meat, please"), assistant("Fine")], FactStrategy(model=model))

    assert only(vault, "/facts/alice").header.source == "session s-1, message 0"


def test_facts_are_consolidated_with_existing_memories(vault: Vault) -> None:
    old = vault.add("Atlas is due in October.", "/facts/alice", type="fact")
    vault.add("Alice lives in Rome.", "/facts/alice", type="fact")

    def replies(messages: Any) -> Any:
        numbers = {text: messages[0]["content"].index(text) for text in ("Atlas is due", "Alice lives")}
        atlas, rome = (1, 2) if numbers["Atlas is due"] < numbers["Alice lives"] else (2, 1)
        return [
            {"content": "Atlas is due in November.", "action": "supersede", "target": atlas},
            {"content": "Alice lives in Rome, in Trastevere.", "action": "update", "target": rome},
            {"content": "Atlas is due in November.", "action": "skip", "target": atlas},
            {"content": "Bob leads Atlas.", "action": "add", "target": None},
        ]

    distil(vault, [user("Atlas is due in November. I live in Rome.")], FactStrategy(model=ScriptedModel([replies])))

    assert {hit.memory.body.strip() for hit in vault.search("", "/facts/alice")} == {
        "Atlas is due in November.", "Alice lives in Rome, in Trastevere.", "Bob leads Atlas.",
    }  # fmt: skip
    assert vault.read(old.id).header.valid_until is not None


def test_a_strategy_without_a_model_uses_the_model_of_the_session(vault: Vault) -> None:
    lent, own = ScriptedModel([[{"content": "From the lent one."}]]), ScriptedModel([[]])
    distil(vault, [user("Atlas")], FactStrategy("a", "/a"), FactStrategy("b", "/b", model=own), model=lent)

    assert (len(lent.calls), len(own.calls)) == (1, 1)
    assert only(vault, "/a").body.strip() == "From the lent one."


def test_a_prompt_can_be_extended_or_replaced(vault: Vault) -> None:
    models = [ScriptedModel([[]]) for _ in range(3)]
    plain, added, own = (
        FactStrategy("plain", "/a", model=models[0]),
        FactStrategy("added", "/b", model=models[1], append_to_prompt="Think of allergies."),
        FactStrategy("own", "/c", model=models[2], prompt="Only allergies count."),
    )
    distil(vault, [user("I eat no nuts")], plain, added, own)

    first, second, third = (str(model.calls[0].system) for model in models)
    opening = first.partition("\n\n")[0]
    assert second.startswith(opening)
    assert "Think of allergies." in second
    assert third.startswith("Only allergies count.")
    assert opening not in third
    assert all("JSON" in system for system in (first, second, third))


def test_context_messages_limits_the_earlier_messages(vault: Vault) -> None:
    few, many = ScriptedModel([[], []]), ScriptedModel([[], []])
    strategies = (
        FactStrategy("few", "/a", model=few, context_messages=1, trigger=InvocationTrigger()),
        FactStrategy("many", "/b", model=many, context_messages=20, trigger=InvocationTrigger()),
    )
    memory, attachment = start_session(vault, *strategies)
    for number in range(15):
        attachment.record(with_position(user(f"word{number} is said"), "s-1", number))
    wait(attachment.flush())
    attachment.record(with_position(user("the end"), "s-1", 15))
    wait(memory.close())

    assert [word for word in range(15) if f"word{word} " in prompt_of(few)] == [14]
    assert [word for word in range(15) if f"word{word} " in prompt_of(many)] == list(range(15))


def test_facts_and_preferences_read_conversation_text_and_summaries_read_everything(vault: Vault) -> None:
    facts, wishes, topics = (ScriptedModel([[]]) for _ in range(3))
    system: Message = {"role": "system", "content": "You are a pirate."}
    strategies = FactStrategy(model=facts), PreferenceStrategy(model=wishes), SummaryStrategy(model=topics)
    distil(vault, [system, *TOOLS], *strategies)

    for model in (facts, wishes):
        transcript = prompt_of(model).partition("<transcript>")[2]
        assert "What is the weather in Porto?" in transcript
        assert "It rains." in transcript
        assert "Rain, 12" not in transcript
        assert "weather with" not in transcript
        assert "pirate" not in transcript
    assert '[calls weather with {"city": "Porto"}]' in prompt_of(topics)
    assert "[the tool answers Rain, 12 degrees.]" in prompt_of(topics)
    assert "pirate" in prompt_of(topics)


def test_retrieved_memories_are_not_stored_again(vault: Vault) -> None:
    vault.add("Alice likes tea.", "/preferences/alice")
    model = ScriptedModel([[{"content": "Alice likes tea."}, {"content": "Alice drinks it at four."}]])
    strategies, retrieval = [FactStrategy("all", "/preferences/alice", model=model)], RetrievalConfig()
    memory = LongTerm(
        VaultMemoryConfig(
            vault, "s-1", "alice", strategies=strategies, retrieval_config={"/preferences/alice": retrieval}
        )
    )
    attachment, retriever = memory.attach(), memory.retriever()
    assert attachment is not None
    assert retriever is not None
    assert "Alice likes tea." in str(wait(retriever.inject([user("Does Alice likes tea?")])))
    attachment.record(with_position(assistant("Alice likes tea. At four?"), "s-1", 0))
    wait(memory.close())

    assert len(vault.list("/preferences/alice")) == 2


def test_turns_of_a_crashed_session_keep_their_source(vault: Vault) -> None:
    _, attachment = start_session(vault, FactStrategy(model=ScriptedModel([])), session="first")
    attachment.record(with_position(user("I work on Atlas."), "first", 7))
    assert attachment.coordinator is not None
    attachment.coordinator.close()  # as if the process had ended; its turns stay in .memfs/pending
    model = ScriptedModel([[{"content": "Alice works on Atlas."}]])
    distil(vault, [], FactStrategy(model=model), session="second")

    assert only(vault, "/facts/alice").header.source == "session first, message 7"


# --- preferences


def test_a_preference_has_its_categories_as_tags_and_its_context_as_second_paragraph(vault: Vault) -> None:
    reply = {
        "content": "Alice likes sushi with tuna.", "context": "Said when lunch came up.",
        "categories": ["Food", "Lunch"],
    }  # fmt: skip
    distil(vault, [user("I like sushi with tuna")], PreferenceStrategy(model=ScriptedModel([[reply]])))

    memory = only(vault, "/preferences/alice")
    assert memory.body.strip() == "Alice likes sushi with tuna.\n\nSaid when lunch came up."
    assert memory.header.type == "preference"
    assert list(memory.header.tags) == ["food", "lunch"]
    assert memory.header.source == "session s-1, message 0"
    assert "categories" not in memory.header.values


def test_an_updated_preference_keeps_tags_added_by_a_person(vault: Vault) -> None:
    vault.add("Alice likes sushi.", "/preferences/alice", type="preference", tags=["mine", "food"])
    reply = {
        "content": "Alice likes sushi with tuna.", "context": "Said twice.", "categories": ["food", "fish"],
        "action": "update", "target": 1,
    }  # fmt: skip
    distil(vault, [user("I like sushi with tuna")], PreferenceStrategy(model=ScriptedModel([[reply]])))

    memory = only(vault, "/preferences/alice")
    assert list(memory.header.tags) == ["mine", "food", "fish"]
    assert memory.body.strip() == "Alice likes sushi with tuna.\n\nSaid twice."


@pytest.mark.parametrize("reply", [{"categories": "food"}, {"categories": [3, None]}, {"context": 3}, {}])
def test_a_preference_with_missing_or_invalid_parts_is_stored(vault: Vault, reply: dict[str, Any]) -> None:
    distil(vault, [user("sushi")], PreferenceStrategy(model=ScriptedModel([[{"content": "Sushi.", **reply}]])))

    assert only(vault, "/preferences/alice").body.strip() == "Sushi."


def test_the_schema_for_a_model_has_the_fields_of_a_preference(vault: Vault) -> None:
    model = ScriptedModel([[]])
    distil(vault, [user("sushi")], PreferenceStrategy(model=model))

    items = (model.calls[0].schema or {})["properties"]["facts"]["items"]
    assert items["required"] == ["content", "context", "categories"]


# --- summaries


def test_a_summary_is_one_file_per_session_with_one_heading_per_topic(vault: Vault) -> None:
    replies = [
        [{"topic": "Lunch", "content": "Sushi was wished."}, {"topic": "## Trips #", "content": "# Porto\n\nIn May."}],
        [{"topic": "lunch", "content": "Sushi with tuna was bought."}, {"topic": "Work", "content": "Atlas is late."}],
    ]  # fmt: skip
    strategy = SummaryStrategy(model=ScriptedModel(replies))
    distil(vault, [user("a")], strategy)
    distil(vault, [user("b"), user("c")], strategy, first=1)

    memory = only(vault, "/summaries")
    assert memory.path == "summaries/alice/s-1/summary.md"
    assert memory.header.type == "summary"
    assert memory.header.source == "session s-1, message 2"
    assert memory.body.strip() == (
        "# Summary\n\n## lunch\n\nSushi with tuna was bought.\n\n## Trips\n\n### Porto\n\nIn May.\n\n"
        "## Work\n\nAtlas is late."
    )


def test_the_model_gets_the_current_summary_and_the_edited_topics(vault: Vault) -> None:
    model = ScriptedModel([[{"topic": "Lunch", "content": "Sushi."}, {"topic": "Work", "content": "Atlas."}], []])
    strategy = SummaryStrategy(model=model)
    distil(vault, [user("a")], strategy)
    path = vault.root / "summaries/alice/s-1/summary.md"
    path.write_text(path.read_text().replace("Atlas.", "Atlas, with Bob."))
    distil(vault, [user("b")], strategy)

    assert "Atlas, with Bob." in prompt_of(model)
    assert "A person edited the topics Work:" in str(model.calls[1].system)
    assert "Lunch" not in str(model.calls[1].system)


def test_edits_of_a_person_in_a_summary_are_kept(vault: Vault) -> None:
    replies = [
        [{"topic": topic, "content": f"{topic} one."} for topic in ("Lunch", "Work", "Trips")],
        [{"topic": topic, "content": f"{topic} two."} for topic in ("Lunch", "Work", "Trips")],
    ]
    strategy = SummaryStrategy(model=ScriptedModel(replies))
    distil(vault, [user("a")], strategy)
    path = vault.root / "summaries/alice/s-1/summary.md"
    text = path.read_text().replace("Work one.", "Work, said Bob.").replace("## Trips\n\nTrips one.\n", "")
    path.write_text(text.replace("# Summary\n", "# Our summary\n\nBy hand.\n") + "## Mine\n\nMy own words.\n")
    distil(vault, [user("b")], strategy)

    body = vault.read("summaries/alice/s-1/summary.md").body.strip()
    assert body == (
        "# Our summary\n\nBy hand.\n\n## Lunch\n\nLunch two.\n\n## Work\n\nWork, said Bob.\n\nWork two.\n\n"
        "## Mine\n\nMy own words."
    )


def test_two_concurrent_writers_of_a_summary_lose_nothing(vault: Vault) -> None:
    """Each reads the file before the other writes it."""
    other = Vault(vault.root)

    def meanwhile(_: Any) -> Any:
        reply = [[{"topic": "Theirs", "content": "Said there."}]]
        distil(other, [user("b")], SummaryStrategy(model=ScriptedModel(reply)), first=1)
        return [{"topic": "Ours", "content": "Said here."}]

    distil(vault, [user("a")], SummaryStrategy(model=ScriptedModel([meanwhile])))

    body = only(vault, "/summaries").body
    assert "## Theirs\n\nSaid there." in body
    assert "## Ours\n\nSaid here." in body


def test_concurrent_first_writes_of_a_summary_create_one_file(vault: Vault) -> None:
    count = 8
    ready = threading.Barrier(count)

    def add(number: int) -> None:
        store = make_store(SummaryStrategy(), Vault(vault.root), actor="alice", session="s-1")
        ready.wait(WAIT_SECONDS)
        for part in range(3):
            wait(store.add(f"## Topic {number}-{part}\n\nText {number}-{part}.\n"))

    with ThreadPoolExecutor(count) as pool:
        list(pool.map(add, range(count)))

    memory = only(vault, "/summaries")
    assert memory.path == "summaries/alice/s-1/summary.md"
    assert sorted((one.title, one.text) for one in parse_sections(memory.body)[1]) == [
        (f"Topic {number}-{part}", f"Text {number}-{part}.") for number in range(count) for part in range(3)
    ]
    assert edited_titles(memory.body, section_marks(memory.header.values)) == []


# --- episodes


def test_an_episode_and_a_reflection_one_namespace_up(vault: Vault) -> None:
    vault.add("The bakery was called, and nobody answered.", "/episodes/alice/s-0", type="episode")
    episode = {
        "content": "A table was booked by mail.", "situation": "The phone of the bakery was dead.",
        "intent": "A table for two.", "actions": "Called twice, then wrote.", "outcome": "Booked.",
    }  # fmt: skip

    def answer(messages: Any) -> Any:
        return (
            [episode] if "Extract the episodes" in messages[0]["content"] else [{"content": "The bakery reads mail."}]
        )

    model = ScriptedModel([answer, answer])
    distil(vault, [user("Book a table at the bakery, by phone"), assistant("Nobody answered. I wrote a mail.")],
           EpisodeStrategy(model=model))  # fmt: skip

    found = {memory.header.type: memory for memory in vault.list("/episodes/alice") if "s-0" not in memory.path}
    assert found["episode"].path.startswith("episodes/alice/s-1/")
    assert found["episode"].body.strip() == (
        "A table was booked by mail.\n\nSituation: The phone of the bakery was dead.\n\nIntent: A table for two.\n\n"
        "Actions: Called twice, then wrote.\n\nOutcome: Booked."
    )
    assert str(found["reflection"].namespace) == "/episodes/alice"
    assert found["reflection"].header.source == "session s-1, message 0"
    reflecting = next(call for call in model.calls if "Extract the lessons" in call.messages[0]["content"])
    assert "nobody answered" in str(reflecting.messages[0]["content"])


def test_a_reflection_does_not_update_an_episode(vault: Vault) -> None:
    vault.add("The bakery was called, and nobody answered.", "/episodes/alice/s-0", type="episode")

    def answer(messages: Any) -> Any:
        is_episode = "Extract the episodes" in messages[0]["content"]
        return [] if is_episode else [{"content": "Write to the bakery.", "action": "update", "target": 1}]

    distil(vault, [user("The bakery, by phone")], EpisodeStrategy(model=ScriptedModel([answer, answer])))

    assert {memory.body.strip() for memory in vault.list("/episodes")} == {
        "The bakery was called, and nobody answered.", "Write to the bakery.",
    }  # fmt: skip


# --- custom strategies


class Allergies:
    """A custom strategy without a model."""

    name, namespace, type = "allergies", "/health/{actorId}", "allergy"

    async def extract(self, messages: Sequence[Message], context: Any) -> Sequence[Fact]:
        return [Fact(message["content"], {"level": 3}) for message in messages if "allergic" in message["content"]]


def test_a_custom_strategy(vault: Vault) -> None:
    distil(vault, [user("I am allergic to nuts."), user("And I like tea.")], Allergies())

    memory = only(vault, "/health/alice")
    assert memory.body.strip() == "I am allergic to nuts."
    assert (memory.header.type, memory.header.get("level")) == ("allergy", 3)
    assert memory.header.source == "session s-1, message 0"


# --- no model


def test_a_custom_strategy_can_be_synchronous(vault: Vault) -> None:
    class Echo:
        name, namespace = "heard", "/heard/{actorId}"

        def extract(self, messages: Sequence[Message], context: Any) -> list[Fact]:
            return [Fact(message["content"]) for message in messages]

    distil(vault, [user("I am allergic to nuts.")], Echo())  # type: ignore[arg-type]
    assert [memory.body.strip() for memory in vault.list("/heard/alice")] == ["I am allergic to nuts."]


def test_a_strategy_that_does_not_return_facts_is_named_in_the_log(
    vault: Vault, caplog: pytest.LogCaptureFixture
) -> None:
    class Invalid:
        name, namespace = "odd", "/odd"

        async def extract(self, messages: Sequence[Message], context: Any) -> Any:
            return ["a text"]

    distil(vault, [user("Hi.")], Invalid())
    assert "strategy odd: extract: 'a text' is not a Fact" in caplog.text


def test_without_a_model_a_summary_is_extractive_and_the_others_are_off(
    vault: Vault, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "memfs"):
        memory, attachment = start_session(
            vault, SummaryStrategy("sum"), PreferenceStrategy("wishes"), FactStrategy("facts"), EpisodeStrategy("past")
        )
        for number, text in enumerate(["I like sushi with tuna.", "Atlas is due on 25 November 2026."]):
            attachment.record(with_position(user(text), "s-1", number))
            wait(attachment.flush())
        wait(memory.close())

    assert [record.getMessage() for record in caplog.records] == [
        "no model: wishes, facts, past, past-reflections off, sum extractive; model= gives a strategy one"
    ]
    assert [memory.path for memory in vault.list()] == ["summaries/alice/s-1/summary.md"]
    assert only(vault, "/").body.strip() == (
        "# Summary\n\n## Highlights\n\n- user: I like sushi with tuna.\n- user: Atlas is due on 25 November 2026."
    )


def test_a_session_without_persistence_is_not_distilled(vault: Vault) -> None:
    config = VaultMemoryConfig(
        vault, "s-1", "alice", strategies=[SummaryStrategy()], persistence_mode=PersistenceMode.NONE
    )

    assert LongTerm(config).attach() is None
