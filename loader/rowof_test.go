package loader

import (
	"context"
	"errors"
	"testing"

	"sawlog/offsets"
)

// tableRows are rows in memory.
type tableRows struct {
	columns []string
	rows    [][]string
}

func (t tableRows) Columns() []string { return t.columns }

func (t tableRows) Read(columns []string, from, n int64, fn func(row [][]byte) error) error {
	for _, row := range t.rows[from:] {
		var values [][]byte
		for _, c := range columns {
			for i := range t.columns {
				if t.columns[i] == c {
					values = append(values, []byte(row[i]))
				}
			}
		}
		if err := fn(values); err != nil {
			return err
		}
	}
	return nil
}

func TestRowOf(t *testing.T) {
	rows := [][]string{{"a", "0", "5"}, {"b", "1", "5"}, {"c", "0", "6"}}
	data := tableRows{[]string{"x", "_partition", "_offset"}, rows}
	for _, c := range []struct {
		partition int32
		at        offsets.Offset
		want      int64
	}{{0, 5, 0}, {1, 5, 1}, {0, 6, 2}, {1, 6, -1}} {
		if got, err := RowOf(t.Context(), data, c.partition, c.at); err != nil || got != c.want {
			t.Errorf("%d@%d: row %d %v, want %d", c.partition, c.at, got, err, c.want)
		}
	}
	bad := tableRows{[]string{"partition", "offset", "reason"}, [][]string{{"3", "9", "syntax"}}}
	if got, err := RowOf(t.Context(), bad, 3, 9); err != nil || got != 0 {
		t.Errorf("of the quarantine: %d %v", got, err)
	}
	bare := tableRows{[]string{"x"}, [][]string{{"a"}}}
	var coded *Error
	if _, err := RowOf(t.Context(), bare, 0, 5); !errors.As(err, &coded) || coded.Code != ExitNotFound || coded.Hint == "" {
		t.Errorf("without the columns: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := RowOf(ctx, data, 0, 5); !errors.Is(err, context.Canceled) {
		t.Errorf("of who went away: %v", err)
	}
}
