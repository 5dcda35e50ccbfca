package formatstest

import (
	"strings"
	"testing"

	"sawlog/formats"
)

// Columns decodes JSON values into columns declared as "name type", behind
// _partition, which is 1, and _offset.
func Columns(tb testing.TB, declared []string, values ...string) *formats.Columns {
	tb.Helper()
	s := &formats.Schema{}
	for _, column := range declared {
		name, text, _ := strings.Cut(column, " ")
		typ, err := formats.ParseType(text)
		if err != nil {
			tb.Fatal(err)
		}
		s.Fields = append(s.Fields, formats.Field{Name: name, Type: typ})
	}
	o := formats.Options{Value: "json", Time: formats.TimeOptions{Field: []string{"_timestamp"}, Zone: "UTC"}}
	s, err := o.Base(s)
	if err != nil {
		tb.Fatal(err)
	}
	d, err := formats.NewDecoder(s, o)
	if err != nil {
		tb.Fatal(err)
	}
	c := formats.NewColumns(s)
	for i, v := range values {
		if _, err := d.Append(c, &formats.Message{Partition: 1, Offset: int64(i), Timestamp: 1, Value: []byte(v)}); err != nil {
			tb.Fatalf("value %d: %v", i, err)
		}
	}
	return c
}
