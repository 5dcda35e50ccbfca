package loader

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sawlog/broker/vfs"
	"sawlog/formats"
	"sawlog/formats/parquet"
	"sawlog/loader/sink"
	"sawlog/loader/sink/local"
	"sawlog/offsets"
)

// A source for tests of the ledger: each offset of each partition is a row, a
// bad record or a control record by its number alone, and belongs to an hour by
// its number. Files are small texts with a last line that counts their rows.
const (
	hourZero    = int64(1764374400) // 2025-11-29T00:00:00Z
	perHour     = 20                // offsets of a partition in an hour
	badOffset   = 9                 // offset % 10 of bad records
	ctrlOffset  = 5                 // offset % 10 of control records
	fakeCluster = "cluster-1"
)

var fakeTopic = offsets.TopicID{0xab, 0xcd, 0xef, 0x01}

// source makes attempts of plans.
type source struct {
	salt     string // changes the bytes, as a changed log would
	attempts atomic.Int64
	prefix   string // of attempt names
	fields   []BucketField
}

// plan is a fakePlan whose files go to folders below those of their hours.
func (src *source) plan(f *Fold, spans ...span) *Plan {
	p := fakePlan(f, spans...)
	p.Bucket.Fields = src.fields
	return p
}

// valuesOf are the values of the fields in all rows of a split.
func valuesOf(p *Plan, s *Split) (values []string) {
	for range p.Bucket.Fields {
		values = append(values, fmt.Sprintf("%d%%2F", s.Ranges[0].Partition/2))
	}
	return values
}

func fakeSchema(extra ...string) *formats.Schema {
	s := &formats.Schema{Inferred: true}
	for _, name := range append([]string{"_partition", "_offset", "id"}, extra...) {
		s.Fields = append(s.Fields, formats.Field{Name: name, Type: &formats.Type{Kind: formats.Int64}})
	}
	return s
}

type span struct {
	partition  int32
	start, end int64
}

// fakePlan is a plan over spans, one split each, for a fold.
func fakePlan(f *Fold, spans ...span) *Plan {
	p := &Plan{
		V: 1, Dataset: "views", Job: "views-hourly", Kind: Load, Now: hourZero * 1000, Base: f.Head,
		Cluster: fakeCluster, Topics: []PlanTopic{{Name: "views", ID: fakeTopic}}, Isolation: "read_committed",
		Schema: fakeSchema(), Decode: formats.Options{Value: "json"},
		Bucket: Bucket{Unit: UnitHour, Zone: "UTC", Path: "dt=%Y-%m-%d/hr=%H"},
		Writer: Writer{Profile: parquet.Profile, Format: "parquet", Codec: "zstd"},
	}
	for i, s := range spans {
		r := offsets.Range{Start: offsets.Offset(s.start), End: offsets.Offset(s.end)}
		p.Inputs = append(p.Inputs, PlanInput{
			Topic: "views", TopicID: fakeTopic, Partition: s.partition, Range: r, LastStable: r.End + 1,
		})
		if r.Empty() {
			continue
		}
		p.Splits = append(p.Splits, Split{Index: i, Ranges: []SplitRange{
			{Topic: "views", TopicID: fakeTopic, Partition: s.partition, Range: r},
		}})
	}
	for i := range p.Splits {
		p.Splits[i].Index = i
	}
	return p
}

// merged packs all splits of a plan into one.
func merged(p *Plan) *Plan {
	var all []SplitRange
	for _, s := range p.Splits {
		all = append(all, s.Ranges...)
	}
	p.Splits = []Split{{Index: 0, Ranges: all}}
	return p
}

// files is the content of each file of a split, by bucket; the key -1 is the
// quarantine file.
func (src *source) files(p *Plan, s *Split, names string) (map[int64][]byte, map[int64]int64, []Input) {
	content, rows := map[int64][]byte{}, map[int64]int64{}
	var inputs []Input
	for _, r := range s.Ranges {
		in := Input{Cluster: p.Cluster, TopicID: r.TopicID, Topic: r.Topic, Partition: r.Partition, Range: r.Range, Watermark: NoWatermark}
		for o := int64(r.Start); o < int64(r.End); o++ {
			hour := hourZero + o/perHour*3600
			switch o % 10 {
			case badOffset:
				in.Quarantined++
				hour = -1
			case ctrlOffset:
				in.Control++
				continue
			default:
				in.Data++
				in.Watermark = max(in.Watermark, (hour+o%perHour*3600/perHour)*1_000_000)
			}
			content[hour] = fmt.Appendf(content[hour], "%d/%d%s profile %d\n", r.Partition, o, src.salt, p.Writer.Profile)
			rows[hour]++
		}
		inputs = append(inputs, in)
	}
	for hour := range content {
		content[hour] = fmt.Appendf(content[hour], "ROWS %d", rows[hour])
	}
	return content, rows, inputs
}

