package console

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker/record"
	"sawlog/consumer"
	"sawlog/consumer/admin"
	"sawlog/formats/registry/registrytest"
)

const script = `<script>alert("x")</script>`

// TestMessages looks at records of every kind, hostile ones too.
func TestMessages(t *testing.T) {
	s := newStand(t, nil)
	s.create("odd", 1)
	at := noon.Add(-time.Minute)
	s.send(
		&kgo.Record{Topic: "odd", Key: []byte("k<1>"), Value: []byte(`{"big":12345678901234567890,"a":[1,2]}`), Timestamp: at, Headers: []kgo.RecordHeader{{Key: "h<i>", Value: []byte(script)}, {Key: "bin", Value: []byte{0, 1}}}},
		&kgo.Record{Topic: "odd", Value: []byte(script), Timestamp: at},
		&kgo.Record{Topic: "odd", Key: []byte{}, Value: nil, Timestamp: at},
		&kgo.Record{Topic: "odd", Key: []byte("k3"), Value: []byte{0xff, 0xfe, 0, 'A', '<'}, Timestamp: at},
		&kgo.Record{Topic: "odd", Key: []byte("k4"), Value: []byte("turn \u202eback\u202c and a zero\u200bwidth"), Timestamp: at},
		&kgo.Record{Topic: "odd", Key: []byte("k5"), Value: bytes.Repeat([]byte("x"), 200<<10), Timestamp: at},
		&kgo.Record{Topic: "odd", Key: []byte("k6"), Value: []byte("{\"<a>\":\"" + script + "\"}"), Timestamp: at},
	)
	page := s.page("/console/topics/odd/messages", http.StatusOK)
	s.lacks(page, "<script>alert", "\u202e", "\u200b", "<1>", "<i>", "<a>")
	s.has(page, "12345678901234567890", "k&lt;1&gt;", "h&lt;i&gt;", "&lt;script&gt;alert", "null", "k-empty", "ff fe 00 41 3c", "|...A&lt;|",
		`\u202eback\u202c`, `zero\u200bwidth<`, "200 KiB, the beginning", "2026-11-29 14:29:00", "sawlog consume odd --range -20..latest -n 20")
	if len(page) > 256<<10 {
		t.Errorf("a page of %d bytes", len(page))
	}
	s.has(s.page("/console/topics/odd/messages?show=hex", http.StatusOK), "7b 22 62 69 67 22")
	s.has(s.page("/console/topics/odd/messages?show=text", http.StatusOK), "\ufffd")
	s.has(s.page("/console/topics/odd/messages?show=json", http.StatusOK), "is no JSON", "is longer than a page reads")
}

// offsetsOn lists the records of a page.
func offsetsOn(page string) (list []int) {
	for _, m := range regexp.MustCompile(`id="o0-(\d+)"`).FindAllStringSubmatch(page, -1) {
		n, _ := strconv.Atoi(m[1])
		list = append(list, n)
	}
	return list
}

// TestMessagePages walks a partition from both ends: every record is on one page.
func TestMessagePages(t *testing.T) {
	s := newStand(t, nil)
	s.create("orders", 2)
	s.send(s.numbers("orders", 0, 53)...)
	const base = "/console/topics/orders/messages"
	for first, rel := range map[string]string{"?partition=0": "prev", "?partition=0&from=earliest": "next"} {
		var seen []int
		for next := base + first; next != ""; {
			page := s.page(next, http.StatusOK)
			seen = append(seen, offsetsOn(page)...)
			next = linkOf(base, page, rel)
		}
		slices.Sort(seen)
		if want := slices.Sorted(func(yield func(int) bool) {
			for i := range 53 {
				if !yield(i) {
					return
				}
			}
		}); !slices.Equal(seen, want) {
			t.Errorf("%s %s: %v", first, rel, seen)
		}
	}
	page := s.page(base+"?partition=0&from=10&n=50", http.StatusOK)
	if got := offsetsOn(page); len(got) != 43 || got[0] != 10 {
		t.Errorf("from 10: %v", got)
	}
	s.has(page, "sawlog consume orders --range 0=10..53", `rel="prev"`)
	s.lacks(page, `rel="next"`)
	when := url.QueryEscape("@" + noon.Add(-5*time.Second).Format(time.RFC3339))
	if got := offsetsOn(s.page(base+"?partition=0&from="+when, http.StatusOK)); !slices.Equal(got, []int{48, 49, 50, 51, 52}) {
		t.Errorf("five seconds ago: %v", got)
	}
	s.has(s.page(base+"?from="+url.QueryEscape("@"+noon.Add(time.Hour).Format(time.RFC3339)), http.StatusOK), "no record is as young as", "No records here")
	s.has(s.page(base+"?partition=0&from=9999", http.StatusOK), "No record stands there", "53 offsets")
	for _, bad := range []string{"partition=x", "partition=-1", "from=nonsense", "from=%40yesterdayish", "before=5", "partition=0&before=-2"} {
		s.page(base+"?"+bad, http.StatusBadRequest)
	}
	s.has(s.page(base+"?partition=2", http.StatusNotFound), "has no partition 2")
	// What retention took is told.
	req := kmsg.NewPtrDeleteRecordsRequest()
	topic := kmsg.NewDeleteRecordsRequestTopic()
	topic.Topic = "orders"
	part := kmsg.NewDeleteRecordsRequestTopicPartition()
	part.Partition, part.Offset = 0, 30
	topic.Partitions = append(topic.Partitions, part)
	req.Topics, req.TimeoutMillis = append(req.Topics, topic), 5000
	if resp, err := req.RequestWith(t.Context(), s.client); err != nil || resp.Topics[0].Partitions[0].ErrorCode != 0 {
		t.Fatal(err, resp)
	}
	page = s.page(base+"?partition=0&from=3", http.StatusOK)
	s.has(page, "begins at offset 30")
	if got := offsetsOn(page); len(got) != 20 || got[0] != 30 {
		t.Errorf("after the log was cut: %v", got)
	}
}

