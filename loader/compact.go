package loader

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	"sawlog/loader/sink"
)

// rewrite carries out splits of a compact plan: each reads files that are there
// and writes their rows as one file, in (topic, partition, offset) order. It is
// done in this process and asks no broker. Once the plan is committed the old
// files are among the retired ones, so lost files can be made again from there
// for as long as these are kept.
func (d *Driver) rewrite(ctx context.Context, ask RemakeAsk) ([]*Result, error) {
	var results []*Result
	for _, n := range ask.Splits {
		if err := d.Sink.MkdirAll(StageDir(ask.PlanID, n)); err != nil {
			return nil, sinkError("stage of plan "+ask.PlanID, err)
		}
		r, err := d.rewriteSplit(ctx, ask, n)
		if err != nil {
			return nil, coded(err, ExitFailed)
		}
		d.event(Event{Kind: "attempt", Task: &TaskProgress{Split: n, Attempt: r.Attempt, Phase: "done", Rows: r.Files[0].Rows, Files: 1}})
		results = append(results, r)
	}
	return results, nil
}

func (d *Driver) rewriteSplit(ctx context.Context, ask RemakeAsk, n int) (*Result, error) {
	s := &ask.Plan.Splits[n]
	t := &task{
		taskConfig: taskConfig{sink: d.Sink, logger: d.Logger, plan: ask.Plan, planID: ask.PlanID, index: n, attempt: NewAttempt()},
		split:      s, schema: ask.Plan.Schema, names: ask.PlanID, buckets: folderOf(s),
	}
	t.dir = AttemptDir(ask.PlanID, n, t.attempt)
	if err := d.Sink.Mkdir(t.dir); err != nil {
		return nil, sinkError("attempt folder", err)
	}
	m := &merge{t: t, number: ask.Number}
	defer m.close()
	file, err := m.run(ctx)
	if err != nil {
		return nil, err
	}
	res := &Result{V: 1, Plan: ask.PlanID, Split: n, Attempt: t.attempt, Inputs: []Input{}, Files: []File{file}}
	return res, t.report(res)
}

// folderOf puts every row into the folder of the split's files.
func folderOf(s *Split) *folders {
	folder := strings.ReplaceAll(path.Dir(s.Files[0].Path), "%", "%%")
	return &folders{bucketer: &bucketer{day: true, zone: time.UTC, path: folder, from: 1, to: 0}}
}

// merge writes the rows of the old files of one split as one new file.
type merge struct {
	t      *task
	number int64 // record that retired the old files; -1 = none
	old    []*oldFile
	topics bool // rows differ in their topic
}

// oldFile is a file that is read, and where its next row stands.
type oldFile struct {
	SplitFile
	file sink.File
	scan rowScan
	at   rowKey
	left int64 // rows
}

type rowKey struct {
	topic     string
	partition int32
	offset    int64
}

func (k rowKey) before(other rowKey) bool {
	if k.topic != other.topic {
		return k.topic < other.topic
	}
	if k.partition != other.partition {
		return k.partition < other.partition
	}
	return k.offset < other.offset
}

func (m *merge) run(ctx context.Context) (File, error) {
	s := m.t.split
	f := m.t.newFile(m.t.schema, *s.Hour)
	defer f.drop()
	var err error
	if inTurn(s.Files) {
		err = m.oneByOne(ctx, f)
	} else {
		m.topics = severalTopics(s.Ranges)
		err = m.byKey(ctx, f)
	}
	if err != nil {
		return File{}, err
	}
	made, err := f.finish()
	made.Parts, made.Values = s.Ranges, s.Files[0].Values
	return made, err
}

// openOld opens a file and wants it to be what the plan says.
func (m *merge) openOld(want *SplitFile) (*oldFile, error) {
	old, err := m.open(want)
	if err == nil {
		m.old = append(m.old, old)
	}
	return old, err
}

func (m *merge) open(want *SplitFile) (*oldFile, error) {
	file, err := m.find(want.Path)
	if err != nil {
		return nil, m.lost(want.Path, err)
	}
	old := &oldFile{SplitFile: *want, file: file, left: want.Rows}
	h := sha256.New()
	if _, err = io.Copy(h, io.NewSectionReader(file, 0, file.Size())); err == nil {
		if have := hex.EncodeToString(h.Sum(nil)); have != want.SHA256 {
			e := fail(ExitMismatch, "rewrite of %s: it has sha256 %s, the ledger says %s", want.Path, have, want.SHA256)
			e.Gone = m.number >= 0 // else a rerun has the log give it
			err = e.hint("`sawlog rerun` brings the file's bytes back; then rewrite again")
		}
	}
	if err == nil {
		old.scan, err = openScan(file, file.Size(), want.Path, m.t.schema)
	}
	if err != nil {
		_ = file.Close() // only read
		return nil, rewriteError(want.Path, err)
	}
	return old, nil
}

// find opens a file where it is visible, or where its retirement put it.
func (m *merge) find(name string) (sink.File, error) {
	if m.number < 0 {
		return m.t.sink.Open(name)
	}
	file, err := m.t.sink.Open(RetiredPath(m.number, name))
	if errors.Is(err, sink.ErrNotExist) {
		return m.t.sink.Open(name)
	}
	return file, err
}

