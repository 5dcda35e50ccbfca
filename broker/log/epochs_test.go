package log

import (
	"errors"
	"fmt"
	"testing"

	"sawlog/broker/record"
	"sawlog/broker/vfs"
	"sawlog/offsets"
)

func TestEpochsEndFor(t *testing.T) {
	e := epochs{{2, 10}, {5, 30}, {6, 30}, {9, 40}}
	for _, c := range []struct {
		ask, epoch offsets.Epoch
		end        offsets.Offset
	}{
		{-1, -1, -1}, {0, 0, 10}, {2, 2, 30}, {4, 2, 30}, {5, 5, 30}, {6, 6, 40}, {8, 6, 40}, {9, 9, 55}, {12, 9, 55},
	} {
		if epoch, end := e.endFor(c.ask, 55); epoch != c.epoch || end != c.end {
			t.Errorf("end for %d: %d %d, want %d %d", c.ask, epoch, end, c.epoch, c.end)
		}
	}
	if epoch, end := epochs(nil).endFor(3, 55); epoch != offsets.NoEpoch || end != -1 {
		t.Errorf("of nothing: %d %d", epoch, end)
	}
}

func TestEpochsChange(t *testing.T) {
	e := epochs{{2, 10}, {5, 30}, {6, 30}, {9, 40}}
	grown, changed := append(epochs(nil), e...).assign(12, 41)
	for name, c := range map[string]struct{ got, want any }{
		"cut end in an epoch":    {e.cutEnd(35), epochs{{2, 10}, {5, 30}, {6, 30}}},
		"cut end at a start":     {e.cutEnd(30), epochs{{2, 10}}},
		"cut start in an epoch":  {e.cutStart(35), epochs{{6, 35}, {9, 40}}},
		"cut start at a start":   {e.cutStart(40), epochs{{9, 40}}},
		"cut start beyond":       {e.cutStart(90), epochs{{9, 90}}},
		"cut start before":       {e.cutStart(3), e},
		"assign":                 {grown, append(append(epochs(nil), e...), epochStart{12, 41})},
		"assign changed":         {changed, true},
		"merge with the batches": {e.merge(epochs{{2, 10}, {3, 20}, {9, 40}}), epochs{{2, 10}, {3, 20}, {5, 30}, {6, 30}, {9, 40}}},
		"merge with other past":  {epochs{{2, 50}}.merge(epochs{{1, 0}, {3, 20}}), epochs{{1, 0}, {3, 20}}},
		"merge with nothing":     {epochs(nil).merge(epochs{{1, 0}}), epochs{{1, 0}}},
		"in force":               {e.at(39), offsets.Epoch(6)},
	} {
		if fmt.Sprint(c.got) != fmt.Sprint(c.want) {
			t.Errorf("%s: %v, want %v", name, c.got, c.want)
		}
	}
	if _, changed := e.assign(9, 99); changed {
		t.Error("assigning a known epoch changed something")
	}
}

// TestEpochsSurvive keeps epochs that wrote nothing, and those of batches.
func TestEpochsSurvive(t *testing.T) {
	fs, d, l := onMem(t, small())
	for epoch := range 5 {
		_, err := l.Append([]record.Batch{batch(t, 0, 10)}, Append{Epoch: offsets.Epoch(epoch), Now: testNow})
		must(t, err)
	}
	must(t, d.Assign([]Assignment{{l, 7}, {l, 7}, {l, 3}}))
	must(t, d.Assign([]Assignment{{l, 8}}))
	check := func(l *Log, after string) {
		t.Helper()
		for ask, want := range map[offsets.Epoch]string{0: "0 10", 2: "2 30", 4: "4 50", 6: "4 50", 7: "7 50", 8: "8 50", 9: "8 50"} {
			epoch, end := l.EndOffsetFor(ask)
			if got := fmt.Sprint(epoch, " ", end); got != want {
				t.Fatalf("%s: end for %d: %s, want %s", after, ask, got, want)
			}
		}
		if l.Epoch() != 8 || l.EpochAt(35) != 3 {
			t.Fatalf("%s: epoch %d, at 35 %d", after, l.Epoch(), l.EpochAt(35))
		}
	}
	check(l, "at first")
	_, killed := reopen(t, fs.CrashClone(nil))
	check(killed, "kill")

	// The journal is lost: what wrote batches is found in them.
	lost := fs.CrashClone(nil)
	must(t, lost.Remove("data/"+epochsName))
	_, l2 := reopen(t, lost)
	if epoch, end := l2.EndOffsetFor(2); epoch != 2 || end != 30 || l2.Epoch() != 4 {
		t.Fatalf("without journal: %d %d, latest %d", epoch, end, l2.Epoch())
	}

	// One damaged record hides no other.
	bent := fs.CrashClone(nil)
	b, err := vfs.ReadFile(bent, "data/"+epochsName)
	must(t, err)
	b[journalHeader+2*journalRecord+20] ^= 1 // epoch 2
	must(t, vfs.Replace(bent, "data/"+epochsName, b))
	_, l3 := reopen(t, bent)
	check(l3, "damaged record")
	must(t, d.Close())
	d, l = reopen(t, fs)
	check(l, "clean restart")
	must(t, l.Truncate(35))
	if epoch, end := l.EndOffsetFor(8); epoch != 2 || end != 30 || l.End() != 30 {
		t.Fatalf("after truncation: %d %d, log end %d", epoch, end, l.End())
	}
	must(t, d.Close())
}

