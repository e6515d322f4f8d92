"""Objects outside: what may be read, and what never."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import pytest

from lakebed.errors import DeniedError, ErrorKind, InvalidInputError, NotFoundError
from lakebed.limits import PLACE_BYTES_MAX
from lakebed.objects.external import ExternalAddresses
from lakebed.objects.settings import StoreSettings
from lakebed.testing.object_suite import keys_of

SETTINGS = StoreSettings(s3_access_key_id="id", s3_secret_access_key="secret")

Gate = Callable[..., ExternalAddresses]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where imports come from, and a secret beside it."""
    (tmp_path / "imp" / "sub").mkdir(parents=True)
    (tmp_path / "imp" / "file").write_bytes(b"content")
    (tmp_path / "imp" / "sub" / "file").write_bytes(b"below")
    (tmp_path / "import2").mkdir()
    (tmp_path / "import2" / "file").write_bytes(b"secret")
    (tmp_path / "secret").write_bytes(b"secret")
    return tmp_path


@pytest.fixture
async def gate(folder: Path) -> AsyncIterator[Gate]:
    gates = []

    def make(*, prefixes: Sequence[str] | None = None, namespaces: Sequence[str] = ()) -> ExternalAddresses:
        admitted = [f"local://{folder}/imp", "s3://bucket/imp"] if prefixes is None else prefixes
        gates.append(
            ExternalAddresses(import_prefixes=admitted, namespaces=lambda: namespaces, settings=SETTINGS)
        )
        return gates[-1]

    yield make
    for one in gates:
        await one.close()


async def refused(gate: ExternalAddresses, address: str) -> None:
    for call in (gate.check, gate.resolve):
        with pytest.raises(DeniedError) as raised:
            await call(address)
        assert raised.value.kind is ErrorKind.EXTERNAL_ADDRESS


async def test_without_prefixes_everything_is_refused(gate: Gate, folder: Path) -> None:
    nothing = gate(prefixes=[])

    for address in (f"local://{folder}/imp/file", "local:///etc/passwd", "s3://bucket/imp/x"):
        await refused(nothing, address)


async def test_a_file_under_a_prefix_is_read(gate: Gate, folder: Path) -> None:
    found = await gate().resolve(f"local://{folder}/imp/sub/file")

    assert (found.key, found.file) == ("sub/file", folder / "imp" / "sub" / "file")
    assert await found.store.get(found.key) == b"below"


async def test_a_folder_under_a_prefix_is_listed(gate: Gate, folder: Path) -> None:
    whole = await gate().resolve(f"local://{folder}/imp/")
    below = await gate().resolve(f"local://{folder}/imp/sub")

    assert (whole.key, whole.file) == ("", folder / "imp")
    assert await keys_of(whole.store, whole.key) == ["file", "sub/file"]
    assert await keys_of(below.store, below.key) == ["sub/file"]


async def test_what_is_missing_shows_when_it_is_read(gate: Gate, folder: Path) -> None:
    found = await gate().resolve(f"local://{folder}/imp/missing")

    with pytest.raises(NotFoundError):
        await found.store.get(found.key)


async def test_files_of_the_machine_are_refused_with_the_next_step(gate: Gate, folder: Path) -> None:
    await refused(gate(), "local:///etc/passwd")
    await refused(gate(), f"local://{folder}/secret")
    with pytest.raises(DeniedError, match="add one that covers it"):
        await gate().check("local:///etc/passwd")


async def test_a_prefix_admits_whole_names_only(gate: Gate, folder: Path) -> None:
    await refused(gate(), f"local://{folder}/import2/file")
    await refused(gate(), "s3://bucket/imp2/x")
    await refused(gate(), "s3://bucket/imp")  # as a prefix it would take in imp2 as well
    await refused(gate(), "s3://other/imp/x")


async def test_a_link_that_leads_out_is_refused(gate: Gate, folder: Path) -> None:
    (folder / "imp" / "passwd").symlink_to("/etc/passwd")
    (folder / "imp" / "out").symlink_to(folder)

    await refused(gate(), f"local://{folder}/imp/passwd")
    await refused(gate(), f"local://{folder}/imp/out/secret")
    await refused(gate(), f"local://{folder}/imp/out")


async def test_a_link_is_refused_in_a_folder_that_was_found_good_before(gate: Gate, folder: Path) -> None:
    guarded = gate()
    (folder / "imp" / "passwd").symlink_to("/etc/passwd")
    await guarded.check(f"local://{folder}/imp/file")

    await refused(guarded, f"local://{folder}/imp/passwd")


async def test_a_good_folder_is_resolved_once_for_all_its_files(
    gate: Gate, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "imp" / "link").symlink_to("sub")
    guarded, resolved = gate(), 0
    found = await guarded.check(f"local://{folder}/imp/link/first")
    realpath = os.path.realpath

    def counted(path: str) -> str:
        nonlocal resolved
        resolved += 1
        return realpath(path)

    monkeypatch.setattr(os.path, "realpath", counted)

    assert found == f"local://{folder}/imp/sub/first"
    assert await guarded.check(f"local://{folder}/imp/link/second") == f"local://{folder}/imp/sub/second"
    assert resolved == 0


async def test_a_link_in_a_good_folder_is_told_where_it_leads(gate: Gate, folder: Path) -> None:
    guarded = gate()
    (folder / "imp" / "link").symlink_to("sub/file")
    await guarded.check(f"local://{folder}/imp/file")

    assert await guarded.check(f"local://{folder}/imp/link") == f"local://{folder}/imp/sub/file"


