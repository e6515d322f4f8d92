"""`Tag`: a ref that never moves."""

from lakebed.client.ref import Ref
from lakebed.client.replies import RefInfo
from lakebed.client.transport import decode


class Tag(Ref):
    """One tag of one repository."""

    def info(self) -> RefInfo:
        """Return the tag and its commit."""
        return self._transport.get(RefInfo, "repositories", self.repo, "tags", self.name)

    def create(self, ref: Ref | str) -> RefInfo:
        """Name the commit of `ref`."""
        answer = self._transport.post(
            "repositories", self.repo, "tags", body={"id": self.name, "ref": str(ref)}
        )
        return decode(answer, RefInfo)

    def delete(self) -> None:
        """Delete the tag; its commit stays."""
        self._transport.delete("repositories", self.repo, "tags", self.name)
