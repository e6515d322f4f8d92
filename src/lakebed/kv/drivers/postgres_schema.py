"""The tables and functions of the PostgreSQL driver, and how they come to be.

A fenced write is one round trip because it is one function call. The functions
are VOLATILE and run under READ COMMITTED, so each statement in them sees what was
committed before it began: the fence's record is read after the lock was granted,
never before.

Locks are advisory, by a hash of (partition, key):

- `swap` takes its record's lock exclusively, and its fence's lock shared, in the order of their numbers;
- `remove` takes its record's lock exclusively;
- `set_rows` takes its fence's lock shared.

So while a fenced write is being decided, the record it stands on cannot be
swapped or removed, and a swap that has returned leaves no fenced write behind that has not
been decided. Row locks (`FOR SHARE`) would give the same safety, but a stream of
writers never lets a swap through; the queue of advisory locks is fair. A version
fence takes the row lock too: such records may also be written by `set_rows`.

The schema's number is stored. A database with a higher one is refused.
"""

from typing import Final

from psycopg import AsyncConnection

from lakebed.errors import CorruptError, ErrorKind

SCHEMA_VERSION: Final = 1

ROW_CHANGED: Final = "LK001"
"""SQLSTATE that `lakebed_kv_set_rows` raises, so that the rows it had already written are undone."""

VERSION_CHANGED: Final = -1
FENCE_LOST: Final = -2
TOO_LATE: Final = -3

ANY: Final = -1
ABSENT: Final = 0

# Held while the schema is looked at or made, so that processes that start together do it once.
_SCHEMA_LOCK: Final = 0x6C616B65626564