// TestMessagesOfAllPartitions are in order of their time, whatever partition they are
// of, on the page and on those before and behind it.
func TestMessagesOfAllPartitions(t *testing.T) {
	s := newStand(t, nil)
	s.create("wide", 40)
	var all []*kgo.Record
	for i := range 80 {
		all = append(all, &kgo.Record{Topic: "wide", Partition: int32(i * 7 % 40), Value: fmt.Appendf(nil, "record %02d", i), Timestamp: noon.Add(time.Duration(i-100) * time.Second)})
	}
	s.send(all...)
	const base = "/console/topics/wide/messages"
	// walk turns pages and gives the numbers of the records in the order they came.
	walk := func(path, rel string) (seen []string) {
		for range 5 {
			page := s.page(path, http.StatusOK)
			s.lacks(page, `class="note"`)
			for _, m := range regexp.MustCompile(`title="value, text">record (\d+)<`).FindAllStringSubmatch(page, -1) {
				seen = append(seen, m[1])
			}
			if !strings.Contains(page, `rel="`+rel+`"`) {
				break
			}
			path = linkOf(base, page, rel)
		}
		return seen
	}
	var want []string
	for i := range 80 {
		want = append(want, fmt.Sprintf("%02d", i))
	}
	if got := walk(base+"?from=earliest", "next"); !slices.Equal(got, want) {
		t.Errorf("from the oldest on: %v", got)
	}
	slices.Reverse(want)
	if got := walk(base, "prev"); !slices.Equal(got, want) {
		t.Errorf("from the newest on: %v", got)
	}
}

// TestMessagesOfManyPartitions: where a topic has more partitions than a page reads,
// it says so; however many there are, they share what it may read and its links hold.
func TestMessagesOfManyPartitions(t *testing.T) {
	s := standOver(t, runner{}, over(newBrokers(1, partitionsRead+40, 1)))
	page := s.page("/console/topics/topic-000/messages", http.StatusOK)
	s.has(page, fmt.Sprintf("records of the first %d of %d partitions", partitionsRead, partitionsRead+40))
	far := cursor{}
	for i := range int32(partitionsRead) {
		far[100_000+i] = 1 << 40
	}
	if n := len(url.QueryEscape(far.String())); n > 8<<10 {
		t.Errorf("a link has %d bytes", n)
	}
	for _, n := range []int{1, sharedBy, 100, partitionsRead} {
		if all := n * share(readBytes, n); all > sharedBy*readBytes || n <= sharedBy && all != n*readBytes {
			t.Errorf("%d partitions may read %d bytes", n, all)
		}
	}
}

