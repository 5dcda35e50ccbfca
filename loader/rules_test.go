package loader

import (
	"errors"
	"strings"
	"testing"

	"sawlog/formats"
	"sawlog/offsets"
)

const planA, planB = "aaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbb"

func hourPtr(n int64) *int64 { h := hourZero + n*3600; return &h }

func fakeFile(planID, final string, hour *int64, rows int64) File {
	return File{
		Stage: AttemptDir(planID, 0, "x") + "/" + strings.ReplaceAll(final, "/", "+") + StageSuffix,
		Path:  final, Hour: hour, Bytes: 10 * rows, SHA256: sum([]byte(final)), Digest: "d" + final, Rows: rows,
	}
}

// loadRecord is a good first record: 10 offsets of partition 0, 8 rows in two
// hours, 2 bad records.
func loadRecord() *Record {
	return &Record{
		V: 1, Number: 0, Nonce: "n", Dataset: "views", Job: "views-hourly", Run: "run-1", Kind: Load, Plan: planA,
		Base: -1, Published: -1, Schema: fakeSchema(),
		Inputs: []Input{{
			Cluster: fakeCluster, TopicID: fakeTopic, Topic: "views", Range: offsets.Range{Start: 0, End: 10},
			Account: Account{Data: 8, Quarantined: 2}, Watermark: (hourZero + 7000) * 1e6,
		}},
		Files: []File{
			fakeFile(planA, "h0/a.parquet", hourPtr(0), 5), fakeFile(planA, "h1/a.parquet", hourPtr(1), 3),
			fakeFile(planA, QuarantinePath(planA, 0), nil, 2),
		},
		Sealed: []int64{*hourPtr(0)},
	}
}

// nextRecord is a good second record after loadRecord.
func nextRecord() *Record {
	rec := loadRecord()
	rec.Number, rec.Prev, rec.Published, rec.Base, rec.Run, rec.Plan = 1, "hash-0", 0, 0, "run-2", planB
	rec.Inputs[0].Range = offsets.Range{Start: 10, End: 20}
	rec.Files = []File{
		fakeFile(planB, "h0/b.parquet", hourPtr(0), 1), fakeFile(planB, "h1/b.parquet", hourPtr(1), 7),
		fakeFile(planB, QuarantinePath(planB, 0), nil, 2),
	}
	rec.Files[0].Late = 1
	rec.Sealed = []int64{*hourPtr(1)}
	return rec
}

func applied(t *testing.T, records ...*Record) *Fold {
	t.Helper()
	f := NewFold()
	for i, rec := range records {
		if err := f.Apply(rec, "hash-"+string(rune('0'+i))); err != nil {
			t.Fatalf("record %d: %v", i, err)
		}
	}
	return f
}

func TestFold(t *testing.T) {
	f := applied(t, loadRecord(), nextRecord())
	key := PartitionKey{fakeCluster, fakeTopic, 0}
	if p := f.Partitions[key]; p.Start != 0 || p.Next() != 20 || len(p.Covered) != 1 || p.Topic != "views" {
		t.Errorf("partition %+v", p)
	}
	if h := f.Hours[*hourPtr(0)]; h.Rows != 6 || h.Late != 1 || h.Files != 2 || h.Bytes != 60 || h.Sealed != 0 || h.LastTouched() != 1 {
		t.Errorf("hour 0: %+v", h)
	}
	if h := f.Hours[*hourPtr(1)]; h.Rows != 10 || h.Sealed != 1 || len(h.Touched) != 2 || len(h.Dirs) != 1 {
		t.Errorf("hour 1: %+v", h)
	}
	if ref := f.Records[1]; ref.Rows != 8 || ref.Quarantined != 2 || ref.Files != 3 || ref.Run != "run-2" {
		t.Errorf("ref %+v", ref)
	}
	if len(f.Files) != 6 || f.Plans[planB] != (PlanMark{PlanCommitted, 1}) {
		t.Errorf("%d files, plans %v", len(f.Files), f.Plans)
	}
	states := f.HourStates(0, 0)
	if len(states) != 2 || states[0].State != HourLate || states[1].State != HourSealed || states[0].Hour != "2025-11-29T00:00:00Z" {
		t.Errorf("hours %+v", states)
	}
}

