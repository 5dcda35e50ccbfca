package log

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	"sawlog/broker/record"
	"sawlog/offsets"
)

// txnLog writes transactions to a log.
type txnLog struct {
	t   *testing.T
	l   *Log
	seq map[int64]int32
}

// write appends one batch of a producer's transaction.
func (x *txnLog) write(id int64, records ...kv) {
	x.t.Helper()
	w := record.NewBuilder(record.None, 0)
	w.Producer(id, 0, x.seq[id])
	w.Transactional(true)
	for _, r := range records {
		w.Append(r.record())
	}
	b, err := w.Batch()
	must(x.t, err)
	x.seq[id] += int32(len(records))
	appendOne(x.t, x.l, b)
}

// end appends the marker.
func (x *txnLog) end(id int64, commit bool) {
	x.t.Helper()
	b, err := record.Marker(commit, id, 0, 1, testNow)
	must(x.t, err)
	appendOne(x.t, x.l, b)
}

// txnLines are the records of a log and its markers, which are [offset id commit].
func txnLines(t testing.TB, l *Log) string {
	t.Helper()
	var out []string
	for _, b := range contents(t, l, l.Start()) {
		for _, r := range decode(t, b) {
			if b.IsControl() {
				commit, err := record.ParseControl(r.Key)
				must(t, err)
				out = append(out, fmt.Sprintf("[%d %d %v]", r.Offset, b.ProducerID(), commit))
				continue
			}
			out = append(out, fmt.Sprintf("%d %s=%s", r.Offset, r.Key, r.Value))
		}
	}
	return strings.Join(out, ", ")
}

// TestCleanTransactions: aborted records go, and take no older ones with them;
// an open transaction is not passed; markers stay until nothing of their
// transaction is left, and delete.retention.ms longer.
func TestCleanTransactions(t *testing.T) {
	c := compacted()
	c.DeleteRetentionMs = 1000
	fs, d, l := onMem(t, c)
	x := &txnLog{t, l, map[int64]int32{}}
	want := func(want string) {
		t.Helper()
		if got := txnLines(t, l); got != want {
			t.Fatalf("the log holds\n%s\nwant\n%s", got, want)
		}
	}
	appendOne(t, l, keyed(t, record.None, put("a", "0"), put("b", "0"), put("c", "0"))) // 0–2
	x.write(1, put("a", "1"))                                                           // 3, aborted
	x.write(2, put("b", "1"), put("d", "1"))                                            // 4–5, committed
	roll(t, l)
	x.end(1, false) // 6
	x.write(1, put("c", "2"))
	x.end(2, true) // 8
	x.end(1, true) // 9
	roll(t, l)
	x.write(3, put("d", "9")) // 10, open
	roll(t, l)
	appendOne(t, l, keyed(t, record.None, put("a", "9")))
	roll(t, l)
	clean(d, 0)
	want("0 a=0, 4 b=1, 5 d=1, [6 1 false], 7 c=2, [8 2 true], [9 1 true], 10 d=9, 11 a=9")
	x.end(3, true) // 12
	appendOne(t, l, keyed(t, record.None, put("b", "9"), put("c", "9"), put("d", "10")))
	roll(t, l)
	clean(d, 500)
	// Headers of the producers stay, so do the markers of their transactions;
	// the aborted one has nothing left.
	want("[6 1 false], [8 2 true], [9 1 true], 11 a=9, [12 3 true], 13 b=9, 14 c=9, 15 d=10")
	must(t, l.tick(testNow+2*day))
	appendOne(t, l, keyed(t, record.None, put("a", "10")))
	roll(t, l)
	clean(d, 2*day)
	must(t, d.Close())
	d, l = reopen(t, fs)
	x.l = l
	if at, open := l.FirstUnstable(); open {
		t.Fatalf("a transaction is open at %d after a restart", at)
	}
	l.SetConfig(c)
	for i := range 3 {
		appendOne(t, l, keyed(t, record.None, put("a", fmt.Sprint("more ", i))))
		roll(t, l)
		clean(d, (3+int64(i))*day)
	}
	want("13 b=9, 14 c=9, 15 d=10, 19 a=more 2")
	must(t, d.Close())
}

