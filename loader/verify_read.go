package loader

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"

	"sawlog/consumer"
	"sawlog/formats"
	"sawlog/offsets"
)

// splitReader reads the records of one split again and keeps what they come to.
type splitReader struct {
	check   *logCheck
	plan    *Plan
	split   *Split
	decoder formats.Decoder
	schema  *formats.Schema
	row     *formats.Columns // room for one row
	buckets *folders
	task    task  // makes messages of records
	room    int64 // bytes that digests may still take
	passed  int64 // offsets

	inputs      []Input            // one per range
	files       map[int64]*logFile // by the number of their folder
	quarantined int64
	complete    bool // all that was loaded could be read
	compact     bool // of a topic that compaction may have gone over since
	shrunk      bool // and has
}

// logFile is what the log makes of one folder of a split.
type logFile struct {
	rows   int64
	digest *formats.Digest // nil where there was no room for one
}

// digestBytes is about what a digest takes: three hashes a leaf, and a buffer.
func digestBytes(s *formats.Schema) int64 { return 20<<10 + int64(len(s.Leaves()))*4<<10 }

func newSplitReader(v *logCheck, p *Plan, s *Split) (*splitReader, error) {
	r := &splitReader{
		check: v, plan: p, split: s, schema: p.Schema, room: digestRoom, files: map[int64]*logFile{}, complete: true,
		task: task{taskConfig: taskConfig{plan: p}},
	}
	if s.Schema != nil {
		r.schema = s.Schema
	}
	var err error
	if r.buckets, err = newFolders(p.Bucket, r.schema); err != nil {
		return nil, err
	}
	return r, r.restart()
}

// restart makes a decoder that has seen nothing.
func (r *splitReader) restart() (err error) {
	r.row = formats.NewColumns(r.schema)
	r.decoder, err = formats.NewDecoder(r.schema, r.plan.Decode)
	return err
}

func (r *splitReader) readAll(ctx context.Context) error {
	defer r.task.ticking()()
	for i := range r.split.Ranges {
		rng := &r.split.Ranges[i]
		in := Input{Cluster: r.plan.Cluster, TopicID: rng.TopicID, Topic: rng.Topic, Partition: rng.Partition, Range: rng.Range, Watermark: NoWatermark}
		if err := r.readRange(ctx, rng, &in); err != nil {
			return err
		}
		r.inputs = append(r.inputs, in)
	}
	r.tell("done")
	return nil
}

// readRange reads what is left of a range. What cannot be read for good is told
// in the report and is no error.
func (r *splitReader) readRange(ctx context.Context, rng *SplitRange, in *Input) error {
	counts, err := r.each(ctx, rng, func(m *formats.Message) error { return r.take(m, in) })
	in.take(counts)
	r.check.out.Offsets += in.Accounted() - in.Gap
	var lost *lostError
	switch coded := coded(err, ExitFailed); {
	case err == nil && in.Gap == 0:
	case err == nil:
		r.complete = false
		left := offsets.Range{Start: rng.Start, End: rng.Start + offsets.Offset(in.Gap)}
		r.check.out.Gone = append(r.check.out.Gone, Gone{rng.Topic, rng.Partition, left, "retention removed it"})
	case errors.As(err, &lost):
		r.complete = false
		r.check.gone([]SplitRange{*rng}, lost.why)
	case ExitCode(coded) == ExitMismatch || ExitCode(coded) == ExitConflict:
		r.complete = false
		r.check.differs(fmt.Sprintf("%s/%d", rng.Topic, rng.Partition), nil, "%s cannot be read again: %v", rng.Range, err)
	default:
		return err
	}
	return nil
}

// lostError says why nothing of a range can be read any more.
type lostError struct{ why string }

func (e *lostError) Error() string { return e.why }

// each calls fn for the records of a range that are left; retention may have
// removed its beginning, which is counted as gap.
func (r *splitReader) each(ctx context.Context, rng *SplitRange, fn func(m *formats.Message) error) (counts consumer.Counts, err error) {
	t, why, err := r.check.topic(ctx, r.plan.Cluster, rng)
	if err != nil {
		return counts, err
	}
	if why != "" {
		return counts, &lostError{why}
	}
	if err := shortOf(t, rng); err != nil {
		return counts, err
	}
	compact := r.task.compact(rng.TopicID) || t.Compact
	r.compact = r.compact || compact
	rd := consumer.NewReader(r.check.cluster, offsets.TopicPartition{Topic: rng.Topic, Partition: rng.Partition}, rng.TopicID, rng.Range,
		consumer.Options{FetchBytes: defaultFetch, Isolation: isolationOf(r.plan.Isolation), Compact: compact, AcceptGap: true, Leaders: &r.check.leaders})
	defer rd.Close()
	m := &r.task.msg
	m.Topic, m.Partition = rng.Topic, rng.Partition
	for {
		rec, err := rd.Next(ctx)
		if err == nil {
			r.task.take(rec)
			err = fn(m)
		}
		if err == io.EOF {
			return rd.Counts(), nil
		}
		if err != nil {
			return rd.Counts(), err
		}
		if r.passed++; r.task.due.Load() {
			r.task.due.Store(false)
			r.tell("read")
		}
	}
}

