"""What must hold when everybody has gone home: everything still works, and nothing is left lying about."""

from collections.abc import Iterable, Sequence
from functools import partial

from lakebed.errors import ErrorKind
from lakebed.limits import GRACE_SECONDS
from lakebed.model.branch import Branch, DeletedBranch
from lakebed.model.ids import BranchName, Path
from lakebed.model.layers import Layer, SegmentLayer, layer_name
from lakebed.model.segments import SegmentName, parse_segment_key, protects, segment_key
from lakebed.model.stash import StashState
from lakebed.refs.keys import CLEANUP_PARTITION, REPOSITORIES_PARTITION, compaction_partition
from lakebed.refs.owners import is_mark, marker_key
from lakebed.testing.simulation.clients import PATHS, Lake
from lakebed.testing.simulation.history import Outcome
from lakebed.testing.simulation.process import SimProcess
from lakebed.testing.simulation.record_laws import LawBrokenError
from lakebed.testing.simulation.truth import live_tokens
from lakebed.testing.simulation.world import World
from lakebed.versioning.commit import CommitRequest
from lakebed.versioning.uncommitted import diff_uncommitted


async def check_lake(world: World, lake: Lake, process: SimProcess) -> None:
    """Read, pop and commit everything; raise `LawBrokenError` for what is not as it should be."""
    live = [b for b in lake.branches if isinstance(world.truth.branch(lake.partition, b), Branch)]
    for branch in live:
        await _check_reads(world, lake, process, branch)
        await _check_diff(world, lake, process, branch)
    await _check_stashes(world, lake, process)
    for branch in live:
        await _check_commit(world, lake, process, branch)
        await _check_reads(world, lake, process, branch)
    if world.loop.complaints:
        raise LawBrokenError(f"nobody looked at {world.loop.complaints}")


async def clean_up(world: World, lakes: Sequence[Lake], process: SimProcess) -> None:
    """Let time pass and the cleaner work, until nothing is due any more."""
    # The last time is for segments that nobody refers to: they wait for their era to end, and one more.
    for seconds in (2 * GRACE_SECONDS, 2 * GRACE_SECONDS, 3 * 3600.0):
        await world.sleep(seconds)
        for lake in lakes:
            await process.engine.stashes.sweep(lake.repo)
        await process.cleaner.clean_once()


async def _check_reads(world: World, lake: Lake, process: SimProcess, branch: str) -> None:
    """Listings, folded or not, in pages of any size, and point reads all show the same."""
    shown = world.truth.timeline(lake.partition, branch).last.view
    assert shown is not None
    source = await process.engine.source(lake.repo, branch)
    for path in PATHS:
        found = await process.engine.view.find(lake.repo, source, Path(path))
        if (found.checksum if found is not None else None) != shown.get(path):
            raise LawBrokenError(f"{branch} {path} reads as {found}, and is {shown.get(path)}")
    for amount in (1, 3, 1000):
        listed: list[tuple[str, str]] = []
        after = ""
        while True:
            page = await process.engine.view.list(lake.repo, source, after=after, amount=amount)
            listed += zip(
                page.rows.column("key").to_pylist(), page.rows.column("checksum").to_pylist(), strict=True
            )
            if not page.has_more:
                break
            after = page.last
        if listed != sorted(shown.items()):
            raise LawBrokenError(f"{branch} lists {listed} in pages of {amount}, and is {shown}")
    page = await process.engine.view.list(lake.repo, source, delimiter="/", amount=1000)
    folders = sorted({path.split("/", 1)[0] + "/" for path in shown if "/" in path})
    plain = sorted(path for path in shown if "/" not in path)
    if (page.rows.column("key").to_pylist(), list(page.prefixes)) != (plain, folders):
        raise LawBrokenError(f"{branch} folds to {page}, and is {shown}")


async def _check_diff(world: World, lake: Lake, process: SimProcess, branch: str) -> None:
    """What is uncommitted is the difference between what is shown and what is committed."""
    moment = world.truth.timeline(lake.partition, branch).last
    assert moment.view is not None
    assert moment.commit_id is not None
    committed = world.truth.content(lake.partition, moment.commit_id)
    parts = process.engine.parts
    record = (await parts.branches.get(lake.repo, BranchName(branch))).value
    found: dict[str, str] = {}
    async for block in diff_uncommitted(parts, lake.repo, record):
        found.update(zip(block.column("key").to_pylist(), block.column("type").to_pylist(), strict=True))
    expected = {
        path: "added" if path not in committed else "changed" if path in moment.view else "removed"
        for path in {*committed, *moment.view}
        if committed.get(path) != moment.view.get(path)
    }
    if found != expected:
        raise LawBrokenError(f"{branch} differs by {found} from its commit, and should by {expected}")


