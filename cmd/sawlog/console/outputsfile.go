package console

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"sawlog/jobs"
	"sawlog/loader"
	"sawlog/offsets"
)

// hourFilesBody is the page of the files of an hour, or of the quarantine.
type hourFilesBody struct {
	*dataset
	Quarantine bool
	Hour       hourRow
	Folders    []folder
	Files      []fileRow
	Pager      pager
	Sum        sum
	Rows       *rowsTable // the first rows
	Trouble    string
	Lines      []string
}

// folder is a folder of an hour and what its manifest says.
type folder struct {
	Path     string
	Manifest string // which ledger record it is as of; "" = there is none
	Success  bool   // the manifest says that the hour is sealed
}

// fileRow is one file of a data set.
type fileRow struct {
	*loader.Visible
	Base string
	Href string
}

// rowsTable is some rows of a file.
type rowsTable struct {
	From    int64
	Columns []string
	Hidden  int // columns that are not shown
	Rows    []rowLine
	Error   string
}

// rowLine is one row.
type rowLine struct {
	Number int64
	Cells  []cell
	Chosen bool
}

// cell is one value of a row, as JSON.
type cell struct{ Text, Whole string }

// Limits of a table of rows.
const (
	firstRows   = 10
	fileRows    = 50
	rowColumns  = 40
	cellBytes   = 120
	wholeBytes  = 2000
	filesListed = 100
)

func (k *console) outputHour(w http.ResponseWriter, r *http.Request) {
	d, ctx, done, z, err := k.of(r)
	defer done()
	if err != nil {
		k.refuse(w, "outputs", err)
		return
	}
	query := r.URL.Query()
	body := hourFilesBody{dataset: d, Quarantine: query.Get("quarantine") == "1"}
	key, err := strconv.ParseInt(query.Get("at"), 10, 64)
	if err != nil && !body.Quarantine {
		k.refuse(w, "outputs", &jobs.Refusal{Kind: jobs.ErrInvalid, Msg: "at: want the start of an hour in seconds", Hint: "the page of the data set lists its hours"})
		return
	}
	title := "Quarantine"
	if !body.Quarantine {
		states := d.fold.HourStates(key, key+1)
		if len(states) == 0 {
			k.refuse(w, "outputs", &jobs.Refusal{Kind: jobs.ErrNotFound, Msg: "data set " + d.Dataset + " has no hour " + loader.HourText(key), Hint: "the page of the data set lists those it has"})
			return
		}
		body.Hour = d.hour(states[0])
		title = z.Minute(body.Hour.At)
	}
	body.files(r, key)
	body.manifests()
	if len(body.Files) > 0 {
		body.Rows = d.rows(ctx, body.Files[0].Visible, 0, firstRows)
	}
	name := shell(d.Dataset)
	which := " --quarantine"
	if !body.Quarantine {
		which = " --hour " + loader.HourText(key)
		body.Lines = append(body.Lines, "sawlog out manifest "+name+which)
	}
	body.Lines = append(body.Lines, "sawlog out ls "+name+which, "sawlog out head "+name+which)
	k.draw(w, r, "outputhour.html", page{Title: title + " · " + d.Dataset, Nav: "outputs", Watch: d.Job, Body: body})
}

// files lists the files of the hour, or those in quarantine.
func (b *hourFilesBody) files(r *http.Request, key int64) {
	var picked []*loader.Visible
	for _, f := range b.fold.Files {
		if f.Hour == nil && b.Quarantine || f.Hour != nil && !b.Quarantine && *f.Hour == key {
			picked = append(picked, f)
			b.Sum.add(f.Rows, f.Late, f.Bytes)
		}
	}
	slices.SortFunc(picked, func(a, b *loader.Visible) int { return strings.Compare(a.Path, b.Path) })
	b.Pager = pages(r, len(picked), filesListed)
	for _, f := range picked[b.Pager.From:b.Pager.To] {
		b.Files = append(b.Files, b.file(f))
	}
}

func (d *dataset) file(f *loader.Visible) fileRow {
	return fileRow{Visible: f, Base: path.Base(f.Path), Href: d.href("/file", "path", f.Path)}
}

// manifests reads what the folders of the hour say.
func (b *hourFilesBody) manifests() {
	if b.Quarantine || b.ledger == nil {
		return
	}
	for _, dir := range b.fold.Hours[b.Hour.Key].Dirs {
		f := folder{Path: dir}
		m, err := b.ledger.ReadManifest(dir)
		switch {
		case err == nil:
			f.Manifest, f.Success = strconv.FormatInt(m.Number, 10), m.Sealed != nil
		case loader.ExitCode(err) != loader.ExitNotFound:
			b.Trouble = err.Error()
		}
		b.Folders = append(b.Folders, f)
	}
}

// rows reads some rows of a file; what goes wrong stands in the table.
func (d *dataset) rows(ctx context.Context, file *loader.Visible, from, n int64) *rowsTable {
	t := &rowsTable{From: from}
	err := d.read(file, func(r loader.RowReader) error {
		t.Columns = r.Columns()
		t.Hidden = max(0, len(t.Columns)-rowColumns)
		t.Columns = t.Columns[:len(t.Columns)-t.Hidden]
		return r.Read(t.Columns, from, n, func(row [][]byte) error {
			line := rowLine{Number: from + int64(len(t.Rows))}
			for i, value := range row {
				if file.Hour == nil {
					value = rawOf(t.Columns[i], value)
				}
				line.Cells = append(line.Cells, cellOf(value))
			}
			t.Rows = append(t.Rows, line)
			return ctx.Err()
		})
	})
	t.Error = say(err)
	return t
}

