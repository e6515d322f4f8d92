"""A server whose compactor is on: what is staged and deleted in millions, and what that costs everyone else.

    python -m bench.compacting [--only tombstones,commit,staged,layers,beside] [--scale 1] [--seconds 4]

Prints Markdown. Every ratio is of two figures from one run.

    tombstones   a million deletes on a branch, nothing committed: the first page beside that of a fresh branch
    commit       a million staged entries are committed once they are compacted
    staged       five million staged entries on a branch: pages, point reads and writes beside one with nothing staged
    layers       stat of what is not there, over 64 sealed layers and over none
    beside       writes and reads on one branch while the backlog of others shrinks, and with nothing to compact

Needs wrk (Debian's package). What is caught up with is known by the compaction state of the branch: no layers,
no staged rows.
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from bench.over_http import Api, Load, memory_of, require_wrk
from lakebed.env.clock import Instant
from lakebed.format.blocks import change_block
from lakebed.format.segments import decode_footer, encode_segment
from lakebed.model.branch import Branch
from lakebed.model.entries import Entry
from lakebed.model.ids import BranchName, Nonce, parse_path
from lakebed.model.layers import SegmentLayer
from lakebed.model.segments import SegmentName, era_at, segment_key
from lakebed.server.config import Config
from lakebed.server.installation import open_installation
from lakebed.staging.record import append_segment, seal
from lakebed.testing.server_process import ServerProcess, running_server

_REPO = "compacting"
_FOLDERS = 100
_BATCH = 10_000
_MILLION = 1_000_000
_LAYERS = 64
_COMMITTED = 200_000
_BACKLOG_BRANCHES = 12
_BACKLOG_ROWS = 200_000
_PAGES = 50


class Bench:
    """One server, and what the scenarios ask of it."""

    def __init__(self, server: ServerProcess, seconds: int, scale: float) -> None:
        self.server = server
        self.api = Api(server)
        self.load = Load(self.api, _REPO, seconds)
        self.scale = scale

    def million(self, count: float = 1) -> int:
        return int(count * _MILLION * self.scale)

    def repo(self) -> None:
        body = {"name": _REPO, "storage_namespace": f"local://{_REPO}", "default_branch": "main"}
        self.api("POST", "", body)

    def branch(self, name: str) -> None:
        self.api("POST", f"/{_REPO}/branches", {"name": name, "source": "main"})

    def stage(self, branch: str, count: int) -> float:
        """Stage entries in order of folders, and return how long that took."""
        started = time.monotonic()
        for start in range(0, count, _BATCH):
            entries = [self._entry(n) for n in range(start, min(start + _BATCH, count))]
            self.api("POST", f"/{_REPO}/branches/{branch}/staging/entries", {"entries": entries})
        return time.monotonic() - started

    def delete(self, branch: str, paths: list[str]) -> float:
        started = time.monotonic()
        for start in range(0, len(paths), 1000):
            body = {"paths": paths[start : start + 1000]}
            self.api("POST", f"/{_REPO}/branches/{branch}/objects/delete", body)
        return time.monotonic() - started

    def commit(self, branch: str) -> float:
        return self.timed("POST", f"/{_REPO}/branches/{branch}/commits", {"message": "bench"})

    def timed(self, method: str, path: str, body: Any = None) -> float:
        started = time.monotonic()
        self.api(method, path, body)
        return time.monotonic() - started

    def page(self, ref: str, prefix: str = "imp/") -> float:
        """Return how long the first page of 50 takes, the median of many."""
        path = f"/{_REPO}/refs/{ref}/objects/ls?amount=50&prefix={prefix}"
        return statistics.median(self.timed("GET", path) for _ in range(_PAGES))

    def caught_up(self, *branches: str) -> float:
        """Wait until nothing of these branches waits to be merged; return how long that took."""
        started = time.monotonic()
        while not all(self.is_merged(branch) for branch in branches):
            time.sleep(0.1)
        return time.monotonic() - started

    def is_merged(self, branch: str) -> bool:
        state = self.api.read(f"/{_REPO}/branches/{branch}/compaction")
        return state["compacted"] and not state["staging"] and not state["sealed_layers"]

    def _entry(self, number: int) -> dict[str, Any]:
        return {
            "path": path_of(number),
            "physical_address": f"local://{self.server.imports}/{number}",
            "checksum": f"{number:032x}",
            "size_bytes": 100,
        }


def path_of(number: int) -> str:
    return f"imp/{number % _FOLDERS:03d}/{number:08d}"


def tombstones(bench: Bench) -> None:
    count = bench.million()
    bench.repo()
    bench.stage("main", count)
    bench.commit("main")
    bench.branch("tomb")
    bench.branch("fresh")
    paths = sorted(path_of(n) for n in range(count))[:-100]
    took = bench.delete("tomb", paths)
    row("deletes accepted", f"{len(paths) / took:,.0f} /s", "17,000 (peer)")
    first = bench.timed("GET", f"/{_REPO}/refs/tomb/objects/ls?amount=50&prefix=imp/")
    row("the first page right after", _ms(first))
    row(f"caught up after {len(paths):,} deletes", f"{bench.caught_up('tomb'):.1f} s", "aim 10 s")
    tomb, fresh = bench.page("tomb"), bench.page("fresh")
    row("the first page then", _ms(tomb), f"{tomb / fresh:.2f} of a fresh branch's ({_ms(fresh)}), aim 1.5")


def commit(bench: Bench) -> None:
    count = bench.million()
    bench.repo()
    took = bench.stage("main", count)
    row(f"{count:,} entries staged", f"{count / took:,.0f} /s")
    row("caught up", f"{bench.caught_up('main'):.1f} s")
    row("commit of them", _ms(bench.commit("main")), "aim 50 ms")


def staged(bench: Bench) -> None:
    count = bench.million(5)
    bench.repo()
    bench.stage("main", _COMMITTED)
    bench.commit("main")
    for name in ("many", "none"):
        bench.branch(name)
    took = bench.stage("many", count)
    row(f"{count:,} entries staged", f"{count / took:,.0f} /s")
    row("memory meanwhile, peak resident", f"{memory_of(bench.server, 'VmHWM')} MiB")
    _compare(bench, "at once", count)
    row("caught up", f"{bench.caught_up('many'):.1f} s")
    _compare(bench, "caught up", count)
    row("memory (RssAnon)", f"{memory_of(bench.server)} MiB", "aim 1,024 in all")


def _compare(bench: Bench, when: str, count: int) -> None:
    lua_path = "imp%%2F%03d%%2F%08d"
    stat = 'string.format("/refs/{}/objects/stat?path=' + lua_path + '", r % 100, r)'
    pages = 'string.format("/refs/{}/objects/ls?amount=50&after=' + lua_path + '", r % 100, r)'
    write = 'string.format("/branches/{}/objects?path=new%%2F%08d", i)'
    body = f'[[{{"physical_address":"local://{bench.server.imports}/x","checksum":"{"0" * 32}","size_bytes":1}}]]'
    for what, method, expression, connections, below in (
        ("stat", "GET", stat, 32, {"many": count, "none": _COMMITTED}),
        ("pages of 50", "GET", pages, 8, {"many": count, "none": _COMMITTED}),
        ("writes", "PUT", write, 32, {"many": 1, "none": 1}),
    ):
        rates = {
            name: bench.load(
                method, expression.replace("{}", name), below=below[name], connections=connections,
                body=body if method == "PUT" else '""', content_type="application/json",
            )["rate"]
            for name in ("none", "many")
        }  # fmt: skip
        ratio = rates["none"] / rates["many"]
        row(f"{what}, {when}", f"{rates['many']:,.0f} /s", f"{ratio:.2f} times an empty branch's, aim 2")


def layers(bench: Bench) -> None:
    stat = 'string.format("/refs/{}/objects/stat?path=p%%2F%08d", r)'
    rates = {
        name: bench.load("GET", stat.replace("{}", name), below=_MILLION)["rate"]
        for name in ("main", "deep", "main", "deep")
    }
    ratio = rates["main"] / rates["deep"]
    row(
        f"stat of what is not there, {_LAYERS} sealed layers",
        f"{rates['deep']:,.0f} /s",
        f"{ratio:.2f} of none, aim 2",
    )


def beside(bench: Bench) -> None:
    bench.repo()
    bench.stage("main", _COMMITTED)
    bench.commit("main")
    _steady(bench, "stat")
    _steady(bench, "write")
    idle = {what: _steady(bench, what) for what in ("stat", "write")}
    rows = int(_BACKLOG_ROWS * bench.scale)
    branches = [f"backlog-{n}" for n in range(_BACKLOG_BRANCHES)]
    bench.api("POST", f"/{_REPO}/compaction/pause")
    for name in branches:
        bench.branch(name)
        bench.stage(name, rows)
    before = _waiting(bench)
    bench.api("POST", f"/{_REPO}/compaction/resume")
    for what, rate in idle.items():
        busy = _steady(bench, what)
        left = _waiting(bench)
        row(
            f"{what} while a backlog shrinks", f"{busy:,.0f} /s",
            f"{busy / rate:.2f} of {rate:,.0f}, aim 0.8; {before} branches waited, then {left}",
        )  # fmt: skip
        before = left


def _steady(bench: Bench, what: str) -> float:
    if what == "stat":
        expression = 'string.format("/refs/main/objects/stat?path=imp%%2F%03d%%2F%08d", r % 100, r)'
        return float(bench.load("GET", expression, below=_COMMITTED)["rate"])
    expression = 'string.format("/branches/main/objects?path=new%%2F%08d", i)'
    body = f'[[{{"physical_address":"local://{bench.server.imports}/x","checksum":"{"0" * 32}","size_bytes":1}}]]'
    return float(bench.load("PUT", expression, body=body, content_type="application/json")["rate"])


def _waiting(bench: Bench) -> int:
    return sum(not bench.is_merged(f"backlog-{n}") for n in range(_BACKLOG_BRANCHES))


async def _deepen(folder: Path) -> None:
    """Give a branch more sealed layers than a server would let it have: a third tokens, the newer ones segments."""
    async with open_installation(Config(data=folder / "data")) as site:
        await site.catalog.repositories.create(_REPO, f"local://{_REPO}")
        await site.catalog.branches.create(_REPO, "deep", "main")
        repo, parts, name = await site.engine.repo(_REPO), site.engine.parts, BranchName("deep")
        store = await site.engine.store_of(repo)
        for number in range(_LAYERS):
            entries = [_entry(f"p/{n:06d}-{number}") for n in range(1000)]
            branch = (await parts.branches.get(repo, name)).value
            if number < _LAYERS // 3:
                await parts.staging.write(repo, name, entries)
                await parts.branches.update(repo, name, lambda b, _now: seal(b), landed=lambda _: False)
                continue
            segment = str(SegmentName(era_at(await parts.kv.now()), Nonce(parts.ids.token())))
            data = encode_segment({branch.incarnation: change_block(entries)})
            await store.put(segment_key(segment), data)
            layer = decode_footer(data, size=len(data)).datasets[branch.incarnation].layer(segment, seq=0)
            await parts.branches.update(repo, name, partial(_appended, layer), landed=lambda _: False)


def _appended(layer: SegmentLayer, branch: Branch, _now: Instant) -> Branch:
    return append_segment(branch, layer)


def _entry(path: str) -> Entry:
    return Entry(
        path=parse_path(path), address="local://x/y", checksum="0" * 32, size_bytes=1, mtime=Instant(1)
    )


def row(what: str, figure: str, beside: str = "") -> None:
    print(f"| {what} | {figure} | {beside} |", flush=True)


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:,.1f} ms"


SCENARIOS: dict[str, Callable[[Bench], None]] = {
    "tombstones": tombstones,
    "commit": commit,
    "staged": staged,
    "layers": layers,
    "beside": beside,
}


@contextmanager
def _server(work: Path, name: str, workers: int) -> Iterator[ServerProcess]:
    with tempfile.TemporaryDirectory(dir=work) as folder:
        environment = {"LAKEBED_COMPACTION": "on"}
        if name == "layers":
            asyncio.run(_deepen(Path(folder)))
            environment = {"LAKEBED_COMPACTION": "off"}
        with running_server(Path(folder), workers=workers, environment=environment) as server:
            yield server


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help=f"some of: {', '.join(SCENARIOS)}")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--seconds", type=int, default=4)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--work", type=Path, default=Path("/var/tmp/lakebed-compacting"))
    arguments = parser.parse_args()
    require_wrk()
    arguments.work.mkdir(parents=True, exist_ok=True)
    print("| what | figure | beside |\n|---|--:|---|")
    for name in arguments.only.split(",") if arguments.only else SCENARIOS:
        with _server(arguments.work, name, arguments.workers) as server:
            SCENARIOS[name](Bench(server, arguments.seconds, arguments.scale))


if __name__ == "__main__":
    main()
