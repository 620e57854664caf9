package child

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// onlyZombiesGiveEPERM: Linux lets us signal a group of which only zombies are left, without effect.
const onlyZombiesGiveEPERM = false

func setParentDeath(attributes *syscall.SysProcAttr, wanted bool) {
	if wanted {
		attributes.Pdeathsig = syscall.SIGKILL
	}
}

// What si_code says in a child's siginfo (linux/include/uapi/asm-generic/siginfo.h).
const (
	cldExited  = 1
	cldKilled  = 2
	cldDumped  = 3
	cldStopped = 5
)

// childInfo is the head of siginfo_t as waitid fills it. The union after the three words is aligned to a pointer.
type childInfo struct {
	_      [3]int32
	_      [unsafe.Sizeof(uintptr(0))/4 - 1]int32
	pid    int32
	uid    uint32
	status int32 // exit code or signal, as si_code says
}

var _ [unsafe.Sizeof(unix.Siginfo{}) - unsafe.Sizeof(childInfo{})]byte // it fits

// nextEvent blocks until the command ended or stopped. WNOWAIT leaves the zombie. A stop is removed; otherwise it
// would be reported again, forever.
func (c *Child) nextEvent() (event, error) {
	for {
		info, err := c.waitid(unix.WEXITED | unix.WSTOPPED | unix.WNOWAIT)
		if err != nil {
			return event{}, err
		}
		status := int((*childInfo)(unsafe.Pointer(&info)).status)
		switch info.Code {
		case cldExited:
			return event{ended: true, status: Status{Code: status}}, nil
		case cldKilled, cldDumped:
			return event{ended: true, status: Status{Signal: syscall.Signal(status)}}, nil
		case cldStopped:
			taken, err := c.takeStop()
			if err != nil {
				return event{}, err
			}
			if taken {
				return event{stop: syscall.Signal(status)}, nil
			}
		}
	}
}

// takeStop removes a stop that nextEvent has seen. Without WEXITED it reaps nothing. It reports false if the stop is
// gone, and the next look says why:
//
//	continued since    waitid finds nothing (WNOHANG)
//	ended since        waitid says ECHILD, because it leaves a zombie out without WEXITED. The status is still there
func (c *Child) takeStop() (bool, error) {
	taken, err := c.waitid(unix.WSTOPPED | unix.WNOHANG)
	if errors.Is(err, unix.ECHILD) {
		return false, nil
	}
	return taken.Code == cldStopped, err
}

func (c *Child) waitid(options int) (unix.Siginfo, error) {
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, c.pid, &info, options, nil)
		if !errors.Is(err, unix.EINTR) {
			return info, err
		}
	}
}

// others reports whether other processes of a group live. It looks in /proc, and does not see a process that is hidden
// there, or of which only threads are left. (kill with signal 0 would always find the zombie.)
func others(group int) bool {
	return slices.ContainsFunc(processes(), func(p process) bool {
		return p.group == group && p.state != "Z" && p.state != "X"
	})
}

type process struct {
	pid, parent, group int
	state              string
}

// processes are the processes in /proc.
func processes() (all []process) {
	found, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range found {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		// pid (name, which may contain anything) state ppid pgrp …
		p, end := process{}, bytes.LastIndexByte(text, ')')
		_, errPid := fmt.Sscan(string(text), &p.pid)
		if _, err := fmt.Sscan(string(text[end+1:]), &p.state, &p.parent, &p.group); err == nil && errPid == nil {
			all = append(all, p)
		}
	}
	return all
}

// adopted returns a channel that says that a child of ours has ended, if we adopt orphans. The first process of a
// container does, and what prctl(2) calls a subreaper. No other process would reap the orphans.
func adopted() <-chan os.Signal {
	var subreaper int32
	_ = unix.Prctl(unix.PR_GET_CHILD_SUBREAPER, uintptr(unsafe.Pointer(&subreaper)), 0, 0, 0)
	if os.Getpid() != 1 && subreaper == 0 {
		return nil
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, unix.SIGCHLD)
	return ended
}

