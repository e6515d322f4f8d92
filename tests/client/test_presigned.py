"""Objects that go to the storage and come from it without passing the server, which is real, as is the S3 server."""

import hashlib
import io
import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakebed.client.branch import Branch
from lakebed.client.client import Client
from lakebed.client.repo import Repo
from lakebed.client.transfers import Done, download_folder, upload_folder
from lakebed.client.uploads import UploadOptions
from lakebed.errors import ConflictError, ErrorKind, InvalidInputError, PreconditionError
from lakebed.objects.settings import StoreSettings
from lakebed.testing.server_process import ServerProcess
from tests.api.conftest import s3_backed as s3_backed
from tests.api.conftest import s3_settings as s3_settings

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("client-presigned")]


@pytest.fixture(scope="module")
def main(s3_backed: ServerProcess) -> Iterator[Branch]:
    """The default branch of a repository on the S3 server."""
    with Client(s3_backed.endpoint, s3_backed.access_key, s3_backed.secret_key) as client:
        client.repo("signed").create("s3://lake/signed")
        yield client.repo("signed").branch("main")


def test_a_file_goes_up_and_down_straight_to_the_storage(main: Branch, tmp_path: Path) -> None:
    (tmp_path / "up.csv").write_bytes(b"x" * 100_000)
    counts: list[int] = []

    options = UploadOptions(metadata={"By": "me"})
    info = main.upload_presigned("direct.csv", tmp_path / "up.csv", options, on_bytes=counts.append)
    main.download("direct.csv", tmp_path / "down.csv", presigned=True)

    assert (tmp_path / "down.csv").read_bytes() == b"x" * 100_000
    assert sum(counts) == 100_000
    assert (info.checksum, info.content_type) == (hashlib.md5(b"x" * 100_000).hexdigest(), "text/csv")
    assert main.stat("direct.csv").metadata == {"By": "me"}


def test_folders_go_up_and_down_straight_to_the_storage(main: Branch, tmp_path: Path) -> None:
    (tmp_path / "from").mkdir()
    for i in range(10):
        (tmp_path / "from" / f"{i}").write_text(f"{i}")

    up = [list(upload_folder(tmp_path / "from", main, "many/", presigned=True)) for _ in range(2)]
    list(download_folder(main, "many/", tmp_path / "to", presigned=True))

    assert [[each.done for each in outcomes] for outcomes in up] == [[Done.COPIED] * 10, [Done.SKIPPED] * 10]
    assert {file.name: file.read_text() for file in (tmp_path / "to").iterdir()} == {
        f"{i}": f"{i}" for i in range(10)
    }


def test_a_signed_object_is_a_file_that_seeks(main: Branch) -> None:
    main.write("seek", b"0123456789")

    with main.open("seek", presigned=True) as file:
        file.seek(7)
        assert file.read() == b"789"


def test_a_signed_reader_never_mixes_two_versions(main: Branch) -> None:
    main.write("mixed", b"old content")
    raw = main.reader(main.stat("mixed"), presigned=True).raw
    assert raw.read(3) == b"old"

    main.write("mixed", b"new content")

    with pytest.raises(ConflictError):
        raw.read(3)


def test_a_url_lets_anyone_read_one_object(main: Branch) -> None:
    main.write("shared", b"for you")

    signed = main.presign("shared")

    assert signed.physical_address_expiry is not None
    with urllib.request.urlopen(signed.physical_address, timeout=60) as answer:
        assert answer.read() == b"for you"


def test_a_condition_counts_for_what_is_linked(main: Branch) -> None:
    main.write("taken", b"first")

    with pytest.raises(PreconditionError):
        main.upload_presigned("taken", io.BytesIO(b"second"), UploadOptions(if_absent=True))

    assert main.read("taken") == b"first"


@pytest.mark.usefixtures("server")
def test_a_storage_that_cannot_sign_says_so(repo: Repo) -> None:
    with pytest.raises(InvalidInputError):
        repo.branch("main").upload_presigned("x", io.BytesIO(b"x"))


def test_an_address_is_linked_once_and_to_its_own_path(repo: Repo, server: ServerProcess) -> None:
    main = repo.branch("main")
    location = main.new_address("linked")
    file = server.folder / "data" / "objects" / location.physical_address.removeprefix("local://")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"bytes")
    facts = {"checksum": hashlib.md5(b"bytes").hexdigest(), "size_bytes": 5}

    with pytest.raises(InvalidInputError) as refused:
        main.link("elsewhere", location.physical_address, **facts)
    info = main.link("linked", location.physical_address, **facts)

    assert refused.value.kind is ErrorKind.LINK_REFUSED
    assert main.read("linked") == b"bytes"
    assert main.link("linked", location.physical_address, **facts) == info


def test_a_repository_on_s3_is_verified(
    main: Branch, s3_backed: ServerProcess, s3_settings: StoreSettings
) -> None:
    main.write("verified/a", b"a")
    main.commit("Verified")
    environment = {
        "LAKEBED_STORAGE_S3_ENDPOINT": s3_settings.s3_endpoint or "",
        "LAKEBED_STORAGE_S3_ACCESS_KEY_ID": s3_settings.s3_access_key_id or "",
        "LAKEBED_STORAGE_S3_SECRET_ACCESS_KEY": s3_settings.s3_secret_access_key or "",
    }
    command = [str(Path(sys.executable).parent / "lakebed"), "verify", "signed", "--data", "--json"]

    said = subprocess.run(
        [*command, "--data-dir", str(s3_backed.folder / "data")],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    report = json.loads(said.stdout)
    assert (said.returncode, report["findings"]) == (0, [])
    assert report["verified"]["read_bytes"] > 0
