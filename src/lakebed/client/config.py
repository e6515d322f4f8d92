"""Which server, and as whom: the only place of the client that reads the environment and files.

Ours come first, then those of `lakectl`, so that whoever has set up the other tool
needs to set up nothing here:

    arguments  >  LAKEBED_…  >  LAKECTL_…  >  ~/.lakectl.yaml

The two halves of a key pair always come from the same source: half of one and half
of another is a pair that nobody has.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from lakebed.errors import ErrorKind, InvalidInputError

_API_ROOT: Final = "/api/v1"
_ARGUMENTS: Final = "arguments"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """A server and a key pair, each with where it was found."""

    endpoint: str
    """Scheme, host and port, without the API's path and without a trailing slash."""
    access_key_id: str
    secret_access_key: str
    endpoint_source: str
    credentials_source: str

    def __repr__(self) -> str:
        # A configuration ends up in tracebacks and logs; the secret must not.
        return f"ClientConfig(endpoint={self.endpoint!r}, access_key_id={self.access_key_id!r})"


class _Server(msgspec.Struct):
    endpoint_url: str = ""


class _Credentials(msgspec.Struct):
    access_key_id: str = ""
    secret_access_key: str = ""


class _LakectlFile(msgspec.Struct):
    # A section without entries is null in YAML.
    server: _Server | None = None
    credentials: _Credentials | None = None


@dataclass(frozen=True, slots=True)
class _Source:
    name: str
    endpoint: str
    access_key_id: str
    secret_access_key: str


def load_config(
    endpoint: str | None = None,
    access_key_id: str | None = None,
    secret_access_key: str | None = None,
    *,
    environment: Mapping[str, str] | None = None,
) -> ClientConfig:
    """Return what to connect to, from the arguments, the environment or lakectl's file.

    Raises:
        InvalidInputError: `INVALID_CONFIG`: no server or no key pair was found, or half a pair.
    """
    if environment is None:
        environment = os.environ  # noqa: TID251  the configuration of a client
    given = _Source(_ARGUMENTS, endpoint or "", access_key_id or "", secret_access_key or "")
    sources = [given, *_from_environment(environment), _from_file(environment)]
    server = next((each for each in sources if each.endpoint), None)
    if server is None:
        raise InvalidInputError(
            ErrorKind.INVALID_CONFIG,
            "no server is configured: set LAKEBED_ENDPOINT (as http://127.0.0.1:8000), "
            "or start one with `lakebed run --quickstart`",
        )
    pair = next((each for each in sources if each.access_key_id or each.secret_access_key), None)
    if pair is None:
        raise InvalidInputError(
            ErrorKind.INVALID_CONFIG,
            "no access key is configured: set LAKEBED_ACCESS_KEY_ID and LAKEBED_SECRET_ACCESS_KEY",
        )
    if not pair.access_key_id or not pair.secret_access_key:
        missing = "secret access key" if pair.access_key_id else "access key id"
        raise InvalidInputError(ErrorKind.INVALID_CONFIG, f"the {missing} is missing in {pair.name}")
    return ClientConfig(
        endpoint=_parse_endpoint(server.endpoint, server.name),
        access_key_id=pair.access_key_id,
        secret_access_key=pair.secret_access_key,
        endpoint_source=server.name,
        credentials_source=pair.name,
    )


def _from_environment(environment: Mapping[str, str]) -> list[_Source]:
    return [
        _Source(
            "LAKEBED_… variables",
            environment.get("LAKEBED_ENDPOINT", ""),
            environment.get("LAKEBED_ACCESS_KEY_ID", ""),
            environment.get("LAKEBED_SECRET_ACCESS_KEY", ""),
        ),
        _Source(
            "LAKECTL_… variables",
            environment.get("LAKECTL_SERVER_ENDPOINT_URL", ""),
            environment.get("LAKECTL_CREDENTIALS_ACCESS_KEY_ID", ""),
            environment.get("LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY", ""),
        ),
    ]


def _from_file(environment: Mapping[str, str]) -> _Source:
    named = environment.get("LAKECTL_CONFIG_FILE") or f"{environment.get('HOME', '~')}/.lakectl.yaml"
    path = Path(named).expanduser()
    try:
        data = path.read_bytes()
    except OSError:
        return _Source(str(path), "", "", "")
    try:
        found = msgspec.yaml.decode(data, type=_LakectlFile | None) or _LakectlFile()
    except msgspec.DecodeError as error:
        raise InvalidInputError(ErrorKind.INVALID_CONFIG, f"{path} cannot be read: {error}") from error
    server, pair = found.server or _Server(), found.credentials or _Credentials()
    return _Source(str(path), server.endpoint_url, pair.access_key_id, pair.secret_access_key)


def _parse_endpoint(text: str, source: str) -> str:
    endpoint = text.strip().rstrip("/").removesuffix(_API_ROOT).rstrip("/")
    if not endpoint.startswith(("http://", "https://")):
        raise InvalidInputError(
            ErrorKind.INVALID_CONFIG, f"endpoint {text!r} from {source} must begin with http:// or https://"
        )
    return endpoint
