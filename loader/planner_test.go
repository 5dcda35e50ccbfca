package loader

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sawlog/broker/record"
	"sawlog/consumer"
	"sawlog/formats"
	"sawlog/offsets"
)

func bound(kind offsets.BoundKind, n int64) offsets.Bound { return offsets.Bound{Kind: kind, N: n} }

func query(start, end offsets.Bound) *offsets.Query { return &offsets.Query{Start: start, End: end} }

// texted is a rig whose topic holds n records with times 1000, 2000, … ms.
func texted(t *testing.T, partitions, n int) *rig {
	r := newRig(t, partitions)
	r.spec.Decode = formats.Options{Value: "text", Time: formats.TimeOptions{Field: []string{"_timestamp"}}}
	for p := range partitions {
		r.more(p, n)
	}
	return r
}

func (r *rig) more(partition, n int) {
	log := r.src.log("views", int32(partition))
	var recs []record.Record
	for i := range n {
		recs = append(recs, record.Record{Timestamp: (int64(log.end) + int64(i) + 1) * 1000, Value: []byte("x")})
	}
	log.put(r.t, 10, record.None, recs...)
}

func ranges(p *Plan) string {
	var out []string
	for i := range p.Inputs {
		in := &p.Inputs[i]
		text := fmt.Sprintf("%d:%s", in.Partition, in.Range)
		if in.Gap > 0 {
			text += fmt.Sprintf("(gap %d)", in.Gap)
		}
		out = append(out, text)
	}
	return strings.Join(out, " ")
}

func TestPlanFirstStart(t *testing.T) {
	for start, want := range map[string]string{
		"":                        "0:0..20 1:0..20",
		"earliest":                "0:0..20 1:0..20",
		"latest":                  "0:20..20 1:20..20",
		"@1970-01-01T00:00:05Z":   "0:4..20 1:4..20",
		"@1980-01-01":             "0:20..20 1:20..20",
		"group:old":               "0:0..20 1:7..20",
		"group:never-seen-before": "0:0..20 1:0..20",
	} {
		r := texted(t, 2, 20)
		r.src.groups["old views/1"] = 7
		r.spec.Start = start
		p, _ := r.plan(PlanAsk{})
		if got := ranges(p); got != want {
			t.Errorf("start %q: %s, want %s", start, got, want)
		}
	}
}

// TestPlanDoubtsAShortLog: a leader that was cut off doesn't know what came since;
// that its log ends before what was loaded is believed only if it stays so.
func TestPlanDoubtsAShortLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := texted(t, 1, 20)
		r.spec.Codec = "none" // an encoder made in a bubble is of no use outside
		r.load(PlanAsk{})
		r.more(0, 5)
		log := r.src.log("views", 0)
		whole := *log
		log.end, log.stable = 10, 10
		time.AfterFunc(3*time.Second, func() {
			r.src.mu.Lock()
			defer r.src.mu.Unlock()
			*log = whole
		})
		p, _ := r.plan(PlanAsk{})
		if got := ranges(p); got != "0:20..25" {
			t.Errorf("planned %s", got)
		}
		log.end, log.stable = 10, 10
		_, _, err := r.d.Plan(t.Context(), &r.spec, PlanAsk{})
		var short *consumer.ShortError
		if !errors.As(err, &short) || ExitCode(err) != ExitMismatch || short.Asked != 20 || short.LogEnd != 10 {
			t.Errorf("cut off for good: %v", err)
		}
	})
}

// A first run from the latest offset loads nothing, but keeps where it stood.
func TestRunFromLatestKeepsItsStart(t *testing.T) {
	r := texted(t, 1, 20)
	r.spec.Start = "latest"
	if out := r.load(PlanAsk{}); out.Status != StatusCommitted || out.Rows != 0 || out.Number != 0 {
		t.Errorf("first run %+v", out)
	}
	r.more(0, 5)
	if out := r.load(PlanAsk{}); out.Rows != 5 || out.Ranges[0].Start != 20 {
		t.Errorf("second run %+v", out)
	}
	// A topic that is empty so far has nothing to leave out.
	r = texted(t, 1, 0)
	if out := r.load(PlanAsk{}); out.Status != StatusCovered || out.Number != -1 {
		t.Errorf("empty topic %+v", out)
	}
}

