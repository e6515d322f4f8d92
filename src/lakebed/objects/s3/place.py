"""`S3Place`: a bucket, a prefix in it, and who asks."""

from dataclasses import dataclass, field
from urllib.parse import quote, urlsplit

from lakebed.errors import ErrorKind, InvalidInputError


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Credentials:
    """An access key. The secret never shows in a log or a traceback."""

    access_key_id: str
    secret_access_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Place:
    """Where a store lies. `endpoint` has no path; `prefix` has no slash at its ends."""

    bucket: str
    prefix: str
    endpoint: str
    region: str
    path_style: bool
    credentials: S3Credentials

    def __post_init__(self) -> None:
        parts = urlsplit(self.endpoint)
        if parts.scheme not in {"http", "https"} or not parts.netloc or parts.path.strip("/"):
            raise InvalidInputError(
                ErrorKind.INVALID_CONFIG,
                f"S3 endpoint {self.endpoint!r} must look like https://host or http://host:port",
            )

    @property
    def is_encrypted(self) -> bool:
        """Whether requests go over TLS."""
        return urlsplit(self.endpoint).scheme == "https"

    @property
    def host(self) -> str:
        """The host (and port) that requests go to."""
        netloc = urlsplit(self.endpoint).netloc
        return netloc if self.path_style else f"{self.bucket}.{netloc}"

    def name(self, key: str) -> str:
        """Return the whole name of `key` in the bucket."""
        return f"{self.prefix}/{key}" if self.prefix else key

    def source(self, name: str) -> str:
        """Return an object's whole name as the source of a copy."""
        return f"/{self.bucket}/{quote(name, safe='/-._~')}"

    def path(self, name: str) -> str:
        """Return the path of a URL for an object's whole name, or for the bucket if it is empty.

        Every byte that could mean something is escaped, and slashes stay as they
        are: S3 signs the path as it is sent, and does not tidy it.
        """
        bucket = f"/{self.bucket}" if self.path_style else ""
        return f"{bucket}/{quote(name, safe='/-._~')}"
