package console

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"sawlog/consumer"
	"sawlog/consumer/admin"
	"sawlog/jobs"
)

// withGroup does something with the group that a form names, for so long at most.
func (k *console) withGroup(ctx context.Context, r *http.Request, do func(context.Context, consumer.Cluster, *groupDetail) error) error {
	cluster, within, end, err := k.kafkaWithin(ctx, deedPatience)
	defer end()
	if err != nil {
		return err
	}
	g, err := describeGroup(within, cluster, r.Form.Get("group"))
	if err != nil {
		return err
	}
	return do(within, cluster, g)
}

// mark tells where a group stands: a deed on another standing is refused.
func mark(positions []groupPosition) string {
	sum := sha256.New()
	for _, p := range positions {
		_, _ = fmt.Fprintf(sum, "%s/%d:%d\n", p.Topic, p.Partition, p.Committed) // a hash takes all
	}
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

// unmoved refuses a deed on a group that has moved since it was shown.
func unmoved(r *http.Request, g *groupDetail, positions []groupPosition) error {
	if r.PostFormValue("stands") == mark(positions) {
		return nil
	}
	return &jobs.Refusal{Kind: jobs.ErrConflict, Msg: "group " + printable([]byte(g.Name)) + " has moved since it was shown: nothing was done", Hint: "look again: " + groupHref(g.Name)}
}

// forgotten lists the offsets that are deleted; records are those yet to be read,
// untold where one of the logs' ends is not known.
func forgotten(positions []groupPosition) (t table, records int64) {
	t = table{Title: "Offsets that are deleted", Heads: []string{"Topic", "Partition", "Committed", "Log end", "Yet to read"}, Numbers: 4}
	for _, p := range positions {
		if p.Committed < 0 {
			continue
		}
		t.add(p.Topic, strconv.Itoa(int(p.Partition)), offsetText(p.Committed), offsetText(p.End), offsetText(p.Lag))
		records = addLag(records, p)
	}
	return t, records
}

// yetToRead is a number of records for a preview.
func yetToRead(records int64) string {
	if records < 0 {
		return "not known"
	}
	return count(records)
}

// notAsked tells of what could not be asked for a preview.
func (c *confirm) notAsked(trouble error) {
	if trouble != nil {
		c.Notes = append(c.Notes, "Not all could be asked: "+trouble.Error())
	}
}

// whereItBegins says what becomes of who reads on without an offset.
const whereItBegins = "Whoever joins the group later begins where its client is told to without an offset (auto.offset.reset): at the start of the log, so that records are read again, or at its end, so that those that are yet to read are never read."

// askDeleteGroup says what would be forgotten with a group.
func (k *console) askDeleteGroup(ctx context.Context, r *http.Request, _ zone) (c *confirm, err error) {
	err = k.withGroup(ctx, r, func(_ context.Context, _ consumer.Cluster, g *groupDetail) error {
		list, lag := forgotten(g.positions)
		c = &confirm{
			Title: "Delete group " + printable([]byte(g.Name)), Back: groupHref(g.Name), Name: printable([]byte(g.Name)),
			Does:   "Deletes the group with all its offsets, for good. " + whereItBegins,
			Facts:  []fact{{"State", g.Says()}, {"Members", count(g.Members)}, {"Topics", count(g.Topics)}, {"Offsets", count(len(list.Rows))}, {"Yet to read", yetToRead(lag)}},
			Hidden: []fact{{"group", g.Name}, {"stands", mark(g.positions)}},
			Of:     "group", Typed: g.Name, Button: "Delete the group", Danger: true, Line: "sawlog group delete " + shell(g.Name) + " --yes",
		}
		c.notAsked(g.trouble)
		if len(list.Rows) > 0 {
			c.Tables = append(c.Tables, list)
		}
		if g.State != "Empty" {
			c.Wrong, c.Hint, c.Button = "The group is "+g.Says()+": it can't be deleted.", "Stop its "+plural(g.Members, "member")+" first.", ""
		}
		return nil
	})
	return c, err
}

func (k *console) doDeleteGroup(ctx context.Context, r *http.Request) (string, error) {
	if err := typed(r, "group", r.Form.Get("group")); err != nil {
		return "", err
	}
	return "/console/groups", k.withGroup(ctx, r, func(ctx context.Context, c consumer.Cluster, g *groupDetail) error {
		if err := unmoved(r, g, g.positions); err != nil {
			return err
		}
		_, err := admin.DeleteGroups(ctx, c, []string{g.Name})
		k.record("a group is deleted", err, "group", g.Name)
		return done(err, "/console/groups")
	})
}

// ofTopic are the positions of a group on a topic that can be forgotten: the topic
// is there, and an offset is committed.
func (g *groupDetail) ofTopic(topic string) []groupPosition {
	return slices.DeleteFunc(slices.Clone(g.positions), func(p groupPosition) bool { return p.Topic != topic || p.Committed < 0 || p.Gone })
}

// askDeleteOffsets says which offsets of a topic a group would forget.
func (k *console) askDeleteOffsets(ctx context.Context, r *http.Request, _ zone) (c *confirm, err error) {
	err = k.withGroup(ctx, r, func(_ context.Context, _ consumer.Cluster, g *groupDetail) error {
		topic := strings.TrimSpace(r.Form.Get("topic"))
		positions := g.ofTopic(topic)
		if len(positions) == 0 {
			return &jobs.Refusal{Kind: jobs.ErrNotFound, Msg: "group " + printable([]byte(g.Name)) + " has no offsets of topic " + strconv.Quote(topic) + ", or the topic is gone", Hint: groupHref(g.Name) + " shows those it has"}
		}
		list, lag := forgotten(positions)
		c = &confirm{
			Title: "Delete offsets of " + topic, Back: groupHref(g.Name), Name: printable([]byte(g.Name)),
			Does:   "The group forgets how far it has read the topic. " + whereItBegins,
			Facts:  []fact{{"Topic", topic}, {"Offsets", count(len(positions))}, {"Yet to read", yetToRead(lag)}},
			Tables: []table{list},
			Hidden: []fact{{"group", g.Name}, {"topic", topic}, {"stands", mark(positions)}},
			Of:     "group", Typed: g.Name, Button: "Delete " + plural(len(positions), "offset"), Danger: true,
			Line: "sawlog group delete " + shell(g.Name) + " --topic " + shell(topic) + " --yes",
		}
		c.notAsked(g.trouble)
		if slices.ContainsFunc(g.positions, func(p groupPosition) bool { return p.Topic == topic && p.Member != "" }) {
			c.Wrong, c.Hint, c.Button = "Members of the group read the topic: its offsets can't be deleted.", "Stop them first, or have them read other topics.", ""
		}
		return nil
	})
	return c, err
}

func (k *console) doDeleteOffsets(ctx context.Context, r *http.Request) (string, error) {
	group := r.Form.Get("group")
	if err := typed(r, "group", group); err != nil {
		return "", err
	}
	to := "/console/groups"
	err := k.withGroup(ctx, r, func(ctx context.Context, c consumer.Cluster, g *groupDetail) error {
		topic := r.PostFormValue("topic")
		positions := g.ofTopic(topic)
		if err := unmoved(r, g, positions); err != nil {
			return err
		}
		if len(positions) < len(g.positions) {
			to = groupHref(group) // it is there still
		}
		of := make([]int32, len(positions))
		for i := range positions {
			of[i] = positions[i].Partition
		}
		_, err := admin.DeleteOffsets(ctx, c, group, topic, of)
		k.record("offsets of a group are deleted", err, "group", group, "topic", topic, "partitions", len(of))
		return done(err, groupHref(group))
	})
	return to, err
}
