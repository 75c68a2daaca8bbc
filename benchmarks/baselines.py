"""The baselines of memfs: tantivy alone, and SQLite's full text search, over bodies and paths."""

import os
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

import tantivy

from benchmarks.corpus import STOP
from benchmarks.serving import HIT_LIMIT

Found = list[tuple[str, str, str]]  # path, body, snippet


def memories(root: Path) -> Iterator[tuple[str, str]]:
    """Yield path and body of every memory below a directory, as fast as plain Python can read them."""
    start = len(f"{root}/")
    for folder, _, names in os.walk(root / "facts"):
        for name in names:
            path = f"{folder}/{name}"
            fd = os.open(path, os.O_RDONLY)
            data = os.read(fd, os.fstat(fd).st_size)
            os.close(fd)
            yield path[start:], data.decode().split("---\n", 2)[2]


class PlainTantivy:
    """A tantivy index that stores the bodies."""

    def __init__(self, folder: Path) -> None:
        self._index = tantivy.Index.open(str(folder))
        self.schema = self._index.schema
        self._searcher = self._index.searcher()
        self._stems = _analyzer()
        self._analyzer = _analyzer(tantivy.Filter.custom_stopword(STOP))

    @staticmethod
    def build(root: Path, folder: Path) -> None:
        """Index a tree; tantivy chooses the threads and the memory of the writer."""
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
        """Return the best hits for any of the words of a question."""
        return self.found(self.any_of(question))

    def any_of(self, question: str) -> tantivy.Query:
        """Return a query for any of the words of a question."""
        terms = [
            (tantivy.Occur.Should, tantivy.Query.term_query(self.schema, "body", term, "freq"))
            for term in self._analyzer.analyze(question)
        ]
        return tantivy.Query.boolean_query(terms)

    def phrase(self, text: str) -> Found:
        """Return the best hits for a phrase."""
        words: list[str | tuple[int, str]] = [*self._stems.analyze(text)]
        return self.found(tantivy.Query.phrase_query(self.schema, "body", words))

    def prefix(self, start: str) -> Found:
        """Return some memories with a word that starts with the prefix."""
        return self.found(tantivy.Query.regex_query(self.schema, "body", f"{start}.*"))

    def found(self, query: tantivy.Query, order: str | None = None) -> Found:
        """Return the best hits of a query, or the first by a field, with bodies and snippets."""
        snippets = tantivy.SnippetGenerator.create(self._searcher, query, self.schema, "body")
        found = []
        for _, address in self._searcher.search(query, HIT_LIMIT, count=False, order_by_field=order).hits:
            document = self._searcher.doc(address)
            snippet = snippets.snippet_from_doc(document).fragment()
            found.append((document["path"][0], document["body"][0], snippet))
        return found


def _analyzer(*filters: tantivy.Filter) -> tantivy.TextAnalyzer:
    builder = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
    for step in (tantivy.Filter.lowercase(), *filters, tantivy.Filter.stemmer("English")):
        builder = builder.filter(step)
    return builder.build()


class SqliteFts:
    """An FTS5 table with SQLite's Porter stemmer."""

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

    def ask(self, words: Sequence[str]) -> Found:
        """Return the best hits for any of the words."""
        sql = (
            "select path, body, snippet(memory, 0, '', '', '', 24) from memory where memory match ?"
            " order by rank limit ?"
        )
        return self._database.execute(sql, (" OR ".join(f'"{word}"' for word in words), HIT_LIMIT)).fetchall()
