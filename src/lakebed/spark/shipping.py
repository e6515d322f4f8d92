"""How our own code reaches executors: as one archive, which they put before whatever they have installed.

So what runs there is what runs here, on clusters that know nothing of lakebed as on those that have
another version. Only our own modules travel: what they are built on (PyArrow, obstore, …) must be
installed there. The package's metadata goes with it, because drivers are found by entry points.
"""

import sys
from hashlib import sha256
from importlib.metadata import distribution
from pathlib import Path
from tempfile import mkdtemp
from typing import Final
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from pyspark import SparkFiles
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

_PACKAGE: Final = "lakebed"
_ROOT: Final = Path(__file__).parents[1]
# What only tests of drivers need.
_LEFT_OUT: Final = ("testing", "__pycache__")
_METADATA: Final = ("METADATA", "entry_points.txt")


def ship(spark: SparkSession) -> None:
    """Let the executors of a session import the lakebed that runs here. Twice is once."""
    if not _ROOT.is_dir():
        # It was imported from an archive: whoever gave that to this process gave it to executors too.
        return
    # An executor that starts later fetches it again: it must stay as long as Spark does, and then go.
    folder = mkdtemp(prefix="lakebed-") if is_remote() else SparkFiles.getRootDirectory()
    archive = pack(Path(folder) / "shipped")
    spark.addArtifacts(str(archive), pyfile=True)
    # PySpark put it on this process's path too, where the files that it was made of are.
    sys.path[:] = [each for each in sys.path if Path(each).name != archive.name]


def pack(folder: Path) -> Path:
    """Write the archive into `folder`, and return where it is: named for what is in it."""
    entries = {**_modules(), **_metadata()}
    digest = sha256()
    for name, content in entries.items():
        digest.update(b"%d %s %d " % (len(name), name.encode(), len(content)) + content)
    archive = folder / f"{_PACKAGE}-{digest.hexdigest()[:16]}.zip"
    if archive.exists():
        return archive
    folder.mkdir(parents=True, exist_ok=True)
    with ZipFile(archive, "w", ZIP_DEFLATED) as file:
        for name, content in entries.items():
            file.writestr(ZipInfo(name), content, ZIP_DEFLATED)
    return archive


def _modules() -> dict[str, bytes]:
    found = (path.relative_to(_ROOT) for path in sorted(_ROOT.rglob("*")) if path.is_file())
    return {
        f"{_PACKAGE}/{path.as_posix()}": (_ROOT / path).read_bytes()
        for path in found
        if not set(_LEFT_OUT) & set(path.parts)
    }


def _metadata() -> dict[str, bytes]:
    installed = distribution(_PACKAGE)
    folder = f"{_PACKAGE}-{installed.version}.dist-info"
    texts = {name: installed.read_text(name) for name in _METADATA}
    return {f"{folder}/{name}": text.encode() for name, text in texts.items() if text}
