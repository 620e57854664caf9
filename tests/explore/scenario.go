package explore

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/tests/explore/check"
)

// Scenario is one small world: its actors, what they may be told to do, and what
// may go wrong.
type Scenario struct {
	Name  string // for people, and for tests
	About string // one line: what is assumed
	// Actors, at most maxActors of them.
	Actors []Actor
	Store  Store
	// Words describes the requests and notices of its programs; nil is words for
	// machines of the core.
	Words Words

	Tick    int64 // ns of true time; a multiple of 100, so that rates are exact
	Horizon int   // time ends after so many ticks
	// StoreWall is the store's clock at tick 0, in ns since 1970. It is set by
	// LeapBy, once, at tick LeapAt.
	StoreWall int64
	LeapAt    int
	LeapBy    int64

	Faults  int // of all kinds together; 0 is no bound but those of each kind
	Lost    int // replies that may be lost, and reads given up
	Late    int // writes that may be given up before they are applied, and land later
	Crashes int
	// Pauses is how many times time may pass although an actor has something to do:
	// a request to be applied, an answer or a wake to be given. How long each lasts
	// is free: it is over when something of the actor happens. So a slow request is
	// also a pause. Without this bound nearly every state would differ from all
	// others only in when harmless things happened.
	Pauses int
	Odd    int // times that the store may do what its Choices allow beyond the first
	// Within, if not 0, is the most ticks from sending a request to its answer.
	Within int
	// Punctual: a wake that is due is delivered before time passes.
	Punctual bool
	// Prompt: what a crashed actor had sent, and the store had not taken, is gone.
	Prompt bool
	// OutOfOrder switches the reduction off; see turn in world.go.
	OutOfOrder bool
	// Verbatim switches the normalisation of states off; see canon.go.
	Verbatim bool
	// Bare: NoOverlap is not checked: the scenario has one of the declared
	// exceptions to it.
	Bare bool
	// Mixed: there are old processes, which see no register. NoOverlap is checked of the others,
	// who have an epoch.
	Mixed bool
	// Shared: what is at stake are permits, of which several may be held, within capacity.
	Shared bool
	// Patience, if not 0: at the horizon all stop but those that wait or stay, and
	// within that time a waiter must have got the lease.
	Patience int64
	// Result is the key of the result of its invocations; "" is a world without
	// any. Overwrites: the store is not asked to keep the first one.
	Result     string
	Overwrites bool
	// End, if set, judges a world in which no actor has anything left to do.
	End func(*check.Ledger, []string) *check.Violation
	// Left, if set, judges what is in the store when no actor can do anything any more,
	// and this number of permits is held.
	Left func(s Store, held int) *check.Violation
}

// Actor is one participant.
type Actor struct {
	Name  string
	Start func() (Program, error)
	// RatePercent is the rate of its monotonic clock, MonoOffset what that shows
	// at tick 0, and WallOffset its wall clock minus the store's.
	RatePercent int64 // 0 is 100
	MonoOffset  int64
	WallOffset  int64
	// Tell are the commands, in the order in which they are given, if at all.
	Tell []Command
	// Sampled: each event carries the sample of the store's clock of tick 0.
	Sampled bool
	// Waits: it is a waiter, for EventuallyHeld.
	Waits bool
	// Stays: in a drain it goes on.
	Stays bool
	// Newcomer: it comes when all is over, and all others have stopped for good or given
	// everything back; for NothingLeaks. Before, it is not told anything.
	Newcomer bool
	// Flawless actors neither crash nor pause, and nothing of theirs is lost.
	Flawless bool
	// Woken: it comes with something to wait for, and is woken at once.
	Woken bool
	// SampleAge is how long before tick 0 the sample was taken; or SampleTick is at
	// which tick, and before that there is none.
	SampleAge  int64
	SampleTick int
}

// Command is something that an actor may be told.
type Command struct {
	Event core.Event
	Words string // "asks for the lease"
	// In is the state in which it is told, "" is any.
	In string
	// From and Until bound the ticks at which it may be told; Until 0 is no bound.
	From, Until int
	// Needs is a tenure that must have been held before, with the token Token if
	// that is not 0.
	Needs string
	Token core.Epoch
	// After is a state in which the first actor must be. It begins no new sweep, so
	// with the reduction it is told when time has passed.
	After string
	// Crashed: it is told only after it has crashed: Make is its restart.
	Crashed bool
	// Again: it may be told again, and passes nothing over.
	Again bool
	// Died is an actor that must have crashed, and When says it of the store.
	Died string
	When func(Store) bool
	// Make, if set, makes the program anew before it is told: the actor's next
	// process. It is told the old one, and the Mono.
	Make func(old Program, mono int64) (Program, error)
	// Follows is an actor that must have launched before; a remote comes to the lease of
	// that actor's latest launch.
	Follows string
	// Must says that time does not pass before the actor was told, once it may be,
	// and that no later command passes it over.
	Must bool
}

// follows reports whether the command says to whose lease it comes.
func (c *Command) follows() bool { return c.Event.Kind == core.EventRemote }

// Words describes what happens, for a person. "" is not worth a step.
type Words interface {
	// Applied describes a request as the store takes it, with the reply.
	Applied(actor string, request *core.Action, reply *core.Event) string
	// Noticed describes a notice that a program gives.
	Noticed(actor string, notice *core.Action) string
}

// Store is what a scenario keeps objects in. It is never changed: Apply answers
// with the next one.
type Store interface {
	// Choices is how many ways there are to apply a request; the first is the
	// usual one, and each other is a fault. crowded: another actor's create of the
	// same key was applied and is not answered yet.
	Choices(request *core.Action, crowded bool) int
	// Apply lets a request happen at an instant of the store's own clock.
	Apply(now int64, request *core.Action, choice int) (Store, core.Event)
	// AppendState appends all that is kept as canonical bytes.
	AppendState(dst []byte) []byte
}

// Keeper is a store that shows an object to a checker.
type Keeper interface {
	// Object is the body of an object, or nil if there is none.
	Object(key string) []byte
}

// Versioned is a store that knows when a request makes a version of a name.
type Versioned interface {
	// Version reads the version that a create makes: of which name, its number and
	// the tenure that holds it; ok is false for any other request.
	Version(request *core.Action) (name string, epoch core.Epoch, tenure string, ok bool)
	// Newest is the newest version of a name, or 0.
	Newest(name string) core.Epoch
}
