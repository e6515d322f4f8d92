"""`open_session`: a Spark session, found or started, and what it made gone at the end.

    one is running        a notebook, a script of the user's: a session of our own on it, which leaves theirs as it was
    started by a launcher spark-submit, a cloud's job: the one that it is about to start
    neither               one of our own: on this machine, or as the driver of a cluster that `master` names

One of our own says nothing: what Spark writes goes to a file. Its files lie in one folder, which goes
with it, and so does its Java, so that another can be started after it, with other settings.
"""

import logging
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException, PySparkRuntimeError, PythonException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from lakebed.errors import ErrorKind, InvalidInputError, UnavailableError
from lakebed.spark.home import linked_home
from lakebed.spark.java import find_java, shimmed
from lakebed.spark.settings import cores_of, for_driver, for_one_machine, for_queries, is_one_machine
from lakebed.spark.shipping import ship

# Spark's launcher reads the environment of the process that calls it, and nothing else.
_ENVIRONMENT: Final = os.environ  # noqa: TID251  it configures another process
_LAUNCHED: Final = ("PYSPARK_GATEWAY_PORT", "SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED")
_HERE: Final = "local[*]"
# Tables come and go as Arrow; pandas only has to be there.
_PANDAS: Final = "PySpark does not yet fully support pandas"
_END_SECONDS: Final = 30
_LOG_LINES: Final = 12


@contextmanager
def open_session(
    app: str, *, master: str | None = None, conf: Mapping[str, str] | None = None, log: Path | None = None
) -> Iterator[SparkSession]:
    """Yield a session whose executors can import lakebed.

    `conf` counts more than our own settings. A session of our own writes what Spark has to say to `log`,
    or to a file that goes with it.

    Raises:
        InvalidInputError: `INVALID_CONFIG`: Spark cannot be started: no Java, a master that is none.
        UnavailableError: `SPARK_FAILED`: what the caller did with it failed in Spark.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=_PANDAS, category=FutureWarning)
        running = _running()
        if running is not None:
            spark = running if is_remote() else running.newSession()
            with _translated():
                ship(spark)
                _tune(spark, conf or {})
                yield spark
        elif SparkContext._gateway is not None or any(name in _ENVIRONMENT for name in _LAUNCHED):  # noqa: SLF001  nothing public tells
            with _launched(app, master, conf or {}) as spark:
                yield spark
        else:
            with _own(app, master or _HERE, conf or {}, log) as spark:
                yield spark


def _running() -> SparkSession | None:
    try:
        return SparkSession.active()
    except PySparkRuntimeError:
        return None


def _tune(spark: SparkSession, conf: Mapping[str, str]) -> None:
    """Set what can be set now, where nobody else has. What is remote has settings of its own."""
    wanted = dict(conf)
    if not is_remote():
        context = spark.sparkContext
        given = {name for name, _ in context.getConf().getAll()}
        ours = for_queries(context.defaultParallelism)
        wanted = {**{name: value for name, value in ours.items() if name not in given}, **wanted}
    for name, value in wanted.items():
        if spark.conf.isModifiable(name):
            spark.conf.set(name, value)


@contextmanager
def _launched(app: str, master: str | None, conf: Mapping[str, str]) -> Iterator[SparkSession]:
    builder = SparkSession.builder.appName(app).config(map=dict(conf))
    spark = (builder.master(master) if master else builder).getOrCreate()
    try:
        with _translated():
            ship(spark)
            _tune(spark, conf)
            yield spark
    finally:
        with suppress(Py4JError, ConnectionError):  # Its Java is gone, which whoever used it has been told.
            spark.stop()


@contextmanager
def _own(app: str, master: str, conf: Mapping[str, str], log: Path | None) -> Iterator[SparkSession]:
    with _quiet(), TemporaryDirectory(prefix="lakebed-spark-", ignore_cleanup_errors=True) as made:
        folder = Path(made)
        settings = SparkConf(loadDefaults=False).setMaster(master).setAppName(app)
        for name, value in {**_settings(master, folder), **conf}.items():
            settings.set(name, value)
        driver = _start(settings, _variables(master, folder), log or folder / "spark.log")
        try:
            spark = SparkSession(driver.context)
            with _translated():
                # Tasks of this process's own Java run what this process runs.
                if not master.startswith("local["):
                    ship(spark)
                yield spark
        finally:
            driver.stop()


@contextmanager
def _quiet() -> Iterator[None]:
    """That its Java is gone is told by what fails; how the connection to it ended helps nobody."""
    py4j, root = logging.getLogger("py4j"), logging.getLogger()
    before = py4j.level
    py4j.setLevel(logging.CRITICAL)
    root.addFilter(_is_of_others)
    try:
        yield
    finally:
        root.removeFilter(_is_of_others)
        py4j.setLevel(before)


def _is_of_others(record: logging.LogRecord) -> bool:
    """Tell what py4j says in nobody's name, as it does if an answer never comes, from what others say."""
    return "py4j" not in Path(record.pathname).parts


