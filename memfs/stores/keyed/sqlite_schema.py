"""The schema of a SqliteStore, as numbered steps that only go forward. Pure: statements, and what to do with rows.

A step that has shipped is never edited; what is to be different comes as the next one.
"""

from typing import NamedTuple


class Step(NamedTuple):
    """One version of the schema: its statements, and whether the values are cut into words anew after it."""

    statements: tuple[str, ...]
    indexes: bool = False


STEPS = (
    Step(
        (
            """CREATE TABLE entries (
                id INTEGER PRIMARY KEY,
                key TEXT NOT NULL UNIQUE,
                value TEXT NOT NULL,
                meta TEXT NOT NULL DEFAULT '{}'
            )""",
        )
    ),
    Step(  # full text: what stands in `words` is cut into terms by memfs, so its tokenizer only splits at spaces
        (
            "ALTER TABLE entries ADD COLUMN length INTEGER NOT NULL DEFAULT 0",
            "CREATE VIRTUAL TABLE words USING fts5(terms, tokenize = 'ascii')",
            "CREATE VIRTUAL TABLE vocabulary USING fts5vocab(words, 'row')",
            "CREATE TABLE totals (entries INTEGER NOT NULL, length INTEGER NOT NULL)",
            "INSERT INTO totals SELECT count(*), 0 FROM entries",
            """CREATE TRIGGER entry_added AFTER INSERT ON entries BEGIN
                UPDATE totals SET entries = entries + 1, length = length + new.length;
            END""",
            """CREATE TRIGGER entry_removed AFTER DELETE ON entries BEGIN
                UPDATE totals SET entries = entries - 1, length = length - old.length;
                DELETE FROM words WHERE rowid = old.id;
            END""",
            """CREATE TRIGGER entry_measured AFTER UPDATE OF length ON entries BEGIN
                UPDATE totals SET length = length + new.length - old.length;
            END""",
        ),
        indexes=True,
    ),
)
VERSION = len(STEPS)
