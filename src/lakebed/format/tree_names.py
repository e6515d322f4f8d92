"""Names of ranges and metaranges: their ids, which are their files without folder and ending. Pure.

    hash (28) | writer (36)                  64 hex digits

The hash is the beginning of the one over the rows. The writer says which operation wrote the file:

    sha256 of the nonce (36)                 of an operation
    sha256 of the incarnation (20) | token (16)
                                             of an attempt of compaction; tokens keep their order

So no name is written twice with different content, and a collector tells from a name whether its writer may
still refer to it. Files of earlier versions are called `<hash>-<nonce>`, with 64 digits of hash; an attempt's nonce
there is `<incarnation>-<token>`. They are read and collected as ever.
"""

import hashlib
import re
from typing import Final

NAME_DIGITS: Final = 64
HASH_DIGITS: Final = 28
WRITER_DIGITS: Final = NAME_DIGITS - HASH_DIGITS
OWNER_DIGITS: Final = 20
TOKEN_DIGITS: Final = WRITER_DIGITS - OWNER_DIGITS

OLD_HASH_DIGITS: Final = 64
OLD_ATTEMPT: Final = r"^(.*)-([0-9]{1,19})$"
"""The nonce of an attempt: the branch's incarnation, and the token."""

_ATTEMPT: Final = re.compile(OLD_ATTEMPT)


def tree_file_name(digest: str, nonce: str) -> str:
    """Return the name of what hashes to `digest` and is written by `nonce`."""
    return digest[:HASH_DIGITS] + writer_of(nonce)


def writer_of(nonce: str) -> str:
    """Return how the names of the files end that an operation or an attempt writes under its nonce."""
    attempt = _ATTEMPT.match(nonce)
    if attempt is None:
        return _digest(nonce)[:WRITER_DIGITS]
    return owner_of(attempt[1]) + token_text(int(attempt[2]))


def owner_of(incarnation: str) -> str:
    """Return how writers begin that are attempts for this creation of a branch."""
    return _digest(incarnation)[:OWNER_DIGITS]


def token_text(token: int) -> str:
    """Return an attempt's token as names have it: texts have the order of the numbers.

    >>> token_text(2**40 + 1)
    '0000010000000001'
    """
    return f"{token:0{TOKEN_DIGITS}x}"


def hash_of(name: str) -> str:
    """Return the hash that a name carries, or its beginning; "" for the empty tree.

    Names of tables in the cache begin like it, and go on with a dot.

    >>> hash_of(f"{'ab' * 32}"), hash_of(f"{'ab' * 32}-nonce") == 'ab' * 32
    ('abababababababababababababab', True)
    """
    digest, dash, _ = name.partition(".")[0].partition("-")
    return digest if dash else digest[:HASH_DIGITS]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
