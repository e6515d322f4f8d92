"""Where a client finds its server and its key pair."""

from pathlib import Path

import pytest

from lakebed.client.config import load_config
from lakebed.errors import InvalidInputError

OURS = {
    "LAKEBED_ENDPOINT": "http://ours",
    "LAKEBED_ACCESS_KEY_ID": "our-key",
    "LAKEBED_SECRET_ACCESS_KEY": "our-secret",
}
LAKECTL = {
    "LAKECTL_SERVER_ENDPOINT_URL": "http://theirs/api/v1",
    "LAKECTL_CREDENTIALS_ACCESS_KEY_ID": "their-key",
    "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": "their-secret",
}
FILE = """
server:
  endpoint_url: http://file:8000/api/v1/
credentials:
  access_key_id: file-key
  secret_access_key: file-secret
experimental: {local: {posix_permissions: {enabled: true}}}
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home folder with lakectl's file."""
    (tmp_path / ".lakectl.yaml").write_text(FILE)
    return tmp_path


def found(environment, *args):
    config = load_config(*args, environment=environment)
    return config.endpoint, config.access_key_id, config.secret_access_key


def test_arguments_come_before_ours_before_lakectls_before_its_file(home: Path) -> None:
    file = {"HOME": str(home)}

    assert found(file) == ("http://file:8000", "file-key", "file-secret")
    assert found(file | LAKECTL) == ("http://theirs", "their-key", "their-secret")
    assert found(file | LAKECTL | OURS) == ("http://ours", "our-key", "our-secret")
    assert found(file | OURS, "https://here/", "k", "s") == ("https://here", "k", "s")


def test_server_and_key_pair_may_come_from_different_places(home: Path) -> None:
    environment = {"HOME": str(home), "LAKEBED_ENDPOINT": "http://ours"}

    config = load_config(environment=environment)

    assert (config.endpoint, config.access_key_id) == ("http://ours", "file-key")
    assert config.endpoint_source == "LAKEBED_… variables"
    assert config.credentials_source == str(home / ".lakectl.yaml")


def test_halves_of_two_key_pairs_are_never_joined(home: Path) -> None:
    with pytest.raises(InvalidInputError, match="secret access key is missing in LAKEBED_"):
        load_config(environment={"HOME": str(home), "LAKEBED_ACCESS_KEY_ID": "our-key"})


def test_the_file_may_be_elsewhere(home: Path) -> None:
    environment = {"HOME": "/nowhere", "LAKECTL_CONFIG_FILE": str(home / ".lakectl.yaml")}

    assert found(environment)[0] == "http://file:8000"


@pytest.mark.parametrize("text", ["", "server:\ncredentials:\n", "metastore: {}\n"])
def test_a_file_that_says_nothing_is_no_error_but_nothing_is_configured(tmp_path: Path, text: str) -> None:
    (tmp_path / ".lakectl.yaml").write_text(text)

    with pytest.raises(InvalidInputError, match="set LAKEBED_ENDPOINT"):
        load_config(environment={"HOME": str(tmp_path)})


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    (tmp_path / ".lakectl.yaml").write_text("server: [")

    with pytest.raises(InvalidInputError, match=r"lakectl\.yaml"):
        load_config(environment={"HOME": str(tmp_path)})


def test_an_endpoint_without_a_scheme_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="must begin with http"):
        load_config("localhost:8000", "k", "s", environment={})


def test_a_printed_configuration_holds_no_secret() -> None:
    assert "our-secret" not in repr(load_config(environment=OURS))
