// Package parquet writes Columns as Parquet files and reads them back. Two
// encoders make the bytes of files, by writer profile:
//
//   - profiles 3, which new plans carry, and 2 are our own (own.go, column.go). 3
//     writes values without a dictionary by their differences or lengths
//     (delta.go), which is smaller and leaves compression less to do;
//   - profile 1 (arrow.go) is arrow's writer (v15), which takes twice the time.
//
// The older ones stay for files that were made with them, and as the other sides
// of a differential test. The package is the one importer of arrow's Parquet
// packages. All profiles compress pages with arrow's codecs. The faults of arrow's writer are fenced in:
//
//   - memory.DefaultAllocator grows in place (allocator.go);
//   - statistics are our own, made from copies (stats.go);
//   - the sink keeps its first error, row groups are closed and checked one by
//     one, panics become errors (sink.go, arrow.go);
//   - the footer is held back, mended, compared with what was written, and only
//     then written (footer.go);
//   - lists have three levels and optional elements, pages are v1, created_by is
//     pinned (schema.go, arrow.go).
//
// A file that can be read is opened again at its end, and its rows compared.
//
// A file of any profile:
//
//	"PAR1"
//	row group…     ends after the batch that reaches RowGroupRows or RowGroupBytes
//	  column chunk…  a leaf of the schema, in its order
//	    [dictionary page]  PLAIN; see below
//	    data page…         v1: [levels] [levels] values, compressed as a whole;
//	                       cut after a chunk of 1,024 levels, or of PageBytes of
//	                       byte values, once it is full; rows are whole
//	footer         Thrift compact protocol, FileMetaData of parquet.thrift:
//	                 schema      the root without repetition type
//	                 row groups  total_byte_size uncompressed, file_offset 0 in
//	                             chunks, encodings and encoding_stats ascending,
//	                             statistics: null_count, min_value, max_value
//	                             (exact; none beyond 1,024 bytes, nor with NaN; zeros
//	                             as -0 and +0), no distinct_count
//	                 metadata    by ascending key
//	                 created_by  "sawlog version 1 (build parquet-profile-N)"
//	length of the footer, 4 bytes little-endian
//	"PAR1"
//
// Encodings are PLAIN and RLE_DICTIONARY, under profile 3 DELTA_BINARY_PACKED and
// DELTA_LENGTH_BYTE_ARRAY beside them unless Options.Plain. Where 1 and 2 differ:
//
//	                   profile 1                     profile 2
//	dictionary         unless it reached DictBytes   if it takes at most 7/8 of the
//	                   before the first page         values, indexes counted, in the
//	                                                 first 32,768 of them, or in the
//	                                                 first page; pages are PLAIN
//	                                                 from where it reached DictBytes
//	  none ever        booleans, _offset             the same
//	page is full at    PageBytes                     PageBytes, or max(1,024, min(
//	                                                 65,536, PageBytes/4)) levels
//	zstd by default    level 3                       level 3, or 1 from the first page of
//	                                                 64 KiB on, if it is at most 1/50
//	                                                 larger at level 1
//	levels, indexes    arrow's hybrid                runs from 8 × (1 + 4/width)
//	                                                 values on, at multiples of 8
//
// Where profile 3 differs from 2:
//
//	outside dictionaries   integers by differences, if that takes at most 3/4 of
//	                       PLAIN in the chunk's first page that has any; bytes of
//	                       any length by their lengths; PLAIN in pages of nulls
//	zstd by default        level tried on the first 128 KiB of the first page of
//	                       64 KiB on
//	zstd of any level      bytes without matches are packed by their frequency
//
// The bytes are a function of schema, options and batches. Reader shares no
// code with the encoders.
package parquet
