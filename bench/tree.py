"""The large tree that several scenarios read: a million objects in 100 folders, built once a run.

It is built in a process of its own, so that what the others use of memory is theirs.
"""

import shutil
from collections.abc import AsyncIterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.clock import Stopwatch
from bench.figure import Figure
from bench.lab import COMMIT, MAIN, REPO, Lab
from lakebed.format.blocks import ENTRY_SCHEMA
from lakebed.model.ids import Nonce
from lakebed.server.config import Config
from lakebed.server.installation import open_installation

_FOLDERS = 100


async def build_tree(lab: Lab) -> list[Figure]:
    """Write the tree's entries in key order and commit them."""
    shutil.rmtree(lab.tree_folder, ignore_errors=True)
    async with open_installation(Config(data=lab.tree_folder)) as site:
        repo = await site.catalog.repositories.create(REPO, f"local://{REPO}")
        trees = await site.engine.parts.trees_of(repo)
        with Stopwatch() as watch:
            written = await trees.write(_blocks(lab.tree_count), nonce=Nonce("bench"))
            await site.engine.committer.commit_tree(repo, MAIN, COMMIT, written.id)
        await site.catalog.branches.create(REPO, "base", "main")
    assert written.count == lab.tree_count
    return [Figure(name=f"tree of {written.count:,} sorted entries", value=watch.seconds, unit="s")]


async def _blocks(count: int) -> AsyncIterator[pa.Table]:
    """Yield the entries that `lab.tree_path` names, a folder at a time."""
    rng = np.random.default_rng(1)
    for folder in range(_FOLDERS):
        numbers = np.arange(folder, count, _FOLDERS)
        if len(numbers) == 0:
            return
        names = pc.utf8_lpad(pa.array(numbers).cast(pa.string()), 8, "0")
        keys = pc.binary_join_element_wise(f"imp/d{folder:03d}/f", names, "")
        rows = len(numbers)
        # 32 hex digits a row, cut from one random text.
        digits = pa.py_buffer(rng.bytes(16 * rows).hex().encode())
        offsets = pa.py_buffer(np.arange(rows + 1, dtype=np.int32) * 32)
        identities = pa.py_buffer(rng.bytes(16 * rows))
        identity_offsets = pa.py_buffer(np.arange(rows + 1, dtype=np.int32) * 16)
        yield pa.table(
            [
                keys,
                pc.binary_join_element_wise("data/00000000000000000000/", pc.utf8_lpad(names, 20, "0"), ""),
                pa.StringArray.from_buffers(rows, offsets, digits),
                pa.array(np.full(rows, 100)),
                pa.array(np.full(rows, 1_700_000_000_000_000)),
                pa.array(["application/octet-stream"] * rows),
                pa.array([""] * rows),
                pa.BinaryArray.from_buffers(pa.binary(), rows, [None, identity_offsets, identities]),
            ],
            schema=ENTRY_SCHEMA,
        )
