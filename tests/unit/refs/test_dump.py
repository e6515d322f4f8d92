from dataclasses import replace
from typing import Any

import pytest

from lakebed.errors import (
    AlreadyExistsError,
    ConflictError,
    CorruptError,
    ErrorKind,
    InvalidInputError,
    NotFoundError,
)
from lakebed.format.dump import DumpKind, DumpWriter, read_commits
from lakebed.format.gc_state import encode_gc_state
from lakebed.format.records import decode_commit, encode_commit, encode_tag
from lakebed.gc.names import run_name
from lakebed.kv.port import Expect
from lakebed.model.commits import Commit, Tag
from lakebed.model.gc import GcState, Mark, MarkKind
from lakebed.model.ids import EMPTY_TREE, BranchName, CommitId, Nonce, RepoName, TagName
from lakebed.model.repository import Repository
from lakebed.objects.port import PutMode
from lakebed.refs.commits import new_commit
from lakebed.refs.dump import RefsDump
from lakebed.refs.keys import GC_STATE_KEY, commit_key, tag_key
from lakebed.refs.log import LogQuery
from lakebed.refs.restore import RefsRestored, require_restored
from tests.unit.refs.world import START, Call, Crash, Fault, World

MAIN = BranchName("main")
ATTEMPT = run_name(START, "0" * 20)


async def populate(world: World) -> Repository:
    """A repository with a merge, a hidden branch, a tag and a commit that no ref reaches."""
    repo = await world.create_repository()
    root = (await world.branches.get(repo, MAIN)).value.commit_id
    one = await world.commit(repo, root, message="one", date=10)
    two = await world.commit(repo, root, message="two", date=10)
    merge = await world.commit(repo, one.id, two.id, message="merge", date=5)
    await world.commit(repo, root, message="dangling")
    await world.branches.create(repo, BranchName("dev"), merge.id)
    await world.branches.create(repo, BranchName("secret"), two.id, hidden=True)
    await world.branches.create(repo, BranchName("gone"), two.id)
    await world.branches.delete(repo, BranchName("gone"))
    await world.tags.create(repo, TagName("v1.0"), one.id)
    return repo


async def move(world: World, repo: Repository) -> Repository:
    """Delete a repository, keep its data, and put a bare one in its place."""
    await world.repositories.delete(repo)
    await world.clean()
    world.restart()
    return await world.create_repository("copy", repo.namespace, bare=True)


async def everything(world: World, repo: Repository) -> dict[str, Any]:
    branches = (await world.branches.list(repo, amount=1000, show_hidden=True)).results
    logs: dict[str, list[Commit]] = {}
    for branch in branches:
        logs[branch.name] = []
        more = True
        while more:
            after = logs[branch.name][-1].id if logs[branch.name] else ""
            page = await world.log.page(repo, branch.commit_id, LogQuery(after=after, amount=1000))
            logs[branch.name] += page.results
            more = page.has_more
    return {
        "branches": [(b.name, b.commit_id, b.hidden) for b in branches],
        "visible": [b.name for b in (await world.branches.list(repo, amount=1000)).results],
        "tags": [(t.name, t.commit_id) for t in (await world.tags.list(repo, amount=1000)).results],
        "commits": [c async for page in world.commits.scan(repo) for c in page],
        "logs": logs,
    }


async def test_a_restored_repository_has_the_same_refs_and_history(world: World) -> None:
    repo = await populate(world)
    before = await everything(world, repo)
    dump = await world.dumper.dump(repo)

    copy = await move(world, repo)
    restored = await world.dumper.restore(copy, dump)

    assert await everything(world, copy) == before
    assert restored == RefsRestored(commits=5, branches=3, tags=1)
    assert [name for name, _, hidden in before["branches"] if hidden] == ["secret"]


