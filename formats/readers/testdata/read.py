"""Reads a file with pyarrow or DuckDB.

usage: read.py rows pyarrow|duckdb FILE…
       read.py counts pyarrow|duckdb FILE PREDICATES

rows prints of each file a line with the columns' types as a JSON string, a line for each row, an
array of the columns' values in the form readers_test.go describes, and "end". counts prints a line for each line
"column op literal" of PREDICATES (tabs between): how many rows match with everything that skips
parts of the file, and without.
"""
import base64
import decimal
import json
import sys

import pyarrow as pa

decimal.getcontext().prec = 80
NANOS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}


def cut(values, array):
    """The elements of each list of an array, from those of all."""
    offsets = array.offsets.to_pylist()
    return [
        values[offsets[i] : offsets[i + 1]] if valid else None
        for i, valid in enumerate(array.is_valid().to_pylist())
    ]


def plain(array):
    t = array.type
    if isinstance(t, pa.BaseExtensionType):
        return plain(array.storage)
    if pa.types.is_struct(t):
        members = [plain(array.field(i)) for i in range(t.num_fields)]
        names = [t.field(i).name for i in range(t.num_fields)]
        return [
            {n: m[i] for n, m in zip(names, members)} if valid else None
            for i, valid in enumerate(array.is_valid().to_pylist())
        ]
    if pa.types.is_map(t):
        return cut([list(e) for e in zip(plain(array.keys), plain(array.items))], array)
    if pa.types.is_list(t):
        return cut(plain(array.values), array)
    if pa.types.is_timestamp(t):
        return [None if v is None else str(v * NANOS[t.unit]) for v in array.cast(pa.int64()).to_pylist()]
    if pa.types.is_date32(t):
        return array.cast(pa.int32()).to_pylist()
    if pa.types.is_null(t) or pa.types.is_boolean(t) or pa.types.is_integer(t) or pa.types.is_string(t):
        return array.to_pylist()
    return [None if v is None else scalar(t, v) for v in array.to_pylist()]


def scalar(t, v):
    if pa.types.is_floating(t):
        return repr(v)
    if pa.types.is_decimal(t):
        return str(int(v.scaleb(t.scale)))
    if pa.types.is_fixed_size_binary(t):
        return v.hex()
    return base64.b64encode(v).decode()


def name(c):
    return '"' + c.replace('"', '""') + '"'


def by_duckdb():
    import duckdb

    db = duckdb.connect()
    db.execute("set timezone = 'UTC'; set threads = 1")
    return db


def table(reader, path):
    if path.endswith(".arrow"):
        whole = pa.ipc.open_file(path).read_all()
        whole.validate(full=True)
        return whole if reader == "pyarrow" else by_duckdb().execute("select * from whole").to_arrow_table()
    if reader == "duckdb":
        return by_duckdb().execute(f"select * from read_parquet('{path}')").to_arrow_table()
    import pyarrow.parquet as pq

    whole = pq.ParquetFile(path).read()
    whole.validate(full=True)
    return whole


def rows(reader, path):
    whole = table(reader, path)
    print(json.dumps("\n".join(f"{f.name} {f.type}" for f in whole.schema)))
    for batch in whole.to_batches(max_chunksize=4096):
        columns = [plain(batch.column(i)) for i in range(batch.num_columns)]
        for row in zip(*columns):
            print(json.dumps(row))


def counts(reader, path, predicates):
    lines = [line.rstrip("\n").split("\t") for line in open(predicates)]
    if reader == "duckdb":
        db = by_duckdb()
        for c, op, value in lines:
            where = f"{name(c)} {op} {value}" if value != "null" else f"{name(c)} is {'not ' * (op != '=')}null"
            query = f"select count(*) from read_parquet('{path}') where {where}"
            db.execute("set disabled_optimizers = ''")
            first = db.execute(query).fetchone()[0]
            db.execute("set disabled_optimizers = 'filter_pushdown,statistics_propagation'")
            print(first, db.execute(query).fetchone()[0])
        return
    import pyarrow.compute as pc
    import pyarrow.dataset as ds

    data = ds.dataset(path, format="parquet")
    whole = data.to_table()
    functions = {
        "=": lambda a, b: a == b, "<>": lambda a, b: a != b, "<": lambda a, b: a < b,
        "<=": lambda a, b: a <= b, ">": lambda a, b: a > b, ">=": lambda a, b: a >= b,
    }
    for c, op, value in lines:
        field = pc.field(c)
        if value == "null":
            e = field.is_null() if op == "=" else field.is_valid()
        else:
            e = functions[op](field, literal(whole.schema.field(c).type, value))
        print(data.to_table(filter=e).num_rows, whole.filter(e).num_rows)


def literal(t, value):
    if pa.types.is_binary(t) or pa.types.is_string(t):
        raw = bytes.fromhex(value)
        return pa.scalar(raw if pa.types.is_binary(t) else raw.decode(), t)
    if pa.types.is_floating(t):
        return pa.scalar(float(value), t)
    if pa.types.is_boolean(t):
        return pa.scalar(value == "true", t)
    if pa.types.is_decimal(t):
        return pa.scalar(decimal.Decimal(value).scaleb(-t.scale), t)
    if pa.types.is_date32(t):
        return pa.scalar(int(value), pa.int32()).cast(t)
    return pa.scalar(int(value), pa.int64()).cast(t)


if sys.argv[1] == "rows":
    for path in sys.argv[3:]:
        rows(sys.argv[2], path)
        print("end")
else:
    counts(*sys.argv[2:])
