"""Messages of a conversation."""

from typing import Any


def user(text: str) -> dict[str, Any]:
    """Return a message of the user, with its content as a string."""
    return {"role": "user", "content": text}


def text_message(text: str, role: str = "user") -> dict[str, Any]:
    """Return a message with one block of text."""
    return {"role": role, "content": [{"text": text}]}
