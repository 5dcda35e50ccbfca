package console

import (
	"context"
	"fmt"
	"html"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker/brokertest"
	"sawlog/cmd/sawlog/config"
	"sawlog/consumer"
	"sawlog/jobs"
)

// stand is a console over a broker, or over brokers in memory.
type stand struct {
	t      *testing.T
	addr   string
	client *kgo.Client
	jobs   *jobs.Scheduler
	now    time.Time
	h      http.Handler
	log    strings.Builder // of deeds
}

// newStand starts a console over a real broker; change may alter its sources.
func newStand(t *testing.T, change func(*Sources)) *stand {
	t.Helper()
	b := brokertest.Start(t, nil)
	client, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	link := consumer.NewLink(consumer.Config{Brokers: []string{b.Addr()}, ClientID: "console-test", Timeout: 10 * time.Second})
	t.Cleanup(func() { _ = link.Close() })
	s := standOver(t, runner{}, func(c *Sources) {
		c.Kafka, c.Node, c.TopicDefaults = link.Cluster, 1, b.TopicDefaults
		if change != nil {
			change(c)
		}
	})
	s.addr, s.client = b.Addr(), client
	return s
}

// standOver starts a console over the sources that change puts in.
func standOver(t *testing.T, r runner, change func(*Sources)) *stand {
	t.Helper()
	s := &stand{t: t, now: noon}
	var err error
	s.jobs, err = jobs.Open(context.Background(), jobs.Config{Journal: &journal{}, Runner: r, Now: func() time.Time { return s.now }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.jobs.Close(); err != nil {
			t.Error(err)
		}
	})
	c := Config{Jobs: s.jobs, Logger: slog.New(slog.NewTextHandler(&s.log, nil)), Now: func() time.Time { return s.now }}
	change(&c.Sources)
	s.h = New(c)
	return s
}

// over serves the fake brokers.
func over(b *brokers) func(*Sources) {
	return func(s *Sources) {
		s.Kafka = func(context.Context) (consumer.Cluster, error) { return b, nil }
	}
}

// ask sends a request to the console.
func (s *stand) ask(method, path string, form url.Values) *http.Response {
	s.t.Helper()
	req := httptest.NewRequestWithContext(s.t.Context(), method, path, strings.NewReader(form.Encode()))
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	w := httptest.NewRecorder()
	s.h.ServeHTTP(w, req)
	return w.Result()
}

// page is the text of a page of which the status is known.
func (s *stand) page(path string, status int) string {
	s.t.Helper()
	resp := s.ask(http.MethodGet, path, nil)
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	if resp.StatusCode != status {
		s.t.Fatalf("%s: status %d, want %d:\n%s", path, resp.StatusCode, status, text)
	}
	s.wellFormed(path, string(text))
	return string(text)
}

// has wants words on a page, and lacks none of others.
func (s *stand) has(page string, words ...string) {
	s.t.Helper()
	for _, w := range words {
		if !strings.Contains(page, w) && !strings.Contains(html.UnescapeString(page), w) {
			s.t.Errorf("the page lacks %q:\n%s", w, mainOf(page))
		}
	}
}

func (s *stand) lacks(page string, words ...string) {
	s.t.Helper()
	for _, w := range words {
		if strings.Contains(page, w) {
			s.t.Errorf("the page has %q", w)
		}
	}
}

// mainOf is what stands between the navigation and the foot.
func mainOf(page string) string {
	_, page, _ = strings.Cut(page, "<main")
	page, _, _ = strings.Cut(page, "</main>")
	return page
}

var (
	tags   = regexp.MustCompile(`<(/?)([a-zA-Z][a-zA-Z0-9]*)((?:[^>"]|"[^"]*")*)>`)
	voids  = []string{"meta", "link", "img", "input", "br", "hr"}
	inline = regexp.MustCompile(`(?i)\sstyle=|<style|\son[a-z]+=|<script>|javascript:|(?:src|href|action)="(?:https?:)?//`)
)

// wellFormed wants every tag closed in its order, no id twice, and nothing that a
// strict policy forbids.
func (s *stand) wellFormed(path, text string) {
	s.t.Helper()
	if found := inline.FindString(text); found != "" {
		s.t.Errorf("%s holds %q", path, found)
	}
	if strings.Contains(text, "ZgotmplZ") {
		s.t.Errorf("%s: the template held a value back", path)
	}
	var open []string
	ids := map[string]bool{}
	for _, tag := range tags.FindAllStringSubmatch(text, -1) {
		name := strings.ToLower(tag[2])
		switch {
		case slices.Contains(voids, name) || strings.HasSuffix(tag[3], "/"):
		case tag[1] == "":
			open = append(open, name)
		case len(open) == 0 || open[len(open)-1] != name:
			s.t.Fatalf("%s: </%s> closes %v", path, name, open)
		default:
			open = open[:len(open)-1]
		}
		if _, id, ok := strings.Cut(tag[3], ` id="`); ok {
			id, _, _ = strings.Cut(id, `"`)
			if ids[id] {
				s.t.Errorf("%s: two elements have the id %q", path, id)
			}
			ids[id] = true
		}
	}
	if len(open) > 0 {
		s.t.Errorf("%s: %v is never closed", path, open)
	}
}