def _settings(master: str, folder: Path) -> dict[str, str]:
    if not is_one_machine(master):
        # How many cores there are is known when executors have come: the cluster's own number stands.
        queries = {
            name: value for name, value in for_queries(1).items() if name != "spark.sql.shuffle.partitions"
        }
        return {**queries, **for_driver()}
    for name in ("local", "sockets"):
        (folder / name).mkdir()
    return {**for_queries(cores_of(master)), **for_driver(), **for_one_machine(folder)}


def _variables(master: str, folder: Path) -> dict[str, str]:
    """Return what Spark's launcher is to find in its environment."""
    java = find_java(_ENVIRONMENT)
    found = {"JAVA_HOME": str(shimmed(java.home, folder / "java") if java.needs_shim else java.home)}
    if is_one_machine(master):
        found["SPARK_LOCAL_IP"] = "127.0.0.1"
        # Without it workers are whatever python3 is on the path, with none of our packages.
        found["PYSPARK_PYTHON"] = _ENVIRONMENT.get("PYSPARK_PYTHON", sys.executable)
    if "SPARK_HOME" not in _ENVIRONMENT:
        found["SPARK_HOME"] = str(linked_home(folder / "home"))
    return found


@dataclass(frozen=True, slots=True)
class _Driver:
    """A Java that runs for us, and the context in it."""

    gateway: Any
    context: SparkContext

    def stop(self) -> None:
        try:
            SparkSession(self.context).stop()
        except (Py4JError, ConnectionError):
            # It is gone already. PySpark finds that out, forgets it, and can then be told to stop.
            with suppress(Py4JError, ConnectionError):
                self.context.stop()
            self.context.stop()
            SparkSession._instantiatedSession = SparkSession._activeSession = None  # noqa: SLF001  nothing public does
        finally:
            _end(self.gateway)


def _start(settings: SparkConf, variables: Mapping[str, str], log: Path) -> _Driver:
    with log.open("ab") as out, _environment(variables):
        try:
            gateway = launch_gateway(settings, {"stdout": out, "stderr": out})  # type: ignore[no-untyped-call]  # it has no types
        except PySparkException as error:
            raise _not_started(log, str(error)) from error
        try:
            context = SparkContext(conf=settings, gateway=gateway)
        except Py4JError as error:
            _end(gateway)
            raise _not_started(log, _first_line(error)) from error
    return _Driver(gateway, context)


def _end(gateway: Any) -> None:
    """End a Java, and let PySpark forget it: it would try to use it again."""
    SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001  PySpark has no other way
    gateway.shutdown()
    # It ends when nobody can write to it any more.
    gateway.proc.stdin.close()
    try:
        gateway.proc.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        gateway.proc.kill()
        gateway.proc.wait()


def failure_of(error: PySparkException | Py4JError | ConnectionError) -> UnavailableError:
    """Return what failed in Spark as one line. Ask while its Java is there: without it errors are empty."""
    return UnavailableError(ErrorKind.SPARK_FAILED, f"a Spark job failed: {_said(error)}")


def _said(error: PySparkException | Py4JError | ConnectionError) -> str:
    if isinstance(error, Py4JNetworkError | ConnectionError):
        return "the driver's Java is gone (was it killed, or out of memory?)"
    # What Py4J says of an error in Java is that there was one.
    java = getattr(error, "java_exception", None)
    text = str(error if java is None else java.toString())
    lines = [line.strip() for line in text.splitlines() if line.strip()] or ["it does not say why"]
    # Of a Python function on an executor, the last line of the traceback says what happened.
    return lines[-1 if isinstance(error, PythonException) else 0]


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except (PySparkException, Py4JError, ConnectionError) as error:
        raise failure_of(error) from error


def _not_started(log: Path, why: str) -> InvalidInputError:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    # Where in Spark it happened helps nobody here.
    said = [line for line in lines if not line.startswith(("\tat ", "WARNING: "))][-_LOG_LINES:]
    return InvalidInputError(
        ErrorKind.INVALID_CONFIG, "\n  ".join([f"Spark did not start: {why}", *said]).rstrip()
    )


def _first_line(error: Py4JError) -> str:
    java = getattr(error, "java_exception", None)
    return str(java.toString() if java is not None else error).splitlines()[0]


@contextmanager
def _environment(changes: Mapping[str, str]) -> Iterator[None]:
    before = {name: _ENVIRONMENT.get(name) for name in changes}
    _ENVIRONMENT.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del _ENVIRONMENT[name]
            else:
                _ENVIRONMENT[name] = value