// reapAdopted reaps the zombies of orphans. Two kinds of our children are no orphans: the command, which is a zombie on
// purpose until Close, and processes of our own group, which os/exec has started (a cloud's SDK asks a program for
// credentials) and waits for.
func reapAdopted(command *Child) {
	for _, p := range processes() {
		orphan := p.parent == os.Getpid() && p.group != syscall.Getpgrp()
		if orphan && p.state == "Z" && (command == nil || p.pid != command.pid || command.isClosed()) {
			_, _ = syscall.Wait4(p.pid, nil, unix.WNOHANG, nil)
		}
	}
}

func (c *Child) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// withoutTTOU runs f on this thread with SIGTTOU blocked. Then tcsetpgrp from a background group succeeds, and does not
// stop the whole group. The mask belongs to the thread: the caller is on the locked thread of supervise, or locks one.
func withoutTTOU(f func() error) error {
	var block, before unix.Sigset_t
	wordBits := uint(unsafe.Sizeof(block.Val[0]) * 8)
	bit := uint(unix.SIGTTOU - 1)
	block.Val[bit/wordBits] |= 1 << (bit % wordBits)
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, &block, &before); err != nil {
		return err
	}
	defer func() { _ = unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil) }()
	return f()
}

// sigaction is the kernel's, not the C library's. (On mips it has another shape: the calls fail with EINVAL there, and
// Ctrl-Z does nothing, as if no shell could continue us.)
type sigaction struct {
	handler  uintptr
	flags    uintptr
	restorer uintptr
	mask     [2]uint32
}

const (
	handlerDefault = 0
	handlerIgnore  = 1
)

// stopOurGroup stops our process group, as Ctrl-Z does to a group that has the terminal, and returns when we have been
// continued. If the group is orphaned no process could continue us. The kernel drops SIGTSTP then, but not SIGSTOP,
// and stopOurGroup returns at once. See stopped for the order.
//
// signal.Reset does not bring back the default for SIGTSTP once it was caught (Go 1.26: the runtime keeps its own
// handler installed), so the disposition is changed under the runtime, and put back.
func stopOurGroup() error {
	ours, err := swapAction(syscall.SIGTSTP, &sigaction{handler: handlerIgnore})
	if err != nil {
		return err
	}
	defer func() { _, _ = swapAction(syscall.SIGTSTP, ours) }()
	if err := syscall.Kill(0, syscall.SIGTSTP); err != nil {
		return err
	}
	if _, err := swapAction(syscall.SIGTSTP, &sigaction{handler: handlerDefault}); err != nil {
		return err
	}
	// To this thread, so that the stop takes effect before the call returns. If it went to the process, another thread
	// could take it while this one already gives the terminal away.
	return unix.Tgkill(unix.Getpid(), unix.Gettid(), unix.SIGTSTP)
}

func swapAction(sig syscall.Signal, action *sigaction) (*sigaction, error) {
	before := new(sigaction)
	_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig),
		uintptr(unsafe.Pointer(action)), uintptr(unsafe.Pointer(before)), unsafe.Sizeof(action.mask), 0, 0)
	if errno != 0 {
		return nil, errno
	}
	return before, nil
}

// kernelIgnores returns the signals that this process ignores now, by number, if /proc says so.
func kernelIgnores() map[syscall.Signal]bool {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(text)) {
		digits, found := strings.CutPrefix(line, "SigIgn:")
		if !found {
			continue
		}
		mask, err := strconv.ParseUint(strings.TrimSpace(digits), 16, 64)
		if err != nil {
			return nil
		}
		ignored := make(map[syscall.Signal]bool)
		for n := range 64 {
			if mask&(1<<n) != 0 {
				ignored[syscall.Signal(n+1)] = true
			}
		}
		return ignored
	}
	return nil
}
