"""Link tokens: addresses that clients write to themselves, from given out to linked. Callers check permissions first.

A token allows one link, to the path it was given out for, before it expires. At most one call stages an entry under
it: a repeated call must never stage a second time, because another client may have overwritten the path in between.

Linking, in this order:

    1. claim     swap the token to used, with the nonce of this call and the checksum of the entry. The same swap
                 renews a token that is about to expire: a claimed token is good for a grace period or longer
    2. stage     the entry
    3. release   swap the token back to open, only if staging failed for certain; a repeat may link then

What a repeat finds in each case:

    crash                   token   entry                    repeat
    before 1                open    none                     links
    between 1 and 2         used    none                     503 for `CLAIM_SECONDS`, then refused: upload again
    in 2, outcome unknown   used    stands, or arrives late  the same success once it stands
    in 2, overwritten since used    stood                    as between 1 and 2: nothing is staged
    after 2, reply lost     used    stands                   the same success
    after 2, and a commit   used    gone: the commit kept a  the same success: the token has this call's checksum,
    with equal content              row that is alike        and the path shows what is alike
    before 3                used    none                     as between 1 and 2

A claim without an entry costs the client a second upload. Staging again instead could erase an acknowledged write: a
row that was overwritten leaves nothing behind that proves it was there.

The collector treats an address as referenced until a grace period after its token expires, whether the token is open
or used. So a link may stage its entry at any time after its claim without meeting the collector in between.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace

from lakebed.catalog.engine import Engine
from lakebed.env.clock import Instant, after
from lakebed.errors import (
    ConflictError,
    ErrorKind,
    InvalidInputError,
    LakebedError,
    UnavailableError,
    is_unknown,
    quoted,
)
from lakebed.format.identity import alike
from lakebed.format.links import decode_link, encode_link
from lakebed.kv.port import Expect, Version, prefix_end
from lakebed.limits import CLAIM_SECONDS, SWAP_ATTEMPTS_MAX
from lakebed.model.entries import Entry
from lakebed.model.ids import BranchName, Nonce, Path
from lakebed.model.links import LinkToken
from lakebed.model.repository import Repository
from lakebed.objects.slices import slice_name
from lakebed.refs.backoff import back_off
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
        return await self._read(repo, name, path, _relative(repo, address))

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
        """Claim a token and stage the entry of its address; a repeat returns the entry that stands.

        Raises:
            InvalidInputError: `LINK_REFUSED`: another call claimed the token, and the path does not show its entry.
            ConflictError: `TOO_LATE`: the token has expired.
            PreconditionError: the condition does not hold.
            UnavailableError: `OUTCOME_UNKNOWN`: the entry may be staged, or another call is staging it. Repeat the call.
        """
        nonce = Nonce(self._engine.parts.ids.token())
        for attempt in range(SWAP_ATTEMPTS_MAX):
            if found.token.used_at is not None:
                return await self._repeated(repo, name, found, entry, now=now)
            try:
                claimed = await self._claim(
                    repo, replace(found, token=replace(found.token, checksum=entry.checksum)), nonce, now=now
                )
            except ConflictError as error:
                if error.kind is ErrorKind.TOO_LATE:
                    raise
                await back_off(attempt, clock=self._engine.parts.clock, ids=self._engine.parts.ids)
                found = await self._read(repo, name, entry.path, found.address)
            else:
                async with self._released_if_refused(repo, [claimed]):
                    await self._engine.parts.staging.write(repo, name, [entry], condition=condition)
                return entry
        raise UnavailableError(
            ErrorKind.STORE_UNAVAILABLE, f"the token of {entry.address!r} changes too often: try again"
        )

    async def find_all(
        self, repo: Repository, name: BranchName, links: Sequence[tuple[str, str, str]], *, nonce: Nonce
    ) -> list[FoundToken]:
        """Return the tokens of many links (path, relative address, checksum) that the call `nonce` may claim.

        Raises:
            InvalidInputError: `LINK_REFUSED`: an address was not given out for its path, or another call claimed it.
        """
        items = await self._engine.parts.kv.get_many(
            [(repo.partition, link_key(address)) for _, address, _ in links]
        )
        found = []
        for (path, address, checksum), item in zip(links, items, strict=True):
            token = decode_link(item.value) if item is not None else None
            if item is None or token is None or (token.branch, token.path) != (name, path):
                raise _not_given_out(address, path, name)
            if token.used_at is not None and token.claimed_by != nonce:
                raise _refused(f"address {quoted(address)} of {path!r} was linked before: ask for a new one")
            token = replace(token, checksum=checksum)
            found.append(FoundToken(address=address, token=token, version=item.version))
        return found

    @asynccontextmanager
    async def claimed(
        self, repo: Repository, tokens: Sequence[FoundToken], nonce: Nonce, *, now: Instant, shared: bool
    ) -> AsyncIterator[None]:
        """Claim all tokens for the call `nonce`, which stages their entries inside; errors as for `redeem`.

        A `shared` nonce belongs to all repeats of one call. They count on each other's claims, so none is released.
        """
        claims: list[FoundToken] = []
        async with self._released_if_refused(repo, () if shared else claims):
            for start in range(0, len(tokens), _CLAIMED_AT_ONCE):
                step = tokens[start : start + _CLAIMED_AT_ONCE]
                made = await asyncio.gather(
                    *(self._claim_once(repo, found, nonce, now=now) for found in step), return_exceptions=True
                )
                claims += [each for each in made if isinstance(each, FoundToken)]
                for each in made:
                    if isinstance(each, BaseException):
                        raise each
            yield

    async def _claim_once(
        self, repo: Repository, found: FoundToken, nonce: Nonce, *, now: Instant
    ) -> FoundToken:
        """Claim a token that a repeat of the same call may have claimed by now."""
        if found.token.claimed_by == nonce:
            return found
        try:
            return await self._claim(repo, found, nonce, now=now)
        except ConflictError:
            token = found.token
            again = await self._read(repo, BranchName(token.branch), Path(token.path), found.address)
            if again.token.claimed_by != nonce:
                raise
            return again

    async def _claim(self, repo: Repository, found: FoundToken, nonce: Nonce, *, now: Instant) -> FoundToken:
        """Swap a token to used, and return it.

        Raises:
            ConflictError: `TOO_LATE`: it has expired; `VERSION_CHANGED`: another call changed it.
        """
        require_open(found, now)
        expires_at = max(found.token.expires_at, after(now, self._lifetimes.grace_seconds))
        token = replace(found.token, used_at=now, claimed_by=nonce, expires_at=expires_at)
        version = await self._put(repo, found.address, token, found.version)
        return replace(found, token=token, version=version)

    @asynccontextmanager
    async def _released_if_refused(
        self, repo: Repository, claims: Sequence[FoundToken]
    ) -> AsyncIterator[None]:
        """Open claimed tokens again if the body raises an error which promises that nothing was staged."""
        try:
            yield
        except LakebedError as error:
            if not is_unknown(error):
                for start in range(0, len(claims), _CLAIMED_AT_ONCE):
                    step = claims[start : start + _CLAIMED_AT_ONCE]
                    await asyncio.gather(*(self._release(repo, found) for found in step))
            raise

    async def _release(self, repo: Repository, found: FoundToken) -> None:
        token = replace(found.token, used_at=None, claimed_by="", checksum="")
        # Best effort: a token that stays claimed costs its client another upload.
        with suppress(ConflictError, UnavailableError):
            await self._put(repo, found.address, token, found.version)

    async def _repeated(
        self, repo: Repository, name: BranchName, found: FoundToken, entry: Entry, *, now: Instant
    ) -> Entry:
        """Return the entry that stands, or say why there is none."""
        standing = await self._engine.shown(repo, name, entry.path)
        if standing is not None and (standing.address, standing.checksum) == (entry.address, entry.checksum):
            return standing
        if found.token.checksum == entry.checksum:
            if standing is not None and alike(standing, entry):
                # The entry was alike to the committed one, whose address a commit has kept.
                return standing
            require_settled(f"address {entry.address!r} is being linked", found.token.used_at, now=now)
        raise _refused(
            f"address {entry.address!r} was linked before, and {entry.path!r} does not show it: "
            "ask for a new address and upload the object again"
        )

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

    async def _read(self, repo: Repository, name: BranchName, path: Path, address: str) -> FoundToken:
        item = await self._engine.parts.kv.get(repo.partition, link_key(address))
        token = decode_link(item.value) if item is not None else None
        if item is None or token is None or (token.branch, token.path) != (name, path):
            raise _not_given_out(address, path, name, is_known=token is not None)
        return FoundToken(address=address, token=token, version=item.version)

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
_CLAIMED_AT_ONCE = 256


def require_open(found: FoundToken, now: Instant) -> None:
    """Raise `ConflictError` (`TOO_LATE`) if the token has expired."""
    if found.token.expires_at <= now:
        raise ConflictError(ErrorKind.TOO_LATE, f"address {found.address!r} has expired: ask for a new one")


def require_settled(what: str, claimed_at: Instant | None, *, now: Instant) -> None:
    """Raise `UnavailableError` (`OUTCOME_UNKNOWN`) if the call that made a claim may still be staging."""
    if claimed_at is not None and now < after(claimed_at, CLAIM_SECONDS):
        raise UnavailableError(
            ErrorKind.OUTCOME_UNKNOWN, f"{what} by an earlier call: repeat this one in a few seconds"
        )


def _relative(repo: Repository, address: str) -> str:
    prefix = f"{repo.namespace.removesuffix('/')}/"
    if not address.startswith(prefix):
        raise _refused(
            f"address {quoted(address)} is not in the repository's namespace: stage it instead", about=address
        )
    return address.removeprefix(prefix)


def _not_given_out(address: str, path: str, name: str, *, is_known: bool = False) -> InvalidInputError:
    """Return the error of an address that was never given out, or `is_known` and was given out for something else."""
    message = f"address {quoted(address)} was not given out for {path!r} on {name}"
    return _refused(message, about=path if is_known else "")


def _refused(message: str, *, about: str = "") -> InvalidInputError:
    return InvalidInputError(ErrorKind.LINK_REFUSED, message, about=about)
