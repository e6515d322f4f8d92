"""A swap of which one learns, if anyone can, whether it happened."""

from lakebed.env.clock import Clock
from lakebed.env.ids import IdSource
from lakebed.errors import ConflictError, ErrorKind, UnavailableError, is_unknown
from lakebed.kv.port import Expect, KVStore, Version, VersionFence
from lakebed.limits import SWAP_ATTEMPTS_MAX
from lakebed.refs.backoff import back_off


async def settled_swap(
    kv: KVStore,
    partition: str,
    key: bytes,
    value: bytes,
    *,
    expected: Version | Expect,
    clock: Clock,
    ids: IdSource,
    names: tuple[bytes, ...] = (),
    fence: VersionFence | None = None,
) -> Version:
    """Swap; after an unknown outcome look whether `value` is there, and send it again if nothing has moved.

    `value` must be one that only this caller writes (it carries a nonce or a uid), or
    one of which it does not matter who wrote it.

    Raises:
        ConflictError: nothing was written.
        UnavailableError: `OUTCOME_UNKNOWN`: the record has moved on and does not tell; other kinds: nothing was written.
    """
    unsure = False
    for attempt in range(SWAP_ATTEMPTS_MAX):
        try:
            return await kv.swap(partition, key, value, expected=expected, names=names, fence=fence)
        except ConflictError:
            if not unsure:
                raise
        except UnavailableError as error:
            if not unsure and not is_unknown(error):
                raise
            unsure = True
        found = await _look(kv, partition, key)
        if found is not None and found[0] == value:
            return found[1]
        version = found[1] if found is not None else Expect.ABSENT
        if expected is not Expect.ANY and version != expected:
            break
        await back_off(attempt, clock=clock, ids=ids)
    raise UnavailableError(
        ErrorKind.OUTCOME_UNKNOWN,
        f"{key!r} may have been written, and has changed since: look before you try again",
    )


async def _look(kv: KVStore, partition: str, key: bytes) -> tuple[bytes, Version] | None:
    try:
        item = await kv.get(partition, key)
    except UnavailableError as error:
        raise UnavailableError(
            ErrorKind.OUTCOME_UNKNOWN, f"{key!r} may have been written: {error}"
        ) from error
    return (item.value, item.version) if item is not None else None
