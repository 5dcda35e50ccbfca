package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"sawlog/consumer"
	"sawlog/consumer/admin"
	"sawlog/jobs"
	"sawlog/offsets"
)

// messagesBody is the page of a topic's records.
type messagesBody struct {
	Topic      string
	Partitions int
	Ask        messageAsk
	Quick      []choice
	Counts     []choice
	Shows      []choice
	Rows       []messageRow
	Older      string // links to the pages before and behind
	Newer      string
	Notes      []string
	Empty      string
	Lines      []string
}

// messageAsk is which records a page shows, and how.
type messageAsk struct {
	Partition string // "" = all
	From      string // a bound of the range grammar: the page begins there
	Before    int64  // the page ends there, of one partition; untold = not asked
	Older     cursor // the page ends there, of all partitions
	Newer     cursor // the page begins there, of all partitions
	Count     int
	Show      string // auto | json | text | hex
	Zone      string
}

// cursor is where the page ends or begins, of all partitions; nil = not asked.
func (a messageAsk) cursor() cursor {
	if a.Older != nil {
		return a.Older
	}
	return a.Newer
}

// messageRow is one record of the page.
type messageRow struct {
	Partition  int32
	Offset     int64
	Time       time.Time
	Ago        string
	Key, Value shown
	Headers    []headerRow
	Carried    int   // headers it has, whether they are shown or not
	Skipped    int64 // offsets before it that hold no record
	Here       string
}

// headerRow is one header of a record.
type headerRow struct {
	Key   string
	Value shown
}

// messageCounts are how many records a page may show, the first by default.
var messageCounts = []int{20, 50, 100}

// messageShows are the ways to show keys and values.
var messageShows = []string{"auto", "json", "text", "hex"}

func (k *console) messages(ctx context.Context, c consumer.Cluster, w http.ResponseWriter, r *http.Request) error {
	ask, err := messageAskOf(r.URL.Query())
	if err != nil {
		return err
	}
	found, err := admin.Topics(ctx, c, r.PathValue("topic"))
	if err != nil {
		return err
	}
	read := &messageRead{c: c, topic: &found[0], ask: ask, now: k.Now()}
	if err := read.carryOut(ctx); err != nil {
		return err
	}
	k.draw(w, r, "messages.html", page{Title: read.topic.Name + " messages", Nav: "topics", Still: true, Body: k.messagesBody(ctx, read)})
	return nil
}

// messageAskOf reads the query of a page.
func messageAskOf(query url.Values) (messageAsk, error) {
	ask := messageAsk{Partition: strings.TrimSpace(query.Get("partition")), From: strings.TrimSpace(query.Get("from")), Before: untold, Count: messageCounts[0], Show: messageShows[0], Zone: query.Get("zone")}
	wrong := func(msg, hint string) (messageAsk, error) {
		return ask, &jobs.Refusal{Kind: jobs.ErrInvalid, Msg: msg, Hint: hint}
	}
	if n, err := strconv.Atoi(query.Get("n")); err == nil && slices.Contains(messageCounts, n) {
		ask.Count = n
	}
	if show := query.Get("show"); slices.Contains(messageShows, show) {
		ask.Show = show
	}
	if _, err := strconv.ParseUint(ask.Partition, 10, 31); err != nil && ask.Partition != "" {
		return wrong("partition "+strconv.Quote(ask.Partition)+": want a number, or nothing for all", "")
	}
	if text := query.Get("before"); text != "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 || ask.Partition == "" {
			return wrong("before: want an offset of one partition", "")
		}
		ask.Before = n
	}
	var err error
	if ask.Older, err = cursorOf("older", query.Get("older")); err != nil {
		return ask, err
	}
	if ask.Newer, err = cursorOf("newer", query.Get("newer")); err != nil {
		return ask, err
	}
	if ask.cursor() != nil && (ask.Partition != "" || ask.From != "" || ask.Older != nil && ask.Newer != nil) {
		return wrong("older and newer are of all partitions, and exclude each other, partition and from", "")
	}
	if ask.From != "" {
		if _, err := boundOf(ask.From, time.Now()); err != nil {
			return wrong("from "+strconv.Quote(ask.From)+": want earliest, latest, an offset, -N or @TIME", "such as @2026-11-29T14, @-1h or -100")
		}
	}
	return ask, nil
}

