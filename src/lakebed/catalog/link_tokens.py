"""Addresses that clients write to themselves, from given out to linked. Whoever uses this has asked the caller.

An address is given out with a token, tracked in the KV: it may be linked once, to the
path it was given out for, before it expires. Repeating a link that already stands
(same address, path and checksum) is the same success, so a lost reply is harmless.

The entry is staged first and the token marked used second. A crash in between leaves
a token that is still open for an entry that stands, which at worst keeps an object
from the collector until the token expires; the other order would lose the upload.

An entry is only ever staged under a token that is good for a grace longer: one that is
about to expire is renewed first, by a swap. So none expires between the look at it and
the write, however long that takes, and the collector never meets a link in between.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from lakebed.catalog.engine import Engine
from lakebed.env.clock import Instant, after
from lakebed.errors import (
    ConflictError,
    ErrorKind,
    InvalidInputError,
    PreconditionError,
    UnavailableError,
)
from lakebed.format.links import decode_link, encode_link
from lakebed.kv.port import Expect, Version, prefix_end
from lakebed.model.entries import Entry
from lakebed.model.ids import BranchName, Path
from lakebed.model.links import LinkToken
from lakebed.model.repository import Repository
from lakebed.objects.slices import slice_name
from lakebed.refs.keys import LINKS_PREFIX, link_address, link_key
from lakebed.refs.settle import settled_swap
from lakebed.staging.conditions import Condition


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundToken:
    """A token as it was read. `address` is relative to the namespace."""

    address: str
    token: LinkToken
    version: Version


class LinkTokens:
    """The tokens of all repositories."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lifetimes = engine.parts.lifetimes

    async def give_out(
        self, repo: Repository, name: BranchName, path: Path, *, address: str, now: Instant, upload: str = ""
    ) -> None:
        """Track an address. It must be here before it leaves: whoever collects garbage must know of it first."""
        expires_at = after(now, self._lifetimes.link_seconds)
        token = LinkToken(branch=name, path=path, expires_at=expires_at, upload=upload)
        await self._put(repo, address, token, Expect.ABSENT)

    async def find(self, repo: Repository, name: BranchName, path: Path, address: str) -> FoundToken:
        """Return the token of a full address.

        Raises:
            InvalidInputError: `LINK_REFUSED`: it was not given out for this path.
        """
        relative = _relative(repo, address)
        item = await self._engine.parts.kv.get(repo.partition, link_key(relative))
        token = decode_link(item.value) if item is not None else None
        if item is None or token is None or (token.branch, token.path) != (name, path):
            raise _refused(f"address {address!r} was not given out for {path!r} on {name}")
        return FoundToken(address=relative, token=token, version=item.version)

    async def redeem(
        self,
        repo: Repository,
        name: BranchName,
        found: FoundToken,
        entry: Entry,
        *,
        now: Instant,
        condition: Condition | None = None,
    ) -> Entry:
        """Stage the entry of an address, and mark its token used.

        Raises:
            InvalidInputError: `LINK_REFUSED`: it was linked before, and that is not what stands.
            ConflictError: `TOO_LATE`; `VERSION_CHANGED`: somebody else is linking it in its last minutes.
            PreconditionError: the condition does not hold, and not because of what this link itself has staged.
            UnavailableError: `OUTCOME_UNKNOWN`: it may be linked, or is and can be linked once more. Repeat it.
        """
        if found.token.used_at is not None:
            standing = await self._standing(repo, name, entry)
            if standing is None:
                raise _refused(f"address {entry.address!r} was linked before: ask for a new one")
            return standing
        require_open(found, now)
        found = await self._renewed(repo, found, now)
        try:
            await self._engine.parts.staging.write(repo, name, [entry], condition=condition)
        except PreconditionError:
            standing = await self._standing(repo, name, entry)
            if standing is None:
                raise
            entry = standing  # Staged before, and not noted.
        await self.mark_used(repo, [replace(found, token=replace(found.token, checksum=entry.checksum))])
        return entry

    async def find_all(
        self, repo: Repository, name: BranchName, links: Sequence[tuple[str, str, str]]
    ) -> list[FoundToken]:
        """Return the tokens of many links (path, relative address, checksum), to be used: see `hold` and `mark_used`.

        Raises:
            InvalidInputError: `LINK_REFUSED`: an address was not given out for its path, or was linked before.
        """
        items = await self._engine.parts.kv.get_many(
            [(repo.partition, link_key(address)) for _, address, _ in links]
        )
        found = []
        for (path, address, checksum), item in zip(links, items, strict=True):
            token = decode_link(item.value) if item is not None else None
            if item is None or token is None or (token.branch, token.path) != (name, path):
                raise _refused(f"address {address!r} was not given out for {path!r} on {name}")
            if token.used_at is not None:
                raise _refused(f"address {address!r} of {path!r} was linked before: ask for a new one")
            # As it will be once it is used.
            token = replace(token, checksum=checksum)
            found.append(FoundToken(address=address, token=token, version=item.version))
        return found

    async def hold(self, repo: Repository, tokens: Sequence[FoundToken], *, now: Instant) -> list[FoundToken]:
        """Make sure that none of the tokens expires while its entry is being staged; errors as for `redeem`."""
        for found in tokens:
            require_open(found, now)
        return [await self._renewed(repo, found, now) for found in tokens]

    async def mark_used(self, repo: Repository, tokens: Sequence[FoundToken]) -> None:
        """Say that the entries of these tokens are staged, by now.

        Raises:
            UnavailableError: `OUTCOME_UNKNOWN`, whatever went wrong: they are staged.
        """
        try:
            await self._mark_all(repo, tokens)
        except UnavailableError as error:
            raise UnavailableError(
                ErrorKind.OUTCOME_UNKNOWN, f"what was linked was not noted: link it again ({error})"
            ) from error

    async def _mark_all(self, repo: Repository, tokens: Sequence[FoundToken]) -> None:
        # Not when the call began: staging may have taken long, and a grace from here on the collector still has to meet it.
        now = await self._engine.parts.kv.now()
        for start in range(0, len(tokens), _MARKED_AT_ONCE):
            step = tokens[start : start + _MARKED_AT_ONCE]
            await asyncio.gather(*(self._mark(repo, found, now) for found in step))

    async def _mark(self, repo: Repository, found: FoundToken, now: Instant) -> None:
        try:
            await self._put(repo, found.address, replace(found.token, used_at=now), found.version)
        except ConflictError:
            return  # Somebody else linked the same object to the same path.

    async def end(self, repo: Repository, found: FoundToken, *, now: Instant) -> None:
        """Let a token expire now: nothing is linked to its address any more."""
        if found.token.expires_at > now:
            await self._put(repo, found.address, replace(found.token, expires_at=now), found.version)

    async def sweep(self, repo: Repository) -> int:
        """Abort the uploads that nobody completed, and forget the tokens that expired a grace ago. Return how many.

        An expired token never comes back to life, so nobody can be linking what is forgotten. Addresses are named
        by reversed time: what is looked at is old enough to go, however many younger ones there are.
        """
        kv = self._engine.parts.kv
        now = await kv.now()
        keep = self._lifetimes
        youngest = after(now, -(keep.link_seconds + keep.grace_seconds + keep.slice_seconds))
        swept = 0
        async for page in kv.scan(
            repo.partition,
            start=link_key(f"data/{slice_name(youngest, '')}"),
            end=prefix_end(LINKS_PREFIX),
        ):
            tokens = {item.key: decode_link(item.value) for item in page.items()}
            over = [key for key, token in tokens.items() if after(token.expires_at, keep.grace_seconds) < now]
            for key in over:
                if tokens[key].upload and tokens[key].used_at is None:
                    store = await self._engine.store_of(repo)
                    await store.abort_upload(link_address(key), tokens[key].upload)
            await kv.delete_rows(repo.partition, over)
            swept += len(over)
        return swept

    async def _standing(self, repo: Repository, name: BranchName, entry: Entry) -> Entry | None:
        """Return what is staged if it is exactly what is to be linked again."""
        found = await self._engine.shown(repo, name, entry.path)
        is_same = found is not None and (found.address, found.checksum) == (entry.address, entry.checksum)
        return found if is_same else None

    async def _renewed(self, repo: Repository, found: FoundToken, now: Instant) -> FoundToken:
        enough = after(now, self._lifetimes.grace_seconds)
        if found.token.expires_at >= enough:
            return found
        token = replace(found.token, expires_at=enough)
        version = await self._put(repo, found.address, token, found.version)
        return replace(found, token=token, version=version)

    async def _put(
        self, repo: Repository, address: str, token: LinkToken, expected: Version | Expect
    ) -> Version:
        parts = self._engine.parts
        return await settled_swap(
            parts.kv,
            repo.partition,
            link_key(address),
            encode_link(token),
            expected=expected,
            clock=parts.clock,
            ids=parts.ids,
        )


# A store takes many swaps in one step.
_MARKED_AT_ONCE = 256


def require_open(found: FoundToken, now: Instant) -> None:
    """Raise `ConflictError` (`TOO_LATE`) if the token has expired."""
    if found.token.expires_at <= now:
        raise ConflictError(ErrorKind.TOO_LATE, f"address {found.address!r} has expired: ask for a new one")


def _relative(repo: Repository, address: str) -> str:
    prefix = f"{repo.namespace.removesuffix('/')}/"
    if not address.startswith(prefix):
        raise _refused(f"address {address!r} is not in the repository's namespace: stage it instead")
    return address.removeprefix(prefix)


def _refused(message: str) -> InvalidInputError:
    return InvalidInputError(ErrorKind.LINK_REFUSED, message)