func TestPlanBounds(t *testing.T) {
	at := func(sec int64) offsets.Bound { return offsets.Bound{Kind: offsets.AtTime, Time: time.Unix(sec, 0)} }
	for _, c := range []struct {
		q    *offsets.Query
		want string
	}{
		{query(bound(offsets.Earliest, 0), bound(offsets.Latest, 0)), "0:0..20 1:0..20"},
		{query(bound(offsets.AtOffset, 3), bound(offsets.AtOffset, 7)), "0:3..7 1:3..7"},
		{query(bound(offsets.AtOffset, 3), bound(offsets.AtOffset, 20)), "0:3..20 1:3..20"},
		{query(bound(offsets.FromEnd, 4), bound(offsets.FromEnd, 1)), "0:16..19 1:16..19"},
		{query(bound(offsets.AtOffset, 3), bound(offsets.PlusOffsets, 2)), "0:3..5 1:3..5"},
		{query(at(4), at(6)), "0:3..5 1:3..5"},
		{query(at(4), at(60)), "0:3..20 1:3..20"},
		{&offsets.Query{Topic: "views", Partitions: []int32{1}, Start: bound(offsets.AtOffset, 1), End: bound(offsets.Latest, 0)}, "1:1..20"},
		{query(bound(offsets.AtOffset, 30), bound(offsets.Latest, 0)), "0:30..30 1:30..30"},
	} {
		r := texted(t, 2, 20)
		p, _, err := r.d.Plan(t.Context(), &r.spec, PlanAsk{Bounds: c.q})
		if err != nil {
			t.Errorf("%+v: %v", c.q, err)
			continue
		}
		if got := ranges(p); got != c.want {
			t.Errorf("%+v: %s, want %s", c.q, got, c.want)
		}
	}
	r := texted(t, 2, 20)
	for code, q := range map[int]*offsets.Query{
		ExitUsage:    {Topic: "other", Start: bound(offsets.Earliest, 0), End: bound(offsets.Latest, 0)},
		ExitNotFound: {Partitions: []int32{7}, Start: bound(offsets.Earliest, 0), End: bound(offsets.Latest, 0)},
		ExitMismatch: query(bound(offsets.AtOffset, 3), bound(offsets.AtOffset, 99)),
	} {
		if _, _, err := r.d.Plan(t.Context(), &r.spec, PlanAsk{Bounds: q}); ExitCode(err) != code {
			t.Errorf("%+v: %v, want exit %d", q, err, code)
		}
	}
	// A tick takes only what was there by then.
	p, _ := r.plan(PlanAsk{UpTo: map[offsets.TopicPartition]offsets.Offset{{Topic: "views", Partition: 0}: 5}})
	if got := ranges(p); got != "0:0..5 1:0..20" {
		t.Errorf("up to: %s", got)
	}
	// Records that are not stable yet are left alone.
	r.src.log("views", 0).stable = 9
	if p, _ = r.plan(PlanAsk{}); ranges(p) != "0:0..9 1:0..20" {
		t.Errorf("unstable end: %s", ranges(p))
	}
}

// A load goes on where the ledger ends, and nowhere else.
func TestPlanGoesOnFromTheLedger(t *testing.T) {
	r := texted(t, 1, 20)
	r.load(PlanAsk{Bounds: query(bound(offsets.AtOffset, 5), bound(offsets.AtOffset, 12))})
	from := func(start, end int64) PlanAsk {
		return PlanAsk{Bounds: query(bound(offsets.AtOffset, start), bound(offsets.AtOffset, end))}
	}
	for _, c := range []struct {
		ask  PlanAsk
		want string
		code int
		says string
	}{
		{PlanAsk{}, "0:12..20", 0, ""},
		{from(12, 15), "0:12..15", 0, ""},
		{from(5, 12), "0:12..12", 0, ""}, // covered
		{from(6, 9), "0:12..12", 0, ""},  // covered
		{from(0, 9), "", ExitConflict, "continues at offset 12"},
		{from(9, 15), "", ExitConflict, "continues at offset 12"},
		{from(14, 18), "", ExitConflict, "continues at offset 12"},
	} {
		p, _, err := r.d.Plan(t.Context(), &r.spec, c.ask)
		switch {
		case ExitCode(err) != c.code || c.code != 0 && !strings.Contains(err.Error(), c.says):
			t.Errorf("%+v: %v, want exit %d", c.ask.Bounds, err, c.code)
		case err != nil:
			var e *Error
			if !errors.As(err, &e) || e.Hint == "" {
				t.Errorf("%+v: no hint what to do: %v", c.ask.Bounds, err)
			}
		case ranges(p) != c.want:
			t.Errorf("%+v: %s, want %s", c.ask.Bounds, ranges(p), c.want)
		}
	}
	ask := from(14, 18)
	ask.AcceptGap = "not needed"
	p, v := r.plan(ask)
	if ranges(p) != "0:12..18(gap 2)" || v.Rows != 4 || p.GapsBy != "test" {
		t.Errorf("accepted: %s, %d rows, by %q", ranges(p), v.Rows, p.GapsBy)
	}
	out, err := r.run(p)
	if err != nil || out.Rows != 4 || out.Ranges[0].Gap != 2 {
		t.Errorf("%+v %v", out, err)
	}
	if p, _ = r.plan(PlanAsk{}); ranges(p) != "0:18..20" {
		t.Errorf("after the gap: %s", ranges(p))
	}
}