// compacted is the file that takes the place of those of a split.
func compacted(s sink.Sink, p *Plan, split *Split) (map[int64][]byte, map[int64]int64, error) {
	places := []string{""}
	entries, err := s.List(RetiredDir)
	if err != nil && !errors.Is(err, sink.ErrNotExist) {
		return nil, nil, err
	}
	for _, e := range entries {
		places = append(places, path.Join(RetiredDir, e.Name))
	}
	byKey := map[[2]int]string{}
	for _, old := range split.Files {
		var body []byte
		for _, place := range places {
			if body, err = s.ReadFile(path.Join(place, old.Path)); err == nil {
				break
			}
		}
		if err != nil {
			return nil, nil, err
		}
		if sum(body) != old.SHA256 {
			return nil, nil, fail(ExitConflict, "%s is not what was planned with", old.Path)
		}
		for line := range strings.Lines(string(body)) {
			var partition, offset int
			if _, err := fmt.Sscanf(line, "%d/%d", &partition, &offset); err == nil {
				head, _, _ := strings.Cut(line, " profile")
				byKey[[2]int{partition, offset}] = fmt.Sprintf("%s profile %d\n", head, p.Writer.Profile)
			}
		}
	}
	keys := slices.SortedFunc(maps.Keys(byKey), func(a, b [2]int) int { return slices.Compare(a[:], b[:]) })
	var body []byte
	for _, key := range keys {
		body = append(body, byKey[key]...)
	}
	rows := int64(len(keys))
	return map[int64][]byte{*split.Hour: fmt.Appendf(body, "ROWS %d", rows)}, map[int64]int64{*split.Hour: rows}, nil
}

