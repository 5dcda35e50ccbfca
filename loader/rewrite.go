package loader

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"sawlog/formats"
	"sawlog/formats/parquet"
	"sawlog/offsets"
)

// RewriteAsk says which files are to be written anew, and how.
type RewriteAsk struct {
	Hours *HourSpan
	// Spec is the job's: its columns, declared or those of its decode.schema or
	// registry, where they are wider than those of the data set, its format, codec
	// and target size. Nil = as the last load.
	Spec        *Spec
	TargetBytes int64 // files of less than half of it are merged; 0 = the spec's, or 256 MiB
}

// PlanRewrite plans to merge the small files of hours and, where the job
// declares wider types than the data set has, to write all files with those.
// The rows stay the same. It is a plan like that of a load: Run carries it out.
// Nil = there is nothing to do.
func (d *Driver) PlanRewrite(ctx context.Context, ask RewriteAsk) (_ *Plan, err error) {
	defer func() { err = stopped(ctx, err, startsOver, "nothing was changed") }()
	l, err := d.Ledger(ctx, "", "")
	if err != nil {
		return nil, err
	}
	f := l.Fold()
	last, err := l.lastPlan(ctx)
	if err != nil {
		return nil, err
	}
	if last == nil || f.Schema == nil {
		return nil, fail(ExitNotFound, "%s holds no loaded file to write anew", d.Sink.Root())
	}
	p := &Plan{
		V: 1, Dataset: f.Dataset, Job: f.Job, Kind: Compact, Now: d.Now().UnixMilli(), Base: f.Head,
		Cluster: last.Cluster, Isolation: last.Isolation, Schema: f.Schema, Decode: last.Decode, Bucket: last.Bucket, Writer: last.Writer,
	}
	wider, err := p.widenBy(ctx, ask.Spec)
	if err != nil {
		return nil, err
	}
	if ask.Spec != nil { // files written anew stay in their folders
		if err := ask.Spec.KeepsBuckets(&last.Bucket); err != nil {
			return nil, err
		}
	}
	if wider && ask.Hours != nil {
		e := fail(ExitUsage, "columns get wider types: that rewrites the files of all hours, not of a window")
		return nil, e.hint("leave out the window")
	}
	if err := f.tellsText(p.Schema); err != nil {
		return nil, err
	}
	if err := haveFields(p.Schema, &p.Decode, p.Bucket.Fields); err != nil {
		return nil, coded(err, ExitConflict)
	}
	asked := p.Writer.Encodings
	p.Writer.upgrade(parquet.Profile)
	if ask.Spec != nil { // who says itself which encodings
		p.Writer.Encodings = asked
	}
	p.Writer.PageBytes = pageLimit(p.Schema)
	if ask.TargetBytes == 0 && ask.Spec != nil {
		ask.TargetBytes = ask.Spec.TargetBytes
	}
	p.Splits = f.rewrites(ask.Hours, cmp.Or(ask.TargetBytes, defaultTarget), wider)
	if len(p.Splits) == 0 {
		return nil, nil
	}
	for i := range p.Splits {
		for _, old := range p.Splits[i].Files {
			p.Retires = append(p.Retires, old.Path)
		}
	}
	slices.Sort(p.Retires)
	return p, p.ordered()
}

// widenBy takes the columns, the format and the codec of a job.
func (p *Plan) widenBy(ctx context.Context, spec *Spec) (wider bool, err error) {
	if spec == nil {
		return false, nil
	}
	if err := spec.Validate(); err != nil {
		return false, err
	}
	r := spec.resolved()
	if r.Dataset != p.Dataset || r.Name != p.Job {
		return false, fail(ExitConflict, "the data set is %q of job %q, the job given makes %q of %q", p.Dataset, p.Job, r.Dataset, r.Name)
	}
	p.Writer.Format, p.Writer.Codec, p.Writer.Level, p.Writer.Encodings = r.Format, r.Codec, r.Level, r.Encodings
	if err := askRegistry(ctx, r); err != nil {
		return false, err
	}
	if r.Schema == nil && r.Decode.Schema == nil {
		return false, nil
	}
	base, err := r.Decode.Base(r.Schema)
	if err != nil {
		return false, &Error{Code: ExitUsage, Msg: "schema", Err: err}
	}
	schema, err := widenSchema(p.Schema, base)
	if err != nil {
		e := &Error{Code: ExitConflict, Msg: "the job's schema", Err: err}
		return false, e.hint("a column may become wider: int32, int64, double or decimal, string or json; load into another root for any other type")
	}
	wider, err = widens(p.Schema, schema)
	if wider { // otherwise columns come with the next load
		p.Schema = schema
	}
	return wider, err
}