// rawOf is the key or value of a record in quarantine as it was sent, where that is
// text: files and the command line have the bytes in base64.
func rawOf(column string, value []byte) []byte {
	if column != "key" && column != "value" || len(value) < 2 {
		return value
	}
	raw, err := base64.StdEncoding.AppendDecode(nil, value[1:len(value)-1])
	if err != nil || !legible(raw, true) {
		return value
	}
	return raw
}

// read opens a file for a moment.
func (d *dataset) read(file *loader.Visible, do func(loader.RowReader) error) error {
	f, err := d.ledger.Sink().Open(file.Path)
	if err != nil {
		return err
	}
	r, err := loader.OpenRows(f, f.Size(), &file.File)
	if err == nil {
		err = do(r)
	}
	return errors.Join(err, f.Close())
}

func cellOf(value []byte) cell {
	text := printable([]byte(cut(string(value), cellBytes)))
	if len(value) <= cellBytes {
		return cell{Text: text}
	}
	return cell{Text: text + "…", Whole: printable([]byte(cut(string(value), wholeBytes)))}
}

// fileBody is the page of one file.
type fileBody struct {
	*dataset
	fileRow
	At       time.Time // the hour; zero = quarantine
	HourHref string
	Parts    []string // ranges it was made of
	Table    *rowsTable
	Row      int64 // the row that was looked for; untold = none
	Prev     string
	Next     string
	Lines    []string
}

func (k *console) outputFile(w http.ResponseWriter, r *http.Request) {
	d, ctx, done, _, err := k.of(r)
	defer done()
	if err != nil {
		k.refuse(w, "outputs", err)
		return
	}
	query := r.URL.Query()
	file := d.fold.Files[query.Get("path")]
	if file == nil {
		hint := "a rewrite or a drop may have retired it: the changes of the data set tell"
		k.refuse(w, "outputs", &jobs.Refusal{Kind: jobs.ErrNotFound, Msg: "data set " + d.Dataset + " has no visible file " + strconv.Quote(query.Get("path")), Hint: hint})
		return
	}
	body := fileBody{dataset: d, fileRow: d.file(file), Row: numberOr(query.Get("row"), untold), HourHref: d.href("/hour", "quarantine", "1")}
	if file.Hour != nil {
		body.At = time.Unix(*file.Hour, 0).UTC()
		body.HourHref = d.href("/hour", "at", strconv.FormatInt(*file.Hour, 10))
	}
	for _, part := range file.Parts {
		body.Parts = append(body.Parts, part.Topic+"/"+strconv.Itoa(int(part.Partition))+" "+part.Range.String())
	}
	from := numberOr(query.Get("from"), max(0, body.Row-5))
	from = min(max(0, from), max(0, file.Rows-1))
	body.Table = d.rows(ctx, file, from, fileRows)
	for i := range body.Table.Rows {
		body.Table.Rows[i].Chosen = body.Table.Rows[i].Number == body.Row
	}
	if from > 0 {
		body.Prev = "?" + keep(query, "from", strconv.FormatInt(max(0, from-fileRows), 10))
	}
	if next := from + fileRows; next < file.Rows {
		body.Next = "?" + keep(query, "from", strconv.FormatInt(next, 10))
	}
	body.Lines = []string{"sawlog out ls " + shell(d.Dataset), "sawlog verify " + shell(file.Run)}
	k.draw(w, r, "outputfile.html", page{Title: body.Base, Nav: "outputs", Still: true, Body: body})
}

// numberOr reads a number that is not below 0.
func numberOr(text string, fallback int64) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return fallback
	}
	return n
}

// foundBody is the page that says where a record went.
type foundBody struct {
	*dataset
	Where string
	Says  string
	Lines []string
}

func (k *console) outputFind(w http.ResponseWriter, r *http.Request) {
	d, ctx, done, _, err := k.of(r)
	defer done()
	if err != nil {
		k.refuse(w, "outputs", err)
		return
	}
	where := strings.TrimSpace(r.URL.Query().Get("where"))
	of, at, err := offsets.ParsePosition(where)
	if err != nil {
		k.refuse(w, "outputs", &jobs.Refusal{Kind: jobs.ErrInvalid, Msg: err.Error()})
		return
	}
	body := foundBody{dataset: d, Where: where, Lines: []string{"sawlog out find " + shell(d.Dataset) + " " + shell(where)}}
	if !d.fold.Covers(of.Topic, of.Partition, at) {
		body.Says = "It is not loaded: the page of the data set says how far each partition is."
		k.draw(w, r, "outputfind.html", page{Title: "Find " + where, Nav: "outputs", Body: body})
		return
	}
	for _, f := range d.fold.HoldersOf(of.Topic, of.Partition, at) {
		row := int64(untold)
		if err := d.read(f, func(rows loader.RowReader) (err error) {
			row, err = loader.RowOf(ctx, rows, of.Partition, at)
			return err
		}); err != nil {
			k.refuse(w, "outputs", err)
			return
		}
		if row >= 0 {
			http.Redirect(w, r, d.href("/file", "path", f.Path, "row", strconv.FormatInt(row, 10)), http.StatusSeeOther)
			return
		}
	}
	body.Says = "It " + loader.NoRow + "."
	k.draw(w, r, "outputfind.html", page{Title: "Find " + where, Nav: "outputs", Body: body})
}
