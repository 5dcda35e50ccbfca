package parquet

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"sawlog/formats"
)

// containerRows are the real containers and the rows each must give; those that
// are broken give the rows before the damage.
var containerRows = map[string]int{
	"alltypes_dictionary": 2, "alltypes_nulls_plain": 1, "alltypes_plain": 8, "alltypes_plain.bzip2": 8, "alltypes_plain.snappy": 8,
	"alltypes_plain.xz": 8, "alltypes_plain.zstandard": 8, "arrow-go-arrayrecordmap": 1, "arrow-go-githubsamplecommits": 100,
	"avro-1237-bad-union-discriminant": 1, "avro-1237-good": 2, "avro-1238-good": 2, "avro-1238-truncated": 0, "avro-1279-codec": 3,
	"avro-1279-no-codec": 3, "avro-simple-data": 3, "avro-withUnion-data": 3, "binary": 12, "datapage_v2.snappy": 5,
	"dict-page-offset-zero": 39, "duration_uuid": 4, "fixed256_decimal": 24, "fixed_length_decimal": 24, "fixed_length_decimal_legacy": 24,
	"fixed_length_decimal_legacy_32": 24, "int128_decimal": 24, "int256_decimal": 24, "int32_decimal": 24, "int64_decimal": 24,
	"list_columns": 3, "nested_lists.snappy": 3, "nested_records": 2, "nonnullable.impala": 1, "nullable.impala": 7, "nulls.snappy": 8,
	"person-10": 10, "person-10.no-codec": 10, "repeated_no_annotation": 6, "simple_enum": 4, "simple_fixed": 2, "single_nan": 1,
	"syncInMeta": 6001, "timestamp_logical_types": 2, "weather-deflate": 5, "weather-snappy": 5, "weather-sorted": 5, "weather-zstd": 5,
	"weather": 5, "zero_byte": 3,
}

// TestAvroContainers loads every record of the real Avro containers and
// compares each value of each row with what another implementation reads.
func TestAvroContainers(t *testing.T) {
	for name, want := range containerRows {
		t.Run(name, func(t *testing.T) {
			c := openContainer(t, "schemas/avro-files/"+name+".avro")
			if c.broken != nil && len(c.values) > want { // a value that ends it
				_, bad := decodeAvro(t, avroOptions(c.schema), c.values[want:])
				if record := new(formats.BadRecord); !errors.As(bad[0], &record) || record.Reason != formats.BadSyntax {
					t.Errorf("the broken value: %v", bad[0])
				}
				c.values, c.read = c.values[:want], c.read[:want]
			}
			if len(c.values) != want {
				t.Fatalf("%d records, want %d (%v)", len(c.values), want, c.broken)
			}
			sameAvro(t, c.schema, c.values, c.read)
		})
	}
}

// TestAvroBeforeContainers refuses a file from before the format was fixed.
func TestAvroBeforeContainers(t *testing.T) {
	data, err := os.ReadFile(realFile(t, "schemas/avro-files/test.avro12"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cutContainer(t, data); err == nil {
		t.Error("was read")
	}
}

// TestAvroFlights loads the larger real container.
func TestAvroFlights(t *testing.T) {
	c := openContainer(t, "airline/airlineStats_data.avro")
	if len(c.values) != 9746 {
		t.Fatalf("%d records", len(c.values))
	}
	decoded, bad := decodeAvro(t, avroOptions(c.schema), c.values)
	if err := errors.Join(bad...); err != nil || decoded.Rows() != len(c.values) {
		t.Errorf("%d rows, %v", decoded.Rows(), err)
	}
	var values [][]byte
	var read []any
	for i := 0; i < len(c.values); i += 23 { // comparing all takes long
		values, read = append(values, c.values[i]), append(read, c.read[i])
	}
	sameAvro(t, c.schema, values, read)
}

// TestAvroTwins compares what pyarrow reads in our file with what it reads in
// the Parquet file that others made of the same rows.
func TestAvroTwins(t *testing.T) {
	for _, name := range []string{
		"alltypes_dictionary", "alltypes_plain", "binary", "datapage_v2.snappy", "dict-page-offset-zero", "fixed_length_decimal",
		"fixed_length_decimal_legacy", "int32_decimal", "int64_decimal", "list_columns", "nested_lists.snappy", "nonnullable.impala",
		"nullable.impala", "nulls.snappy", "single_nan",
	} {
		t.Run(name, func(t *testing.T) {
			c := openContainer(t, "schemas/avro-files/"+name+".avro")
			path, _ := sameAvro(t, c.schema, c.values, c.read)
			var ours, twin foreignFile
			foreign(t, &ours, "pyarrow", path)
			foreign(t, &twin, "pyarrow", realFile(t, "parquet-testing/data/"+name+".parquet"))
			for _, f := range []*foreignFile{&ours, &twin} {
				for _, row := range f.Rows {
					sortMaps(row)
					for column, kind := range f.Schema {
						if n, ok := row[column].(float64); ok && kind == "timestamp[ns]" {
							row[column] = n / 1000 // the other is in microseconds
						}
					}
				}
			}
			if len(ours.Rows) != len(twin.Rows) {
				t.Fatalf("%d rows, want %d", len(ours.Rows), len(twin.Rows))
			}
			for i := range ours.Rows {
				if !reflect.DeepEqual(ours.Rows[i], twin.Rows[i]) {
					t.Errorf("row %d:\n%v\nwant\n%v", i, ours.Rows[i], twin.Rows[i])
				}
			}
		})
	}
}

// sortMaps orders the entries of maps, which have no order.
func sortMaps(v any) {
	switch v := v.(type) {
	case map[string]any:
		for name, x := range v {
			if entries, ok := x.([]any); ok && name == "map" {
				slices.SortFunc(entries, func(a, b any) int {
					return strings.Compare(fmt.Sprint(a.([]any)[0]), fmt.Sprint(b.([]any)[0]))
				})
			}
			sortMaps(x)
		}
	case []any:
		for _, x := range v {
			sortMaps(x)
		}
	}
}

// realFile is the path of a real input.
func realFile(t *testing.T, name string) string {
	t.Helper()
	root := os.Getenv("SAWLOG_TEST_DATA")
	if root == "" {
		dir, err := os.Getwd()
		if err != nil {
			t.Fatal(err)
		}
		project, _, _ := strings.Cut(dir, string(filepath.Separator)+filepath.Join("formats", "parquet"))
		root = filepath.Join(project, "..", "shared", "data")
	}
	path := filepath.Join(root, name)
	if _, err := os.Stat(path); err != nil {
		missing(t, "real data "+name, err)
	}
	return path
}