async def test_thirty_thousand_commits_come_back_with_equal_log_and_listings() -> None:
    world = World()
    repo = await world.create_repository()
    root = await world.commits.get(repo, (await world.branches.get(repo, MAIN)).value.commit_id)
    commits = [root]
    for number in range(1, 30_000):
        parents = [commits[-1]]
        if number % 100 == 0:
            parents.append(commits[-50])
        commits.append(
            new_commit(
                committer="ada",
                message=f"commit {number}",
                tree=EMPTY_TREE,
                date=number // 3,
                metadata={"number": str(number)},
                parents=parents,
                nonce=Nonce(str(number)),
                now=world.clock.now(),
            )
        )
    await world.commits.add_many(repo, commits[1:])
    for number in range(1, 1200):
        name = BranchName(f"branch-{number}")
        await world.branches.create(repo, name, commits[-number % 40].id, hidden=number % 10 == 0)
        await world.tags.create(repo, TagName(f"tag-{number}"), commits[number].id)
    listed = await world.branches.list_by_commit(repo)
    whole = [c.id for c in await history(world, repo, commits[-1].id)]
    dump = await world.dumper.dump(repo)

    copy = await move(world, repo)
    restored = await world.dumper.restore(copy, dump)

    assert restored == RefsRestored(commits=30_000, branches=1200, tags=1199)
    assert [c.id for c in await history(world, copy, commits[-1].id)] == whole
    assert len(whole) == 30_000
    again = await world.branches.list_by_commit(copy)
    assert [(b.name, b.commit_id, b.hidden) for b in again] == [
        (b.name, b.commit_id, b.hidden) for b in listed
    ]
    page = await world.tags.list(copy, amount=1000, after="tag-5")
    assert [t.name for t in page.results] == sorted(
        f"tag-{n}" for n in range(1, 1200) if f"tag-{n}" > "tag-5"
    )


async def history(world: World, repo: Repository, start: CommitId) -> list[Commit]:
    found: list[Commit] = []
    more = True
    while more:
        query = LogQuery(after=found[-1].id if found else "", amount=1000)
        page = await world.log.page(repo, start, query)
        found += page.results
        more = page.has_more
    return found


async def test_an_empty_repository_can_be_dumped_and_restored(world: World) -> None:
    bare = await world.create_repository(bare=True)
    dump = await world.dumper.dump(bare)
    copy = await move(world, bare)
    assert await world.dumper.restore(copy, dump) == RefsRestored(commits=0, branches=0, tags=0)


async def test_refs_are_restored_into_a_bare_repository_only(world: World) -> None:
    repo = await populate(world)
    dump = await world.dumper.dump(repo)
    with pytest.raises(InvalidInputError, match="bare"):
        await world.dumper.restore(repo, dump)


async def test_a_dump_that_is_not_there_is_not_found(world: World) -> None:
    bare = await world.create_repository(bare=True)
    with pytest.raises(NotFoundError, match="namespace of the repository that was dumped"):
        await world.dumper.restore(bare, RefsDump(commits="a", branches="b", tags="c"))


async def test_a_restore_never_overwrites_a_commit(world: World) -> None:
    repo = await populate(world)
    dump = await world.dumper.dump(repo)
    commits = [c async for page in world.commits.scan(repo) for c in page]
    copy = await move(world, repo)
    condemned = replace(commits[0], condemned_by="run")
    await world.commits.add(copy, condemned)
    await world.dumper.restore(copy, dump)
    item = await world.memory.get(copy.partition, commit_key(condemned.id))
    assert item is not None
    assert decode_commit(item.value) == condemned

    other = await world.create_repository("third", "mem://third", bare=True)
    world.dumper._open_store = lambda _namespace: world.open_store(copy.namespace)
    await world.commits.add(other, replace(commits[0], message="another"))
    with pytest.raises(AlreadyExistsError) as caught:
        await world.dumper.restore(other, dump)
    assert caught.value.kind is ErrorKind.COMMIT_EXISTS


async def test_a_restore_that_died_anywhere_goes_on_when_it_is_repeated(world: World) -> None:
    fences = world.memory.capabilities.fences
    for at in range(1, 20):
        world = World(fences=fences)
        repo = await populate(world)
        before = await everything(world, repo)
        dump = await world.dumper.dump(repo)
        copy = await move(world, repo)
        writes = 0

        async def crash(_call: Call, at: int = at) -> Fault | None:
            nonlocal writes
            writes += 1
            return Fault.CRASH_AFTER if writes == at else None

        world.kv.hook = crash
        try:
            await world.dumper.restore(copy, dump)
        except Crash:
            world.restart()
            await world.dumper.restore(copy, dump)
        assert await everything(world, copy) == before
        if writes < at:
            break
    else:
        pytest.fail("a restore has more steps than the test knows")


