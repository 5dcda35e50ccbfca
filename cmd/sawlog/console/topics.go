package console

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/consumer"
	"sawlog/consumer/admin"
	"sawlog/jobs"
	"sawlog/offsets"
)

// topicsBody is the page of all topics.
type topicsBody struct {
	Query    string
	Internal bool
	Only     string // "" | trouble
	Choices  []choice
	Rows     []topicRow
	Pager    pager
	Hidden   int // internal topics that are not shown
	All      int
	Offline  int // partitions
	Lacking  int
	Total    int // partitions
	Trouble  string
	Lines    []string
}

// topicRow is one topic of the list.
type topicRow struct {
	admin.Topic
	Cleanup   string // delete | compact
	Retention string
	Rate      string // records a second, as far as known
	Trouble   string
}

// listedConfigs are the configs the list of topics tells.
var listedConfigs = []string{"cleanup.policy", "retention.ms", "retention.bytes"}

func (k *console) topics(ctx context.Context, c consumer.Cluster, w http.ResponseWriter, r *http.Request) error {
	all, err := admin.Topics(ctx, c)
	if err != nil {
		return err
	}
	query := r.URL.Query()
	body := topicsBody{Query: query.Get("q"), Internal: query.Get("internal") == "1", Only: query.Get("only"), Lines: []string{"sawlog topic list"}}
	body.Choices = []choice{
		{Name: "all", Href: "?" + keep(query, "only", ""), Chosen: body.Only != "trouble"},
		{Name: "in trouble", Href: "?" + keep(query, "only", "trouble"), Chosen: body.Only == "trouble"},
	}
	shown := body.pick(all)
	body.Pager = pages(r, len(shown), perPage)
	shown = shown[body.Pager.From:body.Pager.To]
	ps := admin.PartitionsOf(shown)
	configs, err := k.look(ctx, c, shown, ps)
	body.Trouble = say(err)
	for i := range shown {
		body.Rows = append(body.Rows, k.topicRow(&shown[i], configs[shown[i].Name]))
	}
	k.draw(w, r, "topics.html", page{Title: "Topics", Nav: "topics", Body: body})
	return nil
}

// pick counts all topics and picks those that the query asks for.
func (b *topicsBody) pick(all []admin.Topic) []admin.Topic {
	var picked []admin.Topic
	for i := range all {
		t := &all[i]
		offline, lacking := t.Offline(), t.Lacking()
		b.Offline, b.Lacking, b.Total = b.Offline+offline, b.Lacking+lacking, b.Total+len(t.Partitions)
		if t.Internal && !b.Internal {
			b.Hidden++
			continue
		}
		b.All++
		if !strings.Contains(strings.ToLower(t.Name), strings.ToLower(b.Query)) || b.Only == "trouble" && offline+lacking == 0 {
			continue
		}
		picked = append(picked, *t)
	}
	return picked
}

// look asks for what the topics of one page are like: where their logs stand, how
// large they are, and the configs of the list.
func (k *console) look(ctx context.Context, c consumer.Cluster, shown []admin.Topic, ps []*admin.Partition) (configs map[string][]configured, err error) {
	if len(shown) == 0 {
		return nil, nil
	}
	names := make([]string, len(shown))
	for i := range shown {
		names[i] = shown[i].Name
	}
	return configs, admin.Together(
		func() error { return measure(ctx, c, ps) },
		func() error { return sizes(ctx, c, ps) },
		func() (err error) {
			configs, err = configsOf(ctx, c, kmsg.ConfigResourceTypeTopic, names, listedConfigs)
			return err
		},
	)
}

func (k *console) topicRow(t *admin.Topic, configs []configured) topicRow {
	row := topicRow{Topic: *t, Rate: k.rates.note(t.Name, t.Records() >= 0, endsOf(t), k.Now())}
	value := map[string]string{}
	for _, c := range configs {
		value[c.Name] = c.Value
	}
	row.Cleanup = value["cleanup.policy"]
	row.Retention = retention(value["retention.ms"], value["retention.bytes"])
	switch {
	case t.Offline() > 0:
		row.Trouble = strconv.Itoa(t.Offline()) + " offline"
	case t.Lacking() > 0:
		row.Trouble = strconv.Itoa(t.Lacking()) + " under-replicated"
	}
	return row
}

// endsOf adds up where the logs of a topic end.
func endsOf(t *admin.Topic) int64 { return t.Sum(func(p *admin.Partition) int64 { return p.End }) }

