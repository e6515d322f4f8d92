"""`repo adopt`: a namespace whose database is lost gets a repository again. Order matters.

    1. record    swap `repos/<name>` to creating(uid, namespace, adopting); look for others in the place
    2. claim     put the own marker, then create the owner file of the next generation: from here the old owner is fenced
    3. read      the intents of sweeps, then the newest dump; refuse if the data is being deleted
    4. inspect   the namespace: what commits of the dump miss, and what nothing refers to
    5. restore   commits, then refs, into the new uid. A commit with anything that an intent names is restored as expired
    6. live      write the report; list the owners: still this uid; swap to live, with no collection for seven days; then
                 the old owner's marker goes

The old owner, before it deletes: dump, intent, check (`gc/service`). Both sides publish first and check second. A sweep
that passed its check had published its intent before the claim, so step 3 reads it; one that checks later stops.
The newest dump names nothing that a stalled sweep can delete, since every sweep has one written first; the intents
make an older one (`--dump`) safe too. Reading the dump before the claim would miss such a sweep.

    crash after    what is left                                     next
    1              a `creating` record                              the cleaner gives it up
    2 to 5         an owner without a live repository; the old      the same command goes on, with the same uid while the
                   owner is fenced and its data is untouched        record is there and a new generation after that;
                                                                    another installation may claim the next generation
    6, after live  two markers                                      adopting or deleting removes the other

A process that adopts renews the record's `since`. Whoever goes on with the work of a dead one swaps the record first,
so the dead one, if it lives after all, loses its next renewal and its last swap.

What the namespace cannot give back is named in the report: staged changes and stashes, refs and commits after the dump,
rules and metadata of the repository. What it cannot guarantee: that the old servers stop acknowledging writes before
they next look at the owners, and that servers of a version without owner checks stop deleting.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import polars as pl

from lakebed.auth.actions import Action
from lakebed.auth.arns import namespace_arn, repository_arn
from lakebed.auth.caller import Caller
from lakebed.catalog.engine import Engine
from lakebed.catalog.tasks import Report, Tasks
from lakebed.env.clock import Instant, after
from lakebed.errors import (
    AlreadyExistsError,
    ConflictError,
    ErrorKind,
    FencedError,
    InvalidInputError,
    LakebedError,
    NotFoundError,
    quoted,
)
from lakebed.format.adoption import ORPHANS_FILE, REPORT, AdoptionReport, LostRef, orphans_key, report_key
from lakebed.format.dump import read_branches, read_commits, read_tags
from lakebed.format.gc import (
    CANDIDATES_FILE,
    GC_FOLDER,
    Amount,
    DataFile,
    decode_table,
    encode_table,
    run_folder,
)
from lakebed.gc.names import run_name
from lakebed.limits import ADOPTION_KEPT_SECONDS, ADOPTION_RENEW_SECONDS, GC_FILE_ROWS
from lakebed.model.commits import Commit
from lakebed.model.ids import BranchName, CommitId, MetarangeId, RepoUid, parse_repo_name
from lakebed.model.repository import CreatingRepository, Repository
from lakebed.model.tasks import Task
from lakebed.objects.port import ObjectStore
from lakebed.refs.dump import REFS_FOLDER, Heads, RefsDump
from lakebed.refs.dump_files import DumpName, list_dumps, open_dump, parse_dump_key
from lakebed.refs.leftovers import remove_traces
from lakebed.refs.owners import (
    marker_key,
    markers,
    newest_generation,
    put_marker,
    read_owner,
    require_create_only,
    require_kept,
    require_owned,
)
from lakebed.refs.versioned import Versioned
from lakebed.versioning.inspection import Inspection

_ADOPTION = "adoption"
_INTENT = "/sweep-started"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Dump:
    """Refs and commits to restore, and what the dump says of their repository."""

    said: str
    at: Instant | None
    repository: str
    default_branch: BranchName
    heads: Heads
    commits: Callable[[], AsyncIterator[list[Commit]]]
    """Yields all commits. One may come more than once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Which dump to adopt: the newest one of the owner by default, one by name, or one that somebody asked for."""

    name: str = ""
    manual: RefsDump | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphanPage:
    """Objects that nothing refers to; `after` asks for the next page, None after the last."""

    rows: Sequence[Mapping[str, Any]]
    after: int | None
    report: AdoptionReport


@dataclass(slots=True)
class _Hold:
    """The record of an adoption, as this process last wrote it."""

    claim: Versioned[CreatingRepository]
    lost: LakebedError | None = None

    def require(self) -> None:
        """Raise `FencedError` if another process goes on with the adoption."""
        if self.lost is not None:
            raise FencedError(
                ErrorKind.LEASE_LOST,
                f"the adoption of {self.claim.value.namespace} was taken over: {self.lost}",
            )


class Adoptions:
    """Use cases on namespaces whose database is lost."""

    def __init__(self, engine: Engine, caller: Caller, tasks: Tasks) -> None:
        self._engine = engine
        self._caller = caller
        self._tasks = tasks

    async def start(
        self, namespace: str, *, name: str = "", source: Source | None = None
    ) -> tuple[str, Task]:
        """Begin to adopt a namespace; return the repository's name and the task.

        Raises:
            AlreadyExistsError: `REPO_EXISTS`.
            InvalidInputError: `NAMESPACE_IN_USE`, `UNSUPPORTED`: the storage; `INVALID_ARGUMENT`: no name.
            NotFoundError: `KEY_NOT_FOUND`: there is no dump to restore.
            CorruptError: the dump is damaged.
        """
        source = source or Source()
        self._caller.require(Action.ADOPT_REPOSITORY, repository_arn(name or "*"))
        # Policies name the one spelling that is stored.
        namespace = self._engine.repositories.places.namespace(namespace)
        self._caller.require(Action.ATTACH_STORAGE_NAMESPACE, namespace_arn(namespace))
        store = await self._engine.open_store(namespace)
        await require_kept(store, namespace)
        dump = await self._find_dump(store, namespace, source)
        name = name or dump.repository
        if not name:
            raise InvalidInputError(
                ErrorKind.INVALID_ARGUMENT, "name: this dump does not say what its repository was called"
            )
        try:
            await require_create_only(store, namespace, self._engine.parts.ids.token())
            claimed = await self._engine.repositories.claim_adoption(parse_repo_name(name), namespace)
        except LakebedError:
            with suppress(LakebedError):
                await remove_traces(store)
            raise
        hold = _Hold(claimed)
        repo = _repository(claimed.value)

        async def work(report: Report) -> Mapping[str, str]:
            try:
                async with self._held(hold):
                    done = await self._adopt(hold, store, source, report)
            except BaseException:
                with suppress(LakebedError):
                    await self._engine.repositories.release_adoption(hold.claim)
                raise
            await self._engine.repositories.finish_adoption(hold.claim, done.repo)
            await store.delete([marker_key(uid) for uid in await markers(store) if uid != repo.uid])
            return {"report": msgspec.json.encode(done.report).decode()}

        return name, await self._tasks.start(repo, _ADOPTION, work)

    async def status(self, repo_name: str, task_id: str) -> Task:
        """Return how an adoption goes."""
        self._caller.require(Action.ADOPT_REPOSITORY, repository_arn(repo_name))
        found = await self._engine.repositories.find(parse_repo_name(repo_name))
        match found.value if found is not None else None:
            case Repository() as repo:
                return await self._tasks.get(repo, task_id, kind=_ADOPTION)
            case CreatingRepository(adopting=True) as creating:
                return await self._tasks.get(_repository(creating), task_id, kind=_ADOPTION)
        raise NotFoundError(
            ErrorKind.TASK_NOT_FOUND,
            f"repository {quoted(repo_name)} is not being adopted: the process died and it was given up, or it never began",
        )

    async def orphans(self, repo_name: str, *, after: int = 0, amount: int) -> OrphanPage:
        """Return objects that nothing referred to when the repository was adopted, from number `after` on.

        Raises:
            NotFoundError: `KEY_NOT_FOUND`: the repository was not adopted.
        """
        self._caller.require(Action.ADOPT_REPOSITORY, repository_arn(repo_name))
        repo = await self._engine.repo(repo_name)
        store = await self._engine.store_of(repo)
        try:
            report = REPORT.open(await store.get(report_key(repo.uid)))
        except NotFoundError:
            raise NotFoundError(
                ErrorKind.KEY_NOT_FOUND,
                f"repository {repo_name} was not adopted. `lakebed gc run` without --yes lists what nothing refers to",
            ) from None
        rows: list[Mapping[str, Any]] = []
        start = 0
        for file in report.orphan_files:
            if start + file.rows > after and len(rows) < amount:
                data = await store.get(file.key)
                table = await self._engine.parts.workers.run(decode_table, ORPHANS_FILE, data, rows=file.rows)
                rows += table.slice(max(0, after - start), amount - len(rows)).to_pylist()
            start += file.rows
        following = after + len(rows)
        return OrphanPage(rows=rows, after=following if following < start else None, report=report)

    async def _adopt(self, hold: _Hold, store: ObjectStore, source: Source, report: Report) -> "_Adopted":
        engine, creating = self._engine, hold.claim.value
        await put_marker(store, creating.name, creating.uid)
        await engine.repositories.require_adoptable(creating)
        generation = await engine.repositories.claim_generation(store, creating)
        await require_kept(store, creating.namespace)
        gone = await _intents(store, engine)
        dump = await self._find_dump(store, creating.namespace, source)
        now = await engine.parts.kv.now()
        repo = replace(
            _repository(creating),
            default_branch=dump.default_branch,
            generation=generation,
            gc_not_before=after(now, ADOPTION_KEPT_SECONDS),
        )
        trees = await _trees(dump)
        orphans: list[pl.DataFrame] = []
        inspection = Inspection(
            store=store,
            workers=engine.parts.workers,
            temp=engine.temp,
            trees=trees,
            gone=gone,
            progress=report,
        )
        inspected = await inspection.run(orphans.append)
        hold.require()
        commits, expired = await self._restore_commits(hold, repo, dump, inspected.doomed, now)
        heads = dump.heads
        unrestored = await engine.dumper.restorer.add_refs(repo, heads.branches, heads.tags)
        await engine.gc.discard_restored(repo)
        files, amount = await self._keep_orphans(store, repo, orphans)
        found = AdoptionReport(
            repository=repo.name,
            uid=repo.uid,
            generation=generation,
            namespace=repo.namespace,
            default_branch=repo.default_branch,
            dump=dump.said,
            dumped_at=dump.at,
            adopted_at=now,
            gc_not_before=repo.gc_not_before,
            commits=commits,
            branches=len(heads.branches),
            tags=len(heads.tags),
            expired_commits=expired,
            lost_refs=tuple(
                LostRef(kind=ref.kind, name=ref.name, commit_id=ref.commit_id, reason=ref.reason)
                for ref in unrestored
            ),
            missing=inspected.missing,
            missing_listed=tuple(inspected.missing_listed),
            orphans=amount,
            orphan_files=files,
        )
        with suppress(AlreadyExistsError):
            await store.put(report_key(repo.uid), REPORT.seal(found))
        await require_owned(store, repo)
        hold.require()
        return _Adopted(repo, found)

    async def _restore_commits(
        self, hold: _Hold, repo: Repository, dump: _Dump, doomed: set[MetarangeId], now: Instant
    ) -> tuple[int, int]:
        """Step 5; return how many commits there are, and how many of them are restored as expired."""
        condemner = run_name(now, self._engine.parts.ids.token())
        await self._engine.gc.discard_restored(repo)
        seen: set[CommitId] = set()
        expired = 0
        async for group in dump.commits():
            fresh = [commit for commit in group if commit.id not in seen]
            seen |= {commit.id for commit in fresh}
            restored = [
                replace(commit, condemned_by=condemner)
                if not commit.condemned_by and commit.tree in doomed
                else commit
                for commit in fresh
            ]
            expired += sum(commit.condemned_by == condemner for commit in restored)
            await self._engine.dumper.restorer.add_commits(repo, restored)
            hold.require()
        return len(seen), expired

    async def _keep_orphans(
        self, store: ObjectStore, repo: Repository, frames: Sequence[pl.DataFrame]
    ) -> tuple[tuple[DataFile, ...], Amount]:
        whole = pl.concat(frames) if frames else pl.DataFrame(schema=_ORPHANS)
        whole = whole.sort("mtime", "address", descending=[True, False])
        files: list[DataFile] = []
        for start in range(0, whole.height, GC_FILE_ROWS):
            part = whole.slice(start, GC_FILE_ROWS)
            key = orphans_key(repo.uid, len(files))
            data = await self._engine.parts.workers.run(encode_table, ORPHANS_FILE, part.to_arrow())
            with suppress(AlreadyExistsError):  # An earlier try of this adoption has written it.
                await store.put(key, data)
            files.append(DataFile(key, part.height))
        return tuple(files), Amount(whole.height, int(whole["size"].sum()))

    async def _find_dump(self, store: ObjectStore, namespace: str, source: Source) -> _Dump:
        """Return the dump to restore; errors as for `start`."""
        if source.manual is not None:
            return await self._manual_dump(store, source.manual)
        name = parse_dump_key(f"{REFS_FOLDER}{source.name}") if source.name else None
        if source.name and name is None:
            raise InvalidInputError(
                ErrorKind.INVALID_ARGUMENT,
                f"dump {quoted(source.name)}: say <uid>/<generation>-<number>, as {REFS_FOLDER} in {namespace} lists them",
            )
        found = await open_dump(
            store, name or await _newest_dump(store, namespace), self._engine.parts.workers
        )
        return _Dump(
            said=str(found.name),
            at=found.head.at,
            repository=found.head.repository,
            default_branch=found.head.default_branch,
            heads=found.heads,
            commits=found.commits,
        )

    async def _manual_dump(self, store: ObjectStore, files: RefsDump) -> _Dump:
        """Return a dump that somebody asked for: it has three files, and does not say whose it is."""
        branches = read_branches(await store.get(_file(files.branches)))
        tags = read_tags(await store.get(_file(files.tags)))
        data = await store.get(_file(files.commits))
        names = [branch.name for branch in branches]

        async def commits() -> AsyncIterator[list[Commit]]:
            groups = read_commits(data)
            while (group := await self._engine.parts.workers.run(next, groups, None)) is not None:
                yield group

        return _Dump(
            said=files.commits,
            at=None,
            repository="",
            default_branch=BranchName("main") if "main" in names or not names else names[0],
            heads=Heads(branches=tuple(branches), tags=tuple(tags)),
            commits=commits,
        )

    @asynccontextmanager
    async def _held(self, hold: _Hold) -> AsyncIterator[None]:
        """Renew the record while an adoption goes on; if it fails, the record is left for the next try."""

        async def beat() -> None:
            while hold.lost is None:
                await self._engine.parts.clock.sleep(ADOPTION_RENEW_SECONDS)
                try:
                    hold.claim = await self._engine.repositories.renew_adoption(hold.claim)
                except ConflictError as error:
                    hold.lost = error
                except LakebedError:
                    continue  # The next one may get through.

        beating = asyncio.create_task(beat())
        try:
            yield
        finally:
            beating.cancel()
            with suppress(asyncio.CancelledError):
                await beating
        hold.require()


@dataclass(frozen=True, slots=True)
class _Adopted:
    repo: Repository
    report: AdoptionReport


_ORPHANS = {"address": pl.String, "size": pl.Int64, "mtime": pl.Int64, "path": pl.String}


async def _newest_dump(store: ObjectStore, namespace: str) -> DumpName:
    """Return the newest dump of the newest owner that has any."""
    owners: list[RepoUid] = []
    for generation in range(await newest_generation(store), 0, -1):
        with suppress(NotFoundError):
            owners.append((await read_owner(store, generation)).uid)
    owners += await markers(store)
    dumps = await list_dumps(store)
    for uid in [*owners, *(name.uid for name in reversed(dumps))]:
        own = [name for name in dumps if name.uid == uid]
        if own:
            return own[-1]
    raise NotFoundError(
        ErrorKind.KEY_NOT_FOUND,
        f"{namespace} has no automatic refs dump in {REFS_FOLDER}: name the manifest of one made by `lakebed refs dump`",
    )


async def _intents(store: ObjectStore, engine: Engine) -> frozenset[str]:
    """Return every key that a sweep which announced itself deletes, or has deleted."""
    gone: set[str] = set()
    marks = [
        info.key.removeprefix(GC_FOLDER).removesuffix(_INTENT)
        async for page in store.list(GC_FOLDER)
        for info in page
        if info.key.endswith(_INTENT)
    ]
    for mark in marks:
        async for page in store.list(f"{run_folder(mark)}marked/"):
            for info in page:
                data = await store.get(info.key)
                table = await engine.parts.workers.run(decode_table, CANDIDATES_FILE, data)
                gone.update(table.column("address").to_pylist())
    return frozenset(gone)


async def _trees(dump: _Dump) -> dict[MetarangeId, str]:
    """Return the trees of commits that stand, and the first commit that has each."""
    trees: dict[MetarangeId, str] = {}
    async for group in dump.commits():
        for commit in group:
            if not commit.condemned_by:
                trees.setdefault(commit.tree, f"commit {commit.id[:12]}")
    return trees


def _repository(creating: CreatingRepository) -> Repository:
    return Repository(
        name=creating.name,
        uid=creating.uid,
        namespace=creating.namespace,
        default_branch=BranchName("main"),
        created_at=creating.since,
    )


def _file(name: str) -> str:
    return f"{REFS_FOLDER}{name}.parquet"