async def _check_stashes(world: World, lake: Lake, process: SimProcess) -> None:
    """Every stash that counts and was not popped is still there, and can be popped."""
    listing = await world.ask(
        process, "list_stashes", partial(process.engine.stashes.list, lake.repo), repo=lake.partition
    )
    if listing.outcome is not Outcome.DONE:
        raise LawBrokenError(f"{listing} in fair weather")
    listed = {stash.id for stash in listing.result}
    for stash in sorted(world.laws.stashes.standing - world.laws.stashes.dropped):
        if stash in world.laws.stashes.popped or world.laws.stashes.home[stash] != lake.partition:
            continue
        if stash not in listed:
            raise LawBrokenError(f"stash {stash} was never popped, and is gone")
        op = await world.ask(
            process,
            "pop",
            partial(process.engine.stashes.pop, lake.repo, stash, into=BranchName(lake.branches[0])),
            repo=lake.partition,
            branch=lake.branches[0],
            stash=stash,
        )
        if op.outcome is not Outcome.DONE:
            raise LawBrokenError(f"{op} in fair weather")


async def _check_commit(world: World, lake: Lake, process: SimProcess, branch: str) -> None:
    op = await world.ask(
        process,
        "commit",
        partial(
            process.engine.committer.commit,
            lake.repo,
            BranchName(branch),
            CommitRequest(committer="last", message="the last commit"),
        ),
        repo=lake.partition,
        branch=branch,
    )
    if op.outcome is not Outcome.DONE and op.kind_of_error is not ErrorKind.NO_CHANGES:
        raise LawBrokenError(f"{op} in fair weather")


def check_no_leaks(world: World) -> None:
    """Raise `LawBrokenError` if the database holds anything that nobody can reach."""
    reachable = {REPOSITORIES_PARTITION}
    for repo in world.truth.live_repositories():
        reachable.update((repo.partition, compaction_partition(repo.partition)))
        left = world.truth.segment_files(repo.partition)
        stashed = [
            layer
            for stash in world.truth.stashes(repo.partition)
            if stash.state is StashState.STANDING
            for layer in stash.layers
        ]
        reachable.update(map(layer_name, stashed))
        left -= _files(stashed)
        for record in world.truth.branches(repo.partition):
            if isinstance(record, Branch):
                reachable.update(live_tokens(record))
                left -= _files(record.sealed)
                left -= {key for key in left if _is_protected(record, parse_segment_key(key))}
            if record.retired:
                raise LawBrokenError(f"{record.name} still has retired layers: {record.retired}")
            if isinstance(record, DeletedBranch):
                raise LawBrokenError(f"the tombstone of {record.name} is left, and nothing needs it")
        if left:
            raise LawBrokenError(f"segments of nobody: {sorted(left)}")
    for partition, rows in sorted(world.truth.partitions.items()):
        if partition not in reachable:
            what = (
                "clean-up entries that are never done" if partition == CLEANUP_PARTITION else "rows of nobody"
            )
            raise LawBrokenError(f"{what}: {partition}: {sorted(rows)}")


def check_namespaces(world: World) -> None:
    """Raise `LawBrokenError` if a namespace holds anything of a repository that was deleted with its data."""
    owners = {repo.namespace: marker_key(repo.uid) for repo in world.truth.live_repositories()}
    # A creation that ends between deleting the marks and going live gives late uploads up (`refs/deleted_data`).
    broken_off = {
        op.args["namespace"]
        for op in world.history.ops
        if op.kind == "create_repository"
        and op.outcome is not Outcome.DONE
        and op.kind_of_error not in (ErrorKind.REPO_EXISTS, ErrorKind.NAMESPACE_IN_USE)
    }
    for namespace, bucket in sorted(world.buckets.items()):
        owner = owners.get(namespace)
        if owner is None and namespace not in broken_off and (bucket.objects or bucket.uploads):
            left = [*sorted(bucket.objects), *sorted(bucket.uploads)]
            raise LawBrokenError(f"{namespace} belongs to no repository, and holds {left}")
        for key in sorted(bucket.objects):
            if key != owner and (is_mark(key) or key.startswith("_lakebed/owner-")):
                raise LawBrokenError(f"{namespace} still holds {key}, whose repository is gone")


def _files(layers: Iterable[Layer]) -> set[str]:
    """Return the files of those layers that are segments."""
    return {segment_key(layer.id) for layer in layers if isinstance(layer, SegmentLayer)}


def _is_protected(branch: Branch, name: SegmentName) -> bool:
    """Return whether a job of the branch may still install it: the last one that had the slot, mostly."""
    return name.token > 0 and name.owner == branch.incarnation and protects(branch, name.token)