@pytest.mark.parametrize("clash", ["branch", "hidden", "tag", "branch-tag", "tag-branch"])
async def test_a_ref_of_another_meaning_is_not_overwritten(world: World, clash: str) -> None:
    repo = await populate(world)
    dump = await world.dumper.dump(repo)
    commits = [c async for page in world.commits.scan(repo) for c in page]
    dev = (await world.branches.get(repo, BranchName("dev"))).value.commit_id
    copy = await move(world, repo)
    await world.commits.add_many(copy, commits)
    other = next(c.id for c in commits if c.message == "dangling")
    match clash:
        case "branch":
            await world.branches.create(copy, BranchName("dev"), other)
        case "hidden":
            await world.branches.create(copy, BranchName("dev"), dev, hidden=True)
        case "tag":
            await world.tags.create(copy, TagName("v1.0"), other)
        case "branch-tag":
            await world.tags.create(copy, TagName("dev"), other)
        case "tag-branch":
            await world.branches.create(copy, BranchName("v1.0"), other)
    restored = await world.dumper.restore(copy, dump)
    assert [(each.kind, each.name) for each in restored.unrestored] == [
        ("tag", "v1.0") if clash.startswith("tag") else ("branch", "dev")
    ]
    with pytest.raises(ConflictError, match="1 of 4 refs") as caught:
        require_restored(copy, restored)
    assert caught.value.kind is ErrorKind.RESTORE_INCOMPLETE
    found = await everything(world, copy)
    assert {name for name, _, _ in found["branches"]} >= {"main", "secret"}, "the others are back"


