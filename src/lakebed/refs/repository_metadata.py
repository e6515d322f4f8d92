"""Repository metadata: keys and values that users and integrations keep beside a repository."""

from collections.abc import Callable, Iterable, Mapping

from lakebed.env.clock import Clock
from lakebed.env.ids import IdSource
from lakebed.errors import ConflictError, ErrorKind, InvalidInputError
from lakebed.format.records import decode_repository_metadata, encode_repository_metadata
from lakebed.kv.port import Expect, KVStore
from lakebed.limits import METADATA_BYTES_MAX, SWAP_ATTEMPTS_MAX
from lakebed.model.repository import Repository
from lakebed.refs.backoff import back_off
from lakebed.refs.keys import METADATA_KEY
from lakebed.refs.settle import settled_swap


class RepositoryMetadata:
    """The metadata of every repository in one KV store."""

    def __init__(self, kv: KVStore, *, clock: Clock, ids: IdSource) -> None:
        self._kv = kv
        self._clock = clock
        self._ids = ids

    async def get(self, repo: Repository) -> dict[str, str]:
        """Return all keys and values."""
        item = await self._kv.get(repo.partition, METADATA_KEY)
        return decode_repository_metadata(item.value) if item is not None else {}

    async def set(self, repo: Repository, values: Mapping[str, str]) -> None:
        """Set these keys and leave the others as they are."""
        await self._update(repo, lambda current: {**current, **values})

    async def delete(self, repo: Repository, keys: Iterable[str]) -> None:
        """Remove these keys. Missing ones are no error."""
        gone = frozenset(keys)
        await self._update(repo, lambda current: {k: v for k, v in current.items() if k not in gone})

    async def _update(self, repo: Repository, change: Callable[[dict[str, str]], dict[str, str]]) -> None:
        for attempt in range(SWAP_ATTEMPTS_MAX):
            item = await self._kv.get(repo.partition, METADATA_KEY)
            current = decode_repository_metadata(item.value) if item is not None else {}
            wanted = change(current)
            if wanted == current:
                return
            value = encode_repository_metadata(wanted)
            if len(value) > METADATA_BYTES_MAX:
                raise InvalidInputError(
                    ErrorKind.TOO_LARGE,
                    f"the metadata of {repo.name} would exceed {METADATA_BYTES_MAX} bytes",
                )
            try:
                await settled_swap(
                    self._kv,
                    repo.partition,
                    METADATA_KEY,
                    value,
                    expected=item.version if item is not None else Expect.ABSENT,
                    clock=self._clock,
                    ids=self._ids,
                )
            except ConflictError:
                await back_off(attempt, clock=self._clock, ids=self._ids)
                continue
            return
        raise ConflictError(
            ErrorKind.TOO_MANY_RETRIES,
            f"the metadata of {repo.name} is changed by too many at once: try again",
        )
