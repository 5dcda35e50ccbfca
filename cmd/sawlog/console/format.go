package console

import (
	"fmt"
	"strconv"
	"time"
)

// count prints 1234567 as 1,234,567.
func count(n any) string {
	var v int64
	switch x := n.(type) {
	case int64:
		v = x
	case int:
		v = int64(x)
	}
	s := strconv.FormatInt(v, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// size prints bytes with three digits and an IEC unit.
func size(n int64) string {
	if n < 1024 {
		return strconv.FormatInt(n, 10) + " B"
	}
	f, units := float64(n), "KMGTP"
	i := -1
	for f >= 1024 && i < len(units)-1 {
		f /= 1024
		i++
	}
	digits := 2
	if f >= 100 {
		digits = 0
	} else if f >= 10 {
		digits = 1
	}
	return fmt.Sprintf("%.*f %ciB", digits, f, units[i])
}

// plural prints a number of things.
func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return count(n) + " " + thing + "s"
}

// clock prints a time of day with its date, UTC.
func clock(t time.Time) string {
	if t.IsZero() {
		return "–"
	}
	return t.UTC().Format("2006-01-02 15:04:05")
}

// took prints how long something took.
func took(from, to time.Time) string {
	if from.IsZero() || to.IsZero() {
		return "–"
	}
	return duration(to.Sub(from))
}

func duration(d time.Duration) string {
	switch {
	case d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + " ms"
	case d < time.Minute:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s"
	case d < 24*time.Hour:
		return d.Truncate(time.Second).String()
	}
	return fmt.Sprintf("%dd %dh", int(d.Hours())/24, int(d.Hours())%24)
}

// distance says how far a moment lies from now: "in 4m", "12m ago".
func distance(t, now time.Time) string {
	d := t.Sub(now)
	word := func(d time.Duration) string {
		switch {
		case d < time.Minute:
			return strconv.Itoa(int(d.Seconds())) + "s"
		case d < time.Hour:
			return strconv.Itoa(int(d.Minutes())) + "m"
		case d < 48*time.Hour:
			return fmt.Sprintf("%dh %dm", int(d.Hours()), int(d.Minutes())%60)
		}
		return strconv.Itoa(int(d.Hours())/24) + "d"
	}
	switch {
	case t.IsZero():
		return "–"
	case d >= 0:
		return "in " + word(d)
	}
	return word(-d) + " ago"
}
