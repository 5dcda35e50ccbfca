package consumer

import "time"

// Config says how to reach a cluster. It travels in task specs, so secrets are
// names of files.
type Config struct {
	Brokers  []string      `json:"brokers"`   // HOST:PORT to start from
	ClientID string        `json:"client_id"` // empty = "sawlog-batch/" and the process id
	Timeout  time.Duration `json:"timeout"`   // nanoseconds a request may take; 0 = 30 s

	TLS      bool   `json:"tls,omitempty"`
	CAFile   string `json:"ca_file,omitempty"`   // PEM; empty = the system's
	CertFile string `json:"cert_file,omitempty"` // PEM, for mutual TLS
	KeyFile  string `json:"key_file,omitempty"`

	SASL         string `json:"sasl,omitempty"` // PLAIN | SCRAM-SHA-256 | SCRAM-SHA-512
	User         string `json:"user,omitempty"`
	PasswordFile string `json:"password_file,omitempty"`
}
