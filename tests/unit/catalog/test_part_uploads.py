"""Uploads in parts: they outlive a process, a crash at any step, and not their time."""

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from lakebed.catalog.objects import Attributes
from lakebed.catalog.part_uploads import PartUploads, UploadOf
from lakebed.env.clock import Instant, SystemClock, after
from lakebed.errors import ErrorKind, InvalidInputError, NotFoundError, PreconditionError, UnavailableError
from lakebed.kv.drivers.memory import MemoryKV
from lakebed.kv.wrappers import faults as kv_faults
from lakebed.kv.wrappers.faults import FaultyKV
from lakebed.limits import S3_COMPLETED_SECONDS, S3_UPLOAD_LIFETIME_SECONDS
from lakebed.objects.drivers.memory import MemoryBucket, MemoryObjects
from lakebed.objects.port import ETag, Part
from lakebed.objects.settings import StoreSettings
from lakebed.objects.wrappers.faults import Fault, FaultyObjects, LostReply, LostRequest, Operation, Script
from lakebed.staging.conditions import Condition, IfAbsent, IfChecksum
from lakebed.testing.lake import Lake
from lakebed.testing.site import Site

DAY = 24 * 3600.0


class MovedClock(SystemClock):
    """The machine's clock, and so many seconds more."""

    ahead = 0.0

    def now(self) -> Instant:
        return after(super().now(), self.ahead)


@pytest.fixture
def bucket() -> MemoryBucket:
    return MemoryBucket()


@pytest.fixture
def clock() -> MovedClock:
    return MovedClock()


@pytest.fixture
def site(tmp_path: Path, bucket: MemoryBucket, clock: MovedClock) -> Site:
    store = MemoryObjects(clock=clock, bucket=bucket)
    return Site(
        tmp_path, "mem://", StoreSettings(), kv=MemoryKV(clock=clock), in_memory={"mem://lake": store}
    )


@pytest.fixture
async def lake(site: Site, clock: MovedClock) -> AsyncIterator[Lake]:
    async with site.lake(clock=clock) as lake:
        yield lake


async def begun(uploads: PartUploads, path: str = "a") -> UploadOf:
    upload = await uploads.begin("lake", "main", path, Attributes(content_type="a/b", metadata={"k": "v"}))
    return UploadOf(repo_name="lake", branch="main", path=path, id=upload.id)


async def sent(uploads: PartUploads, of: UploadOf, data: bytes, number: int = 1) -> tuple[int, str]:
    part = await uploads.put(of, number, pieces(data), size_bytes=len(data))
    return number, part.md5


async def pieces(*data: bytes) -> AsyncIterator[bytes]:
    for piece in data:
        yield piece


async def rows(lake: Lake) -> list[bytes]:
    found = [key async for page in lake.kv.scan(lake.repo.partition) for key in page.keys]
    return [key for key in found if key.startswith((b"uploads/", b"parts/"))]


async def test_another_process_goes_on_with_an_upload(site: Site, lake: Lake, clock: MovedClock) -> None:
    of = await begun(lake.catalog.part_uploads)
    first = await sent(lake.catalog.part_uploads, of, b"x" * 6_000_000)
    async with site.lake(clock=clock) as other:
        uploads = other.catalog.part_uploads
        assert [upload.id for upload in await uploads.under_way("lake")] == [of.id]
        second = await sent(uploads, of, b"y", 2)
        etag = await uploads.complete(of, [first, second])
    entry = await lake.catalog.objects.stat("lake", "main", "a")
    assert (entry.checksum, entry.size_bytes) == (etag, 6_000_001)
    assert (entry.content_type, entry.metadata["k"]) == ("a/b", "v")


async def test_nothing_but_the_answer_stays_of_what_was_completed(lake: Lake, bucket: MemoryBucket) -> None:
    uploads = lake.catalog.part_uploads
    of = await begun(uploads)
    etag = await uploads.complete(of, [await sent(uploads, of, b"x")])
    assert await rows(lake) == [b"uploads/" + of.id.encode()]
    assert not bucket.uploads
    assert await uploads.under_way("lake") == []
    assert await uploads.complete(of, [(9, "whatever")]) == etag


