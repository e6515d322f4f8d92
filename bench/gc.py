# ruff: noqa: A005  nobody imports it but as bench.gc
"""Garbage collection at any size: builds a repository straight in the open formats, then times the job on it.

    python -m bench.gc --objects 1000000 [--branches 500] [--commits 1500] [--engine spark] [--json]

Objects are empty files in slices of 50,000. Every commit appends to the last range of its tree, as loads do: the trees of
neighbours share all ranges but one. Of the objects a quarter is staged and a twentieth is garbage, unless
said otherwise. A clean run marks and sweeps; then one percent changes (a commit of new objects, as
many staged ones deleted) and an optimized run follows. Memory is what the job's processes take of their own, Java and
Python workers together; the server's is not in it.
"""

import argparse
import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.clock import Stopwatch
from bench.lab import COMMIT, MAIN, REPO
from bench.memory import AnonymousPeak
from lakebed.env.clock import Instant, after
from lakebed.format.blocks import ENTRY_SCHEMA
from lakebed.format.hashing import range_hash
from lakebed.format.layout import METARANGES_FOLDER, RANGES_FOLDER, TREE_FILE_ENDING, slice_name
from lakebed.format.metaranges import RangeInfo, encode_metarange, metarange_block, metarange_hash
from lakebed.format.ranges import encode_range
from lakebed.model.entries import Entry
from lakebed.model.ids import BranchName, MetarangeId, RangeId, parse_path
from lakebed.server.config import Config
from lakebed.server.installation import open_installation
from lakebed.server.wiring import Wired
from lakebed.testing.server_process import ServerProcess, running_server

