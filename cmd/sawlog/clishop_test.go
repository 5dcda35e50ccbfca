package main

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"sawlog/cmd/sawlog/output"
	"sawlog/jobs"
)

// shop is a server with the topics, groups, jobs, runs and files that help texts
// name, and a command line in its folder.
type shop struct {
	*node
	names map[string]string // of what has a name only once it is made: RUN, FAILED, BACKFILL, …
	gone  bool              // something was deleted
}

// Schedules of the shop's hourly job. A year is long enough for a test in which
// no tick may come due.
const (
	hourly = "schedule: {every: 1h, delay: 5m}\n"
	yearly = "schedule: {cron: '0 0 1 1 *'}\n"
)

// openShop starts a server and fills it.
func openShop(t *testing.T, schedule string) *shop {
	t.Helper()
	s := &shop{node: startNode(t), names: map[string]string{}}
	s.ready()
	t.Setenv("SAWLOG_BROKERS", s.listen)
	t.Setenv("SAWLOG_SERVER", "http://"+s.web)
	t.Chdir(s.dir)
	s.files(schedule)
	s.restock()
	s.restock()
	s.runs()
	s.restock()
	s.restock()
	return s
}

// sawlog runs a command line in this process; it must end well.
func (s *shop) sawlog(args ...string) string {
	s.t.Helper()
	code, out, said := invoke(s.t, "", args...)
	if code != output.OK {
		s.t.Fatalf("sawlog %s: exit code %d: %s", strings.Join(args, " "), code, said)
	}
	return out
}

// field takes a field out of JSON that must have it.
func (s *shop) field(text, path string) string {
	s.t.Helper()
	value, err := jsonPath([]byte(text), path)
	if err != nil {
		s.t.Fatal(err)
	}
	return value
}

// files writes what examples read: job files, records, settings.
func (s *shop) files(schedule string) {
	job := func(name, topic, more string) string {
		return fmt.Sprintf("name: %s\nsource: {topics: [%s]}\noutput: {root: 'file://%s'}\n", name, topic, filepath.Join(s.dir, "warehouse", topic)) + more
	}
	views := "decode: {value: json}\ntime: {field: time, format: rfc3339, plausible: [2000-01-01, 2100-01-01]}\n"
	s.write("pageviews.yaml", job("pageviews-hourly", "pageviews", schedule+views))
	s.write("slow.yaml", job("slow", "slow", yearly+"decode: {value: text}\nrun: {rate: 64KiB}\n"))
	s.write("strict.yaml", job("strict", "strict", yearly+"decode: {value: json, max_bad: 1}\nrun: {retries: 0}\n"))
	if err := os.MkdirAll(filepath.Join(s.dir, "jobs"), 0o755); err != nil {
		s.t.Fatal(err)
	}
	for _, name := range []string{"clicks", "orders"} {
		s.write("jobs/"+name+".yaml", job(name+"-daily", name, "partition_by: {unit: day}\n"))
	}
	s.write("lines.txt", "{\"n\":1}\n{\"n\":2}\n{\"n\":3}\n")
	s.write("sawlog.yaml", "data: data\nlisten: 127.0.0.1:9092\ntopics: {retention.ms: 604800000}\n")
	s.zip("events.jsonl.gz", "{\"user\":\"ann\",\"path\":\"/\"}\n{\"user\":\"bob\",\"path\":\"/x\"}\n")
	for month := 1; month <= 2; month++ {
		s.zip(fmt.Sprintf("rides-%d.csv.gz", month), fmt.Sprintf("pickup,fare\n2026-0%d-05 10:00:00,12.5\n2026-0%d-06 11:30:00,7\n", month, month))
	}
}

// zip writes a gzip file.
func (s *shop) zip(name, text string) {
	s.t.Helper()
	f, err := os.Create(filepath.Join(s.dir, name))
	if err != nil {
		s.t.Fatal(err)
	}
	z := gzip.NewWriter(f)
	if _, err := z.Write([]byte(text)); err != nil {
		s.t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		s.t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		s.t.Fatal(err)
	}
}

// restock makes what is not there: topics with records in them, and jobs. Where
// all is there it only loads some page views more.
func (s *shop) restock() {
	s.t.Helper()
	if s.topic("orders", "8") {
		s.send(byHand("zstd"), s.orders()...)
	}
	if code, _, _ := invoke(s.t, "", "group", "describe", "checkers"); code == output.NotFound {
		s.sawlog("consume", "orders", "-g", "checkers", "-n", "10")
	}
	s.topic("clicks", "2")
	s.topic("rides", "1")
	if s.topic("slow", "1") {
		s.send(byHand("none"), s.noise()...)
	}
	if s.topic("strict", "1") {
		bad := kgo.Record{Topic: "strict", Value: []byte("no JSON"), Timestamp: time.Date(2024, 5, 1, 0, 0, 0, 0, time.UTC)}
		worse := bad
		s.send(byHand("none"), &bad, &worse) // one more than the job allows
	}
	s.topic("pageviews", "4")
	s.sawlog("job", "apply", "pageviews.yaml", "slow.yaml", "strict.yaml", "--yes")
	s.send(byHand("zstd"), s.views()...)
	s.names["RUN"] = s.field(s.sawlog("run", "pageviews-hourly", "--wait", "-o", "json"), "run")
}