// Case C3: loaded to 10, deleted below 15, load again.
func TestPlanGap(t *testing.T) {
	r := texted(t, 1, 10)
	r.load(PlanAsk{})
	r.more(0, 10)
	log := r.src.log("views", 0)
	log.start = 15
	_, _, err := r.d.Plan(t.Context(), &r.spec, PlanAsk{})
	var gap *consumer.GapError
	if ExitCode(err) != ExitMismatch || !errors.As(err, &gap) || gap.Asked != 10 || gap.LogStart != 15 {
		t.Fatalf("%v, want a gap 10..15 and exit 8", err)
	}
	out := r.load(PlanAsk{AcceptGap: "retention was too short"})
	if out.Rows != 5 || out.Ranges[0].Gap != 5 || out.Ranges[0].Start != 10 {
		t.Errorf("%+v", out)
	}
	// All of the rest is gone.
	r.more(0, 5)
	log.start = 25
	if out = r.load(PlanAsk{AcceptGap: "again"}); out.Status != StatusCommitted || out.Rows != 0 || out.Ranges[0].Gap != 5 {
		t.Errorf("%+v", out)
	}
	// The log is shorter than what was loaded.
	log.start, log.end, log.stable, log.batches = 0, 3, 3, log.batches[:1]
	if _, _, err = r.d.Plan(t.Context(), &r.spec, PlanAsk{}); ExitCode(err) != ExitMismatch {
		t.Errorf("short log: %v", err)
	}
}

// TestPlanGapOfTheFirstRun has retention overtake a first run that failed: no
// record holds where it started, its open plan does. Who starts elsewhere on
// purpose may.
func TestPlanGapOfTheFirstRun(t *testing.T) {
	r := texted(t, 2, 20)
	ctx, cancel := context.WithCancel(t.Context())
	r.d.Observe = func(e Event) {
		if e.Kind == "attempt" {
			cancel()
		}
	}
	p, _ := r.plan(PlanAsk{})
	if _, err := r.d.Run(ctx, p, RunAsk{Run: "first"}); ExitCode(err) != ExitInterrupted {
		t.Fatal(err)
	}
	r.d.Observe = nil
	r.src.log("views", 0).start = 12
	_, _, err := r.d.Plan(t.Context(), &r.spec, PlanAsk{})
	var gap *consumer.GapError
	if !errors.As(err, &gap) || ExitCode(err) != ExitMismatch || gap.Asked != 0 || gap.LogStart != 12 {
		t.Errorf("%v, want the gap of the plan that is open", err)
	}
	p, _ = r.plan(PlanAsk{AcceptGap: "too late"})
	if got := ranges(p); got != "0:0..20(gap 12) 1:0..20" {
		t.Errorf("planned %s", got)
	}
	r.spec.Start = "latest"
	if p, _ = r.plan(PlanAsk{}); ranges(p) != "0:20..20 1:20..20" {
		t.Errorf("from the end on purpose: %s", ranges(p))
	}
}

// A partition added later is loaded from its log start, whatever the first run
// was told.
func TestPlanAddedPartition(t *testing.T) {
	r := texted(t, 1, 20)
	r.spec.Start = "@1970-01-01T00:00:10Z"
	r.load(PlanAsk{})
	topic := r.src.topics[0]
	topic.partitions = append(topic.partitions, &sourceLog{start: 2, end: 2, stable: 2})
	r.more(1, 5)
	p, _ := r.plan(PlanAsk{})
	if ranges(p) != "0:20..20 1:2..7" {
		t.Errorf("%s", ranges(p))
	}
	// A topic made again under its name has another id, and starts anew.
	topic.id = offsets.TopicID{7}
	if p, _ = r.plan(PlanAsk{}); ranges(p) != "0:9..20 1:4..7" && ranges(p) != "0:9..20 1:7..7" {
		t.Errorf("another id: %s", ranges(p))
	}
}

func TestPlanRemembersCompaction(t *testing.T) {
	r := texted(t, 1, 10)
	r.src.topics[0].policy = "compact"
	r.load(PlanAsk{})
	r.src.topics[0].policy = "delete"
	r.more(0, 5)
	if p, _ := r.plan(PlanAsk{}); !p.Topics[0].Compact {
		t.Error("the holes of a topic that was compacted are errors now")
	}
}

