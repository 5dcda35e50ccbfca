package formats

import (
	"errors"
	"strconv"
	"testing"
	"time"
)

func zone(t *testing.T, name string) *time.Location {
	t.Helper()
	z, hash, err := LoadZone(name)
	if err != nil || len(hash) != 16 {
		t.Fatalf("LoadZone(%q): hash %q, %v", name, hash, err)
	}
	return z
}

// bad is the expected instant of text that must be refused.
const bad = "bad"

// TestParseTime covers every format; the results are in RFC 3339.
func TestParseTime(t *testing.T) {
	for _, tt := range []struct{ format, zone, text, want string }{
		{"rfc3339", "", "2017-01-31T23:59:59.999999999Z", "2017-01-31T23:59:59.999999Z"},
		{"rfc3339", "", "2017-01-31T23:59:59.1Z", "2017-01-31T23:59:59.1Z"},
		{"rfc3339", "", "2017-12-01T11:33:21-04:00", "2017-12-01T15:33:21Z"},
		{"rfc3339", "", "2017-12-01T11:33:21+05:30", "2017-12-01T06:03:21Z"},
		{"rfc3339", "", "2017-12-01T11:33:21+0530", "2017-12-01T06:03:21Z"},
		{"rfc3339", "", "2017-12-01t11:33:21z", "2017-12-01T11:33:21Z"},
		{"rfc3339", "", "2016-12-31T23:59:60Z", "2017-01-01T00:00:00Z"},
		{"rfc3339", "", "21-04:00", bad},
		{"rfc3339", "", "2017-12-01T11:33:21.1234567890Z", bad},
		{"rfc3339", "", "2017-12-01T11:33:21.Z", bad},
		{"rfc3339", "", "2017-12-01T11:33:21", bad},
		{"rfc3339", "", "2017-12-01T11:33:21Z ", bad},
		{"rfc3339", "", "2017-02-29T11:33:21Z", bad},
		{"rfc3339", "", "2017-12-01T24:00:00Z", bad},
		{"rfc3339", "", "2017-12-01T11:33:21+24:00", bad},
		{"rfc3339", "", "", bad},
		{"rfc3339", "", "2019-11-13", bad},
		{"rfc3339", "UTC", "2019-11-13", "2019-11-13T00:00:00Z"},
		{"rfc3339", "UTC", "2019-11-31", bad},
		{"rfc3339", "UTC", "2019-11-13 18:01:36.869", "2019-11-13T18:01:36.869Z"},
		{"rfc3339", "America/New_York", "2018-11-04T01:30:00", "2018-11-04T05:30:00Z"},       // doubled: the first
		{"rfc3339", "America/New_York", "2018-11-04T01:30:00-05:00", "2018-11-04T06:30:00Z"}, // the zone in the text wins
		{"rfc3339", "America/New_York", "2019-03-10T02:30:00", bad},                          // skipped
		{"rfc3339", "America/New_York", "2019-03-10T03:00:00", "2019-03-10T07:00:00Z"},
		{"rfc3339", "Asia/Kolkata", "2019-03-10T00:00:00", "2019-03-09T18:30:00Z"},
		{"rfc3339", "Australia/Lord_Howe", "2019-04-07T01:45:00", "2019-04-06T14:45:00Z"}, // half an hour doubled
		{"rfc3339", "Europe/London", "1969-07-20T21:17:40", "1969-07-20T20:17:40Z"},
		{"epoch_s", "", "1737077295", "2025-01-17T01:28:15Z"},
		{"epoch_s", "", "1737077295.9999999", "2025-01-17T01:28:15.999999Z"},
		{"epoch_s", "", "1.737077295e9", "2025-01-17T01:28:15Z"},
		{"epoch_s", "", "0.000001", "1970-01-01T00:00:00.000001Z"},
		{"epoch_s", "", "-0.0000001", "1969-12-31T23:59:59.999999Z"},
		{"epoch_s", "", "1.2.3", bad},
		{"epoch_s", "", "99999999999999", bad},
		{"epoch_s", "", "soon", bad},
		{"epoch_ms", "", "1446249499322", "2015-10-30T23:58:19.322Z"},
		{"epoch_ms", "", "-1", "1969-12-31T23:59:59.999Z"},
		{"epoch_ms", "", "-3600001", "1969-12-31T22:59:59.999Z"},
		{"epoch_us", "", "1573648581000017", "2019-11-13T12:36:21.000017Z"},
		{"epoch_ns", "", "-1", "1969-12-31T23:59:59.999999Z"},
		{"epoch_ns", "", "1573648581000017999", "2019-11-13T12:36:21.000017Z"},
		{"[%d/%b/%Y:%H:%M:%S %z]", "", "[17/May/2015:10:05:03 +0000]", "2015-05-17T10:05:03Z"},
		{"%Y/%m/%d %H:%M:%S.%f", "", "2016/01/01 00:30:04.91", "2016-01-01T00:30:04.91Z"},
		{"%Y-%m-%d %H:%M:%S", "America/New_York", "2019-01-15 03:36:12", "2019-01-15T08:36:12Z"},
		{"%m/%d/%y %I:%M %p", "", "07/04/76 12:05 AM", "1976-07-04T00:05:00Z"},
		{"%m/%d/%y %I:%M %p", "", "07/04/68 12:05 pm", "2068-07-04T12:05:00Z"},
		{"%a, %d %b %Y %T %Z", "", "Tue, 15 Nov 1994 08:12:31 GMT", "1994-11-15T08:12:31Z"},
		{"%Y-%j", "", "2024-366", "2024-12-31T00:00:00Z"},
		{"%Y-%j", "", "2023-366", bad},
		{"%FT%R%z", "", "2024-01-02T03:04+01", "2024-01-02T02:04:00Z"},
		{"%s", "", "-5", "1969-12-31T23:59:55Z"},
		{"%e %B %Y", "", " 7 march 2020", "2020-03-07T00:00:00Z"},
		{"%Y%m%d", "", "20200230", bad},
		{"%Y-%m-%d", "", "2020-01-01x", bad},
		{"%d%% %m %Y", "", "05% 06 2020", "2020-06-05T00:00:00Z"},
		{"%b %d %H:%M:%S", "", "Mar 27 13:06:56", bad}, // no year and no record time to take it from
	} {
		var z *time.Location
		if tt.zone != "" {
			z = zone(t, tt.zone)
		}
		got := bad
		if at, err := ParseTime(tt.format, tt.text, z); err == nil {
			got = time.UnixMicro(int64(at)).UTC().Format(time.RFC3339Nano)
		}
		if got != tt.want {
			t.Errorf("ParseTime(%q, %q) in %q = %s, want %s", tt.format, tt.text, tt.zone, got, tt.want)
		}
	}
}

