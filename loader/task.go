package loader

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	"sawlog/consumer"
	"sawlog/formats"
	"sawlog/loader/sink"
	"sawlog/offsets"
)

// A task carries out one attempt of one split: it reads the split's ranges,
// decodes the records into the columns of their folders, makes one file per
// folder on local disk, stages the files in the attempt's folder and writes
// result.json there last.
//
// One goroutine does all of it (another reads ahead), so the bytes of a file
// follow from its rows alone. Memory changes only the way: while all open files
// fit, they are written side by side (direct.go); rows that come when they no
// longer do are sorted by bucket on local disk, to write one file at a time
// (sorted.go).
type task struct {
	taskConfig
	split   *Split
	schema  *formats.Schema
	carried bool   // the split was carried over from an earlier revision
	names   string // id of the plan that files are named by
	dir     string // attempt folder
	buckets *folders

	decoder formats.Decoder
	infer   *formats.Inference
	bad     quarantine
	inputs  []Input
	pace    *consumer.Pace
	msg     formats.Message
	small   smallWriter
	spare   *formats.Columns // of a small file that ended, for the next one
	used    int64            // bytes all open files are thought to take
	written int64            // of them, those of files with a writer
	rows    int64
	done    int64 // offsets passed
	refused int64
	leaders consumer.Leaders // of the partitions it reads one after the other
	drift   map[Drift]int64  // of refused records, by kind
	due     atomic.Bool      // progress was last told a second ago
	phase   string           // of the last progress reported
}

// taskConfig is what a task is given.
type taskConfig struct {
	cluster  consumer.Cluster
	sink     sink.Sink
	logger   *slog.Logger
	plan     *Plan
	planID   string // under which files are staged
	index    int    // of the split
	attempt  string
	memory   int64              // bytes
	fetch    int                // bytes of one fetch
	rate     int64              // bytes a second it may fetch; 0 = no limit
	spool    string             // local folder for scratch files; empty = the system's
	progress func(TaskProgress) // may be nil
}

// runTask carries out one attempt. The attempt's folder must not be there, its
// parent must.
func runTask(ctx context.Context, c taskConfig) (*Result, error) {
	t, err := newTask(c)
	if err != nil {
		return nil, err
	}
	if err := t.sink.Mkdir(t.dir); err != nil {
		if errors.Is(err, sink.ErrNotExist) {
			return nil, &Error{Code: ExitConflict, Msg: "the plan was not begun, or its stage was swept", Err: err}
		}
		return nil, fmt.Errorf("attempt folder: %w", err)
	}
	return t.run(ctx)
}

func newTask(c taskConfig) (*task, error) {
	if c.index < 0 || c.index >= len(c.plan.Splits) {
		return nil, fail(ExitConflict, "plan %s has no split %d", c.planID, c.index)
	}
	t := &task{taskConfig: c, split: &c.plan.Splits[c.index], schema: c.plan.Schema}
	t.names = t.split.StagePlan(c.planID)
	t.dir = AttemptDir(t.planID, t.index, t.attempt)
	if t.split.Schema != nil {
		t.schema, t.carried = t.split.Schema, true
	}
	if least := leastMemory(t.schema, &c.plan.Writer); c.memory < least {
		return nil, tooLittle(c.memory, least)
	}
	t.fetch, t.pace = fetchBytes(c.fetch, c.memory), consumer.NewPace(c.rate)
	var err error
	if t.buckets, err = newFolders(c.plan.Bucket, t.schema); err != nil {
		return nil, err
	}
	t.bad.t = t
	if t.decoder, err = formats.NewDecoder(t.schema, t.plan.Decode); err != nil {
		return nil, err
	}
	t.inputs = make([]Input, len(t.split.Ranges))
	for i, r := range t.split.Ranges {
		t.inputs[i] = Input{
			Cluster: t.plan.Cluster, TopicID: r.TopicID, Topic: r.Topic, Partition: r.Partition, Range: r.Range,
			Watermark: NoWatermark,
		}
	}
	return t, nil
}

func (t *task) run(ctx context.Context) (*Result, error) {
	defer t.ticking()()
	files, err := newDirect(t).write(ctx)
	if err != nil {
		return nil, err
	}
	res := &Result{V: 1, Plan: t.planID, Split: t.index, Attempt: t.attempt, Inputs: t.inputs, Notes: t.decoder.Notes()}
	if t.infer != nil {
		res.Unknown = t.infer.Report()
	} else {
		slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
		res.Files, res.Drift = files, driftList(t.drift)
	}
	for i := range t.inputs {
		if in := &t.inputs[i]; in.Accounted() != in.Len() {
			return nil, fail(ExitMismatch, "%s/%d %s: %d offsets accounted for, want %d", in.Topic, in.Partition, in.Range, in.Accounted(), in.Len())
		}
	}
	if err := t.report(res); err != nil {
		return nil, err
	}
	t.tell("done", len(files), true)
	return res, nil
}

// report writes result.json, in one step.
func (t *task) report(res *Result) error {
	data, err := Canonical(res)
	if err != nil {
		return err
	}
	name := ResultPath(t.dir)
	w, err := t.sink.Create(name + StageSuffix)
	if err != nil {
		return fmt.Errorf("result: %w", err)
	}
	_, err = w.Write(data)
	if closed := w.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = t.sink.Rename(name+StageSuffix, name)
	}
	if err != nil {
		return fmt.Errorf("result: %w", err)
	}
	return nil
}