func TestPlanResumesOnlyItsOwn(t *testing.T) {
	r := texted(t, 1, 20)
	p, _ := r.plan(PlanAsk{})
	l, err := r.d.Ledger(t.Context(), p.Dataset, p.Job)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.PutPlan(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	r.now = r.now.Add(time.Hour)
	r.more(0, 5)
	if got, v := r.plan(PlanAsk{}); v.Status != PreviewResume || PlanID(got) != PlanID(p) {
		t.Errorf("same job: %s", v.Status)
	}
	if _, v := r.plan(PlanAsk{Bounds: query(bound(offsets.AtOffset, 0), bound(offsets.AtOffset, 3))}); v.Status != PreviewReady {
		t.Errorf("another range: %s", v.Status)
	}
	r.spec.Codec = "snappy"
	if _, v := r.plan(PlanAsk{}); v.Status != PreviewReady {
		t.Errorf("another codec: %s", v.Status)
	}
	r.spec.Codec = ""
	r.src.log("views", 0).start = 5
	if _, _, err := r.d.Plan(t.Context(), &r.spec, PlanAsk{AcceptGap: "x"}); err != nil {
		t.Errorf("its records are gone: %v", err)
	}
}

func TestPreview(t *testing.T) {
	r := newRig(t, 1)
	r.src.log("views", 0).put(t, 2, record.None, lines(view(9, 0, "/a"), view(13, 1, "/b"), "bad", view(10, 0, "/c"))...)
	_, v := r.plan(PlanAsk{})
	if v.Exact || v.Rows != 4 || v.RowsAre != upperBound || v.HoursAre != estimate || len(v.Hours) != 5 || v.Hours[0].Hour != "2026-11-29T09:00:00Z" || v.Hours[0].Rows != nil || v.Bytes <= 0 {
		t.Errorf("estimate %+v", v)
	}
	_, v = r.plan(PlanAsk{Scan: true})
	if !v.Exact || v.Rows != 3 || v.Bad != 1 || v.RowsAre != exact || len(v.Hours) != 3 || v.Hours[2].Hour != "2026-11-29T13:00:00Z" || v.Hours[2].Rows == nil || *v.Hours[2].Rows != 1 || len(v.Columns) != 3 {
		t.Errorf("scan %+v", v)
	}
	if entries, err := r.d.Sink.List(""); err != nil || len(entries) != 0 {
		t.Errorf("a plan wrote %v, %v", entries, err)
	}
}

func TestSpecValidate(t *testing.T) {
	good := texted(t, 1, 1).spec
	for says, change := range map[string]func(*Spec){
		"no job name":                 func(s *Spec) { s.Name = "" },
		"no output root":              func(s *Spec) { s.Root = "" },
		"topics or a pattern":         func(s *Spec) { s.Topics = nil },
		"one of the two":              func(s *Spec) { s.Pattern = "x" },
		"merge_topics":                func(s *Spec) { s.Topics = []string{"a", "b"} },
		"declared schema":             func(s *Spec) { s.MergeTopics = true },
		"isolation \"x\"":             func(s *Spec) { s.Isolation = "x" },
		"source start \"yesterday\"":  func(s *Spec) { s.Start = "yesterday" },
		"source start \"group:\"":     func(s *Spec) { s.Start = "group:" },
		"output format \"orc\"":       func(s *Spec) { s.Format = "orc" },
		"codec \"lzo\"":               func(s *Spec) { s.Codec = "lzo" },
		"merge_partitions":            func(s *Spec) { s.Merge = "maybe" },
		"target file size -1":         func(s *Spec) { s.TargetBytes = -1 },
		"lateness -1s":                func(s *Spec) { s.Lateness = -time.Second },
		"max_bad":                     func(s *Spec) { s.MaxBad.PPM = 2_000_000 },
		"Europe/Nowhere":              func(s *Spec) { s.Zone = "Europe/Nowhere" },
		"partition path":              func(s *Spec) { s.Path = "x" },
		"decode":                      func(s *Spec) { s.Decode.Value = "xml" },
		"source pattern":              func(s *Spec) { s.Topics, s.Pattern = nil, "(" },
		"fetch bytes":                 func(s *Spec) { s.FetchBytes = -1 },
		"\"a\" is empty or stands tw": func(s *Spec) { s.Topics = []string{"a", "a"} },
	} {
		s := good
		change(&s)
		if err := s.Validate(); ExitCode(err) != ExitUsage || !strings.Contains(err.Error(), says) {
			t.Errorf("%v: want exit 2 with %q", err, says)
		}
	}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
}
