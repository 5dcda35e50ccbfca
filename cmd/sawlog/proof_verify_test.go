package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"sawlog/broker/record"
	"sawlog/loader"
)

// againstLog verifies a data set against the log and wants the exit code.
func (n *node) againstLog(code int, args ...string) *loader.VerifyReport {
	n.t.Helper()
	out, got, said := n.try(append([]string{"verify", "--against-log", "-o", "json"}, args...)...)
	if got != code {
		n.t.Fatalf("verify --against-log %v: exit code %d, want %d: %s%s", args, got, code, out, said)
	}
	report := &loader.VerifyReport{}
	if err := json.Unmarshal(out, report); err != nil || report.Log == nil {
		n.t.Fatalf("%v: %s", err, out)
	}
	return report
}

// problem wants one that says all the texts.
func problem(t *testing.T, r *loader.VerifyReport, texts ...string) {
	t.Helper()
	for _, p := range r.Problems {
		line, all := p.Kind+" "+p.Path+" "+p.Detail, true
		for _, text := range texts {
			all = all && strings.Contains(line, text)
		}
		if all {
			return
		}
	}
	t.Errorf("no problem says %q: %+v", texts, r.Problems)
}

// TestProofVerifyAgainstLog holds a data set against the log it came from: as it
// was loaded, with files changed, with the log changed behind the server's back,
// after retention, and after the topic was made again.
func TestProofVerifyAgainstLog(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	n.ready()
	n.run("topic", "create", "held", "--partitions", "2", "--config", "retention.ms=-1")
	at := func(i int) string { return firstHour.Add(time.Duration(i) * 20 * time.Minute).Format(time.RFC3339) }
	for batch := range 6 {
		var records []*kgo.Record
		for i := range 10 {
			value := fmt.Appendf(nil, `{"at":%q,"n":%d}`, at(batch), 100+10*batch+i)
			records = append(records, &kgo.Record{Topic: "held", Partition: int32(i % 2), Value: value})
		}
		n.send(byHand("none"), records...)
	}
	path, root := n.job("held", numbersJob)
	n.run("job", "apply", path)
	n.run("run", "held", "--wait")
	n.send(byHand("none"), &kgo.Record{Topic: "held", Partition: 1, Value: fmt.Appendf(nil, `{"at":%q,"n":900}`, at(9))})
	n.run("run", "held", "--wait")
	// By the name the server knows, from the brokers of its job, and by the root.
	for _, args := range [][]string{{"held"}, {"--root", root}} {
		r := n.againstLog(0, args...)
		if !r.OK || r.Log.Rows != 61 || len(r.Log.Hours) != 3 || r.Log.Hours[0].Log != 30 || r.Log.Hours[0].Files != 30 || r.Log.Digested != r.Files {
			t.Errorf("%v: %+v", args, r.Log)
		}
	}
	run := commitOf(t, root, 1).Run
	if r := n.againstLog(0, run); r.Run != run || r.Log.Rows != 1 || len(r.Log.Hours) != 1 {
		t.Errorf("the second run alone: %+v", r.Log)
	}
	n.tamperedFile(root)
	n.tamperedLog(root)
	n.goneLog(root, run)
}

// tamperedFile puts the rows of one hour in place of another's.
func (n *node) tamperedFile(root string) {
	n.t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "dt=*", "hr=*", "*.parquet"))
	if err != nil || len(files) < 3 {
		n.t.Fatalf("%v: %v", files, err)
	}
	sound := mustRead(n.t, files[0])
	last := mustRead(n.t, files[len(files)-1])
	change(n.t, files[0], func([]byte) []byte { return last })
	r := n.againstLog(8, "--root", root)
	problem(n.t, r, "log", filepath.Base(files[0]), "hour "+r.Log.Hours[0].Hour, "held/", "the file that is there has 1", "offset 0 is not in the file")
	if h := r.Log.Hours[0]; h.State != loader.HourDiffers || h.Log != 30 || h.Files == 30 {
		n.t.Errorf("hour %+v", h)
	}
	if err := os.Remove(files[0]); err != nil {
		n.t.Fatal(err)
	}
	problem(n.t, n.againstLog(8, "--root", root), "missing", filepath.Base(files[0]))
	if err := os.WriteFile(files[0], sound, 0o644); err != nil {
		n.t.Fatal(err)
	}
	n.againstLog(0, "--root", root)
}

