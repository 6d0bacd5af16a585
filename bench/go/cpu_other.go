//go:build !linux

package main

import "syscall"

// cpu is the milliseconds of processor time that this process has used: there is no clock of one thread here.
func cpu() float64 {
	var used syscall.Rusage
	check(syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return float64(used.Utime.Nano()+used.Stime.Nano()) / 1e6
}
