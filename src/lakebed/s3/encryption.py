"""What a client asks about encryption: refused where it cannot be kept, never ignored.

Objects are encrypted as the store underneath does it. `AES256` asks for just that.
"""

from collections.abc import Mapping

from lakebed.s3.errors import Code, S3Error


def refuse_keys(headers: Mapping[str, str]) -> None:
    """Raise `S3Error` if a request brings, or names, a key to encrypt with."""
    for name in headers:
        if "server-side-encryption" not in name:
            continue
        if name != "x-amz-server-side-encryption" or headers[name] != "AES256":
            raise S3Error(
                Code.NOT_IMPLEMENTED,
                "Encryption with keys of the client or of a key service is not implemented: "
                "configure it in the storage underneath.",
                Header=name,
            )
