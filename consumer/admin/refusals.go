package admin

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// refusals gathers what became of many things that a broker was asked about.
type refusals struct {
	refused []error
	done    int // was not refused
}

func (r *refusals) add(err error) {
	if err == nil {
		r.done++
		return
	}
	r.refused = append(r.refused, err)
}

// err names each that was refused, and is of the kind of the first, or of the first
// that may have been done all the same.
func (r *refusals) err() error {
	switch len(r.refused) {
	case 0:
		return nil
	case 1:
		return r.refused[0]
	}
	first := max(0, slices.IndexFunc(r.refused, Unsure))
	return &manyError{r.refused[first], summed(r.refused)}
}

// deed is the error of something that was to be done to each.
func (r *refusals) deed() error {
	if len(r.refused) == 0 || r.done == 0 {
		return r.err()
	}
	return &Partly{Done: r.done, Of: r.done + len(r.refused), Err: r.err()}
}

// deeds tells to which of all a deed was done, by what was told of each; failed is
// why nothing was told of some.
func deeds[K comparable](what string, all []K, told map[K]error, failed error) (done []K, err error) {
	var sum refusals
	for _, k := range all {
		err, known := told[k]
		if !known {
			_, partition := any(k).(int32)
			err = &unknownError{what + fmt.Sprint(k), cmp.Or(failed, errSilent), partition}
		}
		if sum.add(err); err == nil {
			done = append(done, k)
		}
	}
	return done, sum.deed()
}

// unknownError is why nothing was told of something.
type unknownError struct {
	what      string
	err       error
	partition bool // what ends in a topic's partition
}

func (e *unknownError) Error() string { return e.what + ": " + e.err.Error() }

func (e *unknownError) Unwrap() error { return e.err }

// manyError is what was refused of many things.
type manyError struct {
	first error
	text  string
}

func (e *manyError) Error() string { return e.text }

func (e *manyError) Unwrap() error { return e.first }

// summed says what was refused and why, each reason once.
func summed(refused []error) string {
	var whys []string
	of := map[string][]name{}
	for _, err := range refused {
		what, why := name{}, err.Error()
		switch e := err.(type) {
		case *Error:
			what, why = name{e.What, e.partition}, e.why()
		case *unknownError:
			what, why = name{e.what, e.partition}, e.err.Error()
		}
		if _, known := of[why]; !known {
			whys = append(whys, why)
		}
		of[why] = append(of[why], what)
	}
	for i, why := range whys {
		if names := listed(of[why]); names != "" {
			whys[i] = names + ": " + why
		}
	}
	return strings.Join(whys, "; ")
}

// name is that of something, and whether it is a partition's: a group's or a
// directory's may look like one.
type name struct {
	text      string
	partition bool
}

// namedAtMost is how many names a list has, runs of partitions being one.
const namedAtMost = 20

// listed writes names down, those of partitions as in "orders/0-3, 7".
func listed(names []name) string {
	var out []string
	of, last, more := "", 0, 0 // the partition before
	for _, name := range names {
		before, n, ok := name.cut()
		switch {
		case name.text == "":
			continue
		case len(out) == namedAtMost && (!ok || before != of || n != last+1 || more > 0):
			more++
			continue
		case ok && before == of && n == last+1:
			end := len(out) - 1
			out[end] = strings.TrimSuffix(out[end], "-"+strconv.Itoa(last)) + "-" + strconv.Itoa(n)
		case ok && before == of:
			out = append(out, strconv.Itoa(n))
		default:
			out = append(out, name.text)
		}
		of, last = before, n
	}
	if more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(out, ", "), more)
	}
	return strings.Join(out, ", ")
}

// cut parts the name of a partition, such as "records of orders/3".
func (n name) cut() (before string, partition int, ok bool) {
	slash := strings.LastIndexByte(n.text, '/')
	partition, err := strconv.Atoi(n.text[slash+1:])
	if !n.partition || slash < 1 || err != nil {
		return "", 0, false
	}
	return n.text[:slash], partition, true
}
