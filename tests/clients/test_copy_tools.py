"""Tools that copy whole folders, in both directions: s5cmd and rclone."""

import re
from pathlib import Path

import pytest

from tests.clients.programs import go_program, run
from tests.s3.conftest import Endpoint

PAGE = (Path(__file__).parents[2] / "docs" / "s3.md").read_text(encoding="utf-8")
S5CMD_EXAMPLE = re.findall(r"^```bash clients\n(.*?)```", PAGE, re.MULTILINE | re.DOTALL)[0]
# Small and large ones, names that tools escape in ways of their own, and an empty file.
FILES = {
    "one.txt": b"one",
    "a b+c/d=e&f.txt": b"two",
    "ü☃/deep/er/x": b"three",
    "empty": b"",
    "large": bytes(range(256)) * 50_000,
}

pytestmark = [pytest.mark.server, pytest.mark.timeout(1500)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, content in FILES.items():
        file = tmp_path / "here" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    return tmp_path


def files_in(folder: Path) -> dict[str, bytes]:
    return {str(each.relative_to(folder)): each.read_bytes() for each in folder.rglob("*") if each.is_file()}


def test_s5cmd_copies_syncs_and_removes(endpoint: Endpoint, repo: str, folder: Path) -> None:
    go_program("github.com/peak/s5cmd/v2", "s5cmd")
    place = f"s3://{repo}/main/s5cmd tree"
    script = f"""
    s5cmd ls | grep -q s3://{repo}
    s5cmd cp here/ '{place}/'
    mkdir back && s5cmd cp '{place}/*' back/
    s5cmd mv '{place}/one.txt' '{place}/moved.txt'
    s5cmd sync --delete here/ '{place}/'
    s5cmd presign '{place}/one.txt'
    s5cmd du '{place}/*'
    s5cmd rm '{place}/*'
    s5cmd ls '{place}/*' || echo nothing left
    """

    printed = run(
        ["bash", "-e", "-c", script], endpoint, folder, environment={"S3_ENDPOINT_URL": endpoint.url}
    )

    assert files_in(folder / "back") == FILES
    assert f"{sum(map(len, FILES.values()))} bytes in {len(FILES)} objects" in printed
    assert "X-Amz-Signature=" in printed
    assert printed.splitlines()[-1] == "nothing left"


def test_the_example_of_s5cmd_does_what_it_says(endpoint: Endpoint, repo: str, tmp_path: Path) -> None:
    go_program("github.com/peak/s5cmd/v2", "s5cmd")
    code = S5CMD_EXAMPLE.replace("127.0.0.1:8000", endpoint.url.removeprefix("http://"))
    code = code.replace("s3://lake/", f"s3://{repo}/")

    assert run(["bash", "-e", "-c", code], endpoint, tmp_path).endswith("hello\n")


def test_rclone_syncs_to_a_branch_from_it_and_between_branches(
    endpoint: Endpoint, repo: str, folder: Path
) -> None:
    endpoint.rest("POST", f"/repositories/{repo}/branches", json={"name": "rclone", "source": "main"})
    remote = {
        "RCLONE_CONFIG": "",
        "RCLONE_CONFIG_LAKE_TYPE": "s3",
        "RCLONE_CONFIG_LAKE_PROVIDER": "Other",
        "RCLONE_CONFIG_LAKE_ENDPOINT": endpoint.url,
        "RCLONE_CONFIG_LAKE_ENV_AUTH": "true",
        "RCLONE_CONFIG_LAKE_REGION": "us-east-1",
        "RCLONE_S3_UPLOAD_CUTOFF": "6M",
        "RCLONE_S3_CHUNK_SIZE": "5M",
    }
    place, other = f"lake:{repo}/main/rclone tree", f"lake:{repo}/rclone/copy"
    script = f"""
    rclone sync here '{place}'
    rclone check --download here '{place}'
    rclone sync '{place}' back
    rclone check here back
    rclone sync '{place}' '{other}'
    rclone check '{place}' '{other}'
    echo four > here/four
    rm here/one.txt
    rclone sync here '{place}'
    rclone check here '{place}'
    rclone lsf -R --files-only '{place}' | sort
    echo streamed | rclone rcat '{other}/streamed'
    rclone moveto '{other}/streamed' '{other}/moved'
    rclone cat '{other}/moved'
    rclone md5sum '{other}/one.txt' 2> log || rclone md5sum '{other}' --include one.txt
    rclone purge '{other}'
    rclone lsf -R '{other}' 2> log || true
    """

    printed = run(["bash", "-e", "-c", script], endpoint, folder, environment=remote)

    assert files_in(folder / "back") == FILES
    *listed, streamed, summed = printed.splitlines()
    assert sorted(listed) == sorted([*(set(FILES) - {"one.txt"}), "four"])
    assert streamed == "streamed"
    assert summed.startswith("f97c5d29941bfb1b2fdab0874906ab82")