// TestRules breaks each rule once.
func TestRules(t *testing.T) {
	supersede := func(rec *Record) {
		rec.Kind, rec.Retires = Supersede, []string{"h0/a.parquet", "h1/a.parquet", QuarantinePath(planA, 0)}
		rec.Inputs[0].Range = offsets.Range{Start: 0, End: 10}
		rec.Files[0].Late, rec.Sealed = 0, nil
	}
	amend := func(rec *Record) {
		rec.Kind, rec.Plan, rec.Profile, rec.Inputs, rec.Sealed, rec.Schema = Amend, planA, 2, nil, nil, nil
		rec.Files = loadRecord().Files[:1]
		rec.Files[0].SHA256 = sum([]byte("new bytes"))
	}
	abandon := func(rec *Record) {
		rec.Kind, rec.Files, rec.Inputs, rec.Sealed, rec.Schema = Abandon, nil, nil, nil, nil
	}
	seal := func(rec *Record) {
		rec.Kind, rec.Files, rec.Schema, rec.Inputs = Seal, nil, nil, nil
	}
	for name, c := range map[string]struct {
		change func(rec *Record)
		rule   string // "" = it is fine
		want   string
	}{
		"good":              {func(*Record) {}, "", ""},
		"version":           {func(r *Record) { r.V = 2 }, "form", "version 2"},
		"a hole":            {func(r *Record) { r.Number, r.Published, r.Base = 2, 1, 1 }, "chain", "follows record 0"},
		"wrong prev":        {func(r *Record) { r.Prev = "other" }, "chain", `prev is "other"`},
		"not published":     {func(r *Record) { r.Published = -1 }, "L2", "published is -1"},
		"base after":        {func(r *Record) { r.Base = 1 }, "chain", "base 1"},
		"another data set":  {func(r *Record) { r.Dataset = "clicks" }, "form", "clicks"},
		"another job":       {func(r *Record) { r.Job = "x" }, "form", "views-hourly"},
		"a new kind":        {func(r *Record) { r.Kind = "merge" }, "form", `kind "merge"`},
		"no inputs":         {func(r *Record) { r.Inputs = nil }, "count", "without inputs"},
		"overlap":           {func(r *Record) { r.Inputs[0].Range = offsets.Range{Start: 9, End: 19} }, "L1", "9..19"},
		"counted twice":     {func(r *Record) { r.Inputs = append(r.Inputs, r.Inputs[0]) }, "L1", "counted twice"},
		"does not add up":   {func(r *Record) { r.Inputs[0].Gap = 1 }, "count", "11 of 10"},
		"negative":          {func(r *Record) { r.Inputs[0].Gap, r.Inputs[0].Control = 1, -1 }, "count", "10 of 10"},
		"gap of nobody":     {func(r *Record) { r.Inputs[0].Gap, r.Inputs[0].Range.End = 1, 21 }, "L9", "1 offsets are gone"},
		"gap of somebody":   {func(r *Record) { r.Inputs[0].Gap, r.Inputs[0].Range.End, r.Why = 1, 21, "an outage" }, "", ""},
		"rows":              {func(r *Record) { r.Files[1].Rows = 8 }, "count", "9 rows, its inputs 8"},
		"bad records":       {func(r *Record) { r.Files[2].Rows = 1 }, "count", "1 records, its inputs 2"},
		"same plan":         {func(r *Record) { r.Plan = planA }, "L1", "was committed by record 0"},
		"no plan":           {func(r *Record) { r.Plan = "" }, "form", "plan id"},
		"visible path":      {func(r *Record) { r.Files[0].Path = "h0/a.parquet" }, "L1", "visible since record 0"},
		"path twice":        {func(r *Record) { r.Files[0].Path = "h1/b.parquet" }, "L1", "twice"},
		"path outside":      {func(r *Record) { r.Files[0].Path = "../b.parquet" }, "form", "leaves"},
		"path in system":    {func(r *Record) { r.Files[0].Path = "_sawlog/ledger/b.parquet" }, "form", "no place"},
		"hour of the bad":   {func(r *Record) { r.Files[2].Hour = hourPtr(0) }, "form", "quarantine"},
		"no hour":           {func(r *Record) { r.Files[0].Hour = nil }, "form", "quarantine"},
		"stage elsewhere":   {func(r *Record) { r.Files[0].Stage = "h0/b.part" }, "form", "stage"},
		"hash":              {func(r *Record) { r.Files[0].SHA256 = "abc" }, "form", "sha256"},
		"empty file":        {func(r *Record) { r.Files[0].Bytes = 0 }, "form", "0 bytes"},
		"late not counted":  {func(r *Record) { r.Files[0].Late = 0 }, "count", "0 late rows, want 1"},
		"late too early":    {func(r *Record) { r.Base = -1 }, "count", "1 late rows, want 0"},
		"sealed twice":      {func(r *Record) { r.Sealed = []int64{*hourPtr(0)} }, "L6", "sealed by record 0"},
		"seals unordered":   {func(r *Record) { r.Sealed = []int64{*hourPtr(2), *hourPtr(1)} }, "form", "order"},
		"no schema":         {func(r *Record) { r.Schema = nil }, "schema", "none"},
		"column gone":       {func(r *Record) { r.Schema.Fields = r.Schema.Fields[:2] }, "schema", "column id is gone"},
		"column moved":      {func(r *Record) { f := r.Schema.Fields; f[0], f[1] = f[1], f[0] }, "schema", "column 0 is _offset"},
		"column changed":    {func(r *Record) { r.Schema.Fields[2].Type = &formats.Type{Kind: formats.Bool} }, "schema", "int64"},
		"column twin":       {func(r *Record) { r.Schema = fakeSchema("ID") }, "schema", "only in case"},
		"column from":       {func(r *Record) { r.Schema.Fields[2].From = []string{"x"} }, "schema", "comes from"},
		"new column":        {func(r *Record) { r.Schema = fakeSchema("b") }, "", ""},
		"load retires":      {func(r *Record) { r.Retires = []string{"h0/a.parquet"} }, "L4", "retires nothing"},
		"list not read":     {func(r *Record) { r.FilesRef, r.Files = "x", nil }, "form", "was not read"},
		"supersede":         {supersede, "", ""},
		"supersede of part": {func(r *Record) { supersede(r); r.Retires = r.Retires[1:] }, "L8", "h0/a.parquet stays"},
		"supersede of new":  {func(r *Record) { supersede(r); r.Inputs[0].Range = offsets.Range{Start: 5, End: 15} }, "L8", "not loaded before"},
		"retires unknown":   {func(r *Record) { supersede(r); r.Retires[0] = "h9/x" }, "L3", "h9/x, which is not visible"},
		"retires twice":     {func(r *Record) { supersede(r); r.Retires[1] = r.Retires[0] }, "L3", "not visible"},
		"amend":             {amend, "", ""},
		"amend other rows":  {func(r *Record) { amend(r); r.Files[0].Digest = "other" }, "L7", "it holds 5"},
		"amend no profile":  {func(r *Record) { amend(r); r.Profile = 0 }, "form", "profile"},
		"amend unknown":     {func(r *Record) { amend(r); r.Files[0].Path = "h0/z.parquet" }, "L7", "not visible"},
		"abandon":           {abandon, "", ""},
		"abandon committed": {func(r *Record) { abandon(r); r.Plan = planA }, "L5", "was committed by record 0"},
		"abandon with data": {func(r *Record) { abandon(r); r.Files = loadRecord().Files }, "form", "changes nothing"},
		"seal":              {seal, "", ""},
		"seal with data":    {func(r *Record) { seal(r); r.Inputs = loadRecord().Inputs }, "form", "loads nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			f := applied(t, loadRecord())
			before := mustEncode(t, f)
			rec := nextRecord()
			c.change(rec)
			err := f.Apply(rec, "hash-1")
			if c.rule == "" {
				if err != nil || f.Head != 1 {
					t.Fatalf("refused: %v", err)
				}
				return
			}
			var broken *RecordError
			if !errors.As(err, &broken) || broken.Rule != c.rule || broken.Number != rec.Number || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("error %v, want rule %s of record %d: %s", err, c.rule, rec.Number, c.want)
			}
			if !strings.Contains(err.Error(), RecordPath(rec.Number)) {
				t.Errorf("error %v does not name the file", err)
			}
			if after := mustEncode(t, f); after != before {
				t.Errorf("a refused record changed the fold:\n%s\nwas\n%s", after, before)
			}
		})
	}
}

