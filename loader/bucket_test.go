package loader

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"sawlog/formats"
)

func mustBucketer(t *testing.T, unit, zone, path string) *bucketer {
	t.Helper()
	b, err := newBucketer(Bucket{Unit: unit, Zone: zone, Path: path})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func instant(t *testing.T, s string) formats.Instant {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		t.Fatal(err)
	}
	return formats.Instant(at.UnixMicro())
}

func TestBucketKeysAndPaths(t *testing.T) {
	const hours, days = "dt=%Y-%m-%d/hr=%H", "dt=%Y-%m-%d"
	for _, c := range []struct{ unit, zone, path, at, key, want string }{
		{UnitHour, "UTC", hours, "2017-01-31T23:59:59.999999Z", "2017-01-31T23:00:00Z", "dt=2017-01-31/hr=23"},
		{UnitHour, "UTC", hours, "2017-12-01T11:33:21-04:00", "2017-12-01T15:00:00Z", "dt=2017-12-01/hr=15"},
		// Before 1970, floored.
		{UnitHour, "UTC", hours, "1969-12-31T23:59:59.999Z", "1969-12-31T23:00:00Z", "dt=1969-12-31/hr=23"},
		{UnitHour, "UTC", hours, "1969-12-31T23:00:00Z", "1969-12-31T23:00:00Z", "dt=1969-12-31/hr=23"},
		{UnitHour, "UTC", hours, "1969-12-31T22:59:59.999Z", "1969-12-31T22:00:00Z", "dt=1969-12-31/hr=22"},
		{UnitHour, "UTC", hours, "1970-01-01T00:00:00Z", "1970-01-01T00:00:00Z", "dt=1970-01-01/hr=00"},
		{UnitDay, "UTC", days, "1969-12-31T12:00:00Z", "1969-12-31T00:00:00Z", "dt=1969-12-31"},
		// The hour that comes twice in New York.
		{UnitHour, "America/New_York", hours, "2018-11-04T05:30:00Z", "2018-11-04T05:00:00Z", "dt=2018-11-04/hr=01-0400"},
		{UnitHour, "America/New_York", hours, "2018-11-04T06:30:00Z", "2018-11-04T06:00:00Z", "dt=2018-11-04/hr=01-0500"},
		{UnitHour, "America/New_York", hours, "2018-11-04T04:30:00Z", "2018-11-04T04:00:00Z", "dt=2018-11-04/hr=00"},
		{UnitHour, "America/New_York", hours, "2018-11-04T07:30:00Z", "2018-11-04T07:00:00Z", "dt=2018-11-04/hr=02"},
		{UnitHour, "America/New_York", "%Y%m%d/%H%z", "2018-11-04T06:30:00Z", "2018-11-04T06:00:00Z", "20181104/01-0500"},
		// The hour that is skipped.
		{UnitHour, "America/New_York", hours, "2018-03-11T07:30:00Z", "2018-03-11T07:00:00Z", "dt=2018-03-11/hr=03"},
		// Days of 23 and 25 hours.
		{UnitDay, "America/New_York", days, "2018-03-11T16:00:00Z", "2018-03-11T05:00:00Z", "dt=2018-03-11"},
		{UnitDay, "America/New_York", days, "2018-11-04T23:00:00Z", "2018-11-04T04:00:00Z", "dt=2018-11-04"},
		// Midnight itself is skipped in São Paulo.
		{UnitDay, "America/Sao_Paulo", days, "2018-11-04T12:00:00Z", "2018-11-04T03:00:00Z", "dt=2018-11-04"},
		// Offsets that are no whole hours.
		{UnitHour, "Asia/Kolkata", hours, "2024-05-05T10:15:00Z", "2024-05-05T09:30:00Z", "dt=2024-05-05/hr=15"},
		{UnitHour, "Asia/Kathmandu", hours, "2024-05-05T10:15:00Z", "2024-05-05T10:15:00Z", "dt=2024-05-05/hr=16"},
		// Lord Howe goes back half an hour: 01:30 to 02:00 comes twice.
		{UnitHour, "Australia/Lord_Howe", hours, "2024-04-06T14:45:00Z", "2024-04-06T14:00:00Z", "dt=2024-04-07/hr=01+1100"},
		{UnitHour, "Australia/Lord_Howe", hours, "2024-04-06T15:15:00Z", "2024-04-06T15:00:00Z", "dt=2024-04-07/hr=01+1030"},
	} {
		t.Run(c.zone+" "+c.at, func(t *testing.T) {
			b := mustBucketer(t, c.unit, c.zone, c.path)
			key := b.Key(instant(t, c.at))
			if got := HourText(key); got != c.key {
				t.Errorf("key %s, want %s", got, c.key)
			}
			if got := b.Path(key); got != c.want {
				t.Errorf("path %s, want %s", got, c.want)
			}
		})
	}
}

