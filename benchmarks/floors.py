"""What memfs is measured beside: tantivy by itself, and SQLite's full text search, over bodies and paths."""

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import tantivy

from benchmarks.corpus import STOP

LIMIT = 5  # hits of a question
Found = list[tuple[str, str, str]]  # path, body, snippet


def memories(root: Path) -> Iterator[tuple[str, str]]:
    """Path and body of every memory below a directory, as fast as plain Python reads them."""
    start = len(f"{root}/")
    for folder, _, names in os.walk(root / "facts"):
        for name in names:
            path = f"{folder}/{name}"
            fd = os.open(path, os.O_RDONLY)
            data = os.read(fd, os.fstat(fd).st_size)
            os.close(fd)
            yield path[start:], data.decode().split("---\n", 2)[2]


class Raw:
    """An index of tantivy that keeps the bodies."""

    def __init__(self, folder: Path) -> None:
        self._index = tantivy.Index.open(str(folder))
        self._schema = self._index.schema
        self._searcher = self._index.searcher()
        builder = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple()).filter(tantivy.Filter.lowercase())
        builder = builder.filter(tantivy.Filter.custom_stopword(STOP)).filter(tantivy.Filter.stemmer("English"))
        self._analyzer = builder.build()

    @staticmethod
    def build(root: Path, folder: Path) -> None:
        """Index a tree; the writer has as many threads and as much memory as tantivy chooses."""
        folder.mkdir(parents=True)
        builder = tantivy.SchemaBuilder()
        builder.add_text_field("path", stored=True, tokenizer_name="raw")
        builder.add_text_field("body", stored=True, tokenizer_name="en_stem")
        index = tantivy.Index(builder.build(), path=str(folder))
        writer = index.writer()
        for path, body in memories(root):
            writer.add_document(tantivy.Document(path=path, body=body))
        writer.commit()
        writer.wait_merging_threads()

    def ask(self, question: str) -> Found:
        """The best hits for any of the words of a question."""
        terms = [
            (tantivy.Occur.Should, tantivy.Query.term_query(self._schema, "body", term, "freq"))
            for term in self._analyzer.analyze(question)
        ]
        query = tantivy.Query.boolean_query(terms)
        snippets = tantivy.SnippetGenerator.create(self._searcher, query, self._schema, "body")
        found = []
        for _, address in self._searcher.search(query, LIMIT, count=False).hits:
            document = self._searcher.doc(address)
            snippet = snippets.snippet_from_doc(document).fragment()
            found.append((document["path"][0], document["body"][0], snippet))
        return found


class Fts:
    """A table of FTS5, with the stemmer that belongs to it."""

    def __init__(self, file: Path) -> None:
        self._database = sqlite3.connect(file)

    @staticmethod
    def build(root: Path, file: Path) -> None:
        """Index a tree."""
        database = sqlite3.connect(file)
        database.execute("create virtual table memory using fts5(body, path unindexed, tokenize='porter unicode61')")
        database.executemany("insert into memory(path, body) values (?, ?)", memories(root))
        database.execute("insert into memory(memory) values ('optimize')")
        database.commit()
        database.close()

    def ask(self, words: list[str]) -> Found:
        """The best hits for any of the words."""
        sql = (
            "select path, body, snippet(memory, 0, '', '', '', 24) from memory where memory match ?"
            " order by rank limit ?"
        )
        return self._database.execute(sql, (" OR ".join(f'"{word}"' for word in words), LIMIT)).fetchall()
