package host

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/store"
)

// sweeper removes what dead processes have left beside the names: sessions, and
// samples of the store's clock. A process that lists the whole store does it.
//
// A session object that is gone shows no beat, so one that is in use must never
// be removed. The store's own clock decides, of which the newest stamp in the
// listing is a lower bound, or the clock of the boot that wrote it. If neither is
// known, the object stays.
type sweeper struct {
	host   *Host
	newest int64 // stamp
	found  []store.Info
}

// Of what is left behind.
const (
	// maxSwept bounds what one listing removes.
	maxSwept = 256
	// keepTimes is how many TTLs an object outlives the last of its leases.
	keepTimes = 8
	keepExtra = 10 * time.Second
)

// see takes one object of a listing.
func (s *sweeper) see(info store.Info) {
	s.newest = max(s.newest, knownStamp(info.Stamp))
	isBeat := strings.HasPrefix(info.Key, core.SessionPrefix) && strings.HasSuffix(info.Key, "/beat")
	isSample := strings.HasPrefix(info.Key, core.StoreClockPrefix)
	if (isBeat || isSample) && len(s.found) < maxSwept {
		s.found = append(s.found, info)
	}
}

// sweep removes what is old enough. Whatever fails is left for the next one.
func (s *sweeper) sweep(ctx context.Context) {
	for _, info := range s.found {
		if ctx.Err() != nil {
			return
		}
		if !strings.HasSuffix(info.Key, "/beat") {
			if s.host.terms.samples && s.isOld(info.Stamp, 0) {
				_ = s.host.direct().remove(ctx, info.Key)
			}
			continue
		}
		if s.host.terms.samples && !s.isOld(info.Stamp, 0) {
			continue // not even by the shortest TTL
		}
		if s.isDead(ctx, info) {
			s.removeSession(ctx, info.Key)
		}
	}
}

// isOld reports whether a beat with this TTL was the last, and nothing
// can depend on it any more.
func (s *sweeper) isOld(stamp int64, ttl time.Duration) bool {
	slop := core.DefaultSpread + s.host.store.StampUnit()
	return stamp != 0 && time.Duration(s.newest-stamp) >= ttl+keepFor(ttl)+slop
}

func keepFor(ttl time.Duration) time.Duration {
	return max(keepTimes*ttl+keepExtra, core.LeastKeep)
}

// isDead reads a beat and judges it.
func (s *sweeper) isDead(ctx context.Context, info store.Info) bool {
	object, err := s.host.direct().get(ctx, info.Key)
	if err != nil {
		return false
	}
	var beat struct {
		V    int     `json:"v"`
		TTL  float64 `json:"ttl_s"`
		Boot string  `json:"boot"`
		At   int64   `json:"boottime_ns"`
	}
	if json.Unmarshal(object.Body, &beat) != nil || beat.V != 1 || beat.TTL <= 0 || beat.TTL > core.MaxTTL.Seconds() {
		return false // a newer mopslock's, or nobody's
	}
	ttl := time.Duration(beat.TTL * 1e9)
	if now := s.host.clock.Now(); beat.Boot != "" && beat.Boot == s.host.terms.boot {
		if at, ok := now.Emitted(beat.At, object.Stamp); ok {
			return time.Duration(now.Mono-at) >= ttl+keepFor(ttl)
		}
	}
	return s.host.terms.samples && s.isOld(object.Stamp, ttl)
}

// removeSession removes the beat last: a session without one is not listed as one any more.
func (s *sweeper) removeSession(ctx context.Context, beat string) {
	for {
		objects, more, err := s.host.direct().list(ctx, strings.TrimSuffix(beat, "beat"), beat)
		if err != nil {
			return
		}
		for _, object := range objects {
			if err := s.host.direct().remove(ctx, object.Key); err != nil {
				return
			}
		}
		if !more || len(objects) == 0 {
			break
		}
	}
	if err := s.host.direct().remove(ctx, beat); err == nil {
		s.host.log.Debug("removed what a dead session left", "key", beat)
	}
}
