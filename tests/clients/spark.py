"""PySpark for tests: scripts run in a process of their own, with a Java, and jars that are kept.

Whatever is missing is an error: these tests are run by whoever wants to know whether Spark works.
"""

import os
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from lakebed.spark.java import find_java, shimmed

_CACHE = Path(__file__).parents[2] / ".cache" / "ivy"
# One machine's worth of Spark, and nothing that listens beyond it.
_DEFAULTS = f"""
spark.master                      local[2]
spark.ui.enabled                  false
spark.driver.host                 127.0.0.1
spark.driver.bindAddress          127.0.0.1
spark.driver.memory               1g
spark.sql.shuffle.partitions      2
spark.jars.ivy                    {_CACHE}
"""


@dataclass(frozen=True, slots=True)
class Spark:
    """Where Spark finds its Java and its defaults."""

    folder: Path
    java_home: Path

    def run(self, code: str) -> str:
        """Return what a script prints."""
        environment = {
            "PATH": f"{Path(sys.executable).parent}:{os.defpath}",
            "HOME": str(self.folder),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_CONF_DIR": str(self.folder / "conf"),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "JAVA_HOME": str(self.java_home),
        }
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            cwd=self.folder,
            timeout=900,
            check=False,
            env=environment,
        )
        assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-8000:]}"
        return done.stdout


def installed_spark(folder: Path) -> Spark:
    """Return a Spark that works in `folder`."""
    assert find_spec("pyspark"), "PySpark is not installed: run `make test-clients`, which installs it"
    _CACHE.mkdir(parents=True, exist_ok=True)
    (folder / "conf").mkdir()
    (folder / "conf" / "spark-defaults.conf").write_text(_DEFAULTS, encoding="utf-8")
    java = find_java({"PATH": os.defpath})
    return Spark(folder, shimmed(java.home, folder / "java") if java.needs_shim else java.home)
