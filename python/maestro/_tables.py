"""Lists of rows for people: as they are, or as a DataFrame where pandas is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Union

if TYPE_CHECKING:
    import pandas

Rows = list[dict[str, Any]]
Table = Union[Rows, "pandas.DataFrame"]


def table(rows: Rows) -> Table:
    try:
        import pandas
    except ImportError:
        return rows
    return pandas.DataFrame(rows)
