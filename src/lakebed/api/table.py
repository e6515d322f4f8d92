"""The table of operations: every module of `resources`, in the order of the documentation."""

from typing import Final

from lakebed.api.operation import Operation
from lakebed.api.resources import branches, commits, config, imports, objects, refs, repositories, tags

OPERATIONS: Final[tuple[Operation, ...]] = tuple(
    operation
    for module in (repositories, branches, tags, commits, refs, objects, imports, config)
    for operation in module.operations.rows
)
