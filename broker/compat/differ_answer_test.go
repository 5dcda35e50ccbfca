package compat

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// answer is what a broker said, made comparable: path of a field → its value.
// The elements of an array go by what they are (a topic's name, a partition's
// number), not by their order, which no client relies on.
type answer map[string]string

// symbols turns what no two brokers have in common into names, in order of
// appearance. There is one for each scenario and broker.
type symbols struct {
	start time.Time // of the test
	names map[string]string
	count map[string]int
}

func newSymbols(start time.Time) *symbols {
	return &symbols{start: start, names: map[string]string{}, count: map[string]int{}}
}

func (y *symbols) of(kind, value string) string {
	name, ok := y.names[kind+" "+value]
	if !ok {
		y.count[kind]++
		name = fmt.Sprintf("<%s %d>", kind, y.count[kind])
		y.names[kind+" "+value] = name
	}
	return name
}

// The normaliser. It is fixed: what differs beyond it is a fault, or a row in
// the table of exceptions.
//
// idents are the fields that say which element of an array this is.
var idents = []string{
	"Topic", "TopicID", "Partition", "Group", "GroupID", "ResourceType", "ResourceName", "Name", "NodeID", "ApiKey", "MemberID",
	"Key", "Dir", "User", "Type", "ReplicaID", "TransactionalID", "Source", "Mechanism", "Feature", "ProducerID",
}

// ids become symbols of the kind. A producer id does when a broker gave it out;
// one that a scenario made up stays.
var ids = map[string]string{
	"TopicID": "topic", "ClusterID": "cluster", "ProducerID": "producer", "SessionID": "session", "Port": "port",
	"DirectoryID": "directory", "ReplicaDirectoryID": "directory", "VoterDirectoryID": "directory", "IncarnationID": "incarnation",
}

// ignored are measures of the moment.
var ignored = map[string]bool{
	"ThrottleMillis": true, "Version": true, "UnknownTags": true,
	"Size": true, "TotalBytes": true, "UsableBytes": true, "FinalizedFeaturesEpoch": true,
}

// quorum numbers depend on what each controller writes for itself.
var quorum = map[string]bool{"HighWatermark": true, "LogEndOffset": true, "LeaderEpoch": true, "LastFetchTimestamp": true, "LastCaughtUpTimestamp": true}

// uuid is the random part of a member id.
var uuid = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// normal is the answer to a request as a flat table.
func (y *symbols) normal(resp kmsg.Response) answer {
	a := answer{}
	y.walk(a, resp.Key(), reflect.ValueOf(resp).Elem(), "", "")
	return a
}

// given tells whether an id is the broker's own.
func (y *symbols) given(kind, value string, key int16) bool {
	_, known := y.names[kind+" "+value]
	return known || kind != "producer" || key == int16(kmsg.InitProducerID)
}

func (y *symbols) walk(a answer, key int16, v reflect.Value, path, field string) {
	if kind, ok := ids[field]; ok {
		if text := idText(v); v.IsZero() || v.CanInt() && v.Int() < 0 || !y.given(kind, text, key) {
			a[path] = text
		} else if v.Kind() == reflect.Pointer {
			a[path] = y.of(kind, idText(v.Elem()))
		} else {
			a[path] = y.of(kind, text)
		}
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			a[path] = "null"
			return
		}
		y.walk(a, key, v.Elem(), path, field)
	case reflect.Struct:
		for i := range v.NumField() {
			name := v.Type().Field(i).Name
			if ignored[name] || key == int16(kmsg.DescribeQuorum) && quorum[name] {
				continue
			}
			y.walk(a, key, v.Field(i), strings.TrimPrefix(path+"."+name, "."), name)
		}
	case reflect.Slice, reflect.Array:
		y.walkArray(a, key, v, path, field)
	case reflect.String:
		a[path] = y.text(field, v.String())
	case reflect.Int16:
		a[path] = strconv.FormatInt(v.Int(), 10)
		if field == "ErrorCode" {
			a[path] = codeName(int16(v.Int()))
		}
	case reflect.Int64:
		a[path] = y.number(v.Int())
	default:
		a[path] = fmt.Sprint(v.Interface())
	}
}

func codeName(code int16) string {
	if code == 0 {
		return "0"
	}
	if e := kerr.TypedErrorForCode(code); e != nil {
		return fmt.Sprintf("%d %s", code, e.Message)
	}
	return strconv.Itoa(int(code))
}

// number is a number; a time since the start of the test is just that.
func (y *symbols) number(n int64) string {
	if n >= y.start.UnixMilli() && n <= y.start.Add(time.Hour).UnixMilli() {
		return "<now>"
	}
	return strconv.FormatInt(n, 10)
}

// text is a text; one meant for people counts as one only.
func (y *symbols) text(field, text string) string {
	switch field {
	case "ErrorMessage", "Documentation":
		return "<text>"
	case "Dir", "LogDir":
		return "<directory>"
	case "MemberID", "LeaderID":
		return strconv.Quote(uuid.ReplaceAllStringFunc(text, func(m string) string { return y.of("member", m) }))
	}
	return strconv.Quote(text)
}