async def test_a_damaged_dump_is_corrupt_and_restores_no_ref(world: World) -> None:
    repo = await populate(world)
    dump = await world.dumper.dump(repo)
    key = f"bucket/lake/_lakebed/refs/{dump.commits}.parquet"
    data = await world.whole.get(key)
    await world.whole.delete([key])
    await world.whole.put(key, data[: len(data) // 2])
    copy = await move(world, repo)
    with pytest.raises(CorruptError):
        await world.dumper.restore(copy, dump)
    assert (await world.branches.list(copy)).results == ()


async def test_every_commit_that_a_dumped_ref_names_is_in_the_dump(world: World) -> None:
    repo = await populate(world)
    original = world.commits.scan

    def scan(*args: Any, **kwargs: Any) -> Any:
        refs_were_read.append(True)
        return original(*args, **kwargs)

    refs_were_read: list[bool] = []
    listed = world.branches.list

    async def list_(*args: Any, **kwargs: Any) -> Any:
        assert not refs_were_read, "commits are read after the refs"
        return await listed(*args, **kwargs)

    world.commits.scan, world.branches.list = scan, list_
    await world.dumper.dump(repo)
    assert refs_were_read


async def test_a_condemned_commit_stays_condemned_in_a_restored_repository(world: World) -> None:
    repo = await world.create_repository()
    commit = await world.commit(repo)
    item = await world.memory.get(repo.partition, commit_key(commit.id))
    assert item is not None
    condemned = replace(commit, condemned_by=ATTEMPT)
    await world.memory.swap(repo.partition, item.key, encode_commit(condemned), expected=item.version)
    await publish(world, repo)
    dump = await world.dumper.dump(repo)
    copy = await move(world, repo)
    await world.dumper.restore(copy, dump)
    assert await world.commits.get(copy, commit.id) == condemned
    assert copy.name == RepoName("copy")


async def condemn(world: World, repo: Repository, commit_id: CommitId) -> None:
    """As the first step of an attempt that has not been published."""
    item = await world.memory.get(repo.partition, commit_key(commit_id))
    assert item is not None
    condemned = replace(decode_commit(item.value), condemned_by=ATTEMPT)
    await world.memory.swap(repo.partition, item.key, encode_commit(condemned), expected=item.version)


async def publish(world: World, repo: Repository) -> None:
    mark = Mark(
        run=ATTEMPT,
        condemner=ATTEMPT,
        kind=MarkKind.CLEAN,
        started_at=world.clock.now(),
        marked_at=world.clock.now(),
        optimized_since_clean=0,
    )
    state = encode_gc_state(GcState(marks=(mark,)))
    await world.memory.swap(repo.partition, GC_STATE_KEY, state, expected=Expect.ANY)


async def test_a_dump_between_condemn_and_release_brings_every_ref_back(world: World) -> None:
    repo = await populate(world)
    before = await everything(world, repo)
    for commit in before["commits"]:
        await condemn(world, repo, commit.id)
    dump = await world.dumper.dump(repo)

    copy = await move(world, repo)
    restored = await world.dumper.restore(copy, dump)

    assert restored.unrestored == ()
    assert await everything(world, copy) == before


async def test_a_dump_reads_again_what_was_deleted_and_collected_meanwhile(world: World) -> None:
    repo = await populate(world)
    two = (await world.branches.get(repo, BranchName("secret"))).value.commit_id
    await world.branches.create(repo, BranchName("short"), two)
    scan, scans = world.commits.scan, 0

    def scanning(*args: Any, **kwargs: Any) -> Any:
        async def pages() -> Any:
            nonlocal scans
            scans += 1
            if scans == 1:
                for name in ("secret", "short", "dev"):
                    await world.branches.delete(repo, BranchName(name))
                await condemn(world, repo, two)
                await publish(world, repo)
            async for page in scan(*args, **kwargs):
                yield page

        return pages()

    world.commits.scan = scanning
    dump = await world.dumper.dump(repo)
    copy = await move(world, repo)
    restored = await world.dumper.restore(copy, dump)
    assert (scans, restored.unrestored) == (2, ())
    assert [name for name, _, _ in (await everything(world, copy))["branches"]] == ["main"]
    assert (await world.commits.get(copy, two)).condemned_by == ATTEMPT


async def test_a_branch_and_a_tag_of_one_name_both_come_back(world: World) -> None:
    repo = await populate(world)
    dev = (await world.branches.get(repo, BranchName("dev"))).value.commit_id
    # Two creations at the same moment: neither sees the other.
    twin = Tag(name=TagName("dev"), commit_id=dev, created_by=Nonce("n"))
    await world.memory.swap(repo.partition, tag_key(twin.name), encode_tag(twin), expected=Expect.ABSENT)
    before = await everything(world, repo)
    dump = await world.dumper.dump(repo)

    copy = await move(world, repo)
    for _ in range(2):
        assert (await world.dumper.restore(copy, dump)).unrestored == ()
        assert await everything(world, copy) == before
    assert [name for name, _ in before["tags"]] == ["dev", "v1.0"]


async def test_a_restore_goes_on_after_a_ref_that_cannot_come_back(world: World) -> None:
    """A dump of an older lakebed may hold a ref on a commit that was condemned for a moment."""
    repo = await populate(world)
    dev = (await world.branches.get(repo, BranchName("dev"))).value.commit_id
    dump = await world.dumper.dump(repo)
    old = DumpWriter(DumpKind.COMMITS)
    key = f"bucket/lake/_lakebed/refs/{dump.commits}.parquet"
    for group in read_commits(await world.whole.get(key)):
        old.add_commits([replace(c, condemned_by="run" if c.id == dev else "") for c in group])
    await world.whole.put(key, old.finish(), when=PutMode.OVERWRITE)

    copy = await move(world, repo)
    restored = await world.dumper.restore(copy, dump)

    assert [(each.kind, each.name, each.commit_id) for each in restored.unrestored] == [
        ("branch", "dev", dev)
    ]
    assert "expired" in restored.unrestored[0].reason
    found = await everything(world, copy)
    assert [name for name, _, _ in found["branches"]] == ["main", "secret"]
    assert [name for name, _ in found["tags"]] == ["v1.0"]
