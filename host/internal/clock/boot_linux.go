package clock

import (
	"os"
	"strings"
)

// Boot names the clock that suspendedTime reads: this boot of this kernel,
// and the time namespace. Two processes of one boot whose namespaces differ read
// CLOCK_BOOTTIME with different offsets, and must not be compared.
//
// The namespace is /proc/self/ns/time. Its neighbour time_for_children is where
// this process's children go after an unshare, while the process itself stays in
// the other and reads that one's clock. Kernels before 5.6 have neither, and then
// there is one clock. "" where the kernel does not tell: no boot is shared.
func Boot() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	boot := strings.TrimSpace(string(id))
	if err != nil || boot == "" {
		return ""
	}
	namespace, err := os.Readlink("/proc/self/ns/time") // time:[4026531834]
	switch {
	case err == nil:
		return boot + "-" + strings.Trim(namespace, "time:[]")
	case os.IsNotExist(err):
		return boot
	}
	return ""
}
