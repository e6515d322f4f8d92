"""Found in review: in a bare repository, before its refs are restored, everything looked like garbage."""

import pytest

from lakebed.errors import ErrorKind, PreconditionError
from lakebed.format.gc import COMMITS_FILE, ROOTS, DataFile, Roots, commits_key, encode_table, roots_key
from lakebed.spark.gc import protocol
from lakebed.spark.gc.decide import Options
from lakebed.spark.gc.ports import Started
from tests.unit.gc_job.lake import DAY, Lake

OPTIONS = Options(min_age_seconds=DAY, grace_seconds=DAY)


class BareLake(Lake):
    """The trees of old are there, and no ref that needs them yet."""

    async def prepare_commits(self, started: Started) -> str:
        key = commits_key(started.run, 0, "t")
        await self.store.put(key, encode_table(COMMITS_FILE, COMMITS_FILE.schema.empty_table()))
        roots = Roots(uid=self.uid, commits=(DataFile(key, 0),), nonces=(), attempts=(), trees=())
        await self.store.put(roots_key(started.run, "t"), ROOTS.seal(roots))
        return roots_key(started.run, "t")


async def test_nothing_is_marked_while_there_are_no_commits() -> None:
    lake = BareLake()
    # Only imported objects: no share of the namespace's own is large.
    lake.commit_tree("main", {"a": "s3://elsewhere/a"}, ())
    for _ in range(2):
        lake.clock.at += 3 * DAY
        with pytest.raises(PreconditionError, match="restore the refs") as refused:
            await protocol.mark(lake.world(), OPTIONS)
        assert refused.value.kind is ErrorKind.GC_UNSAFE
    assert not lake.marks
    assert lake.files()
