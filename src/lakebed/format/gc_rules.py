"""Retention rules as a KV value, which also says when they were removed: a record is never deleted."""

from typing import Final

from lakebed.format.codec import Codec, Stored
from lakebed.model.gc_rules import GcRules


class _GcRules(Stored):
    default_days: int
    branches: dict[str, int]
    unset: bool = False


_GC_RULES: Final = Codec[_GcRules]("gc rules", 1, _GcRules)


def encode_gc_rules(rules: GcRules | None) -> bytes:
    """Return rules, or that they were removed, as a KV value."""
    if rules is None:
        return _GC_RULES.seal(_GcRules(0, {}, unset=True))
    return _GC_RULES.seal(_GcRules(rules.default_days, dict(sorted(rules.branches.items()))))


def decode_gc_rules(data: bytes) -> GcRules | None:
    """Return what `encode_gc_rules` was given, or raise `CorruptError`."""
    stored = _GC_RULES.open(data)
    return None if stored.unset else GcRules(default_days=stored.default_days, branches=stored.branches)
