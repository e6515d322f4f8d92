"""The files of `sample_data`: a table of lakes, and what explains it. Pure, and the same every time.

lakeFS's tutorials read `lakes.parquet` with the columns `Hylak_id`, `Lake_name`, `Country` and `Depth_m`. The columns are
theirs, and the rows are ours: the countries are real, the lakes are invented.
"""

from collections.abc import Iterator, Mapping
from io import BytesIO
from itertools import product
from math import exp
from types import MappingProxyType
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

# How many lakes each country has. Together 500: enough to group and to filter, and a file of a few kilobytes.
_LAKES: Final[Mapping[str, int]] = MappingProxyType(
    {
        "Canada": 118,
        "Russia": 71,
        "United States of America": 66,
        "Finland": 48,
        "Sweden": 44,
        "Norway": 36,
        "China": 24,
        "Brazil": 18,
        "Argentina": 14,
        "Chile": 11,
        "Kazakhstan": 9,
        "Denmark": 8,
        "Poland": 8,
        "Germany": 7,
        "New Zealand": 6,
        "Switzerland": 5,
        "Kenya": 4,
        "Uganda": 3,
    }
)
_BEGINNINGS: Final = ("Al", "Bir", "Cor", "Dun", "El", "Fal", "Gren", "Hol", "Is", "Kar", "Lom", "Mar", "Nor")
_MIDDLES: Final = ("a", "e", "i", "o", "and", "er", "im")
_ENDS: Final = ("by", "dal", "ford", "gan", "la", "mere", "na", "ton", "vik")
# Coprime with the number of names, so that neighbours in the table do not look alike.
_STRIDE: Final = 331
_DEEPEST_M: Final = 400.0

_README: Final = """# Lakes

`lakes.parquet` is a table of {lakes} lakes in {countries} countries.

![lakes by country](images/lakes-by-country.svg)

| column | type | what it is |
|---|---|---|
| `Hylak_id` | int32 | a number, from 1 |
| `Lake_name` | string | an invented name |
| `Country` | string | a country |
| `Depth_m` | double | an invented mean depth, in metres |

Change it on a branch, look at the difference, and merge:

    lakebed branch create {repo}/tidy --source {branch}
    lakebed fs rm {repo}/tidy/data/lakes-by-country.csv
    lakebed diff {repo}/tidy
    lakebed commit {repo}/tidy -m "Remove the counts"
    lakebed merge {repo}/tidy {branch}
"""

_SOURCE: Final = """# Where the lakes come from

Lakebed computed this table when the repository was created. The names and the depths are invented, and they are the same in
every repository. `lakes-by-country.csv` counts the rows of `lakes.parquet`.
"""


class SampleFile(NamedTuple):
    """A file of the sample."""

    path: str
    content_type: str
    data: bytes


def sample_files(repo: str, branch: str) -> list[SampleFile]:
    """Return the files, by path; the README's commands name `repo` and `branch`."""
    readme = _README.format(lakes=sum(_LAKES.values()), countries=len(_LAKES), repo=repo, branch=branch)
    counts = "Country,lakes\n" + "".join(f"{country},{lakes}\n" for country, lakes in _LAKES.items())
    return [
        SampleFile("README.md", "text/markdown", readme.encode()),
        SampleFile("data/lakes-by-country.csv", "text/csv", counts.encode()),
        SampleFile("data/lakes.source.md", "text/markdown", _SOURCE.encode()),
        SampleFile("images/lakes-by-country.svg", "image/svg+xml", _chart().encode()),
        SampleFile("lakes.parquet", "application/vnd.apache.parquet", _parquet()),
    ]


def _parquet() -> bytes:
    countries = [country for country, lakes in _LAKES.items() for _ in range(lakes)]
    columns = {
        "Hylak_id": pa.array(range(1, len(countries) + 1), pa.int32()),
        "Lake_name": pa.array(name for name, _ in zip(_names(), countries, strict=False)),
        "Country": pa.array(countries),
        "Depth_m": pa.array((_depth_m(number) for number in range(len(countries))), pa.float64()),
    }
    out = BytesIO()
    pq.write_table(pa.table(columns), out, compression="zstd")
    return out.getvalue()


def _names() -> Iterator[str]:
    parts = list(product(_BEGINNINGS, _MIDDLES, _ENDS))
    for number in range(len(parts)):
        yield "".join(parts[number * _STRIDE % len(parts)])


def _depth_m(number: int) -> float:
    """Return a depth: most lakes are shallow, and a few are not."""
    return round(_DEEPEST_M * exp(-6.0 * (number * _STRIDE % 997) / 997), 1)


def _chart() -> str:
    bars = "".join(
        f'<text x="0" y="{20 * row + 14}">{country}</text>'
        f'<rect x="190" y="{20 * row + 3}" width="{2 * lakes}" height="14" fill="#2b7a9b"/>'
        for row, (country, lakes) in enumerate(_LAKES.items())
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="440" height="{20 * len(_LAKES)}" '
        f'font-family="sans-serif" font-size="13">{bars}</svg>\n'
    )
