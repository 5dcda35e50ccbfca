package broker_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker"
	"sawlog/broker/brokertest"
	"sawlog/broker/record"
	"sawlog/broker/wire"
)

// kcat runs kcat against a broker.
func kcat(t *testing.T, b *broker.Broker, input string, args ...string) string {
	t.Helper()
	name, err := exec.LookPath("kcat")
	if err != nil {
		if os.Getenv("SAWLOG_TEST_REQUIRE") == "all" {
			t.Fatal("kcat is not installed")
		}
		t.Skip("kcat is not installed")
	}
	cmd := exec.CommandContext(within(t), name, append([]string{"-b", b.Addr(), "-q", "-m", "20"}, args...)...)
	cmd.Stdin = strings.NewReader(input)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("kcat %v: %v\n%s", args, err, errs.String())
	}
	if errs.Len() > 0 {
		t.Errorf("kcat %v says: %s", args, errs.String())
	}
	return out.String()
}

// batches reads the record batches of a partition as they are stored.
func batches(t testing.TB, b *broker.Broker, topic string) []record.Batch {
	t.Helper()
	c := wireClient(t, b)
	r := kmsg.NewPtrFetchRequest()
	r.Version = 12
	r.MaxBytes, r.SessionEpoch = 50<<20, -1
	rt := kmsg.NewFetchRequestTopic()
	rt.Topic = topic
	rp := kmsg.NewFetchRequestTopicPartition()
	rp.PartitionMaxBytes = 50 << 20
	rt.Partitions = append(rt.Partitions, rp)
	r.Topics = append(r.Topics, rt)
	m, err := c.Exchange(within(t), r)
	if err != nil {
		t.Fatal(err)
	}
	p := m.(*kmsg.FetchResponse).Topics[0].Partitions[0]
	if p.ErrorCode != 0 {
		t.Fatalf("fetch %s: code %d", topic, p.ErrorCode)
	}
	var all []record.Batch
	for rest := p.RecordBatches; len(rest) > 0; {
		var first record.Batch
		if first, rest, err = record.Split(rest); err != nil {
			t.Fatal(err)
		}
		all = append(all, first)
	}
	return all
}

func wireClient(t testing.TB, b *broker.Broker) *wire.Conn {
	t.Helper()
	c, err := wire.Dial(within(t), b.Addr(), "test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // it may be closed already
	return c
}

func TestKcatCompressesWhatItIsToldTo(t *testing.T) {
	t.Parallel() // it waits for a group, or for kcat
	b := brokertest.Start(t, nil)
	var input strings.Builder
	for i := range 500 {
		fmt.Fprintf(&input, "k%d:a line of text that repeats itself, line %d\n", i, i)
	}
	for _, codec := range []record.Codec{record.None, record.Gzip, record.Snappy, record.LZ4, record.Zstd} {
		t.Run(codec.String(), func(t *testing.T) {
			topic := "kcat-" + codec.String()
			kcat(t, b, input.String(), "-P", "-t", topic, "-K", ":", "-z", codec.String(), "-X", "linger.ms=200")
			got := kcat(t, b, "", "-C", "-t", topic, "-o", "beginning", "-e", "-K", ":")
			if got != input.String() {
				t.Errorf("consumed %d bytes, produced %d", len(got), input.Len())
			}
			stored := batches(t, b, topic)
			if len(stored) == 0 {
				t.Fatal("nothing stored")
			}
			for _, batch := range stored {
				// A single record that doesn't get smaller is sent as it is.
				if batch.Codec() != codec && batch.Count() > 1 {
					t.Errorf("a batch of %d records is stored with codec %s", batch.Count(), batch.Codec())
				}
			}
		})
	}
}

func TestKcatIdempotentAndQuery(t *testing.T) {
	t.Parallel() // it waits for a group, or for kcat
	b := brokertest.Start(t, nil)
	kcat(t, b, "a\nb\nc\n", "-P", "-t", "q", "-X", "enable.idempotence=true")
	if got := kcat(t, b, "", "-Q", "-t", "q:0:-1"); !strings.Contains(got, "offset 3") {
		t.Errorf("query: %q", got)
	}
	if got := kcat(t, b, "", "-L"); !strings.Contains(got, `topic "q" with 1 partitions`) || !strings.Contains(got, b.Addr()) {
		t.Errorf("list: %q", got)
	}
	if got := batches(t, b, "q"); got[0].ProducerID() < 0 {
		t.Error("the batch has no producer id")
	}
}

func TestKcatGroup(t *testing.T) {
	t.Parallel() // it waits for a group, or for kcat
	b := brokertest.Start(t, nil)
	kcat(t, b, "one\ntwo\n", "-P", "-t", "g")
	if got := kcat(t, b, "", "-G", "readers", "-X", "auto.offset.reset=earliest", "-e", "g"); got != "one\ntwo\n" {
		t.Errorf("first run: %q", got)
	}
	kcat(t, b, "three\n", "-P", "-t", "g")
	if got := kcat(t, b, "", "-G", "readers", "-X", "auto.offset.reset=earliest", "-e", "g"); got != "three\n" {
		t.Errorf("second run: %q", got)
	}
}
