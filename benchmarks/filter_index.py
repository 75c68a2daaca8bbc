"""Tantivy alone with the fields for filters: namespaces, types and tags as terms, dates and numbers as columns."""

from datetime import datetime
from pathlib import Path

import tantivy

from benchmarks.baselines import Found, PlainTantivy

Query = tantivy.Query
Must = tantivy.Occur.Must


class FilterIndex(PlainTantivy):
    """A tantivy index that stores the bodies and indexes the headers."""

    @staticmethod
    def build(root: Path, folder: Path) -> None:
        """Index a tree."""
        folder.mkdir(parents=True)
        builder = tantivy.SchemaBuilder()
        builder.add_text_field("path", stored=True, tokenizer_name="raw")
        builder.add_text_field("body", stored=True, tokenizer_name="en_stem")
        builder.add_text_field("keys", tokenizer_name="raw", index_option="basic")
        builder.add_date_field("created", fast=True)
        builder.add_integer_field("importance", fast=True)
        writer = tantivy.Index(builder.build(), path=str(folder)).writer()
        for path in (root / "facts").rglob("*.md"):
            _, header, body = path.read_text(encoding="utf-8").split("---\n", 2)
            writer.add_document(_document(path.relative_to(root).as_posix(), header, body))
        writer.commit()
        writer.wait_merging_threads()

    def ask_in(self, question: str, *keys: str) -> Found:
        """Return the best hits for any of the words of a question among memories with all of the keys."""
        terms = [
            (Must, Query.const_score_query(Query.term_query(self.schema, "keys", key, "basic"), 0)) for key in keys
        ]
        return self.found(Query.boolean_query([(Must, self.any_of(question)), *terms]))

    def ask_between(self, question: str, start: datetime, end: datetime) -> Found:
        """Return the best hits created in the span."""
        span = Query.range_query(self.schema, "created", tantivy.FieldType.Date, start, end)
        return self._filtered(question, span)

    def ask_above(self, question: str, importance: int) -> Found:
        """Return the best hits of at least that importance."""
        above = Query.range_query(self.schema, "importance", tantivy.FieldType.Integer, importance)
        return self._filtered(question, above)

    def newest(self) -> Found:
        """Return the newest memories."""
        return self.found(Query.all_query(), "created")

    def _filtered(self, question: str, *filters: Query) -> Found:
        clauses = [(Must, Query.const_score_query(query, 0)) for query in filters]
        return self.found(Query.boolean_query([(Must, self.any_of(question)), *clauses]))


def _document(path: str, header: str, body: str) -> tantivy.Document:
    values = dict(line.split(": ", 1) for line in header.splitlines() if ": " in line)
    tags = [line.removeprefix("  - ") for line in header.splitlines() if line.startswith("  - ")]
    folders = path.split("/")[:-1]
    document = tantivy.Document(path=path, body=body)
    for number in range(len(folders)):
        document.add_text("keys", f"in=/{'/'.join(folders[: number + 1])}")
    for key in (f"type={values['type']}", *(f"tag={tag}" for tag in tags)):
        document.add_text("keys", key)
    document.add_date("created", datetime.fromisoformat(values["created"]))
    document.add_integer("importance", int(values["importance"]))
    return document
