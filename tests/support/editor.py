"""An editor that saves a file while other processes write it."""

import os
import random
import re
import time
from pathlib import Path

from support.processes import Log, checksummed

PAUSE = 0.002  # seconds at most between two steps of an editor


MAX_LINES, REMOVED_LINES = 60, 20  # lines at which the editor removes the oldest, and how many


TOKEN = re.compile(r"\b(?:save|append|key)-\d+\b")


def edit_by_hand(file: str, saves: int, _: str, path: str) -> None:
    """Act as an editor: read, pause, save in place or by rename."""
    log, rng = Log(path), random.Random(saves)
    for number in range(saves):
        token, began = f"save-{number}", time.monotonic()
        with open(file, encoding="utf-8", newline="") as opened:
            text = opened.read()
        time.sleep(rng.random() * PAUSE)
        text, removed = _without_oldest_lines(text)
        text = text.rstrip("\n") + f"\n{checksummed(token)}\n"
        in_place = rng.random() < 0.5
        if in_place:
            fd = os.open(file, os.O_WRONLY | os.O_TRUNC)
            time.sleep(rng.random() * PAUSE)
            os.write(fd, text.encode())
            os.close(fd)
        else:
            temporary = f"{os.path.dirname(file)}/.{number}.swp"
            Path(temporary).write_text(text, encoding="utf-8", newline="")
            os.rename(temporary, file)
        log.note(kind="save", token=token, began=began, held=TOKEN.findall(text), removed=removed, in_place=in_place)


def _without_oldest_lines(text: str) -> tuple[str, list[str]]:
    """Return a text without its oldest lines, if it is long, and the tokens of these lines."""
    lines = text.splitlines(keepends=True)
    own = [line for line in lines if line.startswith("token ")]
    dropped = set(own[:REMOVED_LINES]) if len(own) > MAX_LINES else set()
    return "".join(line for line in lines if line not in dropped), TOKEN.findall("".join(dropped))
