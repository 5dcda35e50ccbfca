package jobs

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"sawlog/loader"
	"sawlog/offsets"
)

// sizeUnit knows the suffixes of a size: IEC ones count by 1024, SI ones by 1000.
func sizeUnit(suffix string) (int64, bool) {
	switch strings.ToLower(suffix) {
	case "", "b":
		return 1, true
	case "kib", "k":
		return 1 << 10, true
	case "mib", "m":
		return 1 << 20, true
	case "gib", "g":
		return 1 << 30, true
	case "tib", "t":
		return 1 << 40, true
	case "kb":
		return 1e3, true
	case "mb":
		return 1e6, true
	case "gb":
		return 1e9, true
	case "tb":
		return 1e12, true
	}
	return 0, false
}

// ParseSize reads a number of bytes: 1048576, 64MiB, 1.5GiB, 256MB.
func ParseSize(text string) (int64, error) {
	bad := fmt.Errorf("size %q: want a number with a unit, such as 64MiB, 1.5GiB or 256MB", text)
	number, suffix := splitNumber(strings.TrimSpace(text))
	unit, ok := sizeUnit(suffix)
	if !ok || number == "" {
		return 0, bad
	}
	if n, err := strconv.ParseInt(number, 10, 64); err == nil {
		if n > math.MaxInt64/unit {
			return 0, fmt.Errorf("size %q: more than fits", text)
		}
		return n * unit, nil
	}
	f, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return 0, bad
	}
	if f*float64(unit) >= math.MaxInt64 {
		return 0, fmt.Errorf("size %q: more than fits", text)
	}
	return int64(math.Round(f * float64(unit))), nil
}

// FormatSize prints a size in the largest IEC unit that divides it.
func FormatSize(n int64) string {
	for _, unit := range []struct {
		size int64
		name string
	}{{1 << 40, "TiB"}, {1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if n >= unit.size && n%unit.size == 0 {
			return strconv.FormatInt(n/unit.size, 10) + unit.name
		}
	}
	return strconv.FormatInt(n, 10)
}

// splitNumber cuts "1.5GiB" into "1.5" and "GiB".
func splitNumber(text string) (number, suffix string) {
	i := 0
	for i < len(text) && (text[i] >= '0' && text[i] <= '9' || text[i] == '.') {
		i++
	}
	return text[:i], strings.TrimSpace(text[i:])
}

// FormatDuration prints a duration without its empty units: 5m, 1h30m, 7d.
func FormatDuration(d time.Duration) string {
	if d == 0 {
		return "0m"
	}
	const day = 24 * time.Hour
	if d%day == 0 {
		return strconv.FormatInt(int64(d/day), 10) + "d"
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// ParseMaxBad reads a limit of bad records: a count (100) or a share (0.1%).
func ParseMaxBad(text string) (loader.MaxBad, error) {
	bad := fmt.Errorf("%q: want a count such as 100 or a share such as 0.1%%", text)
	text = strings.TrimSpace(text)
	if share, ok := strings.CutSuffix(text, "%"); ok {
		f, err := strconv.ParseFloat(strings.TrimSpace(share), 64)
		if err != nil || f <= 0 || f > 100 {
			return loader.MaxBad{}, fmt.Errorf("%q: want a share above 0%% and up to 100%%", text)
		}
		ppm := int64(math.Round(f * 1e4))
		if ppm == 0 {
			return loader.MaxBad{}, fmt.Errorf("%q: the smallest share is 0.0001%%", text)
		}
		return loader.MaxBad{PPM: ppm}, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 {
		return loader.MaxBad{}, bad
	}
	return loader.MaxBad{Count: n}, nil
}

// formatMaxBad prints what ParseMaxBad reads; empty = no limit.
func formatMaxBad(m loader.MaxBad) string {
	switch {
	case m.Count > 0:
		return strconv.FormatInt(m.Count, 10)
	case m.PPM > 0:
		return strconv.FormatFloat(float64(m.PPM)/1e4, 'f', -1, 64) + "%"
	}
	return ""
}

// Moment is one end of a plausibility window: a point in time, or a distance
// from the moment a plan is made.
type Moment struct {
	At       *time.Time    // nil = Relative counts: every point in time may be meant, the zero one too
	Relative time.Duration // from the moment of the plan
	Text     string        // as written
}

// Resolve turns the moment into a point in time.
func (m Moment) Resolve(now time.Time) time.Time {
	if m.At == nil {
		return now.Add(m.Relative)
	}
	return *m.At
}

// ParseMoment reads a date, an RFC 3339 time, or a signed duration.
func ParseMoment(text string) (Moment, error) {
	text = strings.TrimSpace(text)
	if strings.HasPrefix(text, "+") || strings.HasPrefix(text, "-") {
		d, err := offsets.ParseDuration(text[1:])
		if text[0] == '-' {
			d = -d
		}
		return Moment{Relative: d, Text: text}, err
	}
	for _, layout := range []string{time.DateOnly, time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02T15"} {
		if t, err := time.Parse(layout, text); err == nil {
			return Moment{At: new(t.UTC()), Text: text}, nil
		}
	}
	return Moment{}, fmt.Errorf("%q: want a date (2000-01-01), an RFC 3339 time, or a distance from now such as -30d or +1d", text)
}
