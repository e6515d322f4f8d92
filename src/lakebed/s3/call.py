"""`Call`: one request, as a handler sees it."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

from lakebed.catalog.session import Session
from lakebed.env.clock import Clock
from lakebed.env.work import Workers
from lakebed.errors import ErrorKind, NotFoundError
from lakebed.http.held import Hold
from lakebed.http.reply import Receive
from lakebed.limits import S3_XML_BYTES_INLINE, S3_XML_BYTES_MAX
from lakebed.s3.errors import Code, S3Error
from lakebed.s3.request import Request
from lakebed.s3.signatures.body import Body, BodyPlan, plan_body
from lakebed.s3.signatures.gate import Admitted
from lakebed.s3.xml import Node, malformed, parse


@dataclass(slots=True)
class Call:
    """One request that has been let in."""

    request: Request
    session: Session
    """The use cases, with the permissions of whoever calls."""
    admitted: Admitted
    bucket: str
    key: str
    request_id: str
    region: str
    clock: Clock
    workers: Workers
    receive: Receive
    hold: Hold
    """What this request holds of its body."""

    @property
    def ref(self) -> str:
        """The first part of the key."""
        return self.key.partition("/")[0]

    @property
    def path(self) -> str:
        """The key behind the ref."""
        return self.key.partition("/")[2]

    def header(self, name: str) -> str:
        """Return a header, by its name in lower case; "" if it was not sent."""
        return self.request.headers.get(name, "")

    def readable(self) -> tuple[str, str]:
        """Return the ref and path to read from: a ref alone is no object.

        Raises:
            NotFoundError: `OBJECT_NOT_FOUND`.
        """
        ref, _, path = self.key.partition("/")
        if not path:
            raise NotFoundError(
                ErrorKind.OBJECT_NOT_FOUND,
                f"{self.key!r} is no object: keys are <branch, tag or commit>/<path>",
            )
        return ref, path

    def writable(self) -> tuple[str, str]:
        """Return the branch and path to write to.

        Raises:
            S3Error: the key has no path.
        """
        branch, _, path = self.key.partition("/")
        if not branch or not path:
            raise S3Error(
                Code.INVALID_REQUEST, f"{self.key!r} is no object: write to <branch>/<path>", Key=self.key
            )
        return branch, path

    def plan(self, *, checksums: bool = True) -> BodyPlan:
        """Return what the request announces about its body, which is not asked for yet."""
        return plan_body(self.request, self.admitted.verified, checksums=checksums)

    def body(self, plan: BodyPlan) -> Body:
        """Return the payload, which is checked while it is read."""
        return plan.open(self._chunks(), workers=self.workers)

    async def document(self, *, root: str, checksums: bool = True) -> Node:
        """Return the XML document that a client sends, checked; a large one is parsed off the event loop.

        Raises:
            S3Error: `MalformedXML`: it is too long, or as for `xml.parse`.
        """
        body = await self._small_body(checksums=checksums)
        if len(body) <= S3_XML_BYTES_INLINE:
            return parse(body, root=root)
        return await self.workers.run(parse, body, root=root)

    async def _small_body(self, *, checksums: bool) -> bytes:
        plan = self.plan(checksums=checksums)
        if plan.length is not None and plan.length > S3_XML_BYTES_MAX:
            raise malformed(f"A document has at most {S3_XML_BYTES_MAX} bytes.")
        parts: list[bytes] = []
        async for piece in self.body(plan):
            self.hold.take(len(piece))
            parts.append(piece)
            if self.hold.bytes > S3_XML_BYTES_MAX:
                raise malformed(f"A document has at most {S3_XML_BYTES_MAX} bytes.")
        return b"".join(parts)

    async def _chunks(self) -> AsyncIterator[bytes]:
        more = True
        while more:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise S3Error(Code.INCOMPLETE_BODY, "The request ended before its body did.")
            more = message.get("more_body", False)
            data = message.get("body")
            if data:
                yield data
