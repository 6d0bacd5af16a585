package main

import (
	"syscall"
	"unsafe"
)

// cpu is the milliseconds of processor time that this thread has used.
func cpu() float64 {
	const threadCPU = 3 // CLOCK_THREAD_CPUTIME_ID
	var used syscall.Timespec
	if _, _, no := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, threadCPU, uintptr(unsafe.Pointer(&used)), 0); no != 0 {
		check(no)
	}
	return float64(used.Nano()) / 1e6
}
