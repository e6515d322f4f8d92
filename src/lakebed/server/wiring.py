"""Composition root: the only place that wires the engine's parts.

Read top to bottom, it is the architecture. Nothing here starts work: objects are
built cold, and the commands run what needs running.
"""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lakebed.auth.caller import SYSTEM
from lakebed.catalog.engine import Engine
from lakebed.catalog.session import Session, Sessions
from lakebed.catalog.spool import Spool
from lakebed.committed.cache import RangeCache
from lakebed.committed.segments import SegmentFiles
from lakebed.committed.trees import Trees
from lakebed.compaction.jobs import JobRunner
from lakebed.compaction.limits import CompactionLimits
from lakebed.compaction.service import CompactionService
from lakebed.env.clock import Clock
from lakebed.env.ids import IdSource
from lakebed.env.work import Workers
from lakebed.format.cut import DEFAULT_RULE, CutRule
from lakebed.gc.service import GarbageCollection
from lakebed.kv.port import KVStore
from lakebed.limits import NAMESPACE_WATCH_SECONDS, REFS_DUMP_SECONDS, SLICE_OBJECTS, STORE_HANDLES_MAX
from lakebed.model.ids import RepoUid
from lakebed.model.lifetimes import Lifetimes
from lakebed.model.repository import Repository
from lakebed.objects.external import ExternalAddresses
from lakebed.objects.open_stores import OpenStores
from lakebed.objects.places import Places
from lakebed.objects.port import ObjectStore
from lakebed.objects.slices import SliceNamer
from lakebed.refs.agreement import Agreement
from lakebed.refs.automatic_dumps import AutomaticDumps
from lakebed.refs.branches import Branches
from lakebed.refs.cleaner import Cleaner
from lakebed.refs.commits import Commits
from lakebed.refs.dump import RefsDumper
from lakebed.refs.log import CommitLog
from lakebed.refs.namespace_watch import NamespaceWatch
from lakebed.refs.pins import Pins
from lakebed.refs.protection import Protection
from lakebed.refs.repositories import Repositories
from lakebed.refs.repository_metadata import RepositoryMetadata
from lakebed.refs.resolve import Resolver
from lakebed.refs.tags import Tags
from lakebed.refs.targets import Targets
from lakebed.staging.appending import SegmentUse
from lakebed.staging.staging import Staging
from lakebed.versioning.ahead import ReadAhead
from lakebed.versioning.commit import Committer
from lakebed.versioning.head import HeadChanges
from lakebed.versioning.importing import Importer
from lakebed.versioning.merge import Merger
from lakebed.versioning.parts import CommittedBase, Parts
from lakebed.versioning.readings import Readings
from lakebed.versioning.reset import Resetter
from lakebed.versioning.stash import Stashes
from lakebed.versioning.view import View


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What an engine is put into: its stores, time, chance, threads and a folder for work in progress."""

    kv: KVStore
    stores: OpenStores
    external: ExternalAddresses
    places: Places
    cache: RangeCache
    workers: Workers
    processes: Workers
    clock: Clock
    ids: IdSource
    temp: Path
    transfers: Workers | None = None
    """Threads for bytes that a client waits for; None for those of everything else."""
    staging_wait_seconds: float = 0.0
    staging_segments: SegmentUse = SegmentUse.AUTO
    cut_rule: CutRule = DEFAULT_RULE
    compaction_limits: CompactionLimits = field(default_factory=CompactionLimits)
    lifetimes: Lifetimes = field(default_factory=Lifetimes)
    shared: Mapping[str, float] = field(default_factory=dict)
    """Settings that all processes must have in common, by name: what `agreement` compares."""
    slice_objects: int = SLICE_OBJECTS
    refs_dump_seconds: float = REFS_DUMP_SECONDS
    """How often refs that moved are dumped into the namespace; 0 for never."""
    refs_owner_seconds: float = NAMESPACE_WATCH_SECONDS
    installation: str = ""
    """What people call this installation: the owner files that it puts into namespaces say it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wired:
    """The built, not yet running, engine."""

    engine: Engine
    sessions: Sessions
    catalog: Session
    """The use cases on behalf of the installation itself."""
    cleaner: Cleaner
    namespace_watch: NamespaceWatch
    job_runner: JobRunner
    read_ahead: ReadAhead
    """For processes that serve readers; it does nothing until it is run."""


