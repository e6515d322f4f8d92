"""Objects that clients write to, and read from, the store themselves: addresses and URLs (see `link_tokens`)."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakebed.auth.actions import Action
from lakebed.auth.arns import object_arn
from lakebed.auth.caller import Caller
from lakebed.catalog.engine import Engine
from lakebed.catalog.link_tokens import LinkTokens
from lakebed.env.clock import Instant, after
from lakebed.errors import ErrorKind, InvalidInputError, NotFoundError
from lakebed.limits import PRESIGN_SECONDS
from lakebed.model.entries import CONTENT_TYPE_DEFAULT, Entry
from lakebed.model.ids import parse_branch_name, parse_path
from lakebed.model.metadata import require_small
from lakebed.model.repository import Repository
from lakebed.objects.disposition import attachment
from lakebed.objects.port import ObjectStore
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
        self._tokens = LinkTokens(engine)

    async def download(self, repo: Repository, entry: Entry) -> SignedUrl:
        """Return a URL for the bytes of an entry that `Objects.locate` or a listing has found.

        Raises:
            InvalidInputError: `INVALID_ARGUMENT`: the store cannot sign.
        """
        return await self._download(repo, entry.path, entry.address, entry.content_type)

    async def download_address(self, repo_name: str, path: str, address: str, content_type: str) -> SignedUrl:
        """Return a URL for the bytes of a listed object, by its path and full address.

        Raises:
            DeniedError: the caller may list, but not read it.
            InvalidInputError: `INVALID_ARGUMENT`: the store cannot sign.
        """
        self._caller.require(Action.READ_OBJECT, object_arn(repo_name, path))
        repo = await self._engine.repo(repo_name)
        return await self._download(repo, path, address.removeprefix(f"{repo.namespace}/"), content_type)

    async def storage_class(self, repo: Repository, entry: Entry) -> str | None:
        """Return how the store keeps an entry that `Objects.locate` has found; None if it does not know.

        Raises:
            NotFoundError: `DATA_MISSING`.
        """
        store, key = await self._place(repo, entry.address)
        # Only a listing tells; of all keys that begin like this one, this one comes first.
        page = await anext(aiter(store.list(key, page_items_max=1)), None)
        if page is None or page[0].key != key:
            raise NotFoundError(
                ErrorKind.DATA_MISSING, f"the bytes of {entry.path!r} are gone from {entry.address}"
            )
        return page[0].storage_class or None

    async def issue(self, repo_name: str, branch: str, path: str, *, presign: bool = False) -> Issued:
        """Give out an address for an object at `path`."""
        self._caller.require(Action.WRITE_OBJECT, object_arn(repo_name, path))
        engine = self._engine
        repo = await engine.repo(repo_name)
        name = parse_branch_name(branch)
        await engine.parts.branches.get(repo, name)
        now = await engine.parts.kv.now()
        address = engine.slices.next_address(now)
        await self._tokens.give_out(repo, name, parse_path(path), address=address, now=now)
        signed = await sign(engine, "PUT", await engine.store_of(repo), address) if presign else None
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
        require_small(linked.metadata)
        now = await engine.parts.kv.now()
        found = await self._tokens.find(repo, name, target, linked.address)
        entry = Entry(
            path=target,
            address=found.address,
            checksum=linked.checksum,
            size_bytes=linked.size_bytes,
            mtime=linked.mtime if linked.mtime is not None else now,
            content_type=linked.content_type,
            metadata=dict(linked.metadata),
        )
        return await self._tokens.redeem(repo, name, found, entry, now=now, condition=condition)

    async def _download(self, repo: Repository, path: str, address: str, content_type: str) -> SignedUrl:
        answer = {
            "content-disposition": attachment(path.rpartition("/")[2]),
            "content-type": content_type
            if content_type.isprintable() and content_type
            else CONTENT_TYPE_DEFAULT,
        }
        return await sign(self._engine, "GET", *await self._place(repo, address), answer=answer)

    async def _place(self, repo: Repository, address: str) -> tuple[ObjectStore, str]:
        if "://" in address:
            source = await self._engine.external.resolve(address)
            return source.store, source.key
        return await self._engine.store_of(repo), address


async def sign(
    engine: Engine, method: str, store: ObjectStore, key: str, *, answer: Mapping[str, str] | None = None
) -> SignedUrl:
    """Return a URL for an object, or raise `InvalidInputError` if the store cannot sign."""
    if not store.capabilities.sign:
        raise InvalidInputError(
            ErrorKind.NO_PRESIGNED_URLS, "presign: this storage cannot sign URLs: leave it out"
        )
    expires_at = after(engine.parts.clock.now(), PRESIGN_SECONDS)
    url = await store.sign(method, key, seconds=PRESIGN_SECONDS, answer=answer)
    return SignedUrl(url=url, expires_at=expires_at)
