"""VaultMemoryConfig and RetrievalConfig: every field is checked on creation, and named in the error."""

import math
from pathlib import Path
from typing import Any

import pytest

from memfs import Vault
from memfs.agent.distill.config import PersistenceMode, RetrievalConfig, VaultMemoryConfig
from memfs.agent.distill.long_term import LongTerm
from memfs.agent.distill.strategies import (
    EpisodeStrategy,
    FactStrategy,
    PreferenceStrategy,
    ReflectionStrategy,
    SummaryStrategy,
)
from memfs.agent.triggers import InvocationTrigger
from memfs.errors import InvalidSetupError

LONE_SURROGATE = "\ud800"


def config(**given: Any) -> VaultMemoryConfig:
    return VaultMemoryConfig(**{"vault": "notes", "session_id": "s-1", "actor_id": "alice", **given})


class CustomStrategy:
    """A custom strategy."""

    name, namespace = "own", "/own/{actorId}"

    async def extract(self, messages: Any, context: Any) -> list[Any]:
        return []


def test_optional_fields_have_defaults() -> None:
    settings = config()

    assert (settings.batch_size, settings.flush_interval_seconds, settings.context_tag) == (1, None, "user_context")
    assert settings.filter_restored_tool_context is False
    assert settings.persistence_mode is PersistenceMode.FULL
    assert (settings.retrieval_config, settings.strategies, settings.metadata()) == (None, (), {})
    assert (RetrievalConfig().top_k, RetrievalConfig().relevance_score, RetrievalConfig().strategy_id) == (
        10,
        0.2,
        None,
    )


@pytest.mark.parametrize(
    ("field", "values"),
    {
        "vault": [None, 3, ["notes"], "", " "],
        "session_id": ["", "  ", None, 7, True, LONE_SURROGATE],
        "actor_id": ["", "\t", None, 7, LONE_SURROGATE],
        "retrieval_config": [["/facts"], "/facts", {"/facts": {"top_k": 3}}, {3: RetrievalConfig()}],
        "batch_size": [0, 101, -1, True, "3", 1.0, None],
        "flush_interval_seconds": [0, -1, True, "3", math.inf, math.nan],
        "context_tag": ["", " ", "a b", "1a", "a>", "</a", None, 3, "x" * 65, "tag\n"],
        "filter_restored_tool_context": [None, 1, "yes"],
        "default_metadata": [
            "x", ["x"], {"": "x"}, {" ": 1}, {3: "x"}, {"x": None}, {"x": ["y"]}, {"x": math.nan},
            {str(number): "x" for number in range(16)},
        ],
        "metadata_provider": ["x", 3, {}],
        "persistence_mode": ["full", "SOME", True, None, 1],
        "strategies": ["facts", {"a": 1}, 3, [FactStrategy], ["facts"], [object()], [FactStrategy(), FactStrategy()]],
    }.items(),
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_an_invalid_value_is_refused_with_the_name_of_its_field(field: str, values: list[Any]) -> None:
    for value in values:
        with pytest.raises(InvalidSetupError, match=f"^VaultMemoryConfig: {field}") as caught:
            config(**{field: value})
        assert isinstance(caught.value, ValueError)
        assert "docs/sessions.md" in caught.value.hint or field == "strategies"


@pytest.mark.parametrize(
    ("field", "values"),
    {
        "top_k": [0, 1001, True, "3", 2.0, None],
        "relevance_score": [-0.1, 1.1, True, "0.2", math.nan, None],
        "strategy_id": ["", "  ", 3, True],
    }.items(),
)
def test_an_invalid_retrieval_config_is_refused_with_the_name_of_its_field(field: str, values: list[Any]) -> None:
    for value in values:
        with pytest.raises(InvalidSetupError, match=f"^RetrievalConfig: {field}: "):
            RetrievalConfig(**{field: value})


@pytest.mark.parametrize("kind", [VaultMemoryConfig, RetrievalConfig])
def test_an_unknown_key_is_refused_by_its_name(kind: Any) -> None:
    with pytest.raises(TypeError, match="memory_id"):
        kind(memory_id="m-1")


@pytest.mark.parametrize("limit", [1, 100])
def test_the_limits_themselves_are_allowed(limit: int) -> None:
    assert config(batch_size=limit, flush_interval_seconds=0.5, context_tag="a").batch_size == limit
    assert RetrievalConfig(top_k=1000, relevance_score=1).top_k == 1000
    assert RetrievalConfig(top_k=1, relevance_score=0).relevance_score == 0


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("/facts/{actor}", r"unknown placeholder \{actor\}"),
        ("/facts/{actorId", "brace"),
        ("/facts/../x", "leaves the tree"),
        ("/facts/{memoryStrategyId}", r"no value for \{memoryStrategyId\}"),
        ("/sessions/{actorId}", "sessions/ is reserved"),
        ("/archive", "archive/ is reserved"),
    ],
)
def test_an_invalid_template_is_refused_with_its_text(template: str, reason: str) -> None:
    with pytest.raises(InvalidSetupError, match=rf"retrieval_config\['.*'\]: .*{reason}"):
        config(retrieval_config={template: RetrievalConfig()})


def test_each_placeholder_of_a_template_becomes_one_path_segment() -> None:
    settings = config(
        actor_id="../bob/{sessionId}",
        retrieval_config={
            "/facts/{actorId}": RetrievalConfig(),
            "x/{session_id}/{memoryStrategyId}": RetrievalConfig(strategy_id="p"),
        },
    )

    (first, _), (second, second_config) = settings.lookups()
    assert first == "/facts/%2E.%2Fbob%2F%7BsessionId%7D"
    assert (second, second_config.strategy_id) == ("/x/s-1/p", "p")


