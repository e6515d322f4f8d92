"""Where ranges and metaranges lie in a namespace.

A name carries the hash of the rows and the writer's own nonce (`format.tree_names`), so no name
is ever written twice with different content: a collector that has decided to delete an
unreferenced file can never meet one that was just written under its name.
"""

from lakebed.format.layout import METARANGES_FOLDER as METARANGES_FOLDER
from lakebed.format.layout import RANGES_FOLDER as RANGES_FOLDER
from lakebed.format.layout import TREE_FILE_ENDING as ENDING
from lakebed.model.ids import MetarangeId, RangeId


def range_key(name: RangeId) -> str:
    """Return the object key of a range."""
    return f"{RANGES_FOLDER}{name}{ENDING}"


def metarange_key(name: MetarangeId) -> str:
    """Return the object key of a metarange."""
    return f"{METARANGES_FOLDER}{name}{ENDING}"
