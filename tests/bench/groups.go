//go:build unix

package main

// groups are the parts of the budgets, in their order.
func groups() []group {
	return []group{
		{"The core", coreRows},
		{"Leases", leaseRows},
		{"Leases from Python", pythonRows},
		{"Leases on each store", storeRows},
		{"Requests", requestRows},
		{"Requests cost money", hourRows},
		{"A fleet in one process", fleetRows},
		{"Hand-over", handoverRows},
		{"Peers", peerRows},
		{"Limits", bucketRows},
		{"Start-up", startRows},
	}
}
