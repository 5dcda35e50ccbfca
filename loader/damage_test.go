package loader

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"sawlog/loader/sink"
)

// counting counts the records read.
type counting struct {
	sink.Sink
	records int
}

func (s *counting) ReadFile(name string) ([]byte, error) {
	data, err := s.Sink.ReadFile(name)
	if err == nil && strings.HasPrefix(name, LedgerDir) {
		s.records++
	}
	return data, err
}

// longLedger is a ledger of n records.
func longLedger(t *testing.T, s sink.Sink, n int) *source {
	t.Helper()
	src := &source{}
	l := src.open(t, s)
	for i := range int64(n) {
		src.mustRun(t, l, fakePlan(l.Fold(), span{0, i * 3, i*3 + 3}), fmt.Sprintf("run-%d", i))
	}
	return src
}

func TestCheckpoints(t *testing.T) {
	mem := memSink()
	src := longLedger(t, mem, 230)
	open := func() (*Ledger, int) {
		t.Helper()
		s := &counting{Sink: mem}
		return src.open(t, s), s.records
	}
	l, read := open()
	want := mustEncode(t, l.Fold())
	if n := l.checkpoints(); fmt.Sprint(n) != "[99 199]" {
		t.Fatalf("checkpoints %v", n)
	}
	if read != 31 { // record 199 itself, and 30 after it
		t.Errorf("%d records read, want 31", read)
	}
	for _, c := range []struct {
		name   string
		damage func([]byte) []byte
		read   int
	}{
		{CheckpointPath(199), func(b []byte) []byte { return b[:len(b)/2] }, 131},
		{CheckpointPath(99), func(b []byte) []byte { b[len(b)/2] ^= 1; return b }, 230},
		{CheckpointPath(199), func([]byte) []byte { return nil }, 230},
	} {
		rewrite(mem, c.name, c.damage)
		l, read := open()
		if have := mustEncode(t, l.Fold()); have != want {
			t.Errorf("%s damaged: another fold", c.name)
		}
		if read != c.read {
			t.Errorf("%s damaged: %d records read, want %d", c.name, read, c.read)
		}
	}
	sound(t, l)
	// A checkpoint of another ledger is not believed either.
	other := memSink()
	otherSrc := longLedger(t, other, 100)
	body, err := other.ReadFile(CheckpointPath(99))
	if err != nil {
		t.Fatal(err)
	}
	rewrite(mem, CheckpointPath(99), func([]byte) []byte { return body })
	if l, _ := open(); mustEncode(t, l.Fold()) != want {
		t.Error("the checkpoint of another ledger was believed")
	}
	// One ahead of the ledger is passed over.
	if err := other.RemoveAll(LedgerDir + "/000000000099"); err != nil {
		t.Fatal(err)
	}
	if l := otherSrc.open(t, other); l.Fold().Head != 98 {
		t.Errorf("head %d", l.Fold().Head)
	}
}

