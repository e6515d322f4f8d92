"""Objects put aside instead of deleted, until a later run deletes them or somebody restores them.

    quarantine/<run>.json            says until when; written before the first object is moved
    quarantine/<run>/<address>       the object

Moving is copy, then delete, chunk by chunk (`sweep`). What lies here is the only truth about what can be
restored, so both ways out delete the document last: a crash leaves something that the next try finishes.

    restore   withdraw the published marks, copy back, delete the copy, …, delete the document
    expire    delete the copies, …, delete the document

Marks are withdrawn before the first object is back: others than the one that was swept may list it, and a sweep of those
would delete it again, now without a copy. What is back is garbage again only after two new marks.
"""

from lakebed.env.clock import after
from lakebed.errors import ErrorKind, NotFoundError
from lakebed.format.gc import (
    QUARANTINE_FOLDER,
    QUARANTINED,
    Amount,
    Quarantined,
    quarantine_key,
    quarantined_key,
)
from lakebed.limits import GC_REQUESTS_AT_ONCE
from lakebed.spark.gc.decide import require_uid
from lakebed.spark.gc.lease import Lease
from lakebed.spark.gc.ports import Server, Store
from lakebed.spark.gc.together import together

_DAY_SECONDS = 24 * 3600.0


async def begin_quarantine(store: Store, lease: Lease, run: str, *, days: float) -> str:
    """Say until when what a run puts aside is kept; return the name under which it is."""
    now = await lease.check()
    document = Quarantined(uid=lease.started.uid, run=run, since=now, until=after(now, days * _DAY_SECONDS))
    await store.put(quarantine_key(run), QUARANTINED.seal(document))
    return run


async def restore_run(store: Store, server: Server, lease: Lease, run: str) -> Amount:
    """Put everything back that a run put aside; return how much that was.

    Raises:
        NotFoundError: `GC_RUN_NOT_FOUND`: nothing of this run is there to be restored.
    """
    try:
        document = QUARANTINED.open(await store.get(quarantine_key(run)))
    except NotFoundError:
        raise NotFoundError(
            ErrorKind.GC_RUN_NOT_FOUND,
            f"nothing of run {run} is kept aside: it was restored, or it expired, or the run deleted without --quarantine",
        ) from None
    require_uid(document.uid, lease.started, what=f"the quarantine of run {run}")
    await server.withdraw_marks(lease.started)
    folder = quarantined_key(run, "")
    restored = Amount()

    async def put_back(copy: str) -> None:
        await store.copy(copy, copy.removeprefix(folder))

    async for page in store.list(folder):
        await lease.check()
        copies: list[str] = page.column("address").to_pylist()
        await together([put_back(copy) for copy in copies], GC_REQUESTS_AT_ONCE)
        await store.delete(copies)
        restored += Amount(len(copies), sum(page.column("size").to_pylist()))
    await store.delete([quarantine_key(run)])
    return restored


async def expire_quarantines(store: Store, lease: Lease) -> Amount:
    """Delete what was put aside long enough ago; return how much that was."""
    now = await lease.check()
    expired = Amount()
    kept = (await store.folder(QUARANTINE_FOLDER)).objects.column("address").to_pylist()
    for key in kept:
        document = QUARANTINED.open(await store.get(key))
        require_uid(document.uid, lease.started, what=f"the quarantine of run {document.run}")
        if document.until > now:
            continue
        async for page in store.list(quarantined_key(document.run, "")):
            await lease.check()
            await store.delete(page.column("address").to_pylist())
            expired += Amount(page.num_rows, sum(page.column("size").to_pylist()))
        await store.delete([key])
    return expired