// boundOf reads one bound of the range grammar.
func boundOf(text string, now time.Time) (offsets.Bound, error) {
	q, err := offsets.ParseQuery(text+".."+text, now)
	return q.Start, err
}

// query is the URL of the ask, with some of it changed.
func (a messageAsk) query(change func(*messageAsk)) string {
	change(&a)
	q := url.Values{}
	put := func(name, value, usual string) {
		if value != usual {
			q.Set(name, value)
		}
	}
	put("partition", a.Partition, "")
	put("from", a.From, "")
	if a.Before >= 0 {
		q.Set("before", strconv.FormatInt(a.Before, 10))
	}
	put("older", a.Older.String(), "")
	put("newer", a.Newer.String(), "")
	put("n", strconv.Itoa(a.Count), strconv.Itoa(messageCounts[0]))
	put("show", a.Show, messageShows[0])
	put("zone", a.Zone, "")
	return "?" + q.Encode()
}

// from is the ask from another bound on.
func (a messageAsk) from(bound string) string {
	return a.query(func(a *messageAsk) { a.From, a.Before, a.Older, a.Newer = bound, untold, nil, nil })
}

// messagesBody lays out what was read.
func (k *console) messagesBody(ctx context.Context, read *messageRead) *messagesBody {
	a := read.ask
	b := &messagesBody{Topic: read.topic.Name, Partitions: len(read.topic.Partitions), Ask: a, Notes: read.notes}
	newest := a.From == "" && a.Before < 0 && a.cursor() == nil
	b.Quick = []choice{
		{Name: "newest", Href: a.from(""), Chosen: newest},
		{Name: "oldest", Href: a.from("earliest"), Chosen: a.From == "earliest"},
		{Name: "an hour ago", Href: a.from("@-1h"), Chosen: a.From == "@-1h"},
		{Name: "a day ago", Href: a.from("@-24h"), Chosen: a.From == "@-24h"},
	}
	for _, n := range messageCounts {
		b.Counts = append(b.Counts, choice{strconv.Itoa(n), a.query(func(a *messageAsk) { a.Count = n }), n == a.Count})
	}
	for _, s := range messageShows {
		b.Shows = append(b.Shows, choice{s, a.query(func(a *messageAsk) { a.Show = s }), s == a.Show})
	}
	decode := k.decoderOf(read.topic.Name, a.Show)
	defer decode.close()
	for i := range read.records {
		b.Rows = append(b.Rows, k.messageRow(ctx, &read.records[i], a, decode))
	}
	b.page(read)
	return b
}

func (k *console) messageRow(ctx context.Context, m *message, a messageAsk, decode *valueDecoder) messageRow {
	row := messageRow{Partition: m.partition, Offset: m.offset, Skipped: m.skipped, Carried: m.carried, Key: show(m.key, a.Show), Value: decode.value(ctx, m)}
	if m.millis >= 0 {
		row.Time = time.UnixMilli(m.millis).UTC()
		row.Ago = distance(row.Time, k.Now())
	}
	for _, h := range m.headers {
		row.Headers = append(row.Headers, headerRow{nameOf(h.key), show(h.value, "auto")})
	}
	row.Here = a.query(func(a *messageAsk) {
		a.Partition, a.From, a.Before, a.Older, a.Newer = strconv.Itoa(int(m.partition)), strconv.FormatInt(m.offset, 10), untold, nil, nil
	})
	return row
}

// nameOf is the key of a header.
func nameOf(p piece) string {
	if p.size > len(p.head) {
		return printable(p.head) + "…"
	}
	return printable(p.head)
}

