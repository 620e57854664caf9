package register

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/jsontext"
)

// needsCall reports whether a session may still keep alive what was released or
// broken: no process can tell when it heard, unless it is called by its own chain.
func (r *Register) needsCall() bool {
	if r.ReadOnly || !r.Cur.isEnded() || !r.countsFromCall() {
		return false
	}
	return r.Call.N != r.Cur.N || r.Call.stamp == 0 && !r.Observation.called && r.Cfg.Expiry == core.ExpiryCalibrated
}

// SeekCall looks for the call that names this break, and makes it if there is none.
func (r *Register) SeekCall(limit core.Duration) {
	obs := &r.Observation
	switch {
	case !obs.called || obs.after != "":
		if r.Call.readOf != r.Cur.N {
			r.Call.readOf, r.Call.next = r.Cur.N, 0
		}
		if obs.callNext = max(obs.callNext, r.Call.next); obs.after == "" && r.Call.next > 0 {
			obs.after = CallKey(r.Cur.Session, r.Call.next-1)
		}
		a := r.Ask(ForCalls, core.ActionList, CallPrefix(r.Cur.Session), limit)
		a.After, a.Count = obs.after, ObservationEntries
	case len(obs.calls) > 0:
		r.Ask(ForCall, core.ActionGet, obs.calls[0], limit)
	default:
		r.Body = AppendCall(r.Body[:0], &r.Machine, r.Cfg.Name, r.Cur.N)
		r.Write(ForNewCall, core.ActionCreate, CallKey(r.Cur.Session, obs.callNext), limit)
	}
}

func (r *Register) CallsListed(ev *core.Event) {
	obs := &r.Observation
	obs.called, obs.after = true, ""
	for i := range ev.Entries {
		key := ev.Entries[i].Key
		if n, ok := parseCallKey(r.Cur.Session, key); ok {
			obs.calls = append(obs.calls, string(key))
			obs.callNext = max(obs.callNext, n+1)
		}
	}
	if n := len(ev.Entries); ev.More && n > 0 {
		obs.after = string(ev.Entries[n-1].Key)
	}
}

func (r *Register) CallRead(ev *core.Event) {
	obs := &r.Observation
	read, _ := parseCallKey(r.Cur.Session, []byte(r.Key))
	obs.calls = obs.calls[1:]
	var call BeatRecord
	r.Call.next = read + 1
	if ev.Outcome == core.OutcomeYes && ParseCall(ev.Body, &call) == ReadGood &&
		call.Epoch == r.Cur.N && jsontext.Text(call.Name).Equal(r.Cfg.Name) {
		r.Call = CallSeen{N: r.Cur.N, stamp: ev.Stamp}
		obs.calls = obs.calls[:0]
	}
}

func (r *Register) CallMade(ev *core.Event) {
	if ev.Outcome == core.OutcomeNo { // another process's call; the next one is as good
		r.Observation.callNext++
		return
	}
	r.Call = CallSeen{N: r.Cur.N, readOf: r.Cur.N, next: r.Observation.callNext}
	r.Observation.called = r.Cfg.Expiry != core.ExpiryCalibrated // its stamp is still to be read
	r.Observation.callNext = 0
}
