"""`lakebed://repo/ref/path` for everything that speaks fsspec: pandas, Polars, PyArrow, DuckDB, Dask."""