// TestJournalIsRewritten keeps the journal small and what it says.
func TestJournalIsRewritten(t *testing.T) {
	fs, d, l := onMem(t, small())
	fill(t, l, 100)
	must(t, l.Flush())
	for i := range 3000 {
		to := offsets.Offset(95 - 5*(i%2))
		must(t, l.Truncate(to))
		fill(t, l, 100)
	}
	must(t, d.Assign([]Assignment{{l, 40}}))
	must(t, l.DeleteBefore(12))
	st, err := fs.Stat("data/" + epochsName)
	must(t, err)
	must(t, d.Tick(d.config.Now()))
	now, err := fs.Stat("data/" + epochsName)
	must(t, err)
	if now.Size() >= st.Size() || now.Size() > 1000 {
		t.Fatalf("journal has %d bytes, had %d", now.Size(), st.Size())
	}
	_, killed := reopen(t, fs.CrashClone(nil))
	if killed.Epoch() != 40 || killed.Start() != 12 || killed.End() != 100 {
		t.Fatalf("epoch %d, start %d, end %d", killed.Epoch(), killed.Start(), killed.End())
	}
	must(t, d.Close())
}

// TestEpochsThatWroteNothingGiveWay follows a leader whose records are of an
// older epoch than one in which this broker led without writing.
func TestEpochsThatWroteNothingGiveWay(t *testing.T) {
	fs := vfs.NewMem()
	d, err := OpenDisk(fs, "/data", DiskConfig{})
	if err != nil {
		t.Fatal(err)
	}
	tp := offsets.TopicPartition{Topic: "t"}
	l, err := d.Create(tp, offsets.TopicID{1}, DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	stamped := func(base offsets.Offset, epoch offsets.Epoch) []byte {
		b := batch(t, int(base), 10)
		b.Stamp(base, epoch)
		return b
	}
	if err := l.AppendReplica(stamped(0, 4)); err != nil {
		t.Fatal(err)
	}
	if err := d.Assign([]Assignment{{Log: l, Epoch: 6}, {Log: l, Epoch: 7}}); err != nil {
		t.Fatal(err)
	}
	journal, err := vfs.ReadFile(fs, "/data/"+epochsName)
	if err != nil {
		t.Fatal(err)
	}
	both := append(stamped(10, 5), stamped(20, 5)...)
	if err := l.AppendReplica(append(stamped(10, 5), stamped(20, 4)...)); !errors.Is(err, record.ErrInvalid) {
		t.Errorf("two batches whose epochs go back: %v", err)
	}
	if err := l.AppendReplica(both); err != nil {
		t.Fatal(err)
	}
	check := func(l *Log) {
		t.Helper()
		if got := l.LastEpoch(); got != 5 {
			t.Errorf("last epoch %d", got)
		}
		for asked, want := range map[offsets.Epoch]epochStart{4: {4, 10}, 5: {5, 30}, 7: {5, 30}} {
			if epoch, end := l.EndOffsetFor(asked); epoch != want.Epoch || end != want.Start {
				t.Errorf("epoch %d ends at %d in %d, want %v", asked, end, epoch, want)
			}
		}
	}
	check(l)
	if err := l.AppendReplica(stamped(30, 4)); !errors.Is(err, record.ErrInvalid) {
		t.Errorf("an older epoch's batch after a younger one's: %v", err)
	}
	check(l)
	killed, cut := fs.CrashClone(nil), fs.CrashClone(nil)
	if err := vfs.Replace(cut, "/data/"+epochsName, journal); err != nil { // the power went before it was synced
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	for name, fs := range map[string]*vfs.Mem{"stopped": fs, "killed": killed, "cut off": cut} {
		d, err := OpenDisk(fs, "/data", DiskConfig{})
		if err != nil {
			t.Fatal(err)
		}
		l, ok := d.Log(tp, offsets.TopicID{1})
		if !ok {
			t.Fatal(name)
		}
		check(l)
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
