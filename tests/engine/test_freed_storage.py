"""A repository that is deleted with its data leaves nothing in its namespace, in a folder or in a bucket."""

from lakebed.catalog.objects import Attributes
from lakebed.env.clock import after
from lakebed.limits import GRACE_SECONDS, LATE_UPLOAD_SECONDS
from lakebed.refs.owners import deleting_key
from lakebed.testing.lake import COMMIT
from lakebed.testing.site import Site


async def test_nothing_is_left_of_a_repository_deleted_with_its_data(site: Site) -> None:
    async with site.lake() as lake:
        catalog, store = lake.catalog, await lake.engine.store_of(lake.repo)
        await lake.put("main", **{f"small/{i}": "x" for i in range(30)})
        await catalog.objects.upload("lake", "main", "large", bytes(200_000))
        await catalog.commits.commit("lake", "main", COMMIT)
        await lake.put("main", staged="x")
        await catalog.stashes.create("lake", "main")
        upload = await catalog.part_uploads.begin("lake", "main", "never", Attributes())
        await store.put_part(upload.address, upload.store_upload, 1, bytes(5 << 20))
        use = await catalog.repositories.storage_use("lake")
        assert (use.objects, use.complete) == (32, True)
        assert use.size > 200_000

        await catalog.repositories.delete("lake", delete_data=True)
        await lake.cleaner.clean_once()
        assert [infos async for infos in store.list()], "a grace is a grace"
        later = after(await lake.kv.now(), 2 * GRACE_SECONDS)
        await lake.cleaner.clean_once(later)
        assert [info.key async for infos in store.list() for info in infos] == [deleting_key(lake.repo.uid)]
        # A client that was uploading when the repository was deleted ends only now.
        await store.put(lake.engine.slices.next_address(later), b"late")
        await store.create_upload(lake.engine.slices.next_address(later))
        await lake.cleaner.clean_once(after(later, LATE_UPLOAD_SECONDS))

        assert [info.key async for infos in store.list() for info in infos] == []
        assert [infos async for infos in store.list_uploads()] == []
        assert [page async for page in lake.kv.scan(lake.repo.partition)] == []
        if site.namespaces.startswith("local:"):
            left = (site.folder / "objects").rglob("*")
            assert [path for path in left if path.is_file()] == [], "no journal, no parts, no locks"
        # The name and the place are free.
        await catalog.repositories.create("lake", lake.repo.namespace)
