package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"sawlog/cmd/sawlog/output"
	"sawlog/consumer"
	"sawlog/consumer/admin"
)

type produceFlags struct {
	csv       bool
	keyField  string
	timeField string
	codec     string
	acks      string
	partition int32
	delimiter string
	dryRun    bool
}

// produced is what was acknowledged.
type produced struct {
	Topic      string          `json:"topic"`
	Records    int64           `json:"records"`
	Bytes      int64           `json:"bytes"` // of record values
	Partitions []producedRange `json:"partitions"`
	Failed     int64           `json:"failed"`
}

type producedRange struct {
	Partition int32 `json:"partition"`
	Records   int64 `json:"records"`
	First     int64 `json:"first"` // -1 with --acks 0
	Last      int64 `json:"last"`
}

func (a *app) produce() *cobra.Command {
	f := produceFlags{}
	c := &cobra.Command{
		Use: "produce TOPIC [FILE…]", Short: "Send lines as records", Args: cobra.MinimumNArgs(1),
		Long: `Send each line of the files, or of standard input ('-', or no FILE), as a record.
Files that end in .gz or .zst are unpacked. With --csv a record ends at an
unquoted newline, and each file's first record is its header, which is not sent.
What was acknowledged is printed, also when sending fails or is interrupted.`,
		Example: "  sawlog produce clicks events.jsonl.gz --key-field user -z zstd\n  sawlog produce rides --csv rides-*.csv.gz --time-field pickup",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.runProduce(cmd.Context(), f, args[0], args[1:])
		},
	}
	flags := c.Flags()
	flags.BoolVar(&f.csv, "csv", false, "records are CSV; the first of each file is its header")
	flags.StringVar(&f.keyField, "key-field", "", "take the key from this `FIELD` of the JSON object or CSV record")
	flags.StringVar(&f.timeField, "time-field", "", "take the timestamp from this `FIELD`: RFC 3339, a date and time, or epoch s or ms")
	flags.StringVar(&f.delimiter, "delimiter", ",", "what separates CSV fields")
	flags.StringVarP(&f.codec, "codec", "z", "none", "none, gzip, snappy, lz4 or zstd")
	flags.StringVar(&f.acks, "acks", "all", "all, 1 or 0")
	flags.Int32Var(&f.partition, "partition", -1, "send to this partition only")
	flags.BoolVar(&f.dryRun, "dry-run", false, "read the files and count, send nothing")
	return c
}

