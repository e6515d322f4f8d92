"""Objects that clients write to, and read from, the store themselves.

An address is given out with a token, tracked in the KV: it may be linked once, to the
path it was given out for, before it expires. Repeating a link that already stands
(same address, path and checksum) is the same success, so a lost reply is harmless.

The entry is staged first and the token marked used second. A crash in between leaves
a token that is still open for an entry that stands, which at worst keeps an object
from the collector until the token expires; the other order would lose the upload.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from lakebed.auth.actions import Action
from lakebed.auth.arns import object_arn
from lakebed.auth.caller import Caller
from lakebed.catalog.engine import Engine
from lakebed.env.clock import Instant, after
from lakebed.errors import ConflictError, ErrorKind, InvalidInputError, NotFoundError
from lakebed.format.links import decode_link, encode_link
from lakebed.kv.port import Expect, Version
from lakebed.limits import LINK_LIFETIME_SECONDS, METADATA_BYTES_MAX, PRESIGN_SECONDS
from lakebed.model.entries import Entry
from lakebed.model.ids import BranchName, parse_branch_name, parse_path
from lakebed.model.links import LinkToken
from lakebed.model.repository import Repository
from lakebed.objects.port import ObjectStore
from lakebed.refs.keys import link_key
from lakebed.refs.settle import settled_swap
from lakebed.staging.conditions import Condition


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedUrl:
    """A URL of the store and when it stops working."""

    url: str
    expires_at: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class Issued:
    """An address to write an object to, and a URL to do it with where the store can sign one."""

    address: str
    signed: SignedUrl | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Linked:
    """What a client says about the object it wrote."""

    address: str
    checksum: str
    size_bytes: int
    content_type: str
    mtime: Instant | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)


class Links:
    """Use cases on addresses and URLs of the store."""

    def __init__(self, engine: Engine, caller: Caller) -> None:
        self._engine = engine
        self._caller = caller

    async def download(self, repo: Repository, entry: Entry) -> SignedUrl:
        """Return a URL for the bytes of an entry that `Objects.locate` or a listing has found.

        Raises:
            InvalidInputError: `INVALID_ARGUMENT`: the store cannot sign.
        """
        return await self._download(repo, entry.address)

    async def download_address(self, repo_name: str, path: str, address: str) -> SignedUrl:
        """Return a URL for the bytes of a listed object, by its path and full address.

        Raises:
            DeniedError: the caller may list, but not read it.
            InvalidInputError: `INVALID_ARGUMENT`: the store cannot sign.
        """
        self._caller.require(Action.READ_OBJECT, object_arn(repo_name, path))
        repo = await self._engine.repo(repo_name)
        return await self._download(repo, address.removeprefix(f"{repo.namespace}/"))

    async def issue(self, repo_name: str, branch: str, path: str, *, presign: bool = False) -> Issued:
        """Give out an address for an object at `path`."""
        self._caller.require(Action.WRITE_OBJECT, object_arn(repo_name, path))
        engine = self._engine
        repo = await engine.repo(repo_name)
        name = parse_branch_name(branch)
        await engine.parts.branches.get(repo, name)
        now = await engine.parts.kv.now()
        address = engine.slices.next_address(now)
        token = LinkToken(branch=name, path=parse_path(path), expires_at=after(now, LINK_LIFETIME_SECONDS))
        # Before the address leaves: whoever collects garbage must know of it first.
        await self._put(repo, address, token, Expect.ABSENT)
        signed = await self._sign("PUT", await engine.store_of(repo), address) if presign else None
        return Issued(address=f"{repo.namespace}/{address}", signed=signed)

    async def link(
        self,
        repo_name: str,
        branch: str,
        path: str,
        linked: Linked,
        *,
        condition: Condition | None = None,
        force: bool = False,
    ) -> Entry:
        """Stage an object that was written to an address given out for it.

        Raises:
            InvalidInputError: `LINK_REFUSED`: an address that was not given out for this path, or was used;
                `TOO_LARGE`: too much metadata.
            ConflictError: `TOO_LATE`.
        """
        self._caller.require(Action.WRITE_OBJECT, object_arn(repo_name, path))
        engine = self._engine
        repo = await engine.repo(repo_name)
        name = await engine.writable(repo, branch, action="staging_write", force=force)
        target = parse_path(path)
        await engine.parts.branches.get(repo, name)
        size = sum(len(key.encode()) + len(value.encode()) for key, value in linked.metadata.items())
        if size > METADATA_BYTES_MAX:
            raise InvalidInputError(
                ErrorKind.TOO_LARGE, f"{size} bytes of user metadata, {METADATA_BYTES_MAX} are the most"
            )
        address = _relative(repo, linked.address)
        now = await engine.parts.kv.now()
        item = await engine.parts.kv.get(repo.partition, link_key(address))
        token = decode_link(item.value) if item is not None else None
        if item is None or token is None or (token.branch, token.path) != (name, target):
            raise _refused(f"address {linked.address!r} was not given out for {target!r} on {name}")
        entry = Entry(
            path=target,
            address=address,
            checksum=linked.checksum,
            size_bytes=linked.size_bytes,
            mtime=linked.mtime if linked.mtime is not None else now,
            content_type=linked.content_type,
            metadata=dict(linked.metadata),
        )
        if token.used_at is not None:
            return await self._standing(repo, name, entry)
        if token.expires_at <= now:
            raise ConflictError(
                ErrorKind.TOO_LATE, f"address {linked.address!r} has expired: ask for a new one"
            )
        await engine.parts.staging.write(repo, name, [entry], condition=condition)
        used = replace(token, checksum=entry.checksum, used_at=now)
        try:
            await self._put(repo, address, used, item.version)
        except ConflictError:
            return entry  # Somebody else linked the same object to the same path.
        return entry

    async def _standing(self, repo: Repository, name: BranchName, entry: Entry) -> Entry:
        """Return what is staged if it is exactly what is to be linked again."""
        record = (await self._engine.parts.branches.get(repo, name)).value
        source = await self._engine.view.source(repo, record)
        try:
            found = await self._engine.view.stat(repo, source, parse_path(entry.path))
        except NotFoundError:
            found = None
        if found is None or (found.address, found.checksum) != (entry.address, entry.checksum):
            raise _refused(f"address {entry.address!r} was linked before: ask for a new one")
        return found

    async def _put(
        self, repo: Repository, address: str, token: LinkToken, expected: Version | Expect
    ) -> None:
        parts = self._engine.parts
        await settled_swap(
            parts.kv,
            repo.partition,
            link_key(address),
            encode_link(token),
            expected=expected,
            clock=parts.clock,
            ids=parts.ids,
        )

    async def _download(self, repo: Repository, address: str) -> SignedUrl:
        if "://" in address:
            source = await self._engine.external.resolve(address)
            return await self._sign("GET", source.store, source.key)
        return await self._sign("GET", await self._engine.store_of(repo), address)

    async def _sign(self, method: str, store: ObjectStore, key: str) -> SignedUrl:
        if not store.capabilities.sign:
            raise InvalidInputError(
                ErrorKind.INVALID_ARGUMENT, "presign: this storage cannot sign URLs: leave it out"
            )
        expires_at = after(self._engine.parts.clock.now(), PRESIGN_SECONDS)
        return SignedUrl(url=await store.sign(method, key, seconds=PRESIGN_SECONDS), expires_at=expires_at)


def _relative(repo: Repository, address: str) -> str:
    prefix = f"{repo.namespace.removesuffix('/')}/"
    if not address.startswith(prefix):
        raise _refused(f"address {address!r} is not in the repository's namespace: stage it instead")
    return address.removeprefix(prefix)


def _refused(message: str) -> InvalidInputError:
    return InvalidInputError(ErrorKind.LINK_REFUSED, message)
