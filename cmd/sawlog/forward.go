package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"

	"sawlog/broker"
	"sawlog/cmd/sawlog/api"
)

// forwardedHeader marks a request that another node has passed on; it is passed
// on once only, so that two nodes which each take the other for the leader do
// not play ball with it.
const forwardedHeader = "Sawlog-Forwarded"

// forward passes what only the scheduler's node can answer on to that node. The
// body and the answer are streamed, so events arrive as they happen.
type forward struct {
	leader func() broker.JournalLeader
	scheme string // all nodes serve by HTTP, or all by HTTPS
	proxy  httputil.ReverseProxy
}

func newForward(leader func() broker.JournalLeader) *forward {
	f := &forward{leader: leader, scheme: "http"}
	f.proxy = httputil.ReverseProxy{
		// No proxy of the environment: nodes reach each other by themselves.
		Transport: &http.Transport{DialContext: (&net.Dialer{Timeout: 3 * time.Second}).DialContext, IdleConnTimeout: time.Minute},
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: f.scheme, Host: f.leader().HTTP})
			r.SetXForwarded()
			r.Out.Header.Set(forwardedHeader, "1")
			// This node has judged where the request comes from; the leader
			// would compare it with its own name.
			for _, name := range []string{"Origin", "Sec-Fetch-Site", "Sec-Fetch-Mode", "Sec-Fetch-Dest"} {
				r.Out.Header.Del(name)
			}
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			var op *net.OpError
			l := f.leader()
			if errors.As(err, &op) && op.Op == "dial" { // it was not asked
				later(w, fmt.Sprintf("node %d runs the scheduler and is not reached at %s://%s: %v", l.Node, f.scheme, l.HTTP, err),
					"its --http must be an address that the other nodes can connect to")
				return
			}
			api.Refuse(w, &api.Error{
				Status: http.StatusBadGateway, Code: api.CodeUnavailable,
				Message: fmt.Sprintf("node %d, which runs the scheduler, broke off: %v", l.Node, err),
				Hint:    "it may have done what was asked all the same: look before asking again",
			})
		},
	}
	return f
}

func (f *forward) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch l := f.leader(); {
	case l.Node < 0:
		later(w, "no node leads the job history at the moment", "")
	case l.Here || r.Header.Get(forwardedHeader) != "":
		later(w, "the scheduler is on its way to a node", "")
	case l.HTTP == "":
		later(w, fmt.Sprintf("node %d runs the scheduler and tells no HTTP address", l.Node), "")
	default:
		f.proxy.ServeHTTP(patient{w, http.NewResponseController(w)}, r)
	}
}

// patient passes an answer on to who asked, but does not wait for ever while he
// takes nothing of it.
type patient struct {
	http.ResponseWriter
	control *http.ResponseController
}

// slowest is how long one write to who asked may take.
const slowest = 30 * time.Second

func (p patient) Write(b []byte) (int, error) {
	_ = p.control.SetWriteDeadline(time.Now().Add(slowest)) // a writer without one does not stand still
	return p.ResponseWriter.Write(b)
}

// Unwrap gives what can do more than write.
func (p patient) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// later refuses what was not begun and may be asked again.
func later(w http.ResponseWriter, msg, hint string) {
	w.Header().Set("Retry-After", "1")
	api.Refuse(w, &api.Error{Status: http.StatusServiceUnavailable, Code: api.CodeUnavailable, Message: msg, Hint: hint})
}
