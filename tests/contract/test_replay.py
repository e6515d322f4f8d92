"""The recorded exchanges of the reference, replayed: every answer is equal, or differs by design."""

from urllib.parse import urlsplit

import httpx
import pytest

from lakebed.testing.server_process import ServerProcess
from tests.contract.by_design import differing_places, expected_places
from tests.contract.exchanges import RECORDINGS, read_recording
from tests.contract.replaying import replay

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("contract")]


def _names(pattern: str) -> list[str]:
    return sorted(path.stem for path in RECORDINGS.glob(pattern))


_ON_S3 = _names("s3-*.jsonl")
_ALONE = "lakectl-auth"
"""It takes a policy away from the administrators' group: where users have permissions, what follows is refused."""
_ON_FILES = sorted(set(_names("*.jsonl")) - set(_ON_S3) - {_ALONE})


@pytest.mark.parametrize("name", _ON_FILES)
def test_on_local_files(name: str, on_files: ServerProcess) -> None:
    _require_the_recorded_answers(name, on_files)


@pytest.mark.parametrize("name", _ON_S3)
def test_on_s3(name: str, on_s3: ServerProcess) -> None:
    _require_the_recorded_answers(name, on_s3)


def test_on_a_server_alone(alone: ServerProcess) -> None:
    _require_the_recorded_answers(_ALONE, alone)


def test_every_entry_of_the_table_names_a_recorded_step() -> None:
    recorded = {
        (exchange.scenario, exchange.step)
        for path in RECORDINGS.glob("*.jsonl")
        for exchange in read_recording(path)
    }
    assert {(place.scenario, place.step) for place in expected_places()} <= recorded


def _require_the_recorded_answers(name: str, server: ServerProcess) -> None:
    known = {
        "KEY": server.access_key,
        "SECRET": server.secret_key,
        "PORT": str(urlsplit(server.endpoint).port),
        "IMPORTDIR": str(server.imports),
    }
    key = (server.access_key, server.secret_key)
    left = httpx.get(f"{server.endpoint}/api/v1/repositories", auth=key, timeout=60).json()["results"]
    assert not left, "the recording before this one left repositories"
    replayed = list(replay(RECORDINGS / f"{name}.jsonl", server.endpoint, known))
    scenarios = {each.exchange.scenario for each in replayed}
    differing = differing_places(replayed)
    by_design = {place for place in expected_places() if place.scenario in scenarios}

    unexpected = [
        f"{place}: {text}" for place, texts in differing.items() for text in texts if place not in by_design
    ]
    settled = [
        f"{place}: no longer differs, remove it from by_design.toml" for place in by_design - set(differing)
    ]
    assert not unexpected + settled, "\n".join(
        [f"{len(unexpected)} + {len(settled)}", *unexpected, *sorted(settled)]
    )
