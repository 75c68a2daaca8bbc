"""The way on from an error: its own hint, or one that is looked up now that the error is shown."""

from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise

from memfs.cli.parser import addressed
from memfs.errors import MemfsError, MemoryNotFoundError, SettingsError

MOST = 5  # memories of one command that are looked for


def hints_for(errors: Sequence[BaseException], words: Sequence[str]) -> list[str]:
    """The hint of each error of a command line."""
    named = named_vault(words)
    found = _found([error for error in errors if isinstance(error, MemoryNotFoundError)][:MOST], named)
    hints = [found.get(getattr(error, "ref", ""), "") or getattr(error, "hint", "") for error in errors]
    return [
        hint if isinstance(error, SettingsError) else addressed(hint, named)
        for error, hint in zip(errors, hints, strict=True)
    ]


def named_vault(words: Sequence[str]) -> str | None:
    """The vault that the option of a command line names, whatever else is wrong there."""
    own = list(words[: words.index("--")] if "--" in words else words)
    values = [after for word, after in pairwise(own) if word == "--vault"]
    values += [word.removeprefix("--vault=") for word in own if word.startswith("--vault=")]
    return values[-1] if values else None


def _found(errors: Sequence[MemoryNotFoundError], named: str | None) -> dict[str, str]:
    """By the names that no memory has, where to go on; not where an error knows that itself."""
    refs = [error.ref for error in errors if type(error) is MemoryNotFoundError and "hint" not in vars(error)]
    if refs:
        from memfs.cli.inputs import open_vault
        from memfs.cli.suggestions import Names

        with suppress(MemfsError, OSError), open_vault(named) as vault:
            names = Names(vault)
            return {ref: names.way_on(ref) for ref in refs}
    return {}