// tamperedLog rewrites one record of a segment, in a batch that is sound: nothing
// but the comparison tells.
func (n *node) tamperedLog(root string) {
	n.t.Helper()
	n.stop()
	segment := n.segment("held-0", "log")
	sound := mustRead(n.t, segment)
	for from, to := range map[string]string{
		`"n":124`: `"n":424`,
		firstHour.Add(40 * time.Minute).Format(time.RFC3339): firstHour.Add(100 * time.Minute).Format(time.RFC3339),
	} {
		change(n.t, segment, func(b []byte) []byte { return rewritten(n.t, sound, 2, from, to) })
		n.start()
		n.ready()
		r := n.againstLog(8, "--root", root)
		if strings.HasPrefix(from, `"n"`) {
			problem(n.t, r, "log", "hr=00", "held/0=", "rows of other values", "the offsets are the same")
		} else {
			problem(n.t, r, "log", "hr=00", "held/0=", "held/0 offset 10 of the file is not in the log")
			problem(n.t, r, "log", "hr=01", "held/0=", "held/0 offset 10 is not in the file")
		}
		if said := n.refused(8, nil, "verify", "--root", root, "--against-log"); !strings.Contains(said, r.Problems[0].Detail) {
			n.t.Errorf("it says %q", said)
		}
		n.clean(root) // the files are as the ledger says
		n.stop()
	}
	change(n.t, segment, func([]byte) []byte { return sound })
	n.start()
	n.ready()
	n.againstLog(0, "--root", root)
}

// rewritten is a segment in whose batch so many the text is another in one record.
func rewritten(t *testing.T, segment []byte, batch int, from, to string) []byte {
	t.Helper()
	var out []byte
	for rest := segment; len(rest) > 0; batch-- {
		b, tail, err := record.Split(rest)
		if err != nil {
			t.Fatal(err)
		}
		rest = tail
		if batch != 0 {
			out = append(out, b...)
			continue
		}
		w, once := record.NewBuilder(record.None, 0), false
		var it record.Iterator
		if err := it.Reset(b); err != nil {
			t.Fatal(err)
		}
		for it.Next() {
			r := *it.Record()
			if !once && strings.Contains(string(r.Value), from) {
				r.Value, once = []byte(strings.Replace(string(r.Value), from, to, 1)), true
			}
			w.Append(r)
		}
		made, err := w.Batch()
		if err != nil || !once || len(made) != len(b) {
			t.Fatalf("%q is not in the batch, or its length is another: %v", from, err)
		}
		made.Stamp(b.BaseOffset(), b.Epoch())
		out = append(out, made...)
	}
	return out
}

// goneLog has retention take what was loaded, and then the topic with its id.
func (n *node) goneLog(root, run string) {
	n.t.Helper()
	n.trim("held", 7)
	r := n.againstLog(8, "--root", root)
	if r.OK || len(r.Problems) != 0 || len(r.Log.Gone) != 1 || r.Log.Gone[0].Start != 0 || r.Log.Gone[0].End != 7 || !strings.Contains(r.Log.Gone[0].Why, "retention") {
		n.t.Errorf("after retention: %+v %+v", r.Problems, r.Log)
	}
	if h := r.Log.Hours; h[0].State != loader.HourGone || h[1].State != loader.HourEqual || h[2].State != loader.HourEqual {
		n.t.Errorf("hours %+v", h)
	}
	n.againstLog(0, run, "--root", root) // what it loaded is there
	n.run("topic", "delete", "held", "--yes")
	n.run("topic", "create", "held", "--partitions", "2")
	r = n.againstLog(8, "--root", root)
	if len(r.Problems) != 0 || len(r.Log.Gone) < 2 || !strings.Contains(r.Log.Gone[0].Why, "made again") {
		n.t.Errorf("after the topic was made again: %+v %+v", r.Problems, r.Log)
	}
	n.clean(root)
}
