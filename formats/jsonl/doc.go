// Package jsonl writes Columns as lines of JSON, one object a row, and reads
// them back.
//
// A file:
//
//	frame…      of about 1 MiB of lines: a zstd frame, a gzip member, or the
//	            lines themselves; together they are one zstd or gzip stream
//	  line…     {"column":value,…} and "\n"
//
// A line holds every column of the schema in its order, null where the row has
// no value, so the first line names them all. Values look as formats.Type has
// them (formats/render.go); a list is an array, a struct an object of all its
// members, a map an object in the order of its entries. No line holds a raw line
// break, so a file may be cut at any.
//
// A frame ends after the row that brings its lines to 1 MiB, and at the end of a
// batch. The bytes are a function of schema, options and batches.
package jsonl
