"""Files of an fsspec transaction: written now, uploaded when the transaction ends.

The files of one branch become one commit of it, or none of them appears: that is
what the word promises, and a branch can keep the promise.
"""

import io
from collections import defaultdict

from fsspec.transaction import Transaction

from lakebed.client.branch import Branch
from lakebed.client.uploads import UploadOptions
from lakebed.client.writer import ObjectWriter


class DeferredWriter(ObjectWriter):
    """A file that keeps what was written, after `close`, until it is told where that goes."""

    def __init__(self, branch: Branch, path: str, options: UploadOptions) -> None:
        super().__init__(path, lambda file: self.target.upload(path, file, options))
        self.branch = branch
        self.target = branch
        self.is_whole = False

    def close(self) -> None:
        """Keep what was written."""
        if not self.closed:
            self.is_whole = True
            io.BufferedIOBase.close(self)

    def upload_to(self, target: Branch) -> None:
        """Upload what was kept."""
        self.target = target
        self._spool.seek(0)
        self.info = self._upload(self._spool)

    def abort(self) -> None:
        self.is_whole = False
        super().abort()

    def discard(self) -> None:
        """Fsspec's word for `abort`."""
        self.abort()


class LakeTransaction(Transaction):  # type: ignore[misc]  # fsspec has no types
    """`with fs.transaction:`: all files of a branch in one commit."""

    def complete(self, commit: bool = True) -> None:  # noqa: FBT001, FBT002  fsspec's signature
        """Commit what was written, or forget it; either way the transaction is over."""
        whole: dict[str, list[DeferredWriter]] = defaultdict(list)
        for file in self.files if commit else ():
            if file.is_whole:
                whole[file.branch.uri()].append(file)
        try:
            for files in whole.values():
                with files[0].branch.transaction(self.fs.commit_message) as tx:
                    for file in files:
                        file.upload_to(tx)
        finally:
            super().complete(commit=False)