// page adds the links to the pages before and behind, the command line of the
// same records, and what an empty page says.
func (b *messagesBody) page(read *messageRead) {
	a, name := b.Ask, shell(b.Topic)
	if read.hasOlder {
		b.Older = a.query(func(a *messageAsk) { a.From, a.Older, a.Newer = "", read.older, nil })
	}
	if read.hasNewer {
		b.Newer = a.query(func(a *messageAsk) { a.From, a.Older, a.Newer = "", nil, read.newer })
	}
	if w := read.window; a.Partition != "" {
		if w.From > w.Start {
			b.Older = a.query(func(a *messageAsk) { a.Before, a.From = w.From, "" })
		}
		if w.To < w.End {
			b.Newer = a.from(strconv.FormatInt(w.To, 10))
		}
		if w.From < w.To {
			b.Lines = append(b.Lines, "sawlog consume "+name+" --range "+shell(a.Partition+"="+strconv.FormatInt(w.From, 10)+".."+strconv.FormatInt(w.To, 10)))
		}
	} else if a.cursor() != nil {
		b.Lines = read.ranges(name)
	} else {
		b.Lines = append(b.Lines, "sawlog consume "+name+" --range "+shell(cmp.Or(a.From, "-"+strconv.Itoa(a.Count))+"..latest")+" -n "+strconv.Itoa(a.Count))
	}
	if len(b.Rows) > 0 {
		return
	}
	switch {
	case read.everything == 0:
		b.Empty = "No record is in the log of " + b.Topic + ". Send some: sawlog produce " + name + " FILE"
	case read.everything < 0:
		b.Empty = "Nothing could be read of " + b.Topic + "."
	default:
		b.Empty = "No record stands there. The log holds " + count(read.everything) + " offsets: look at the newest or the oldest."
	}
}

// messageRead reads the records of one page.
type messageRead struct {
	c          consumer.Cluster
	topic      *admin.Topic
	ask        messageAsk
	now        time.Time
	records    []message
	window     window // of one partition
	everything int64  // offsets in the logs that were asked
	notes      []string

	older, newer       cursor // where the pages before and behind end and begin, of all partitions
	hasOlder, hasNewer bool
}

// partitionsRead is how many partitions a page reads when none is chosen: where each
// of them goes on stands in the links to the pages before and behind, which proxies
// take up to 8 KiB of.
const partitionsRead = 256

// carryOut reads the page's records; what can't be read becomes a note.
func (m *messageRead) carryOut(ctx context.Context) error {
	ps := admin.PartitionsOf([]admin.Topic{*m.topic})
	if m.ask.Partition != "" {
		i := slices.IndexFunc(ps, func(p *admin.Partition) bool { return strconv.Itoa(int(p.Index)) == m.ask.Partition })
		if i < 0 {
			return unknownTopic("topic "+m.topic.Name+" has no partition "+m.ask.Partition, "it has "+strconv.Itoa(len(ps)))
		}
		ps = ps[i : i+1]
	}
	m.note(measure(ctx, m.c, ps))
	m.leaderless(ps)
	asked := ps
	ps = slices.DeleteFunc(slices.Clone(ps), func(p *admin.Partition) bool { return p.Records() < 0 })
	for _, p := range ps {
		m.everything += p.Records()
	}
	if len(ps) == 0 && len(asked) > 0 {
		m.everything = untold
		return nil
	}
	if at := m.ask.cursor(); at != nil {
		others := 0 // that have records: they were one too many, or had none when the walk began
		ps = slices.DeleteFunc(ps, func(p *admin.Partition) bool {
			_, named := at[p.Index]
			if !named && p.Records() > 0 {
				others++
			}
			return !named
		})
		if others > 0 {
			m.notes = append(m.notes, "records of "+plural(len(ps), "partition")+", not of "+count(others)+" more that have some: choose one to see it, or begin anew")
		}
	} else if len(ps) > partitionsRead {
		ps = slices.DeleteFunc(ps, func(p *admin.Partition) bool { return p.Records() == 0 })
	}
	if len(ps) > partitionsRead {
		m.notes = append(m.notes, "records of the first "+strconv.Itoa(partitionsRead)+" of "+count(len(ps))+" partitions: choose one to see another")
		ps = ps[:partitionsRead]
	}
	backward, starts, err := m.starts(ctx, ps)
	m.note(err)
	parts := m.readAll(ctx, ps, starts, backward)
	for i, w := range parts {
		if w.err != nil {
			m.note(errors.Join(w.err))
		}
		if w.large {
			m.notes = append(m.notes, "partition "+strconv.Itoa(int(ps[i].Index))+" has large records: the page holds "+count(len(w.records))+" of it")
		}
		if w.window.Start > starts[i] && !backward {
			m.notes = append(m.notes, "partition "+strconv.Itoa(int(ps[i].Index))+" begins at offset "+count(w.window.Start)+": what was before it is deleted")
		}
	}
	if len(ps) > 0 {
		m.merge(ps, parts, starts, backward)
	}
	return nil
}

