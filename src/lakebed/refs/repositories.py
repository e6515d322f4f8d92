"""Repositories: their record, and how they are created and deleted. Order matters.

Create                                      after a crash here
    1. swap  creating(uid, namespace)       the cleaner gives it up when it is stale
    2. look  for other records with a namespace above, below or equal, and for anyone in the store: objects in
             the namespace, markers above or below
    3. put   the owner marker               the same, and the marker goes, with what the store made for it
    4. look  into the store once more
    5. delete the marks of data that was deleted here before (`deleted_data`)
                                            the same, and late uploads of that repository stay
    6. claim the next generation, if owner files of an adopted repository lie there (only if bare: it allows data)
                                            the same; an owner without a marker is gone
    7. write the first commit and the default branch (unless bare)
                                            the same, and the partition goes
    8. swap  live, at exactly the version of 1
    Somebody is there: remove the own marker and what the store made for it, then give up as the cleaner would.
    The first look into the store only spares places of others: a creation that it refuses has written nothing there.

Delete
    1. swap  deleting(uid)                  whoever meets it goes on with 2
    2. write the clean-up entry             the same; the entry is the same one again
    3. remove the record                    done; the cleaner works the entry off when it is due

Purge: what a repository that was deleted without its data has left in a namespace
    1. to 4. of a creation, where data is allowed: the namespace belongs to nobody else, and everything below data/ is named as
             only a repository names it
    5. swap  deleting(uid, with its data), at exactly the version of 1; then 2 and 3 of a deletion
    A crash before 5 leaves a claim that is given up, and deletes nothing. A dry run gives it up itself.

1 before 2 and 3 before 4 of a creation: of two who want the same place at the same time, each has said so before it
looks, in the records of one installation and in the store for all, so at least one sees the other. To give up a creation that
is stale, the cleaner swaps its record to `deleting` first: either that or step 8
succeeds, never both, so no marker is ever taken from a repository that goes live.

One thing no step can close: a creator that stalls between 1 and 3 until it was given
up and cleaned, then puts its marker and dies before it learns so, leaves that marker
(an object store has no fences). It blocks the place and nothing else; the message
of the refusal names the object to remove.

The uid is part of everything a repository owns, and a `Repository` value carries
it. Whoever still holds the value of a deleted one meets that one's leftovers, never
a namesake's data. What such latecomers may still write is why an entry becomes due
only after a grace period.
"""

from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from hashlib import blake2b

from lakebed.env.clock import SECOND, Clock, Instant, after
from lakebed.env.ids import IdSource
from lakebed.errors import (
    AlreadyExistsError,
    ConflictError,
    ErrorKind,
    InvalidInputError,
    LakebedError,
    NotFoundError,
    UnavailableError,
    is_unknown,
)
from lakebed.format.owners import Owner
from lakebed.format.records import (
    decode_repository,
    encode_branch,
    encode_cleanup,
    encode_commit,
    encode_repository,
)
from lakebed.kv.port import Expect, KVStore, Version, VersionFence
from lakebed.limits import (
    ADOPTION_DEAD_SECONDS,
    CREATING_TIMEOUT_SECONDS,
    LIST_PAGE_DEFAULT,
    SCAN_PAGE_ITEMS,
    SWAP_ATTEMPTS_MAX,
)
from lakebed.model.ids import EMPTY_TREE, BranchName, Nonce, RepoName, RepoUid
from lakebed.model.lifetimes import Lifetimes
from lakebed.model.repository import (
    CleanupEntry,
    CreatingRepository,
    DeletingRepository,
    GoneRepository,
    Repository,
    RepositoryRecord,
)
from lakebed.objects.namespaces import overlap
from lakebed.objects.places import Places
from lakebed.objects.port import ObjectStore
from lakebed.refs.backoff import back_off
from lakebed.refs.branches import branch_names, new_branch
from lakebed.refs.commits import new_commit
from lakebed.refs.decoded import Decoded
from lakebed.refs.keys import (
    CLEANUP_PARTITION,
    REPOS_PREFIX,
    REPOSITORIES_PARTITION,
    branch_key,
    commit_key,
    repo_key,
    repository_cleanup_key,
)
from lakebed.refs.leftovers import StorageUse, remove_traces, require_leftovers
from lakebed.refs.listing import Listing
from lakebed.refs.owners import (
    OpenStore,
    claim,
    delete_marks,
    marker_key,
    newest_generation,
    put_marker,
    read_owner,
    require_unowned,
)
from lakebed.refs.scans import scan_records
from lakebed.refs.settle import settled_swap
from lakebed.refs.versioned import Versioned

