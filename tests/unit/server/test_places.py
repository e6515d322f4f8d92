"""Where an installation lets repositories lie, and what it imports from."""

from pathlib import Path

import pytest

from lakebed.env.clock import SystemClock, after
from lakebed.errors import DeniedError, ErrorKind, InvalidInputError, NotFoundError, UnavailableError
from lakebed.limits import GRACE_SECONDS
from lakebed.objects.settings import StoreSettings
from lakebed.server.config import Config
from lakebed.server.installation import open_installation


async def test_both_spellings_of_a_name_are_one_folder_of_the_data_folder(tmp_path: Path) -> None:
    async with open_installation(Config(data=tmp_path / "data")) as wired:
        made = await wired.catalog.repositories.create("lake", "local:///lake")
        assert made.namespace == "local://lake"
        with pytest.raises(InvalidInputError) as raised:
            await wired.catalog.repositories.create("other", "local://lake")
        assert raised.value.kind is ErrorKind.NAMESPACE_IN_USE

    assert (tmp_path / "data" / "objects" / "lake" / ".lakebed").is_dir()


@pytest.mark.parametrize("place", ["home/.ssh", "data/kv", "data", "data/objects", ""])
async def test_other_folders_are_refused_and_their_files_not_named(tmp_path: Path, place: str) -> None:
    (tmp_path / "home" / ".ssh").mkdir(parents=True)
    (tmp_path / "home" / ".ssh" / "id_ed25519").write_text("secret")
    async with open_installation(Config(data=tmp_path / "data")) as wired:
        for bare in (False, True):
            with pytest.raises(InvalidInputError) as raised:
                await wired.catalog.repositories.create("lake", f"local://{tmp_path / place}", bare=bare)
            assert raised.value.kind is ErrorKind.INVALID_NAMESPACE
            assert "id_ed25519" not in str(raised.value)

    assert [path.name for path in (tmp_path / "home").rglob("*")] == [".ssh", "id_ed25519"]


async def test_a_folder_with_files_of_others_below_a_root_is_refused_without_their_names(
    tmp_path: Path,
) -> None:
    (tmp_path / "root" / "theirs").mkdir(parents=True)
    (tmp_path / "root" / "theirs" / "payroll.csv").write_text("secret")
    config = Config(data=tmp_path / "data", storage=StoreSettings(local_roots=(tmp_path / "root",)))
    async with open_installation(config) as wired:
        with pytest.raises(InvalidInputError) as raised:
            await wired.catalog.repositories.create("lake", f"local://{tmp_path}/root/theirs")

    assert raised.value.kind is ErrorKind.NAMESPACE_IN_USE
    assert "payroll" not in str(raised.value)


async def test_a_repository_below_a_root_opens_only_while_the_root_is_configured(tmp_path: Path) -> None:
    rooted = Config(data=tmp_path / "data", storage=StoreSettings(local_roots=(tmp_path / "root",)))
    async with open_installation(rooted) as wired:
        await wired.catalog.repositories.create("lake", f"local://{tmp_path}/root/lake")
        await wired.catalog.objects.upload("lake", "main", "a", b"1")
    async with open_installation(Config(data=tmp_path / "data")) as wired:
        with pytest.raises(UnavailableError, match=r"storage\.local\.roots"):
            await wired.catalog.objects.upload("lake", "main", "b", b"2")
        await wired.catalog.repositories.create("other", "local://other")
        await wired.cleaner.clean_once()
    async with open_installation(rooted) as wired:
        await wired.catalog.objects.upload("lake", "main", "b", b"2")


