package loader

import (
	"fmt"
	"testing"
	"time"

	"sawlog/offsets"
)

func TestSealHours(t *testing.T) {
	const hour = int64(3600)
	end := func(h int64) int64 { return h + hour }
	at := func(h, minutes int64) int64 { return (hourZero + h*hour + minutes*60) * 1e6 }
	type partition struct {
		n         int32
		watermark int64 // of the commit
		idle      bool  // loaded to the last stable offset
	}
	for name, c := range map[string]struct {
		before   []partition // partitions of the fold
		planned  []partition
		lateness int64 // minutes
		now      int64 // of the plan
		hours    []int64
		sealed   []int64 // sealed before
		want     []int64
	}{
		"all passed":           {nil, []partition{{0, at(2, 30), false}, {1, at(2, 0), false}}, 0, 0, []int64{0, 1, 2}, nil, []int64{0, 1}},
		"one behind":           {nil, []partition{{0, at(2, 30), false}, {1, at(1, 59), false}}, 0, 0, []int64{0, 1, 2}, nil, []int64{0}},
		"lateness":             {nil, []partition{{0, at(2, 29), false}}, 30, 0, []int64{0, 1}, nil, []int64{0}},
		"lateness passed":      {nil, []partition{{0, at(2, 30), false}}, 30, 0, []int64{0, 1}, nil, []int64{0, 1}},
		"idle":                 {nil, []partition{{0, at(2, 0), false}, {1, NoWatermark, true}}, 0, at(9, 0), []int64{0, 1}, nil, []int64{0, 1}},
		"idle at the end":      {nil, []partition{{0, at(0, 10), true}}, 0, at(1, 0), []int64{0}, nil, nil},
		"idle after the end":   {nil, []partition{{0, at(0, 10), true}}, 0, at(1, 0) + 1000, []int64{0}, nil, []int64{0}},
		"never any data":       {nil, []partition{{0, at(5, 0), false}, {1, NoWatermark, false}}, 0, at(9, 0), []int64{0}, nil, nil},
		"not planned, behind":  {[]partition{{7, at(0, 10), false}}, []partition{{0, at(5, 0), true}}, 0, at(9, 0), []int64{0}, nil, nil},
		"not planned, passed":  {[]partition{{7, at(1, 10), false}}, []partition{{0, at(5, 0), true}}, 0, at(9, 0), []int64{0, 1}, nil, []int64{0}},
		"watermark of old":     {[]partition{{0, at(3, 0), false}}, []partition{{0, at(1, 0), false}}, 0, 0, []int64{2}, nil, []int64{2}},
		"sealed stays sealed":  {nil, []partition{{0, at(5, 0), false}}, 0, 0, []int64{0, 1}, []int64{0}, []int64{1}},
		"no partition, no end": {nil, nil, 0, at(9, 0), []int64{0}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			f := NewFold()
			for _, p := range c.before {
				f.Partitions[PartitionKey{fakeCluster, fakeTopic, p.n}] = &Partition{Topic: "views", Watermark: p.watermark}
			}
			f.Head = 0
			for _, h := range c.sealed {
				f.Hours[hourZero+h*hour] = &Hour{Rows: 1, Sealed: 0}
			}
			p := &Plan{Cluster: fakeCluster, Now: c.now / 1000, Bucket: Bucket{Lateness: c.lateness * 60_000}}
			var inputs []Input
			for _, part := range c.planned {
				in := PlanInput{Topic: "views", TopicID: fakeTopic, Partition: part.n, Range: offsets.Range{End: 10}, LastStable: 11}
				if part.idle {
					in.LastStable = 10
				}
				p.Inputs = append(p.Inputs, in)
				inputs = append(inputs, Input{Cluster: fakeCluster, TopicID: fakeTopic, Topic: "views", Partition: part.n, Watermark: part.watermark})
			}
			var files []File
			for _, h := range c.hours {
				key := hourZero + h*hour
				files = append(files, File{Hour: &key, Rows: 1})
			}
			files = append(files, File{}) // quarantine
			var want []int64
			for _, h := range c.want {
				want = append(want, hourZero+h*hour)
			}
			if got := SealHours(f, p, inputs, files, end); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("sealed %v, want %v", got, want)
			}
		})
	}
}

// TestSealOfRemadeTopic has the old topic of a name hold no hour open.
func TestSealOfRemadeTopic(t *testing.T) {
	f := NewFold()
	f.Partitions[PartitionKey{fakeCluster, offsets.TopicID{9}, 0}] = &Partition{Topic: "views", Watermark: NoWatermark}
	p := fakePlan(f, span{0, 0, 40})
	inputs := []Input{{Cluster: fakeCluster, TopicID: fakeTopic, Topic: "views", Watermark: (hourZero + 7200) * 1e6}}
	key := hourZero
	end := func(h int64) int64 { return h + 3600 }
	if got := SealHours(f, p, inputs, []File{{Hour: &key, Rows: 1}}, end); len(got) != 1 {
		t.Errorf("sealed %v, want the hour", got)
	}
}

