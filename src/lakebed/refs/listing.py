"""`Listing`: one page of refs, as an API hands it out."""

from dataclasses import dataclass
from typing import Generic, TypeVar

T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing(Generic[T_co]):
    """Results in order of their names. Ask again with `after` = the last one's name while `has_more`."""

    results: tuple[T_co, ...]
    has_more: bool
