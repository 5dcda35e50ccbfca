// Package arrow writes Columns as Arrow IPC files and reads them back. It is the
// one importer of arrow's array and IPC packages (v15), besides formats/parquet.
//
// A file is what Arrow's "IPC File Format" is, metadata version 5: "ARROW1" and
// two zero bytes, the schema, a record batch for every batch that was written,
// an end mark, and the footer with the schema and where the batches are. There
// are no dictionaries.
//
//	bool int32 int64 float double   themselves
//	string                          utf8
//	bytes                           binary
//	date                            date32
//	uuid                            fixed_size_binary(16), extension arrow.uuid
//	json                            utf8, extension arrow.json
//	timestamp_{ms,us,ns}            timestamp of that unit in UTC; _local without zone
//	decimal(p,s)                    decimal128(p,s)
//	list<T>                         list<element: T>
//	map<T>                          map<utf8, T>
//	struct<…>                       struct<…>
//
// Everything but metadata columns that are always there and keys of maps may be
// null. Buffers are compressed one by one as the codec says: zstd, lz4 (frames)
// or none. Bytes of values that are null are zero, so the bytes are a function
// of schema, options and batches.
package arrow
