package consumer

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"sawlog/broker/record"
	"sawlog/offsets"
)

// captured is a record set that a real client sent, of the real inputs.
func captured(t *testing.T, name string) record.Batch {
	t.Helper()
	dir := os.Getenv("SAWLOG_TEST_DATA")
	if dir == "" {
		dir = filepath.Join("..", "..", "shared", "data")
	}
	dir = filepath.Join(dir, "kafka-vectors", "client-captured")
	if _, err := os.Stat(dir); err != nil {
		if os.Getenv("SAWLOG_TEST_REQUIRE") == "all" {
			t.Fatal(err)
		}
		t.Skipf("the real inputs (SAWLOG_TEST_DATA) are missing: %v", err)
	}
	raw, err := os.ReadFile(filepath.Join(dir, name+".recordset.bin"))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// TestReaderCapturedTransactions reads transactional batches as a real client
// sent them, committed or aborted by the markers that follow.
func TestReaderCapturedTransactions(t *testing.T) {
	for _, commits := range [][2]bool{{true, true}, {true, false}, {false, true}, {false, false}} {
		c, log := newFake("delete")
		var want []offsets.Offset
		counts := Counts{Control: 2}
		for i, name := range []string{"franz-go.txn.0.v13", "franz-go.txn.1.v13"} {
			b, at := captured(t, name), offsets.Offset(2*i)
			if !b.IsTransactional() || b.LastOffset() != b.BaseOffset() {
				t.Fatalf("%s is not one record of a transaction", name)
			}
			log.add(b, at)
			log.add(marker(t, commits[i], b.ProducerID()), at+1)
			if commits[i] {
				want, counts.Data = append(want, at), counts.Data+1
			} else {
				log.aborted = append(log.aborted, abortedTxn{b.ProducerID(), at, at + 1})
				counts.Aborted++
			}
		}
		got, n, err := drain(t, c, rng(0, 4), Options{})
		if err != nil || !slices.Equal(got, want) || n != counts {
			t.Errorf("committed %v: offsets %v counts %+v: %v", commits, got, n, err)
		}
	}
}
