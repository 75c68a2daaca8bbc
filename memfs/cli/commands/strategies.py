"""Commands about what is distilled from sessions: strategies."""

import argparse
import importlib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from memfs.agent.distill.rerun import Conversation, StrategyResult, group_by_actor, load_conversations, rerun
from memfs.agent.distill.strategies import (
    EpisodeStrategy,
    FactStrategy,
    ModelStrategy,
    PreferenceStrategy,
    SummaryStrategy,
)
from memfs.agent.models.clients import ScriptedModel, as_model, name_of
from memfs.cli.inputs import open_vault, text_of
from memfs.cli.output import count, plain, print_json
from memfs.errors import MemfsError, SettingsError
from memfs.vault.vault import Vault

MODEL = "MEMFS_MODEL"  # the environment variable
KINDS: Mapping[str, type[ModelStrategy]] = {
    "summary": SummaryStrategy,
    "preferences": PreferenceStrategy,
    "facts": FactStrategy,
    "episodes": EpisodeStrategy,
}
_SCRIPT = 'Write a JSON array of a model\'s replies, such as [[{"content": "Alice likes tea."}]].'
_NAMED = "Name an object of a module that Python finds here, such as --model my_models:claude, or set MEMFS_MODEL so."
BY_DEFAULT = ("summary", "preferences", "facts")
_WORDS = {
    "off": "off: it needs a model; give one by --model",
    "extractive": "extractive, for there is no model",
    "failed": "failed: its turns are kept, see `memfs retry`",
    "done": "",
}


def run_strategies(args: argparse.Namespace) -> int:
    """Distil a session once more."""
    model = _model(args)
    with open_vault(args.vault) as vault:
        chosen = [_strategy(kind, vault) for kind in dict.fromkeys(args.strategy or BY_DEFAULT)]
        found = load_conversations(vault, args.session)
        said = group_by_actor(found, only=args.actor or "", default=_actor(vault))
        done = {
            actor: rerun(chosen, own, vault=vault, actor=actor, session=args.session, model=model)
            for actor, own in said.items()
        }
    if args.json:
        _print_facts(args.session, model, said, done)
    else:
        if not said:
            print(f"{plain(args.session)}: no messages")
        for actor, results in done.items():
            print(f"{plain(args.session)}: {count(_messages(said[actor]), 'message')} of {plain(actor)}")
            for one in results:
                _show(one)
    return 1 if any(one.state == "failed" for results in done.values() for one in results) else 0


def _messages(said: Sequence[Conversation]) -> int:
    return sum(len(one.messages) for one in said)


def _print_facts(
    session: str, model: Any, said: Mapping[str, Sequence[Conversation]], done: Mapping[str, Sequence[StrategyResult]]
) -> None:
    facts = {
        "session": session,
        "actor": next(iter(said)) if len(said) == 1 else None,
        "messages": sum(map(_messages, said.values())),
        "model": name_of(model) if model else None,
        "strategies": [{"actor": actor} | _facts(one) for actor, results in done.items() for one in results],
    }
    print_json(facts)


def _show(one: StrategyResult) -> None:
    said = _WORDS[one.state] or ("" if one.changes else "nothing new")
    print(f"{plain(one.name)} {plain(one.namespace)}" + (f": {said}" if said else ""))
    for outcome, path in one.changes:
        print(f"  {outcome} {plain(path)}")


def _facts(one: StrategyResult) -> dict[str, Any]:
    return asdict(one) | {"changes": [{"outcome": outcome, "path": path} for outcome, path in one.changes]}


def _strategy(kind: str, vault: Vault) -> ModelStrategy:
    """A strategy, with the template that memfs.yaml has for it."""
    make: Any = KINDS[kind]
    template = vault.settings.get("namespaces", {}).get(kind)
    made: ModelStrategy = make(kind, template) if template else make(kind)
    return made


def _actor(vault: Vault) -> str:
    """Whose conversations are of which nobody says so; nobody's, if nothing does."""
    return os.environ.get("MEMFS_ACTOR") or vault.settings.get("actor") or ""


def _model(args: argparse.Namespace) -> Any:
    """The model that was asked for: a script of replies, or an object by its module and name; None if neither was."""
    if args.script:
        return ScriptedModel(_replies(args.script))
    named = args.model or os.environ.get(MODEL)
    return _imported(named) if named else None


def _replies(path: str) -> Sequence[Any]:
    if path == "-":
        text = text_of(["-"])
    else:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    try:
        replies = json.loads(text)
    except ValueError as error:
        raise SettingsError(path, f"not JSON: {error}").with_hint(_SCRIPT) from None
    if not isinstance(replies, list):
        raise SettingsError(path, "not a JSON array of replies").with_hint(_SCRIPT)
    return replies


def _imported(named: str) -> Any:
    module, _, name = named.partition(":")
    if not module or not name:
        raise SettingsError(f"model {named!r}", "is not MODULE:NAME").with_hint(_NAMED)
    sys.path.append(os.getcwd())  # behind all others: a module of the directory stands for none of Python's
    try:
        return as_model(getattr(importlib.import_module(module), name))
    except MemfsError:
        raise
    except Exception as error:
        raise SettingsError(f"model {named!r}", f"cannot be had: {error}").with_hint(_NAMED) from error
    finally:
        sys.path.remove(os.getcwd())
