"""How a ref on a commit comes to be and goes: one protocol for branches and tags.

Create, with fences:     one swap, fenced on the version of a commit that is not condemned.
Create, without fences:  1. swap in the ref, `tentative`: invisible, but a root for the collector
                         2. read the commit again
                         3. swap it visible, or to a tombstone if the commit is condemned
Delete:                  a branch: swap in a tombstone, which holds what is to be freed; a tag: remove the record.

Crash after 1: whoever meets the tentative ref does 2 and 3. Its creator and any
helper may do so at the same time; all but one lose the swap and read what won.

`created_by` is the creator's nonce and stays the same while the ref lives. By it
a creator recognises its own ref after an unknown outcome, and a deletion knows
that what it wanted gone is gone, whatever has taken the name since. A creator that
does not know whether it wrote, and finds no record, cannot tell: its ref may have been
there, been deleted and removed. It answers so, and does not write a second time.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from lakebed.env.clock import Clock, Instant
from lakebed.env.ids import IdSource
from lakebed.errors import (
    AlreadyExistsError,
    ConflictError,
    ErrorKind,
    LakebedError,
    NotFoundError,
    UnavailableError,
    is_unknown,
)
from lakebed.kv.port import Expect, KVStore, Version
from lakebed.limits import SWAP_ATTEMPTS_MAX
from lakebed.model.ids import CommitId, Nonce
from lakebed.model.repository import Repository
from lakebed.refs.anchor import anchor
from lakebed.refs.backoff import back_off
from lakebed.refs.decoded import Decoded
from lakebed.refs.versioned import Versioned


class AnchoredRef(Protocol):
    """What the protocol needs to know of a branch or tag."""

    @property
    def commit_id(self) -> CommitId: ...
    @property
    def tentative(self) -> bool: ...
    @property
    def created_by(self) -> Nonce: ...


L = TypeVar("L", bound=AnchoredRef)
D = TypeVar("D")


@dataclass(frozen=True, slots=True, kw_only=True)
class RefKind(Generic[L, D]):
    """What differs between branches and tags. `L` is a live record, `D` a tombstone."""

    noun: str
    exists: ErrorKind
    missing: ErrorKind
    key: Callable[[str], bytes]
    decode: Callable[[bytes], tuple[L | None, D | None]]
    """Exactly one of the two is there."""
    encode: Callable[[L], bytes]
    encode_tombstone: Callable[[D], bytes]
    names: Callable[[L], tuple[bytes, ...]]
    published: Callable[[L, Instant], L]
    """The same ref, visible."""
    buried: Callable[[L, Instant], D | None]
    """What stays of the ref; None for nothing: its record is removed."""


Enter = Callable[[str, Any, Any], Awaitable[Any]]
"""Prepares the swap of a record, live or dead, for another in a partition, and returns the one to write."""


async def _nothing_to_enter(_partition: str, _old: object, new: Any) -> Any:
    return new


@dataclass(slots=True)
class _Creation:
    """One call of `create`: its mark, and the version it replaced if it may have."""

    nonce: Nonce
    unsure: Version | Expect | None = None


class RefLifecycle(Generic[L, D]):
    """Creates, finishes and deletes the refs of one kind."""

    def __init__(
        self,
        kind: RefKind[L, D],
        kv: KVStore,
        *,
        clock: Clock,
        ids: IdSource,
        enter: Enter = _nothing_to_enter,
    ) -> None:
        self._kind = kind
        self._enter = enter
        self._kv = kv
        self._clock = clock
        self._ids = ids
        self._decoded = Decoded(kind.decode)

    async def visible(self, repo: Repository, name: str) -> Versioned[L] | None:
        """Return the ref if everyone can see it. One KV read, unless a creator died half-way."""
        item = await self._kv.get(repo.partition, self._kind.key(name))
        live = self._decoded(repo.partition, item)[0] if item is not None else None
        if item is None or live is None:
            return None
        found = Versioned(live, item.version)
        return await self.finish(repo, name, found) if live.tentative else found

    async def create(
        self,
        repo: Repository,
        name: str,
        make: Callable[[Nonce, D | None, Instant], L],
    ) -> Versioned[L]:
        """Create a ref. `make` returns it, tentative, from the creator's nonce and the tombstone it replaces.

        Raises:
            AlreadyExistsError: there is one of that name.
            NotFoundError: `COMMIT_NOT_FOUND`: no such commit, or one that is being collected.
            UnavailableError: `OUTCOME_UNKNOWN`: it may have been created, and the name has changed hands since.
        """
        creation = _Creation(Nonce(self._ids.token()))
        try:
            return await self._create(repo, name, make, creation)
        except LakebedError as error:
            if creation.unsure is None or is_unknown(error):
                raise
            raise self._unknown(name) from error

    async def _create(
        self,
        repo: Repository,
        name: str,
        make: Callable[[Nonce, D | None, Instant], L],
        creation: "_Creation",
    ) -> Versioned[L]:
        for attempt in range(SWAP_ATTEMPTS_MAX):
            item = await self._kv.get(repo.partition, self._kind.key(name))
            live, dead = self._kind.decode(item.value) if item is not None else (None, None)
            expected = item.version if item is not None else Expect.ABSENT
            if item is not None and live is not None:
                found = Versioned(live, item.version)
                finished = await self.finish(repo, name, found) if live.tentative else found
                if finished is not None and finished.value.created_by == creation.nonce:
                    return finished
                if finished is not None:
                    raise AlreadyExistsError(
                        self._kind.exists, f"{self._kind.noun} {name!r} already exists in {repo.name}"
                    )
                continue  # A dead creator's attempt, or an own one on a condemned commit, is cleared away now.
            if creation.unsure is not None and (creation.unsure != expected or expected is Expect.ABSENT):
                raise self._unknown(name)
            ref = make(creation.nonce, dead, await self._kv.now())
            try:
                return await self._create_once(repo, name, ref, expected, creation)
            except ConflictError:
                pass  # Somebody was faster, or the commit's record changed: look again.
            except UnavailableError as error:
                if not is_unknown(error):
                    raise
                creation.unsure = expected
            await back_off(attempt, clock=self._clock, ids=self._ids)
        raise self._too_many(name)

    async def _create_once(
        self,
        repo: Repository,
        name: str,
        ref: L,
        expected: Version | Expect,
        creation: "_Creation",
    ) -> Versioned[L]:
        fence = await anchor(self._kv, repo, ref.commit_id)
        if self._kv.capabilities.fences:
            ref = self._kind.published(ref, await self._kv.now())
        ref = await self._enter(repo.partition, None, ref)
        version = await self._kv.swap(
            repo.partition,
            self._kind.key(name),
            self._kind.encode(ref),
            expected=expected,
            names=self._kind.names(ref),
            fence=fence if self._kv.capabilities.fences else None,
        )
        written = Versioned(ref, version)
        if not ref.tentative:
            return written
        creation.unsure = expected  # From here on somebody else may finish it, whatever happens to us.
        finished, unseen = await self._finish(repo, name, written)
        if finished is not None:
            return finished
        if unseen:
            creation.unsure = None
            await anchor(self._kv, repo, ref.commit_id)
        # Gone, and not by us: somebody may have made it visible and somebody else deleted it.
        raise self._unknown(name)

    async def finish(self, repo: Repository, name: str, tentative: Versioned[L]) -> Versioned[L] | None:
        """Make a tentative ref visible, or bury it if its commit is condemned; None if it is no more."""
        return (await self._finish(repo, name, tentative))[0]

    async def _finish(
        self, repo: Repository, name: str, tentative: Versioned[L]
    ) -> tuple[Versioned[L] | None, bool]:
        """As `finish`; also, whether it was buried here, and so never seen by anyone."""
        for attempt in range(SWAP_ATTEMPTS_MAX):
            ref = tentative.value
            now = await self._kv.now()
            visible: L | None = self._kind.published(ref, now)
            try:
                await anchor(self._kv, repo, ref.commit_id)
            except NotFoundError:
                visible = None
            try:
                if visible is None:
                    await self._bury(repo, name, tentative, now)
                    return None, True
                version = await self._kv.swap(
                    repo.partition,
                    self._kind.key(name),
                    self._kind.encode(visible),
                    expected=tentative.version,
                    names=self._kind.names(visible),
                )
            except ConflictError:
                pass
            except UnavailableError as error:
                if not is_unknown(error):
                    raise
            else:
                return Versioned(visible, version), False
            item = await self._kv.get(repo.partition, self._kind.key(name))
            live = self._kind.decode(item.value)[0] if item is not None else None
            if item is None or live is None or live.created_by != ref.created_by:
                return None, False
            tentative = Versioned(live, item.version)
            if not live.tentative:
                return tentative, False
            await back_off(attempt, clock=self._clock, ids=self._ids)
        raise self._too_many(name)

    async def delete(self, repo: Repository, name: str) -> L:
        """Bury a ref, and return it as it was.

        Raises:
            NotFoundError: there is none of that name.
            UnavailableError: `OUTCOME_UNKNOWN`: it may have been deleted.
        """
        victim: L | None = None
        unsure = False
        for attempt in range(SWAP_ATTEMPTS_MAX):
            try:
                found, now = await self.visible(repo, name), await self._kv.now()
            except LakebedError as error:
                if not unsure or is_unknown(error):
                    raise
                raise self._unknown(name) from error
            if victim is not None and (found is None or found.value.created_by != victim.created_by):
                return victim  # Gone, by an own swap whose reply was lost or by somebody else's.
            if found is None:
                raise NotFoundError(
                    self._kind.missing, f"{self._kind.noun} {name!r} not found in {repo.name}"
                )
            victim = found.value
            try:
                await self._bury(repo, name, found, now)
            except ConflictError:
                pass
            except UnavailableError as error:
                if not unsure and not is_unknown(error):
                    raise
                unsure = True
            else:
                return victim
            await back_off(attempt, clock=self._clock, ids=self._ids)
        raise self._unknown(name) if unsure else self._too_many(name)

    async def _bury(self, repo: Repository, name: str, found: Versioned[L], now: Instant) -> None:
        """Put what stays of a ref in its place, or remove its record if nothing does."""
        tombstone = self._kind.buried(found.value, now)
        if tombstone is None:
            await self._kv.remove(repo.partition, self._kind.key(name), expected=found.version)
            return
        tombstone = await self._enter(repo.partition, found.value, tombstone)
        await self._kv.swap(
            repo.partition,
            self._kind.key(name),
            self._kind.encode_tombstone(tombstone),
            expected=found.version,
        )

    def _unknown(self, name: str) -> LakebedError:
        return UnavailableError(
            ErrorKind.OUTCOME_UNKNOWN,
            f"{self._kind.noun} {name!r} may have been changed, and somebody else changed it since: look before you try again",
        )

    def _too_many(self, name: str) -> LakebedError:
        return ConflictError(
            ErrorKind.TOO_MANY_RETRIES,
            f"{self._kind.noun} {name!r} is changed by too many at once: try again later",
        )
