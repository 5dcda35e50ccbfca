// Package parquet writes Columns as Parquet files and reads them back. It is
// the one importer of arrow's Parquet writer (v15) and fences its faults in:
//
//   - memory.DefaultAllocator grows in place (allocator.go);
//   - statistics are our own, made from copies (stats.go);
//   - the sink keeps its first error, row groups are closed and checked one by
//     one, panics become errors (sink.go, writer.go);
//   - the footer is held back, mended, compared with what was written, and only
//     then written; if the file can be read it is opened again (footer.go);
//   - lists have three levels and optional elements, pages are v1, encodings
//     are PLAIN and RLE_DICTIONARY, created_by is pinned (schema.go, writer.go).
//
// A file of writer profile 1:
//
//	"PAR1"
//	row group…     ends after the batch that reaches RowGroupRows or RowGroupBytes
//	  column chunk…  a leaf of the schema, in its order
//	    [dictionary page]  PLAIN; none for booleans and _offset, or once it
//	                       reached DictBytes before its first page
//	    data page…         v1: [levels] [levels] values, compressed as a whole;
//	                       cut after a chunk of 1,024 levels, or of PageBytes of
//	                       byte values, once PageBytes are full; rows are whole
//	footer         Thrift compact protocol, FileMetaData of parquet.thrift:
//	                 schema      the root without repetition type
//	                 row groups  total_byte_size uncompressed, file_offset 0 in
//	                             chunks, encodings and encoding_stats ascending,
//	                             statistics: null_count, min_value, max_value
//	                             (exact; none beyond 1,024 bytes; no NaN; zeros
//	                             as -0 and +0), no distinct_count
//	                 metadata    by ascending key
//	                 created_by  "sawlog version 1 (build parquet-profile-1)"
//	length of the footer, 4 bytes little-endian
//	"PAR1"
//
// The bytes are a function of schema, options and batches. Reader shares no
// code with the encoders.
package parquet
