package console

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"

	"sawlog/consumer"
	"sawlog/consumer/admin"
	"sawlog/loader"
	"sawlog/offsets"
)

// reader is a group that reads a topic.
type reader struct {
	name, state string
	members     int                              // that were given some of it
	at          map[offsets.TopicPartition]int64 // what it has committed of the topic
}

// readersOf finds the groups that have committed offsets of a topic, or whose
// members read it, by name.
func readersOf(ctx context.Context, c consumer.Cluster, topic string) ([]reader, error) {
	groups, listErr := admin.Groups(ctx, c)
	all := make([]string, len(groups))
	for i := range groups {
		all[i] = groups[i].Name
	}
	described, committed, err := admin.Standing(ctx, c, all)
	var out []reader
	for _, g := range groups {
		one := reader{name: g.Name, state: stateName(g.State), at: map[offsets.TopicPartition]int64{}}
		for at, offset := range committed[g.Name] {
			if at.Topic == topic {
				one.at[at] = offset
			}
		}
		if d := described[g.Name]; d != nil {
			for _, m := range d.Members {
				if slices.ContainsFunc(m.Given, func(at offsets.TopicPartition) bool { return at.Topic == topic }) {
					one.members++
				}
			}
		}
		if len(one.at)+one.members > 0 {
			out = append(out, one)
		}
	}
	return out, errors.Join(listErr, err)
}

// askDeleteTopic says what would be lost with a topic, and to whom.
func (k *console) askDeleteTopic(ctx context.Context, r *http.Request, cluster consumer.Cluster, t *admin.Topic, set map[string]string) (*confirm, error) {
	ps := admin.PartitionsOf([]admin.Topic{*t})
	var readers []reader
	trouble := admin.Together(
		func() error { return measure(ctx, cluster, ps) },
		func() error { return sizes(ctx, cluster, ps) },
		func() (err error) { readers, err = readersOf(ctx, cluster, t.Name); return err },
	)
	loads := k.loadsOf(t.Name)
	c := &confirm{
		Title: "Delete topic " + t.Name, Back: topicHref(t.Name), Name: t.Name,
		Does: "Deletes the topic with all its records, for good. Files that jobs have loaded of it stay as they are.",
		Facts: []fact{
			{"Partitions", count(len(t.Partitions))},
			{"Records lost, at most", offsetText(t.Records())},
			{"Bytes lost, of each copy", bytesText(t.Bytes())},
			{"Data sets loaded of it", count(len(loads))},
		},
		Hidden: []fact{{"id", topicID(t.ID)}}, Of: "topic", Typed: t.Name, Button: "Delete the topic", Danger: true, Line: "sawlog topic delete " + shell(t.Name) + " --yes",
	}
	c.notAsked(trouble)
	c.losers(t, loads, readers, holdsOf(set))
	return c, nil
}

// losers lists who loses records with a topic.
func (c *confirm) losers(t *admin.Topic, loads []loadOf, readers []reader, holds []consumer.Held) {
	found := admin.ByPlace(admin.PartitionsOf([]admin.Topic{*t}))
	behind := map[string]int64{} // records that a job has yet to load
	groups := table{Title: "Groups that read it", Heads: []string{"Group", "State", "Members on it", "Partitions with an offset", "Records it has yet to read, at most"}, Numbers: 3}
	slices.SortFunc(readers, func(a, b reader) int {
		return cmp.Or(cmp.Compare(b.members, a.members), strings.Compare(a.name, b.name))
	})
	for _, g := range readers {
		var lag int64
		for at, offset := range g.at {
			if p := found[at]; p != nil {
				lag = plus(lag, since(p, offset))
			}
		}
		if job, ok := strings.CutPrefix(g.name, loader.MirrorPrefix); ok && slices.ContainsFunc(loads, func(l loadOf) bool { return l.Job == job }) {
			behind[job] = lag
			continue
		}
		groups.add(printable([]byte(g.name)), g.state, count(g.members), count(len(g.at)), yetToRead(lag))
	}
	held := map[string]int64{} // what jobs hold is said sooner than it is mirrored
	for _, h := range holds {
		if p := found[offsets.TopicPartition{Topic: t.Name, Partition: h.Partition}]; p != nil {
			held[h.Job] = plus(held[h.Job], since(p, max(int64(h.From), p.Start)))
		}
	}
	maps.Copy(behind, held)
	loading := table{Title: "Jobs that load it", Heads: []string{"Job", "Data set", "Records it has yet to load, at most"}, Numbers: 1}
	for _, l := range loads {
		yet := "not known"
		if n, told := behind[l.Job]; told {
			yet = yetToRead(n)
		}
		loading.add(l.Job, l.Dataset, yet)
	}
	for _, list := range []table{loading, groups} {
		if len(list.Rows) > 0 {
			c.Tables = append(c.Tables, list)
		}
	}
	if len(loading.Rows) > 0 {
		c.Notes = append(c.Notes, "Runs of a job that names it fail until it is there again. A topic of that name that is made later is another one to them, and is loaded from its first record on.")
	}
}

// since is how many records a partition has from an offset on, at most.
func since(p *admin.Partition, offset int64) int64 {
	if p.End < 0 {
		return untold
	}
	return max(0, p.End-offset)
}

func (k *console) doDeleteTopic(ctx context.Context, r *http.Request) (string, error) {
	name := r.PathValue("topic")
	if err := typed(r, "topic", name); err != nil {
		return "", err
	}
	return "/console/topics", k.topicDeed(ctx, r, func(ctx context.Context, c consumer.Cluster, t *admin.Topic, _ map[string]string) error {
		err := admin.DeleteTopic(ctx, c, t)
		k.record("a topic is deleted", err, "topic", name, "id", topicID(t.ID))
		if err == nil {
			awaitTopic(ctx, c, name, false)
		}
		return done(err, "/console/topics")
	})
}
