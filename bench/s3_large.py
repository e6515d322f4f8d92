"""Large objects through the S3 endpoint, beside what the machine and the storage underneath can do.

Every ratio is of figures from one run.
"""

import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.clock import Stopwatch
from bench.figure import Figure
from bench.lab import Lab, emptied
from bench.memory import AnonymousPeak
from bench.s3_site import BLOCK, Place, S3Site, get, put, s3_site
from lakebed.env.work import ThreadWorkers

_MIB = 2**20
_OBJECT = 1024 * _MIB
_PART = 5 * 1024 * _MIB
_RUNS = 3


async def s3_large(lab: Lab) -> list[Figure]:
    """PUT and GET an object of 1 GiB: local files, and an S3 server underneath."""
    return await _in_thread(_objects, lab)


async def s3_part(lab: Lab) -> list[Figure]:
    """Upload one part of 5 GiB, the most there is, into both."""
    return await _in_thread(_parts, lab)


async def _in_thread(measure: Callable[[Lab], list[Figure]], lab: Lab) -> list[Figure]:
    threads = ThreadWorkers(1)
    try:
        return await threads.run(measure, lab)
    finally:
        threads.close()


def _objects(lab: Lab) -> list[Figure]:
    with emptied(lab.work / "s3_large") as folder:
        source = folder / "source"
        size = _make(source, lab.count(_OBJECT))
        hashing = _rate(size, lambda: _hash(source))
        syncing = _rate(size, lambda: _write_synced(source, folder / "copy"))
        cached = _rate(size, lambda: _read(folder / "copy"))
        (folder / "copy").unlink()
        with s3_site(folder) as site, AnonymousPeak(site.server.process.pid) as memory:
            figures = [
                *_on_files(site, source, min(hashing, syncing), cached),
                *_on_s3(site, source),
            ]
    figures[0] = _noted(figures[0], f"MD5 {hashing:,.0f}, a synced copy {syncing:,.0f}")
    return [*figures, _memory(memory)]


def _on_files(site: S3Site, source: Path, slower: float, cached: float) -> list[Figure]:
    written = _rate(source.stat().st_size, lambda: _put(site.local, source))
    read = _rate(source.stat().st_size, lambda: get(site.local.url("get_object", "large")))
    return [
        Figure(
            name="PUT of 1 GiB, local files",
            value=written,
            unit="MiB/s",
            aim=0.7 * slower,
            note=f"{written / slower:.2f} of the slower of hash and disk",
        ),
        Figure(
            name="GET, local files",
            value=read,
            unit="MiB/s",
            aim=min(800.0, cached / 2),
            note=f"the disk cache gives {cached:,.0f}",
        ),
    ]


def _on_s3(site: S3Site, source: Path) -> list[Figure]:
    size = source.stat().st_size

    def rates(work: Callable[[Place], object]) -> tuple[float, float]:
        """Return ours and theirs, taken in turns: what else the machine does then hits both."""
        both = [
            (_rate(size, lambda: work(site.on_s3), runs=1), _rate(size, lambda: work(site.plain), runs=1))
            for _ in range(_RUNS)
        ]
        return max(ours for ours, _ in both), max(theirs for _, theirs in both)

    def in_parts(place: Place) -> None:
        place.boto3.upload_file(str(source), place.bucket, place.key("parts"))

    whole = rates(lambda place: _put(place, source))
    parts = rates(in_parts)
    read = rates(lambda place: get(place.url("get_object", "large")))
    return [
        _beside("PUT, S3 server underneath", *whole),
        _beside("the same in parts, by boto3", *parts),
        _beside("GET, S3 server underneath", *read),
    ]


def _beside(name: str, ours: float, theirs: float) -> Figure:
    return Figure(
        name=name,
        value=ours,
        unit="MiB/s",
        aim=theirs / 2,
        note=f"{ours / theirs:.2f} of that server with the same client ({theirs:,.0f})",
    )


def _parts(lab: Lab) -> list[Figure]:
    size = lab.count(_PART)
    with emptied(lab.work / "s3_large") as folder, s3_site(folder) as site:
        return [
            figure
            for name, place in (("local files", site.local), ("S3 server underneath", site.on_s3))
            for figure in _part(site, name, place, size)
        ]


def _part(site: S3Site, name: str, place: Place, size: int) -> list[Figure]:
    at = {"Bucket": place.bucket, "Key": place.key("part")}
    upload = {"UploadId": place.boto3.create_multipart_upload(**at)["UploadId"]}
    url = place.url("upload_part", "part", PartNumber=1, **upload)
    with AnonymousPeak(site.server.process.pid) as memory, Stopwatch() as watch:
        etag = put(url, _zeros(size), size_bytes=size)
    completed = {"Parts": [{"PartNumber": 1, "ETag": etag}]}
    place.boto3.complete_multipart_upload(**at, **upload, MultipartUpload=completed)
    assert place.boto3.head_object(**at)["ContentLength"] == size
    rate = Figure(name=f"a part of 5 GiB, {name}", value=size / _MIB / watch.seconds, unit="MiB/s")
    return [rate, _memory(memory)]


def _memory(memory: AnonymousPeak) -> Figure:
    return Figure(
        name="what the server's memory grew by",
        value=memory.grown_mib,
        unit="MiB",
        note="anonymous memory of its processes, the most of many samples",
    )


def _noted(figure: Figure, more: str) -> Figure:
    return Figure(**{**figure.as_dict(), "note": f"{figure.note}: {more}"})


def _make(path: Path, size: int) -> int:
    with path.open("wb") as file:
        for start in range(0, size, BLOCK):
            # Bytes that do not compress.
            file.write(hashlib.shake_128(b"%d" % start).digest(min(BLOCK, size - start)))
    return size


def _rate(size: int, work: Callable[[], object], *, runs: int = _RUNS) -> float:
    """Return the best of a few runs in MiB a second: what disturbs a run only ever slows it down."""
    seconds = []
    for _ in range(runs):
        with Stopwatch() as watch:
            work()
        seconds.append(watch.seconds)
    return size / _MIB / min(seconds)


def _blocks(path: Path) -> Iterator[memoryview]:
    buffer = memoryview(bytearray(BLOCK))
    with path.open("rb", buffering=0) as file:
        while count := file.readinto(buffer):
            yield buffer[:count]


def _zeros(size: int) -> Iterator[memoryview]:
    block = memoryview(bytes(BLOCK))
    for start in range(0, size, BLOCK):
        yield block[: size - start]


def _put(place: Place, source: Path) -> None:
    put(place.url("put_object", "large"), _blocks(source), size_bytes=source.stat().st_size)


def _hash(path: Path) -> None:
    digest = hashlib.md5(usedforsecurity=False)
    for block in _blocks(path):
        digest.update(block)


def _write_synced(source: Path, target: Path) -> None:
    with target.open("wb", buffering=0) as file:
        for block in _blocks(source):
            file.write(block)
        os.fsync(file.fileno())


def _read(path: Path) -> None:
    for _ in _blocks(path):
        pass
