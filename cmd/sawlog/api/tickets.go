package api

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Ticket is a Kerberos login that jobs need for their root.
type Ticket struct {
	Service   string    // host or name service of the root
	Principal string    // NAME[/HOST]@REALM, as far as it is known
	End       time.Time // of the ticket
	Err       error     // of the login
}

func (s *server) tickets() []Ticket {
	if s.Tickets == nil {
		return nil
	}
	return s.Tickets()
}

// line is what /readyz?verbose says of a ticket; [!] doesn't make it unready.
func (t Ticket) line() string {
	if t.Err != nil {
		return fmt.Sprintf("[!] login for %s: %v\n", t.Service, t.Err)
	}
	return fmt.Sprintf("[+] login for %s ok: %s, ticket until %s\n", t.Service, t.Principal, t.End.UTC().Format(time.RFC3339))
}

var (
	ticketOK  = desc("sawlog_kerberos_login_ok", "1 while the login that jobs need for a root works.", "service", "principal")
	ticketEnd = desc("sawlog_kerberos_ticket_expires_timestamp_seconds", "When the ticket of that login ends.", "service", "principal")
)

func (t Ticket) collect(ch chan<- prometheus.Metric) {
	ok := map[bool]float64{true: 1}[t.Err == nil]
	ch <- prometheus.MustNewConstMetric(ticketOK, prometheus.GaugeValue, ok, t.Service, t.Principal)
	if t.Err == nil {
		ch <- prometheus.MustNewConstMetric(ticketEnd, prometheus.GaugeValue, float64(t.End.Unix()), t.Service, t.Principal)
	}
}
