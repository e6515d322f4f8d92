"""The id of a commit: sha256 over everything that makes it this commit, in hex.

    "lakebed-commit-1" | committer | message | tree hash | date | metadata | parents | nonce

A text is its length in bytes (u32) and its UTF-8; the date is an i64; metadata is
the number of pairs (u32) and then key, value, ... in the order of the keys' bytes;
parents are their number (u32) and then each id as a text, in their order. All
numbers are big-endian. Every part carries its length, so no two commits share an
encoding.

Of the tree only the hash counts, as its id carries it, not the writer: the hash
says what the tree holds. The attempt's nonce makes two attempts two commits, even
in the same second with the same message, so that an operation can find out
whether it was its own commit that became HEAD.
"""

import hashlib
import struct
from collections.abc import Mapping, Sequence

from lakebed.format.tree_names import hash_of
from lakebed.model.ids import CommitId, MetarangeId, Nonce

_MAGIC = "lakebed-commit-1"
_U32 = struct.Struct(">I")
_I64 = struct.Struct(">q")


def commit_id(
    *,
    committer: str,
    message: str,
    tree: MetarangeId,
    date: int,
    metadata: Mapping[str, str],
    parents: Sequence[CommitId],
    nonce: Nonce,
) -> CommitId:
    """Return the id of the commit with these fields."""
    parts = [_text(_MAGIC), _text(committer), _text(message), _text(hash_of(tree)), _I64.pack(date)]
    pairs = sorted((key.encode(), key, value) for key, value in metadata.items())
    parts.append(_U32.pack(len(pairs)))
    parts.extend(_text(key) + _text(value) for _, key, value in pairs)
    parts.append(_U32.pack(len(parents)))
    parts.extend(map(_text, parents))
    parts.append(_text(nonce))
    return CommitId(hashlib.sha256(b"".join(parts)).hexdigest())


def _text(text: str) -> bytes:
    data = text.encode()
    return _U32.pack(len(data)) + data