func (y *symbols) walkArray(a answer, key int16, v reflect.Value, path, field string) {
	if v.Kind() == reflect.Slice && v.IsNil() {
		a[path] = "null"
		return
	}
	if v.Type().Elem().Kind() == reflect.Uint8 {
		b := v.Bytes()
		if field == "RecordBatches" || field == "Records" {
			y.batches(a, b, path)
			return
		}
		a[path] = strconv.Quote(string(b))
		return
	}
	a[path] = "array"
	type element struct {
		label string
		v     reflect.Value
	}
	var all []element
	for i := range v.Len() {
		all = append(all, element{y.label(v.Index(i), i), v.Index(i)})
	}
	slices.SortStableFunc(all, func(x, y element) int { return cmp.Compare(x.label, y.label) })
	seen := map[string]int{}
	for _, e := range all {
		if seen[e.label]++; seen[e.label] > 1 {
			e.label = fmt.Sprintf("%s again %d", e.label, seen[e.label])
		}
		at := path + "[" + e.label + "]"
		if e.v.Kind() == reflect.Struct {
			a[at] = "present"
		}
		y.walk(a, key, e.v, at, "")
	}
}

// idText is what an id is known by.
func idText(v reflect.Value) string {
	if v.Kind() == reflect.Array {
		return fmt.Sprintf("%x", v.Interface())
	}
	return fmt.Sprint(v.Interface())
}

// label names an element of an array.
func (y *symbols) label(v reflect.Value, i int) string {
	var parts []string
	if v.Kind() == reflect.Struct {
		for _, name := range idents {
			f := v.FieldByName(name)
			if !f.IsValid() || name == "Source" && v.FieldByName("ReadOnly").IsValid() {
				continue // the source tells synonyms apart, not configs
			}
			for f.Kind() == reflect.Pointer && !f.IsNil() {
				f = f.Elem()
			}
			switch kind, isID := ids[name]; {
			case f.Kind() == reflect.Pointer, f.Kind() == reflect.Struct, name == "Topic" && f.IsZero():
			case isID && f.IsZero():
			case isID && name == "TopicID" && len(parts) > 0: // the name says it
			case isID && !y.given(kind, idText(f), -1):
				parts = append(parts, idText(f))
			case isID:
				parts = append(parts, y.of(kind, idText(f)))
			case f.Kind() == reflect.String:
				parts = append(parts, strings.Trim(y.text(name, f.String()), `"`))
			default:
				parts = append(parts, fmt.Sprint(f.Interface()))
			}
		}
	}
	if len(parts) == 0 {
		return fmt.Sprintf("#%d", i)
	}
	return strings.Join(parts, " ")
}

// batches tells a record set batch by batch. A batch that is cut off at the end
// is none: Kafka sends such, clients skip them. Compressed batches are compared
// by what is in them, since no two libraries make the same bytes.
func (y *symbols) batches(a answer, b []byte, path string) {
	a[path] = "records"
	for i := 0; len(b) >= 17; i++ {
		p := fmt.Sprintf("%s[batch %d]", path, i)
		size := int(int32(be32(b[8:]))) + 12
		if size > len(b) {
			return
		}
		a[p] = "present"
		if b[16] != 2 || size < 61 {
			a[p] = fmt.Sprintf("%x", b[:size])
		} else {
			y.batch(a, b[:size], p)
		}
		b = b[size:]
	}
}

func (y *symbols) batch(a answer, b []byte, path string) {
	var r kmsg.RecordBatch
	if err := r.ReadFrom(b); err != nil {
		a[path] = err.Error()
		return
	}
	set := func(name string, value any) { a[path+"."+name] = fmt.Sprint(value) }
	set("FirstOffset", r.FirstOffset)
	set("PartitionLeaderEpoch", r.PartitionLeaderEpoch)
	set("Attributes", r.Attributes)
	set("LastOffsetDelta", r.LastOffsetDelta)
	set("FirstTimestamp", y.number(r.FirstTimestamp))
	set("MaxTimestamp", y.number(r.MaxTimestamp))
	set("ProducerID", r.ProducerID)
	if r.ProducerID >= 0 {
		if id := strconv.FormatInt(r.ProducerID, 10); y.given("producer", id, int16(kmsg.Fetch)) {
			set("ProducerID", y.of("producer", id))
		}
	}
	set("ProducerEpoch", r.ProducerEpoch)
	set("FirstSequence", r.FirstSequence)
	set("NumRecords", r.NumRecords)
	set("CRC", "wrong")
	if uint32(r.CRC) == crcOf(b) {
		set("CRC", "right")
	}
	records := r.Records
	if codec := r.Attributes & 7; codec != 0 {
		plain, err := kgo.DefaultDecompressor().Decompress(records, kgo.CompressionCodecType(codec))
		if err != nil {
			set("Records", err)
			return
		}
		records = plain
	} else {
		set("Length", r.Length)
	}
	sum := fnv.New64a()
	_, _ = sum.Write(records) // it never fails
	set("Records", fmt.Sprintf("%d bytes, %x", len(records), sum.Sum64()))
	if len(records) < 200 {
		set("Records", strings.Map(func(r rune) rune {
			if unicode.IsPrint(r) {
				return r
			}
			return '·'
		}, strconv.QuoteToASCII(string(records))))
	}
}
