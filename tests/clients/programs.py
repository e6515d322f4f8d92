"""Clients that tests install: programs in Go and Java, and old Python tools. All is pinned, and kept in `.cache`.

Where a tool or its registry is missing, the tests are skipped, and say why. A program that does not compile is an error.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.s3.conftest import Endpoint

_HERE = Path(__file__).parent
_CACHE = _HERE.parents[1] / ".cache"
_INSTALL_SECONDS = 1200
_RUN_SECONDS = 330


def go_program(package: str, name: str) -> Path:
    """Return the program that a package of the module in `go/` makes; its go.sum pins every module."""
    require_tool("go")
    program = _CACHE / "go" / "bin" / name
    places = (f"GOMODCACHE={_CACHE / 'go' / 'mod'}", f"GOCACHE={_CACHE / 'go' / 'build'}")
    build = ("go", "build", "-buildvcs=false", "-modcacherw", "-o", str(program), package)
    install(["env", *places, *build], folder=_HERE / "go", what=package, mistakes=(".go:", "go.sum entry"))
    return program


def java_command(source: str) -> list[str]:
    """Return the command that runs a program of `java/`, with the jars that its pom.xml names."""
    require_tool("mvn")
    require_tool("java")
    jars = _CACHE / "jars"
    install(
        [
            *("mvn", "-q", "-B", f"-Dmaven.repo.local={_CACHE / 'maven'}"),
            *("dependency:copy-dependencies", f"-DoutputDirectory={jars}"),
        ],
        folder=_HERE / "java",
        what="the jars of java/pom.xml",
    )
    return ["java", "-cp", f"{jars}/*", str(_HERE / "java" / source)]


def python_tool(module: str, name: str, requirements: Sequence[str]) -> list[str]:
    """Return the command that runs a Python tool, which is kept apart from the packages of these tests."""
    folder = _CACHE / name
    if not (folder / ".installed").exists():
        pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", "install", "--no-deps")
        install([*pip, "--upgrade", "--target", str(folder), *requirements], folder=_HERE, what=name)
        (folder / ".installed").touch()
    return ["env", f"PYTHONPATH={folder}", sys.executable, "-m", module]


def run(
    command: Sequence[str], endpoint: Endpoint, folder: Path, *, environment: Mapping[str, str] | None = None
) -> str:
    """Return what a command prints that succeeds. It finds the key of the server in the variables of Amazon's tools."""
    done = subprocess.run(
        list(command),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=_RUN_SECONDS,
        check=False,
        env={
            "PATH": f"{Path(sys.executable).parent}:{_CACHE / 'go' / 'bin'}:{os.defpath}",
            "HOME": str(folder),
            "AWS_ACCESS_KEY_ID": endpoint.process.access_key,
            "AWS_SECRET_ACCESS_KEY": endpoint.process.secret_key,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
            **(environment or {}),
        },
    )
    assert done.returncode == 0, f"{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout


def require_tool(name: str) -> None:
    """Skip the test where a tool is missing."""
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed: the clients that need it are not tested")


def install(command: Sequence[str], *, folder: Path, what: str, mistakes: Sequence[str] = ()) -> None:
    """Run a command that installs; skip the test if it fails for another reason than one of `mistakes`."""
    done = subprocess.run(
        list(command), cwd=folder, capture_output=True, text=True, timeout=_INSTALL_SECONDS, check=False
    )
    if not done.returncode:
        return
    said = (done.stdout + done.stderr)[-3000:]
    if any(mistake in said for mistake in mistakes):
        pytest.fail(said)
    pytest.skip(f"{what} cannot be installed here: {said[-500:]}")