// attempted puts a plan and carries its first split out.
func (src *source) attempted(t *testing.T, l *Ledger, p *Plan) (planID string, r *Result) {
	t.Helper()
	planID, err := l.PutPlan(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if r, err = src.attempt(l.sink, p, planID, 0); err != nil {
		t.Fatal(err)
	}
	return planID, r
}

// attempt carries a split out as a task does: a folder of its own, the files,
// the result last.
func (src *source) attempt(s sink.Sink, p *Plan, planID string, n int) (*Result, error) {
	split := &p.Splits[n]
	name := fmt.Sprintf("%sattempt-%04d", src.prefix, src.attempts.Add(1))
	dir := AttemptDir(planID, n, name)
	if err := s.MkdirAll(path.Dir(dir)); err != nil {
		return nil, err
	}
	if err := s.Mkdir(dir); err != nil {
		return nil, err
	}
	b, err := newBucketer(p.Bucket)
	if err != nil {
		return nil, err
	}
	names := split.StagePlan(planID)
	content, rows, inputs := src.files(p, split, names)
	values := valuesOf(p, split)
	folder := func(hour int64) string { return below(b.Path(hour), p.Bucket.Fields, values) }
	if p.Kind == Compact {
		if content, rows, err = compacted(s, p, split); err != nil {
			return nil, err
		}
		inputs, folder = nil, func(int64) string { return path.Dir(split.Files[0].Path) }
		values = split.Files[0].Values
	}
	r := &Result{V: 1, Plan: planID, Split: n, Attempt: name, Inputs: inputs}
	hours := make([]int64, 0, len(content))
	for hour := range content {
		hours = append(hours, hour)
	}
	slices.Sort(hours)
	for _, hour := range hours {
		file := File{Bytes: int64(len(content[hour])), SHA256: sum(content[hour]), Rows: rows[hour], Path: QuarantinePath(names, n)}
		file.Digest = sum([]byte(strings.ReplaceAll(string(content[hour]), fmt.Sprintf("profile %d", p.Writer.Profile), "")))
		if hour >= 0 {
			file.Hour, file.Values = &hour, values
			file.Path = FinalPath(folder(hour), names, p.Writer.Format, split)
		}
		if len(split.Ranges) > 1 || hour < 0 {
			file.Parts = split.Ranges
		}
		file.Stage = StagePath(dir, file.Path)
		if err := sink.Write(s, file.Stage, content[hour]); err != nil {
			return nil, err
		}
		r.Files = append(r.Files, file)
	}
	data, err := Canonical(r)
	if err != nil {
		return nil, err
	}
	return r, sink.Write(s, ResultPath(dir), data)
}

// remake is the Remake of a sink.
func (src *source) remake(s sink.Sink) Remake {
	return func(_ context.Context, ask RemakeAsk) ([]*Result, error) {
		var results []*Result
		for _, n := range ask.Splits {
			r, err := src.attempt(s, ask.Plan, ask.PlanID, n)
			if err != nil {
				return nil, err
			}
			results = append(results, r)
		}
		return results, nil
	}
}

// checkRows is the footer check of these files.
func checkRows(r io.ReaderAt, size int64, file *File) error {
	body, err := io.ReadAll(io.NewSectionReader(r, 0, size))
	if err != nil {
		return err
	}
	last := body[bytes.LastIndexByte(body, '\n')+1:]
	if want := fmt.Sprintf("ROWS %d", file.Rows); string(last) != want {
		return fmt.Errorf("footer %q, want %q", last, want)
	}
	return nil
}

// config is a ledger's configuration with this source and a clock that stands.
func (src *source) config(s sink.Sink) LedgerConfig {
	return LedgerConfig{
		Check: checkRows, Remake: src.remake(s), Logger: slog.New(slog.DiscardHandler),
		Now: func() time.Time { return time.Unix(hourZero, 0) },
	}
}

func memSink() sink.Sink { return local.New(vfs.NewMem(), "/root") }

func (src *source) open(t *testing.T, s sink.Sink) *Ledger {
	t.Helper()
	l, err := OpenLedger(t.Context(), s, "views", "views-hourly", src.config(s))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// run does what a driver does with a plan: freeze, reuse or make attempts,
// commit.
func (src *source) run(ctx context.Context, l *Ledger, p *Plan, run string) (*Record, error) {
	planID, err := l.PutPlan(ctx, p)
	if err != nil {
		return nil, err
	}
	results, err := l.Results(ctx, p, planID)
	if err != nil {
		return nil, err
	}
	for n := range p.Splits {
		if slices.ContainsFunc(results, func(r *Result) bool { return r.Split == n }) {
			continue
		}
		r, err := src.attempt(l.sink, p, planID, n)
		if err != nil {
			return nil, err
		}
		results = append(results, r)
	}
	return l.Commit(ctx, p, planID, run, results, CommitOptions{By: "test"})
}

func (src *source) mustRun(t *testing.T, l *Ledger, p *Plan, run string) *Record {
	t.Helper()
	rec, err := src.run(t.Context(), l, p, run)
	if err != nil {
		t.Fatal(err)
	}
	if rec == nil {
		t.Fatalf("run %s committed nothing", run)
	}
	return rec
}

// tree is every file below a folder with its content.
func tree(t *testing.T, s sink.Sink, dir string, skip ...string) map[string]string {
	t.Helper()
	files := map[string]string{}
	var walk func(dir string)
	walk = func(dir string) {
		entries, err := s.List(dir)
		if errors.Is(err, sink.ErrNotExist) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			name := path.Join(dir, e.Name)
			switch {
			case slices.Contains(skip, name):
			case e.Dir:
				walk(name)
			default:
				data, err := s.ReadFile(name)
				if err != nil {
					t.Fatal(err)
				}
				files[name] = string(data)
			}
		}
	}
	walk(dir)
	return files
}

// data is the tree of what readers see: hours and quarantine.
func data(t *testing.T, s sink.Sink) map[string]string {
	t.Helper()
	files := tree(t, s, "", SystemDir)
	maps.Copy(files, tree(t, s, QuarantineDir))
	return files
}

// sameTree fails the test where two trees differ.
func sameTree(t *testing.T, have, want map[string]string) {
	t.Helper()
	for name, body := range want {
		if got, ok := have[name]; !ok {
			t.Errorf("%s is missing", name)
		} else if got != body {
			t.Errorf("%s holds\n%s\nwant\n%s", name, got, body)
		}
	}
	for name := range have {
		if _, ok := want[name]; !ok {
			t.Errorf("%s is extra", name)
		}
	}
}

// sound verifies the whole data set.
func sound(t *testing.T, l *Ledger) *VerifyReport {
	t.Helper()
	report, err := l.Verify(t.Context(), "")
	if err != nil {
		t.Fatalf("verify: %v\n%+v", err, report)
	}
	return report
}

// exits fails the test unless the error has the exit code and says the words.
func exits(t *testing.T, err error, code int, words ...string) {
	t.Helper()
	if err == nil || ExitCode(err) != code {
		t.Fatalf("error %v has exit code %d, want %d", err, ExitCode(err), code)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("error %q does not say %q", err, word)
		}
	}
}

func toOffset(n int64) offsets.Offset { return offsets.Offset(n) }