// tellsText refuses to make strings of JSON that stands in lines of JSON: there a
// string of JSON looks as a string does.
func (f *Fold) tellsText(wide *formats.Schema) error {
	lines := slices.ContainsFunc(f.All(), func(v *Visible) bool { return v.formatOf() == formatJSONL })
	for i, have := range f.Schema.Fields {
		if lines && !formats.Tells(have.Type, wide.Fields[i].Type) {
			e := fail(ExitConflict, "column %s is %s, and files of lines do not tell whether a text is JSON: it can't become %s", have.Name, have.Type, wide.Fields[i].Type)
			return e.hint("leave it as it is, or load into another root")
		}
	}
	return nil
}

// lastPlan is the plan of the last record that brought rows from the log.
func (l *Ledger) lastPlan(ctx context.Context) (*Plan, error) {
	for _, rec := range slices.Backward(l.fold.Records) {
		if rec.Plan != "" && (rec.Kind == Load || rec.Kind == Backfill || rec.Kind == Supersede) {
			return l.ReadPlan(ctx, rec.Plan)
		}
	}
	return nil, nil
}

// rewrites lists the splits of a compact plan: the small files of each hour,
// packed in order of their ranges up to target bytes; or, with all, every file.
func (f *Fold) rewrites(hours *HourSpan, target int64, all bool) []Split {
	type place struct {
		hour   int64
		folder string
		made   string // which of topics made again
	}
	twice := f.madeAgain()
	old := map[place][]SplitFile{}
	for _, v := range f.All() {
		if v.Hour == nil || !hours.holds(*v.Hour) || !all && v.Bytes >= target/2 {
			continue
		}
		file := SplitFile{Path: v.Path, SHA256: v.SHA256, Bytes: v.Bytes, Rows: v.Rows, Parts: joined(f.extent(v)), Values: v.Values}
		if len(file.Parts) == 0 {
			continue
		}
		at := place{hour: *v.Hour, folder: path.Dir(v.Path)}
		for _, part := range file.Parts {
			if twice[part.Topic] {
				at.made += part.TopicID.Hex() // their offsets have no common order
			}
		}
		old[at] = append(old[at], file)
	}
	var splits []Split
	order := func(a, b place) int {
		return cmp.Or(cmp.Compare(a.hour, b.hour), strings.Compare(a.folder, b.folder), strings.Compare(a.made, b.made))
	}
	for _, at := range slices.SortedFunc(maps.Keys(old), order) {
		for _, files := range packed(old[at], target) {
			if len(files) < 2 && !all {
				continue
			}
			hour := at.hour
			s := Split{Index: len(splits), Hour: &hour, Files: files}
			var parts []extent
			for i := range files {
				for _, part := range files[i].Parts {
					parts = append(parts, extent{PartitionKey{"", part.TopicID, part.Partition}, part.Topic, part.Range})
				}
			}
			s.Ranges = joined(parts)
			splits = append(splits, s)
		}
	}
	return splits
}

// madeAgain tells which topics were made again under another id.
func (f *Fold) madeAgain() map[string]bool {
	ids, twice := map[string]offsets.TopicID{}, map[string]bool{}
	for key, p := range f.Partitions {
		id, known := ids[p.Topic]
		twice[p.Topic] = twice[p.Topic] || known && id != key.TopicID
		ids[p.Topic] = key.TopicID
	}
	return twice
}

// packed puts files together, in order of their ranges, while they stay below
// the target.
func packed(files []SplitFile, target int64) [][]SplitFile {
	slices.SortFunc(files, func(a, b SplitFile) int { return compareRanges(a.Parts[0], b.Parts[0]) })
	var out [][]SplitFile
	var open []SplitFile
	var size int64
	for _, file := range files {
		if len(open) > 0 && size+file.Bytes > target {
			out, open, size = append(out, open), nil, 0
		}
		open, size = append(open, file), size+file.Bytes
	}
	if len(open) > 0 {
		out = append(out, open)
	}
	return out
}

// inTurn tells whether the rows of each file come before those of the next.
func inTurn(files []SplitFile) bool {
	for i := 1; i < len(files); i++ {
		before := files[i-1].Parts
		if compareRanges(before[len(before)-1], files[i].Parts[0]) > 0 {
			return false
		}
	}
	return true
}

func severalTopics(ranges []SplitRange) bool {
	return slices.ContainsFunc(ranges, func(r SplitRange) bool { return r.TopicID != ranges[0].TopicID })
}

// ordered refuses files whose rows cannot be put in order.
func (p *Plan) ordered() error {
	for i := range p.Splits {
		s := &p.Splits[i]
		if inTurn(s.Files) {
			continue
		}
		want := []string{"_partition", "_offset"}
		if severalTopics(s.Ranges) {
			want = append(want, "_topic")
		}
		for _, name := range want {
			if !slices.ContainsFunc(p.Schema.Fields, func(f formats.Field) bool { return f.Name == name }) {
				e := &Error{Code: ExitConflict, Err: fmt.Errorf("files of hour %s hold ranges that lie between each other, and no column %s tells the order of their rows", HourText(*s.Hour), name)}
				return e.hint("add %s to metadata_columns for the loads to come", name)
			}
		}
	}
	return nil
}
