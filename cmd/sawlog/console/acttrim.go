package console

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"sawlog/consumer"
	"sawlog/consumer/admin"
	"sawlog/jobs"
	"sawlog/offsets"
)

// askTrim is a form, then which records would be deleted, by partition.
func (k *console) askTrim(ctx context.Context, r *http.Request, cluster consumer.Cluster, t *admin.Topic, set map[string]string) (*confirm, error) {
	to, parts := strings.TrimSpace(r.Form.Get("to")), strings.TrimSpace(r.Form.Get("partition"))
	c := &confirm{
		Title: "Delete records of " + t.Name, Back: topicHref(t.Name), Name: t.Name, Form: r.URL.Path,
		Does: "Deletes the oldest records, for good: each log starts at the bound from then on. Nothing is deleted before it was shown here.",
		Fields: []field{
			{Name: "to", Label: "First record to keep", Type: "text", Value: to, Hint: "an offset, -1000 before the end, a time as @2026-11-29T14 or @-7d, or latest to keep none"},
			{Name: "partition", Label: "Partitions", Type: "text", Value: parts, Hint: "such as 3, 0-3 or 0,2; empty = all"},
		},
	}
	if policy := k.valueOf("cleanup.policy", set); policy != "" && !strings.Contains(policy, "delete") {
		return c.refused(compacted(t.Name))
	}
	if to == "" {
		return c, nil
	}
	q, err := trimOf(t.Name, parts, to, k.Now())
	if err != nil {
		return c.refused(err)
	}
	ps, err := k.resolveTrim(ctx, cluster, t, q)
	if err != nil {
		return c.refused(err)
	}
	if q.End.Kind == offsets.AtTime {
		to = "@" + q.End.Time.UTC().Format(time.RFC3339) // the moment that was shown, not a later one
	}
	c.Line = "sawlog topic trim " + shell(t.Name)
	if parts != "" {
		c.Line += " --partition " + shell(parts)
	}
	c.Line += " --to " + shell(to) + " --yes"
	if err := c.previewTrim(ctx, cluster, t, ps, set); err != nil {
		c.Notes = append(c.Notes, "Who reads the topic could not be asked: "+err.Error())
	}
	return c, nil
}

// trimOf reads the form: the query up to whose end records are deleted.
func trimOf(topic, parts, to string, now time.Time) (offsets.Query, error) {
	text := topic
	if parts != "" {
		text += "/" + parts
	}
	q, err := offsets.ParseQuery(text+"=earliest.."+to, now)
	if err != nil || q.End.Kind == offsets.PlusOffsets {
		return q, &jobs.Refusal{Kind: jobs.ErrInvalid, Msg: fmt.Sprintf("%s up to %s: want partitions as N, N-M or a list of them, and latest, an offset, -N or @TIME", text, to)}
	}
	return q, nil
}

// resolveTrim finds the partitions of a trim with their bounds; Found is where
// each would start.
func (k *console) resolveTrim(ctx context.Context, c consumer.Cluster, t *admin.Topic, q offsets.Query) ([]*admin.Partition, error) {
	ps := admin.PartitionsOf([]admin.Topic{*t})
	for _, index := range q.Partitions {
		if !slices.ContainsFunc(ps, func(p *admin.Partition) bool { return p.Index == index }) {
			return nil, &jobs.Refusal{Kind: jobs.ErrInvalid, Msg: fmt.Sprintf("topic %s has no partition %d: it has %d", t.Name, index, len(ps))}
		}
	}
	if len(q.Partitions) > 0 {
		ps = slices.DeleteFunc(ps, func(p *admin.Partition) bool { return !slices.Contains(q.Partitions, p.Index) })
	}
	if err := measure(ctx, c, ps); err != nil {
		return nil, err
	}
	if q.End.Kind == offsets.AtTime {
		if err := findAt(ctx, c, ps, q.End.Time.UnixMilli()); err != nil {
			return nil, err
		}
	}
	for _, p := range ps {
		if p.Records() < 0 {
			return nil, fmt.Errorf("%w: %s/%d has no leader: where its log stands is not known", consumer.ErrUnavailable, p.Topic, p.Index)
		}
		p.Found = p.At(q.End)
		if p.Found > p.End {
			return nil, &jobs.Refusal{Kind: jobs.ErrInvalid, Msg: fmt.Sprintf("%s/%d: offset %d lies behind the end of the log, %d", p.Topic, p.Index, p.Found, p.End), Hint: "latest is the end of each"}
		}
		p.Found = max(p.Found, p.Start)
	}
	return ps, nil
}

