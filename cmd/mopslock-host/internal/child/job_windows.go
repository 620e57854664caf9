package child

import (
	"unsafe"

	"golang.org/x/sys/windows"
)

// job is a command and all that it starts, but for what asks to leave it: the process group of this system. A process
// that the command starts before it is in its job is not. 0 is none.
type job windows.Handle

// newJob puts a process into a job, which the system ends when we die, if that is asked for.
func newJob(pid int, parentDeath bool) job {
	handle, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return 0
	}
	j := job(handle)
	process, err := windows.OpenProcess(windows.PROCESS_SET_QUOTA|windows.PROCESS_TERMINATE, false, uint32(pid))
	if err == nil {
		if err = windows.AssignProcessToJobObject(handle, process); err == nil && parentDeath {
			j.limit(windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE)
		}
		_ = windows.CloseHandle(process)
	}
	if err != nil { // it has ended, or may not be put there
		_ = windows.CloseHandle(handle)
		return 0
	}
	return j
}

func (j job) limit(flags uint32) {
	var limits windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION
	limits.BasicLimitInformation.LimitFlags = flags
	_, _ = windows.SetInformationJobObject(windows.Handle(j), windows.JobObjectExtendedLimitInformation, uintptr(unsafe.Pointer(&limits)), uint32(unsafe.Sizeof(limits)))
}

// kill ends all of it. It returns false if there is no job.
func (j job) kill() bool { return j != 0 && windows.TerminateJobObject(windows.Handle(j), 1) == nil }

// close lets what is left of it go on.
func (j job) close() {
	if j != 0 {
		j.limit(0)
		_ = windows.CloseHandle(windows.Handle(j))
	}
}
