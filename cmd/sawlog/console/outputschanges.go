package console

import (
	"net/http"
	"strconv"
	"time"

	"sawlog/loader"
)

// changesBody is the page of the records of a data set's ledger, newest first.
type changesBody struct {
	*dataset
	Rows  []recordRow
	Pager pager
	One   *recordBody // the record that was chosen
	Lines []string
}

// recordRow is one record of a ledger.
type recordRow struct {
	loader.RecordRef
	When   time.Time
	Href   string
	Chosen bool
}

// recordBody is what a record says.
type recordBody struct {
	*loader.Record
	Files   []loader.File
	More    int // files that are not shown
	Retires []string
	Gone    int // retired files that are not shown
	Sealed  []time.Time
	Error   string
}

// filesOfRecord bounds the files a page lists of one record.
const filesOfRecord = 200

func (k *console) outputChanges(w http.ResponseWriter, r *http.Request) {
	d, _, done, _, err := k.of(r)
	defer done()
	if err != nil {
		k.refuse(w, "outputs", err)
		return
	}
	query, refs := r.URL.Query(), d.fold.Records
	body := changesBody{dataset: d, Lines: []string{"sawlog out changes " + shell(d.Dataset) + " -o jsonl"}}
	body.Pager = pages(r, len(refs), perPage)
	chosen := numberOr(query.Get("record"), untold)
	for i := body.Pager.From; i < body.Pager.To; i++ {
		ref := refs[len(refs)-1-i]
		body.Rows = append(body.Rows, recordRow{
			RecordRef: ref, When: time.UnixMilli(ref.At).UTC(), Chosen: ref.Number == chosen,
			Href: "?" + keep(query, "record", strconv.FormatInt(ref.Number, 10)) + "#record",
		})
	}
	if chosen >= 0 && chosen <= d.fold.Head {
		body.One = d.record(chosen)
	}
	k.draw(w, r, "outputchanges.html", page{Title: "Changes of " + d.Dataset, Nav: "outputs", Watch: d.Job, Body: body})
}

// record reads one record of the ledger.
func (d *dataset) record(n int64) *recordBody {
	rec, err := d.ledger.Record(n)
	if err != nil {
		return &recordBody{Record: &loader.Record{Number: n}, Error: err.Error()}
	}
	b := &recordBody{Record: rec, Files: rec.Files, Retires: rec.Retires}
	b.More, b.Gone = max(0, len(rec.Files)-filesOfRecord), max(0, len(rec.Retires)-filesOfRecord)
	b.Files, b.Retires = b.Files[:len(b.Files)-b.More], b.Retires[:len(b.Retires)-b.Gone]
	for _, hour := range rec.Sealed {
		b.Sealed = append(b.Sealed, time.Unix(hour, 0).UTC())
	}
	return b
}
