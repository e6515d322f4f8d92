"""`Tls`: the certificate that the server shows, and its key."""

import ssl
from dataclasses import dataclass
from pathlib import Path

from lakebed.errors import ErrorKind, InvalidInputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """Two PEM files that belong together."""

    cert: Path
    key: Path

    def check(self) -> None:
        """Look at the files before anything starts, so that what is wrong is said once and not by each worker.

        Raises:
            InvalidInputError: `INVALID_CONFIG`: a file is missing, not PEM, encrypted, or of another pair.
        """
        for name, path in (("tls.cert", self.cert), ("tls.key", self.key)):
            try:
                path.read_bytes()
            except OSError as error:
                raise _invalid(f"{name}: {path} cannot be read: {error.strerror}") from error
        try:
            self.context()
        except ssl.SSLError as error:
            reason = "they do not belong together" if "MISMATCH" in str(error.reason) else "one is not PEM"
            raise _invalid(f"{self.cert} and {self.key} are no certificate and its key: {reason}") from error

    def context(self) -> ssl.SSLContext:
        """Return what a server needs to speak TLS."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        # Java 8, which many Hadoop clients run on, may know nothing newer.
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self.cert, self.key, password=_refused)
        return context


def _refused() -> str:
    raise _invalid("tls.key is encrypted: nobody is there to type its password, so decrypt it first")


def _invalid(text: str) -> InvalidInputError:
    return InvalidInputError(ErrorKind.INVALID_CONFIG, text)