// previewTrim shows what would be lost, to whom, and has the deed delete the same.
func (c *confirm) previewTrim(ctx context.Context, cluster consumer.Cluster, t *admin.Topic, ps []*admin.Partition, set map[string]string) error {
	cuts := table{Title: "What is deleted", Heads: []string{"Partition", "Log start", "Becomes", "Log end", "Records deleted, at most"}, Numbers: 5}
	var lost int64
	cut := 0
	c.Hidden = []fact{{"id", topicID(t.ID)}}
	for _, p := range ps {
		cuts.add(strconv.Itoa(int(p.Index)), count(p.Start), count(p.Found), count(p.End), count(p.Found-p.Start))
		if p.Found == p.Start {
			continue
		}
		cut++
		lost += p.Found - p.Start
		c.Hidden = append(c.Hidden, fact{"cut", offsetMove{Partition: p.Index, From: p.Start, To: p.Found}.Field()})
	}
	c.Facts = []fact{{"Records deleted, at most", count(lost)}, {"Partitions that lose some", count(cut) + " of " + count(len(ps))}}
	c.Tables = append(c.Tables, cuts)
	if cut == 0 {
		c.Notes, c.Hidden = append(c.Notes, "No record lies before the bound: there is nothing to delete."), nil
		return nil
	}
	found := admin.ByPlace(ps)
	for _, h := range holdsOf(set) {
		from := int64(h.From)
		if p := found[offsets.TopicPartition{Topic: t.Name, Partition: h.Partition}]; p != nil && p.Found > from {
			c.Notes = append(c.Notes, fmt.Sprintf("Job %s has not loaded %s/%d beyond offset %s: %s are lost to it.", h.Job, t.Name, h.Partition, count(from), plural(int(p.Found-max(from, p.Start)), "record")))
		}
	}
	readers, err := readersOf(ctx, cluster, t.Name)
	for _, g := range readers {
		var behind int64
		for at, offset := range g.at {
			if p := found[at]; p != nil && p.Found > offset {
				behind += p.Found - max(offset, p.Start)
			}
		}
		if behind > 0 {
			c.Notes = append(c.Notes, fmt.Sprintf("Group %s has yet to read %s of them.", printable([]byte(g.name)), count(behind)))
		}
	}
	c.Button, c.Danger, c.Of, c.Typed = "Delete "+plural(int(lost), "record"), true, "topic", t.Name
	return err
}

func (k *console) doTrim(ctx context.Context, r *http.Request) (string, error) {
	name := r.PathValue("topic")
	if err := typed(r, "topic", name); err != nil {
		return "", err
	}
	return topicHref(name), k.topicDeed(ctx, r, func(ctx context.Context, c consumer.Cluster, t *admin.Topic, _ map[string]string) error {
		cuts, below := map[int32]offsetMove{}, map[int32]int64{}
		for _, text := range r.PostForm["cut"] {
			m, err := moveOf(text)
			if err != nil {
				return &jobs.Refusal{Kind: jobs.ErrInvalid, Msg: "cut: " + err.Error()}
			}
			cuts[m.Partition], below[m.Partition] = m, m.To
		}
		if len(below) == 0 {
			return &jobs.Refusal{Kind: jobs.ErrInvalid, Msg: "the form names no partition of which records are deleted"}
		}
		if err := sameStarts(ctx, c, t, cuts); err != nil {
			return err
		}
		_, err := admin.DeleteRecords(ctx, c, name, below)
		k.record("records of a topic are deleted", err, "topic", name, "partitions", len(below))
		return done(err, topicHref(name))
	})
}

// sameStarts refuses to cut logs that start elsewhere than was shown. Partitions that
// are not there are left to the brokers.
func sameStarts(ctx context.Context, c consumer.Cluster, t *admin.Topic, cuts map[int32]offsetMove) error {
	ps := slices.DeleteFunc(admin.PartitionsOf([]admin.Topic{*t}), func(p *admin.Partition) bool { _, cut := cuts[p.Index]; return !cut })
	if err := measure(ctx, c, ps); err != nil {
		return err
	}
	for _, p := range ps {
		if was := cuts[p.Index].From; p.Start != was {
			return &jobs.Refusal{
				Kind: jobs.ErrConflict, Msg: fmt.Sprintf("the log of %s/%d starts at offset %s, not at %s as was shown: nothing was done", p.Topic, p.Index, count(p.Start), count(was)),
				Hint: "look again: " + topicHref(t.Name) + "/trim",
			}
		}
	}
	return nil
}

// compacted refuses to delete records by offset of a topic that is compacted only.
func compacted(topic string) error {
	return &jobs.Refusal{
		Kind: jobs.ErrConflict, Msg: "topic " + topic + " is compacted: its old records are removed by key, not by offset",
		Hint: "with cleanup.policy=compact,delete both are possible: " + topicHref(topic) + "/configs",
	}
}

// holdsOf reads what load jobs keep of a topic in its configs, by job and partition.
func holdsOf(set map[string]string) (list []consumer.Held) {
	for _, name := range slices.Sorted(maps.Keys(set)) {
		list = append(list, consumer.HeldBy(name, set[name])...)
	}
	return list
}
