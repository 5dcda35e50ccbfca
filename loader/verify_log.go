package loader

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"

	"sawlog/consumer"
	"sawlog/formats/parquet"
	"sawlog/offsets"
)

// LogReport is what Verify found in the log that a data set was loaded from.
type LogReport struct {
	Offsets  int64     `json:"offsets"`  // read again
	Rows     int64     `json:"rows"`     // their records make
	Digested int64     `json:"digested"` // files whose rows were compared by value
	Counted  int64     `json:"counted"`  // files whose rows were counted only
	Hours    []LogHour `json:"hours"`
	Gone     []Gone    `json:"gone"` // what cannot be compared
}

// LogHour compares one bucket.
type LogHour struct {
	Hour  string `json:"hour"`  // RFC 3339, UTC
	Log   int64  `json:"log"`   // rows the records of the log make
	Files int64  `json:"files"` // rows of the files that are there
	State string `json:"state"` // equal | differs | gone
}

// The states of an hour held against the log.
const (
	HourEqual   = "equal"
	HourDiffers = "differs"
	HourGone    = "gone" // some of its records are not in the log any more
)

// Gone is a range that was loaded and cannot be compared any more.
type Gone struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	offsets.Range
	Why string `json:"why"`
}

// VerifyAgainstLog is Verify, and besides it reads the committed offsets again,
// decodes and buckets them by the rules of the plans that loaded them, and holds
// what they come to against the ledger: the counts of each partition, the rows
// of each hour and file, and the digest of each file while memory for it lasts.
// Ranges that are no longer in the log are reported as gone; nothing else is
// said of them, and the error is exit 8 then too, for that data is gone.
func (l *Ledger) VerifyAgainstLog(ctx context.Context, what string, c consumer.Cluster, tell func(TaskProgress)) (*VerifyReport, error) {
	report, err := l.Verify(ctx, what)
	if report == nil {
		return nil, err
	}
	v := &logCheck{
		ledger: l, cluster: c, tell: tell, report: report, topics: map[string]*consumer.Topic{},
		hours: map[int64]*LogHour{}, bySplit: map[splitKey][]*Visible{}, odd: map[string]int64{}, made: map[string]string{},
		out: &LogReport{Hours: []LogHour{}, Gone: []Gone{}},
	}
	report.Log = v.out
	if err := v.run(ctx, what); err != nil {
		err = stopped(ctx, err, startsOver, "nothing was changed; all files were read and %d offsets of the log, with %s", v.out.Offsets, report.soFar())
		return nil, coded(err, ExitFailed)
	}
	return report, report.verdict()
}

// logCheck is one comparison of a ledger with the log.
type logCheck struct {
	ledger  *Ledger
	cluster consumer.Cluster
	tell    func(TaskProgress) // may be nil
	report  *VerifyReport
	out     *LogReport

	clusterID string
	topics    map[string]*consumer.Topic // as the cluster describes them; nil = it has none of that name
	hours     map[int64]*LogHour
	bySplit   map[splitKey][]*Visible
	replaced  []replaced
	made      map[string]string // folder and plan → a file of them, visible or retired
	odd       map[string]int64  // rows there are in files Verify complained of
	whole     bool              // the whole data set is compared, not one run
	leaders   consumer.Leaders
}

// splitKey names a split of a committed plan.
type splitKey struct {
	number int64 // ledger record
	split  int
}

// replaced is what a superseding record loaded in place of earlier splits.
type replaced struct {
	number int64
	inputs []Input
}

// digestRoom is the memory the digests of one split may take; hours beyond it
// are counted only.
const digestRoom = 64 << 20

