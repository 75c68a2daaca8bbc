"""Commands about what is distilled from sessions: strategies."""

import argparse
import importlib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from memfs.agent.models import ScriptedModel, as_model, name_of
from memfs.agent.session.rerun import Distilled, conversations, rerun
from memfs.agent.session.sessions import Sessions
from memfs.agent.session.strategies import (
    EpisodeStrategy,
    FactStrategy,
    ModelStrategy,
    PreferenceStrategy,
    SummaryStrategy,
)
from memfs.cli.inputs import open_vault, text_of
from memfs.cli.output import count, plain, print_json
from memfs.errors import MemfsError, SettingsError
from memfs.vault import Vault

MODEL = "MEMFS_MODEL"  # the environment variable
KINDS: Mapping[str, type[ModelStrategy]] = {
    "summary": SummaryStrategy,
    "preferences": PreferenceStrategy,
    "facts": FactStrategy,
    "episodes": EpisodeStrategy,
}
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
        said = conversations(vault, args.session)
        actor = args.actor or Sessions(vault).read(args.session).actor or _actor(vault)
        done = rerun(chosen, said, vault=vault, actor=actor, session=args.session, model=model)
    if args.json:
        facts = {"session": args.session, "actor": actor, "messages": sum(map(len, said))}
        print_json(facts | {"model": name_of(model) if model else None, "strategies": [_facts(one) for one in done]})
    else:
        print(f"{plain(args.session)}: {count(sum(map(len, said)), 'message')} of {plain(actor)}")
        for one in done:
            _show(one)
    return 1 if any(one.state == "failed" for one in done) else 0


def _show(one: Distilled) -> None:
    said = _WORDS[one.state] or ("" if one.changes else "nothing new")
    print(f"{plain(one.name)} {plain(one.namespace)}" + (f": {said}" if said else ""))
    for outcome, path in one.changes:
        print(f"  {outcome} {plain(path)}")


def _facts(one: Distilled) -> dict[str, Any]:
    return asdict(one) | {"changes": [{"outcome": outcome, "path": path} for outcome, path in one.changes]}


def _strategy(kind: str, vault: Vault) -> ModelStrategy:
    """A strategy, with the template that memfs.yaml has for it."""
    make: Any = KINDS[kind]
    template = vault.settings.get("namespaces", {}).get(kind)
    made: ModelStrategy = make(kind, template) if template else make(kind)
    return made


def _actor(vault: Vault) -> str:
    actor: str = os.environ.get("MEMFS_ACTOR") or vault.settings.get("actor") or ""
    if not actor:
        error = SettingsError("actor", "the session does not say whose it is")
        error.hint = "Give --actor NAME, or set MEMFS_ACTOR, or `actor` in memfs.yaml."
        raise error
    return actor


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
        raise SettingsError(path, f"not JSON: {error}") from None
    if not isinstance(replies, list):
        raise SettingsError(path, "not a JSON array of replies")
    return replies


def _imported(named: str) -> Any:
    module, _, name = named.partition(":")
    if not module or not name:
        raise SettingsError(f"model {named!r}", "is not MODULE:NAME")
    sys.path.append(os.getcwd())  # behind all others: a module of the directory stands for none of Python's
    try:
        return as_model(getattr(importlib.import_module(module), name))
    except MemfsError:
        raise
    except Exception as error:
        raise SettingsError(f"model {named!r}", f"cannot be had: {error}") from error
    finally:
        sys.path.remove(os.getcwd())
