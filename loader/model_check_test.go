package loader

import (
	"strconv"
	"strings"
	"time"

	"sawlog/loader/sink"
)

// check holds the data set against the rules, at any moment or at rest.
func (m *model) check(s sink.Sink, rest bool) {
	m.t.Helper()
	l, err := OpenLedger(m.t.Context(), s, "views", "views-hourly", m.src.config(s))
	if err != nil {
		m.t.Fatalf("seed %d: L1: the ledger cannot be folded: %v", m.seed, err)
	}
	for number, nonce := range m.acked {
		rec, _, err := readRecord(s, number)
		if err != nil || rec.Nonce != nonce {
			m.t.Fatalf("seed %d: L1: record %d was answered and is %v, %v", m.seed, number, rec, err)
		}
	}
	files := data(m.t, s)
	for name, v := range l.fold.Files {
		body, there := files[name]
		amending := v.Amended > 0 && v.Amended == l.fold.Head && !rest // the old bytes may be there still
		switch {
		case there && sum([]byte(body)) != v.SHA256 && !amending:
			m.t.Fatalf("seed %d: L8: %s holds other bytes", m.seed, name)
		case !there && (v.Number < l.fold.Head || rest) && !m.damaged[name]:
			m.t.Fatalf("seed %d: L2: record %d is not published, the head is %d: %s", m.seed, v.Number, l.fold.Head, name)
		}
	}
	for name, gone := range l.fold.Retired {
		_, there := files[name]
		if there && (gone.Number < l.fold.Head || rest) {
			m.t.Fatalf("seed %d: L3: %s was retired by record %d, the head is %d", m.seed, name, gone.Number, l.fold.Head)
		}
		m.checkRetired(l, name, gone, rest)
		if !there || l.head == nil {
			continue
		}
		for i := range l.head.Files {
			if twin := l.head.Files[i].Path; files[twin] != "" {
				m.t.Fatalf("seed %d: L4: both %s and %s, which replaces it, are there", m.seed, name, twin)
			}
		}
	}
	m.checkSuccess(l, files)
}

// checkRetired wants a file that was retired to be kept for readers who opened it
// before, for as long as it is promised.
func (m *model) checkRetired(l *Ledger, name string, gone Retirement, rest bool) {
	m.t.Helper()
	if m.damaged[name] || gone.Number == l.fold.Head && !rest || m.age(l, gone.Number) > retiredGrace {
		return
	}
	if _, err := l.sink.Stat(RetiredPath(gone.Number, name)); err != nil {
		m.t.Fatalf("seed %d: L5: %s was retired by record %d %v ago, the head is %d: %v",
			m.seed, name, gone.Number, m.age(l, gone.Number), l.fold.Head, err)
	}
}

// age is how long ago a record was written.
func (m *model) age(l *Ledger, number int64) time.Duration {
	return time.Since(time.UnixMilli(l.fold.Records[number].At))
}

// checkSwept wants nothing of what was retired long ago to be left.
func (m *model) checkSwept(s sink.Sink, l *Ledger) {
	m.t.Helper()
	for name := range tree(m.t, s, RetiredDir) {
		number, _, _ := strings.Cut(strings.TrimPrefix(name, RetiredDir+"/"), "/")
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil || m.age(l, n) > retiredGrace {
			m.t.Fatalf("seed %d: the sweep left %s (%v)", m.seed, name, err)
		}
	}
}

// checkSuccess wants under each success mark the hour as it was at its number.
func (m *model) checkSuccess(l *Ledger, files map[string]string) {
	m.t.Helper()
	for name := range m.damaged {
		if files[name] == "" {
			files[name] = "removed by a person"
		}
	}
	for _, problem := range unmarked(m.t, l, files) {
		m.t.Fatalf("seed %d: %s", m.seed, problem)
	}
}