// TestMessagesOfSparseLogs: a compacted log has few records in many offsets.
// The last of them are found, and the holes told.
func TestMessagesOfSparseLogs(t *testing.T) {
	b := newBrokers(1, 2, 1)
	b.topics[0].Partitions[1].Leader = untold // and holds up nobody
	for i := range 60 {
		b.log = append(b.log, batch(int64(i*1000), noon.UnixMilli(), "v"+strconv.Itoa(i)))
	}
	s := standOver(t, runner{}, over(b))
	const base = "/console/topics/topic-000/messages?partition=0"
	var seen []int
	for next, pages := base, 0; next != "" && pages < 20; pages++ {
		page := s.page(next, http.StatusOK)
		here := offsetsOn(page)
		if pages == 0 {
			s.has(page, "999 offsets hold no record")
			if len(here) != 20 || here[19] != 59000 {
				t.Errorf("the last records: %v", here)
			}
		}
		seen = append(slices.Clone(here), seen...)
		next = linkOf("/console/topics/topic-000/messages", page, "prev")
	}
	if len(seen) != 60 || seen[0] != 0 || !slices.IsSorted(seen) {
		t.Errorf("%d records: %v", len(seen), seen)
	}
	s.has(s.page("/console/topics/topic-000/messages", http.StatusOK), "no leader is in service for 1 partition: 1", ">0@59000<")
	s.has(s.page("/console/topics/topic-000/messages?partition=1", http.StatusOK), "no leader is in service", "Nothing could be read")
}

// TestFramedMessages are read by the schema that a registry has for them, where a
// job names the registry.
func TestFramedMessages(t *testing.T) {
	reg := registrytest.New()
	t.Cleanup(reg.Close)
	id := reg.Register("visits-value", "AVRO", `{"type":"record","name":"Visit","fields":[{"name":"where","type":"string"},{"name":"n","type":["null","long"],"default":null}]}`)
	s := newStand(t, nil)
	s.create("visits", 1)
	value := func(id int) []byte {
		return append([]byte{0, 0, 0, byte(id >> 8), byte(id)}, append([]byte{12}, append([]byte(`<Rome>`), 2, 84)...)...)
	}
	s.send(&kgo.Record{Topic: "visits", Value: value(int(id)), Timestamp: noon}, &kgo.Record{Topic: "visits", Value: value(777), Timestamp: noon}, &kgo.Record{Topic: "visits", Value: append(value(int(id))[:6], 9), Timestamp: noon})
	s.has(s.page("/console/topics/visits/messages", http.StatusOK), "hex")
	text := "name: visits\nsource: {topics: [visits]}\noutput: {root: 'file:///w/visits'}\ndecode: {value: avro, registry: '" + reg.URL + "'}\n"
	if _, err := s.jobs.Apply(t.Context(), []byte(text), "job.yaml", "ann", false); err != nil {
		t.Fatal(err)
	}
	page := s.page("/console/topics/visits/messages", http.StatusOK)
	s.has(page, `{&#34;where&#34;:&#34;&lt;Rome&gt;&#34;,&#34;n&#34;:42}`, "avro", "schema id 777: the registry has no such schema")
	if n := strings.Count(page, `title="value, avro"`); n != 1 {
		t.Errorf("%d values are read", n)
	}
	reg.Close()
	s.has(s.page("/console/topics/visits/messages", http.StatusOK), "registry is unavailable")
}

// TestLargeHeaders: headers are bytes that are read and shown like values, and
// their keys may be as long as a batch. A page takes the beginning of them.
func TestLargeHeaders(t *testing.T) {
	var rec consumer.Record
	for range 200 {
		rec.Headers = append(rec.Headers, record.Header{Key: bytes.Repeat([]byte("k"), 100<<10), Value: bytes.Repeat([]byte("v"), 100<<10)})
	}
	if got := weight(&rec); got != 200*200<<10 {
		t.Errorf("%d bytes count", got)
	}
	m := (&partRead{p: &admin.Partition{}}).take(&rec)
	kept := 0
	for _, h := range m.headers {
		if cap(h.key.head) > 2*nameBytes || cap(h.value.head) > 2*headerBytes {
			t.Fatalf("a header keeps %d and %d bytes", cap(h.key.head), cap(h.value.head))
		}
		kept += len(h.key.head) + len(h.value.head)
	}
	if m.carried != 200 || kept > headersBytes+nameBytes || len(m.headers) < 3 {
		t.Errorf("%d bytes of %d headers are kept, of %d", kept, len(m.headers), m.carried)
	}

	s := newStand(t, nil)
	s.create("heads", 1)
	r := &kgo.Record{Topic: "heads", Value: []byte("v"), Timestamp: noon}
	for range 40 {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: strings.Repeat("<", 1000), Value: bytes.Repeat([]byte{0xff}, 10<<10)})
	}
	s.send(r)
	page := s.page("/console/topics/heads/messages", http.StatusOK)
	s.has(page, "of 40", "10.0 KiB, the beginning", "&lt;…")
	if len(page) > 128<<10 {
		t.Errorf("a page of %d bytes", len(page))
	}
}

