"""The tables of a PostgresStore, as numbered steps that only go forward, and its statements. Texts alone.

Each row belongs to a tenant, the role that wrote it; a policy shows it to nobody else. A step that has shipped is
never edited; what is to be different comes as the next one.
"""

from typing import LiteralString

MINE: LiteralString = "entries.tenant = current_user::text AND entries.store = %s"  # also for whom no policy binds
STEPS: tuple[LiteralString, ...] = (
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
VECTOR_STEPS: tuple[LiteralString, ...] = (
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
WHERE {MINE} AND key = %s AND value = %s
"""  # noqa: S608  texts of ours
GET: LiteralString = f"SELECT value FROM memfs.entries WHERE {MINE} AND key = %s"  # noqa: S608  texts of ours
GET_MANY: LiteralString = f"SELECT key, value FROM memfs.entries WHERE {MINE} AND key = ANY(%s)"  # noqa: S608
META: LiteralString = f"SELECT meta::text FROM memfs.entries WHERE {MINE} AND key = %s"  # noqa: S608
FORGET: LiteralString = f"DELETE FROM memfs.entries WHERE {MINE} AND key = %s RETURNING 1"  # noqa: S608
PAGE: LiteralString = f"""
SELECT key, CASE WHEN %s THEN value END FROM memfs.entries
WHERE {MINE} AND (%s OR key = %s OR key >= %s AND key < %s) AND key > %s ORDER BY key LIMIT %s
"""  # noqa: S608
TOTALS: LiteralString = f"""
SELECT count(*), coalesce(sum(length), 0)::float FROM (SELECT length FROM memfs.entries WHERE {MINE} LIMIT %s) AS chosen
"""  # noqa: S608

# The texts that have one of the terms: those with the rarest, how often each has which, and how many have it.
FIND: LiteralString = f"""
WITH asked AS (
    SELECT term, quoted::tsquery AS query FROM unnest(%s::text[], %s::text[]) AS one (term, quoted)
), found AS MATERIALIZED (
    SELECT key, length, words FROM memfs.entries WHERE {MINE} AND words @@ %s::text::tsquery
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
WHERE {MINE} FOR KEY SHARE OF entries -- so that nobody forgets one before its vector is there
ON CONFLICT (tenant, store, key, model) DO UPDATE SET hash = excluded.hash, embedding = excluded.embedding
"""  # noqa: S608
LACKING: LiteralString = f"""
SELECT entries.key, entries.value, entries.hash FROM memfs.entries LEFT JOIN memfs.vectors
    ON vectors.tenant = entries.tenant AND vectors.store = entries.store AND vectors.key = entries.key
    AND vectors.model = %s AND vectors.hash = entries.hash
WHERE {MINE} AND vectors.key IS NULL ORDER BY entries.key LIMIT %s
"""  # noqa: S608
NEAREST: LiteralString = f"""
WITH near AS MATERIALIZED (
    SELECT entries.key, 1 - (embedding <=> %s::text::vector) AS cosine
    FROM memfs.entries JOIN memfs.vectors USING (tenant, store, key, hash)
    WHERE {MINE} AND model = %s AND embedding IS NOT NULL
)
(SELECT key, cosine FROM near ORDER BY cosine DESC, key LIMIT %s) UNION SELECT key, cosine FROM near WHERE key = ANY(%s)
"""  # noqa: S608