// each reads the ranges of the split in order and calls fn for every record;
// the message is valid during the call. It fills in all of the counts but
// those fn makes: skipped, quarantined and, from them, data.
func (t *task) each(ctx context.Context, phase string, fn func(rng int, m *formats.Message) error) error {
	for i := range t.inputs {
		if err := t.readRange(ctx, phase, i, fn); err != nil {
			return err
		}
	}
	return nil
}

func (t *task) readRange(ctx context.Context, phase string, i int, fn func(rng int, m *formats.Message) error) error {
	in := &t.inputs[i]
	r := consumer.NewReader(t.cluster, offsets.TopicPartition{Topic: in.Topic, Partition: in.Partition}, in.TopicID,
		in.Range, consumer.Options{
			FetchBytes: t.fetch, MaxBatchBytes: int(t.memory / 4), MaxDecompressed: int(t.memory / 3),
			Isolation: isolationOf(t.plan.Isolation), Compact: t.compact(in.TopicID), Pace: t.pace, Leaders: &t.leaders,
		})
	defer r.Close()
	t.msg.Topic, t.msg.Partition = in.Topic, in.Partition
	before := t.done
	t.tell(phase, 0, false) // the first records may take a while
	for {
		rec, err := r.Next(ctx)
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		t.take(rec)
		if err := fn(i, &t.msg); err != nil {
			return err
		}
		if t.due.Load() {
			t.done = before + int64(r.Position()-in.Start)
			t.tell(phase, 0, false)
		}
	}
	t.done = before + in.Len()
	in.take(r.Counts())
	return nil
}

// take makes the record the task's message.
func (t *task) take(rec *consumer.Record) {
	t.msg.Offset, t.msg.Timestamp, t.msg.Key, t.msg.Value = int64(rec.Offset), rec.Timestamp, rec.Key, rec.Value
	t.msg.Headers = t.msg.Headers[:0]
	for i := range rec.Headers {
		t.msg.Headers = append(t.msg.Headers, formats.Header{Key: text(rec.Headers[i].Key), Value: rec.Headers[i].Value})
	}
}

// text is a string over bytes that do not change while it is used.
func text(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	return unsafe.String(&b[0], len(b))
}

func (t *task) compact(id offsets.TopicID) bool {
	for i := range t.plan.Topics {
		if t.plan.Topics[i].ID == id {
			return t.plan.Topics[i].Compact
		}
	}
	return false
}

func isolationOf(name string) consumer.Isolation {
	if name == isolationUncommitted {
		return consumer.ReadUncommitted
	}
	return consumer.ReadCommitted
}

// refuse deals with a record that makes no row: it is skipped, quarantined, or
// turns the task into one that only looks for unknown paths.
func (t *task) refuse(rng int, m *formats.Message, err error) error {
	var bad *formats.BadRecord
	switch {
	case errors.Is(err, formats.ErrSkip):
		t.inputs[rng].Skipped++
		return nil
	case errors.As(err, &bad):
		t.inputs[rng].Quarantined++
		t.refused++
		if t.infer != nil {
			return nil
		}
		t.drifts(err)
		return t.bad.add(m, bad)
	case errors.Is(err, formats.ErrUnknownPath):
		t.infer = formats.NewInference(t.schema, t.plan.Decode)
		return t.observe(rng, m)
	default:
		return fmt.Errorf("%s/%d offset %d: %w", m.Topic, m.Partition, m.Offset, err)
	}
}

// drifts counts a record with a value that its column can't hold.
func (t *task) drifts(err error) {
	m, ok := errors.AsType[*formats.Misfit](err)
	if !ok {
		return
	}
	if t.drift == nil {
		t.drift = map[Drift]int64{}
	}
	t.drift[Drift{Column: m.Column, Type: m.Type, Seen: m.Seen}]++
}

// observe looks at a record for unknown paths only.
func (t *task) observe(rng int, m *formats.Message) error {
	if err := t.infer.Observe(m); err != nil {
		return t.refuse(rng, m, err)
	}
	return nil
}

// passed notes the event time of a row.
func (t *task) passed(rng int, at formats.Instant) {
	t.rows++
	if in := &t.inputs[rng]; int64(at) > in.Watermark {
		in.Watermark = int64(at)
	}
}

// ticking makes progress due once a second, until stop is called. A look at the
// clock for each record would cost more than the reading of small ones.
func (t *task) ticking() (stop func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		second := time.NewTicker(time.Second)
		defer second.Stop()
		for {
			select {
			case <-second.C:
				t.due.Store(true)
			case <-end:
				return
			}
		}
	}()
	return func() {
		close(end)
		<-ended
	}
}

// tell reports progress: a new phase, and then once a second unless it must.
func (t *task) tell(phase string, files int, must bool) {
	if t.progress == nil || !must && phase == t.phase && !t.due.Load() {
		return
	}
	t.due.Store(false)
	t.phase = phase
	var total int64
	for _, r := range t.split.Ranges {
		total += r.Len()
	}
	t.progress(TaskProgress{
		Split: t.index, Attempt: t.attempt, Phase: phase, Offsets: t.done, Total: total,
		Rows: t.rows, Bad: t.refused, Files: files, Fetched: t.pace.Bytes(), Held: t.pace.Held().Milliseconds(),
	})
}
