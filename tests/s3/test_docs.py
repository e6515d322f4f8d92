"""Every example in docs/s3.md runs as it stands, against a real server."""

import os
import re
import subprocess
import sys
from pathlib import Path

import duckdb
import duckdb_extension_httpfs
import pytest

from tests.s3.conftest import Endpoint

PAGE = (Path(__file__).parents[2] / "docs" / "s3.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^## ([^\n]+)\n\n```(python|bash)\n(.*?)```", PAGE, re.MULTILINE | re.DOTALL)
SHOWS = {
    "boto3": "b'hello'\nmain/boto3/hello.txt 5\n",
    "The AWS command line": "awscli/hello.txt",
    "s3fs and pandas": "['lake/main/s3fs/hello.txt']\nb'hello'\n",
    "PyArrow": "{'number': [1, 2, 3]}\n",
    "DuckDB": "[(499500,)]",
    "Polars": "6",
    "rclone": "hello.txt",
}

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("s3")]


def test_every_client_has_an_example() -> None:
    assert {title for title, _, _ in BLOCKS} == set(SHOWS)


@pytest.mark.parametrize("example", BLOCKS, ids=[title for title, _, _ in BLOCKS])
def test_an_example_does_what_it_says(
    example: tuple[str, str, str], endpoint: Endpoint, repo: str, tmp_path: Path
) -> None:
    title, kind, code = example
    code = _of(repo, code.replace("127.0.0.1:8000", endpoint.url.removeprefix("http://")))
    # The extension comes with the tests, because they have no internet to download it from.
    code = code.replace("INSTALL httpfs", f"INSTALL '{_httpfs()}'")
    command = [sys.executable, "-c", code] if kind == "python" else ["bash", "-e", "-c", code]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=120,
        check=False,
        env={
            "PATH": f"{Path(sys.executable).parent}:{os.defpath}",
            "HOME": str(tmp_path),
            "AWS_EC2_METADATA_DISABLED": "true",
        },
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert _of(repo, SHOWS[title]) in done.stdout


def _of(repo: str, text: str) -> str:
    """Return an example with another repository."""
    return re.sub(r"\blake(?=[/\"])", repo, text)


def _httpfs() -> Path:
    folder = Path(duckdb_extension_httpfs.__file__).parent / "extensions" / f"v{duckdb.__version__}"
    return folder / "httpfs.duckdb_extension"
