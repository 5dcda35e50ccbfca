"""DuckDB as a peer of the loader: lines of JSON to Parquet with declared columns, in one thread.

usage: lines.py LINES.jsonl OUT.parquet CODEC 'name TYPE, name TYPE, ...'
Prints the number of rows in the file it wrote, read back from the file's footer.
"""
import sys

import duckdb

lines, out, codec, columns = sys.argv[1:5]
spec = ", ".join("'%s': '%s'" % tuple(c.strip().split(" ", 1)) for c in columns.split(","))
db = duckdb.connect()
db.execute("set threads = 1")
db.execute("set preserve_insertion_order = true")
db.execute(
    f"copy (select * from read_json('{lines}', format = 'newline_delimited', columns = {{{spec}}}))"
    f" to '{out}' (format parquet, compression {codec}, row_group_size 122880)"
)
print(db.execute(f"select count(*) from read_parquet('{out}')").fetchone()[0])