// TestCleanTransactionsRandom compares what a reader of committed records sees
// with what was committed, after random transactions, compactions and crashes.
func TestCleanTransactionsRandom(t *testing.T) {
	for seed := range uint64(*cleanSeeds / 2) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 17))
			c := compacted()
			c.SegmentBytes = int64(300 + rnd.IntN(1500))
			c.DeleteRetentionMs = int64(rnd.IntN(2)) * 2000
			fs, d, l := onMem(t, c)
			x := &txnLog{t, l, map[int64]int32{}}
			committed := map[string]string{}
			open := map[int64]map[string]string{}
			for i := range 300 {
				switch id := int64(rnd.IntN(4)); rnd.IntN(8) {
				case 0:
					appendOne(t, l, keyed(t, record.None, put("z", "filler")))
				case 1:
					clean(d, int64(i)*100)
				case 2:
					if l.End() > 0 && rnd.IntN(4) == 0 {
						must(t, l.Flush())
						fs = fs.CrashClone(rnd)
						d, l = reopen(t, fs)
						l.SetConfig(c)
						x.l = l
					}
				case 3, 4:
					commit := rnd.IntN(2) == 0
					if open[id] == nil && rnd.IntN(4) > 0 {
						break // now and then a marker of a transaction without data here
					}
					x.end(id, commit)
					for k, v := range open[id] {
						if commit {
							committed[k] = v
						}
					}
					delete(open, id)
				default:
					if open[id] == nil {
						open[id] = map[string]string{}
					}
					k, v := randomKey(rnd, 12), fmt.Sprint(i)
					if owned(open, id, k) {
						break // two open transactions of one key have no order
					}
					x.write(id, put(k, v))
					open[id][k] = v
				}
				if i%10 == 9 {
					checkCommitted(t, l, committed, fmt.Sprint("step ", i))
				}
			}
			must(t, d.Close())
		})
	}
}

// owned tells whether another open transaction has written a key.
func owned(open map[int64]map[string]string, id int64, key string) bool {
	for other, records := range open {
		if _, ok := records[key]; ok && other != id {
			return true
		}
	}
	return false
}

// checkCommitted reads as a client with isolation read_committed.
func checkCommitted(t *testing.T, l *Log, want map[string]string, when string) {
	t.Helper()
	pending := map[int64]map[string]string{}
	got := map[string]string{}
	for _, b := range contents(t, l, l.Start()) {
		id := b.ProducerID()
		for _, r := range decode(t, b) {
			switch {
			case b.IsControl():
				if commit, err := record.ParseControl(r.Key); err != nil {
					t.Fatal(err)
				} else if commit {
					maps.Copy(got, pending[id])
				}
				delete(pending, id)
			case b.IsTransactional():
				if pending[id] == nil {
					pending[id] = map[string]string{}
				}
				pending[id][string(r.Key)] = string(r.Value)
			case string(r.Key) != "z":
				got[string(r.Key)] = string(r.Value)
			}
		}
	}
	for k, v := range want {
		if got[k] != v {
			t.Fatalf("%s: %s is %q, committed was %q", when, k, got[k], v)
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%s: %v are committed, want %v", when, got, want)
	}
}

// TestCleanTxns: what pure state says of transactions.
func TestCleanTxns(t *testing.T) {
	x := cleanTxns{aborted: []aborted{{producer: 1, first: 10, last: 30}, {producer: 2, first: 20, last: 25}}}
	data := func(id int64, at offsets.Offset) record.Batch {
		w := record.NewBuilder(record.None, 0)
		w.Producer(id, 0, 0)
		w.Transactional(true)
		w.Append(put("a", "1").record())
		b, err := w.Batch()
		must(t, err)
		b.Stamp(at, 1)
		return b
	}
	marker := func(id int64, at offsets.Offset) record.Batch {
		b, err := record.Marker(false, id, 0, 1, testNow)
		must(t, err)
		b.Stamp(at, 1)
		return b
	}
	for _, step := range []struct {
		b    record.Batch
		want bool
	}{
		{data(1, 5), false},
		{marker(1, 6), false}, // its data is there
		{data(1, 10), true},
		{data(3, 12), false},
		{marker(2, 25), true}, // its data at 20 is gone
		{data(2, 26), false},
		{marker(1, 30), false},
		{marker(1, 31), true}, // of nothing
		{marker(2, 32), false},
		{marker(3, 33), false},
		{marker(3, 34), true},
	} {
		got := false
		if step.b.IsControl() {
			got = x.marker(step.b)
		} else {
			got = x.drop(step.b)
		}
		if got != step.want {
			t.Errorf("offset %d: %v, want %v", step.b.BaseOffset(), got, step.want)
		}
	}
}