func (v *logCheck) run(ctx context.Context, what string) error {
	fold := v.ledger.fold
	files := fold.All()
	refs := fold.Records
	v.whole = what == ""
	if !v.whole {
		ref, err := fold.Lookup(what)
		if err != nil {
			return err
		}
		if !loads(ref.Kind) {
			return fail(ExitConflict, "record %d (%s) loaded nothing from the log: there is nothing to compare", ref.Number, ref.Kind)
		}
		files, refs = fold.VisibleOf(ref.Number), []RecordRef{ref}
	}
	v.index(files)
	for name, file := range fold.Files {
		v.made[path.Dir(name)+" "+file.Plan] = name
	}
	for name, gone := range fold.Retired {
		v.made[path.Dir(name)+" "+gone.Plan] = name
	}
	for i := range fold.Records {
		if ref := &fold.Records[i]; ref.Kind == Supersede {
			rec, _, err := readRecord(v.ledger.sink, ref.Number)
			if err != nil {
				return err
			}
			v.replaced = append(v.replaced, replaced{ref.Number, rec.Inputs})
		}
	}
	for i := range refs {
		if !loads(refs[i].Kind) {
			continue
		}
		if err := v.record(ctx, refs[i].Number); err != nil {
			return err
		}
	}
	v.finish()
	return nil
}

// loads tells whether records of a kind have a plan whose offsets they loaded.
func loads(kind Kind) bool { return kind == Load || kind == Backfill || kind == Supersede }

// index sorts files by the split they come from and counts the rows that are
// there: of a file that Verify complained of, those its footer tells.
func (v *logCheck) index(files []*Visible) {
	for _, p := range v.report.Problems {
		v.odd[p.Path] = 0
	}
	for _, file := range files {
		key := splitKey{file.Number, file.Split}
		v.bySplit[key] = append(v.bySplit[key], file)
		if file.Hour == nil {
			continue
		}
		hour := v.hour(*file.Hour)
		rows := file.Rows
		if _, odd := v.odd[file.Path]; odd {
			rows, hour.State = v.rowsThere(file), HourDiffers
			v.odd[file.Path] = rows
		}
		hour.Files += rows
	}
}

// rowsThere is the number of rows a damaged file still tells of; 0 = none.
func (v *logCheck) rowsThere(file *Visible) int64 {
	f, err := v.ledger.sink.Open(file.Path)
	if err != nil {
		return 0
	}
	defer func() { _ = f.Close() }() // only read
	if file.formatOf() != formatParquet {
		return 0
	}
	r, err := parquet.Open(f, f.Size())
	if err != nil {
		return 0
	}
	return r.Rows()
}

func (v *logCheck) hour(key int64) *LogHour {
	h := v.hours[key]
	if h == nil {
		h = &LogHour{Hour: HourText(key), State: HourEqual}
		v.hours[key] = h
	}
	return h
}

// differs adds a difference, and marks the hour.
func (v *logCheck) differs(name string, hour *int64, format string, args ...any) {
	v.report.add(name, "log", format, args...)
	if hour != nil {
		v.hour(*hour).State = HourDiffers
	}
}

// record compares all splits of one record that still count.
func (v *logCheck) record(ctx context.Context, number int64) error {
	rec, _, err := readRecord(v.ledger.sink, number)
	if err != nil {
		return err
	}
	p, err := v.ledger.ReadPlan(ctx, rec.Plan)
	if ExitCode(err) == ExitMismatch || ExitCode(err) == ExitNotFound {
		v.differs(PlanPath(rec.Plan), nil, "record %d cannot be compared without its plan: %v", number, err)
		return nil
	}
	if err != nil {
		return err
	}
	sums, comparable := map[PartitionKey]*Input{}, true
	for i := range p.Splits {
		s := &p.Splits[i]
		if v.superseded(number, p.Cluster, s) {
			comparable = false
			continue
		}
		r, err := newSplitReader(v, p, s)
		if err != nil {
			return err
		}
		if err := r.readAll(ctx); err != nil {
			return err
		}
		comparable = comparable && r.complete && !r.compact
		for j := range r.inputs {
			in := &r.inputs[j]
			if sums[in.key()] == nil {
				sums[in.key()] = &Input{Watermark: NoWatermark}
			}
			sums[in.key()].add(in)
		}
		if err := v.compare(ctx, number, rec.Plan, r); err != nil {
			return err
		}
		if r.shrunk && r.complete {
			v.gone(s.Ranges, "compaction removed records of it since")
		}
	}
	if comparable {
		v.counts(rec, sums)
	}
	return nil
}

// superseded tells whether a later record loaded the offsets of a split again.
func (v *logCheck) superseded(number int64, cluster string, s *Split) bool {
	return slices.ContainsFunc(v.replaced, func(by replaced) bool {
		return by.number > number && slices.ContainsFunc(by.inputs, func(in Input) bool {
			return in.Cluster == cluster && slices.ContainsFunc(s.Ranges, func(r SplitRange) bool {
				return r.TopicID == in.TopicID && r.Partition == in.Partition && r.Overlaps(in.Range)
			})
		})
	})
}

