// Package readers holds what others read of the files that formats/parquet,
// formats/arrow and formats/jsonl write: tests that compare every value with the
// record it came from, as DuckDB, pyarrow and parquet-java (from Maven) see it.
package readers
