"""The schema of a SqliteStore as numbered, forward-only migrations. Pure: statements only.

A migration that has shipped is never edited; a change to the schema is a new migration.
"""

from typing import NamedTuple


class Migration(NamedTuple):
    """One version of the schema: its statements, and whether all values are indexed again after them."""

    statements: tuple[str, ...]
    reindexes: bool = False


MIGRATIONS = (
    Migration(
        (
            """CREATE TABLE entries (
                id INTEGER PRIMARY KEY,
                key TEXT NOT NULL UNIQUE,
                value TEXT NOT NULL,
                meta TEXT NOT NULL DEFAULT '{}'
            )""",
        )
    ),
    Migration(  # full text: memfs tokenizes what it writes to `words`, so the FTS tokenizer only splits at spaces
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
        reindexes=True,
    ),
)
VERSION = len(MIGRATIONS)