// TestWallClock compares local readings around every change of several zones
// with the time package.
func TestWallClock(t *testing.T) {
	for _, name := range []string{"America/New_York", "Australia/Lord_Howe", "Africa/Casablanca", "Asia/Kathmandu", "America/St_Johns"} {
		z := zone(t, name)
		skipped := 0
		for at := int64(1514764800); at < 1514764800+366*86400; at += 3600 / 2 {
			local := time.Unix(at, 0).In(z)
			c := civil{year: local.Year(), month: int(local.Month()), day: local.Day(), hour: local.Hour(), minute: local.Minute()}
			got, ok := c.at(z)
			if !ok {
				t.Fatalf("%s: %v does not exist", name, local)
			}
			if got.sec != at {
				// Only the second of a doubled reading is another instant, an earlier one.
				if back := time.Unix(got.sec, 0).In(z); got.sec > at || back.Format(time.DateTime) != local.Format(time.DateTime) {
					t.Errorf("%s: %v read as %v", name, local, back)
				}
			}
			if utc := time.Unix(at, 0).UTC(); true {
				c = civil{year: utc.Year(), month: int(utc.Month()), day: utc.Day(), hour: utc.Hour(), minute: utc.Minute()}
				if got, ok := c.at(z); !ok {
					skipped++
				} else if time.Unix(got.sec, 0).In(z).Format("2006-01-02T15:04") != utc.Format("2006-01-02T15:04") {
					t.Errorf("%s: reading %v is %v", name, utc, time.Unix(got.sec, 0).In(z))
				}
			}
		}
		if changes := name != "Asia/Kathmandu"; changes != (skipped > 0) {
			t.Errorf("%s: %d readings skipped", name, skipped)
		}
	}
}

// TestCivilDays compares our calendar with the time package.
func TestCivilDays(t *testing.T) {
	for day := int64(-719528); day < 2932896; day += 17 {
		d := time.Unix(day*86400, 0).UTC()
		if got := epochDays(d.Year(), int(d.Month()), d.Day()); got != day {
			t.Fatalf("%v is day %d, got %d", d, day, got)
		}
	}
}

