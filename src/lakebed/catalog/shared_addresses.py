"""Copies that move no bytes: two paths share an address. Order matters.

    1. note    `copies/<address>/<nonce>`: the collector counts the address as used for a day
    2. check   that the source still has it, and that the source's commit is not condemned
    3. stage   the copy, by whoever asked

A collector reads the branches before the notes, and condemns commits after both. So it has met the address at its
source, or meets the note; or it has condemned the commit, and 2 sees that. Whoever is told no copies the bytes.
"""

from lakebed.catalog.engine import Engine
from lakebed.env.clock import after
from lakebed.errors import NotFoundError
from lakebed.format.records import decode_copy, encode_copy
from lakebed.kv.port import Row, prefix_end
from lakebed.limits import COPY_LIFETIME_SECONDS
from lakebed.model.entries import Entry
from lakebed.model.repository import Repository
from lakebed.refs.keys import COPIES_PREFIX, copy_key


async def may_share(engine: Engine, repo: Repository, ref: str, found: Entry) -> bool:
    """Note that the object which was found at `ref` gets another path; return whether it may."""
    row = Row(copy_key(found.address, engine.parts.ids.token()), encode_copy(await engine.parts.kv.now()))
    await engine.parts.kv.set_rows(repo.partition, [row])
    try:
        resolved = await engine.resolver.resolve(repo, ref)
        await engine.parts.commits.require_standing(repo, resolved.commit_id)
    except NotFoundError:
        return False
    still = await engine.view.find(repo, await engine.view.of(repo, resolved), found.path)
    return still is not None and still.address == found.address


async def sweep_copies(engine: Engine, repo: Repository) -> int:
    """Forget the notes that no collector needs any more. Return how many."""
    kv = engine.parts.kv
    grace = engine.parts.lifetimes.grace_seconds
    oldest = after(await kv.now(), -(COPY_LIFETIME_SECONDS + grace))
    swept = 0
    async for page in kv.scan(repo.partition, start=COPIES_PREFIX, end=prefix_end(COPIES_PREFIX)):
        over = [item.key for item in page.items() if decode_copy(item.value) < oldest]
        await kv.delete_rows(repo.partition, over)
        swept += len(over)
    return swept