def wire(around: Surroundings) -> Wired:
    """Build the engine."""
    kv, clock, ids = around.kv, around.clock, around.ids
    stores = _Namespaces(around)

    branches = Branches(kv, clock=clock, ids=ids)
    tags = Tags(kv, clock=clock, ids=ids)
    commits = Commits(kv)
    repositories = Repositories(
        kv,
        open_store=around.stores.at,
        clock=clock,
        ids=ids,
        places=around.places,
        lifetimes=around.lifetimes,
        installation=around.installation,
    )

    segments = SegmentFiles(stores.store, around.cache, around.workers)
    staging = Staging(
        kv,
        branches=branches,
        base=CommittedBase(commits, stores.trees),
        segments=segments,
        workers=around.workers,
        clock=clock,
        ids=ids,
        wait_seconds=around.staging_wait_seconds,
        use_segments=around.staging_segments,
    )
    parts = Parts(
        kv=kv,
        branches=branches,
        commits=commits,
        staging=staging,
        segments=segments,
        pins=Pins(kv, clock=clock, ids=ids),
        trees_of=stores.trees,
        clock=clock,
        ids=ids,
        workers=around.workers,
        processes=around.processes,
        lifetimes=around.lifetimes,
    )
    heads = HeadChanges(parts, repositories)
    resolver = Resolver(branches=branches, tags=tags, commits=commits)
    view = View(parts)
    readings = Readings(kv, repositories=repositories, resolver=resolver, view=view)
    dumper = RefsDumper(
        kv,
        branches=branches,
        tags=tags,
        commits=commits,
        open_store=around.stores.at,
        ids=ids,
        workers=around.workers,
    )
    automatic_dumps = AutomaticDumps(
        kv,
        dumper=dumper,
        commits=commits,
        open_store=around.stores.at,
        workers=around.workers,
        interval_seconds=around.refs_dump_seconds,
    )
    engine = Engine(
        parts=parts,
        repositories=repositories,
        tags=tags,
        resolver=resolver,
        log=CommitLog(commits),
        protection=Protection(kv, clock=clock, ids=ids),
        metadata=RepositoryMetadata(kv, clock=clock, ids=ids),
        view=view,
        targets=Targets(kv, repositories),
        readings=readings,
        committer=Committer(parts, heads),
        merger=Merger(parts, heads),
        resetter=Resetter(parts, heads),
        stashes=Stashes(parts, heads),
        importer=Importer(parts, heads, around.external, around.temp),
        dumper=dumper,
        automatic_dumps=automatic_dumps,
        compaction=CompactionService(parts, repositories, limits=around.compaction_limits),
        gc=GarbageCollection(parts, stores.store, automatic_dumps),
        agreement=Agreement(kv, around.shared, clock=clock, ids=ids),
        external=around.external,
        slices=SliceNamer(ids, seconds=around.lifetimes.slice_seconds, objects=around.slice_objects),
        store_of=stores.store,
        open_store=around.stores.at,
        temp=around.temp,
        forget=stores.forget,
        spool=Spool(around.temp, around.transfers or around.workers),
        transfers=around.transfers or around.workers,
    )
    cleaner = Cleaner(
        kv, repositories, open_store=around.stores.at, clock=clock, ids=ids, lifetimes=around.lifetimes
    )
    sessions = Sessions(engine)
    return Wired(
        engine=engine,
        sessions=sessions,
        catalog=sessions.of(SYSTEM),
        cleaner=cleaner,
        namespace_watch=NamespaceWatch(
            repositories,
            automatic_dumps,
            open_store=around.stores.at,
            clock=clock,
            seconds=around.refs_owner_seconds,
        ),
        job_runner=JobRunner(parts, stores.store, let_go=around.cache.let_go),
        read_ahead=ReadAhead(parts, readings),
    )


class _Namespaces:
    """The store and the trees of each repository. Trees remember what they have opened, so those used last are kept."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._trees: OrderedDict[RepoUid, Trees] = OrderedDict()

    async def store(self, repo: Repository) -> ObjectStore:
        return self._around.stores.handle(repo.namespace)

    async def trees(self, repo: Repository) -> Trees:
        trees = self._trees.get(repo.uid)
        if trees is not None:
            self._trees.move_to_end(repo.uid)
            return trees
        trees = self._trees[repo.uid] = Trees(
            await self.store(repo),
            self._around.cache,
            self._around.workers,
            scope=repo.uid,
            rule=self._around.cut_rule,
        )
        if len(self._trees) > STORE_HANDLES_MAX:
            self._trees.popitem(last=False)
        return trees

    def forget(self, repo: Repository) -> None:
        self._trees.pop(repo.uid, None)
        self._around.stores.forget(repo.namespace)
