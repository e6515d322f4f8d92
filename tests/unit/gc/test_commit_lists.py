"""Commits are let go by rules, after everybody who could still build on them was asked."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from lakebed.env.clock import Instant
from lakebed.errors import (
    ConflictError,
    CorruptError,
    ErrorKind,
    FencedError,
    LakebedError,
    NotFoundError,
    UnavailableError,
)
from lakebed.format.records import encode_commit
from lakebed.kv.port import Row
from lakebed.limits import GC_LEASE_SECONDS
from lakebed.model.branch import Pending, Slot
from lakebed.model.ids import BranchName, CommitId, MetarangeId, Nonce
from lakebed.model.layers import RetiredTree
from lakebed.refs.condemned import is_final
from lakebed.refs.keys import BRANCHES_PREFIX, COMMITS_PREFIX, commit_key
from lakebed.staging.appending import SegmentUse
from lakebed.testing.lake import COMMIT
from lakebed.versioning.merge import MergeRequest
from tests.unit.gc.world import DAY, World, open_world

MERGE = MergeRequest(commit=COMMIT)


async def history(world: World, *names: str) -> list[str]:
    """Commit on main once for each name, a day apart, and return the commits."""
    made = []
    for name in names:
        made.append(await world.lake.commit("main", **{name: name}))
        world.clock.advance(DAY)
    return made


async def test_without_a_run_nothing_is_let_go(world: World) -> None:
    await world.rules(0)
    made = await history(world, "a", "b", "c")
    listed = await world.commits()
    assert set(made) < listed.live == listed.commits == listed.reachable
    assert [await world.condemned_by(each) for each in made] == ["", "", ""]


async def test_without_rules_every_commit_is_live(world: World) -> None:
    await history(world, "a", "b")
    listed = await world.mark()
    assert listed.live == listed.commits


async def test_expired_commits_are_condemned_and_their_files_kept_while_the_log_shows_them(
    world: World,
) -> None:
    await world.rules(0)
    a, b, c = await history(world, "a", "b", "c")
    listed = await world.mark()
    assert listed.live == {c}
    assert {a, b, c} < listed.reachable
    assert await world.condemned_by(a)
    assert not await world.condemned_by(c)


async def test_a_run_that_ends_without_a_mark_lets_nothing_go(world: World) -> None:
    await world.rules(0)
    gone, _ = await history(world, "gone", "newer")
    await world.mark()
    a, b, c = await history(world, "a", "b", "c")
    of = await world.begin()
    assert (await world.commits(of)).live == {c}
    assert await world.condemned_by(a)

    await world.gc.end(world.lake.repo, of, outcome="done")

    assert [await world.condemned_by(each) for each in (a, b)] == ["", ""]
    assert await world.condemned_by(gone)
    with pytest.raises(FencedError):
        await world.publish(of)
    await world.rules(365)
    assert {a, b, c} <= (await world.mark()).live


async def test_a_commit_that_nothing_reaches_loses_its_files_too(world: World) -> None:
    await world.rules(0)
    await history(world, "a")
    await world.lake.catalog.branches.create("lake", "dev", "main")
    gone = await world.lake.commit("dev", x="x")
    await world.lake.catalog.branches.delete("lake", "dev")
    world.clock.advance(DAY)
    listed = await world.mark()
    assert gone in listed.commits - listed.reachable - listed.live


async def test_files_below_a_commit_that_is_kept_stay_though_no_ref_is_on_it_now(world: World) -> None:
    await history(world, "a")
    await world.lake.catalog.branches.create("lake", "dev", "main")
    below = await world.lake.commit("dev", x="x")
    above = await world.lake.commit("dev", y="y")
    await world.rules(7, dev=0)
    assert below not in (await world.mark()).live
    await world.lake.catalog.branches.delete("lake", "dev")
    listed = await world.mark()
    # A tag may be put on it, and then the log goes down to the other.
    assert above in listed.live
    assert below in listed.reachable - listed.live


async def test_rules_that_keep_more_do_not_ask_for_the_files_of_what_was_let_go(world: World) -> None:
    await world.rules(0)
    await history(world, "a")
    await world.lake.catalog.branches.create("lake", "dev", "main")
    gone = await world.lake.commit("dev", x="x")
    await world.lake.catalog.branches.delete("lake", "dev")
    world.clock.advance(DAY)
    await world.mark()
    await world.rules(7)
    listed = await world.mark()
    assert gone in listed.commits - listed.reachable - listed.live


async def test_hidden_branches_and_tags_hold_their_commits(world: World) -> None:
    await world.rules(0)
    a, b, _c, d = await history(world, "a", "b", "c", "d")
    await world.lake.catalog.tags.create("lake", "v1", a)
    await world.lake.catalog.branches.create("lake", "hidden", b, hidden=True)
    assert (await world.mark()).live == {a, b, d}


async def test_a_stash_holds_its_base(world: World) -> None:
    await world.rules(0)
    (a,) = await history(world, "a")
    await world.lake.put("main", x="x")
    await world.lake.catalog.stashes.create("lake", "main")
    (b,) = await history(world, "b")
    listed = await world.mark()
    assert listed.live == {a, b}


async def test_a_condemned_commit_stays_so_whatever_the_rules_say_later(world: World) -> None:
    await world.rules(0)
    a, _b, c = await history(world, "a", "b", "c")
    await world.mark()
    await world.rules(1000)
    listed = await world.mark()
    assert listed.live == {c}
    assert await world.condemned_by(a)


@pytest.mark.parametrize("build", ["branch", "tag", "merge", "cherry-pick", "revert", "hard reset", "copy"])
async def test_nothing_is_built_on_a_condemned_commit(world: World, build: str) -> None:
    await world.rules(0)
    a, b, _c = await history(world, "a", "b", "c")
    address = await world.address(a, "a")
    await world.lake.catalog.branches.create("lake", "other", "main")
    await world.mark()
    engine, repo = world.lake.engine, world.lake.repo
    catalog = world.lake.catalog
    if build == "copy":
        copied = await catalog.objects.copy(
            "lake", "main", "copied", source_path="a", source_ref=a, shallow=True
        )
        assert copied.address != address, "its bytes go, so it must have its own"
        return
    on, picked = BranchName("other"), CommitId(b)
    attempts: dict[str, Callable[[], Awaitable[object]]] = {
        "branch": lambda: catalog.branches.create("lake", "late", a),
        "tag": lambda: catalog.tags.create("lake", "late", a),
        "merge": lambda: engine.merger.merge(repo, CommitId(a), on, MERGE),
        "cherry-pick": lambda: engine.merger.cherry_pick(repo, on, picked, parent_number=0, request=COMMIT),
        "revert": lambda: engine.merger.revert(repo, on, picked, parent_number=0, request=COMMIT),
        "hard reset": lambda: engine.resetter.hard_reset(repo, on, CommitId(a)),
    }
    with pytest.raises(NotFoundError, match="has expired") as caught:
        await attempts[build]()
    assert caught.value.kind is ErrorKind.COMMIT_NOT_FOUND


async def test_a_commit_is_picked_though_its_parent_has_expired(world: World) -> None:
    await world.rules(0)
    await history(world, "a")
    await world.lake.catalog.branches.create("lake", "other", "main")
    _b, c = await history(world, "b", "c")
    await world.mark()
    engine, repo = world.lake.engine, world.lake.repo
    await engine.merger.cherry_pick(repo, BranchName("other"), CommitId(c), parent_number=0, request=COMMIT)
    assert (await world.lake.show("other")).keys() == {"a", "c"}


async def between(world: World, action: Any, *, before: bytes, nth: int = 1) -> None:
    """Do something once, right before the nth scan of a folder."""
    seen = 0

    async def hook(call: str, what: Any) -> None:
        nonlocal seen
        if call == "scan" and what == before:
            seen += 1
            if seen == nth:
                world.kv.hook = None
                await action()

    world.kv.hook = hook


async def before_condemning(world: World, action: Any) -> None:
    """Do something once, right before the first commit is condemned."""

    async def hook(call: str, what: Any) -> None:
        if call == "set_rows" and isinstance(what[0], Row) and what[0].key.startswith(COMMITS_PREFIX):
            world.kv.hook = None
            await action()

    world.kv.hook = hook


@pytest.mark.parametrize("kind", ["tag", "branch"])
async def test_a_ref_made_just_before_its_commit_is_condemned_is_seen(world: World, kind: str) -> None:
    await world.rules(0)
    a, _b, c = await history(world, "a", "b", "c")
    catalog = world.lake.catalog

    async def make() -> None:
        if kind == "tag":
            await catalog.tags.create("lake", "late", a)
        else:
            await catalog.branches.create("lake", "late", a)

    await before_condemning(world, make)
    of = await world.begin()
    listed = await world.commits(of)
    assert listed.live == {a, c}
    assert not await world.condemned_by(a)
    await world.publish(of)
    await world.lake.show("late")


async def test_a_release_brings_back_what_lives_with_it(world: World) -> None:
    await world.rules(0, late=1000)
    a, b, c = await history(world, "a", "b", "c")

    async def make() -> None:
        await world.lake.catalog.branches.create("lake", "late", b)

    await before_condemning(world, make)
    assert {a, b, c} < (await world.mark()).live
    assert not await world.condemned_by(a)


async def test_an_operation_that_began_before_is_fenced_when_it_reads_a_condemned_commit(
    world: World,
) -> None:
    await world.rules(0)
    a, b, c = await history(world, "a", "b", "c")
    branches, repo = world.lake.engine.parts.branches, world.lake.repo
    nonce = Nonce("operation")

    async def begin() -> None:
        now = await world.kv.now()

        def enter(branch: Any, _now: Any) -> Any:
            entry = Pending(commits=(branch.commit_id, CommitId(a)), renewed_at=now)
            return _with_pending(branch, {**branch.pending, nonce: entry})

        await branches.update(repo, BranchName("main"), enter, landed=lambda branch: nonce in branch.pending)

    await before_condemning(world, begin)
    listed = await world.mark()
    assert listed.live == {c}
    assert nonce not in (await branches.get(repo, BranchName("main"))).value.pending
    assert nonce not in listed.roots.nonces
    assert await world.condemned_by(b)


def _with_pending(branch: Any, pending: Any) -> Any:
    return replace(branch, pending=pending)


async def test_a_live_operation_holds_what_it_reads_and_its_files(world: World) -> None:
    await world.rules(0)
    a, _b, c = await history(world, "a", "b", "c")
    branches, repo = world.lake.engine.parts.branches, world.lake.repo
    now = await world.kv.now()
    await branches.update(
        repo,
        BranchName("main"),
        lambda branch, _now: _with_pending(
            branch, {Nonce("op"): Pending(commits=(CommitId(a),), renewed_at=now)}
        ),
        landed=lambda branch: bool(branch.pending),
    )
    listed = await world.mark()
    assert listed.live == {a, c}
    assert listed.roots.nonces == ("op",)


async def test_a_head_that_moves_to_a_condemned_commit_while_it_is_fenced_holds_it(world: World) -> None:
    await world.rules(0)
    a, _b, c = await history(world, "a", "b", "c")
    await world.lake.catalog.branches.create("lake", "other", "main")
    engine, repo = world.lake.engine, world.lake.repo

    async def reset() -> None:
        await engine.resetter.hard_reset(repo, BranchName("other"), CommitId(a))

    await before_condemning(world, reset)
    assert (await world.mark()).live == {a, c}


async def test_commits_that_a_dead_run_has_condemned_are_taken_over(world: World) -> None:
    await world.rules(0)
    a, _b, c = await history(world, "a", "b", "c")
    await world.commits(await world.begin())
    dead = await world.condemned_by(a)
    world.clock.advance(GC_LEASE_SECONDS + 1)
    assert (await world.mark()).live == {c}
    assert await world.condemned_by(a) not in ("", dead)


async def test_commits_that_a_dead_run_has_condemned_stand_again_when_they_need_not_go(world: World) -> None:
    await world.rules(0)
    a, b, c = await history(world, "a", "b", "c")
    await world.commits(await world.begin())
    assert await world.condemned_by(a)
    world.clock.advance(GC_LEASE_SECONDS + 1)
    await world.rules(1000)
    assert {a, b, c} < (await world.mark()).live
    assert not await world.condemned_by(a)
    await world.lake.catalog.tags.create("lake", "late", a)


async def test_who_lost_the_lease_condemns_and_publishes_nothing(world: World) -> None:
    await world.rules(0)
    a, _b, _c = await history(world, "a", "b", "c")
    lost = await world.begin()

    async def take_over() -> None:
        await world.begin(takeover=True)

    await before_condemning(world, take_over)
    with pytest.raises(FencedError) as caught:
        await world.commits(lost)
    assert caught.value.kind is ErrorKind.LEASE_LOST
    assert not await world.condemned_by(a)
    for refused in (world.publish(lost), world.gc.renew(world.lake.repo, lost), world.uncommitted(lost)):
        with pytest.raises(FencedError):
            await refused


@pytest.mark.parametrize("release", [False, True])
async def test_without_fences_a_zombie_takes_nothing_from_the_run_that_followed(release: bool) -> None:
    """A store without fences: who lost the lease is stopped by what it has seen, and by names."""
    async with open_world(fences=False, staging_segments=SegmentUse.ALWAYS) as world:
        await world.rules(0)
        a, _b, c = await history(world, "a", "b", "c")
        lost = await world.begin()

        async def follow() -> None:
            of = await world.begin(takeover=True)
            assert (await world.commits(of)).live == {c}
            await world.publish(of)

        if release:
            await between(world, follow, before=COMMITS_PREFIX, nth=2)
        else:
            await before_condemning(world, follow)
        with pytest.raises(FencedError):
            await world.commits(lost)
        assert is_final(await world.gc.state(world.lake.repo), await world.condemned_by(a))
        with pytest.raises(NotFoundError):
            await world.lake.catalog.tags.create("lake", "late", a)


async def test_a_run_that_dies_makes_nothing_of_what_an_earlier_mark_condemned(world: World) -> None:
    await world.rules(0)
    a, _b, c = await history(world, "a", "b", "c")
    await world.mark()
    await world.commits(await world.begin())
    world.clock.advance(GC_LEASE_SECONDS + 1)
    await world.rules(1000)
    assert (await world.mark()).live == {c}
    assert await world.condemned_by(a)


async def test_without_fences_a_zombie_releases_nothing_that_was_published_since() -> None:
    async with open_world(fences=False, staging_segments=SegmentUse.ALWAYS) as world:
        await world.rules(0)
        a, _b, c = await history(world, "a", "b", "c")
        await world.lake.catalog.tags.create("lake", "v1", a)
        lost = await world.begin()

        async def follow() -> None:
            await world.lake.catalog.tags.delete("lake", "v1")
            of = await world.begin(takeover=True)
            assert (await world.commits(of)).live == {c}
            await world.publish(of)

        await between(world, follow, before=COMMITS_PREFIX, nth=2)
        with pytest.raises(FencedError):
            await world.commits(lost)
        assert is_final(await world.gc.state(world.lake.repo), await world.condemned_by(a))


async def test_what_a_zombie_condemns_too_late_stands_again(world: World) -> None:
    await world.rules(0)
    a, _b, c = await history(world, "a", "b", "c")
    lost = await world.begin()
    await world.commits(lost)
    zombie = await world.condemned_by(a)
    world.clock.advance(GC_LEASE_SECONDS + 1)
    await world.rules(1000)
    await world.mark()
    commits = world.lake.engine.parts.commits
    key = commit_key(CommitId(a))
    item = await world.kv.get(world.lake.repo.partition, key)
    assert item is not None
    late = replace(await commits.get(world.lake.repo, CommitId(a)), condemned_by=zombie)
    await world.kv.set_rows(world.lake.repo.partition, [Row(key, encode_commit(late), item.version)])
    assert {a, c} < (await world.mark()).live
    assert not await world.condemned_by(a)


async def test_a_second_preparation_stops_the_first(world: World) -> None:
    await world.rules(0)
    a, _b, c = await history(world, "a", "b", "c")
    of = await world.begin()

    async def again() -> None:
        assert (await world.commits(of)).live == {c}

    await before_condemning(world, again)
    with pytest.raises(FencedError):
        await world.commits(of)
    await world.publish(of)
    assert await world.condemned_by(a)


async def test_an_unknown_outcome_ends_the_preparation(world: World) -> None:
    await world.rules(0)
    await history(world, "a", "b", "c")

    async def lose() -> None:
        raise UnavailableError(ErrorKind.OUTCOME_UNKNOWN, "no reply")

    await before_condemning(world, lose)
    of = await world.begin()
    with pytest.raises(UnavailableError):
        await world.commits(of)
    with pytest.raises(ConflictError):
        await world.publish(of)


async def test_a_record_that_cannot_be_read_is_an_error_and_never_a_short_list(world: World) -> None:
    made = await history(world, "a", "b")
    of = await world.begin()
    for key in (b"branches/zz", b"tags/zz", b"stashes/zz", b"commits/" + b"f" * 64):
        await world.kv.set_rows(world.lake.repo.partition, [Row(key, b"\x01rubbish")])
        with pytest.raises(CorruptError):
            await world.commits(of)
        await world.kv.delete_rows(world.lake.repo.partition, [key])
    await world.kv.delete_rows(world.lake.repo.partition, [COMMITS_PREFIX + made[0].encode()])
    with pytest.raises(LakebedError):
        await world.commits(of)
    with pytest.raises(ConflictError):
        await world.publish(of)


async def test_a_commit_made_during_the_preparation_is_listed(world: World) -> None:
    await world.rules(0)
    await history(world, "a")
    made: list[str] = []

    async def commit() -> None:
        made.append(await world.lake.commit("main", x="x"))

    await between(world, commit, before=BRANCHES_PREFIX, nth=2)
    listed = await world.mark()
    assert made[0] in listed.live & listed.reachable


async def test_compacted_and_retired_trees_and_tokens_of_jobs_are_roots(world: World) -> None:
    await history(world, "a")
    branches, repo = world.lake.engine.parts.branches, world.lake.repo
    main = await branches.get(repo, BranchName("main"))
    await branches.swap(
        repo,
        main,
        replace(
            main.value,
            compacted=MetarangeId("tree-c"),
            retired_trees=(RetiredTree(tree=MetarangeId("tree-r"), at=Instant(1)),),
            last_token=7,
            l2_slot=Slot(job="j", token=5),
        ),
    )
    roots = (await world.commits(await world.begin())).roots
    assert roots.uid == repo.uid
    assert set(roots.trees) == {"tree-c", "tree-r"}
    (attempts,) = roots.attempts
    assert (attempts.incarnation, attempts.last_token, attempts.held) == (main.value.incarnation, 7, (5,))