async def test_an_upload_that_nobody_completes_is_given_up(
    lake: Lake, bucket: MemoryBucket, clock: MovedClock
) -> None:
    uploads = lake.catalog.part_uploads
    of = await begun(uploads)
    await sent(uploads, of, b"x")
    clock.ahead = S3_UPLOAD_LIFETIME_SECONDS - DAY
    assert await uploads.sweep(lake.repo) == 0
    clock.ahead = S3_UPLOAD_LIFETIME_SECONDS + DAY
    assert await uploads.sweep(lake.repo) == 1
    assert await rows(lake) == []
    assert not bucket.uploads
    with pytest.raises(NotFoundError):
        await sent(uploads, of, b"x")


async def test_that_one_was_completed_is_forgotten_in_the_end(lake: Lake, clock: MovedClock) -> None:
    uploads = lake.catalog.part_uploads
    of = await begun(uploads)
    await uploads.complete(of, [await sent(uploads, of, b"x")])
    assert await uploads.sweep(lake.repo) == 0
    clock.ahead = S3_UPLOAD_LIFETIME_SECONDS + S3_COMPLETED_SECONDS + DAY
    assert await uploads.sweep(lake.repo) == 1
    assert await rows(lake) == []
    assert await lake.show("main") == {"a": "x"}


async def test_a_part_that_arrives_after_the_end_is_not_recorded(lake: Lake) -> None:
    uploads = lake.catalog.part_uploads
    of = await begun(uploads)

    async def late() -> AsyncIterator[bytes]:
        yield b"x"
        await uploads.abort(of)

    with pytest.raises(NotFoundError) as refused:
        await uploads.put(of, 1, late(), size_bytes=1)
    assert refused.value.kind is ErrorKind.UPLOAD_NOT_FOUND
    assert await rows(lake) == []


async def test_a_part_that_the_store_has_is_not_recorded_once_its_upload_has_ended(lake: Lake) -> None:
    uploads = lake.catalog.part_uploads
    of = await begun(uploads)
    found = await uploads._open(of)
    await uploads.abort(of)
    with pytest.raises(NotFoundError):
        await uploads._record(found, Part(1, ETag("e"), 1), "md5")
    assert await rows(lake) == []


async def test_only_parts_as_they_are_complete_only_their_own_upload(lake: Lake) -> None:
    uploads = lake.catalog.part_uploads
    of = await begun(uploads)
    number, md5 = await sent(uploads, of, b"x")
    for wrong in ([(number, "0" * 32)], [(2, md5)], []):
        with pytest.raises(InvalidInputError):
            await uploads.complete(of, wrong)
    for other in (
        replace(of, path="b"),
        replace(of, branch="dev"),
        replace(of, id="0"),
        replace(of, id="../x"),
    ):
        with pytest.raises(NotFoundError):
            await uploads.complete(other, [(number, md5)])
    await uploads.complete(of, [(number, md5)])
    assert await lake.show("main") == {"a": "x"}


async def test_a_stream_that_fails_leaves_the_part_that_was_there(lake: Lake) -> None:
    uploads = lake.catalog.part_uploads
    of = await begun(uploads)
    part = await sent(uploads, of, b"good")

    async def broken() -> AsyncIterator[bytes]:
        yield b"evil"
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await uploads.put(of, 1, broken(), size_bytes=4)
    await uploads.complete(of, [part])
    assert await lake.show("main") == {"a": "good"}


@pytest.mark.parametrize("operation", [Operation.COMPLETE_UPLOAD, Operation.ABORT_UPLOAD])
@pytest.mark.parametrize("fault", [LostRequest(), LostReply()], ids=["request", "reply"])
async def test_what_broke_off_in_the_store_can_be_done_again(
    site: Site, bucket: MemoryBucket, clock: MovedClock, operation: Operation, fault: Fault
) -> None:
    faulty = FaultyObjects(
        MemoryObjects(clock=clock, bucket=bucket), plan=Script({operation: [fault]}), clock=clock
    )
    site.in_memory["mem://lake"] = faulty
    async with site.lake(clock=clock) as lake:
        uploads = lake.catalog.part_uploads
        of = await begun(uploads)
        part = await sent(uploads, of, b"x")
        if operation is Operation.COMPLETE_UPLOAD:
            with pytest.raises(UnavailableError):
                await uploads.complete(of, [part])
            assert await lake.show("main") == {}
            await uploads.complete(of, [part])
            assert await lake.show("main") == {"a": "x"}
        else:
            with pytest.raises(UnavailableError):
                await uploads.abort(of)
            with pytest.raises(NotFoundError):
                await uploads.complete(of, [part])
            clock.ahead = S3_UPLOAD_LIFETIME_SECONDS + 1
            assert await uploads.sweep(lake.repo) == 1
            assert await rows(lake) == []
        assert not bucket.uploads


