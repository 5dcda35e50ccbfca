package api

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Token is the secret of the HTTP side: whoever has it may do everything. Tools
// send it with each request, as "Authorization: Bearer TOKEN" (RFC 6750); a
// browser sends it once, to /login, and gets a cookie that is made of it.
//
// The cookie is END.CHANCE.MAC: when it ends in seconds since 1970, 16 random
// bytes, and the HMAC-SHA256 of both under the token. So every node that has the
// token knows it, none has to remember it, and it doesn't tell the token. A new
// token ends all of them.
//
// A nil Token asks for nothing.
type Token struct {
	secret  []byte
	guesses guesses
}

// NewToken makes the token of a secret; nil where there is none.
func NewToken(secret []byte) *Token {
	if secret == nil {
		return nil
	}
	return &Token{secret: secret, guesses: guesses{by: map[netip.Prefix]guessed{}}}
}

// sessionLife is how long a login lasts.
const sessionLife = 24 * time.Hour

// Admits tells whether a request may see what is not for everybody.
func (t *Token) Admits(r *http.Request) bool { return t == nil || t.check(r) == nil }

// check is nil for a request that shows the token or a cookie made of it.
func (t *Token) check(r *http.Request) error {
	if given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		return t.try(r, given)
	}
	if c, err := r.Cookie(t.cookieName()); err == nil && t.made(c.Value) {
		return nil
	}
	return &Error{
		Status: http.StatusUnauthorized, Code: CodeForbidden, Message: "this server wants a token",
		Hint: "--token FILE or SAWLOG_TOKEN names the file it stands in; other tools send Authorization: Bearer TOKEN, browsers go to /login",
	}
}

// try compares what somebody takes for the token. The right one is always let
// in: who guesses may be behind the same proxy as those who know it.
func (t *Token) try(r *http.Request, given string) error {
	a, b := sha256.Sum256(t.secret), sha256.Sum256([]byte(given)) // of one length, whatever was given
	if subtle.ConstantTimeCompare(a[:], b[:]) == 1 {
		return nil
	}
	from := origin(r)
	if wait := t.guesses.wait(from, time.Now()); wait > 0 {
		return &Error{
			Status: http.StatusTooManyRequests, Code: CodeUnavailable, again: wait,
			Message: "too many wrong tokens came from " + from.Addr().String() + ", and this is another",
			Hint:    "the right one stands in the file that --http-token of the server names, and is let in at any time",
		}
	}
	t.guesses.wrong(from, time.Now())
	return &Error{Status: http.StatusUnauthorized, Code: CodeForbidden, Message: "that is not this server's token", Hint: "it stands in the file that --http-token of the server names"}
}

func (t *Token) mac(what string) string {
	h := hmac.New(sha256.New, t.secret)
	_, _ = h.Write([]byte("sawlog " + what)) // it takes everything
	return hex.EncodeToString(h.Sum(nil))
}

// cookieName differs between tokens: browsers keep one cookie of a name for all
// ports of a host.
func (t *Token) cookieName() string { return "sawlog_" + t.mac("cookie")[:8] }

// session makes the value of a cookie.
func (t *Token) session(now time.Time) string {
	var chance [16]byte
	_, _ = rand.Read(chance[:]) // never fails
	body := strconv.FormatInt(now.Add(sessionLife).Unix(), 10) + "." + hex.EncodeToString(chance[:])
	return body + "." + t.mac("session "+body)
}

// made tells whether a cookie's value was made of this token and has not ended.
func (t *Token) made(value string) bool {
	cut := strings.LastIndexByte(value, '.')
	if cut < 0 || !hmac.Equal([]byte(value[cut+1:]), []byte(t.mac("session "+value[:cut]))) {
		return false
	}
	end, _, _ := strings.Cut(value, ".")
	at, err := strconv.ParseInt(end, 10, 64)
	return err == nil && time.Now().Unix() < at
}

// cookie is the header that keeps a session; an empty value takes it away.
func (t *Token) cookie(r *http.Request, value string) *http.Cookie {
	c := &http.Cookie{
		Name: t.cookieName(), Value: value, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https", MaxAge: int(sessionLife.Seconds()),
	}
	if value == "" {
		c.MaxAge = -1
	}
	return c
}

// origin is the network a request comes from: an address of IPv4, the 64 bits
// of IPv6 that one customer has.
func origin(r *http.Request) netip.Prefix {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return netip.Prefix{}
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Prefix{}
	}
	bits := 32
	if addr = addr.Unmap().WithZone(""); addr.Is6() {
		bits = 64
	}
	prefix, err := addr.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return prefix
}

// guesses counts wrong tokens by where they come from.
type guesses struct {
	mu  sync.Mutex
	by  map[netip.Prefix]guessed
	all int64 // since the start

	swept time.Time // what is forgotten was taken away
}

type guessed struct {
	count int
	until time.Time // the count is forgotten
}

const (
	guessesAllowed = 10          // in guessSpan
	guessSpan      = time.Minute // from the first of them
	guessersKept   = 4096
)

// wait is how long a place is told that it guesses too often; 0 = it doesn't.
func (g *guesses) wait(from netip.Prefix, now time.Time) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	if have := g.by[g.place(from)]; have.count >= guessesAllowed {
		return max(0, have.until.Sub(now))
	}
	return 0
}

func (g *guesses) wrong(from netip.Prefix, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.by) >= guessersKept && now.Sub(g.swept) >= time.Second {
		g.swept = now
		for place, have := range g.by {
			if !now.Before(have.until) {
				delete(g.by, place)
			}
		}
	}
	from = g.place(from)
	have := g.by[from]
	if !now.Before(have.until) {
		have = guessed{until: now.Add(guessSpan)}
	}
	have.count++
	g.by[from] = have
	g.all++
}

func (g *guesses) total() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.all
}

// place is where a guess is counted; when too many places guess they share one.
func (g *guesses) place(from netip.Prefix) netip.Prefix {
	if _, known := g.by[from]; !known && len(g.by) >= guessersKept {
		return netip.Prefix{}
	}
	return from
}