// linesOfRanges bounds the command lines of a page of all partitions: a line has
// one of them.
const linesOfRanges = 8

// ranges are the command lines of what the page shows of each partition; none where
// they were too many.
func (m *messageRead) ranges(topic string) (lines []string) {
	shown := map[int32][2]int64{}
	for i := range m.records {
		r := &m.records[i]
		at, there := shown[r.partition]
		if !there {
			at = [2]int64{r.offset, r.offset + 1}
		}
		shown[r.partition] = [2]int64{min(at[0], r.offset), max(at[1], r.offset+1)}
	}
	if len(shown) > linesOfRanges {
		return nil
	}
	for _, p := range slices.Sorted(maps.Keys(shown)) {
		lines = append(lines, "sawlog consume "+topic+" --range "+shell(fmt.Sprintf("%d=%d..%d", p, shown[p][0], shown[p][1])))
	}
	return lines
}

// leaderless tells of partitions that nothing can be read of.
func (m *messageRead) leaderless(ps []*admin.Partition) {
	var without []int32
	for _, p := range ps {
		if p.Leader < 0 {
			without = append(without, p.Index)
		}
	}
	if len(without) > 0 {
		m.notes = append(m.notes, "no leader is in service for "+plural(len(without), "partition")+": "+joinIDs(without[:min(len(without), 20)]))
	}
}

func (m *messageRead) note(err error) {
	if err == nil {
		return
	}
	text := err.Error()
	if errors.Is(err, context.DeadlineExceeded) {
		text = "not all came within " + span(patience)
	}
	if !slices.Contains(m.notes, text) {
		m.notes = append(m.notes, text)
	}
}

// starts says for each partition where reading begins, forward, or ends.
func (m *messageRead) starts(ctx context.Context, ps []*admin.Partition) (backward bool, at []int64, err error) {
	at = make([]int64, len(ps))
	bound := offsets.Bound{Kind: offsets.Latest}
	if m.ask.From != "" {
		bound, _ = boundOf(m.ask.From, m.now) // it was read before
	}
	backward = bound.Kind == offsets.Latest && m.ask.Newer == nil
	if bound.Kind == offsets.AtTime {
		err = findAt(ctx, m.c, ps, bound.Time.UnixMilli())
		young := slices.ContainsFunc(ps, func(p *admin.Partition) bool { return p.Found >= 0 })
		if !young && err == nil {
			m.notes = append(m.notes, "no record is as young as "+bound.Time.UTC().Format(time.RFC3339))
		}
	}
	for i, p := range ps {
		at[i] = min(p.At(bound), p.End)
		if backward && m.ask.Before >= 0 {
			at[i] = min(m.ask.Before, p.End)
		}
		if from, named := m.ask.cursor()[p.Index]; named {
			at[i] = min(from, p.End)
		}
	}
	return backward, at, err
}