// TestZones refuses zones that are not exactly in the embedded data.
func TestZones(t *testing.T) {
	for _, name := range []string{"", "utc", "Local", "Europe/Nowhere", "Europe", "../UTC", "/UTC", "."} {
		if _, _, err := LoadZone(name); err == nil {
			t.Errorf("LoadZone(%q) succeeded", name)
		}
		o := jsonOptions()
		if o.Time.Zone = name; name != "" && o.Validate() == nil {
			t.Errorf("zone %q passed Validate", name)
		}
	}
	_, a, _ := LoadZone("America/New_York")
	_, b, _ := LoadZone("Europe/London")
	if a == b {
		t.Error("two zones have one hash")
	}
}

// TestYearless takes the year from the record's own time.
func TestYearless(t *testing.T) {
	f, err := newTimeFormat("%b %d %H:%M:%S", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ text, record, want string }{
		{"Mar 27 13:06:56", "2015-04-01T00:00:00Z", "2015-03-27T13:06:56Z"},
		{"Dec 31 23:59:59", "2016-01-01T00:00:01Z", "2015-12-31T23:59:59Z"},
		{"Jan  1 00:00:00", "2015-12-31T23:00:00Z", "2016-01-01T00:00:00Z"},
		{"Feb 29 00:00:00", "2017-01-01T00:00:00Z", "2016-02-29T00:00:00Z"},
	} {
		ref, err := time.Parse(time.RFC3339, tt.record)
		if err != nil {
			t.Fatal(err)
		}
		m, ok := f.text([]byte(tt.text), ref.UnixMilli())
		if got := time.Unix(m.sec, 0).UTC().Format(time.RFC3339); !ok || got != tt.want {
			t.Errorf("%s at %s = %s %v, want %s", tt.text, tt.record, got, ok, tt.want)
		}
	}
}

// TestTimeFormats refuses formats that could not name an instant.
func TestTimeFormats(t *testing.T) {
	for _, format := range []string{"rfc822", "%H:%M", "%Y", "%Y-%m-%q", "%", "%Y-%m-%d %I:%M", "iso8601"} {
		o := jsonOptions("ts")
		if o.Time.Format = format; o.Validate() == nil {
			t.Errorf("format %q passed Validate", format)
		}
	}
}

// TestEventTime covers where the event time comes from and its window.
func TestEventTime(t *testing.T) {
	for _, tt := range []struct {
		format, value string
		timestamp     int64
		want          any // Instant or Reason
	}{
		{"rfc3339", `{"t":{"at":"1970-01-01T00:00:01Z"}}`, -1, Instant(1e6)},
		{"rfc3339", `{"t":{"at":"1970-01-01T00:00:01\u005a"}}`, -1, Instant(1e6)},
		{"rfc3339", `{"t":{"at":17}}`, -1, BadTime},
		{"rfc3339", `{"t":{"at":null}}`, -1, BadTime},
		{"rfc3339", `{"t":null}`, -1, BadTime},
		{"rfc3339", `{"t":5}`, -1, BadTime},
		{"rfc3339", `{}`, 77, BadTime},
		{"rfc3339", `{"t":{"at":["x"]}}`, -1, BadTime},
		{"rfc3339", `{"t":{"at":"1999-12-31T23:59:59Z"}}`, -1, Instant(946684799e6)},
		{"epoch_ms", `{"t":{"at":-1}}`, -1, Instant(-1000)},
		{"epoch_us", `{"t":{"at":"1573648581000017"}}`, -1, Instant(1573648581000017)},
		{"epoch_s", `{"t":{"at":true}}`, -1, BadTime},
		{"epoch_s", `{"t":{"at":4102444800}}`, -1, BadRange},
		{"epoch_s", `{"t":{"at":-2208988801}}`, -1, BadRange},
	} {
		o := jsonOptions("t", "at")
		o.Time.Format = tt.format
		o.Time.PlausibleFrom, o.Time.PlausibleTo = new(Instant(-2208988800e6)), new(Instant(4102444800e6))
		d, err := NewDecoder(&Schema{Fields: []Field{{Name: "x", Type: &Type{Kind: Int64}}}}, o)
		if err != nil {
			t.Fatal(err)
		}
		c := NewColumns(d.(*jsonDecoder).schema)
		m := &Message{Timestamp: tt.timestamp, Value: []byte(tt.value)}
		at, err := d.Append(c, m)
		at2, err2 := d.Time(m)
		if at != at2 || (err == nil) != (err2 == nil) || err != nil && err.Error() != err2.Error() {
			t.Errorf("%s: Append says %d %v, Time %d %v", tt.value, at, err, at2, err2)
		}
		var br *BadRecord
		switch want := tt.want.(type) {
		case Instant:
			if err != nil || at != want || c.Rows() != 1 {
				t.Errorf("%s: %d %v, %d rows, want %d", tt.value, at, err, c.Rows(), want)
			}
		case Reason:
			if !errors.As(err, &br) || br.Reason != want || c.Rows() != 0 {
				t.Errorf("%s: %v, %d rows, want reason %s", tt.value, err, c.Rows(), want)
			}
		}
	}
}

