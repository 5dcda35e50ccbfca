package console

import (
	"cmp"
	"context"
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"sawlog/broker"
	"sawlog/cmd/sawlog/config"
	"sawlog/consumer"
	"sawlog/jobs"
	"sawlog/loader"
)

// Sources is what the pages of topics, groups, outputs, the cluster and its
// settings read. A page whose source is nil says that it is not available.
type Sources struct {
	// Kafka is the server's own cluster.
	Kafka func(ctx context.Context) (consumer.Cluster, error)
	// Node is the broker id of the server that draws the pages.
	Node int32
	// TopicDefaults are the configs topics may have, with their defaults here.
	TopicDefaults func() []broker.TopicDefault
	// Settings are what this server runs with, and where each comes from.
	Settings []config.Value
	// Ledger opens the ledger of a data set; nil without an error = nothing loaded yet.
	Ledger func(ctx context.Context, s *jobs.Spec, set jobs.Set) (*loader.Ledger, error)
}

// others routes the pages of what loads stand on: topics, groups, outputs, the
// cluster and its settings.
func (k *console) others(mux *http.ServeMux) {
	if k.Kafka != nil {
		k.clusterPart = k.drawPart
	}
	mux.HandleFunc("GET /console/topics", k.overKafka("topics", k.topics))
	mux.HandleFunc("GET /console/topics/{topic}", k.overKafka("topics", k.topic))
	mux.HandleFunc("GET /console/topics/{topic}/messages", k.overKafka("topics", k.messages))
	mux.HandleFunc("GET /console/groups", k.overKafka("groups", k.groups))
	mux.HandleFunc("GET /console/group", k.overKafka("groups", k.group))
	mux.HandleFunc("GET /console/group/reset", k.overKafka("groups", k.previewReset))
	mux.HandleFunc("POST /console/group/reset", k.overKafkaWithin(deedPatience, "groups", k.resetGroup))
	mux.HandleFunc("GET /console/cluster", k.overKafka("cluster", k.cluster))
	mux.HandleFunc("GET /console/settings", k.settings)
	if k.Jobs == nil {
		return // data sets are of jobs
	}
	mux.HandleFunc("GET /console/outputs", k.outputs)
	mux.HandleFunc("GET /console/outputs/{dataset}", k.output)
	mux.HandleFunc("GET /console/outputs/{dataset}/hour", k.outputHour)
	mux.HandleFunc("GET /console/outputs/{dataset}/file", k.outputFile)
	mux.HandleFunc("GET /console/outputs/{dataset}/changes", k.outputChanges)
	mux.HandleFunc("GET /console/outputs/{dataset}/find", k.outputFind)
}

// otherFuncs are what the templates of these pages call.
var otherFuncs = template.FuncMap{
	"topicHref": topicHref, "groupHref": groupHref, "resetHref": resetHref, "groupDeed": groupDeed, "outputHref": outputHref, "offset": offsetText, "bytes": bytesText, "join": joinIDs,
}

// patience is how long a page waits for brokers. What has not come by then is
// left out, and the page says so.
const patience = 2 * time.Second

// deedPatience is how long a deed waits for them.
const deedPatience = 10 * time.Second

// kafka connects to the cluster for one page; done ends the page's patience.
func (k *console) kafka(ctx context.Context) (c consumer.Cluster, within context.Context, done context.CancelFunc, err error) {
	return k.kafkaWithin(ctx, patience)
}

func (k *console) kafkaWithin(ctx context.Context, limit time.Duration) (c consumer.Cluster, within context.Context, done context.CancelFunc, err error) {
	within, done = context.WithTimeout(ctx, limit)
	if k.Kafka == nil {
		return nil, within, done, &jobs.Refusal{Kind: jobs.ErrNotFound, Msg: "this server has no cluster to show"}
	}
	c, err = k.Kafka(within)
	return c, within, done, err
}

