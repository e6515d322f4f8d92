"""What Prometheus is told of garbage collection, from the run records."""

import pytest

from lakebed.catalog.gc import run_token
from lakebed.env.clock import SECOND, Instant, SystemClock, after
from lakebed.errors import ErrorKind, UnavailableError
from lakebed.kv.drivers.memory import MemoryKV
from lakebed.limits import GC_LEASE_SECONDS, GC_METRICS_SECONDS
from lakebed.model.gc import MarkKind, RunKind
from lakebed.server.gc_metrics import GcMetrics
from lakebed.testing.lake import open_wired


class Hands(SystemClock):
    """A clock that stands unless its hands are turned."""

    def __init__(self) -> None:
        self.at = Instant(1_800_000_000 * SECOND)

    def now(self) -> Instant:
        return self.at

    def monotonic(self) -> float:
        return self.at / SECOND

    def turn(self, seconds: float) -> None:
        self.at = after(self.at, seconds)


def lines(text: bytes) -> dict[str, float]:
    told = [line.rpartition(" ") for line in text.decode().splitlines() if not line.startswith("#")]
    # The engine gives no two runs the same microsecond.
    return {name.removeprefix("lakebed_gc_"): float(round(float(value))) for name, _, value in told}


@pytest.mark.parametrize("by_repository", [True, False])
async def test_runs_marks_and_sweeps_of_all_repositories_are_shown(by_repository: bool) -> None:
    clock = Hands()
    async with open_wired(clock=clock) as (wired, kv):
        gc, begun_at = wired.catalog.gc, clock.monotonic()
        metrics = GcMetrics(kv, wired.engine.repositories, clock=clock, by_repository=by_repository)
        for name in ("lake", "pond", "never"):
            await wired.catalog.repositories.create(name, f"mem://{name}")
        for name, objects in (("lake", 10), ("pond", 5)):
            marking = await gc.begin(name, RunKind.MARK)
            of = run_token(marking.lease.run, marking.lease.token)
            assert of is not None
            await wired.engine.gc.prepare_commits(await wired.engine.repo(name), of)
            counts = {"objects": objects, "marked": 2, "marked_bytes": 200}
            await gc.publish(name, of, kind=MarkKind.CLEAN, counts=counts)
            await gc.end(name, of, outcome="done")
        clock.turn(100)
        swept = await gc.begin("lake", RunKind.SWEEP)
        of = run_token(swept.lease.run, swept.lease.token)
        assert of is not None
        await gc.end("lake", of, outcome="failed", counts={"deleted": 1, "deleted_bytes": 100})
        await gc.begin("lake", RunKind.SWEEP)
        shown = lines(await metrics.text())

        def of_all(lake: float, pond: float | None, together: float) -> dict[str, float]:
            if not by_repository:
                return {"*": together}
            return {"lake": lake} if pond is None else {"lake": lake, "pond": pond}

        expected: dict[str, float] = {}
        for gauge, values in {
            "running": of_all(1, 0, 1),
            "objects": of_all(10, 5, 15),
            "marked_objects": of_all(2, 2, 4),
            "marked_bytes": of_all(200, 200, 400),
            "deleted_objects": of_all(1, None, 1),
            "deleted_bytes": of_all(100, None, 100),
        }.items():
            expected |= {f'{gauge}{{repository="{name}"}}': value for name, value in values.items()}
        for gauge, kind, values in (
            ("last_run_timestamp_seconds", "mark", of_all(begun_at, begun_at, begun_at)),
            ("last_success_timestamp_seconds", "mark", of_all(begun_at, begun_at, begun_at)),
            ("runs_failed", "mark", of_all(0, 0, 0)),
            ("last_run_timestamp_seconds", "sweep", of_all(begun_at + 100, None, begun_at + 100)),
            ("runs_failed", "sweep", of_all(1, None, 1)),
        ):
            expected |= {
                f'{gauge}{{kind="{kind}",repository="{name}"}}': value for name, value in values.items()
            }
        assert shown == expected

        # A collector that died has failed; and records are read anew only after a while.
        clock.turn(GC_METRICS_SECONDS - 1)
        assert lines(await metrics.text()) == shown
        clock.turn(GC_LEASE_SECONDS)
        await gc.begin("lake", RunKind.MARK)
        name = "lake" if by_repository else "*"
        assert lines(await metrics.text())[f'runs_failed{{kind="sweep",repository="{name}"}}'] == 2


async def test_without_its_database_a_server_shows_its_other_metrics() -> None:
    class Down(MemoryKV):
        def scan(self, *args, **options):
            raise UnavailableError(ErrorKind.STORE_UNAVAILABLE, "down")

    async with open_wired(Down()) as (wired, kv):
        metrics = GcMetrics(kv, wired.engine.repositories, clock=SystemClock(), by_repository=True)
        assert await metrics.text() == b""
