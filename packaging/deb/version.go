package main

import (
	"strings"
	"time"
)

// debianVersion makes of git's description a version that dpkg sorts as it is
// meant: v1.2.0-rc1 < v1.2.0 < v1.2.0-5-gabc0123 (five commits later). Without a
// tag it is below all releases, and among its like as old as its commit.
func debianVersion(describe string, made time.Time) string {
	v := strings.TrimPrefix(describe, "v")
	if v == "" || v[0] < '0' || v[0] > '9' || !strings.Contains(v, ".") {
		return "0~" + made.Format("20060102150405") + "." + allowed(v)
	}
	v = strings.Replace(v, "-rc", "~rc", 1)
	return allowed(strings.ReplaceAll(v, "-", "+"))
}

// allowed replaces what may not stand in an upstream version (deb-version(7)).
func allowed(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= '0' && r <= '9', r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r == '.', r == '+', r == '~':
			return r
		}
		return '.'
	}, text)
}
