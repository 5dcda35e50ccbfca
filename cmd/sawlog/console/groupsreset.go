package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"sawlog/consumer"
	"sawlog/consumer/admin"
	"sawlog/jobs"
	"sawlog/offsets"
)

// resetBody is the page that shows what moving a group's offsets would do.
type resetBody struct {
	Group  string
	State  string
	Topic  string
	To     string
	Topics []string // the group has read
	Moves  []offsetMove
	Change int   // moves that move something
	Again  int64 // records that would be read again
	Passed int64 // records that would be passed over
	Why    string
	Ready  bool
	Lines  []string
}

// offsetMove is one partition of a reset.
type offsetMove struct {
	Partition int32
	From, To  int64 // From untold = nothing was committed
	Start     int64
	End       int64
}

// By is how far the offset moves; back is below 0.
func (m offsetMove) By() int64 {
	if m.From < 0 {
		return 0
	}
	return m.To - m.From
}

// Field is the move as the form carries it, so that what is done is what was
// shown, whatever the log does meanwhile.
func (m offsetMove) Field() string { return fmt.Sprintf("%d:%d:%d", m.Partition, m.From, m.To) }

// moveOf reads a Field.
func moveOf(text string) (m offsetMove, err error) {
	parts := strings.Split(text, ":")
	if len(parts) != 3 {
		return m, fmt.Errorf("%q is no PARTITION:FROM:TO", text)
	}
	p, err1 := strconv.ParseInt(parts[0], 10, 32)
	from, err2 := strconv.ParseInt(parts[1], 10, 64)
	to, err3 := strconv.ParseInt(parts[2], 10, 64)
	if err := errors.Join(err1, err2, err3); err != nil || p < 0 || to < 0 {
		return m, fmt.Errorf("%q is no PARTITION:FROM:TO", text)
	}
	return offsetMove{Partition: int32(p), From: from, To: to}, nil
}

func (k *console) previewReset(ctx context.Context, c consumer.Cluster, w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	g, err := describeGroup(ctx, c, query.Get("group"))
	if err != nil {
		return err
	}
	body := resetBody{Group: g.Name, State: g.Says(), Topic: query.Get("topic"), To: strings.TrimSpace(query.Get("to"))}
	for _, p := range g.positions {
		if !slices.Contains(body.Topics, p.Topic) {
			body.Topics = append(body.Topics, p.Topic)
		}
	}
	if g.State != "Empty" {
		body.Why = "The group is " + g.Says() + ": stop its " + plural(g.Members, "member") + " first, or they go on where they are and commit over what is set."
	}
	if body.Topic != "" && body.To != "" {
		if err := body.resolve(ctx, c, k, g); err != nil {
			return err
		}
	}
	k.draw(w, r, "groupreset.html", page{Title: "Reset " + g.Name, Nav: "groups", Still: true, Body: body})
	return nil
}

// resolve finds the offsets a bound stands for now.
func (b *resetBody) resolve(ctx context.Context, c consumer.Cluster, k *console, g *groupDetail) error {
	bound, err := boundOf(b.To, k.Now())
	if err != nil {
		return &jobs.Refusal{Kind: jobs.ErrInvalid, Msg: "to " + strconv.Quote(b.To) + ": want earliest, latest, an offset, -N or @TIME", Hint: "such as @2026-11-29T14, @-2h or -1000"}
	}
	found, err := admin.Topics(ctx, c, b.Topic)
	if err != nil {
		return err
	}
	ps := admin.PartitionsOf(found)
	if err := measure(ctx, c, ps); err != nil {
		return err
	}
	if bound.Kind == offsets.AtTime {
		if err := findAt(ctx, c, ps, bound.Time.UnixMilli()); err != nil {
			return err
		}
	}
	committed := map[int32]int64{}
	for _, p := range g.positions {
		if p.Topic == b.Topic && p.Committed >= 0 {
			committed[p.Partition] = p.Committed
		}
	}
	for _, p := range ps {
		if p.Records() < 0 {
			return fmt.Errorf("%w: %s/%d has no leader: where its log stands is not known", consumer.ErrUnavailable, p.Topic, p.Index)
		}
		move := offsetMove{Partition: p.Index, From: untold, To: p.At(bound), Start: p.Start, End: p.End}
		if at, had := committed[p.Index]; had {
			move.From = at
		}
		if move.To < p.Start || move.To > p.End {
			return &jobs.Refusal{Kind: jobs.ErrInvalid, Msg: fmt.Sprintf("%s/%d: offset %d lies outside the log, %d..%d", p.Topic, p.Index, move.To, p.Start, p.End), Hint: "earliest and latest are always inside"}
		}
		b.add(move)
	}
	to := b.To
	if bound.Kind == offsets.AtTime {
		to = "@" + bound.Time.UTC().Format("2006-01-02T15:04:05Z07:00") // the moment that was shown, not a later one
	}
	b.Ready = b.Why == "" && b.Change > 0
	b.Lines = []string{"sawlog group reset " + shell(b.Group) + " --topic " + shell(b.Topic) + " --to " + shell(to) + " --yes"}
	return nil
}

