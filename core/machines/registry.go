package machines

import (
	"strconv"

	"github.com/mopslock/mopslock/core"
)

// Handle names a machine in a Registry. 0 names none. A Registry gives no handle twice.
type Handle uint64

// Registry keeps machines under handles and speaks only in messages. It is the
// one door to the core for callers that do not call it as Go: the WASM guest, the
// C library, a replay. Its zero value is ready. Two goroutines must not use one
// Registry at once; a host may have several.
type Registry struct {
	kept map[Handle]*kept
	last Handle
	room []core.Entry // for the entries of an input
}

// kept is a machine and its latest answer.
type kept struct {
	machine core.Stepper
	actions []core.Action
	err     error
}

// New makes the machine of a config and appends its answer to dst: the state
// that it begins in, or an error, and then the handle is 0.
func (r *Registry) New(dst, config []byte) (Handle, []byte) {
	var cfg core.Config
	err := core.DecodeConfig(config, &cfg)
	var m core.Stepper
	if err == nil {
		m, err = New(cfg)
	}
	if err != nil {
		return 0, core.AppendError(dst, err)
	}
	if r.kept == nil {
		r.kept = map[Handle]*kept{}
	}
	r.last++
	r.kept[r.last] = &kept{machine: m}
	return r.last, core.AppendAnswer(dst, m, nil)
}

// Step gives an input to a machine and appends its answer to dst. After an
// error the machine is as it was before. Step allocates only for an error, and if dst
// has no room.
func (r *Registry) Step(dst []byte, h Handle, input []byte) []byte {
	k := r.kept[h]
	if k == nil {
		return core.AppendError(dst, errHandle(h))
	}
	var now core.Instant
	ev := core.Event{Entries: r.room}
	var actions []core.Action
	err := core.DecodeInput(input, &now, &ev)
	r.room = ev.Entries[:0]
	if err == nil {
		actions, err = k.machine.Step(now, ev)
	}
	if k.err = err; err == nil {
		k.actions = actions
	}
	return k.appendTo(dst)
}

// Again appends the answer of the handle's latest New or Step once more.
func (r *Registry) Again(dst []byte, h Handle) []byte {
	k := r.kept[h]
	if k == nil {
		return core.AppendError(dst, errHandle(h))
	}
	return k.appendTo(dst)
}

func (k *kept) appendTo(dst []byte) []byte {
	if k.err != nil {
		return core.AppendError(dst, k.err)
	}
	return core.AppendAnswer(dst, k.machine, k.actions)
}

// Drop forgets a machine and reports whether there was one.
func (r *Registry) Drop(h Handle) bool {
	there := r.kept[h] != nil
	delete(r.kept, h)
	return there
}

func errHandle(h Handle) error {
	return &core.Error{Code: core.ErrorHandle, Text: "no machine has handle " + strconv.FormatUint(uint64(h), 10) + "; it was never made, or dropped"}
}