_FIRST_MESSAGE = "Repository created"


class Repositories:
    """Every repository of one installation.

    `places` says what a namespace means, where two spellings can mean the same place (`local://name` is a folder that
    has an absolute path, too), and which places may be used.
    """

    def __init__(
        self,
        kv: KVStore,
        *,
        open_store: OpenStore,
        clock: Clock,
        ids: IdSource,
        places: Places | None = None,
        lifetimes: Lifetimes = Lifetimes(),  # noqa: B008  a frozen value
        installation: str = "",
    ) -> None:
        self._installation = installation
        self._kv = kv
        self._open_store = open_store
        self._clock = clock
        self._ids = ids
        self.places = places or Places()
        self._lifetimes = lifetimes
        self._decoded = Decoded(decode_repository)

    async def get(self, name: RepoName) -> Repository:
        """Return a live repository. One KV read.

        Raises:
            NotFoundError: `REPO_NOT_FOUND`; `REPO_IN_DELETION`: it is just being deleted.
        """
        return (await self.get_versioned(name)).value

    async def get_versioned(self, name: RepoName) -> Versioned[Repository]:
        """Return a live repository as `get` does, with the version of its record."""
        found = await self.find(name)
        if found is not None and isinstance(found.value, Repository):
            return Versioned(found.value, found.version)
        if found is not None and isinstance(found.value, DeletingRepository):
            raise NotFoundError(ErrorKind.REPO_IN_DELETION, f"repository {name!r} is being deleted")
        raise _missing(name)

    async def find(self, name: RepoName) -> Versioned[RepositoryRecord] | None:
        """Return the record as it is, in whatever state."""
        item = await self._kv.get(REPOSITORIES_PARTITION, repo_key(name))
        if item is None:
            return None
        return Versioned(self._decoded(REPOSITORIES_PARTITION, item), item.version)

    async def scan(
        self, *, prefix: str = "", after: str = "", page_items_max: int = SCAN_PAGE_ITEMS
    ) -> AsyncIterator[Versioned[RepositoryRecord]]:
        """Yield every record, in whatever state, by name."""
        async for items in scan_records(
            self._kv,
            REPOSITORIES_PARTITION,
            REPOS_PREFIX,
            prefix=prefix,
            after=after,
            page_items_max=page_items_max,
        ):
            for item in items:
                yield Versioned(decode_repository(item.value), item.version)

    async def list(
        self, *, prefix: str = "", after: str = "", amount: int = LIST_PAGE_DEFAULT, search: str = ""
    ) -> Listing[Repository]:
        """Return the live repositories whose name begins with `prefix`, contains `search` and is greater than
        `after`, by name.
        """
        results: list[Repository] = []
        async for record in self.scan(prefix=prefix, after=after):
            if not isinstance(record.value, Repository) or search not in record.value.name:
                continue
            if len(results) == amount:
                return Listing(results=tuple(results), has_more=True)
            results.append(record.value)
        return Listing(results=tuple(results), has_more=False)

    async def create(
        self,
        name: RepoName,
        namespace: str,
        *,
        default_branch: BranchName,
        bare: bool = False,
        read_only: bool = False,
        committer: str = "",
    ) -> Repository:
        """Create a repository with a first commit and a default branch; a bare one has neither, and its
        namespace may already hold data (which a restore will refer to).

        Raises:
            AlreadyExistsError: `REPO_EXISTS`.
            InvalidInputError: `INVALID_NAMESPACE`; `NAMESPACE_IN_USE`.
            ConflictError: it took so long that it was given up.
        """
        namespace = self.places.namespace(namespace)
        store = await self._open_store(namespace)
        claimed = await self._claim(name, namespace)
        repo = Repository(
            name=name,
            uid=claimed.value.uid,
            namespace=namespace,
            default_branch=default_branch,
            created_at=claimed.value.since,
            read_only=read_only,
            bare=bare,
        )
        try:
            await self._occupy(claimed.value, store, allow_data=repo.bare)
            await delete_marks(store)
            if bare and await newest_generation(store):
                repo = replace(repo, generation=await self.claim_generation(store, claimed.value))
            await self._go_live(repo, claimed.version, committer)
        except InvalidInputError:
            with suppress(LakebedError):  # What fails here is left to the cleaner, like after a crash.
                await self._withdraw(claimed, store)
            raise
        except LakebedError:
            with suppress(LakebedError):
                await self.give_up(claimed)
            raise
        return repo

    async def delete(self, repo: Repository, *, delete_data: bool = False) -> None:
        """Delete exactly this repository; from here it does not exist for anyone, and its name is free.

        Raises:
            NotFoundError: `REPO_NOT_FOUND`: it is gone already, whoever may have its name now.
            UnavailableError: `OUTCOME_UNKNOWN`: it may have been deleted.
        """
        sent = False
        for attempt in range(SWAP_ATTEMPTS_MAX):
            try:
                found = await self.find(repo.name)
            except UnavailableError as error:
                if not sent:
                    raise
                raise _unknown(repo.name) from error
            if found is None or isinstance(found.value, GoneRepository) or found.value.uid != repo.uid:
                if sent:
                    return
                raise _missing(repo.name)
            try:
                await self._delete_once(found.value, found.version, delete_data=delete_data)
            except ConflictError:
                pass
            except UnavailableError as error:
                if not sent and not is_unknown(error):
                    raise
                sent = True
            else:
                return
            await back_off(attempt, clock=self._clock, ids=self._ids)
        raise _unknown(repo.name) if sent else _contended(repo.name)

    async def purge(self, namespace: str, *, dry_run: bool = False) -> StorageUse:
        """Delete what is left in a namespace that no repository has, and return how much that is.

        Raises:
            AlreadyExistsError: `REPO_EXISTS`: it is being purged.
            InvalidInputError: `NAMESPACE_IN_USE`; `INVALID_NAMESPACE`: it holds what no repository has put there, or nothing.
        """
        namespace = self.places.namespace(namespace)
        store = await self._open_store(namespace)
        claim = await self._claim(_purge_name(self.places.canonical(namespace)), namespace)
        uid = claim.value.uid
        try:
            await self._occupy(claim.value, store, allow_data=True)
            found = await require_leftovers(store, namespace, own=marker_key(uid))
        except LakebedError as error:
            with suppress(LakebedError):  # What fails here is left to the cleaner, like after a crash.
                await self._withdraw(claim, store)
            if error.kind is not ErrorKind.NAMESPACE_IN_USE:
                raise
            raise InvalidInputError(
                ErrorKind.NAMESPACE_IN_USE,
                f"{error}. To delete a repository with its data, use `lakebed repo delete --with-data`",
            ) from error
        if dry_run:
            await self._withdraw(claim, store)
        else:
            await self._delete_once(claim.value, claim.version, delete_data=True)
        return found

    async def claim_adoption(self, name: RepoName, namespace: str) -> Versioned[CreatingRepository]:
        """Take a name for a repository that adopts a namespace, or go on with an adoption whose process died.

        Raises:
            AlreadyExistsError: `REPO_EXISTS`.
        """
        found = await self.find(name)
        if (
            found is not None
            and isinstance(found.value, CreatingRepository)
            and found.value.adopting
            and found.value.namespace == namespace
        ):
            claim = Versioned(found.value, found.version)
            if await self._kv.now() <= after(claim.value.since, ADOPTION_DEAD_SECONDS):
                raise _exists(
                    name,
                    f"is being adopted by another process: if that died, try again in {ADOPTION_DEAD_SECONDS:.0f} s",
                )
            return await self.renew_adoption(claim)
        return await self._claim(name, namespace, adopting=True)

    async def renew_adoption(self, claim: Versioned[CreatingRepository]) -> Versioned[CreatingRepository]:
        """Show that the process that adopts is alive.

        Raises:
            ConflictError: another process goes on with it, or it was given up.
        """
        renewed = replace(claim.value, since=await self._kv.now())
        return Versioned(renewed, await self._swap(renewed, claim.version))

    async def release_adoption(self, claim: Versioned[CreatingRepository]) -> None:
        """Let the next process go on with an adoption at once; errors as for `renew_adoption`."""
        now = await self._kv.now()
        released = replace(claim.value, since=after(now, -ADOPTION_DEAD_SECONDS - 1))
        await self._swap(released, claim.version)

    async def claim_generation(self, store: ObjectStore, creating: CreatingRepository) -> int:
        """Become the next owner of the namespace, and return the generation.

        An owner file of this uid is an earlier try's, and still good if none is later.

        Raises:
            ConflictError: `VERSION_CHANGED`: another repository has claimed it at the same time.
        """
        newest = await newest_generation(store)
        if newest and (await read_owner(store, newest)).uid == creating.uid:
            return newest
        owner = Owner(
            generation=newest + 1,
            uid=creating.uid,
            repository=creating.name,
            installation=self._installation,
            at=await self._kv.now(),
        )
        await claim(store, owner)
        return owner.generation

    async def require_adoptable(self, claim: CreatingRepository) -> None:
        """Raise `InvalidInputError` (`NAMESPACE_IN_USE`) if another repository of this installation, or one above or
        below, has the place.
        """
        await self._require_alone(claim.namespace, claim.uid, allow_data=True, adopting=True)

    async def finish_adoption(self, claim: Versioned[CreatingRepository], repo: Repository) -> None:
        """Make an adopted repository live; errors as for `renew_adoption`."""
        await self._swap(repo, claim.version)

    async def _swap(self, record: RepositoryRecord, expected: Version) -> Version:
        return await settled_swap(
            self._kv,
            REPOSITORIES_PARTITION,
            repo_key(record.name),
            encode_repository(record),
            expected=expected,
            clock=self._clock,
            ids=self._ids,
        )

    async def fence(self, repo: Repository, by: str) -> None:
        """Say in the record that another installation has taken the namespace over: from here this one only reads.

        Nothing happens if the repository was deleted or fenced meanwhile.
        """
        found = await self.find(repo.name)
        if found is None or not isinstance(found.value, Repository) or found.value.uid != repo.uid:
            return
        if found.value.taken_over_by != by:
            with suppress(ConflictError):  # The next look finds it again.
                await self._swap(replace(found.value, taken_over_by=by), found.version)

    async def give_up(self, claim: Versioned[CreatingRepository]) -> None:
        """End a creation that did not go live. Nothing happens if it did."""
        with suppress(ConflictError):
            await self._delete_once(claim.value, claim.version, delete_data=False)

    async def finish_deleting(self, found: Versioned[DeletingRepository]) -> None:
        """Do what is left of a deletion: write the clean-up entry, then remove the record."""
        await self._leave_to_cleaner(found.value)
        for attempt in range(SWAP_ATTEMPTS_MAX):
            try:
                await self._kv.remove(
                    REPOSITORIES_PARTITION, repo_key(found.value.name), expected=found.version
                )
            except ConflictError:
                return  # Somebody else has finished it.
            except UnavailableError as error:
                if not is_unknown(error):
                    raise
            else:
                return
            await back_off(attempt, clock=self._clock, ids=self._ids)
        raise _contended(found.value.name)

    async def _claim(
        self, name: RepoName, namespace: str, *, adopting: bool = False
    ) -> Versioned[CreatingRepository]:
        for attempt in range(SWAP_ATTEMPTS_MAX):
            found = await self.find(name)
            now = await self._kv.now()
            match found:
                case Versioned(value=Repository()):
                    raise _exists(name, "already exists")
                case Versioned(value=CreatingRepository() as other, version=version):
                    if not is_stale(other, now):
                        raise _exists(name, "is being created by somebody else")
                    await self.give_up(Versioned(other, version))
                    continue
                case Versioned(value=DeletingRepository() as other, version=version):
                    await self.finish_deleting(Versioned(other, version))
                    continue
            claim = CreatingRepository(
                name=name,
                uid=RepoUid(self._ids.token()),
                namespace=namespace,
                since=now,
                adopting=adopting,
            )
            try:
                version = await settled_swap(
                    self._kv,
                    REPOSITORIES_PARTITION,
                    repo_key(name),
                    encode_repository(claim),
                    expected=found.version if found is not None else Expect.ABSENT,
                    clock=self._clock,
                    ids=self._ids,
                )
            except ConflictError:
                await back_off(attempt, clock=self._clock, ids=self._ids)
                continue
            return Versioned(claim, version)
        raise _contended(name)

    async def _occupy(self, claim: CreatingRepository, store: ObjectStore, *, allow_data: bool) -> None:
        """Do 2 to 4 of a creation."""
        await self._require_alone(claim.namespace, claim.uid, allow_data=allow_data)
        await put_marker(store, claim.name, claim.uid)
        await self._require_unowned(claim.namespace, claim.uid, allow_data=allow_data)

    async def _require_alone(
        self, namespace: str, uid: RepoUid, *, allow_data: bool, adopting: bool = False
    ) -> None:
        place = self.places.canonical(namespace)
        async for found in self.scan():
            other = found.value
            if isinstance(other, GoneRepository) or other.uid == uid:
                continue
            if overlap(self.places.canonical(other.namespace), place):
                raise InvalidInputError(
                    ErrorKind.NAMESPACE_IN_USE,
                    f"namespace {namespace} is in use: repository {other.name} has {other.namespace}",
                )
        await self._require_unowned(namespace, uid, allow_data=allow_data, adopting=adopting)

    async def _require_unowned(
        self, namespace: str, uid: RepoUid, *, allow_data: bool, adopting: bool = False
    ) -> None:
        place = self.places.canonical(namespace)
        await require_unowned(
            self._open_store,
            place,
            uid,
            above=self.places.above(place),
            allow_data=allow_data,
            adopting=adopting,
        )

    async def _go_live(self, repo: Repository, claimed: Version, committer: str) -> None:
        key = repo_key(repo.name)
        fence = VersionFence(partition=REPOSITORIES_PARTITION, key=key, version=claimed)
        try:
            if not repo.bare:
                await self._write_first_commit(
                    repo, committer, fence if self._kv.capabilities.fences else None
                )
            await settled_swap(
                self._kv,
                REPOSITORIES_PARTITION,
                key,
                encode_repository(repo),
                expected=claimed,
                clock=self._clock,
                ids=self._ids,
            )
        except ConflictError as error:
            # Without a fence the rows above may have come after the cleaner: it has to come once more.
            await self._leave_to_cleaner(_deleting(repo, at=await self._kv.now()))
            raise ConflictError(
                ErrorKind.VERSION_CHANGED,
                f"creating {repo.name} took so long that it was given up: try again",
            ) from error

    async def _write_first_commit(self, repo: Repository, committer: str, fence: VersionFence | None) -> None:
        commit = new_commit(
            committer=committer,
            message=_FIRST_MESSAGE,
            tree=EMPTY_TREE,
            date=repo.created_at // SECOND,
            metadata={},
            parents=(),
            nonce=Nonce(repo.uid),
            now=repo.created_at,
        )
        branch = new_branch(repo.default_branch, commit.id, Nonce(repo.uid), now=repo.created_at)
        rows = (
            (commit_key(commit.id), encode_commit(commit), ()),
            (branch_key(branch.name), encode_branch(branch), branch_names(branch)),
        )
        for key, value, names in rows:
            await settled_swap(
                self._kv,
                repo.partition,
                key,
                value,
                expected=Expect.ABSENT,
                names=names,
                fence=fence,
                clock=self._clock,
                ids=self._ids,
            )

    async def _withdraw(self, claim: Versioned[CreatingRepository], store: ObjectStore) -> None:
        """End a creation that found somebody in its place. Nothing but the marker was written yet.

        It goes at once, so that whoever looks next finds nobody here, and once more when the cleaner comes: a copy
        of the put that was given up on the way may arrive after this.
        """
        marker = marker_key(claim.value.uid)
        if await store.head(marker) is not None:
            await store.delete([marker])
            await remove_traces(store)
        await self.give_up(claim)

    async def _delete_once(
        self,
        record: Repository | CreatingRepository | DeletingRepository,
        version: Version,
        *,
        delete_data: bool,
    ) -> None:
        if isinstance(record, DeletingRepository):
            deleting = record
        else:
            deleting = _deleting(record, at=await self._kv.now(), delete_data=delete_data)
            version = await settled_swap(
                self._kv,
                REPOSITORIES_PARTITION,
                repo_key(record.name),
                encode_repository(deleting),
                expected=version,
                clock=self._clock,
                ids=self._ids,
            )
        with suppress(
            LakebedError
        ):  # It is deleted now; whoever meets the record next does what failed here.
            await self.finish_deleting(Versioned(deleting, version))

    async def _leave_to_cleaner(self, deleting: DeletingRepository) -> None:
        entry = CleanupEntry(
            name=deleting.name,
            uid=deleting.uid,
            namespace=deleting.namespace,
            delete_data=deleting.delete_data,
        )
        await settled_swap(
            self._kv,
            CLEANUP_PARTITION,
            repository_cleanup_key(after(deleting.at, self._lifetimes.grace_seconds), deleting.uid),
            encode_cleanup(entry),
            expected=Expect.ANY,
            clock=self._clock,
            ids=self._ids,
        )