// Walking a year minute by minute: keys never fall, each bucket's key lies in
// it, buckets have paths of their own, and End is where the next one starts.
func TestBucketsCoverAYear(t *testing.T) {
	for _, zone := range []string{"UTC", "America/New_York", "Australia/Lord_Howe", "America/Sao_Paulo", "Africa/Casablanca", "Pacific/Apia", "Asia/Kathmandu"} {
		for _, unit := range []string{UnitHour, UnitDay} {
			t.Run(zone+" "+unit, func(t *testing.T) {
				path := "dt=%Y-%m-%d"
				if unit == UnitHour {
					path += "/hr=%H"
				}
				b := mustBucketer(t, unit, zone, path)
				other := mustBucketer(t, unit, zone, path)
				paths := map[string]int64{}
				start := time.Date(2011, 3, 1, 0, 0, 0, 0, time.UTC).Unix()
				last, end := b.Key(formats.Instant(start*1e6)), int64(0)
				for sec := start; sec < start+366*daySeconds; sec += 60 {
					key := b.Key(formats.Instant(sec * 1e6))
					if key < last || key > sec || key != other.Key(formats.Instant(key*1e6)) {
						t.Fatalf("at %s: key %s after %s; of itself %s", HourText(sec), HourText(key), HourText(last), HourText(other.Key(formats.Instant(key*1e6))))
					}
					if key != last || end == 0 {
						if end != 0 && key != end {
							t.Fatalf("bucket %s ends at %s, the next starts at %s", HourText(last), HourText(end), HourText(key))
						}
						p := other.Path(key)
						if had, twice := paths[p]; twice {
							t.Fatalf("%s is the path of %s and %s", p, HourText(had), HourText(key))
						}
						paths[p], last, end = key, key, other.End(key)
					}
				}
			})
		}
	}
}

func TestBucketRefuses(t *testing.T) {
	for _, c := range []struct{ unit, zone, path, says string }{
		{UnitHour, "Europe/Nowhere", "%Y%m%d%H", "Europe/Nowhere"},
		{UnitHour, "utc", "%Y%m%d%H", "utc"},
		{UnitHour, "UTC", "dt=%Y-%m-%d", "does not tell"},
		{UnitHour, "UTC", "%H/%m/%d", "does not tell"},
		{UnitDay, "UTC", "%Y-%m", "does not tell"},
		{UnitHour, "UTC", "%Y%m%d/%H%q", "%q"},
		{UnitHour, "UTC", "%Y%m%d/%H%", "lone"},
		{UnitHour, "UTC", "/%Y%m%d/%H", "empty"},
		{UnitHour, "UTC", "_x/%Y%m%d/%H", "begin"},
		{UnitHour, "UTC", "../%Y%m%d/%H", "begin"},
		{UnitHour, "UTC", "%Y %m %d %H", "refuse"},
		{"week", "UTC", "%Y%m%d/%H", "week"},
	} {
		_, err := newBucketer(Bucket{Unit: c.unit, Zone: c.zone, Path: c.path})
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s %s %q: %v, want an error with %q", c.unit, c.zone, c.path, err, c.says)
		}
	}
	_, hash, err := formats.LoadZone("Europe/Paris")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := newBucketer(Bucket{Unit: UnitDay, Zone: "Europe/Paris", ZoneHash: hash, Path: "%Y%m%d"}); err != nil {
		t.Error(err)
	}
	if _, err := newBucketer(Bucket{Unit: UnitDay, Zone: "Europe/Paris", ZoneHash: "0" + hash, Path: "%Y%m%d"}); ExitCode(err) != ExitConflict {
		t.Errorf("other zone data: %v", err)
	}
}

func TestPathKeys(t *testing.T) {
	if got := fmt.Sprint(pathKeys("dt=%Y-%m-%d/hr=%H/x")); got != "[dt hr]" {
		t.Error(got)
	}
}

func BenchmarkBucketKey(b *testing.B) {
	k, err := newBucketer(Bucket{Unit: UnitHour, Zone: "America/New_York", Path: "%Y%m%d%H"})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for i := range b.N {
		k.Key(formats.Instant(1_700_000_000_000_000 + int64(i)*1000))
	}
}