// create makes a topic.
func (s *stand) create(topic string, partitions int32, configs ...string) {
	s.t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = topic, partitions, 1
	for i := 0; i+1 < len(configs); i += 2 {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = configs[i], &configs[i+1]
		t.Configs = append(t.Configs, c)
	}
	req.Topics, req.TimeoutMillis = append(req.Topics, t), 5000
	resp, err := req.RequestWith(s.t.Context(), s.client)
	if err != nil || resp.Topics[0].ErrorCode != 0 {
		s.t.Fatalf("create %s: %v %+v", topic, err, resp)
	}
}

// send writes records one after the other.
func (s *stand) send(records ...*kgo.Record) {
	s.t.Helper()
	if err := s.client.ProduceSync(s.t.Context(), records...).FirstErr(); err != nil {
		s.t.Fatal(err)
	}
}

// numbers are n records of a partition, a second apart up to now.
func (s *stand) numbers(topic string, partition int32, n int) (list []*kgo.Record) {
	for i := range n {
		list = append(list, &kgo.Record{
			Topic: topic, Partition: partition, Key: fmt.Appendf(nil, "k%d", i), Value: fmt.Appendf(nil, `{"n":%d}`, i),
			Timestamp: noon.Add(time.Duration(i-n) * time.Second),
		})
	}
	return list
}

// commit sets offsets of a group, PARTITION → OFFSET.
func (s *stand) commit(group, topic string, at map[int32]int64) {
	s.t.Helper()
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.Generation = group, -1
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic, t.TopicID = topic, s.topicID(topic)
	for p, offset := range at {
		part := kmsg.NewOffsetCommitRequestTopicPartition()
		part.Partition, part.Offset, part.LeaderEpoch = p, offset, -1
		t.Partitions = append(t.Partitions, part)
	}
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(s.t.Context(), s.client)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, p := range resp.Topics[0].Partitions {
		if p.ErrorCode != 0 {
			s.t.Fatalf("commit %s: %+v", group, resp)
		}
	}
}

func (s *stand) topicID(topic string) [16]byte {
	s.t.Helper()
	req := kmsg.NewPtrMetadataRequest()
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = &topic
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(s.t.Context(), s.client)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp.Topics[0].TopicID
}

// TestWithoutSources wants pages that say that there is nothing to look at, where
// a console is built without a cluster or ledgers.
func TestWithoutSources(t *testing.T) {
	s := standOver(t, runner{}, func(*Sources) {})
	for _, path := range []string{"/console/topics", "/console/topics/x", "/console/topics/x/messages", "/console/groups", "/console/group?group=x", "/console/group/reset?group=x", "/console/cluster"} {
		s.has(s.page(path, http.StatusNotFound), "no cluster to show")
	}
	s.has(s.page("/console/outputs", http.StatusOK), "No data sets yet", "sawlog job apply")
	s.has(s.page("/console/settings", http.StatusOK), "Not told", "no cluster to show")
}

// TestEmptyStatesSayWhatToDo looks at every list of a server that has nothing yet.
func TestEmptyStatesSayWhatToDo(t *testing.T) {
	s := newStand(t, nil)
	s.has(s.page("/console/topics", http.StatusOK), "No topics yet", "sawlog topic create", "sawlog produce")
	s.has(s.page("/console/groups", http.StatusOK), "No groups yet", "sawlog consume orders -g checkers")
	s.has(s.page("/console/outputs", http.StatusOK), "No data sets yet", "sawlog job apply")
	s.has(s.page("/console/cluster", http.StatusOK), "1 of 1 up", "every partition has a leader")
	s.create("orders", 2)
	s.has(s.page("/console/topics/orders/messages", http.StatusOK), "No record is in the log of orders", "sawlog produce orders FILE")
	s.has(s.page("/console/topics?q=nothing-like-it", http.StatusOK), "No topic matches", "Show all 1")
	s.has(s.page("/console/topics?only=trouble", http.StatusOK), "No topic is in trouble")
}

// TestSettings wants each setting with its value and where it comes from.
func TestSettings(t *testing.T) {
	c, err := config.Load("", map[string]string{"rack": `<b>"r1"`}, func(name string) (string, bool) { return "/tmp/x", name == "SAWLOG_DATA" })
	if err != nil {
		t.Fatal(err)
	}
	s := newStand(t, func(src *Sources) { src.Settings = c.Values })
	page := s.page("/console/settings", http.StatusOK)
	s.has(page, "/tmp/x", "environment SAWLOG_DATA", "flag --rack", "&lt;b&gt;", "sawlog config view --origin", "address Kafka clients connect to")
	s.lacks(page, "<b>")
	for _, set := range config.Settings() {
		s.has(page, ">"+set.Name+"<")
	}
	s.has(s.page("/console/settings?configs=all", http.StatusOK), "log.retention.ms", "default")
}

