package api

import (
	"encoding/json"
	"hash/fnv"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Lists are answered in pages. ?limit= says how many entries one holds at most;
// where there are more, its next is what ?after= of the following request says.
const (
	pageLimit  = 200
	pageMost   = 1000
	pageLength = 4 << 20 // bytes of JSON, about, that end a page before its limit
)

// page is the part of a list that a query asks for, and the key it ends with
// where there is more. Lists that are sorted by their keys go on behind a key
// that is gone, too.
func page[T any](query url.Values, list []T, sorted bool, key func(*T) string) (part []T, next string, err error) {
	limit, err := number(query, "limit", pageLimit, 1, pageMost)
	if err != nil {
		return nil, "", err
	}
	if after := query.Get("after"); after != "" {
		i := slices.IndexFunc(list, func(v T) bool { return key(&v) == after || sorted && key(&v) > after })
		switch {
		case i < 0 && !sorted:
			return nil, "", pageGone(after)
		case i < 0:
			i = len(list)
		case key(&list[i]) == after:
			i++
		}
		list = list[i:]
	}
	part = list[:fitting(list, min(limit, len(list)), new(int))]
	if len(part) < len(list) {
		next = key(&part[len(part)-1])
	}
	return part, next, nil
}

func pageGone(after string) error {
	return &Error{Code: CodeConflict, Message: "after: " + after + " is no longer there", Hint: "begin again without after"}
}

// fitting is how many of the first n entries go into an answer that holds length
// bytes already: all, but for very long ones, and one at least where it holds none.
func fitting[T any](list []T, n int, length *int) int {
	for i := range list[:n] {
		text, err := json.Marshal(list[i])
		if err != nil {
			return n // the answer will say so
		}
		if *length > 0 && *length+len(text) > pageLength {
			return i
		}
		*length += len(text)
	}
	return n
}

// listed answers a page of a list.
func listed[T any](s *server, w http.ResponseWriter, r *http.Request, list []T, sorted bool, key func(*T) string, as func(part []T, next string) any) {
	part, next, err := page(r.URL.Query(), list, sorted, key)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	if part == nil {
		part = []T{}
	}
	reply(w, http.StatusOK, as(part, next))
}

// part is the stretch of several lists, one behind the other, that an answer with
// long lists holds: ?limit= entries behind the first ?after=.
type part struct {
	skip, left  int
	passed, all int
	length      int    // bytes of JSON, about, that it holds so far
	of          string // digest of what the lists are of; "" = it is always the same
}

// partOf reads what a next says: N, or N-DIGEST.
func partOf(query url.Values) (p part, err error) {
	if p.left, err = number(query, "limit", pageLimit, 1, pageMost); err == nil && query.Get("after") != "" {
		var count string
		count, p.of, _ = strings.Cut(query.Get("after"), "-")
		p.skip, err = number(url.Values{"after": {count}}, "after", 0, 0, maxEntries)
	}
	return p, err
}

// same tells what the lists are of, which is found anew for each page, and refuses
// to go on where it is another thing than on the page before: its entries would be
// there twice, or missing.
func (p *part) same(v any) error {
	h := fnv.New64a()
	if err := json.NewEncoder(h).Encode(v); err != nil {
		return err
	}
	before := p.of
	if p.of = strconv.FormatUint(h.Sum64(), 16); p.skip > 0 && p.of != before {
		return &Error{Code: CodeConflict, Message: "after: what the pages are of is another by now", Hint: "begin again without after"}
	}
	return nil
}

// maxEntries is more than any answer counts.
const maxEntries = math.MaxInt32

// next is the after of the answer that follows; "" where this is the last.
func (p *part) next() string {
	if p.passed >= p.all {
		return ""
	}
	if p.of == "" {
		return strconv.Itoa(p.passed)
	}
	return strconv.Itoa(p.passed) + "-" + p.of
}

// stretch takes what an answer holds of the next of its lists.
func stretch[T any](p *part, list []T) []T {
	p.all += len(list)
	from := min(p.skip, len(list))
	p.skip -= from
	n := fitting(list[from:], min(p.left, len(list)-from), &p.length)
	p.passed += from + n
	if p.left -= n; from+n < len(list) {
		p.left = 0 // the lists behind it wait for their turn
	}
	return list[from : from+n]
}