// topic makes a topic, and tells whether it was missing.
func (s *shop) topic(name, partitions string) bool {
	s.t.Helper()
	code, _, said := invoke(s.t, "", "topic", "create", name, "--partitions", partitions, "--config", "retention.ms=-1")
	if code != output.OK && code != output.Conflict {
		s.t.Fatalf("topic %s: exit code %d: %s", name, code, said)
	}
	return code == output.OK
}

// orders are records of 2026-11-29, ten thousand of them in partition 3.
func (s *shop) orders() (list []*kgo.Record) {
	at := time.Date(2026, 11, 29, 14, 0, 0, 0, time.UTC)
	for i := range 10_700 {
		partition := int32(3)
		if i >= 10_000 {
			partition = int32(i % 8)
		}
		list = append(list, &kgo.Record{
			Topic: "orders", Partition: partition, Timestamp: at.Add(time.Duration(i) * 100 * time.Millisecond), Value: fmt.Appendf(nil, `{"order":%d}`, i),
		})
	}
	return list
}

// views are page views of two hours, one of them malformed.
func (s *shop) views() (list []*kgo.Record) {
	for i := range 200 {
		at := time.Date(2026, 11, 28+i%2, 14, i/4, 0, 0, time.UTC)
		text := fmt.Sprintf(`{"time":%q,"path":"/p/%d","status":200,"user":"u%d"}`, at.Format(time.RFC3339), i%7, i%5)
		if i == 0 {
			text = `{"time":"no time"}`
		}
		list = append(list, &kgo.Record{Topic: "pageviews", Partition: int32(i % 4), Timestamp: at, Value: []byte(text)})
	}
	return list
}

// noise is what a load at 64 KiB a second has to do with for minutes.
func (s *shop) noise() (list []*kgo.Record) {
	rnd := rand.NewChaCha8([32]byte{7})
	for range 1500 {
		value := make([]byte, 10<<10)
		_, _ = rnd.Read(value) // never fails
		list = append(list, &kgo.Record{Topic: "slow", Value: fmt.Appendf(nil, "%x", value[:len(value)/2]), Timestamp: time.Date(2019, 5, 1, 0, 0, 0, 0, time.UTC)})
	}
	return list
}

// runs makes runs and backfills in all states: FAILED is a run that ended badly,
// BACKFILL one that has ended, BAD one some of which failed, OPEN one that goes
// on, and GOING a run that does.
func (s *shop) runs() {
	s.t.Helper()
	s.names["BACKFILL"] = s.backfilled(output.OK, "pageviews-hourly", "--only", "all", "--from", "2026-11-28T14", "--to", "2026-11-28T15", "--wait")
	s.names["BAD"] = s.backfilled(output.Partial, "strict", "--from", "2024-01-01", "--to", "2025-01-02", "--wait")
	s.names["FAILED"] = s.field(s.sawlog("runs", "list", "--job", "strict", "-o", "json"), "0.run")
	s.opens()
}

// opens makes sure that a backfill and a run of it go on.
func (s *shop) opens() {
	s.t.Helper()
	s.names["OPEN"] = s.backfilled(output.OK, "slow", "--from", "2020-01-01", "--to", "2025-01-02")
	s.eventually("the run of a backfill goes on", patience, func() bool {
		var list []jobs.Run
		if err := json.Unmarshal([]byte(s.sawlog("runs", "list", "--job", "slow", "--status", "running", "-o", "json")), &list); err != nil {
			s.t.Fatal(err)
		}
		if len(list) > 0 {
			s.names["GOING"] = list[0].Run
		}
		return len(list) > 0
	})
}

// backfilled makes a backfill and returns its name.
func (s *shop) backfilled(want int, args ...string) string {
	s.t.Helper()
	code, out, said := invoke(s.t, "", append(append([]string{"backfill"}, args...), "-o", "json")...)
	if code != want {
		s.t.Fatalf("backfill %s: exit code %d, want %d: %s%s", strings.Join(args, " "), code, want, out, said)
	}
	return s.field(out, "backfill")
}

// words splits a command line as a shell does, with names put in for what is
// known only now.
func (s *shop) words(line string) []string {
	for name, value := range s.names {
		line = strings.ReplaceAll(line, name, value)
	}
	return shellWords(line)
}

// in is the same shop in a part of the test.
func (s *shop) in(t *testing.T) *shop {
	n := *s.node
	n.t = t
	return &shop{node: &n, names: s.names}
}