_CREATE: Final = f"""
CREATE TABLE lakebed_kv_schema (version integer NOT NULL);

CREATE SEQUENCE lakebed_kv_version;

CREATE TABLE lakebed_kv (
    partition bytea NOT NULL,
    key bytea NOT NULL,
    version bigint NOT NULL,
    names bytea[] NOT NULL DEFAULT '{{}}',
    value bytea NOT NULL,
    PRIMARY KEY (partition, key)
);

CREATE FUNCTION lakebed_kv_swap(
    p_partition bytea, p_key bytea, p_value bytea, p_expected bigint, p_names bytea[], p_lock bigint,
    p_fence_partition bytea, p_fence_key bytea, p_fence_version bigint, p_fence_lock bigint
) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    written bigint;
BEGIN
    IF p_fence_lock < p_lock THEN
        PERFORM pg_advisory_xact_lock_shared(p_fence_lock);
    END IF;
    PERFORM pg_advisory_xact_lock(p_lock);
    IF p_fence_lock >= p_lock THEN
        PERFORM pg_advisory_xact_lock_shared(p_fence_lock);
    END IF;
    IF p_fence_lock IS NOT NULL THEN
        PERFORM 1 FROM lakebed_kv
        WHERE partition = p_fence_partition AND key = p_fence_key AND version = p_fence_version FOR SHARE;
        IF NOT FOUND THEN
            RETURN {FENCE_LOST};
        END IF;
    END IF;
    -- Each of the three decides and writes in one statement: a row may also be written without our lock.
    IF p_expected = {ANY} THEN
        INSERT INTO lakebed_kv (partition, key, version, names, value)
        VALUES (p_partition, p_key, nextval('lakebed_kv_version'), p_names, p_value)
        ON CONFLICT (partition, key) DO UPDATE
        SET version = nextval('lakebed_kv_version'), names = excluded.names, value = excluded.value
        RETURNING version INTO written;
    ELSIF p_expected = {ABSENT} THEN
        INSERT INTO lakebed_kv (partition, key, version, names, value)
        VALUES (p_partition, p_key, nextval('lakebed_kv_version'), p_names, p_value)
        ON CONFLICT (partition, key) DO NOTHING
        RETURNING version INTO written;
    ELSE
        UPDATE lakebed_kv
        SET version = nextval('lakebed_kv_version'), names = p_names, value = p_value
        WHERE partition = p_partition AND key = p_key AND version = p_expected
        RETURNING version INTO written;
    END IF;
    RETURN coalesce(written, {VERSION_CHANGED});
END $$;

CREATE FUNCTION lakebed_kv_set_rows(
    p_partition bytea, p_keys bytea[], p_values bytea[], p_expected bigint[], p_not_after bigint,
    p_fence_partition bytea, p_fence_key bytea, p_fence_version bigint, p_fence_names bytea[],
    p_fence_lock bigint
) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    r record;
BEGIN
    IF p_fence_lock IS NOT NULL THEN
        PERFORM pg_advisory_xact_lock_shared(p_fence_lock);
        IF p_fence_names IS NULL THEN
            PERFORM 1 FROM lakebed_kv
            WHERE partition = p_fence_partition AND key = p_fence_key AND version = p_fence_version FOR SHARE;
        ELSE
            PERFORM 1 FROM lakebed_kv
            WHERE partition = p_fence_partition AND key = p_fence_key
            AND names[1:cardinality(p_fence_names)] = p_fence_names;
        END IF;
        IF NOT FOUND THEN
            RETURN {FENCE_LOST};
        END IF;
    END IF;
    IF (extract(epoch FROM clock_timestamp()) * 1000000)::bigint > p_not_after THEN
        RETURN {TOO_LATE};
    END IF;
    -- In the order of keys: batches that overlap in another order would lock each other out.
    IF p_expected IS NULL THEN
        INSERT INTO lakebed_kv (partition, key, version, value)
        SELECT p_partition, u.k, nextval('lakebed_kv_version'), u.v
        FROM unnest(p_keys, p_values) AS u (k, v) ORDER BY u.k
        ON CONFLICT (partition, key) DO UPDATE
        SET version = nextval('lakebed_kv_version'), names = '{{}}', value = excluded.value;
        RETURN 0;
    END IF;
    FOR r IN SELECT * FROM unnest(p_keys, p_values, p_expected) AS u (k, v, expected) ORDER BY u.k LOOP
        IF r.expected = {ANY} THEN
            INSERT INTO lakebed_kv (partition, key, version, value)
            VALUES (p_partition, r.k, nextval('lakebed_kv_version'), r.v)
            ON CONFLICT (partition, key) DO UPDATE
            SET version = nextval('lakebed_kv_version'), names = '{{}}', value = excluded.value;
        ELSIF r.expected = {ABSENT} THEN
            INSERT INTO lakebed_kv (partition, key, version, value)
            VALUES (p_partition, r.k, nextval('lakebed_kv_version'), r.v)
            ON CONFLICT (partition, key) DO NOTHING;
        ELSE
            UPDATE lakebed_kv SET version = nextval('lakebed_kv_version'), names = '{{}}', value = r.v
            WHERE partition = p_partition AND key = r.k AND version = r.expected;
        END IF;
        IF NOT FOUND THEN
            RAISE EXCEPTION USING ERRCODE = '{ROW_CHANGED}', MESSAGE = 'row changed';
        END IF;
    END LOOP;
    RETURN 0;
END $$;
"""  # noqa: S608  only the constants above go into it


async def ensure_schema(connection: AsyncConnection) -> None:
    """Create tables and functions if they are not there.

    Raises:
        CorruptError: a newer version of lakebed made them.
    """
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock(%s)", (_SCHEMA_LOCK,))
        found = await _schema_version(connection)
        if found > SCHEMA_VERSION:
            raise CorruptError(
                ErrorKind.NEWER_VERSION,
                f"the database has schema {found}, this version of lakebed knows up to {SCHEMA_VERSION}: "
                "upgrade lakebed",
            )
        if not found:
            await connection.execute(_CREATE)
            await connection.execute("INSERT INTO lakebed_kv_schema VALUES (%s)", (SCHEMA_VERSION,))


async def _schema_version(connection: AsyncConnection) -> int:
    cursor = await connection.execute("SELECT to_regclass('lakebed_kv_schema')::text")
    row = await cursor.fetchone()
    if row is None or row[0] is None:
        return 0
    cursor = await connection.execute("SELECT version FROM lakebed_kv_schema")
    row = await cursor.fetchone()
    return 0 if row is None else int(row[0])
