package cloud

import (
	"net"
	"net/http"
	"time"
)

// What a store's connections are like.
const (
	// idleConns is how many stay open to one server while nothing is asked of it: more
	// than a host asks at once, or the rest would be made anew for each crowd of
	// requests. There is no bound on those in use: a caller who reads bodies slowly
	// must not keep renewals waiting.
	idleConns   = 256
	idleTimeout = 90 * time.Second
	// dialTimeout and tlsTimeout are no longer than any request may take.
	dialTimeout = 10 * time.Second
	tlsTimeout  = 10 * time.Second
	keepAlive   = 15 * time.Second
	// Under HTTP/2 all requests share a connection, and giving one up does not close
	// it. Without pings one whose packets are dropped on the way would take every
	// renewal with it, for the quarter of an hour until TCP gives up.
	pingAfter = 10 * time.Second
	pingLimit = 5 * time.Second
)

// Transport is the HTTP transport of a store: one each, since closing one's idle
// connections must not close another's.
func Transport() *http.Transport {
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: keepAlive}
	t := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           dialer.DialContext,
		ForceAttemptHTTP2:     true,
		TLSHandshakeTimeout:   tlsTimeout,
		ExpectContinueTimeout: time.Second,
	}
	Tune(t)
	return t
}

// Tune has an SDK's own transport keep connections as Transport does.
func Tune(t *http.Transport) {
	t.MaxIdleConns, t.MaxIdleConnsPerHost, t.MaxConnsPerHost = 0, idleConns, 0
	t.IdleConnTimeout = idleTimeout
	t.HTTP2 = &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingLimit}
}
