"""Garbage collection over an S3 server on the same machine, as the peer's was measured: half of the objects are garbage.

    python -m bench.gc_s3 --objects 200000 [--engine polars] [--master 'local[2]']

Objects of one byte are put past us; the first half of them is staged and committed. Then one run marks and sweeps. The
time is that of the whole command, Java's start included.
"""

import argparse
import asyncio
from pathlib import Path
from typing import Final

import obstore
from obstore.store import S3Store

from bench.clock import Stopwatch
from bench.gc import Builder, Shape, collect, entry_of
from bench.lab import COMMIT, MAIN, REPO, emptied
from lakebed.objects.settings import StoreSettings
from lakebed.server.config import Config
from lakebed.server.installation import open_installation
from lakebed.testing.s3_server import make_bucket, s3_server
from lakebed.testing.server_process import running_server

_WORK: Final = Path("/var/tmp/lakebed-bench/gc-s3")
_BUCKET: Final = "bench"
_AT_ONCE: Final = 64
_STAGED_AT_ONCE: Final = 5_000


def main() -> None:
    """Build, collect, print."""
    parser = argparse.ArgumentParser(
        prog="bench.gc_s3", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--objects", type=int, default=20_000)
    parser.add_argument("--engine", choices=["spark", "polars"], default="spark")
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--work", type=Path, default=_WORK, help="a folder on the disk to be measured")
    arguments = parser.parse_args()
    with emptied(arguments.work) as folder, s3_server(folder / "weed") as settings:
        make_bucket(settings, _BUCKET)
        with Stopwatch() as watch:
            asyncio.run(_build(folder, settings, arguments.objects))
        print(f"built in {watch.seconds:.0f} s", flush=True)
        variables = {
            "LAKEBED_STORAGE_S3_ENDPOINT": settings.s3_endpoint or "",
            "LAKEBED_STORAGE_S3_ACCESS_KEY_ID": settings.s3_access_key_id or "",
            "LAKEBED_STORAGE_S3_SECRET_ACCESS_KEY": settings.s3_secret_access_key or "",
        }
        with running_server(folder, environment=variables) as server:
            done = collect(server, engine=arguments.engine, master=arguments.master, variables=variables)
    assert done.deleted == arguments.objects // 2, f"{done.deleted} deleted"
    phases = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in done.phases.items())
    print(
        f"{arguments.objects:,} objects on S3, {arguments.engine}: {done.seconds:.1f} s, {done.memory_mib:,.0f} MiB, "
        f"{done.deleted:,} deleted; {phases}"
    )


async def _build(folder: Path, settings: StoreSettings, objects: int) -> None:
    half = objects // 2
    shape = Shape(objects=objects, uncommitted=0, garbage=half, branches=1, commits=1, range_rows=objects)
    builder = Builder(folder, shape)
    async with open_installation(Config(data=folder / "data", storage=settings)) as site:
        repo = await site.catalog.repositories.create(REPO, f"s3://{_BUCKET}/{REPO}")
        await _put(settings, [f"{REPO}/{builder.address(n)}" for n in range(objects)])
        for first in range(0, objects - half, _STAGED_AT_ONCE):
            numbers = range(first, min(first + _STAGED_AT_ONCE, objects - half))
            await site.engine.parts.staging.write(repo, MAIN, [entry_of(builder, n) for n in numbers])
        await site.catalog.commits.commit(REPO, MAIN, COMMIT)


async def _put(settings: StoreSettings, keys: list[str]) -> None:
    store = S3Store(
        _BUCKET,
        endpoint=settings.s3_endpoint,
        access_key_id=settings.s3_access_key_id,
        secret_access_key=settings.s3_secret_access_key,
        region="us-east-1",
        virtual_hosted_style_request=False,
        client_options={"allow_http": True},
    )
    left = iter(keys)

    async def go() -> None:
        for key in left:
            await obstore.put_async(store, key, b"x")

    await asyncio.gather(*(go() for _ in range(_AT_ONCE)))


if __name__ == "__main__":
    main()
