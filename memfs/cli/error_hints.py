"""Hints for errors: the hint of the error itself, or one that is looked up in the vault when the error is printed."""

from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise

from memfs.cli.parser import with_vault_option
from memfs.errors import MemfsError, MemoryNotFoundError, SettingsError

MAX_LOOKUPS = 5  # missing memories of one command for which suggestions are searched


def hints_for(errors: Sequence[BaseException], words: Sequence[str]) -> list[str]:
    """Return the hint of each error, with the --vault of the command line in its commands; empty if it has none."""
    vault = vault_from_words(words)
    found = _not_found_hints([error for error in errors if isinstance(error, MemoryNotFoundError)][:MAX_LOOKUPS], vault)
    hints = [found.get(getattr(error, "ref", ""), "") or getattr(error, "hint", "") for error in errors]
    return [
        hint if isinstance(error, SettingsError) else with_vault_option(hint, vault)
        for error, hint in zip(errors, hints, strict=True)
    ]


def vault_from_words(words: Sequence[str]) -> str | None:
    """Return the value of --vault, even if the command line cannot be parsed; None if it has no --vault."""
    options = list(words[: words.index("--")] if "--" in words else words)
    values = [after for word, after in pairwise(options) if word == "--vault"]
    values += [word.removeprefix("--vault=") for word in options if word.startswith("--vault=")]
    return values[-1] if values else None


def _not_found_hints(errors: Sequence[MemoryNotFoundError], vault_option: str | None) -> dict[str, str]:
    """Return a hint by ref, empty if nothing is similar. Errors with a hint of their own are left out."""
    refs = [error.ref for error in errors if type(error) is MemoryNotFoundError and "hint" not in vars(error)]
    if refs:
        from memfs.cli.inputs import open_vault
        from memfs.cli.suggestions import RefSuggester

        with suppress(MemfsError, OSError), open_vault(vault_option) as vault:
            suggester = RefSuggester(vault)
            return {ref: suggester.hint_for(ref) for ref in refs}
    return {}
