"""Import from a real S3 server: nothing is read, only listed."""

from pathlib import Path

import pytest

from lakebed.env.ids import SystemIds
from lakebed.errors import DeniedError, ErrorKind, NotFoundError
from lakebed.kv.drivers.memory import MemoryKV
from lakebed.model.ids import BranchName
from lakebed.objects.open import open_store
from lakebed.objects.settings import StoreSettings
from lakebed.testing.lake import COMMIT, Lake
from lakebed.testing.site import Site
from lakebed.versioning.importing import ImportKind, ImportPath

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("s3")]


async def run(lake: Lake, *paths: ImportPath) -> None:
    await lake.engine.importer.run(lake.repo, BranchName("main"), paths, COMMIT)


async def test_a_prefix_and_an_object_of_a_bucket_are_imported_and_read(
    tmp_path: Path, s3: StoreSettings
) -> None:
    place = f"s3://lakes/{SystemIds().token()}"
    outside = open_store(f"{place}/outside", s3)
    files = {"a-b": "1", "a/b": "2", "a.b": "3", "a/c/d": "4", "ü": "5"}
    for name, content in files.items():
        await outside.put(name, content.encode())
    await outside.close()
    site = Site(tmp_path, f"{place}/", s3, kv=MemoryKV(), import_prefixes=(f"{place}/outside",))
    async with site.lake() as lake:
        await lake.commit("main", **{"in/old": "old", "kept": "kept"})
        everything = ImportPath(kind=ImportKind.PREFIX, address=f"{place}/outside/", destination="in/")
        one = ImportPath(kind=ImportKind.OBJECT, address=f"{place}/outside/a/b", destination="one")
        await run(lake, everything, one)

        expected = {f"in/{name}": content for name, content in files.items()} | {"kept": "kept", "one": "2"}
        assert await lake.show("main") == expected
        assert (await lake.catalog.objects.stat("lake", "main", "in/a/b")).address == f"{place}/outside/a/b"

        for address, error, kind in (
            (f"{place}/outside/nowhere", NotFoundError, ErrorKind.OBJECT_NOT_FOUND),
            (f"{place}/outside2/a", DeniedError, ErrorKind.EXTERNAL_ADDRESS),
            (f"{place}/lake/data/x", DeniedError, ErrorKind.EXTERNAL_ADDRESS),
        ):
            with pytest.raises(error) as caught:
                await run(lake, ImportPath(kind=ImportKind.OBJECT, address=address, destination="x"))
            assert caught.value.kind is kind
        assert await lake.show("main") == expected
