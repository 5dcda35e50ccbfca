package loader

import "sawlog/consumer"

// ExecSpec is the task spec `sawlog task exec --stdin` reads: one split of one
// plan. The plan stands in it, or is read from the ledger of Root by its id.
type ExecSpec struct {
	V          int             `json:"v"`
	Root       string          `json:"root"`
	PlanID     string          `json:"plan_id"`
	Plan       *Plan           `json:"plan,omitempty"`
	Split      int             `json:"split"`
	Attempt    string          `json:"attempt,omitempty"` // empty = a new one
	Source     consumer.Config `json:"source"`
	Memory     int64           `json:"memory"` // bytes of this task
	FetchBytes int             `json:"fetch_bytes,omitempty"`
	Spool      string          `json:"spool,omitempty"` // local folder for temporary files; empty = the system's
}
