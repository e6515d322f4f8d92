"""Signed requests to S3 over plain HTTP connections that are kept. Blocking; for worker threads.

For what obstore cannot say: keys that it would change or refuse, and multipart
uploads by their id. Nothing is retried here.
"""

import http.client
import select
import ssl
from collections.abc import Mapping
from dataclasses import dataclass

from lakebed.env.clock import Clock
from lakebed.errors import ErrorKind, UnavailableError
from lakebed.limits import S3_TIMEOUT_SECONDS
from lakebed.objects.s3.place import S3Place
from lakebed.objects.s3.signing import query_text, signed_headers


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer, read to its end."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def header(self, name: str) -> str:
        return self.headers.get(name.lower(), "")


class Sending:
    """A request whose body is sent in pieces. Write, then `finish`; `close` in any case."""

    def __init__(
        self, connection: http.client.HTTPConnection, free: list[http.client.HTTPConnection], endpoint: str
    ) -> None:
        self._connection = connection
        self._free = free
        self._endpoint = endpoint
        self._done = False

    def write(self, data: bytes) -> None:
        """Send more of the body."""
        try:
            self._connection.send(data)
        except (OSError, http.client.HTTPException) as error:
            raise _unanswered(self._endpoint, error, ErrorKind.OUTCOME_UNKNOWN) from error

    def finish(self) -> Reply:
        """Return the answer to a body that was sent whole."""
        try:
            reply = _read(self._connection)
        except (OSError, http.client.HTTPException) as error:
            raise _unanswered(self._endpoint, error, ErrorKind.OUTCOME_UNKNOWN) from error
        self._done = True
        self._free.append(self._connection)
        return reply

    def close(self) -> None:
        """Release the connection; before `finish`, the server gets no whole request."""
        if not self._done:
            self._connection.close()


class S3Requests:
    """Connections to one place, as many as there are threads that use them."""

    def __init__(self, place: S3Place, clock: Clock) -> None:
        self._place = place
        self._clock = clock
        self._tls = ssl.create_default_context() if place.is_encrypted else None
        self._free: list[http.client.HTTPConnection] = []

    def send(
        self,
        method: str,
        name: str = "",
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
    ) -> Reply:
        """Send a request for the object called `name` (the bucket if empty) and return the answer, whatever it is.

        Raises:
            UnavailableError: no answer; `OUTCOME_UNKNOWN` unless the request is a mere read.
        """
        path = self._place.path(name)
        signed = signed_headers(
            self._place,
            method,
            path,
            query=query or {},
            headers=headers or {},
            body=body,
            now=self._clock.now(),
        )
        target = f"{path}?{query_text(query)}" if query else path
        connection = self._take()
        try:
            connection.request(method, target, body=body or None, headers=signed)
            reply = _read(connection)
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            reading = method in {"GET", "HEAD"}
            kind = ErrorKind.STORE_UNAVAILABLE if reading else ErrorKind.OUTCOME_UNKNOWN
            raise _unanswered(self._place.endpoint, error, kind) from error
        self._free.append(connection)
        return reply

    def begin(self, method: str, name: str, *, query: Mapping[str, str], size_bytes: int) -> Sending:
        """Send the head of a request whose body follows in pieces.

        Raises:
            UnavailableError: `STORE_UNAVAILABLE`: it could not be sent.
        """
        path = self._place.path(name)
        signed = signed_headers(
            self._place, method, path, query=query, headers={}, body=None, now=self._clock.now()
        )
        connection = self._take()
        try:
            connection.putrequest(
                method, f"{path}?{query_text(query)}", skip_host=True, skip_accept_encoding=True
            )
            for header, value in (*signed.items(), ("content-length", str(size_bytes))):
                connection.putheader(header, value)
            connection.endheaders()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise _unanswered(self._place.endpoint, error, ErrorKind.STORE_UNAVAILABLE) from error
        return Sending(connection, self._free, self._place.endpoint)

    def close(self) -> None:
        """Close the connections that nobody uses."""
        while self._free:
            self._free.pop().close()

    def _take(self) -> http.client.HTTPConnection:
        while self._free:
            try:
                connection = self._free.pop()  # Atomic, so threads share the list without a lock.
            except IndexError:
                break
            if not _is_over(connection):
                return connection
            connection.close()
        host = self._place.host
        if self._tls is not None:
            return http.client.HTTPSConnection(host, timeout=S3_TIMEOUT_SECONDS, context=self._tls)
        return http.client.HTTPConnection(host, timeout=S3_TIMEOUT_SECONDS)


def _read(connection: http.client.HTTPConnection) -> Reply:
    answer = connection.getresponse()
    return Reply(answer.status, {key.lower(): value for key, value in answer.getheaders()}, answer.read())


def _unanswered(endpoint: str, error: Exception, kind: ErrorKind) -> UnavailableError:
    return UnavailableError(kind, f"{endpoint} did not answer: {error!r}")


def _is_over(connection: http.client.HTTPConnection) -> bool:
    """Return whether the server has hung up: between two answers it has nothing else to say."""
    if connection.sock is None:
        return False
    # Not `select.select`: it cannot look at descriptors above 1,023.
    poll = select.poll()
    poll.register(connection.sock, select.POLLIN)
    return bool(poll.poll(0))
