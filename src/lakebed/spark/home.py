"""A Spark home of our own, made of links: a cluster on one machine writes into its home.

PySpark's home is where pip put it, which may be read-only, and where its executors' files would stay.
"""

from importlib.util import find_spec
from pathlib import Path


def linked_home(folder: Path) -> Path:
    """Make `folder` a Spark home with everything that the installed PySpark has."""
    package = find_spec("pyspark")
    assert package is not None, "whoever asks has imported it"
    assert package.origin is not None, "PySpark is a package"
    folder.mkdir(parents=True)
    for each in Path(package.origin).parent.iterdir():
        (folder / each.name).symlink_to(each)
    return folder
