//go:build linux

package chaos

import (
	"slices"
	"testing"
)

// Rows that are the log's records are found so; each way not to be is seen.
func TestRowsAreCompared(t *testing.T) {
	h := sound()
	p := place{events, 0}
	all := func() []row {
		var rows []row
		for _, f := range h.Log[p] {
			rows = append(rows, row{p, f.Offset, f.value})
		}
		return rows
	}
	if got := checkRows(h, all(), true); len(got) != 0 {
		t.Errorf("the log's own: %v", got)
	}
	if got := checkRows(h, all()[:2], false); len(got) != 0 {
		t.Errorf("a part of the log: %v", got)
	}
	for name, rows := range map[string][]row{
		"one is missing":      all()[:4],
		"one is there twice":  append(all(), all()[0]),
		"one is of no offset": append(all(), row{p, 99, h.Log[p][0].value}),
		"one says otherwise":  append(slices.Delete(all(), 1, 2), row{p, 1, h.Log[p][0].value}),
	} {
		if got := checkRows(h, rows, true); len(got) == 0 {
			t.Errorf("%s: nothing was seen", name)
		}
	}
}

// What a probe was told says whether its record may be there.
func TestVerdicts(t *testing.T) {
	for code, want := range map[int16]verdict{0: acked, 19: refused, 20: unknown, 6: unknown, 7: unknown, 56: unknown} {
		if got := verdictOf(code); got != want {
			t.Errorf("error %d: verdict %d, want %d", code, got, want)
		}
	}
}
