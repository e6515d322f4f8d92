"""`Effective`: what every setting is, and where that was said.

A flag counts more than a variable, a variable more than the file, the file more than
the default. An empty variable counts as none, except for a list, where it means an
empty one: whoever starts a container can leave out a value but not its name.
"""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lakebed.errors import ErrorKind, InvalidInputError
from lakebed.server.own_address import is_own_address
from lakebed.server.settings import CONFIG_FILE_VARIABLE, SETTINGS, Setting, nearest_setting

FILE_NAME: Final = "lakebed.toml"
"""Read from the data folder when no other file is named."""

DEFAULT: Final = "default"
LOOPBACK: Final = "127.0.0.1"

_S3_ENDPOINT: Final = "storage.s3.endpoint"
_OWN: Final = ("listen", "s3.listen", "s3.domain")


@dataclass(frozen=True, slots=True)
class Given:
    """A value and where it comes from."""

    value: Any
    source: str


@dataclass(frozen=True, slots=True)
class Effective:
    """All settings, by name."""

    given: Mapping[str, Given]
    ignored: tuple[str, ...] = ()
    """Variables of other tools that are meant for clients of this server: they name the server itself."""

    def __getitem__(self, name: str) -> Any:
        return self.given[name].value


def effective(
    *, flags: Mapping[str, str | None], environment: Mapping[str, str], file: Path | None = None
) -> Effective:
    """Return what flags (by the names of their settings), variables and the file say.

    Raises:
        InvalidInputError: `INVALID_CONFIG`: a value means nothing, a name is unknown, the file cannot be read.
    """
    given = {**_from_environment(environment), **_from_flags(flags)}
    named = file or _named_in(environment)
    path = named or _found_in(given["data"].value if "data" in given else SETTINGS["data"].default)
    written = _from_file(path) if path else {}
    if named is None and "data" in written:
        raise _invalid(f"data cannot be set in {path}: that file was found by looking into the data folder")
    read = {**written, **given}
    others = _from_others(environment, read)
    ignored: tuple[str, ...] = ()
    if _names_itself(others.get(_S3_ENDPOINT), read):
        # All of them are: a key of this server opens no other.
        ignored = tuple(sorted(each.source for each in others.values()))
        others = {}
    elif _names_itself(read.get(_S3_ENDPOINT), read):
        raise _invalid(
            f"{_S3_ENDPOINT} (from {read[_S3_ENDPOINT].source}) is this server's own address: it would store into itself. "
            "Name the S3 server that holds the buckets"
        )
    read = {**others, **read}
    return Effective(
        {name: read.get(name) or Given(setting.default, DEFAULT) for name, setting in SETTINGS.items()},
        ignored,
    )


def listen_address(listen: str) -> tuple[str, int]:
    """Return the host and the port of HOST:PORT; no host means loopback."""
    host, _, port = listen.rpartition(":")
    return host.strip("[]") or LOOPBACK, int(port)


def _names_itself(endpoint: Given | None, read: Mapping[str, Given]) -> bool:
    if endpoint is None or not endpoint.value:
        return False
    given = {name: read[name].value if name in read else SETTINGS[name].default for name in _OWN}
    listening = [listen_address(given[name]) for name in ("listen", "s3.listen") if given[name]]
    return is_own_address(endpoint.value, listening, domain=given["s3.domain"])


def _from_flags(flags: Mapping[str, str | None]) -> dict[str, Given]:
    return {
        name: Given(_parsed(SETTINGS[name], text, SETTINGS[name].flag), SETTINGS[name].flag)
        for name, text in flags.items()
        if text is not None
    }


def _from_environment(environment: Mapping[str, str]) -> dict[str, Given]:
    found = {}
    for name, setting in SETTINGS.items():
        text = environment.get(setting.variable)
        if text is not None and (text or isinstance(setting.default, tuple)):
            found[name] = Given(_parsed(setting, text, setting.variable), setting.variable)
    return found


def _from_others(environment: Mapping[str, str], given: Mapping[str, Given]) -> dict[str, Given]:
    """Return what the variables of other tools say where ours say nothing."""
    found = {}
    for name, setting in SETTINGS.items():
        variable = next((each for each in setting.others if environment.get(each)), None)
        if variable is not None and setting.others_unless not in given:
            found[name] = Given(_parsed(setting, environment[variable], variable), variable)
    return found


def _named_in(environment: Mapping[str, str]) -> Path | None:
    named = environment.get(CONFIG_FILE_VARIABLE)
    return Path(named) if named else None


def _found_in(folder: Path) -> Path | None:
    path = folder / FILE_NAME
    return path if path.exists() else None


def _from_file(path: Path) -> dict[str, Given]:
    try:
        text = path.read_bytes().decode()
    except OSError as error:
        raise _invalid(f"the configuration file {path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise _invalid(f"the configuration file {path} is not UTF-8") from error
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _invalid(f"the configuration file {path} is not TOML: {error}") from error
    return dict(_leaves(document, path))


def _leaves(table: Mapping[str, Any], path: Path, *, above: str = "") -> Iterator[tuple[str, Given]]:
    for key, value in table.items():
        name = above + key
        setting = SETTINGS.get(name)
        if setting is not None:
            yield name, Given(_decoded(setting, value, path), str(path))
        elif isinstance(value, dict) and any(each.startswith(f"{name}.") for each in SETTINGS):
            yield from _leaves(value, path, above=f"{name}.")
        else:
            nearest = nearest_setting(name)
            hint = f": did you mean {nearest}?" if nearest else ""
            raise _invalid(f"{path}: there is no setting {name}{hint}")


def _decoded(setting: Setting, value: Any, path: Path) -> Any:
    try:
        found = setting.kind.of_toml(value)
    except ValueError as error:
        raise _invalid(
            f"{path}: {setting.name} is {_quoted(setting, value)}: it must be {setting.kind.words}"
        ) from error
    # A path in a file is meant from where the file is: the server may be started from anywhere.
    return path.absolute().parent / found if isinstance(found, Path) else found


def _parsed(setting: Setting, text: str, source: str) -> Any:
    try:
        return setting.kind.of_text(text)
    except ValueError as error:
        raise _invalid(f"{source} is {_quoted(setting, text)}: it must be {setting.kind.words}") from error


def _quoted(setting: Setting, value: Any) -> str:
    if setting.secret:
        return "not shown here"
    return str(value).lower() if isinstance(value, bool) else repr(value)


def _invalid(text: str) -> InvalidInputError:
    return InvalidInputError(ErrorKind.INVALID_CONFIG, text)
