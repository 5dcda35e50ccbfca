package log

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

// TestSyncedRecordsGone cuts bytes off a log that were synced: the start tells
// it as an error that names the folder, and goes on with what is left. A tail
// that was never synced is no error: a power cut takes it.
func TestSyncedRecordsGone(t *testing.T) {
	for name, flushed := range map[string]bool{"synced": true, "not synced": false} {
		fs, segs := killed(t, flushed)
		last := segs[len(segs)-1]
		change(t, fs, last.Path, func(b []byte) []byte { return b[:last.Size-1] })
		var said bytes.Buffer
		c := testDisk()
		c.Logger = slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelError}))
		d, err := OpenDisk(fs, "data", c)
		must(t, err)
		l, ok := d.Log(testTP, testID)
		if !ok {
			t.Fatal("the log is not there")
		}
		if told := strings.Contains(said.String(), l.path) && strings.Contains(said.String(), "synced records are gone"); told != flushed {
			t.Errorf("%s: told %v: %s", name, told, said.String())
		}
		fill(t, l, 110)
		must(t, d.Close())
	}
}
