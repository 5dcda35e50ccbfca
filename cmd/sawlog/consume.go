package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"sawlog/cmd/sawlog/output"
	"sawlog/consumer/admin"
	"sawlog/offsets"
)

type consumeFlags struct {
	rng    string
	group  string
	count  int64
	format string
}

// consumed is one record as JSON. A value or key that is not UTF-8 stands in
// base64 under the name with _base64 behind it.
type consumed struct {
	Topic     string           `json:"topic"`
	Partition int32            `json:"partition"`
	Offset    int64            `json:"offset"`
	Timestamp string           `json:"timestamp,omitempty"`
	Key       *string          `json:"key"`
	KeyRaw    string           `json:"key_base64,omitempty"`
	Value     *string          `json:"value"`
	ValueRaw  string           `json:"value_base64,omitempty"`
	Headers   []consumedHeader `json:"headers,omitempty"`
}

type consumedHeader struct {
	Key   string  `json:"key"`
	Value *string `json:"value"`
}

func (a *app) consume() *cobra.Command {
	f := consumeFlags{}
	c := &cobra.Command{
		Use: "consume TOPIC", Short: "Print records", Args: cobra.ExactArgs(1),
		Long: `Print the records of a topic: of a range, of a group's uncommitted part (-g), or
what comes from now on. With a range that has an end it always ends, also when
the last offsets hold no record.

-f takes %t topic, %p partition, %o offset, %T timestamp (RFC 3339), %k key,
%s value, %h headers, \n and \t.`,
		Example: "  sawlog consume orders --range earliest..latest -n 10\n  sawlog consume orders --range '0-3=@2026-11-29T14..+1h' -f '%p %o %s\\n'\n  sawlog consume orders -g checkers -n 100 -o jsonl",
		RunE:    func(cmd *cobra.Command, args []string) error { return a.runConsume(cmd.Context(), f, args[0]) },
	}
	flags := c.Flags()
	flags.StringVar(&f.rng, "range", "", "`START..END`, half-open; START.. alone follows the tail")
	flags.StringVarP(&f.group, "group", "g", "", "consume as a member of this group and commit")
	flags.Int64VarP(&f.count, "number", "n", 0, "stop after `N` records; 0 = no limit")
	flags.StringVarP(&f.format, "format", "f", "", "how a record is printed")
	return c
}