func TestRetiredStaysRetired(t *testing.T) {
	second := nextRecord()
	second.Kind, second.Retires = Supersede, []string{"h0/a.parquet", "h1/a.parquet", QuarantinePath(planA, 0)}
	second.Inputs[0].Range = offsets.Range{Start: 0, End: 10}
	second.Files[0].Late, second.Sealed = 0, nil
	f := applied(t, loadRecord(), second)
	if len(f.Files) != 3 || f.Hours[*hourPtr(0)].Rows != 1 || f.Retired["h0/a.parquet"].Number != 1 {
		t.Errorf("fold: %d files, hour %+v, retired %v", len(f.Files), f.Hours[*hourPtr(0)], f.Retired)
	}
	third := nextRecord()
	third.Number, third.Prev, third.Published, third.Plan = 2, "hash-1", 1, "cccccccccccccccc"
	third.Files[0].Path = "h0/a.parquet"
	var broken *RecordError
	if err := f.Apply(third, "hash-2"); !errors.As(err, &broken) || broken.Rule != "L3" {
		t.Errorf("a retired path came back: %v", err)
	}
}

func TestFate(t *testing.T) {
	f := applied(t, loadRecord())
	p := fakePlan(f, span{0, 10, 20})
	id := PlanID(p)
	if s := f.Fate(id, p, ""); s != PlanOpen {
		t.Errorf("a new plan is %s", s)
	}
	if s := f.Fate(id, p, planB); s != PlanReplaced {
		t.Errorf("a revised plan is %s", s)
	}
	if s := f.Fate(planA, nil, ""); s != PlanCommitted {
		t.Errorf("a committed plan is %s", s)
	}
	if s := f.Fate(id, fakePlan(f, span{1, 0, 5}, span{0, 9, 12}), ""); s != PlanDead {
		t.Errorf("a plan of loaded offsets is %s", s)
	}
	again := fakePlan(f, span{0, 0, 10})
	again.Kind, again.Retires = Supersede, []string{"h0/a.parquet", "h1/a.parquet", QuarantinePath(planA, 0)}
	if s := f.Fate(id, again, ""); s != PlanOpen {
		t.Errorf("a superseding plan is %s", s)
	}
	again.Retires = again.Retires[1:]
	if s := f.Fate(id, again, ""); s != PlanDead {
		t.Errorf("a plan that retires a part of a split is %s", s)
	}
	again.Retires = []string{"h0/z.parquet"}
	if s := f.Fate(id, again, ""); s != PlanDead {
		t.Errorf("a plan that retires what is gone is %s", s)
	}
}