def _purge_name(place: str) -> RepoName:
    """Return the name under which a place is purged: one at a time, and no more tombstones than places."""
    return RepoName(f"purge-{blake2b(place.encode(), digest_size=16).hexdigest()}")


def is_stale(claim: CreatingRepository, now: Instant) -> bool:
    """Return whether the process that made `claim` must be taken for dead."""
    return now > after(claim.since, CREATING_TIMEOUT_SECONDS)


def _deleting(
    record: Repository | CreatingRepository, *, at: Instant, delete_data: bool = False
) -> DeletingRepository:
    return DeletingRepository(
        name=record.name, uid=record.uid, namespace=record.namespace, delete_data=delete_data, at=at
    )


def _missing(name: RepoName) -> LakebedError:
    return NotFoundError(ErrorKind.REPO_NOT_FOUND, f"repository {name!r} not found")


def _exists(name: RepoName, why: str) -> LakebedError:
    return AlreadyExistsError(ErrorKind.REPO_EXISTS, f"repository {name!r} {why}")


def _unknown(name: RepoName) -> LakebedError:
    return UnavailableError(
        ErrorKind.OUTCOME_UNKNOWN, f"repository {name!r} may have been deleted: look before you try again"
    )


def _contended(name: RepoName) -> LakebedError:
    return ConflictError(
        ErrorKind.TOO_MANY_RETRIES, f"repository {name!r} is changed by too many at once: try again later"
    )