// kafkaPage draws a page, or does what its form asks for.
type kafkaPage func(ctx context.Context, c consumer.Cluster, w http.ResponseWriter, r *http.Request) error

// overKafka serves a page that asks the cluster, under its place in the navigation;
// an error is shown instead.
func (k *console) overKafka(nav string, page kafkaPage) http.HandlerFunc {
	return k.overKafkaWithin(patience, nav, page)
}

func (k *console) overKafkaWithin(limit time.Duration, nav string, page kafkaPage) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c, ctx, done, err := k.kafkaWithin(r.Context(), limit)
		defer done()
		if err == nil {
			err = page(ctx, c, w, r)
		}
		if err != nil {
			k.refuse(w, nav, err)
		}
	}
}

// draw shows a page in the zone that the request names.
func (k *console) draw(w http.ResponseWriter, r *http.Request, file string, p page) {
	var err error
	if p.Zone, err = zoneOf(r); err != nil {
		k.refuse(w, p.Nav, err)
		return
	}
	k.show(w, http.StatusOK, file, p)
}

// refuse shows why a page can't be drawn, with the way out.
func (k *console) refuse(w http.ResponseWriter, nav string, err error) {
	status, hint := http.StatusInternalServerError, ""
	var advised interface{ Advice() string }
	if errors.As(err, &advised) {
		hint = advised.Advice()
	}
	ledger, ofLedger := errors.AsType[*loader.Error](err)
	refusal, refused := errors.AsType[*jobs.Refusal](err)
	switch {
	case refused:
		hint, status = cmp.Or(hint, refusal.Hint), statusOf(refusal)
	case errors.Is(err, consumer.ErrUnknownTopic):
		status = http.StatusNotFound
	case ofLedger:
		hint = ledger.Hint
		switch ledger.Code {
		case loader.ExitNotFound:
			status = http.StatusNotFound
		case loader.ExitUnavailable:
			status = http.StatusServiceUnavailable
		}
	case errors.Is(err, consumer.ErrUnavailable), errors.Is(err, context.DeadlineExceeded):
		status, hint = http.StatusServiceUnavailable, cmp.Or(hint, "brokers may be starting or electing: look again in a moment, or at the cluster page")
	}
	k.show(w, status, "othererror.html", page{Title: http.StatusText(status), Nav: nav, Body: map[string]string{"Message": err.Error(), "Hint": hint}})
}

// perPage is how many lines of a list a page shows.
const perPage = 50

// topicHref is the page of a topic.
func topicHref(topic string) string { return "/console/topics/" + url.PathEscape(topic) }

// groupHref is the page of a group, whose name may be anything.
func groupHref(group string) string { return "/console/group?" + url.Values{"group": {group}}.Encode() }

// resetHref is the page that moves offsets of a group.
func resetHref(group, topic string) string {
	return "/console/group/reset?" + url.Values{"group": {group}, "topic": {topic}}.Encode()
}

// groupDeed is the page of a deed on a group, or on what it has read of a topic.
func groupDeed(deed, group, topic string) string {
	q := url.Values{"group": {group}}
	if topic != "" {
		q.Set("topic", topic)
	}
	return "/console/group/" + deed + "?" + q.Encode()
}

// outputHref is the page of a data set.
func outputHref(dataset string) string { return "/console/outputs/" + url.PathEscape(dataset) }

// offsetText prints an offset or a count of offsets; below 0 nobody told it.
func offsetText(n int64) string {
	if n < 0 {
		return "–"
	}
	return count(n)
}

// bytesText prints a size; below 0 nobody told it.
func bytesText(n int64) string {
	if n < 0 {
		return "–"
	}
	return size(n)
}

// joinIDs prints broker ids.
func joinIDs(ids []int32) string {
	if len(ids) == 0 {
		return "–"
	}
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = strconv.Itoa(int(id))
	}
	return strings.Join(texts, ", ")
}

// say is the text of an error for a page, "" for none.
func say(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
