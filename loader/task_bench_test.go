package loader

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sawlog/broker/record"
	"sawlog/formats"
)

// benchLines makes n page views of about 231 bytes and 8 columns, always the
// same: host (50 values), path (2,000), status (6), bytes (uniform), agent (40),
// an id of 16 hex digits that never repeats, a referrer that is null in one of
// ten, and a text with an escape in one of twenty.
func benchLines(n int, start time.Time, perHour int) []record.Record {
	rnd := rand.New(rand.NewPCG(1, 2))
	statuses := []int{200, 200, 200, 200, 304, 404, 500, 301}
	out := make([]record.Record, n)
	for i := range n {
		at := start.Add(time.Duration(i) * time.Hour / time.Duration(perHour))
		ref := fmt.Sprintf(`"https://ref.example/%03d"`, rnd.IntN(500))
		if rnd.IntN(10) == 0 {
			ref = "null"
		}
		note := "ok"
		if rnd.IntN(20) == 0 {
			note = `said \"hi\"\n`
		}
		value := fmt.Sprintf(`{"ts":%q,"host":"web-%02d.example","path":"/shop/item/%04d","status":%d,"bytes":%d,"agent":"Mozilla/5.0 (X11; v%02d)","id":"%016x","ref":%s,"note":"%s"}`,
			at.UTC().Format("2006-01-02T15:04:05.000Z"), rnd.IntN(50), rnd.IntN(2000), statuses[rnd.IntN(len(statuses))], rnd.IntN(1<<20), rnd.IntN(40), rnd.Uint64(), ref, note)
		out[i] = record.Record{Timestamp: at.UnixMilli(), Value: []byte(value)}
	}
	return out
}

func benchSchema() *formats.Schema {
	s := &formats.Schema{}
	add := func(name string, t formats.Type) { s.Fields = append(s.Fields, formats.Field{Name: name, Type: &t}) }
	add("ts", formats.Type{Kind: formats.Timestamp, Unit: formats.Millis})
	add("host", formats.Type{Kind: formats.String})
	add("path", formats.Type{Kind: formats.String})
	add("status", formats.Type{Kind: formats.Int32})
	add("bytes", formats.Type{Kind: formats.Int64})
	add("agent", formats.Type{Kind: formats.String})
	add("id", formats.Type{Kind: formats.String})
	add("ref", formats.Type{Kind: formats.String})
	add("note", formats.Type{Kind: formats.String})
	return s
}

// BenchmarkTask is the whole of a task: fetch, CRC, zstd, JSON to Parquet with
// zstd, hash and stage, one hour. Run it with a multiple of 300,000 records, so
// that tasks are whole:
//
//	go test ./loader -run xxx -bench 'Task$' -benchtime 2400000x
//
// rec/cpu-s counts the CPU time of all threads and hardly depends on what else
// runs; rec/s does. Aim: 400,000 a CPU second; arrow's writer (profile 1) gives
// 500,000, our own 800,000. Beside DuckDB it is measured as whole processes: the
// user and system seconds of `sawlog run`, its task included, against those of
// read_json to parquet on the same lines with one thread, in turn, five times.
func BenchmarkTask(b *testing.B) { benchTask(b, 1<<30, 256<<20) }

// BenchmarkTaskSorted is the same through the sort on disk, 200 hours.
func BenchmarkTaskSorted(b *testing.B) { benchTask(b, 1500, 96<<20) }

// BenchmarkTaskBigHours has ten hours, each of several batches, for which there
// is no room side by side.
func BenchmarkTaskBigHours(b *testing.B) { benchTask(b, 30_000, 96<<20) }

func benchTask(b *testing.B, perHour int, memory int64) {
	const n = 300_000
	r := newRig(b, 1)
	recs := benchLines(n, time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC), perHour)
	var bytes int64
	for i := range recs {
		bytes += int64(len(recs[i].Value))
	}
	r.src.log("views", 0).put(b, 600, record.Zstd, recs...)
	r.spec.Schema = benchSchema()
	p, _ := r.plan(PlanAsk{})
	b.SetBytes(bytes / n)
	b.ReportAllocs()
	b.ResetTimer()
	began := cpuTime(b)
	for done := 0; done < b.N; done += n {
		res := r.attempt(p, 0, func(c *taskConfig) { c.memory = memory })
		if rows := rowsOf(res); rows != n {
			b.Fatalf("%d rows", rows)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rec/s")
	b.ReportMetric(float64(b.N)/(cpuTime(b)-began).Seconds(), "rec/cpu-s")
}

// cpuTime is what this process has used of all cores, which other programs on
// the machine do not blur as they do wall time.
func cpuTime(tb testing.TB) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// attempt carries one split out in this goroutine.
func (r *rig) attempt(p *Plan, split int, change ...func(*taskConfig)) *Result {
	r.t.Helper()
	planID := PlanID(p)
	if err := r.d.Sink.MkdirAll(StageDir(planID, split)); err != nil {
		r.t.Fatal(err)
	}
	c := taskConfig{
		cluster: r.src, sink: r.d.Sink, logger: r.d.Logger, plan: p, planID: planID, index: split, attempt: NewAttempt(),
		memory: 256 << 20, spool: r.t.TempDir(),
	}
	for _, f := range change {
		f(&c)
	}
	res, err := runTask(r.t.Context(), c)
	if err != nil {
		r.t.Fatal(err)
	}
	return res
}

func rowsOf(res *Result) int64 {
	var n int64
	for i := range res.Files {
		if res.Files[i].Hour != nil {
			n += res.Files[i].Rows
		}
	}
	return n
}
