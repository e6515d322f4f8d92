"""Uploads that end when their repository is gone: whoever stored the bytes removes them.

    1. put    the object                        crash: the cleaner's second look frees it, for a day after the first
                                                (`refs/deleted_data`); after that it stays, for `lakebed repo purge`
    2. stage  its entry: refused, and the repository's record is another's or none
                                                the same
    3. delete the object, and what the store itself made for it
                                                the same. Nobody else knows the address, so nobody misses it

An upload may outlast the cleaner's second look, so what it stores at its end would stay for ever without 3.
"""

from contextlib import suppress

from lakebed.catalog.engine import Engine
from lakebed.errors import LakebedError
from lakebed.model.repository import Repository
from lakebed.refs.leftovers import remove_traces


async def remove_if_gone(engine: Engine, repo: Repository, address: str) -> None:
    """Do 3 if the repository is gone: what this call stored at `address` was not staged."""
    with suppress(LakebedError):  # As after a crash.
        found = await engine.repositories.find(repo.name)
        if found is not None and isinstance(found.value, Repository) and found.value.uid == repo.uid:
            return
        store = await engine.store_of(repo)
        await store.delete([address])
        await remove_traces(store)
