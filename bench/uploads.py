"""Small uploads: the bytes and the entry durable before they are acknowledged."""

from bench.clock import hammer
from bench.figure import Figure, peer
from bench.lab import REPO, Lab

_CALLERS = 32
_DATA = b"x" * 1024


async def upload(lab: Lab) -> list[Figure]:
    """Upload objects of 1 KiB, 32 callers."""
    async with lab.fresh() as site:

        async def once(call: int) -> None:
            await site.catalog.objects.upload(REPO, "main", f"k/{call:08d}", _DATA)

        uploads = await hammer(once, callers=_CALLERS, seconds=lab.seconds)
    return [
        Figure(
            name=f"durable uploads of 1 KiB, {_CALLERS} callers",
            value=uploads.rate,
            unit="/s",
            peer=peer(2_740),
            note=f"{uploads.summary()}; the peer's is over HTTP and does not sync the data",
        )
    ]
