"""A Java for Spark: the first that is new enough, and a sentence where there is none."""

import subprocess
from pathlib import Path

import pytest

from lakebed.errors import InvalidInputError
from lakebed.spark import java
from lakebed.spark.java import find_java, packaged_home, shimmed


def a_java(folder: Path, version: str) -> Path:
    """Make a Java home that says it has a version."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2026-01-01' >&2\n")
    program.chmod(0o755)
    return folder


def test_java_home_counts_before_the_path(tmp_path: Path) -> None:
    home, other = a_java(tmp_path / "home", "21.0.1"), a_java(tmp_path / "other", "17.0.15")
    assert find_java({"JAVA_HOME": str(home), "PATH": str(other / "bin")}).home == home


@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.2"])
def test_one_that_is_too_old_is_passed_over(tmp_path: Path, version: str) -> None:
    old, new = a_java(tmp_path / "old", version), a_java(tmp_path / "new", "17")
    assert find_java({"JAVA_HOME": str(old), "PATH": str(new / "bin")}).home == new


def test_a_link_on_the_path_leads_to_its_home(tmp_path: Path) -> None:
    home = a_java(tmp_path / "jvm", "17.0.1")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(home / "bin" / "java")
    assert find_java({"PATH": str(tmp_path / "bin")}).home == home


def test_without_one_the_package_has_it(tmp_path: Path) -> None:
    found = find_java({"PATH": str(tmp_path)})
    assert found.needs_shim
    assert (found.home / "bin" / "java").exists()


def test_without_any_the_error_says_what_was_found_and_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(java, "packaged_home", lambda: None)
    old = a_java(tmp_path / "old", "11.0.2")
    with pytest.raises(InvalidInputError, match=r"JAVA_HOME is Java 11.*pip install 'lakebed\[spark\]'"):
        find_java({"JAVA_HOME": str(old), "PATH": str(tmp_path)})


def test_the_shim_drops_the_module_that_the_package_lacks_and_nothing_else(tmp_path: Path) -> None:
    program = tmp_path / "it's java" / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text('#!/bin/sh\nfor each; do echo "<$each>"; done\n')
    program.chmod(0o755)
    shim = shimmed(tmp_path / "it's java", tmp_path / "shim") / "bin" / "java"
    said = subprocess.run(
        [shim, "-Xmx1g", "--add-modules=jdk.incubator.vector", "a b", ""],
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout.split("\n") == ["<-Xmx1g>", "<a b>", "<>", ""]


def test_the_package_lacks_it(tmp_path: Path) -> None:
    home = packaged_home()
    assert home is not None
    asked = ["--add-modules=jdk.incubator.vector", "-version"]
    assert subprocess.run([home / "bin" / "java", *asked], capture_output=True, check=False).returncode
    subprocess.run(
        [shimmed(home, tmp_path / "shim") / "bin" / "java", *asked], capture_output=True, check=True
    )
