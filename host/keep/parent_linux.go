package keep

import (
	"bytes"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// AwaitEnd returns when the process of an id has ended. The end of its messages does not tell that alone: a forked
// child that lives on holds them open.
func AwaitEnd(pid int) {
	if fd, err := unix.PidfdOpen(pid, 0); err == nil {
		defer func() { _ = unix.Close(fd) }()
		for {
			n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1)
			if err == nil && n > 0 {
				return
			}
			if err != nil && err != unix.EINTR {
				break
			}
		}
	}
	awaitChange(func() string { return startOf(pid) }) // an old kernel, or it is forbidden
}

// startOf is when a process was started, in the kernel's ticks; "" if there is none. Another process of the same id has another.
func startOf(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	_, after, _ := bytes.Cut(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" "))
	fields := bytes.Fields(after)
	if len(fields) < 20 || fields[0][0] == 'Z' {
		return ""
	}
	return string(fields[19])
}

// lookEach is how often is looked where nobody tells: a tenth of a short TTL.
const lookEach = 100 * time.Millisecond

func awaitChange(look func() string) {
	for first := look(); first != "" && look() == first; {
		time.Sleep(lookEach)
	}
}
