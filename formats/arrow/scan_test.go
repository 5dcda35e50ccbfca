package arrow

import (
	"bytes"
	"testing"

	"sawlog/formats"
	"sawlog/formats/formatstest"
)

// scans begins to read a file of columns.
func scans(t *testing.T) formatstest.Scans {
	return func(c *formats.Columns, s *formats.Schema) (formatstest.Scan, error) {
		data := file(t, Options{}, c)
		r, err := Open(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			t.Fatal(err)
		}
		return r.Scan(s)
	}
}

func TestScan(t *testing.T) { formatstest.ScansAll(t, scans(t), rows(t)) }

func TestScanWider(t *testing.T) { formatstest.ScansWider(t, scans(t)) }

func TestScanRefuses(t *testing.T) { formatstest.ScansRefuse(t, scans(t), true) }

func TestScanHeads(t *testing.T) { formatstest.ScansHeads(t, scans(t)) }