// take decodes one record and counts it.
func (r *splitReader) take(m *formats.Message, in *Input) error {
	at, err := r.decoder.Append(r.row, m)
	var folder int64
	if err == nil {
		if folder, err = r.buckets.Number(at, r.row); err != nil {
			r.row.Reset()
		}
	}
	var bad *formats.BadRecord
	switch {
	case err == nil:
		r.add(folder)
	case errors.Is(err, formats.ErrSkip):
		in.Skipped++
	case errors.As(err, &bad):
		in.Quarantined++
		r.quarantined++
	case errors.Is(err, formats.ErrUnknownPath):
		return fail(ExitMismatch, "%s/%d offset %d holds a path that the schema of its plan has not", m.Topic, m.Partition, m.Offset)
	default:
		return fmt.Errorf("%s/%d offset %d: %w", m.Topic, m.Partition, m.Offset, err)
	}
	return nil
}

// add counts the row that was decoded.
func (r *splitReader) add(folder int64) {
	f := r.files[folder]
	if f == nil {
		f = &logFile{}
		if need := digestBytes(r.schema); need <= r.room {
			r.room -= need
			f.digest = formats.NewDigest(r.schema)
		}
		r.files[folder] = f
	}
	f.rows++
	if f.digest != nil {
		f.digest.Add(r.row)
	}
	r.row.Reset()
}

func (r *splitReader) tell(phase string) {
	if r.check.tell == nil {
		return
	}
	var total int64
	for _, rng := range r.split.Ranges {
		total += rng.Len()
	}
	r.check.tell(TaskProgress{Split: r.split.Index, Phase: phase, Offsets: min(r.passed, total), Total: total, Rows: r.passed, Files: len(r.files)})
}

// where names the first offset at which a file and the log part, as far as the
// file has columns that tell. The split is read once more for it.
func (v *logCheck) where(ctx context.Context, r *splitReader, file *Visible) (string, error) {
	has, err := v.rowsOf(file, len(r.split.Ranges) > 1)
	if err != nil || has == nil {
		return "", err
	}
	if err := r.restart(); err != nil {
		return "", err
	}
	next, found := 0, ""
	for i := range r.split.Ranges {
		rng := &r.split.Ranges[i]
		_, err := r.each(ctx, rng, func(m *formats.Message) error {
			at, err := r.decoder.Append(r.row, m)
			var folder int64
			if err == nil {
				folder, err = r.buckets.Number(at, r.row)
			}
			r.row.Reset()
			if err != nil || folder != r.buckets.Find(*file.Hour, file.Values) {
				return nil // told of before
			}
			here := place{m.Partition, m.Offset}
			if next < len(has) && has[next] == here {
				next++
				return nil
			}
			found = fmt.Sprintf("; the first that differs: %s/%d offset %d is not in the file", m.Topic, m.Partition, m.Offset)
			if next < len(has) && slices.Contains(has[next:], here) {
				found = fmt.Sprintf("; the first that differs: %s/%d offset %d of the file is not in the log", m.Topic, has[next].partition, has[next].offset)
			}
			return io.EOF
		})
		if err != nil && ctx.Err() != nil {
			return "", ctx.Err()
		}
		if err != nil || found != "" {
			return found, nil // the error was told of before
		}
	}
	if next < len(has) {
		return fmt.Sprintf("; the first that differs: partition %d offset %d of the file is not in the log", has[next].partition, has[next].offset), nil
	}
	return "; the offsets are the same", nil
}

// place is where a row came from.
type place struct {
	partition int32
	offset    int64
}

// rowsOf lists where the rows of a file came from; nil if it does not tell.
func (v *logCheck) rowsOf(file *Visible, several bool) ([]place, error) {
	f, err := v.ledger.sink.Open(file.Path)
	if err != nil {
		return nil, nil // it is missing, or cannot be read, which was told of before
	}
	defer func() { _ = f.Close() }() // only read
	rd, err := OpenRows(f, f.Size(), &file.File)
	if err != nil {
		return nil, nil // as above
	}
	names, columns := rd.Columns(), []string{"_offset"}
	if slices.Contains(names, "_partition") {
		columns = append(columns, "_partition")
	} else if several {
		return nil, nil
	}
	if !slices.Contains(names, "_offset") {
		return nil, nil
	}
	rows := []place{}
	lone := int32(0)
	if name, ok := ParseFileName(path.Base(file.Path)); ok {
		lone = name.Partition
	}
	err = rd.Read(columns, 0, -1, func(row [][]byte) error {
		at := place{partition: lone}
		if err := json.Unmarshal(row[0], &at.offset); err != nil {
			return err
		}
		if len(row) > 1 {
			if err := json.Unmarshal(row[1], &at.partition); err != nil {
				return err
			}
		}
		rows = append(rows, at)
		return nil
	})
	if err != nil {
		return nil, nil // damaged pages, which was told of before
	}
	return rows, nil
}
