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
	"sawlog/consumer/admin"
)

// clusterBody is the page of the cluster.
type clusterBody struct {
	*admin.Fleet
	Quorum  *admin.Quorum
	Format  int16
	Newest  int16
	Below   int // partitions that take no records with acks=all
	Rows    []troubled
	Moves   []admin.Partition
	Pager   pager
	Trouble string
	Lines   []string
}

// troubled is a partition that is not as it should be.
type troubled struct {
	admin.Partition
	What string
}

// movesShown bounds the moves that a page lists.
const movesShown = 100

func (k *console) cluster(ctx context.Context, c consumer.Cluster, w http.ResponseWriter, r *http.Request) error {
	f, err := lookAtFleet(ctx, c)
	if err != nil {
		return err
	}
	body := clusterBody{Fleet: f, Lines: []string{"sawlog cluster status", "sawlog cluster brokers"}}
	all := admin.PartitionsOf(f.Topics)
	var least map[string]int
	body.Trouble = say(admin.Together(
		func() error { return f.Weigh(ctx, c) },
		func() (err error) {
			body.Quorum, err = admin.DescribeQuorum(ctx, c)
			return err
		},
		func() (err error) {
			body.Format, body.Newest, err = admin.FormatLevel(ctx, c)
			return err
		},
		func() error {
			err := admin.Moves(ctx, c, all)
			f.Carry()
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
	return nil
}

// troublesOf says all that is wrong with a partition; "" = nothing.
func troublesOf(p *admin.Partition, least int) string {
	var list []string
	if p.Offline() {
		list = append(list, "offline")
	}
	if p.UnderMinISR(least) {
		list = append(list, "under min ISR")
	}
	if p.Lacking() {
		list = append(list, "under-replicated")
	}
	return strings.Join(list, ", ")
}

// topicsAsked bounds the topics in trouble whose configs a page asks for.
const topicsAsked = 200

// lookAtFleet asks for the brokers and where all partitions are.
func lookAtFleet(ctx context.Context, c consumer.Cluster) (*admin.Fleet, error) {
	f, err := admin.Describe(ctx, c)
	if err != nil {
		return nil, err
	}
	f.Topics, err = admin.Topics(ctx, c)
	return f, err
}

// minISR asks how many copies topics want in sync, those that lack copies only.
func minISR(ctx context.Context, c consumer.Cluster, ps []*admin.Partition) (map[string]int, error) {
	var names []string
	for _, p := range ps {
		if p.Lacking() && !slices.Contains(names, p.Topic) && len(names) < topicsAsked {
			names = append(names, p.Topic)
		}
	}
	configs, err := admin.Configs(ctx, c, kmsg.ConfigResourceTypeTopic, names, []string{admin.MinISR})
	out := map[string]int{}
	for name, list := range configs {
		out[name] = admin.LeastInSync(list)
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
	body := clusterBody{Fleet: &admin.Fleet{Controller: untold}}
	if err == nil {
		var f *admin.Fleet
		if f, err = lookAtFleet(ctx, c); err == nil {
			body.Fleet = f
		}
	}
	body.Trouble = say(err)
	var out strings.Builder
	if err := k.templates.ExecuteTemplate(&out, "cluster part", body); err != nil {
		k.Logger.Error("part of a page not drawn", "part", "cluster", "err", err)
	}
	return template.HTML(out.String())
}