async def test_a_good_folder_admits_no_name_that_is_too_long(gate: Gate, folder: Path) -> None:
    guarded = gate()
    await guarded.check(f"local://{folder}/imp/file")

    with pytest.raises(InvalidInputError):
        await guarded.check(f"local://{folder}/imp/{'a' * PLACE_BYTES_MAX}")


async def test_a_storage_below_a_good_folder_is_refused(gate: Gate, folder: Path) -> None:
    guarded = gate(namespaces=[f"local://{folder}/imp/sub"])
    await guarded.check(f"local://{folder}/imp/file")

    await refused(guarded, f"local://{folder}/imp/sub")
    await refused(guarded, f"local://{folder}/imp/sub/file")


async def test_a_link_that_stays_inside_is_resolved(gate: Gate, folder: Path) -> None:
    (folder / "imp" / "link").symlink_to("sub/file")

    found = await gate().resolve(f"local://{folder}/imp/link")

    assert found.key == "sub/file"
    assert await found.store.get(found.key) == b"below"


async def test_a_link_planted_between_check_and_read_is_not_followed(gate: Gate, folder: Path) -> None:
    found = await gate().resolve(f"local://{folder}/imp/sub/file")
    (folder / "imp" / "sub" / "file").unlink()
    (folder / "imp" / "sub" / "file").symlink_to("/etc/passwd")

    with pytest.raises(NotFoundError):
        await found.store.get(found.key)

    (folder / "imp" / "sub" / "file").unlink()
    (folder / "imp" / "sub").rmdir()
    (folder / "imp" / "sub").symlink_to(folder / "import2")

    with pytest.raises(NotFoundError):
        await found.store.get(found.key)


async def test_a_prefix_that_is_a_link_admits_what_it_leads_to(gate: Gate, folder: Path) -> None:
    (folder / "way").symlink_to(folder / "imp")
    through_link = gate(prefixes=[f"local://{folder}/way"])

    assert (await through_link.resolve(f"local://{folder}/imp/file")).key == "file"
    assert (await through_link.resolve(f"local://{folder}/way/file")).key == "file"


async def test_the_storage_of_a_repository_is_refused_from_any_side(gate: Gate, folder: Path) -> None:
    (folder / "imp" / "way").symlink_to(folder / "imp" / "sub")
    guarded = gate(namespaces=[f"local://{folder}/imp/sub", "s3://bucket/imp/repo"])

    await guarded.check(f"local://{folder}/imp/file")
    for address in ("imp/sub/file", "imp/sub", "imp/way/file", "imp"):
        await refused(guarded, f"local://{folder}/{address}")
    await guarded.check("s3://bucket/imp/other")
    for key in ("imp/repo/data/x", "imp/repo", "imp/", "imp/re"):
        await refused(guarded, f"s3://bucket/{key}")


async def test_repositories_are_asked_for_again_every_time(folder: Path) -> None:
    namespaces: list[str] = []
    guarded = ExternalAddresses(import_prefixes=[f"local://{folder}"], namespaces=lambda: list(namespaces))
    await guarded.check(f"local://{folder}/imp/sub/file")

    namespaces.append(f"local://{folder}/imp/sub")

    await refused(guarded, f"local://{folder}/imp/sub/file")


async def test_repositories_may_be_asked_for_asynchronously(folder: Path) -> None:
    async def namespaces() -> list[str]:
        return [f"local://{folder}/imp"]

    guarded = ExternalAddresses(import_prefixes=[f"local://{folder}"], namespaces=namespaces)

    await refused(guarded, f"local://{folder}/imp/file")


@pytest.mark.parametrize(
    "address",
    [
        "",
        "/etc/passwd",
        "file:///etc/passwd",
        "data/slice/object",
        "mem://x/y",
        "s3://bucket",
        "s3://bucket/",
        "local://",
        "local:///imp/../etc/passwd",
        "s3://bucket/imp/../x",
        "local:///imp/a\0b",
    ],
)
async def test_what_is_no_address_is_refused(gate: Gate, address: str) -> None:
    for call in (gate().check, gate().resolve):
        with pytest.raises(InvalidInputError) as raised:
            await call(address)
        assert raised.value.kind is ErrorKind.INVALID_ADDRESS


async def test_an_s3_key_is_taken_to_the_letter(gate: Gate) -> None:
    found = await gate().resolve("s3://bucket/imp/a b%2Fc/")

    assert (found.key, found.file) == ("imp/a b%2Fc/", None)
    await found.store.close()


async def test_nothing_outside_is_written_to(gate: Gate, folder: Path) -> None:
    found = await gate().resolve(f"local://{folder}/imp/file")

    with pytest.raises(DeniedError):
        await found.store.put("new", b"1")

    assert sorted(path.name for path in (folder / "imp").iterdir()) == ["file", "sub"]


def test_a_prefix_that_is_no_place_is_refused_at_once() -> None:
    with pytest.raises(InvalidInputError):
        ExternalAddresses(import_prefixes=["/data"], namespaces=lambda: ())


async def test_others_have_their_turn_while_many_addresses_are_resolved(gate: Gate, folder: Path) -> None:
    one, turns = gate(), 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    for number in range(20):
        await one.resolve(f"local://{folder}/imp/{'a/' * 1_900}{number}")
    resolved, turns = turns, 0
    for number in range(20):
        await one.check(f"local://{folder}/imp/{'a/' * 1_900}{number}")
    task.cancel()

    assert resolved >= 10
    assert turns >= 10