// lost explains that an old file cannot be opened.
func (m *merge) lost(name string, err error) error {
	if !errors.Is(err, sink.ErrNotExist) {
		return sinkError("rewrite of "+name, err)
	}
	e := &Error{Code: ExitMismatch, Msg: "rewrite of " + name, Err: err}
	if m.number < 0 {
		return e.hint("`sawlog rerun` brings lost files back; then rewrite again")
	}
	return e.hint("record %d retired it, and a week after that the files a rewrite replaced are swept: load its offsets again with `sawlog backfill JOB --only all`", m.number)
}

// oneByOne writes files whose ranges follow each other.
func (m *merge) oneByOne(ctx context.Context, f *dataFile) error {
	files := m.t.split.Files
	for i := range files {
		old, err := m.openOld(&files[i])
		if err != nil {
			return err
		}
		for old.left > 0 {
			if err := m.take(ctx, old, f); err != nil {
				return err
			}
		}
		old.close()
	}
	return nil
}

// byKey writes the rows of all files in order of their keys.
func (m *merge) byKey(ctx context.Context, f *dataFile) error {
	files := m.t.split.Files
	for i := range files {
		old, err := m.openOld(&files[i])
		if err != nil {
			return err
		}
		if err := m.look(old); err != nil {
			return err
		}
	}
	for {
		var next *oldFile
		for _, old := range m.old {
			if old.left > 0 && (next == nil || old.at.before(next.at)) {
				next = old
			}
		}
		if next == nil {
			return nil
		}
		if err := m.take(ctx, next, f); err != nil {
			return err
		}
		if err := m.look(next); err != nil {
			return err
		}
	}
}

// take writes the next row of a file.
func (m *merge) take(ctx context.Context, old *oldFile, f *dataFile) error {
	if err := old.scan.Next(f.cols); err != nil {
		return rewriteError(old.Path, err)
	}
	old.left--
	if old.left%8192 == 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return f.cut()
}

// look reads where the next row of a file stands.
func (m *merge) look(old *oldFile) error {
	if old.left == 0 {
		old.close()
		return nil
	}
	before := old.at
	partition, err := old.scan.Head("_partition")
	if err != nil || len(partition) != 4 {
		return rewriteError(old.Path, errors.Join(err, errNoKey))
	}
	offset, err := old.scan.Head("_offset")
	if err != nil || len(offset) != 8 {
		return rewriteError(old.Path, errors.Join(err, errNoKey))
	}
	old.at.partition = int32(binary.LittleEndian.Uint32(partition))
	old.at.offset = int64(binary.LittleEndian.Uint64(offset))
	if m.topics {
		topic, err := old.scan.Head("_topic")
		if err != nil {
			return rewriteError(old.Path, errors.Join(err, errNoKey))
		}
		old.at.topic = string(topic)
	}
	if old.left < old.Rows && !before.before(old.at) {
		return rewriteError(old.Path, fmt.Errorf("its rows are not in order: %v after %v", old.at, before))
	}
	return nil
}

var errNoKey = errors.New("no column tells where a row stood in the log")

func rewriteError(name string, err error) error {
	var stored *sink.Error
	if errors.As(err, &stored) {
		return sinkError("rewrite of "+name, err)
	}
	e := &Error{Code: ExitConflict, Msg: "rewrite of " + name, Err: err}
	if have := (*Error)(nil); errors.As(err, &have) {
		e.Code, e.Hint = have.Code, have.Hint
	}
	return e
}

func (m *merge) close() {
	for _, old := range m.old {
		old.close()
	}
}

// close lets go of the file and of what was decoded of it.
func (o *oldFile) close() {
	if o.file != nil {
		_ = o.file.Close() // only read
		o.file, o.scan = nil, nil
	}
}

// checkCompacted holds the result of a split of a compact plan against it.
func checkCompacted(p *Plan, stagePlan string, s *Split, r *Result) error {
	var rows int64
	for i := range s.Files {
		rows += s.Files[i].Rows
	}
	if len(r.Inputs) != 0 || len(r.Files) != 1 {
		return fmt.Errorf("counts %d ranges and %d files, want none and 1", len(r.Inputs), len(r.Files))
	}
	file := &r.Files[0]
	want := FinalPath(path.Dir(s.Files[0].Path), stagePlan, p.Writer.extension(), s)
	switch err := file.form(); {
	case err != nil:
		return err
	case file.Path != want || !slices.Equal(file.Values, s.Files[0].Values):
		return fmt.Errorf("file %s of values %q: want %s of %q", file.Path, file.Values, want, s.Files[0].Values)
	case file.Hour == nil || *file.Hour != *s.Hour || file.Rows != rows:
		return fmt.Errorf("file %s has %d rows, want %d of hour %s", file.Path, file.Rows, rows, HourText(*s.Hour))
	}
	if dir := AttemptDir(r.Plan, r.Split, r.Attempt); path.Dir(file.Stage) != dir || !strings.HasSuffix(file.Stage, StageSuffix) {
		return fmt.Errorf("file %s is staged at %s, want %s/….part", file.Path, file.Stage, dir)
	}
	return nil
}