async def test_nothing_is_imported_from_the_data_folder(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for prefix in (tmp_path, tmp_path / "data", tmp_path / "data" / "kv"):
        with pytest.raises(InvalidInputError, match="import prefix"):
            async with open_installation(
                Config(data=tmp_path / "data", import_prefixes=(f"local://{prefix}",))
            ):
                pass
    (tmp_path / "in" / "key").symlink_to(tmp_path / "data" / "installation.key")
    config = Config(data=tmp_path / "data", import_prefixes=(f"local://{tmp_path}/in",))
    async with open_installation(config) as wired:
        await wired.catalog.repositories.create("lake", "local://lake")
        (tmp_path / "data" / "installation.key").write_text("secret")
        with pytest.raises(DeniedError):
            await wired.engine.external.resolve(f"local://{tmp_path}/in/key")
        with pytest.raises(DeniedError):
            await wired.engine.external.check(f"local://{tmp_path}/data/installation.key")


def _found(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize("there", [False, True])
async def test_a_refused_creation_leaves_nothing_in_the_folder_of_another_installation(
    tmp_path: Path, there: bool
) -> None:
    storage = StoreSettings(local_roots=(tmp_path / "root",))
    place = tmp_path / "root" / "lake"
    async with open_installation(Config(data=tmp_path / "one", storage=storage)) as wired:
        await wired.catalog.repositories.create("lake", f"local://{place}")
    if there:
        (place / "x").mkdir()
    before = _found(place)
    async with open_installation(Config(data=tmp_path / "two", storage=storage)) as wired:
        for call in (
            wired.catalog.repositories.create("other", f"local://{place}/x"),
            wired.catalog.repositories.create("bare", f"local://{place}/x", bare=True),
            wired.catalog.repositories.purge(f"local://{place}/x"),
        ):
            with pytest.raises(InvalidInputError) as raised:
                await call
            assert raised.value.kind is ErrorKind.NAMESPACE_IN_USE
        assert _found(place / "x") == []

    assert [path for path in _found(place) if not path.startswith(".lakebed")] == [
        path for path in before if not path.startswith(".lakebed")
    ]


async def test_a_refused_creation_leaves_nothing_beside_files_of_others(tmp_path: Path) -> None:
    theirs = tmp_path / "root" / "theirs"
    theirs.mkdir(parents=True)
    (theirs / "payroll.csv").write_text("secret")
    config = Config(data=tmp_path / "data", storage=StoreSettings(local_roots=(tmp_path / "root",)))
    async with open_installation(config) as wired:
        with pytest.raises(InvalidInputError):
            await wired.catalog.repositories.create("lake", f"local://{theirs}")
        now = after(SystemClock().now(), GRACE_SECONDS + 60)
        assert (await wired.cleaner.clean_once(now)).repositories == 1

    assert _found(tmp_path / "root") == ["theirs", "theirs/payroll.csv"]


async def test_a_creation_that_is_refused_after_its_marker_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = Config(data=tmp_path / "data", storage=StoreSettings(local_roots=(tmp_path / "root",)))
    (tmp_path / "root").mkdir()
    async with open_installation(config) as wired:
        looks = [None, InvalidInputError(ErrorKind.NAMESPACE_IN_USE, "somebody came")]

        async def require_unowned(*_: object, **__: object) -> None:
            if (error := looks.pop(0)) is not None:
                assert list((tmp_path / "root" / "a" / "lake" / "_lakebed").iterdir())
                raise error

        monkeypatch.setattr("lakebed.refs.repositories.require_unowned", require_unowned)
        with pytest.raises(InvalidInputError, match="somebody came"):
            await wired.catalog.repositories.create("lake", f"local://{tmp_path}/root/a/lake")
        assert _found(tmp_path / "root") == []


async def test_a_creation_that_is_given_up_leaves_nothing_when_it_is_cleaned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = Config(data=tmp_path / "data", storage=StoreSettings(local_roots=(tmp_path / "root",)))
    (tmp_path / "root").mkdir()

    async def fail(*_: object) -> None:
        raise UnavailableError(ErrorKind.STORE_UNAVAILABLE, "out of reach")

    monkeypatch.setattr("lakebed.refs.repositories.delete_marks", fail)
    async with open_installation(config) as wired:
        with pytest.raises(UnavailableError, match="out of reach"):
            await wired.catalog.repositories.create("lake", f"local://{tmp_path}/root/lake")
        assert _found(tmp_path / "root")
        now = after(SystemClock().now(), GRACE_SECONDS + 60)
        assert (await wired.cleaner.clean_once(now)).repositories == 1
        assert _found(tmp_path / "root") == []


async def test_a_refused_adoption_leaves_nothing(tmp_path: Path) -> None:
    config = Config(data=tmp_path / "data", storage=StoreSettings(local_roots=(tmp_path / "root",)))
    (tmp_path / "root").mkdir()
    async with open_installation(config) as wired:
        with pytest.raises(NotFoundError):
            await wired.catalog.adoptions.start(f"local://{tmp_path}/root/a", name="lost")

    assert _found(tmp_path / "root") == []
