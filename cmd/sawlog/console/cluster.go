package console

import (
	"context"
	"errors"
	"html/template"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/consumer"
)

// clusterBody is the page of the cluster.
type clusterBody struct {
	*fleet
	Quorum  *quorum
	Format  int16
	Newest  int16
	Below   int // partitions that take no records with acks=all
	Rows    []troubled
	Moves   []partition
	Pager   pager
	Trouble string
	Lines   []string
}

// troubled is a partition that is not as it should be.
type troubled struct {
	partition
	What string
}

// movesShown bounds the moves that a page lists.
const movesShown = 100

func (k *console) cluster(w http.ResponseWriter, r *http.Request) {
	c, ctx, done, err := k.kafka(r.Context())
	defer done()
	if err != nil {
		k.refuse(w, "cluster", err)
		return
	}
	f, err := lookAtFleet(ctx, c)
	if err != nil {
		k.refuse(w, "cluster", err)
		return
	}
	body := clusterBody{fleet: f, Lines: []string{"sawlog cluster status", "sawlog cluster brokers"}}
	all := partitionsOf(f.Topics)
	var least map[string]int
	body.Trouble = say(together(
		func() error { return f.weigh(ctx, c) },
		func() (err error) {
			body.Quorum, err = quorumOf(ctx, c)
			return err
		},
		func() (err error) {
			body.Format, body.Newest, err = formatLevel(ctx, c)
			return err
		},
		func() error {
			err := moves(ctx, c, all)
			f.carry()
			var leastErr error
			least, leastErr = minISR(ctx, c, all)
			return errors.Join(err, leastErr)
		},
	))
	for _, p := range all {
		if p.Moving() && len(body.Moves) < movesShown {
			body.Moves = append(body.Moves, *p)
		}
		if what := troublesOf(p, least[p.Topic]); what != "" {
			body.Rows = append(body.Rows, troubled{*p, what})
			if strings.Contains(what, "min") {
				body.Below++
			}
		}
	}
	body.Pager = pages(r, len(body.Rows), perPage)
	body.Rows = body.Rows[body.Pager.From:body.Pager.To]
	if f.Strayed() > 0 {
		body.Lines = append(body.Lines, "sawlog cluster elect --dry-run")
	}
	if body.Newest > body.Format {
		body.Lines = append(body.Lines, "sawlog cluster upgrade --dry-run")
	}
	k.draw(w, r, "cluster.html", page{Title: "Cluster", Nav: "cluster", Body: body})
}

// troublesOf says all that is wrong with a partition; "" = nothing.
func troublesOf(p *partition, least int) string {
	var list []string
	if p.Leader < 0 {
		list = append(list, "offline")
	}
	if least > 0 && len(p.ISR) < min(least, len(p.Replicas)-len(p.Adding)) {
		list = append(list, "under min ISR")
	}
	if p.lacking() {
		list = append(list, "under-replicated")
	}
	return strings.Join(list, ", ")
}

// topicsAsked bounds the topics in trouble whose configs a page asks for.
const topicsAsked = 200

// minISR asks how many copies topics want in sync, those that lack copies only.
func minISR(ctx context.Context, c consumer.Cluster, ps []*partition) (map[string]int, error) {
	var names []string
	for _, p := range ps {
		if p.lacking() && !slices.Contains(names, p.Topic) && len(names) < topicsAsked {
			names = append(names, p.Topic)
		}
	}
	if len(names) == 0 {
		return nil, nil
	}
	configs, err := configsOf(ctx, c, kmsg.ConfigResourceTypeTopic, names, []string{minISRConfig})
	out := map[string]int{}
	for name, list := range configs {
		out[name] = leastInSync(list)
	}
	return out, err
}

// partPatience is how long the overview waits for brokers: it is about loads.
const partPatience = time.Second

// Shown counts the topics that are not internal.
func (b clusterBody) Shown() (n int) {
	for i := range b.Topics {
		if !b.Topics[i].Internal {
			n++
		}
	}
	return n
}

// drawPart draws the state of the brokers for the overview.
func (k *console) drawPart(r *http.Request) template.HTML {
	ctx, cancel := context.WithTimeout(r.Context(), partPatience)
	defer cancel()
	c, err := k.Kafka(ctx)
	body := clusterBody{fleet: &fleet{Controller: untold}}
	if err == nil {
		var f *fleet
		if f, err = lookAtFleet(ctx, c); err == nil {
			body.fleet = f
		}
	}
	body.Trouble = say(err)
	var out strings.Builder
	if err := k.templates.ExecuteTemplate(&out, "cluster part", body); err != nil {
		k.Logger.Error("part of a page not drawn", "part", "cluster", "err", err)
	}
	return template.HTML(out.String())
}
