"""The settings that all processes of an installation must have in common, in one record of its database.

    lakebed: settings/shared    name -> number

A process that starts adds the names that the record does not have, with its own values, and does not start if a value
differs from its own. So processes of different settings never run side by side, whatever their order. The values are changed
while nothing runs: `replace` writes them, and processes that were forgotten notice at their next round of maintenance, which
`require` ends before it frees anything.

Names that a process does not know are left alone: an older and a newer lakebed share a database during an upgrade.
"""

from collections.abc import Mapping

from lakebed.env.clock import Clock
from lakebed.env.ids import IdSource
from lakebed.errors import ConflictError, ErrorKind, InvalidInputError
from lakebed.format.shared_settings import decode_shared, encode_shared
from lakebed.kv.port import Expect, KVStore, Version
from lakebed.limits import SWAP_ATTEMPTS_MAX
from lakebed.refs.backoff import back_off
from lakebed.refs.keys import REPOSITORIES_PARTITION, SHARED_SETTINGS_KEY
from lakebed.refs.settle import settled_swap


class Agreement:
    """One process's values, and what the installation has agreed on."""

    def __init__(self, kv: KVStore, own: Mapping[str, float], *, clock: Clock, ids: IdSource) -> None:
        self._kv = kv
        self._own = dict(own)
        self._clock = clock
        self._ids = ids

    async def values(self) -> dict[str, float]:
        """Return what the record says; nothing if there is none yet."""
        return (await self._read())[0]

    async def join(self) -> None:
        """Add what the record does not say yet, and compare the rest.

        Raises:
            InvalidInputError: `INVALID_CONFIG`: a value differs.
        """
        for attempt in range(SWAP_ATTEMPTS_MAX):
            agreed, version = await self._read()
            self._compare(agreed)
            if self._own.keys() <= agreed.keys() or await self._written({**self._own, **agreed}, version):
                return
            await back_off(attempt, clock=self._clock, ids=self._ids)
        raise _contended()

    async def require(self) -> None:
        """Compare once more.

        Raises:
            InvalidInputError: `INVALID_CONFIG`: somebody has replaced the values since.
        """
        self._compare(await self.values())

    async def replace(self) -> None:
        """Let this process's values be everybody's. Nothing else may be running."""
        for attempt in range(SWAP_ATTEMPTS_MAX):
            agreed, version = await self._read()
            if await self._written({**agreed, **self._own}, version):
                return
            await back_off(attempt, clock=self._clock, ids=self._ids)
        raise _contended()

    async def _read(self) -> tuple[dict[str, float], Version | Expect]:
        item = await self._kv.get(REPOSITORIES_PARTITION, SHARED_SETTINGS_KEY)
        return ({}, Expect.ABSENT) if item is None else (decode_shared(item.value), item.version)

    async def _written(self, values: Mapping[str, float], version: Version | Expect) -> bool:
        try:
            await settled_swap(
                self._kv,
                REPOSITORIES_PARTITION,
                SHARED_SETTINGS_KEY,
                encode_shared(values),
                expected=version,
                clock=self._clock,
                ids=self._ids,
            )
        except ConflictError:
            return False
        return True

    def _compare(self, agreed: Mapping[str, float]) -> None:
        for name, value in self._own.items():
            if agreed.get(name, value) != value:
                raise InvalidInputError(
                    ErrorKind.INVALID_CONFIG,
                    f"{name} is {value:g} here and {agreed[name]:g} in the database that this process shares: set it to "
                    f"{agreed[name]:g}; or stop all servers and compactors, run `lakebed kv settings --replace` with the new "
                    "value, and start them again",
                )


def _contended() -> ConflictError:
    return ConflictError(
        ErrorKind.TOO_MANY_RETRIES, "the shared settings are changed by too many processes at once: try again"
    )