func (f produceFlags) options() ([]kgo.Opt, error) {
	codecs := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	codec, ok := codecs[f.codec]
	if !ok {
		return nil, output.Errorf(output.Usage, "-z %q: want none, gzip, snappy, lz4 or zstd", f.codec)
	}
	if len(f.delimiter) != 1 || f.delimiter == `"` || f.delimiter == "\n" || f.delimiter == "\r" {
		return nil, output.Errorf(output.Usage, "--delimiter %q: want one byte", f.delimiter)
	}
	opts := []kgo.Opt{
		kgo.ProducerBatchCompression(codec), kgo.AllowAutoTopicCreation(), kgo.MaxBufferedRecords(50_000),
		kgo.MaxBufferedBytes(64 << 20), kgo.ProducerLinger(5 * time.Millisecond),
	}
	switch f.acks {
	case "all", "-1":
		opts = append(opts, kgo.RequiredAcks(kgo.AllISRAcks()))
	case "1":
		opts = append(opts, kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite())
	case "0":
		opts = append(opts, kgo.RequiredAcks(kgo.NoAck()), kgo.DisableIdempotentWrite())
	default:
		return nil, output.Errorf(output.Usage, "--acks %q: want all, 1 or 0", f.acks)
	}
	if f.partition >= 0 {
		opts = append(opts, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	}
	return opts, nil
}

func (a *app) runProduce(ctx context.Context, f produceFlags, topic string, files []string) error {
	opts, err := f.options()
	if err != nil {
		return err
	}
	limits, err := a.topicLimits(ctx, topic)
	if err != nil {
		return err
	}
	if limits.partitions > 0 && f.partition >= limits.partitions {
		return output.Errorf(output.NotFound, "topic %s has no partition %d", topic, f.partition).WithHint("sawlog topic describe %s", topic)
	}
	opts = append(opts, kgo.ProducerBatchMaxBytes(limits.maxBatch))
	k, err := a.dial(ctx, opts...)
	if err != nil {
		return err
	}
	defer k.Close()
	if len(files) == 0 {
		files = []string{"-"}
	}
	p := &producing{app: a, k: k, flags: f, topic: topic, limits: limits, ranges: map[int32]*producedRange{}}
	p.bars, p.size = a.newProgress(), sizeOf(files)
	sendErr := p.all(ctx, files)
	p.bars.done()
	sum := p.summary()
	if err := a.print.Print(sum, sum.rows); err != nil {
		return err
	}
	if p.old.Load() > 0 {
		a.print.Note("warning: %d records are older than the topic's retention.ms and may be deleted at any time; set retention.ms=-1 to keep them", p.old.Load())
	}
	return sendErr
}

func (s produced) rows() *output.Rows {
	rows := &output.Rows{Head: []string{"PARTITION", "RECORDS", "FIRST", "LAST"}}
	for _, p := range s.Partitions {
		rows.Add(p.Partition, p.Records, p.First, p.Last)
	}
	rows.Add("total", s.Records)
	return rows
}

// producing is one run of the verb.
type producing struct {
	app    *app
	k      *kafka
	flags  produceFlags
	topic  string
	limits topicLimits

	bars  *progress
	size  int64        // bytes of the files; 0 = not known
	told  int64        // records sent when tell last said something
	read  atomic.Int64 // bytes of the files
	old   atomic.Int64
	acked atomic.Int64 // when a record was last acknowledged, nanoseconds

	mu     sync.Mutex
	ranges map[int32]*producedRange
	bytes  int64
	failed int64
	err    error
}

// errStalled is the cause of a context in which no record was acknowledged for
// as long as a request may take.
var errStalled = errors.New("no record was acknowledged for as long as --timeout allows")

// all sends the files and waits for the answers; it gives up when none comes.
func (p *producing) all(ctx context.Context, files []string) error {
	watched, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	p.touch()
	go p.watch(watched, stop)
	sendErr := p.sendAll(watched, files)
	flushed := watched
	if ctx.Err() != nil { // interrupted: what is under way still gets its answer
		var cancel context.CancelFunc
		flushed, cancel = context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
	}
	if err := p.k.Flush(flushed); err != nil && sendErr == nil {
		sendErr = err
	}
	if errors.Is(context.Cause(watched), errStalled) {
		return p.k.explain(errStalled)
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if first := p.firstError(); first != nil {
		return first
	}
	return sendErr
}

// watch ends the sending when records wait and none is acknowledged.
func (p *producing) watch(ctx context.Context, stop context.CancelCauseFunc) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if p.k.BufferedProduceRecords() == 0 {
			p.touch()
		} else if time.Since(time.Unix(0, p.acked.Load())) > p.app.timeout {
			stop(errStalled)
			return
		}
	}
}

func (p *producing) touch() { p.acked.Store(time.Now().UnixNano()) }

func (p *producing) sendAll(ctx context.Context, files []string) error {
	for _, name := range files {
		if err := p.sendFile(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

func (p *producing) sendFile(ctx context.Context, name string) (err error) {
	src, err := openInput(name, p.app.in, func(n int) { p.read.Add(int64(n)) })
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	lines := newSplitter(src, p.flags.csv, p.limits.maxBatch)
	var pick picker
	pick.delimiter = p.flags.delimiter[0]
	for number := 1; ; number++ {
		line, err := lines.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return output.Errorf(output.Failed, "%s: record %d: %w", name, number, err)
		}
		if p.flags.csv && number == 1 {
			pick.header = csvFields(string(line), pick.delimiter)
			if err := pick.need(name, p.flags.keyField, p.flags.timeField); err != nil {
				return err
			}
			continue
		}
		if err := p.send(ctx, line, &pick, fmt.Sprintf("%s: record %d", name, number)); err != nil {
			return err
		}
	}
}

func (p *producing) send(ctx context.Context, value []byte, pick *picker, where string) error {
	r := &kgo.Record{Topic: p.topic, Value: value, Partition: max(p.flags.partition, 0)}
	if p.flags.keyField != "" {
		text, found, err := pick.field(value, p.flags.keyField)
		if err != nil {
			return output.Errorf(output.Failed, "%s: --key-field %s: %w", where, p.flags.keyField, err)
		}
		if found {
			r.Key = []byte(text)
		}
	}
	if p.flags.timeField != "" {
		text, found, err := pick.field(value, p.flags.timeField)
		if err == nil && !found {
			err = errors.New("the record has no such field")
		}
		if err == nil {
			r.Timestamp, err = lenientTime(text)
		}
		if err != nil {
			return output.Errorf(output.Failed, "%s: --time-field %s: %w", where, p.flags.timeField, err)
		}
	}
	if keep := p.limits.retention; keep > 0 && !r.Timestamp.IsZero() && time.Since(r.Timestamp) > keep {
		p.old.Add(1)
	}
	if err := p.firstError(); err != nil {
		return err
	}
	p.tell()
	if p.flags.dryRun {
		p.count(r)
		return ctx.Err()
	}
	p.k.Produce(ctx, r, func(r *kgo.Record, err error) { p.acknowledged(r, err, where) })
	return ctx.Err()
}

func (p *producing) acknowledged(r *kgo.Record, err error, where string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.failed++
		if p.err == nil {
			p.err = p.explain(err, where)
		}
		return
	}
	p.touch()
	p.counted(r)
}

// count takes a record into the sums as if it had been acknowledged.
func (p *producing) count(r *kgo.Record) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r.Offset = -1
	p.counted(r)
}