// costs draws a page some times and wants it cheap.
func (s *stand) costs(path string) {
	s.t.Helper()
	const rounds = 5
	s.page(path, http.StatusOK)
	began := cpu()
	var size int64
	for range rounds {
		w := httptest.NewRecorder()
		s.h.ServeHTTP(w, httptest.NewRequestWithContext(s.t.Context(), http.MethodGet, path, nil))
		size = int64(w.Body.Len())
	}
	took := (cpu() - began) / rounds
	s.t.Logf("%-60s %6.1f ms, %d KiB", path, float64(took.Microseconds())/1000, size>>10)
	if took > pageLimit {
		s.t.Errorf("%s takes %v of processor time, want less than %v", path, took, pageLimit)
	}
}

// TestPagesAreCheapOnLargeClusters: 500 topics of 20 partitions, 2,000 groups.
func TestPagesAreCheapOnLargeClusters(t *testing.T) {
	b := newBrokers(500, 20, 3)
	b.groups = 2000
	s := standOver(t, runner{}, over(b))
	for _, path := range []string{
		"/console/topics", "/console/topics?page=10", "/console/topics?q=topic-4", "/console/topics/topic-250", "/console/groups", "/console/groups?page=40",
		"/console/group?group=group-0001", "/console/group/reset?group=group-0001&topic=topic-000&to=earliest", "/console/cluster", "/console/settings", "/console/",
		"/console/topics/topic-250/delete", "/console/topics/topic-250/configs", "/console/topics/topic-250/trim?to=500", "/console/group/delete?group=group-0001",
	} {
		s.costs(path)
	}
}

// TestListsHavePages walks all topics and all groups page by page.
func TestListsHavePages(t *testing.T) {
	b := newBrokers(120, 1, 1)
	b.groups = 130
	s := standOver(t, runner{}, over(b))
	for path, name := range map[string]*regexp.Regexp{"/console/topics": regexp.MustCompile(`>(topic-\d+)<`), "/console/groups": regexp.MustCompile(`>(group-\d+)<`)} {
		next, seen := path, map[string]bool{}
		pages := 0
		for ; next != ""; pages++ {
			text := s.page(next, http.StatusOK)
			for _, m := range name.FindAllStringSubmatch(text, -1) {
				if seen[m[1]] {
					t.Errorf("%s shows %s again", next, m[1])
				}
				seen[m[1]] = true
			}
			next = linkOf(path, text, "next")
		}
		if want := map[string]int{"/console/topics": 120, "/console/groups": 130}[path]; len(seen) != want || pages != 3 {
			t.Errorf("%s: %d names on %d pages, want %d on 3", path, len(seen), pages, want)
		}
	}
}

// linkOf finds the link of a page with some rel; "" = there is none.
func linkOf(base, text, rel string) string {
	m := regexp.MustCompile(`href="([^"]*)" rel="` + rel + `"`).FindStringSubmatch(text)
	if m == nil {
		return ""
	}
	href := html.UnescapeString(m[1])
	if strings.HasPrefix(href, "?") {
		return base + href
	}
	return href
}

func readAll(t *testing.T, resp *http.Response) string {
	t.Helper()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestZones wants times in the zone that is asked for, links that keep it, and a
// refusal of zones that there are none of.
func TestZones(t *testing.T) {
	s := newStand(t, nil)
	s.create("orders", 1)
	s.send(s.numbers("orders", 0, 1)...)
	page := s.page("/console/topics/orders/messages?zone=Asia/Tokyo", http.StatusOK)
	s.has(page, "2026-11-29 23:29:59", "zone=Asia%2FTokyo", `name="zone" value="Asia/Tokyo"`)
	for _, path := range []string{"topics", "topics/orders", "topics/orders/messages", "groups", "outputs", "cluster", "settings"} {
		s.page("/console/"+path+"?zone=Mars/Olympus", http.StatusBadRequest)
	}
}

// TestWithoutScheduler: a node that does not run the jobs shows the cluster by
// itself, and passes the rest on: it is needed most when no node can be passed to.
func TestWithoutScheduler(t *testing.T) {
	s := standOver(t, runner{}, func(*Sources) {})
	c := Config{Elsewhere: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })}
	over(newBrokers(2, 3, 3))(&c.Sources)
	s.h = New(c)
	for _, path := range []string{"topics", "topics/topic-000", "topics/topic-000/messages", "groups", "cluster", "settings", "static/others.css"} {
		if status := s.ask(http.MethodGet, "/console/"+path, nil).StatusCode; status != http.StatusOK {
			t.Errorf("%s: %d", path, status)
		}
	}
	for _, path := range []string{"", "jobs", "jobs/x", "runs/x", "backfills", "outputs", "outputs/x", "nowhere", "runs", "newtopic", "topics/topic-000/delete", "topics/topic-000/configs", "group/delete?group=g"} {
		if status := s.ask(http.MethodGet, "/console/"+path, nil).StatusCode; status != http.StatusTeapot {
			t.Errorf("%s: %d, want it passed on", path, status)
		}
	}
	// What is lost with a topic is known where the jobs are.
	if status := s.ask(http.MethodPost, "/console/topics/topic-000/delete", url.Values{"typed": {"topic-000"}}).StatusCode; status != http.StatusTeapot {
		t.Errorf("a deed: %d, want it passed on", status)
	}
}