// TestNewestOfLargeRecords: where a page can't read as many records as it shows,
// the newest are shown, not the first of those it would have shown.
func TestNewestOfLargeRecords(t *testing.T) {
	b := newBrokers(1, 1, 1)
	large := strings.Repeat("x", 2<<20)
	for i := range 40 {
		b.log = append(b.log, batch(int64(i), noon.UnixMilli(), large))
	}
	s := standOver(t, runner{}, over(b))
	const base = "/console/topics/topic-000/messages"
	seen := 40
	for next := base + "?partition=0"; next != ""; {
		page := s.page(next, http.StatusOK)
		here := offsetsOn(page)
		if len(here) == 0 || here[len(here)-1] != seen-1 {
			t.Fatalf("before %d: %v", seen, here)
		}
		if seen = here[0]; seen > 20 {
			s.has(page, "has large records: the page holds "+strconv.Itoa(len(here))+" of it")
		}
		next = linkOf(base, page, "prev")
	}
	if seen != 0 {
		t.Errorf("the last page begins at %d", seen)
	}

	// Behind the large records nothing but holes.
	b.log = append(b.log, batch(3000, noon.UnixMilli(), "last"))
	s.has(s.page(base+"?partition=0&before=3000", http.StatusOK), ">0@39<")
}

// placesOn lists the records of a page, whatever their partition.
func placesOn(page string) (list []string) {
	for _, m := range regexp.MustCompile(`id="o(\d+-\d+)"`).FindAllStringSubmatch(page, -1) {
		list = append(list, m[1])
	}
	return list
}

// TestMessagePagesOfAllPartitions walks a topic from both ends, and back: each record
// is on one page, also where times run backward within a partition, and each page
// has as many as were asked for.
func TestMessagePagesOfAllPartitions(t *testing.T) {
	s := newStand(t, nil)
	s.create("wide", 6) // the last one stays empty
	const n = 137
	for i := range n {
		at := noon.Add(time.Duration(i*i*31%211-300) * time.Second)
		s.send(&kgo.Record{Topic: "wide", Partition: int32(i * i % 5), Value: fmt.Appendf(nil, "record %03d", i), Timestamp: at})
	}
	const base = "/console/topics/wide/messages"
	walk := func(from, rel string) (seen []string, last string) {
		for next := from; next != ""; {
			page := s.page(next, http.StatusOK)
			on := placesOn(page)
			if len(on) != 20 && len(seen)+len(on) != n {
				t.Errorf("%s: %d records after %d", next, len(on), len(seen))
			}
			seen, last = append(seen, on...), page
			next = linkOf(base, page, rel)
		}
		return seen, last
	}
	all := func(from, rel string) string {
		seen, last := walk(from, rel)
		slices.Sort(seen)
		if got := len(slices.Compact(slices.Clone(seen))); len(seen) != n || got != n {
			t.Errorf("from %q by %s: %d records, %d of them different, want %d", from, rel, len(seen), got, n)
		}
		return last
	}
	oldest := all(base, "prev")
	newest := all(base+"?from=earliest", "next")
	// From the last page back to where the walk began; that page was seen already.
	back, _ := walk(linkOf(base, oldest, "next"), "next")
	if want := n - len(placesOn(oldest)); len(back) != want {
		t.Errorf("back to the newest: %d records, want %d", len(back), want)
	}
	back, _ = walk(linkOf(base, newest, "prev"), "prev")
	if want := n - len(placesOn(newest)); len(back) != want {
		t.Errorf("back to the oldest: %d records, want %d", len(back), want)
	}
	// What came since the newest page is on the page behind it.
	page := s.page(base, http.StatusOK)
	s.lacks(page, `rel="next"`)
	s.send(&kgo.Record{Topic: "wide", Partition: 5, Value: []byte("the first of its partition"), Timestamp: noon})
	s.has(s.page(base+"?newer=5@0", http.StatusOK), "the first of its partition", "sawlog consume wide --range 5=0..1", "records of 1 partition, not of 3 more")
	s.lacks(s.page(base, http.StatusOK), "begin anew")
	many := cursor{}
	for i := range int32(partitionsRead + 1) {
		many[i] = 0
	}
	for _, bad := range []string{"older=x", "older=1@-1", "newer=1", "older=0@1&newer=0@1", "older=0@1&partition=0", "older=0@1&from=earliest", "older=" + many.String()} {
		s.page(base+"?"+bad, http.StatusBadRequest)
	}
}
