"""Branches as the first folders of a bucket, in the order of keys.

The catalog lists branches by name, and a list of keys has them as `<name>/`. The two
orders differ in one way: of all characters that a name can have, only `-` comes before
`/`, so `a/` comes after everything that begins with `a-`.
"""

from collections.abc import AsyncGenerator

from lakebed.catalog.session import Session
from lakebed.limits import LIST_PAGE_MAX

_SLASH = "/"
_DASH = "-"
_AFTER_DASH = "."
"""Greater than `-`, and in no name."""


async def branches_in_key_order(
    session: Session, repository: str, *, prefix: str, after: str
) -> AsyncGenerator[str, None]:
    """Yield the names of the branches with `prefix` whose `<name>/` is greater than the key `after`."""
    name, slash, _ = after.partition(_SLASH)
    # Branches that come before `after` by name, and behind it as folders.
    held = [
        shorter
        for shorter in _shorter(name, itself=not slash)
        if shorter.startswith(prefix) and await _exists(session, repository, shorter)
    ]
    # Behind `a/` everything that begins with `a-` has been.
    cursor = name + _AFTER_DASH if slash else name
    has_more = True
    while has_more:
        page = await session.branches.list(repository, prefix=prefix, after=cursor, amount=LIST_PAGE_MAX)
        for branch in page.results:
            while held and not branch.name.startswith(held[-1] + _DASH):
                yield held.pop()
            held.append(branch.name)
        has_more = page.has_more
        if has_more:
            cursor = page.results[-1].name
    while held:
        yield held.pop()


def _shorter(name: str, *, itself: bool) -> list[str]:
    """Return what `name` begins with, up to each dash, shortest first."""
    parts = name.split(_DASH)
    return [_DASH.join(parts[:count]) for count in range(1, len(parts) + itself) if parts[0]]


async def _exists(session: Session, repository: str, name: str) -> bool:
    page = await session.branches.list(repository, prefix=name, amount=1)
    return bool(page.results) and page.results[0].name == name