// TestPlausibleEnds holds each end of a window, the epoch too, and none.
func TestPlausibleEnds(t *testing.T) {
	for _, end := range []Instant{-62135596800e6, -1, 0, 1, 946684800e6} {
		for name, open := range map[string]bool{"from": true, "to": false} {
			o := jsonOptions("t")
			o.Time.Format = "epoch_us"
			if open {
				o.Time.PlausibleFrom = &end
			} else {
				o.Time.PlausibleTo = &end
			}
			d, err := NewDecoder(&Schema{}, o)
			if err != nil {
				t.Fatal(err)
			}
			for _, at := range []Instant{end - 1, end} {
				_, err := d.Time(&Message{Value: []byte(`{"t":` + strconv.FormatInt(int64(at), 10) + `}`)})
				if good := (at >= end) == open; good != (err == nil) {
					t.Errorf("%s %d: %d gives %v", name, end, at, err)
				}
			}
		}
	}
}

// TestRecordTime uses the record's own timestamp.
func TestRecordTime(t *testing.T) {
	d, err := NewDecoder(&Schema{Fields: []Field{{Name: "value", Type: &Type{Kind: String}}}}, Options{Value: "text", Time: TimeOptions{Field: []string{"_timestamp"}}})
	if err != nil {
		t.Fatal(err)
	}
	if at, err := d.Time(&Message{Timestamp: -2, Value: []byte("x")}); err != nil || at != -2000 {
		t.Errorf("Time = %d, %v", at, err)
	}
	var br *BadRecord
	if _, err := d.Time(&Message{Timestamp: -1, Value: []byte("x")}); !errors.As(err, &br) || br.Reason != BadTime {
		t.Errorf("no timestamp: %v", err)
	}
	if _, err := d.Time(&Message{Timestamp: 1 << 60, Value: []byte("x")}); !errors.As(err, &br) || br.Reason != BadRange {
		t.Errorf("timestamp of the year 36 million: %v", err)
	}
}

// TestMinute reads texts by one reader after the other texts of their minute, its
// neighbours and its misprints, and compares each with what a new reader says.
func TestMinute(t *testing.T) {
	texts := []string{}
	for _, minute := range []string{"2026-03-01T00:00", "2026-03-01T00:01", "2026-03-01t00:00", "2026-03-01 00:00", "2026-03-1T000:00", "9999-12-31T23:59", "0000-01-01T00:00", "1969-12-31T23:59", "2026-02-29T00:00", "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"} {
		for _, rest := range []string{":00Z", ":59Z", ":60Z", ":61Z", ":5Z", ":a0Z", ":07.5Z", ":07.123456789Z", ":07.1234567890Z", ":07.Z", ":07z", ":07", ":07+00:00", ":07-02:30", ":07.25+02:00", ":07Z ", ":07ZZ", ":07.5", ";07Z", "", "Z"} {
			texts = append(texts, minute+rest)
		}
	}
	all, err := newTimeFormat(rfc3339, time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	for _, first := range texts {
		for _, text := range texts {
			for _, x := range []string{first, text} {
				alone, _ := newTimeFormat(rfc3339, time.UTC)
				want, wantOK := alone.text([]byte(x), -1)
				if got, ok := all.text([]byte(x), -1); ok != wantOK || ok && got != want {
					t.Fatalf("%q behind %q: %v %t, want %v %t", text, first, got, ok, want, wantOK)
				}
			}
		}
	}
}
