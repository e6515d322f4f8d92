"""Places on disk: which folders a server may touch, and which never."""

from pathlib import Path

import pytest

from lakebed.errors import ErrorKind, InvalidInputError, NotFoundError, UnavailableError
from lakebed.objects.external import ExternalAddresses
from lakebed.objects.open import open_store
from lakebed.objects.places import Places
from lakebed.objects.settings import StoreSettings


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """A data folder, a root beside it, and folders of others."""
    for name in ("data/kv", "data/tmp", "data/cache", "data/objects/lake", "root/below", "home/.ssh"):
        (tmp_path / name).mkdir(parents=True)
    return tmp_path


def places_on(disk: Path, *roots: str) -> Places:
    return Places(
        objects=disk / "data" / "objects",
        roots=[disk / root for root in roots],
        private=disk / "data",
    )


@pytest.mark.parametrize(
    ("url", "stored"),
    [
        ("local://name", "local://name"),
        ("local:///name", "local://name"),
        ("local:///name/", "local://name"),
        ("local://name/below", "local://name/below"),
        ("s3://bucket/x/", "s3://bucket/x"),
    ],
)
def test_a_name_is_a_folder_below_the_objects_however_it_is_spelled(
    disk: Path, url: str, stored: str
) -> None:
    places = places_on(disk)

    assert places.namespace(url) == stored
    assert places.usable(places.namespace(url)) == places.canonical(stored)


def test_absolute_folders_lie_in_or_below_a_configured_root(disk: Path) -> None:
    places = places_on(disk, "root")

    for folder in (disk / "root", disk / "root" / "new", disk / "root" / "below" / "x"):
        assert places.namespace(f"local://{folder}") == f"local://{folder}"
        assert places.usable(f"local://{folder}") == f"local://{folder}"


@pytest.mark.parametrize("roots", [(), ("root",), ("",), ("data",), ("data/kv", "home")])
@pytest.mark.parametrize(
    "folder",
    [
        "data",
        "data/kv",
        "data/tmp/x",
        "data/cache",
        "data/objects",
        "data/installation.key",
        "",
        "link-to-data/kv",
        "root/link-to-kv",
        "root/link-to-kv/x",
    ],
)
def test_no_repository_lies_in_the_servers_own_folders_or_around_them(
    disk: Path, folder: str, roots: tuple[str, ...]
) -> None:
    (disk / "link-to-data").symlink_to(disk / "data")
    (disk / "root" / "link-to-kv").symlink_to(disk / "data" / "kv")
    places = places_on(disk, *roots)

    with pytest.raises(InvalidInputError) as raised:
        places.namespace(f"local://{disk / folder}")
    assert raised.value.kind is ErrorKind.INVALID_NAMESPACE
    with pytest.raises(UnavailableError):
        places.usable(f"local://{disk / folder}")


def test_a_server_keeps_no_repository_in_the_memory_of_one_process(disk: Path) -> None:
    with pytest.raises(InvalidInputError) as raised:
        places_on(disk).namespace("mem://x")
    assert raised.value.kind is ErrorKind.INVALID_NAMESPACE


def test_links_lead_nowhere(disk: Path) -> None:
    (disk / "data" / "objects" / "out").symlink_to(disk / "home")
    (disk / "root" / "out").symlink_to(disk / "home")
    places = places_on(disk, "root")

    for url in ("local://out", "local://out/.ssh", "local:///out", f"local://{disk}/root/out"):
        with pytest.raises(InvalidInputError):
            places.namespace(url)


def test_a_refusal_says_what_to_configure_and_names_no_file(disk: Path) -> None:
    (disk / "home" / ".ssh" / "id_ed25519").write_text("secret")
    places = places_on(disk)

    for call in (places.namespace, places.usable):
        with pytest.raises((InvalidInputError, UnavailableError), match=r"storage\.local\.roots") as raised:
            call(f"local://{disk}/home/.ssh")
        assert "id_ed25519" not in str(raised.value)


def test_a_repository_from_before_at_an_absolute_folder_stays_there(disk: Path) -> None:
    """Records made before roots were configured say `local:///folder`, of one part too: those are absolute."""
    with pytest.raises(UnavailableError, match=r"storage\.local\.roots"):
        places_on(disk).usable("local:///lake")
    assert Places(objects=disk, roots=[Path("/lake")]).usable("local:///lake") == "local:///lake"


def test_only_places_in_which_a_repository_can_lie_are_looked_at_from_below(disk: Path) -> None:
    places = places_on(disk, "root")
    place = places.canonical("local://lake/a/b")

    assert places.above(place) == [places.canonical("local://lake/a"), places.canonical("local://lake")]
    assert places.above(f"local://{disk}/root/x") == [f"local://{disk}/root"]
    assert places.above("s3://bucket/a/b") == ["s3://bucket/a", "s3://bucket"]


async def test_a_link_that_is_put_in_place_later_is_not_followed(disk: Path) -> None:
    settings = StoreSettings(data_dir=disk / "data" / "objects", private=disk / "data")
    store = open_store("local://late", settings)
    (disk / "data" / "objects" / "late").symlink_to(disk / "home")

    with pytest.raises(UnavailableError):
        await store.put("k", b"1")
    with pytest.raises(NotFoundError):
        await store.get("k")
    await store.close()

    assert sorted(path.name for path in (disk / "home").rglob("*")) == [".ssh"]


@pytest.mark.parametrize("prefix", ["", "data", "data/kv", "data/objects", "data/objects/lake", "link"])
def test_an_import_prefix_never_covers_the_data_folder(disk: Path, prefix: str) -> None:
    (disk / "link").symlink_to(disk / "data")
    settings = StoreSettings(data_dir=disk / "data" / "objects", private=disk / "data")

    with pytest.raises(InvalidInputError, match="data folder") as raised:
        ExternalAddresses(
            import_prefixes=[f"local://{disk / prefix}"], namespaces=lambda: (), settings=settings
        )
    assert raised.value.kind is ErrorKind.INVALID_CONFIG
