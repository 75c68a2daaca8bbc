"""The command `strategies`: distil a session again."""

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
from memfs.agent.models.clients import as_model, model_name
from memfs.agent.models.scripted import ScriptedModel
from memfs.cli.inputs import open_vault, text_argument
from memfs.cli.output import count, print_json, safe_text
from memfs.errors import MemfsError, SettingsError
from memfs.vault.vault import Vault

MODEL_VARIABLE = "MEMFS_MODEL"
STRATEGIES: Mapping[str, type[ModelStrategy]] = {
    "summary": SummaryStrategy,
    "preferences": PreferenceStrategy,
    "facts": FactStrategy,
    "episodes": EpisodeStrategy,
}
_SCRIPT_HINT = 'Write a JSON array of a model\'s replies, such as [[{"content": "Alice likes tea."}]].'
_MODEL_HINT = "Name an object of a module that Python finds here, such as my_models:claude, by --model or MEMFS_MODEL."
DEFAULT_STRATEGIES = ("summary", "preferences", "facts")
_STATE_TEXTS = {
    "off": "off: it needs a model; give one with --model",
    "extractive": "extractive, because there is no model",
    "failed": "failed: its turns are kept, see `memfs retry`",
    "done": "",
}


def run_strategies(args: argparse.Namespace) -> int:
    """Distil a session again; the exit code is 1 if a strategy failed."""
    model = _model(args)
    with open_vault(args.vault) as vault:
        chosen = [_strategy(kind, vault) for kind in dict.fromkeys(args.strategy or DEFAULT_STRATEGIES)]
        found = load_conversations(vault, args.session)
        per_actor = group_by_actor(found, only=args.actor or "", default=_default_actor(vault))
        done = {
            actor: rerun(chosen, own, vault=vault, actor=actor, session=args.session, model=model)
            for actor, own in per_actor.items()
        }
    if args.json:
        print_json(_result_json(args.session, model, per_actor, done))
    else:
        if not per_actor:
            print(f"{safe_text(args.session)}: no messages")
        for actor, results in done.items():
            print(
                f"{safe_text(args.session)}: {count(_message_count(per_actor[actor]), 'message')} of {safe_text(actor)}"
            )
            for one in results:
                _print_distilled(one)
    return 1 if any(one.state == "failed" for results in done.values() for one in results) else 0


def _message_count(conversations: Sequence[Conversation]) -> int:
    return sum(len(one.messages) for one in conversations)


def _result_json(
    session: str,
    model: Any,
    per_actor: Mapping[str, Sequence[Conversation]],
    done: Mapping[str, Sequence[StrategyResult]],
) -> dict[str, Any]:
    return {
        "session": session,
        "actor": next(iter(per_actor)) if len(per_actor) == 1 else None,
        "messages": sum(map(_message_count, per_actor.values())),
        "model": model_name(model) if model else None,
        "strategies": [{"actor": actor} | _distilled_json(one) for actor, results in done.items() for one in results],
    }


def _print_distilled(one: StrategyResult) -> None:
    note = _STATE_TEXTS[one.state] or ("" if one.changes else "nothing new")
    print(f"{safe_text(one.name)} {safe_text(one.namespace)}" + (f": {note}" if note else ""))
    for outcome, path in one.changes:
        print(f"  {outcome} {safe_text(path)}")


def _distilled_json(one: StrategyResult) -> dict[str, Any]:
    return asdict(one) | {"changes": [{"outcome": outcome, "path": path} for outcome, path in one.changes]}


def _strategy(kind: str, vault: Vault) -> ModelStrategy:
    """Return a strategy, with the namespace template of memfs.yaml if there is one."""
    strategy_class: Any = STRATEGIES[kind]
    template = vault.settings.get("namespaces", {}).get(kind)
    strategy: ModelStrategy = strategy_class(kind, template) if template else strategy_class(kind)
    return strategy


def _default_actor(vault: Vault) -> str:
    """Return the actor of logs that name none; empty if there is no default."""
    return os.environ.get("MEMFS_ACTOR") or vault.settings.get("actor") or ""


def _model(args: argparse.Namespace) -> Any:
    """Return the model of --script, --model or MEMFS_MODEL, the first that is given; None if none is."""
    if args.script:
        return ScriptedModel(_read_replies(args.script))
    name = args.model or os.environ.get(MODEL_VARIABLE)
    return _import_model(name) if name else None


def _read_replies(path: str) -> Sequence[Any]:
    if path == "-":
        text = text_argument(["-"])
    else:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    try:
        replies = json.loads(text)
    except ValueError as error:
        raise SettingsError(path, f"not JSON: {error}").with_hint(_SCRIPT_HINT) from None
    if not isinstance(replies, list):
        raise SettingsError(path, "not a JSON array of replies").with_hint(_SCRIPT_HINT)
    return replies


def _import_model(reference: str) -> Any:
    module, _, name = reference.partition(":")
    if not module or not name:
        raise SettingsError(f"model {reference!r}", "is not MODULE:NAME").with_hint(_MODEL_HINT)
    sys.path.append(os.getcwd())  # last, so that no file here replaces a module of Python
    try:
        return as_model(getattr(importlib.import_module(module), name))
    except MemfsError:
        raise
    except Exception as error:
        raise SettingsError(f"model {reference!r}", f"cannot be imported: {error}").with_hint(_MODEL_HINT) from error
    finally:
        sys.path.remove(os.getcwd())