func TestCheckStart(t *testing.T) {
	f := applied(t, loadRecord())
	key := PartitionKey{fakeCluster, fakeTopic, 0}
	for _, c := range []struct {
		start offsets.Offset
		gap   bool
		hint  string // "" = fine
	}{
		{10, false, ""},
		{5, false, "--only all"},
		{5, true, "--only all"},
		{12, false, "--accept-gap"},
		{12, true, ""},
	} {
		err := f.CheckStart(key, "views", c.start, c.gap)
		var e *Error
		switch {
		case c.hint == "" && err != nil:
			t.Errorf("start %d: %v", c.start, err)
		case c.hint != "" && (!errors.As(err, &e) || e.Code != ExitConflict || !strings.Contains(e.Hint, c.hint)):
			t.Errorf("start %d: %v, want exit 4 with hint %s", c.start, err, c.hint)
		}
	}
	key.Partition = 7
	if err := f.CheckStart(key, "views", 1000, false); err != nil {
		t.Errorf("a new partition: %v", err)
	}
}

func TestExtendSchema(t *testing.T) {
	parse := func(text string) *formats.Schema {
		typ, err := formats.ParseType(text)
		if err != nil {
			t.Fatal(err)
		}
		return &formats.Schema{Fields: typ.Fields}
	}
	for _, c := range []struct{ have, with, want, err string }{
		{"struct<a:int64>", "struct<a:int64>", "struct<a:int64>", ""},
		{"struct<a:int64>", "struct<a:int64,b:string>", "struct<a:int64,b:string>", ""},
		{"struct<a:int64,x:bool>", "struct<a:int64,b:string>", "struct<a:int64,x:bool,b:string>", ""},
		{"struct<a:int64,b:string>", "struct<a:int64>", "struct<a:int64,b:string>", ""},
		{"struct<s:struct<a:int64>>", "struct<s:struct<b:bool>>", "struct<s:struct<a:int64,b:bool>>", ""},
		{"struct<l:list<struct<a:int64>>>", "struct<l:list<struct<b:bool>>>", "struct<l:list<struct<a:int64,b:bool>>>", ""},
		{"struct<a:int64>", "struct<a:string>", "", "column a is int64 in the data set and string here"},
		{"struct<s:struct<a:int64>>", "struct<s:struct<a:bool>>", "", "column s.a is int64"},
		{"struct<l:list<int64>>", "struct<l:list<bool>>", "", "column l is int64"},
		{"struct<d:decimal(10,2)>", "struct<d:decimal(12,2)>", "", "column d is decimal(10,2)"},
		{"struct<a:int64>", "struct<A:int64>", "", "column A differs from a only in case"},
	} {
		have := parse(c.have)
		got, err := extendSchema(have, parse(c.with))
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s + %s: error %v, want %s", c.have, c.with, err, c.err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s + %s: %v", c.have, c.with, err)
			continue
		}
		if text := (&formats.Type{Kind: formats.Struct, Fields: got.Fields}).String(); text != c.want {
			t.Errorf("%s + %s = %s, want %s", c.have, c.with, text, c.want)
		}
		if text := (&formats.Type{Kind: formats.Struct, Fields: have.Fields}).String(); text != c.have {
			t.Errorf("%s became %s", c.have, text)
		}
	}
}

// TestSupersedeTakesExactly wants a record that loads offsets again to retire
// the files of these offsets, all of them and no others.
func TestSupersedeTakesExactly(t *testing.T) {
	first := loadRecord()
	for i := range first.Files {
		first.Files[i].Parts = []SplitRange{{Topic: "views", TopicID: fakeTopic, Range: offsets.Range{Start: 0, End: 10}}}
	}
	all := []string{"h0/a.parquet", "h1/a.parquet", QuarantinePath(planA, 0)}
	for name, c := range map[string]struct {
		retires []string
		end     offsets.Offset
		want    string
	}{
		"exactly": {all, 10, ""},
		"loses":   {all, 5, "of them again"},
		"doubles": {nil, 10, "which stays"},
	} {
		f := applied(t, first)
		rec := nextRecord()
		rec.Kind, rec.Retires, rec.Sealed = Supersede, c.retires, nil
		rec.Inputs[0].Range = offsets.Range{Start: 0, End: c.end}
		err := f.Apply(rec, "hash-1")
		var broken *RecordError
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.want != "" && (!errors.As(err, &broken) || broken.Rule != "L8" || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want rule L8: %s", name, err, c.want)
		}
	}
}