// retention says how long and how much of a topic is kept.
func retention(ms, bytes string) string {
	var parts []string
	if n, err := strconv.ParseInt(ms, 10, 64); err == nil && n >= 0 {
		parts = append(parts, span(time.Duration(n)*time.Millisecond))
	}
	if n, err := strconv.ParseInt(bytes, 10, 64); err == nil && n >= 0 {
		parts = append(parts, size(n)+" a partition")
	}
	if len(parts) == 0 && ms != "" {
		return "for ever"
	}
	return strings.Join(parts, ", ")
}

// span prints a length of time by its largest whole unit.
func span(d time.Duration) string {
	for _, u := range []struct {
		of   time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}} {
		if d >= u.of && d%u.of == 0 {
			return strconv.FormatInt(int64(d/u.of), 10) + " " + u.name
		}
	}
	return d.String()
}

// topicBody is the page of one topic.
type topicBody struct {
	topicRow
	IDText  string
	Rows    []admin.Partition
	Pager   pager
	Only    string
	Choices []choice
	MinISR  int
	Below   int // partitions that take no records with acks=all
	Configs []configured
	AllOf   string // link that shows all configs, or only the changed ones
	Every   bool
	Loads   []loadOf
	Trouble string
	Lines   []string
}

// loadOf is a job that loads a topic.
type loadOf struct{ Job, Dataset string }

func (k *console) topic(ctx context.Context, c consumer.Cluster, w http.ResponseWriter, r *http.Request) error {
	found, err := admin.Topics(ctx, c, r.PathValue("topic"))
	if err != nil {
		return err
	}
	t, query := &found[0], r.URL.Query()
	ps := admin.PartitionsOf(found)
	var configs map[string][]configured
	err = admin.Together(
		func() error { return measure(ctx, c, ps) },
		func() error { return sizes(ctx, c, ps) },
		func() error { return admin.Moves(ctx, c, ps) },
		func() (err error) {
			configs, err = configsOf(ctx, c, kmsg.ConfigResourceTypeTopic, []string{t.Name}, nil)
			return err
		},
	)
	body := topicBody{Only: query.Get("only"), Every: query.Get("configs") == "all", Trouble: say(err), Loads: k.loadsOf(t.Name)}
	body.topicRow = k.topicRow(t, configs[t.Name])
	body.Topic = *t
	body.IDText = topicID(t.ID)
	body.fill(configs[t.Name])
	body.AllOf = "?" + keep(query, "configs", map[bool]string{false: "all", true: ""}[body.Every]) + "#configs"
	body.Choices = []choice{
		{Name: "all", Href: "?" + keep(query, "only", ""), Chosen: body.Only != "trouble"},
		{Name: "in trouble", Href: "?" + keep(query, "only", "trouble"), Chosen: body.Only == "trouble"},
	}
	for i := range t.Partitions {
		if p := t.Partitions[i]; body.Only != "trouble" || p.Trouble() != "" || len(p.ISR) < body.MinISR {
			body.Rows = append(body.Rows, p)
		}
	}
	body.Pager = pages(r, len(body.Rows), 2*perPage)
	body.Rows = body.Rows[body.Pager.From:body.Pager.To]
	name := shell(t.Name)
	body.Lines = []string{"sawlog topic describe " + name, "sawlog consume " + name + " --range -10..latest"}
	k.draw(w, r, "topic.html", page{Title: t.Name, Nav: "topics", Body: &body})
	return nil
}

// fill takes in the configs and what they mean for the partitions.
func (b *topicBody) fill(configs []configured) {
	b.MinISR = leastOf(configs)
	for _, c := range configs {
		if b.Every || c.Changed {
			b.Configs = append(b.Configs, c)
		}
	}
	b.Below = b.Count(func(p *admin.Partition) bool { return p.UnderMinISR(b.MinISR) })
}

// loadsOf lists the data sets made of a topic of this cluster.
func (k *console) loadsOf(topic string) (list []loadOf) {
	if k.Jobs == nil {
		return nil // they are known elsewhere
	}
	for _, j := range k.Jobs.List() {
		spec, err := k.Jobs.Spec(j.Name)
		if err != nil || len(spec.Source.Brokers) > 0 {
			continue
		}
		for _, set := range j.Datasets {
			if set.Topic == topic || set.Topic == "" && slices.Contains(spec.Source.Topics, topic) {
				list = append(list, loadOf{j.Name, set.Dataset})
			}
		}
	}
	return list
}

// topicID prints a topic's id as Kafka's tools do; "" for none.
func topicID(id [16]byte) string {
	if id == [16]byte{} {
		return ""
	}
	return offsets.TopicID(id).String()
}

// unknownTopic is the error for a partition or topic that is not there.
func unknownTopic(what, hint string) error {
	return &jobs.Refusal{Kind: jobs.ErrNotFound, Msg: cmp.Or(what, "no such topic"), Hint: hint}
}