def test_a_strategy_id_can_be_the_name_of_a_strategy() -> None:
    settings = config(
        strategies=[PreferenceStrategy("PreferenceLearner")],
        retrieval_config={"/": RetrievalConfig(strategy_id="PreferenceLearner")},
    )

    assert settings.lookups()[0][1].strategy_id == "preference"


def test_an_id_that_is_too_long_for_a_name_is_refused() -> None:
    for field in ("session_id", "actor_id"):
        for value in ("a" * 101, "/" * 34, "é" * 121):
            with pytest.raises(InvalidSetupError, match=f"^VaultMemoryConfig: {field}: .*longer than"):
                config(**{field: value})
        assert getattr(config(**{field: "a" * 100}), field) == "a" * 100


def test_a_config_is_immutable_and_copies_its_arguments() -> None:
    given = {"/facts": RetrievalConfig()}
    settings = config(retrieval_config=given)
    given["/{nobody}"] = RetrievalConfig()

    assert list(settings.retrieval_config or ()) == ["/facts"]
    with pytest.raises(AttributeError):
        settings.batch_size = 3  # type: ignore[misc]


def test_the_metadata_provider_is_called_each_time_and_overrides_the_defaults(caplog: pytest.LogCaptureFixture) -> None:
    numbers = iter(range(9))
    settings = config(default_metadata={"place": "here", "run": "x"}, metadata_provider=lambda: {"run": next(numbers)})

    assert [settings.metadata(), settings.metadata()] == [{"place": "here", "run": 0}, {"place": "here", "run": 1}]
    assert config(default_metadata={"a": 1}, metadata_provider=lambda: {"b": []}).metadata() == {"a": 1}
    assert "metadata_provider['b']: [] is not" in caplog.text


def test_a_vault_can_be_a_path(tmp_path: Path) -> None:
    vault = Vault.init(tmp_path / "notes")

    assert config(vault=vault).vault is vault
    assert config(vault=tmp_path / "notes").vault == tmp_path / "notes"


def test_a_scope_has_no_sessions(tmp_path: Path) -> None:
    with pytest.raises(InvalidSetupError, match=r"^VaultMemoryConfig: vault: .* is not a whole vault"):
        config(vault=Vault.init(tmp_path / "notes").scope("/facts"))


# --- strategies


@pytest.mark.parametrize("kind", [FactStrategy, PreferenceStrategy, SummaryStrategy, EpisodeStrategy])
@pytest.mark.parametrize(
    ("field", "values"),
    {
        "name": ["", " ", None, 3, "/preferences/{actorId}"],
        "namespace": ["", "/", None, 3, "/a/{b}", "/a/..", "/{sessionId"],
        "trigger": [InvocationTrigger, "every turn", 3],
        "prompt": ["", " ", 3],
        "append_to_prompt": ["", 3],
        "context_messages": [-1, 101, True, "3", None, 1.5],
    }.items(),
)
def test_an_invalid_strategy_is_refused_with_the_name_of_its_field(kind: Any, field: str, values: list[Any]) -> None:
    for value in values:
        with pytest.raises(InvalidSetupError, match=f"^{kind.__name__}: {field}: "):
            kind(**{field: value})


def test_strategies_have_default_names_and_namespaces() -> None:
    settings = [SummaryStrategy(), PreferenceStrategy(), FactStrategy(), EpisodeStrategy(), ReflectionStrategy()]

    assert [(one.name, one.namespace) for one in settings] == [
        ("summary", "/summaries/{actorId}/{sessionId}"),
        ("preferences", "/preferences/{actorId}"),
        ("facts", "/facts/{actorId}"),
        ("episodes", "/episodes/{actorId}/{sessionId}"),
        ("reflections", "/episodes/{actorId}"),
    ]


def test_the_namespace_of_a_summary_contains_the_session() -> None:
    with pytest.raises(InvalidSetupError, match=r"namespace: .* one file per session"):
        SummaryStrategy("sum", "/summaries/{actorId}")
    assert SummaryStrategy("sum", "/s/{session_id}").namespace == "/s/{session_id}"


def test_the_namespace_of_episodes_has_a_parent_for_reflections() -> None:
    with pytest.raises(InvalidSetupError, match=r"namespace: .* no parent for reflections"):
        EpisodeStrategy("e", "/episodes")
    assert EpisodeStrategy("e", "/episodes", reflects=False).companions == []


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", ""),
        ("namespace", "/a/{b}"),
        ("reads", "some"),
        ("type", " "),
        ("context_messages", "9"),
        ("trigger", 1),
    ],
)
def test_a_custom_strategy_is_checked_too(field: str, value: Any) -> None:
    strategy = CustomStrategy()
    setattr(strategy, field, value)

    with pytest.raises(InvalidSetupError, match=rf"strategies\[0\]: {field}: "):
        config(strategies=[strategy])


def test_an_invalid_model_is_refused_with_the_name_of_its_strategy(tmp_path: Path) -> None:
    settings = config(vault=Vault.init(tmp_path), strategies=[FactStrategy("learner", model="gpt")])

    with pytest.raises(InvalidSetupError, match=r"^strategy learner: model: str: is not a model$") as caught:
        LongTerm(settings)
    assert "OpenAIModel" in caught.value.hint


def test_a_custom_strategy_needs_only_a_name_a_namespace_and_extract() -> None:
    strategy = CustomStrategy()

    assert config(strategies=[strategy]).strategies == (strategy,)