// counts compares how the ledger accounts for the offsets of a record.
func (v *logCheck) counts(rec *Record, sums map[PartitionKey]*Input) {
	for i := range rec.Inputs {
		in, got := &rec.Inputs[i], sums[rec.Inputs[i].key()]
		if got == nil {
			continue // it loaded nothing of the partition
		}
		want := [6]int64{in.Data, in.Skipped, in.Quarantined, in.Control, in.Aborted, in.Compacted}
		if have := [6]int64{got.Data, got.Skipped, got.Quarantined, got.Control, got.Aborted, got.Compacted}; have != want {
			v.differs(RecordPath(rec.Number), nil,
				"%s/%d=%s: the log has data, skipped, quarantined, control, aborted, compacted offsets %v, the record counts %v",
				in.Topic, in.Partition, in.Range, have, want)
		}
	}
}

// gone adds ranges that cannot be compared any more.
func (v *logCheck) gone(ranges []SplitRange, why string) {
	for _, r := range ranges {
		v.out.Gone = append(v.out.Gone, Gone{r.Topic, r.Partition, r.Range, why})
	}
}

// finish compares what is left to compare once all is read, and lists the hours.
func (v *logCheck) finish() {
	for _, key := range slices.Sorted(maps.Keys(v.hours)) {
		h := v.hours[key]
		if h.State == HourEqual && h.Log != h.Files { // only files made of several others can bring this about
			dir := ""
			if hour := v.ledger.fold.Hours[key]; hour != nil && len(hour.Dirs) > 0 {
				dir = hour.Dirs[0]
			}
			v.differs(dir, &key, "hour %s: the log makes %d rows, the files hold %d", h.Hour, h.Log, h.Files)
		}
		v.out.Hours = append(v.out.Hours, *h)
	}
}

// compare holds what a split of record n comes to now against its files.
func (v *logCheck) compare(ctx context.Context, n int64, planID string, r *splitReader) error {
	p, s := r.plan, r.split
	made := map[string]int64{} // path → folder
	for folder := range r.files {
		made[FinalPath(r.buckets.Folder(folder), s.StagePlan(planID), p.Writer.extension(), s)] = folder
	}
	for _, file := range v.bySplit[splitKey{n, s.Index}] {
		if file.Hour == nil {
			v.badRecords(r, file)
			continue
		}
		delete(made, file.Path)
		if err := v.file(ctx, r, file); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(made)) {
		v.absent(name, made[name], r)
	}
	return nil
}

// badRecords compares the quarantine file of a split by its count.
func (v *logCheck) badRecords(r *splitReader, file *Visible) {
	switch {
	case r.quarantined == file.Rows:
	case r.quarantined < file.Rows && (!r.complete || r.compact):
		r.shrunk = true
	default:
		v.differs(file.Path, nil, "%s: the log has %d bad records, the file %d", rangesText(r.split.Ranges), r.quarantined, file.Rows)
	}
}

// file compares one visible file.
func (v *logCheck) file(ctx context.Context, r *splitReader, file *Visible) error {
	got := r.files[r.buckets.Find(*file.Hour, file.Values)]
	if got == nil {
		got = &logFile{}
	}
	h := v.hour(*file.Hour)
	h.Log += got.rows
	v.out.Rows += got.rows
	what := fmt.Sprintf("hour %s, %s", h.Hour, rangesText(r.split.Ranges))
	there, odd := v.odd[file.Path]
	if got.rows < file.Rows && (!r.complete || r.compact) {
		r.shrunk = true
		if h.State == HourEqual {
			h.State = HourGone
		}
		return nil
	}
	where, err := "", error(nil)
	if odd || got.rows != file.Rows || got.digest != nil && got.digest.Sum() != file.Digest {
		if where, err = v.where(ctx, r, file); err != nil {
			return err
		}
	}
	switch {
	case got.rows != file.Rows:
		v.differs(file.Path, file.Hour, "%s: the log makes %d rows, the file has %d%s", what, got.rows, file.Rows, where)
	case got.digest != nil && got.digest.Sum() != file.Digest:
		v.differs(file.Path, file.Hour, "%s: the log makes %d rows of other values%s", what, got.rows, where)
	case odd:
		v.differs(file.Path, file.Hour, "%s: the log makes the %d rows of the ledger, the file that is there has %d%s", what, got.rows, there, where)
	case got.digest == nil:
		v.out.Counted++
	default:
		v.out.Digested++
	}
	return nil
}

