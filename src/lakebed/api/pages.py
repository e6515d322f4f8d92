"""Pagination, the same for every listing."""

from collections.abc import Sequence
from typing import Annotated, Generic, TypeVar

import msgspec

from lakebed.limits import LIST_PAGE_DEFAULT, LIST_PAGE_MAX

T = TypeVar("T")

Amount = Annotated[
    int, msgspec.Meta(ge=-1, le=LIST_PAGE_MAX, description="how many results; -1 and 0 mean the default")
]


class Pagination(msgspec.Struct):
    """Where a page ends and how to get the next one."""

    has_more: bool
    next_offset: str
    results: int
    max_per_page: int


class PageOf(msgspec.Struct, Generic[T]):
    """One page of results."""

    pagination: Pagination
    results: Sequence[T]


class AfterQuery(msgspec.Struct):
    """Which page: names after the name `after`."""

    after: str = ""
    amount: Amount = LIST_PAGE_DEFAULT


class PageQuery(msgspec.Struct):
    """Which page: names that begin with `prefix`, after the name `after`."""

    prefix: str = ""
    after: str = ""
    amount: Amount = LIST_PAGE_DEFAULT


def wanted(amount: int) -> int:
    """Return how many results a client asked for."""
    return amount if amount > 0 else LIST_PAGE_DEFAULT


def page_of(
    results: Sequence[T], *, has_more: bool, last: str, max_per_page: int = LIST_PAGE_MAX
) -> PageOf[T]:
    """Return a page; `last` is the name of its last result, which the next page comes after."""
    return PageOf(
        pagination=pagination_of(len(results), has_more=has_more, last=last, max_per_page=max_per_page),
        results=results,
    )


def pagination_of(
    results: int, *, has_more: bool, last: str, max_per_page: int = LIST_PAGE_MAX
) -> Pagination:
    """Return what a page of so many results says about itself."""
    return Pagination(
        has_more=has_more,
        next_offset=last if has_more else "",
        results=results,
        max_per_page=max_per_page,
    )
