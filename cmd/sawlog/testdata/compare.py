"""Compare a data set with the input it was loaded from, value by value.

usage: compare.py ROOT lines FILE...    JSON lines, offset = line number
       compare.py ROOT csv FILE...      CSV with a header in each file

The Parquet files are read by pyarrow; DuckDB counts the rows of each hour
folder. Prints a JSON object: rows, hours, paths (leaf paths that hold a value).
"""
import csv
import decimal
import gzip
import io
import json
import sys

import duckdb
import pyarrow.parquet as pq

root, kind, inputs = sys.argv[1], sys.argv[2], sys.argv[3:]


def text(name):
    raw = open(name, "rb").read()
    return gzip.decompress(raw) if name.endswith(".gz") else raw


def expected():
    for name in inputs:
        if kind == "lines":
            for line in text(name).split(b"\n"):
                if line:
                    yield json.loads(line)
        else:
            rows = csv.reader(io.StringIO(text(name).decode(), newline=""))
            head = next(rows)
            for row in rows:
                yield {k: (v if v != "" else None) for k, v in zip(head, row)}


def void(v):
    """Null, or made of nothing but nulls and empties: such paths have no column."""
    if isinstance(v, dict):
        return all(void(x) for x in v.values())
    if isinstance(v, list):
        return all(void(x) for x in v)
    return v is None


paths = set()


def same(want, got, where):
    if void(want) and void(got):
        return
    if isinstance(want, dict) and isinstance(got, dict):
        for key in want.keys() | got.keys():
            same(want.get(key), got.get(key), where + (key,))
        return
    if isinstance(want, list) and isinstance(got, list):
        assert len(want) == len(got), f"{where}: {len(want)} elements became {len(got)}"
        for a, b in zip(want, got):
            same(a, b, where + ("[]",))
        return
    paths.add(where)
    if isinstance(got, decimal.Decimal):
        got = float(got) if isinstance(want, float) else int(got)
    assert type(want) is type(got) or isinstance(want, (int, float)) and isinstance(got, (int, float)), f"{where}: {want!r} became {got!r}"
    assert want == got, f"{where}: {want!r} became {got!r}"


files = sorted(f for (f,) in duckdb.sql(f"select file from glob('{root}/dt=*/hr=*/*.parquet')").fetchall())
rows = {}
for name in files:
    for row in pq.ParquetFile(name).read().to_pylist():
        at = (row.pop("_partition"), row.pop("_offset"))
        assert at not in rows, f"{at} is in two files"
        rows[at] = row

want = list(expected())
assert len(want) == len(rows), f"{len(want)} records became {len(rows)} rows"
for (_, at), row in sorted(rows.items()):
    same(want[at], row, ())

hours = duckdb.sql(
    f"select dt, hr, count(*) from read_parquet('{root}/dt=*/hr=*/*.parquet', hive_partitioning=true, hive_types_autocast=false, union_by_name=true) group by all"
).fetchall()
print(json.dumps({
    "rows": len(rows), "files": len(files), "paths": len(paths),
    "hours": {f"{dt}T{hr}": n for dt, hr, n in hours},
}))
