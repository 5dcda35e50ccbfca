package console

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"sawlog/consumer"
	"sawlog/consumer/admin"
)

// groupsBody is the page of all groups.
type groupsBody struct {
	Query   string
	State   string
	States  []choice
	Rows    []groupState
	Pager   pager
	All     int
	Trouble string
	Lines   []string
}

// groupStates are the states the page filters by.
var groupStates = []string{"Stable", "Empty", "PreparingRebalance", "CompletingRebalance", "Dead"}

func (k *console) groups(ctx context.Context, c consumer.Cluster, w http.ResponseWriter, r *http.Request) error {
	all, untold := listGroups(ctx, c)
	if untold != nil && len(all) == 0 {
		return untold
	}
	query := r.URL.Query()
	body := groupsBody{Query: query.Get("q"), State: query.Get("state"), All: len(all), Lines: []string{"sawlog group list"}}
	counts := map[string]int{}
	var picked []groupState
	for _, g := range all {
		counts[g.State]++
		if strings.Contains(strings.ToLower(g.Name), strings.ToLower(body.Query)) && (body.State == "" || g.State == body.State) {
			picked = append(picked, g)
		}
	}
	body.States = []choice{{Name: "all", Href: "?" + keep(query, "state", ""), Chosen: body.State == ""}}
	for _, s := range groupStates {
		if counts[s] > 0 || s == body.State {
			body.States = append(body.States, choice{Name: stateName(s) + " " + strconv.Itoa(counts[s]), Href: "?" + keep(query, "state", s), Chosen: s == body.State})
		}
	}
	body.Pager = pages(r, len(picked), perPage)
	body.Rows = picked[body.Pager.From:body.Pager.To]
	body.Trouble = say(errors.Join(untold, fillGroups(ctx, c, body.Rows)))
	k.draw(w, r, "groups.html", page{Title: "Groups", Nav: "groups", Body: body})
	return nil
}

// stateName is a group's state in words: PreparingRebalance is "preparing rebalance".
func stateName(state string) string {
	var out strings.Builder
	for i, r := range state {
		if r >= 'A' && r <= 'Z' {
			if i > 0 {
				out.WriteByte(' ')
			}
			r += 'a' - 'A'
		}
		out.WriteRune(r)
	}
	return out.String()
}

// groupBody is the page of one group.
type groupBody struct {
	groupState
	Coordinator int32
	Assignor    string
	Members     []groupMember
	ByTopic     []groupTopic
	Pager       pager
	Oldest      string // how long the oldest record that it has yet to read waits
	Reset       bool   // its offsets may be moved: nobody is in it
	Trouble     string
	Lines       []string
}

// groupTopic is what a group has read of a topic.
type groupTopic struct {
	Topic string
	Lag   int64
	Rows  []groupPosition
}

// timedPositions is for how many partitions a page asks how long they lag.
const timedPositions = 100

func (k *console) group(ctx context.Context, c consumer.Cluster, w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	g, err := describeGroup(ctx, c, query.Get("group"))
	if err != nil {
		return err
	}
	body := groupBody{groupState: g.groupState, Assignor: g.assignor, Members: g.members, Reset: g.State == "Empty"}
	body.Coordinator, err = admin.Coordinator(ctx, c, g.Name)
	g.trouble = errors.Join(g.trouble, err)
	body.Pager = pages(r, len(g.positions), 2*perPage)
	rows := g.positions[body.Pager.From:body.Pager.To]
	oldest := lagTimes(ctx, c, rows, k.Now())
	if !oldest.IsZero() {
		body.Oldest = distance(oldest, k.Now())
	}
	for _, p := range rows {
		i := slices.IndexFunc(body.ByTopic, func(t groupTopic) bool { return t.Topic == p.Topic })
		if i < 0 {
			i = len(body.ByTopic)
			body.ByTopic = append(body.ByTopic, groupTopic{Topic: p.Topic})
		}
		t := &body.ByTopic[i]
		t.Rows = append(t.Rows, p)
		t.Lag = addLag(t.Lag, p)
	}
	body.Trouble = say(g.trouble)
	name := shell(g.Name)
	body.Lines = []string{"sawlog group describe " + name}
	for _, t := range body.ByTopic[:min(1, len(body.ByTopic))] {
		body.Lines = append(body.Lines, "sawlog group reset "+name+" --topic "+shell(t.Topic)+" --to earliest --dry-run")
	}
	k.draw(w, r, "group.html", page{Title: g.Name, Nav: "groups", Body: body})
	return nil
}

// waited says how long a record waits to be read.
func waited(written, now time.Time) string {
	if written.IsZero() {
		return ""
	}
	return strings.TrimSuffix(distance(written, now), " ago")
}
