"""`StoreSettings`: what an installation knows about its storage, apart from the URLs."""

from dataclasses import dataclass, field
from pathlib import Path

from lakebed.errors import ErrorKind, InvalidInputError
from lakebed.objects.places import Places
from lakebed.objects.s3.place import S3Credentials, S3Place


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSettings:
    """Settings with their defaults."""

    data_dir: Path | None = None
    """Where `local://name` lies."""
    local_roots: tuple[Path, ...] = ()
    """Folders in which repositories may lie at `local:///absolute`."""
    private: Path | None = None
    """The data folder, of which nothing but `data_dir` is for repositories, and nothing for imports."""
    fsync: bool = True
    """Whether local puts survive a power cut. Without it they are fast and merely survive a crash."""
    s3_endpoint: str | None = None
    """`http://host:port` of an S3 server; None means AWS."""
    s3_region: str = "us-east-1"
    s3_access_key_id: str | None = None
    s3_secret_access_key: str | None = field(default=None, repr=False)
    s3_session_token: str | None = field(default=None, repr=False)
    s3_path_style: bool | None = None
    """Bucket in the path instead of the host name; None means: with an endpoint of one's own."""

    @property
    def places(self) -> Places:
        """Which places may be used."""
        return Places(objects=self.data_dir, roots=self.local_roots, private=self.private)

    def s3_place(self, bucket: str, prefix: str) -> S3Place:
        """Return the place of a bucket and prefix.

        Raises:
            InvalidInputError: `INVALID_CONFIG`: there is no access key.
        """
        if not self.s3_access_key_id or not self.s3_secret_access_key:
            raise InvalidInputError(
                ErrorKind.INVALID_CONFIG,
                "s3:// needs an access key: configure one, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
            )
        return S3Place(
            bucket=bucket,
            prefix=prefix,
            endpoint=self.s3_endpoint or f"https://s3.{self.s3_region}.amazonaws.com",
            region=self.s3_region,
            path_style=self.s3_endpoint is not None if self.s3_path_style is None else self.s3_path_style,
            credentials=S3Credentials(
                access_key_id=self.s3_access_key_id,
                secret_access_key=self.s3_secret_access_key,
                session_token=self.s3_session_token,
            ),
        )