func (p *producing) counted(r *kgo.Record) {
	got := p.ranges[r.Partition]
	if got == nil {
		got = &producedRange{Partition: r.Partition, First: r.Offset, Last: r.Offset}
		p.ranges[r.Partition] = got
	}
	got.Records++
	got.First, got.Last = min(got.First, r.Offset), max(got.Last, r.Offset)
	p.bytes += int64(len(r.Value))
}

// tellEvery is how many records are sent between two looks at how far it is.
const tellEvery = 1000

// tell says how far the sending has come.
func (p *producing) tell() {
	if p.told++; p.told%tellEvery != 0 {
		return
	}
	s := p.summary()
	line := fmt.Sprintf("%d records acknowledged, %s", s.Records, output.Bytes(s.Bytes))
	p.bars.show("", line, p.read.Load(), p.size, "bytes", line)
}

func (p *producing) explain(err error, where string) error {
	var code *kerr.Error
	switch {
	case errors.Is(err, kerr.MessageTooLarge):
		return output.Errorf(output.Failed, "%s: larger than the topic takes", where).
			WithHint("sawlog topic alter %s --config max.message.bytes=N (it is %d now)", p.topic, p.limits.maxBatch)
	case errors.As(err, &code):
		return &admin.Error{What: where, Code: code}
	case errors.Is(err, context.Canceled):
		return err
	}
	return output.Errorf(output.Failed, "%s: %w", where, err)
}

func (p *producing) firstError() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

func (p *producing) summary() produced {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := produced{Topic: p.topic, Bytes: p.bytes, Failed: p.failed, Partitions: []producedRange{}}
	for part := int32(0); len(s.Partitions) < len(p.ranges); part++ {
		if r := p.ranges[part]; r != nil {
			s.Partitions = append(s.Partitions, *r)
			s.Records += r.Records
		}
	}
	return s
}

// topicLimits are the configs of a topic that matter to a producer.
type topicLimits struct {
	maxBatch   int32
	retention  time.Duration // 0 = kept for ever
	partitions int32         // 0 = there is no topic yet
}

func (a *app) topicLimits(ctx context.Context, topic string) (topicLimits, error) {
	limits := topicLimits{maxBatch: 1 << 20, retention: 7 * 24 * time.Hour}
	k, err := a.dial(ctx)
	if err != nil {
		return limits, err
	}
	defer k.Close()
	topics, err := admin.Topics(ctx, k, topic)
	if errors.Is(err, consumer.ErrUnknownTopic) {
		return limits, nil // it will be made by the first record
	}
	if err != nil {
		return limits, err
	}
	limits.partitions = int32(len(topics[0].Partitions))
	configs, err := k.topicConfigs(ctx, topic, true)
	if err != nil {
		return limits, err
	}
	for _, c := range configs {
		n, err := strconv.ParseInt(c.Value, 10, 64)
		switch {
		case err != nil:
		case c.Name == "max.message.bytes" && n > 0:
			limits.maxBatch = int32(min(n, 1<<30))
		case c.Name == "retention.ms":
			limits.retention = 0
			if n > 0 && n < time.Duration(1<<62).Milliseconds() {
				limits.retention = time.Duration(n) * time.Millisecond
			}
		}
	}
	return limits, nil
}
