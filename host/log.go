// # Log lines
//
// What a Host says to Options.Logger. Messages and keys are
// stable, and no line has the body of a record, an owner's id or a credential in it.
// Names, holders and errors are others' text, which slog's handlers escape.
//
//	level  message                                                        keys
//	ERROR  the engine failed; what is held is no longer renewed           error
//	ERROR  a store's driver panicked; this is told once                   error stack
//	WARN   lease lost                                                     name reason error
//	WARN   permit lost                                                    name reason error
//	WARN   session lost, and with it every lease on it                    reason
//	WARN   contact with the store lost; trying on                         name
//	WARN   closed before it was released; it expires by itself            name token
//	WARN   the store fails all reads, or all writes                       verb class error
//	WARN   the store does not take a result; it is tried again            name class error
//	INFO   the store answers again                                        failed lasted
//	INFO   lease acquired                                                 name protocol holder token ttl from
//	INFO   lease released                                                 name token
//	INFO   companion joined                                               name protocol holder token ttl
//	INFO   companion left                                                 name token
//	INFO   the lease is not ours any more                                 name reason error
//	INFO   session opened                                                 session ttl
//	INFO   no session can be had                                          error
//	DEBUG  permit acquired                                                name holder token weight
//	DEBUG  permit released                                                name holder
//	DEBUG  request failed                                                 name verb class error
//	INFO   tried whether the store honours create-if-absent               honoured seen
//	WARN   the store does not honour create-if-absent, so leases are kept by lastwriter, without a fencing token  seen
//	WARN   this name is in use with another TTL, which can give it two holders; use one everywhere  name their_ttl
//	WARN   an unreadable record has stood too long and is taken over      name key
//	WARN   what keeps a held name was removed from the store; keep cleaning and lifecycle rules off it  name key
//	WARN   an old client holds this name by lock.json, beside a strict lease; use one protocol for a name  name their_holder
//	DEBUG  no file events; polling alone                                  key error
//	DEBUG  an observation cannot be read                                  name error
//	DEBUG  an observation was not kept                                    name error
//	DEBUG  removed what a dead session left                               key
//
// A lease or a permit that is lost because its session is, as a rule one of many, is
// told at INFO. An outage is told when three reads in a row have failed, or three writes,
// and when it is over: once each; the requests themselves are DEBUG. The keys:
//
//	name          what is leased, or the semaphore
//	store         the URL without its secrets: of every line of a Host that Open has made
//	protocol      strict or lastwriter
//	holder        the id of the tenure, or of the permit
//	token         the fencing token; 0 under lastwriter
//	ttl           how long it lives without a renewal; 0 is without an end
//	from          of whom it came: free (nobody was waited for), here (this Host), elsewhere, or dead (a take-over)
//	session       the id of the session
//	weight        how many permits it takes
//	reason        why it was lost: taken, broken, released, unreachable or expired
//	verb          what was asked of the store: get, put, create, exists, list, delete, create_result or put_result
//	class         what the store said: other, unreachable, throttled, unauthorized, no_such_store, read_only or full
//	error         the error's text
//	stack         where a driver panicked: many lines
//	failed        how many requests failed in the outage
//	lasted        how long the outage was, from its first failure
//	honoured      whether one create of a race won, and all others were refused
//	seen          what was seen of a store that does not honour it, and when; "" of one that does
//	key           an object's key in the store
//	their_ttl     what another's record says of its TTL
//	their_holder  the id in another's record
package host

import "github.com/mopslock/mopslock/host/internal/telemetry"

// Messages of what the caller is told as well, by an error or by OnContact, or will be
// told if it lasts. A program that shows these to its user need not log the lines too.
const (
	MessageContactLost  = telemetry.MessageContactLost
	MessageLeaseLost    = telemetry.MessageLeaseLost
	MessagePermitLost   = telemetry.MessagePermitLost
	MessageOutage       = telemetry.MessageOutage
	MessageLeftToExpire = telemetry.MessageLeftToExpire
)
