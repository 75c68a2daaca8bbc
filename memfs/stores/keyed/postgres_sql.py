"""The SQL of a PostgresStore: its tables as numbered, forward-only migrations, and its statements. Constants only.

Each row belongs to a tenant, the role that wrote it; a policy hides it from all other roles. A migration that has
shipped is never edited; a change to the tables is a new migration.
"""

from typing import LiteralString

STORE_FILTER: LiteralString = (
    "entries.tenant = current_user::text AND entries.store = %s"  # the policy does not apply to superusers
)
MIGRATIONS: tuple[LiteralString, ...] = (
    """
    CREATE TABLE memfs.entries (
        tenant text COLLATE "C" NOT NULL DEFAULT current_user,
        store text COLLATE "C" NOT NULL,
        key text COLLATE "C" NOT NULL,
        value text NOT NULL,
        meta json NOT NULL,
        hash bytea NOT NULL,
        length integer NOT NULL,
        words tsvector NOT NULL,
        PRIMARY KEY (tenant, store, key)
    );
    CREATE INDEX entries_words ON memfs.entries USING gin (words);
    ALTER TABLE memfs.entries ENABLE ROW LEVEL SECURITY;
    ALTER TABLE memfs.entries FORCE ROW LEVEL SECURITY;
    CREATE POLICY tenants ON memfs.entries
        USING (tenant = current_user::text) WITH CHECK (tenant = current_user::text);
    """,
)
VECTOR_MIGRATIONS: tuple[LiteralString, ...] = (
    """
    CREATE EXTENSION IF NOT EXISTS vector;
    CREATE TABLE memfs.vectors (
        tenant text COLLATE "C" NOT NULL DEFAULT current_user,
        store text COLLATE "C" NOT NULL,
        key text COLLATE "C" NOT NULL,
        model text COLLATE "C" NOT NULL,
        hash bytea NOT NULL,
        embedding vector,
        PRIMARY KEY (tenant, store, key, model),
        FOREIGN KEY (tenant, store, key) REFERENCES memfs.entries ON DELETE CASCADE
    );
    ALTER TABLE memfs.vectors ENABLE ROW LEVEL SECURITY;
    ALTER TABLE memfs.vectors FORCE ROW LEVEL SECURITY;
    CREATE POLICY tenants ON memfs.vectors
        USING (tenant = current_user::text) WITH CHECK (tenant = current_user::text);
    """,
)
ADD: LiteralString = """
INSERT INTO memfs.entries (store, key, value, meta, hash, length, words)
VALUES (%s, %s, %s, %s::json, %s, %s, %s::text::tsvector)
ON CONFLICT (tenant, store, key) DO UPDATE SET value = excluded.value, meta = excluded.meta, hash = excluded.hash,
    length = excluded.length, words = excluded.words
"""
REVISE: LiteralString = f"""
UPDATE memfs.entries SET value = %s, meta = %s::json, hash = %s, length = %s, words = %s::text::tsvector
WHERE {STORE_FILTER} AND key = %s AND value = %s
"""  # noqa: S608  constants
GET: LiteralString = f"SELECT value FROM memfs.entries WHERE {STORE_FILTER} AND key = %s"  # noqa: S608  constants
GET_MANY: LiteralString = f"SELECT key, value FROM memfs.entries WHERE {STORE_FILTER} AND key = ANY(%s)"  # noqa: S608
META: LiteralString = f"SELECT meta::text FROM memfs.entries WHERE {STORE_FILTER} AND key = %s"  # noqa: S608
FORGET: LiteralString = f"DELETE FROM memfs.entries WHERE {STORE_FILTER} AND key = %s RETURNING 1"  # noqa: S608
PAGE: LiteralString = f"""
SELECT key, CASE WHEN %s THEN value END FROM memfs.entries
WHERE {STORE_FILTER} AND (%s OR key = %s OR key >= %s AND key < %s) AND key > %s ORDER BY key LIMIT %s
"""  # noqa: S608
TOTALS: LiteralString = f"""
SELECT count(*), coalesce(sum(length), 0)::float
FROM (SELECT length FROM memfs.entries WHERE {STORE_FILTER} LIMIT %s) AS chosen
"""  # noqa: S608

# Texts with at least one of the terms, those with the rarest terms first: key, length, count per term in the text, and
# number of texts per term.
SEARCH_WORDS: LiteralString = f"""
WITH asked AS (
    SELECT term, quoted::tsquery AS query FROM unnest(%s::text[], %s::text[]) AS one (term, quoted)
), found AS MATERIALIZED (
    SELECT key, length, words FROM memfs.entries WHERE {STORE_FILTER} AND words @@ %s::text::tsquery
), having_it AS MATERIALIZED (
    SELECT key, term FROM found JOIN asked ON found.words @@ asked.query
), frequency AS MATERIALIZED (
    SELECT term, count(*) AS texts FROM having_it GROUP BY term
), best AS (
    SELECT key FROM having_it JOIN frequency USING (term) GROUP BY key
    ORDER BY sum(ln(1 + %s::float / texts)) DESC, key LIMIT %s
)
SELECT key, length,
    (SELECT json_object_agg(lexeme, cardinality(positions)) FROM unnest(words) WHERE lexeme = ANY(%s))::text,
    (SELECT json_object_agg(term, texts) FROM frequency)::text
FROM best JOIN found USING (key)
"""  # noqa: S608

# --- vectors

PUT_VECTORS: LiteralString = f"""
INSERT INTO memfs.vectors (store, key, model, hash, embedding)
SELECT store, key, %s, made.hash, made.vector::vector
FROM unnest(%s::text[], %s::bytea[], %s::text[]) AS made (name, hash, vector) JOIN memfs.entries ON key = name
WHERE {STORE_FILTER} FOR KEY SHARE OF entries -- no concurrent delete before the vector is inserted
ON CONFLICT (tenant, store, key, model) DO UPDATE SET hash = excluded.hash, embedding = excluded.embedding
"""  # noqa: S608
MISSING_VECTORS: LiteralString = f"""
SELECT entries.key, entries.value, entries.hash FROM memfs.entries LEFT JOIN memfs.vectors
    ON vectors.tenant = entries.tenant AND vectors.store = entries.store AND vectors.key = entries.key
    AND vectors.model = %s AND vectors.hash = entries.hash
WHERE {STORE_FILTER} AND vectors.key IS NULL ORDER BY entries.key LIMIT %s
"""  # noqa: S608
SEARCH_VECTORS: LiteralString = f"""
WITH near AS MATERIALIZED (
    SELECT entries.key, 1 - (embedding <=> %s::text::vector) AS cosine
    FROM memfs.entries JOIN memfs.vectors USING (tenant, store, key, hash)
    WHERE {STORE_FILTER} AND model = %s AND embedding IS NOT NULL
)
(SELECT key, cosine FROM near ORDER BY cosine DESC, key LIMIT %s) UNION SELECT key, cosine FROM near WHERE key = ANY(%s)
"""  # noqa: S608
