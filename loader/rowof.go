package loader

import (
	"context"
	"slices"
	"strconv"

	"sawlog/offsets"
)

// NoRow says why an offset that is covered has no row in any file.
const NoRow = "is accounted for and has no row: a control, aborted, compacted or skipped record, one that was gone when it was loaded (--accept-gap), or one that was dropped since"

// RowOf is the row of a file that a record has become, counted from 0; -1 = it is
// not in the file. A file whose rows do not say where they come from is an error.
func RowOf(ctx context.Context, r RowReader, partition int32, at offsets.Offset) (int64, error) {
	names := r.Columns()
	has := func(columns ...string) bool {
		return !slices.ContainsFunc(columns, func(c string) bool { return !slices.Contains(names, c) })
	}
	columns := []string{"_partition", "_offset"}
	switch {
	case has("partition", "offset", "reason"): // a quarantine file
		columns = []string{"partition", "offset"}
	case !has(columns...):
		e := fail(ExitNotFound, "the file has no columns _partition and _offset: which row it is can't be told")
		return -1, e.hint("metadata_columns: [_partition, _offset] in the job gives later files these columns")
	}
	want := [2]string{strconv.Itoa(int(partition)), strconv.FormatInt(int64(at), 10)}
	row, n := int64(-1), int64(0)
	err := r.Read(columns, 0, -1, func(values [][]byte) error {
		if row < 0 && string(values[0]) == want[0] && string(values[1]) == want[1] {
			row = n
		}
		n++
		return ctx.Err()
	})
	return row, err
}