_WORK: Final = Path("/var/tmp/lakebed-bench/gc")
_SLICE_OBJECTS: Final = 50_000
_NONCE: Final = "bench"
_STAGED_AT_ONCE: Final = 5_000
_PROCESSES: Final = 2
_LAST: Final = Instant(1_700_000_000_000_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What is built."""

    objects: int
    uncommitted: int
    garbage: int
    branches: int
    commits: int
    range_rows: int

    @property
    def committed(self) -> int:
        return self.objects - self.uncommitted - self.garbage


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """One run of the job."""

    kind: str
    seconds: float
    memory_mib: float
    marked: int
    deleted: int
    phases: dict[str, float]


class Builder:
    """Writes a repository into a folder. Object number n lies at `address(n)`: first committed ones, then staged, then garbage."""

    def __init__(self, folder: Path, shape: Shape) -> None:
        self._shape = shape
        self.namespace = folder / "data" / "objects" / REPO
        # An hour a slice, all long ago.
        self._last = _LAST

    def address(self, number: int) -> str:
        return f"data/{self._slice(number // _SLICE_OBJECTS)}/{number:020d}"

    def _slice(self, slice_number: int) -> str:
        return slice_name(after(self._last, -3600.0 * slice_number), f"{slice_number:08d}")

    def files(self, first: int, count: int) -> None:
        """Create the objects' files."""
        edges = [*range(first, first + count, _SLICE_OBJECTS), first + count]
        parts = [
            (str(self.namespace / self.address(a)), str(self.namespace / self.address(b - 1)), a, b)
            for a, b in pairwise(edges)
        ]
        with get_context("spawn").Pool(_PROCESSES) as pool:
            pool.starmap(_create, parts)

    def block(self, first: int, count: int) -> pa.Table:
        """Return entries in key order."""
        numbers = pa.array(np.arange(first, first + count))
        digits = pc.utf8_lpad(numbers.cast(pa.string()), 20, "0")
        folders = [self._slice(number) for number in range((first + count - 1) // _SLICE_OBJECTS + 1)]
        slices = pa.array(folders).take(pa.array(np.arange(first, first + count) // _SLICE_OBJECTS))
        identities = pc.cast(pc.utf8_slice_codeunits(digits, 4), pa.binary())
        return pa.table(
            [
                pc.binary_join_element_wise("t/", digits, ""),
                pc.binary_join_element_wise("data/", slices, "/", digits, ""),
                digits,
                pa.array(np.zeros(count, np.int64)),
                pa.array(np.full(count, self._last)),
                pa.array(["application/octet-stream"] * count),
                pa.array([""] * count),
                identities,
            ],
            schema=ENTRY_SCHEMA,
        )

    def range(self, first: int, count: int) -> RangeInfo:
        """Write a range, and return what a metarange says of it."""
        block = self.block(first, count)
        digest, data = range_hash(block), encode_range(block)
        name = f"{digest}-{_NONCE}"
        (self.namespace / f"{RANGES_FOLDER}{name}{TREE_FILE_ENDING}").write_bytes(data)
        keys = block.column("key")
        return RangeInfo(
            id=RangeId(name),
            hash=digest,
            min_key=keys[0].as_py(),
            max_key=keys[-1].as_py(),
            count=count,
            bytes=len(data),
        )

    def metarange(self, ranges: Sequence[RangeInfo]) -> MetarangeId:
        """Write a metarange."""
        block = metarange_block(ranges)
        name = f"{metarange_hash(block)}-{_NONCE}"
        (self.namespace / f"{METARANGES_FOLDER}{name}{TREE_FILE_ENDING}").write_bytes(encode_metarange(block))
        return MetarangeId(name)

    def trees(self, ends: Sequence[int]) -> list[MetarangeId]:
        """Write the trees of commits, each of the objects up to its end."""
        rows = self._shape.range_rows
        wholes = [(number * rows, rows) for number in range(ends[-1] // rows)]
        tails = [(end // rows * rows, end % rows) for end in ends if end % rows]
        with get_context("spawn").Pool(_PROCESSES) as pool:
            written = pool.starmap(self.range, [*wholes, *tails], chunksize=8)
        by_place = dict(zip([*wholes, *tails], written, strict=True))
        found = []
        for end in ends:
            tail = [by_place[end // rows * rows, end % rows]] if end % rows else []
            found.append(self.metarange([by_place[part] for part in wholes[: end // rows]] + tail))
        return found


def _create(first: str, last: str, begin: int, end: int) -> None:
    """Make empty files, in the one or two slices that they lie in."""
    folders = sorted({Path(first).parent, Path(last).parent}, reverse=True)
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
    handles = {begin // _SLICE_OBJECTS: os.open(Path(first).parent, os.O_RDONLY)}
    handles[(end - 1) // _SLICE_OBJECTS] = os.open(Path(last).parent, os.O_RDONLY)
    for number in range(begin, end):
        name = f"{number:020d}"
        os.close(os.open(name, os.O_CREAT | os.O_WRONLY, 0o644, dir_fd=handles[number // _SLICE_OBJECTS]))
    for handle in set(handles.values()):
        os.close(handle)


async def build(folder: Path, shape: Shape) -> Builder:
    """Build the repository."""
    async with _opened(folder) as site:
        repo = await site.catalog.repositories.create(REPO, f"local://{REPO}")
        builder = Builder(folder, shape)
        for own in (RANGES_FOLDER, METARANGES_FOLDER):
            (builder.namespace / own).mkdir(parents=True, exist_ok=True)
        builder.files(0, shape.objects)
        ends = [shape.committed * (n + 1) // shape.commits for n in range(shape.commits)]
        commits = [
            await site.engine.committer.commit_tree(repo, MAIN, COMMIT, tree) for tree in builder.trees(ends)
        ]
        names = [f"b{number:05d}" for number in range(shape.branches)]
        for number, name in enumerate(names):
            await site.catalog.branches.create(REPO, name, commits[number * len(commits) // len(names)].id)
        each = -(-shape.uncommitted // len(names))
        for number, name in enumerate(names):
            first = shape.committed + number * each
            last = min(first + each, shape.committed + shape.uncommitted)
            for at in range(first, last, _STAGED_AT_ONCE):
                numbers = range(at, min(at + _STAGED_AT_ONCE, last))
                entries = [entry_of(builder, n) for n in numbers]
                await site.engine.parts.staging.write(repo, BranchName(name), entries)
    return builder


async def change(folder: Path, builder: Builder, shape: Shape) -> None:
    """Let one percent change: new objects in one commit, and staged ones deleted."""
    new = shape.objects // 100
    builder.files(shape.objects, new)
    rows = new // shape.branches + 1
    async with _opened(folder) as site:
        repo = await site.catalog.repositories.get(REPO)
        trees = await site.engine.parts.trees_of(repo)

        async def blocks() -> AsyncIterator[pa.Table]:
            yield builder.block(shape.objects, new)

        written = await trees.write(blocks(), nonce=_NONCE)
        await site.engine.committer.commit_tree(repo, MAIN, COMMIT, written.id)
        each = -(-shape.uncommitted // shape.branches)
        for number in range(shape.branches):
            first = shape.committed + number * each
            paths = [f"s/{n:020d}" for n in range(first, first + min(rows, each))]
            for at in range(0, len(paths), 1000):
                await site.catalog.objects.delete(REPO, f"b{number:05d}", paths[at : at + 1000])


def collect(
    server: ServerProcess,
    *,
    engine: str,
    master: str,
    options: Sequence[str] = (),
    variables: Mapping[str, str] | None = None,
) -> Timed:
    """Run the job as users do, and measure it."""
    command = [str(Path(sys.executable).parent / "lakebed"), "gc", "run", f"lakebed://{REPO}"]
    command += ["--min-age", "0", "--grace", "0", "--allow-large", "--yes", "--json", "--engine", engine]
    command += ["--master", master] if engine == "spark" else []
    environment = {**os.environ, **server.client_environment, **(variables or {})}  # noqa: TID251  the job inherits what we have
    with Stopwatch() as watch:
        job = subprocess.Popen([*command, *options], env=environment, stdout=subprocess.PIPE)
        with AnonymousPeak(job.pid) as memory:
            said, _ = job.communicate()
    if job.returncode:
        raise SystemExit(f"the job failed with {job.returncode}")
    found: dict[str, Any] = json.loads(said)
    return Timed(
        kind=found["kind"],
        seconds=round(watch.seconds, 1),
        memory_mib=round(memory.grown_mib),
        marked=found["marked"]["objects"],
        deleted=found["deleted"]["objects"],
        phases={phase["name"]: phase["seconds"] for phase in found["phases"]},
    )


def built(folder: Path, shape: Shape) -> Builder:
    """Build, unless the same was built there before."""
    built, wanted = folder / "built.json", json.dumps(asdict(shape))
    if built.exists() and built.read_text(encoding="utf-8") == wanted:
        return Builder(folder, shape)
    shutil.rmtree(folder, ignore_errors=True)
    with Stopwatch() as watch:
        builder = asyncio.run(build(folder, shape))
    built.write_text(wanted, encoding="utf-8")
    print(f"built in {watch.seconds:.0f} s", file=sys.stderr, flush=True)
    return builder


def measure(folder: Path, builder: Builder, shape: Shape, *, engine: str, master: str) -> list[Timed]:
    """Collect, change a little, collect again."""
    (folder / "built.json").unlink()
    with running_server(folder) as server:
        clean = collect(server, engine=engine, master=master, options=["--clean"])
    asyncio.run(change(folder, builder, shape))
    with running_server(folder) as server:
        optimized = collect(server, engine=engine, master=master)
    assert clean.deleted >= shape.garbage, "all garbage is found"
    assert optimized.kind == "optimized"
    return [clean, optimized]


@asynccontextmanager
async def _opened(folder: Path) -> AsyncIterator[Wired]:
    async with open_installation(Config(data=folder / "data")) as site:
        yield site


def entry_of(builder: Builder, number: int) -> Entry:
    """Return the entry of an object."""
    return Entry(
        path=parse_path(f"s/{number:020d}"),
        address=builder.address(number),
        checksum=f"{number:032d}",
        size_bytes=0,
        mtime=_LAST,
        content_type="application/octet-stream",
    )


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(
        prog="bench.gc", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--objects", type=int, default=200_000)
    parser.add_argument("--uncommitted", type=int, help="a quarter of the objects")
    parser.add_argument("--garbage", type=int, help="a twentieth of the objects")
    parser.add_argument("--branches", type=int, default=500)
    parser.add_argument("--commits", type=int, help="1.5 for a thousand objects")
    parser.add_argument("--range-rows", type=int, default=50_000)
    parser.add_argument("--engine", choices=["spark", "polars"], default="spark")
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--work", type=Path, default=_WORK, help="a folder on the disk to be measured")
    parser.add_argument(
        "--build-only", action="store_true", help="a later call with the same shape goes on from there"
    )
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    objects = arguments.objects
    shape = Shape(
        objects=objects,
        uncommitted=arguments.uncommitted if arguments.uncommitted is not None else objects // 4,
        garbage=arguments.garbage if arguments.garbage is not None else objects // 20,
        branches=arguments.branches,
        commits=arguments.commits or max(1, objects * 3 // 2000),
        range_rows=arguments.range_rows,
    )
    builder = built(arguments.work, shape)
    if arguments.build_only:
        return
    timed = measure(arguments.work, builder, shape, engine=arguments.engine, master=arguments.master)
    shutil.rmtree(arguments.work, ignore_errors=True)
    if arguments.json:
        print(json.dumps({"shape": asdict(shape), "runs": [asdict(each) for each in timed]}, indent=1))
        return
    print(
        f"{shape.objects:,} objects, {shape.commits:,} commits, {shape.branches:,} branches, {arguments.engine}"
    )
    for each in timed:
        phases = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in each.phases.items())
        print(
            f"{each.kind:<10} {each.seconds:>7.1f} s  {each.memory_mib:>6,.0f} MiB  {each.deleted:,} deleted; {phases}"
        )


if __name__ == "__main__":
    main()
