"""Reads Parquet files with a foreign reader and prints them as JSON.

Takes a question a line, a JSON array: "duckdb"|"pyarrow"|"count", FILE, optional PREDICATES.
Answers each with a line, one JSON object: "error", or "rows" = list of rows as objects, "schema" = column -> type text,
and for pyarrow "stats" = per row group and leaf [path, null_count, has_distinct, min, max].
With PREDICATEs (SQL, a line each, duckdb only) "rows" is {"counts": [n, …]}; with count it is the
number of rows by duckdb and by pyarrow, after both have read every value.
"""
import base64
import datetime
import decimal
import json
import sys
import traceback
import uuid

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq


def plain(v):
    if isinstance(v, bytes):
        return "b64:" + base64.b64encode(v).decode()
    if isinstance(v, (datetime.datetime, datetime.date, decimal.Decimal, uuid.UUID)):
        return str(v)
    if isinstance(v, dict):
        return {k: plain(x) for k, x in v.items()}
    if isinstance(v, list):
        if v and all(isinstance(x, tuple) and len(x) == 2 for x in v):
            return {"map": [[plain(k), plain(x)] for k, x in v]}
        return [plain(x) for x in v]
    if isinstance(v, float):
        return "f:" + repr(v)
    return v


def by_duckdb(path, predicate):
    db = duckdb.connect()
    db.execute("set timezone = 'UTC'")
    if predicate:
        counts = [
            db.execute(f"select count(*) from read_parquet('{path}') where {p}").fetchone()[0]
            for p in predicate.split("\n")
        ]
        return {"rows": {"counts": counts}}
    types = db.execute(f"describe select * from read_parquet('{path}')").fetchall()
    # text for what Python would round or shift
    columns = []
    for name, kind, *_ in types:
        q = '"' + name.replace('"', '""') + '"'
        if kind.startswith("TIMESTAMP") or kind.startswith("DECIMAL"):
            q = f"cast({q} as varchar) as {q}"
        columns.append(q)
    cursor = db.execute(f"select {', '.join(columns)} from read_parquet('{path}')")
    names = [d[0] for d in cursor.description]
    rows = [{n: plain(v) for n, v in zip(names, row)} for row in cursor.fetchall()]
    return {"rows": rows, "schema": {t[0]: t[1] for t in types}}


def by_pyarrow(path):
    f = pq.ParquetFile(path)
    table = f.read()
    for i, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type):
            table = table.set_column(i, field.name, table.column(i).cast(pa.int64()))
    stats = []
    for g in range(f.metadata.num_row_groups):
        group = f.metadata.row_group(g)
        for c in range(group.num_columns):
            column = group.column(c)
            s = column.statistics
            entry = [column.path_in_schema, None, None, None, None]
            if s is not None:
                entry = [column.path_in_schema, s.null_count, s.has_distinct_count, None, None]
                if s.has_min_max:
                    entry[3], entry[4] = plain(s.min_raw), plain(s.max_raw)
            stats.append(entry)
    group_bytes = [
        [f.metadata.row_group(g).total_byte_size, sum(f.metadata.row_group(g).column(c).total_uncompressed_size for c in range(f.metadata.num_columns))]
        for g in range(f.metadata.num_row_groups)
    ]
    return {
        "rows": [{k: plain(v) for k, v in row.items()} for row in table.to_pylist()],
        "schema": {field.name: str(field.type) for field in f.schema_arrow},
        "stats": stats,
        "group_bytes": group_bytes,
    }


def counted(path):
    # every value is read, none is kept
    names = [d[0] for d in duckdb.execute(f"select * from read_parquet('{path}') limit 0").description]
    hashes = ", ".join('sum(hash("' + n.replace('"', '""') + '"))' for n in names)
    first = duckdb.execute(f"select count(*), {hashes} from read_parquet('{path}')").fetchone()[0]
    return {"rows": {"counts": [first, pq.ParquetFile(path).read().num_rows]}}


for line in sys.stdin:
    reader, path, *predicate = json.loads(line)
    try:
        if reader == "count":
            out = counted(path)
        elif reader == "duckdb":
            out = by_duckdb(path, predicate[0] if predicate else None)
        else:
            out = by_pyarrow(path)
    except Exception:
        out = {"error": traceback.format_exc()}
    json.dump(out, sys.stdout)
    print(flush=True)
