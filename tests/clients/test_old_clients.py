"""Clients of years ago that still sign with version 2: the AWS CLI before 1.27, and Hadoop's s3a up to 3.3."""

from pathlib import Path

import pytest

from tests.clients.programs import java_command, python_tool, run
from tests.s3.conftest import Endpoint

# The last one that obeys `signature_version = s3`; later ones sign with version 4 whatever the file says.
AWS_CLI = (
    "awscli==1.22.101", "botocore==1.24.46", "s3transfer==0.5.2", "jmespath==1.0.1", "python-dateutil==2.9.0.post0",
    "six==1.17.0", "urllib3==1.26.20", "docutils==0.15.2", "colorama==0.4.3", "rsa==4.7.2", "pyasn1==0.6.1",
    "PyYAML==6.0.2",
)  # fmt: skip
JAVA_STEPS = 13

pytestmark = [pytest.mark.server, pytest.mark.timeout(1500)]


@pytest.fixture(scope="session")
def aws() -> str:
    return " ".join(python_tool("awscli", "awscli-1.22", AWS_CLI))


def test_the_aws_cli_with_signatures_of_version_2(
    aws: str, endpoint: Endpoint, repo: str, tmp_path: Path
) -> None:
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "config").write_text(
        "[default]\ns3 =\n    signature_version = s3\n    addressing_style = path\n", encoding="utf-8"
    )
    script = f"""
    aws() {{ {aws} --endpoint-url {endpoint.url} "$@"; }}
    echo hello > hello.txt
    head -c 9000000 /dev/urandom > large
    aws s3 cp hello.txt "s3://{repo}/main/cli/a b+c.txt" > log
    aws s3 cp large s3://{repo}/main/cli/large >> log
    aws s3 cp s3://{repo}/main/cli/large back >> log
    cmp large back
    aws s3 mv s3://{repo}/main/cli/large s3://{repo}/main/cli/moved >> log
    aws s3 ls --recursive s3://{repo}/main/cli/ | cut -c 32-
    aws s3 presign "s3://{repo}/main/cli/a b+c.txt"
    aws s3 rm --recursive s3://{repo}/main/cli/ >> log
    aws s3api list-objects --bucket {repo} --prefix main/cli/
    """

    printed = run(["bash", "-e", "-c", script], endpoint, tmp_path).splitlines()

    assert printed[:2] == ["main/cli/a b+c.txt", "main/cli/moved"]
    assert "AWSAccessKeyId=" in printed[2]
    assert len(printed) == 3


@pytest.mark.parametrize("signer", ["S3SignerType", "AWSS3V4SignerType"])
def test_the_sdk_of_old_hadoops(endpoint: Endpoint, repo: str, signer: str, tmp_path: Path) -> None:
    command = [*java_command("OldHadoop.java"), endpoint.url, repo, f"main/{signer}/", signer]

    assert run(command, endpoint, tmp_path).count("ok ") == JAVA_STEPS