func (a *app) runConsume(ctx context.Context, f consumeFlags, topic string) error {
	if f.group != "" && f.rng != "" {
		return output.Errorf(output.Usage, "-g and --range exclude each other")
	}
	if f.count < 0 {
		return output.Errorf(output.Usage, "-n %d: want a number of records", f.count)
	}
	if f.format == "" {
		f.format = "%s\\n"
	}
	opts := []kgo.Opt{kgo.FetchMaxWait(500 * time.Millisecond), kgo.KeepControlRecords()}
	ends := map[int32]int64{}
	if f.group != "" {
		opts = append(opts, kgo.ConsumerGroup(f.group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.BlockRebalanceOnPoll())
	}
	k, err := a.dial(ctx, opts...)
	if err != nil {
		return err
	}
	defer k.Close()
	if _, err := admin.Topics(ctx, k, topic); err != nil {
		return err
	}
	a.print.Stream()
	if f.group == "" {
		starts, found, err := a.resolve(ctx, k, topic, f.rng)
		if err != nil {
			return err
		}
		ends = found
		assign := map[int32]kgo.Offset{}
		for p, at := range starts {
			if end, bounded := ends[p]; bounded && at >= end {
				delete(ends, p)
				continue
			}
			assign[p] = kgo.NewOffset().At(at)
		}
		if len(assign) == 0 {
			return nil // every range is empty
		}
		k.AddConsumePartitions(map[string]map[int32]kgo.Offset{topic: assign})
	}
	return a.follow(ctx, k, f, topic, ends, len(ends) > 0)
}

// follow prints until the count is reached or every end is.
func (a *app) follow(ctx context.Context, k *kafka, f consumeFlags, topic string, ends map[int32]int64, bounded bool) error {
	var printed int64
	for {
		fetches := k.PollFetches(ctx)
		if err := context.Cause(ctx); err != nil {
			return a.leave(k, f, err)
		}
		var printErr error
		var done []*kgo.Record
		fetches.EachPartition(func(part kgo.FetchTopicPartition) {
			end, has := ends[part.Partition]
			for _, r := range part.Records {
				if bounded && !has || f.count > 0 && printed >= f.count || printErr != nil {
					break
				}
				// The last offsets of a range may hold no record, so one past
				// the end ends it too.
				if over := has && r.Offset >= end; !over {
					if !r.Attrs.IsControl() {
						printErr = a.printRecord(r, f.format)
						printed++
					}
					done = append(done, r)
				}
				if has && r.Offset+1 >= end {
					has = false
					delete(ends, part.Partition)
					k.PauseFetchPartitions(map[string][]int32{topic: {part.Partition}})
				}
			}
		})
		for _, e := range fetches.Errors() {
			if printErr == nil && e.Err != nil && !errors.Is(e.Err, context.Canceled) {
				printErr = k.fetchError(e)
			}
		}
		if printErr != nil {
			return printErr
		}
		if f.group != "" && len(done) > 0 {
			if err := k.CommitRecords(ctx, done...); err != nil {
				return k.explain(err)
			}
		}
		if f.group != "" {
			k.AllowRebalance()
		}
		if bounded && len(ends) == 0 || f.count > 0 && printed >= f.count {
			return a.leave(k, f, nil)
		}
	}
}

// fetchError tells a broker that does not answer from records that cannot be
// read.
func (k *kafka) fetchError(e kgo.FetchError) error {
	var code *kerr.Error
	var network net.Error
	var group *kgo.ErrGroupSession
	if e.Topic == "" || errors.As(e.Err, &code) || errors.As(e.Err, &network) || errors.As(e.Err, &group) || errors.Is(e.Err, io.EOF) {
		return k.explain(e.Err)
	}
	return &output.Error{
		Code: output.Mismatch, Msg: fmt.Sprintf("%s/%d", e.Topic, e.Partition), Err: e.Err,
		Hint: "what stands before it was printed; sawlog log dump, on the broker's machine, shows where a segment is damaged",
	}
}

func (a *app) leave(k *kafka, f consumeFlags, err error) error {
	if f.group != "" {
		if err != nil {
			a.print.Note("group %s has committed what was printed", f.group)
		}
		k.AllowRebalance()
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		return errors.Join(err, k.LeaveGroupContext(ctx))
	}
	return err
}

// resolve turns the text of a range into a start for each partition and, where
// the range has one, an end. Without a range it starts at the tail.
func (a *app) resolve(ctx context.Context, k *kafka, topic, text string) (starts, ends map[int32]int64, err error) {
	open := text == "" || strings.HasSuffix(text, "..")
	switch {
	case text == "":
		text = "latest..latest"
	case open:
		text += "latest"
	}
	if !strings.Contains(text, "=") {
		text = topic + "=" + text
	} else if head := strings.SplitN(text, "=", 2)[0]; head != "" && (head[0] >= '0' && head[0] <= '9') && !strings.HasPrefix(head, topic) {
		text = topic + "/" + text // partitions alone
	}
	q, err := offsets.ParseQuery(text, time.Now())
	if err != nil {
		return nil, nil, output.Errorf(output.Usage, "--range %s", err)
	}
	if q.Topic != topic {
		return nil, nil, output.Errorf(output.Usage, "--range names topic %q, the verb %q", q.Topic, topic)
	}
	ranges, err := k.resolveQuery(ctx, topic, q)
	if err != nil {
		return nil, nil, err
	}
	starts, ends = map[int32]int64{}, map[int32]int64{}
	for p, r := range ranges {
		starts[p] = int64(r.Start)
		if !open {
			ends[p] = int64(r.End)
		}
	}
	return starts, ends, nil
}

// resolveQuery asks the brokers what a query means for each partition.
func (k *kafka) resolveQuery(ctx context.Context, topic string, q offsets.Query) (map[int32]offsets.Range, error) {
	topics, err := admin.Topics(ctx, k, topic)
	if err != nil {
		return nil, err
	}
	ps := admin.PartitionsOf(topics)
	if q.Partitions != nil {
		have := admin.ByPlace(ps)
		ps = nil
		for _, p := range q.Partitions {
			found := have[offsets.TopicPartition{Topic: topic, Partition: p}]
			if found == nil {
				return nil, output.Errorf(output.NotFound, "topic %s has no partition %d", topic, p).WithHint("sawlog topic offsets %s", topic)
			}
			ps = append(ps, found)
		}
	}
	if err := admin.Bounds(ctx, k, ps); err != nil {
		return nil, err
	}
	starts, err := k.boundOf(ctx, ps, q.Start)
	if err != nil {
		return nil, err
	}
	ends, err := k.boundOf(ctx, ps, q.End)
	if err != nil {
		return nil, err
	}
	ranges := map[int32]offsets.Range{}
	for i, p := range ps {
		r := offsets.Range{Start: offsets.Offset(starts[i]), End: offsets.Offset(ends[i])}
		if q.End.Kind == offsets.PlusOffsets {
			r.End = r.Start + offsets.Offset(q.End.N)
		}
		if int64(r.Start) < p.Start {
			return nil, output.Errorf(output.Mismatch, "%s: offsets %d..%d are gone: the log starts at %d", p.Place(), r.Start, p.Start, p.Start).
				WithHint("start at earliest")
		}
		if int64(r.End) > p.End {
			return nil, output.Errorf(output.Mismatch, "%s: offset %d is past the end of the log, %d", p.Place(), r.End, p.End).WithHint("end at latest")
		}
		ranges[p.Index] = r
	}
	return ranges, nil
}

// boundOf is the offset of each partition that a bound stands for.
func (k *kafka) boundOf(ctx context.Context, ps []*admin.Partition, b offsets.Bound) ([]int64, error) {
	if b.Kind == offsets.AtTime {
		if err := admin.OffsetsAt(ctx, k, ps, b.Time.UnixMilli()); err != nil {
			return nil, err
		}
	}
	at := make([]int64, len(ps))
	for i, p := range ps {
		at[i] = p.At(b)
	}
	return at, nil
}

func (a *app) printRecord(r *kgo.Record, format string) error {
	if a.print.Format != output.Table {
		c := consumed{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset}
		if r.Timestamp.UnixMilli() >= 0 {
			c.Timestamp = r.Timestamp.UTC().Format("2006-01-02T15:04:05.000Z07:00")
		}
		c.Key, c.KeyRaw = textOrBase64(r.Key)
		c.Value, c.ValueRaw = textOrBase64(r.Value)
		for _, h := range r.Headers {
			value, raw := textOrBase64(h.Value)
			if raw != "" {
				value = &raw
			}
			c.Headers = append(c.Headers, consumedHeader{h.Key, value})
		}
		return a.print.Line(c, "")
	}
	_, err := fmt.Fprint(a.print.Out, formatRecord(r, format))
	return err
}

func textOrBase64(b []byte) (*string, string) {
	if b == nil {
		return nil, ""
	}
	if utf8.Valid(b) {
		s := string(b)
		return &s, ""
	}
	return nil, base64.StdEncoding.EncodeToString(b)
}

func formatRecord(r *kgo.Record, format string) string {
	var out strings.Builder
	for i := 0; i < len(format); i++ {
		c := format[i]
		if (c != '%' && c != '\\') || i+1 == len(format) {
			out.WriteByte(c)
			continue
		}
		i++
		switch string(c) + string(format[i]) {
		case "%t":
			out.WriteString(r.Topic)
		case "%p":
			out.WriteString(strconv.Itoa(int(r.Partition)))
		case "%o":
			out.WriteString(strconv.FormatInt(r.Offset, 10))
		case "%T":
			out.WriteString(r.Timestamp.UTC().Format(time.RFC3339Nano))
		case "%k":
			out.Write(r.Key)
		case "%s", "%v":
			out.Write(r.Value)
		case "%h":
			for j, h := range r.Headers {
				if j > 0 {
					out.WriteByte(',')
				}
				out.WriteString(h.Key + "=" + string(h.Value))
			}
		case `\n`:
			out.WriteByte('\n')
		case `\t`:
			out.WriteByte('\t')
		case "%%", `\\`:
			out.WriteByte(c)
		default:
			out.WriteByte(c)
			out.WriteByte(format[i])
		}
	}
	return out.String()
}
