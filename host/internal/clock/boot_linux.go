package clock

import (
	"os"
	"strings"
)

// Boot names the clock that suspendedTime reads: this boot of this kernel, and the
// time namespace. Two processes of one boot in different namespaces read
// CLOCK_BOOTTIME with different offsets, so their times must not be compared.
//
// The namespace is /proc/self/ns/time. It is not time_for_children: after an unshare
// this process's children go there, while the process itself stays in the other one and
// reads that one's clock. Kernels before 5.6 have neither, and only one clock. Boot
// returns "" if the kernel does not tell: then no two processes share a boot.
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
