"""Messages of commits and stashes are short: every log shows them."""

from collections.abc import Awaitable, Callable

import pytest

from lakebed.catalog.session import Session
from lakebed.errors import ErrorKind, InvalidInputError
from lakebed.limits import MESSAGE_BYTES_MAX
from lakebed.testing.lake import open_wired
from lakebed.versioning.commit import CommitRequest

LONG = "m" * (MESSAGE_BYTES_MAX + 1)


async def _commit(session: Session) -> object:
    return await session.commits.commit("lake", "main", CommitRequest(committer="c", message=LONG))


async def _stash(session: Session) -> object:
    return await session.stashes.create("lake", "main", message=LONG)


@pytest.mark.parametrize("use", [_commit, _stash])
async def test_a_long_message_is_refused(use: Callable[[Session], Awaitable[object]]) -> None:
    async with open_wired() as (wired, _):
        await wired.catalog.repositories.create("lake", "mem://lake")
        await wired.catalog.objects.upload("lake", "main", "a", b"1")

        with pytest.raises(InvalidInputError) as raised:
            await use(wired.catalog)

        assert raised.value.kind is ErrorKind.TOO_LARGE