async def test_a_condition_that_fails_keeps_the_upload(lake: Lake) -> None:
    uploads = lake.catalog.part_uploads
    of = await begun(uploads)
    part = await sent(uploads, of, b"new")
    await lake.put("main", a="old")
    with pytest.raises(PreconditionError):
        await uploads.complete(of, [part], condition=IfAbsent())
    await lake.catalog.objects.delete("lake", "main", ["a"])
    await uploads.complete(of, [part], condition=IfAbsent())
    assert await lake.show("main") == {"a": "new"}


def forgets_uploads() -> Callable[[kv_faults.Call], kv_faults.Fault | None]:
    """Return a plan by which an upload is fixed and claimed, and never noted as completed."""
    swaps = 0

    def plan(call: kv_faults.Call) -> kv_faults.Fault | None:
        nonlocal swaps
        swaps += call.operation is kv_faults.Operation.SWAP and call.key.startswith(b"uploads/")
        return kv_faults.Refused() if swaps > 2 else None

    return plan


@pytest.fixture
async def forgetful(site: Site, clock: MovedClock) -> AsyncIterator[tuple[Lake, FaultyKV]]:
    """A lake whose key-value store can be told to take no note of uploads."""
    assert site.kv is not None
    kv = FaultyKV(site.kv, plan=kv_faults.no_faults, clock=clock)
    async with replace(site, kv=kv).lake(clock=clock) as lake:
        yield lake, kv


async def staged_and_not_noted(
    forgetful: tuple[Lake, FaultyKV], condition: Condition
) -> tuple[UploadOf, tuple[int, str]]:
    lake, kv = forgetful
    uploads = lake.catalog.part_uploads
    of = await begun(uploads)
    part = await sent(uploads, of, b"new")
    kv.plan = forgets_uploads()
    with pytest.raises(UnavailableError, match="complete it again") as unknown:
        await uploads.complete(of, [part], condition=condition)
    assert unknown.value.kind is ErrorKind.OUTCOME_UNKNOWN
    kv.plan = kv_faults.no_faults
    return of, part


@pytest.mark.parametrize("before", ["", "old"], ids=["if absent", "if this one"])
async def test_completing_again_what_is_staged_and_was_not_noted_meets_its_own_entry(
    forgetful: tuple[Lake, FaultyKV], before: str
) -> None:
    lake, _ = forgetful
    condition: Condition = IfAbsent()
    if before:
        await lake.put("main", a=before)
        condition = IfChecksum((await lake.catalog.objects.stat("lake", "main", "a")).checksum)
    of, part = await staged_and_not_noted(forgetful, condition)

    etag = await lake.catalog.part_uploads.complete(of, [part], condition=condition)

    entry = await lake.catalog.objects.stat("lake", "main", "a")
    assert (await lake.show("main"), entry.checksum) == ({"a": "new"}, etag)
    assert await rows(lake) == [b"uploads/" + of.id.encode()]
    assert await lake.catalog.part_uploads.under_way("lake") == []


async def test_completing_it_again_after_somebody_else_wrote_there_fails(
    forgetful: tuple[Lake, FaultyKV],
) -> None:
    lake, _ = forgetful
    of, part = await staged_and_not_noted(forgetful, IfAbsent())
    await lake.put("main", a="theirs")

    with pytest.raises(UnavailableError, match="by an earlier call"):
        await lake.catalog.part_uploads.complete(of, [part], condition=IfAbsent())
    assert await lake.show("main") == {"a": "theirs"}
