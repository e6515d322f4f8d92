"""What a run that may delete clears away at its end: quarantines that are over, and old reports.

A mark that counts keeps everything: its state, and the lists that a sweep needs. Of others the
whole folder goes when it is old enough, whether the run ever finished or not.
"""

from lakebed.env.clock import after
from lakebed.format.gc import GC_FOLDER, QUARANTINE_FOLDER, run_folder
from lakebed.format.layout import slice_opened
from lakebed.limits import GC_REPORT_SECONDS
from lakebed.spark.gc.lease import Lease
from lakebed.spark.gc.ports import Store
from lakebed.spark.gc.quarantine import expire_quarantines


async def tidy(store: Store, lease: Lease) -> None:
    """Clear away what nobody needs any more."""
    await expire_quarantines(store, lease)
    now = await lease.check()
    kept = {mark.run for mark in lease.started.marks} | {QUARANTINE_FOLDER.split("/")[-2]}
    for run in (await store.folder(GC_FOLDER)).folders:
        if run in kept or not _is_old(run, before=after(now, -GC_REPORT_SECONDS)):
            continue
        async for page in store.list(run_folder(run)):
            await store.delete(page.column("address").to_pylist())


def _is_old(run: str, *, before: int) -> bool:
    """Return whether a run began before some time. What is no run's folder is left alone."""
    try:
        return slice_opened(run) < before
    except ValueError:
        return False
