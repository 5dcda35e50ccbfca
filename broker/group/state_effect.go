package group

// Ticket stands for a parked request; the shell keeps what it stands for.
type Ticket uint64

// TimerKind tells what a timer of a group waits for.
type TimerKind uint8

const (
	// SessionTimer waits for a sign of life of one member, pending ones included.
	SessionTimer TimerKind = iota
	// JoinTimer ends the wait for members to join again, or the initial delay.
	JoinTimer
	// SyncTimer ends the wait for members to fetch their assignment.
	SyncTimer
)

// String is the timer's name in logs and test scripts.
func (k TimerKind) String() string { return [...]string{"session", "join", "sync"}[k] }

// TimerKey names one timer of a group; Member only for sessions.
type TimerKey struct {
	Kind   TimerKind
	Member string
}

// Effect is one thing a step asks of its shell; effects are carried out in order.
type Effect interface{ effect() }

// StartTimer (re)starts a timer: its expiry comes back by Expired.
type StartTimer struct {
	Key   TimerKey
	After int64 // milliseconds
}

// StopTimer forgets a timer.
type StopTimer struct{ Key TimerKey }

// JoinReply answers a parked JoinGroup.
type JoinReply struct {
	Ticket       Ticket
	Code         int16
	Member       string
	Generation   int32
	ProtocolType string
	Protocol     string
	Leader       string
	Skip         bool // the leader need not compute an assignment (KIP-814)
	Members      []Joined
}

// Joined is one entry of the list only the leader gets.
type Joined struct {
	Member, Instance string
	Metadata         []byte
}

// SyncReply answers a parked SyncGroup.
type SyncReply struct {
	Ticket       Ticket
	Code         int16
	ProtocolType string
	Protocol     string
	Assignment   []byte
}

// Write asks for the group to be persisted; its outcome comes back by Written.
type Write struct {
	ID       uint64
	Snapshot Snapshot
}

func (StartTimer) effect() {}
func (StopTimer) effect()  {}
func (JoinReply) effect()  {}
func (SyncReply) effect()  {}
func (Write) effect()      {}

// Rules are the limits a group obeys, in milliseconds and members.
type Rules struct {
	MinSession, MaxSession int64 // 6,000 and 1,800,000
	InitialDelay           int64 // group.initial.rebalance.delay.ms: 3,000
	NewMemberTimeout       int64 // how long a new member may wait parked: 300,000
	MaxSize                int   // group.max.size
}
