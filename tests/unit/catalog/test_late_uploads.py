"""An upload that outlasts its repository, and the cleaner's second look, leaves nothing."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lakebed.env.clock import SystemClock, after
from lakebed.errors import NotFoundError
from lakebed.limits import GRACE_SECONDS, LATE_UPLOAD_SECONDS
from lakebed.objects.settings import StoreSettings
from lakebed.server.config import Config
from lakebed.server.installation import open_installation
from lakebed.server.wiring import Wired


def found(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


async def delete_lake(wired: Wired) -> None:
    """Delete it with its data, and let the cleaner come twice."""
    await wired.catalog.repositories.delete("lake", delete_data=True)
    due = after(SystemClock().now(), GRACE_SECONDS + 60)
    for now in (due, after(due, LATE_UPLOAD_SECONDS + 60)):
        await wired.cleaner.clean_once(now)


@pytest.mark.parametrize("size", [10, 3_000_000])
@pytest.mark.parametrize("again", [False, True])
async def test_what_an_upload_stores_after_its_repository_is_gone_goes(
    tmp_path: Path, size: int, again: bool
) -> None:
    root = tmp_path / "root"
    root.mkdir()
    config = Config(data=tmp_path / "data", storage=StoreSettings(local_roots=(root,)))
    async with open_installation(config) as wired:
        await wired.catalog.repositories.create("lake", f"local://{root}/lake")

        async def data() -> AsyncIterator[bytes]:
            yield b"x"
            await delete_lake(wired)
            if again:
                # One of the same name, elsewhere, is not this one.
                await wired.catalog.repositories.create("lake", f"local://{root}/other")
            # What the store itself keeps is in use, by this very upload.
            assert all(name.startswith(".lakebed") for name in found(root / "lake"))
            yield bytes(size)

        with pytest.raises(NotFoundError):
            await wired.catalog.objects.upload("lake", "main", "path", data())
        assert not (root / "lake").exists(), found(root)


async def test_what_is_uploaded_to_a_branch_that_was_deleted_is_left_to_garbage_collection(
    tmp_path: Path,
) -> None:
    async with open_installation(Config(data=tmp_path / "data")) as wired:
        await wired.catalog.repositories.create("lake", "local://lake")
        await wired.catalog.branches.create("lake", "dev", "main")

        async def data() -> AsyncIterator[bytes]:
            await wired.catalog.branches.delete("lake", "dev")
            yield b"x"

        with pytest.raises(NotFoundError):
            await wired.catalog.objects.upload("lake", "dev", "path", data())

    assert [name for name in found(tmp_path / "data" / "objects" / "lake") if name.startswith("data/")]
