"""Reads a file with pyarrow or DuckDB.

usage: read.py rows pyarrow|duckdb|lines-by-duckdb|lines-by-python FILE…
       read.py counts pyarrow|duckdb FILE PREDICATES

rows prints of each file a line with the columns' types as a JSON string, a line for each row, an
array of the columns' values in the form readers_test.go describes, and "end". counts prints a line for each line
"column op literal" of PREDICATES (tabs between): how many rows match with everything that skips
parts of the file, and without. Beside a FILE of lines lies FILE.schema, the schema it was written
with.
"""
import base64
import datetime
import decimal
import io
import json
import re
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
    if reader == "lines-by-duckdb":
        return lines_by_duckdb(path)
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


def codec(path):
    with open(path, "rb") as f:
        magic = f.read(4)
    return "zstd" if magic == b"\x28\xb5\x2f\xfd" else "gzip" if magic[:2] == b"\x1f\x8b" else None


def fields(path):
    return [(f["name"], f["type"]) for f in json.load(open(path + ".schema"))["fields"]]


def sql(t):
    """The type of DuckDB that takes the values of a type from JSON."""
    if isinstance(t, dict):
        if "list" in t:
            return sql(t["list"]) + "[]"
        if "map" in t:
            return f"MAP(VARCHAR, {sql(t['map'])})"
        return "STRUCT(" + ", ".join(f"{name(f['name'])} {sql(f['type'])}" for f in t["struct"]) + ")"
    if t.startswith("decimal"):
        return t
    if t.startswith("timestamp"):
        return "TIMESTAMPTZ" if not t.endswith("_local") else "TIMESTAMP_NS" if "_ns" in t else "TIMESTAMP"
    return {
        "bool": "BOOLEAN", "int32": "INTEGER", "int64": "BIGINT", "float": "FLOAT", "double": "DOUBLE", "string": "VARCHAR",
        "bytes": "VARCHAR", "date": "DATE", "uuid": "UUID", "json": "JSON",
    }[t]


def lines_by_duckdb(path):
    def text(s):
        return "'" + s.replace("'", "''") + "'"

    columns = ", ".join(f"{text(n)}: {text(sql(t))}" for n, t in fields(path))
    return by_duckdb().execute(
        f"select * from read_json('{path}', format = 'newline_delimited', compression = '{codec(path) or 'none'}', columns = {{{columns}}})"
    ).to_arrow_table()


def lines_by_python(path):
    with pa.input_stream(path, compression=codec(path)) as f:
        for line in io.TextIOWrapper(f, encoding="utf-8", newline="\n"):
            row = json.loads(line, parse_int=whole_number, parse_float=decimal.Decimal)
            assert list(row) == [n for n, _ in fields(path)], list(row)
            print(json.dumps([value(t, row[n]) for n, t in fields(path)]))


def whole_number(text):
    return -0.0 if text == "-0" else int(text)


def value(t, v):
    """A value of a type in the form that readers_test.go describes."""
    if v is None:
        return None
    if isinstance(t, dict):
        if "list" in t:
            return [value(t["list"], x) for x in v]
        if "map" in t:
            return [[k, value(t["map"], x)] for k, x in v.items()]
        assert list(v) == [f["name"] for f in t["struct"]], list(v)
        return {f["name"]: value(f["type"], v[f["name"]]) for f in t["struct"]}
    if t in ("float", "double"):
        return repr(float(v))
    if t == "date":
        return datetime.date.fromisoformat(v).toordinal() - datetime.date(1970, 1, 1).toordinal()
    if t == "json":
        return json.dumps(v, default=float)
    if t.startswith("timestamp"):
        day, h, m, s, fraction, zone = re.fullmatch(r"(\d{4}-\d\d-\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d+))?(Z?)", v).groups()
        assert (zone == "") == t.endswith("_local"), v
        return str((value("date", day) * 86400 + int(h) * 3600 + int(m) * 60 + int(s)) * NANOS["s"] + int((fraction or "").ljust(9, "0")))
    if t.startswith("decimal"):
        return str(int(decimal.Decimal(v).scaleb(int(re.search(r"(\d+)\)", t).group(1)))))
    return v


def rows(reader, path):
    if reader == "lines-by-python":
        print(json.dumps(fields(path)))
        lines_by_python(path)
        return
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
        wheres = [f"{name(c)} {op} {v}" if v != "null" else f"{name(c)} is {'not ' * (op != '=')}null" for c, op, v in lines]
        skipping = [db.execute(f"select count(*) from read_parquet('{path}') where {where}").fetchone()[0] for where in wheres]
        db.execute("set disabled_optimizers = 'filter_pushdown,statistics_propagation'")
        every = ", ".join(f"count(*) filter (where {where})" for where in wheres)
        for both in zip(skipping, db.execute(f"select {every} from read_parquet('{path}')").fetchone()):
            print(*both)
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
        print(data.count_rows(filter=e), whole.select([c]).filter(e).num_rows)


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
