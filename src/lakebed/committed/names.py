"""Where ranges and metaranges lie in a namespace.

A name is `<hash>-<nonce>`. The nonce is the writer's own, so no name is ever
written twice with different content: a collector that has decided to delete an
unreferenced file can never meet one that was just written under its name.
"""

from lakebed.format.layout import HASH_DIGITS as HASH_DIGITS
from lakebed.format.layout import METARANGES_FOLDER as METARANGES_FOLDER
from lakebed.format.layout import RANGES_FOLDER as RANGES_FOLDER
from lakebed.format.layout import TREE_FILE_ENDING as ENDING
from lakebed.model.ids import MetarangeId, Nonce, RangeId


def range_key(name: RangeId) -> str:
    """Return the object key of a range."""
    return f"{RANGES_FOLDER}{name}{ENDING}"


def metarange_key(name: MetarangeId) -> str:
    """Return the object key of a metarange."""
    return f"{METARANGES_FOLDER}{name}{ENDING}"


def named(digest: str, nonce: Nonce) -> str:
    """Return the name of what hashes to `digest` and is written by `nonce`."""
    return f"{digest}-{nonce}"


def hash_of(name: str) -> str:
    """Return the hash that a name carries."""
    return name[:HASH_DIGITS]
