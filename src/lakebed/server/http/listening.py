"""Sockets that listen: bound once by the supervisor, so that a taken port is refused before anything starts.

Workers accept from the same sockets. A connection that nobody has accepted yet belongs to
all of them, so none is lost when a worker is replaced.
"""

import errno
import resource
import socket

from lakebed.errors import ErrorKind, InvalidInputError, UnavailableError
from lakebed.limits import HTTP_BACKLOG, HTTP_CONNECTIONS_MAX


def bound(host: str, port: int) -> socket.socket:
    """Return a socket that will listen there.

    Raises:
        UnavailableError: `IN_USE`: somebody listens there.
        InvalidInputError: `INVALID_CONFIG`: nobody can listen there.
    """
    listening = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    # Connections of a server that has just ended do not count.
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(HTTP_BACKLOG)
    except OSError as error:
        listening.close()
        raise _no_address(f"{host}:{port}", error) from error
    return listening


def connections_max() -> int:
    """Return how many connections this process can have: files need descriptors too."""
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return HTTP_CONNECTIONS_MAX if descriptors < 0 else min(HTTP_CONNECTIONS_MAX, descriptors // 2)


def _no_address(listen: str, error: OSError) -> UnavailableError | InvalidInputError:
    if error.errno == errno.EADDRINUSE:
        return UnavailableError(
            ErrorKind.IN_USE,
            f"somebody listens on {listen} already: stop them, or choose another port with --listen",
        )
    return InvalidInputError(
        ErrorKind.INVALID_CONFIG, f"--listen {listen} cannot be listened on: {error.strerror}"
    )