// absent deals with a file the log makes and the record has not, or no more.
func (v *logCheck) absent(name string, folder int64, r *splitReader) {
	rows, key := r.files[folder].rows, r.buckets.At(folder).bucket
	gone, retired := v.ledger.fold.Retired[name]
	switch {
	case !retired:
		v.hour(key).Log += rows
		v.out.Rows += rows
		v.differs(name, &key, "hour %s, %s: the log makes %d rows, the ledger has no such file", HourText(key), rangesText(r.split.Ranges), rows)
	case v.whole && v.rewritten(name, gone):
		h := v.hour(key)
		h.Log += rows
		v.out.Rows += rows
		if (!r.complete || r.compact) && h.State == HourEqual {
			h.State = HourGone
		}
	}
}

// rewritten tells whether the rows of a retired file are in another of the hour
// now, which a compact record wrote in its place and nothing took back since.
func (v *logCheck) rewritten(name string, gone Retirement) bool {
	fold := v.ledger.fold
	for fold.Records[gone.Number].Kind == Compact {
		name = v.made[path.Dir(name)+" "+fold.Records[gone.Number].Plan]
		if fold.Files[name] != nil {
			return true
		}
		next, retired := fold.Retired[name]
		if !retired || next.Number <= gone.Number {
			return false
		}
		gone = next
	}
	return false
}

// rangesText names the ranges of a split, at most by a few.
func rangesText(ranges []SplitRange) string {
	text := ""
	for i, r := range ranges {
		if i == 3 {
			return fmt.Sprintf("%s and %d more", text, len(ranges)-i)
		}
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprintf("%s/%d=%s", r.Topic, r.Partition, r.Range)
	}
	return text
}

// topic is what the cluster says of a planned topic; why tells, unless it is
// empty, that its records cannot be read any more.
func (v *logCheck) topic(ctx context.Context, cluster string, r *SplitRange) (t *consumer.Topic, why string, err error) {
	t, asked := v.topics[r.Topic]
	if !asked {
		found, id, err := v.describe(ctx, r.Topic)
		if err != nil && !errors.Is(err, consumer.ErrUnknownTopic) {
			return nil, "", err
		}
		if err == nil {
			t, v.clusterID = &found[0], id
		}
		v.topics[r.Topic] = t
	}
	switch {
	case t == nil:
		return nil, "the cluster has no topic " + r.Topic, nil
	case cluster != v.clusterID:
		return nil, fmt.Sprintf("it was loaded from cluster %s, the brokers asked are of cluster %s", cluster, v.clusterID), nil
	case topicID(t, v.clusterID) != r.TopicID:
		return nil, fmt.Sprintf("topic %s was made again with another id", r.Topic), nil
	}
	return t, "", nil
}

// describe describes a topic; a log that ends before what was loaded of it is
// believed only after others were asked.
func (v *logCheck) describe(ctx context.Context, topic string) (found []consumer.Topic, cluster string, err error) {
	names := []string{topic}
	found, cluster, err = consumer.DescribeSure(ctx, v.cluster, names, "", func(topics []consumer.Topic, cluster string) error {
		return reaches(v.ledger.fold, topics, cluster)
	})
	if ExitCode(err) == ExitMismatch {
		return consumer.Describe(ctx, v.cluster, names, "")
	}
	return found, cluster, err
}

// shortOf tells that the log of a partition ends before a range of it.
func shortOf(t *consumer.Topic, r *SplitRange) error {
	end := offsets.Offset(0)
	for _, p := range t.Partitions {
		if p.Index == r.Partition {
			end = p.HighWatermark
		}
	}
	if end >= r.End {
		return nil
	}
	return &consumer.ShortError{TopicPartition: offsets.TopicPartition{Topic: r.Topic, Partition: r.Partition}, Asked: r.End - 1, LogEnd: end}
}