// TestDamagedLedger damages each record in each way: the error is exit 8 and
// names the record.
func TestDamagedLedger(t *testing.T) {
	mem := memSink()
	src := longLedger(t, mem, 5)
	whole := tree(t, mem, LedgerDir)
	ways := map[string]func(n int) error{
		"cut":     func(n int) error { return change(mem, n, func(b []byte) []byte { return b[:len(b)*2/3] }) },
		"emptied": func(n int) error { return change(mem, n, func([]byte) []byte { return nil }) },
		"flipped": func(n int) error { return change(mem, n, func(b []byte) []byte { b[len(b)/2] ^= 2; return b }) },
		"swapped": func(n int) error {
			return change(mem, n, func([]byte) []byte { return []byte(whole[RecordPath(int64(n+1)%5)]) })
		},
		"removed": func(n int) error { return mem.RemoveAll(RecordPath(int64(n))) },
		"folder removed": func(n int) error {
			return mem.RemoveAll(strings.TrimSuffix(RecordPath(int64(n)), "/"+commitName))
		},
		"rewritten": func(n int) error {
			rec, _, err := readRecord(mem, int64(n))
			if err != nil {
				return err
			}
			rec.By = "somebody else"
			data, _, err := rec.Encode()
			return errors.Join(err, change(mem, n, func([]byte) []byte { return data }))
		},
	}
	for name, damage := range ways {
		for n := range 5 {
			t.Run(fmt.Sprintf("%s/%d", name, n), func(t *testing.T) {
				defer func() {
					for file, body := range whole {
						if err := errors.Join(mem.RemoveAll(file), mem.MkdirAll(file[:strings.LastIndexByte(file, '/')]),
							sink.Write(mem, file, []byte(body))); err != nil {
							t.Fatal(err)
						}
					}
				}()
				if err := damage(n); err != nil {
					t.Fatal(err)
				}
				_, err := OpenLedger(t.Context(), mem, "views", "views-hourly", src.config(mem))
				last := n == 4
				switch {
				case last && (name == "removed" || name == "folder removed"):
					if err != nil {
						t.Errorf("a ledger that ends one record earlier: %v", err)
					}
					return
				case last && name == "rewritten":
					return // nothing holds the hash of the last record
				case name == "rewritten":
					exits(t, err, ExitMismatch, fmt.Sprintf("ledger record %d", n+1), "prev")
				default:
					exits(t, err, ExitMismatch, fmt.Sprintf("ledger record %d (%s)", n, RecordPath(int64(n))))
				}
				var e *Error
				if !errors.As(err, &e) || !strings.Contains(e.Hint, "restore") {
					t.Errorf("error %v tells no way out", err)
				}
			})
		}
	}
}

func change(s sink.Sink, n int, how func([]byte) []byte) error {
	name := RecordPath(int64(n))
	body, err := s.ReadFile(name)
	return errors.Join(err, s.Remove(name), sink.Write(s, name, how(body)))
}

// TestEmptySlot has a folder without a record above the head, as a writer that
// died leaves it: it is no hole, and its number is still to be won.
func TestEmptySlot(t *testing.T) {
	mem := memSink()
	src := longLedger(t, mem, 2)
	if err := mem.MkdirAll(LedgerDir + "/000000000002"); err != nil {
		t.Fatal(err)
	}
	if err := sink.Write(mem, LedgerDir+"/000000000002/.commit.json.01.tmp", []byte("half")); err != nil {
		t.Fatal(err)
	}
	l := src.open(t, mem)
	if l.Fold().Head != 1 {
		t.Fatalf("head %d", l.Fold().Head)
	}
	if rec := src.mustRun(t, l, fakePlan(l.Fold(), span{0, 6, 9}), "run-2"); rec.Number != 2 {
		t.Errorf("number %d", rec.Number)
	}
	if err := mem.MkdirAll(LedgerDir + "/000000000004"); err != nil {
		t.Fatal(err)
	}
	_, err := OpenLedger(t.Context(), mem, "", "", src.config(mem))
	exits(t, err, ExitMismatch, "ledger record 3", "missing")
}

// TestDamagedVerify has verify name a damaged record below a good checkpoint,
// and a damaged plan.
func TestDamagedVerify(t *testing.T) {
	mem := memSink()
	src := longLedger(t, mem, 105)
	rewrite(mem, RecordPath(50), func(b []byte) []byte { b[len(b)/2] ^= 2; return b })
	l := src.open(t, mem)
	report, err := l.Verify(t.Context(), "")
	exits(t, err, ExitMismatch, RecordPath(50))
	if len(report.Problems) != 1 || report.Problems[0].Kind != "ledger" || report.OK {
		t.Errorf("report %+v", report)
	}
	rewrite(mem, RecordPath(50), func(b []byte) []byte { b[len(b)/2] ^= 2; return b })
	sound(t, l)
	rec, _, err := readRecord(mem, 50)
	if err != nil {
		t.Fatal(err)
	}
	rewrite(mem, PlanPath(rec.Plan), func(b []byte) []byte { return b[1:] })
	report, err = l.Verify(t.Context(), "")
	exits(t, err, ExitMismatch, PlanPath(rec.Plan))
	if len(report.Problems) != 1 || report.Problems[0].Kind != "plan" {
		t.Errorf("report %+v", report)
	}
}