// TestSealing runs loads, a seal without data and late rows over one data set.
func TestSealing(t *testing.T) {
	src, s := &source{}, memSink()
	l := src.open(t, s)
	// Rows up to hour 2: hours 0 and 1 are passed by the one partition.
	rec := src.mustRun(t, l, fakePlan(l.Fold(), span{0, 0, 50}), "run-0")
	if fmt.Sprint(rec.Sealed) != fmt.Sprint([]int64{hourZero, hourZero + 3600}) {
		t.Fatalf("sealed %v", rec.Sealed)
	}
	files := data(t, s)
	if files["dt=2025-11-29/hr=01/_SUCCESS"] != "{\"number\":0}\n" {
		t.Errorf("_SUCCESS of hour 1: %q", files["dt=2025-11-29/hr=01/_SUCCESS"])
	}
	if _, early := files["dt=2025-11-29/hr=02/_SUCCESS"]; early {
		t.Error("hour 2 is marked complete, it is open")
	}
	// Nothing came, and the partition is not idle long enough: nothing to say.
	p := fakePlan(l.Fold(), span{0, 50, 50})
	p.Inputs[0].LastStable, p.Now = 50, (hourZero+3*3600)*1000
	if rec, err := src.run(t.Context(), l, p, "run-1"); rec != nil || err != nil {
		t.Fatalf("record %+v, %v", rec, err)
	}
	// A moment later hour 2 seals, by a record without data.
	p.Now++
	rec = src.mustRun(t, l, p, "run-2")
	if rec.Kind != Seal || len(rec.Files) != 0 || fmt.Sprint(rec.Sealed) != fmt.Sprint([]int64{hourZero + 2*3600}) {
		t.Fatalf("record %+v", rec)
	}
	if files = data(t, s); files["dt=2025-11-29/hr=02/_SUCCESS"] != "{\"number\":1}\n" {
		t.Errorf("_SUCCESS of hour 2: %q", files["dt=2025-11-29/hr=02/_SUCCESS"])
	}
	// Partition 1 brings rows of hours 0 to 2: a plan that knew of the seals
	// counts them as late, and the marks get its number.
	rec = src.mustRun(t, l, fakePlan(l.Fold(), span{1, 0, 50}), "run-3")
	var late int64
	for _, f := range rec.Files {
		late += f.Late
	}
	if late != 40 || len(rec.Sealed) != 0 {
		t.Errorf("%d late rows, sealed %v", late, rec.Sealed)
	}
	m, err := l.ReadManifest("dt=2025-11-29/hr=00")
	if err != nil || m.Number != 2 || *m.Sealed != 0 || m.Rows != 32 || m.Late != 16 || len(m.Files) != 2 {
		t.Errorf("manifest %+v, %v", m, err)
	}
	if files = data(t, s); files["dt=2025-11-29/hr=00/_SUCCESS"] != "{\"number\":2}\n" {
		t.Errorf("_SUCCESS of hour 0: %q", files["dt=2025-11-29/hr=00/_SUCCESS"])
	}
	if st := l.Fold().HourStates(hourZero, hourZero+3600); len(st) != 1 || st[0].State != HourLate || *st[0].Sealed != 0 || st[0].Late != 16 {
		t.Errorf("hour %+v", st)
	}
	// A plan from before the seal is not late, though it lands after it.
	old := fakePlan(NewFold(), span{2, 0, 20})
	for _, f := range src.mustRun(t, l, old, "run-4").Files {
		if f.Late != 0 {
			t.Errorf("%s: %d late rows of a plan that could not know", f.Path, f.Late)
		}
	}
	sound(t, l)
}

// TestSealAcrossZone seals hours of a zone with half an hour's offset and days
// of 23 and 25 hours by their true ends.
func TestSealAcrossZone(t *testing.T) {
	for _, c := range []struct{ zone, unit, start, before, after string }{
		{"Asia/Kolkata", UnitHour, "2025-11-29T00:30:00Z", "2025-11-29T01:29:59Z", "2025-11-29T01:30:00Z"},
		{"Europe/Berlin", UnitDay, "2025-03-29T23:00:00Z", "2025-03-30T21:59:59Z", "2025-03-30T22:00:00Z"},
		{"Europe/Berlin", UnitDay, "2025-10-25T22:00:00Z", "2025-10-26T22:59:59Z", "2025-10-26T23:00:00Z"},
	} {
		parse := func(text string) int64 {
			at, err := time.Parse(time.RFC3339, text)
			if err != nil {
				t.Fatal(err)
			}
			return at.Unix()
		}
		b, err := newBucketer(Bucket{Unit: c.unit, Zone: c.zone, Path: "dt=%Y-%m-%d/hr=%H"})
		if err != nil {
			t.Fatal(err)
		}
		p := fakePlan(NewFold(), span{0, 0, 40})
		key := parse(c.start)
		for text, want := range map[string]int{c.before: 0, c.after: 1} {
			inputs := []Input{{Cluster: fakeCluster, TopicID: fakeTopic, Topic: "views", Watermark: parse(text) * 1e6}}
			if got := SealHours(NewFold(), p, inputs, []File{{Hour: &key, Rows: 1}}, b.End); len(got) != want {
				t.Errorf("%s %s from %s, watermark %s: sealed %v", c.zone, c.unit, c.start, text, got)
			}
		}
	}
}
