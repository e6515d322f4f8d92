"""What earlier runs saved: whose it is, whether it can be used, and what a next run starts from."""

from dataclasses import dataclass

from lakebed.errors import CorruptError, ErrorKind, NotFoundError
from lakebed.format.gc import STATE, DataFile, State, decode_summary, deleted_key, state_key, summary_key
from lakebed.spark.gc.decide import require_uid
from lakebed.spark.gc.ports import Started, Store


@dataclass(frozen=True, slots=True)
class Previous:
    """The state of the newest mark, or why there is none."""

    state: State | None
    why_not: str


async def previous_state(store: Store, started: Started) -> Previous:
    """Return the state of the newest mark that counts.

    One that is gone or damaged costs a clean run, and what it had marked is marked again.

    Raises:
        CorruptError: `NEWER_VERSION`: a newer job collects here, and knows more than this one.
        PreconditionError: `GC_UNSAFE`: it is another repository's.
    """
    if not started.marks:
        return Previous(None, "no earlier mark counts")
    run = started.marks[0].run
    try:
        state = STATE.open(await store.get(state_key(run)))
    except NotFoundError:
        return Previous(None, f"the state of run {run} is gone")
    except CorruptError as error:
        if error.kind is ErrorKind.NEWER_VERSION:
            raise
        return Previous(None, f"the state of run {run} cannot be used ({error})")
    require_uid(state.uid, started, what=f"the state of run {run}")
    if state.run != run:
        return Previous(None, f"the state of run {run} is that of run {state.run}")
    return Previous(state, "")


async def deleted_since(store: Store, started: Started) -> list[DataFile]:
    """Return the lists of what sweeps have deleted by marks that still count.

    A mark without a report is passed over: what it deleted is then marked, and deleted, once more.
    """
    found: list[DataFile] = []
    for mark in started.marks:
        try:
            summary = decode_summary(await store.get(summary_key(mark.run)))
        except (NotFoundError, CorruptError):
            continue
        done = await swept_chunks(store, mark.run)
        found += [
            DataFile(deleted_key(file.key), file.rows)
            for file in summary.marked_files
            if deleted_key(file.key) in done
        ]
    return found


async def swept_chunks(store: Store, run: str) -> frozenset[str]:
    """Return the keys of the records that chunks of a mark were deleted."""
    folder = deleted_key(f"_lakebed/gc/{run}/marked/")
    listed = await store.folder(folder)
    return frozenset(listed.objects.column("address").to_pylist())