// add takes a move into the preview.
func (b *resetBody) add(m offsetMove) {
	b.Moves = append(b.Moves, m)
	if m.From != m.To {
		b.Change++
	}
	if by := m.By(); by < 0 {
		b.Again -= by
	} else {
		b.Passed += by
	}
}

func (k *console) resetGroup(ctx context.Context, c consumer.Cluster, w http.ResponseWriter, r *http.Request) error {
	if err := k.moveOffsets(ctx, c, r); err != nil {
		return err
	}
	http.Redirect(w, r, groupHref(r.PostFormValue("group")), http.StatusSeeOther)
	return nil
}

// moveOffsets does what the preview has shown, unless the group has moved since.
func (k *console) moveOffsets(ctx context.Context, c consumer.Cluster, r *http.Request) error {
	if err := r.ParseForm(); err != nil {
		return &jobs.Refusal{Kind: jobs.ErrInvalid, Msg: "the form can't be read: " + err.Error()}
	}
	group, topic := r.PostFormValue("group"), r.PostFormValue("topic")
	look := "/console/group/reset?" + url.Values{"group": {group}, "topic": {topic}, "to": {r.PostFormValue("to")}}.Encode()
	if r.PostFormValue("name") != group {
		return &jobs.Refusal{Kind: jobs.ErrInvalid, Msg: "the name that was typed is not " + strconv.Quote(group) + ": nothing was moved", Hint: "type the group's name to say that you mean it: " + look}
	}
	g, err := describeGroup(ctx, c, group)
	if err != nil {
		return err
	}
	if g.State != "Empty" {
		return &jobs.Refusal{Kind: jobs.ErrConflict, Msg: "group " + group + " is " + g.Says() + ": nothing was moved", Hint: "stop its members first"}
	}
	at := map[int32]int64{}
	for _, p := range g.positions {
		if p.Topic == topic && p.Committed >= 0 {
			at[p.Partition] = p.Committed
		}
	}
	found, err := admin.Topics(ctx, c, topic)
	if err != nil {
		return err
	}
	var list []offsetMove
	for _, text := range r.PostForm["move"] {
		m, err := moveOf(text)
		if err != nil {
			return &jobs.Refusal{Kind: jobs.ErrInvalid, Msg: "move: " + err.Error()}
		}
		if now, had := at[m.Partition]; !had && m.From >= 0 || had && now != m.From {
			return &jobs.Refusal{Kind: jobs.ErrConflict, Msg: fmt.Sprintf("group %s has moved on %s/%d since it was shown: nothing was moved", group, topic, m.Partition), Hint: "look again: " + look}
		}
		if m.From != m.To {
			list = append(list, m)
		}
	}
	if len(list) == 0 {
		return &jobs.Refusal{Kind: jobs.ErrInvalid, Msg: "the form names no offset that moves"}
	}
	err = commit(ctx, c, group, &found[0], list)
	k.record("offsets of a group are moved", err, "group", group, "topic", topic, "partitions", len(list))
	return err
}

// commit sets a group's offsets.
func commit(ctx context.Context, c consumer.Cluster, group string, topic *admin.Topic, moves []offsetMove) error {
	to := map[int32]int64{}
	for _, m := range moves {
		to[m.Partition] = m.To
	}
	set, err := admin.Commit(ctx, c, group, topic, to)
	if len(set) == 0 && admin.Joined(err) {
		return &jobs.Refusal{Kind: jobs.ErrConflict, Msg: err.Error(), Hint: "somebody may have joined: look at the group, its members must be stopped"}
	}
	return done(err, groupHref(group))
}
