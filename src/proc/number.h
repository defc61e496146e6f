/*
 * number.h - our pids and the pids that /proc uses for them
 *
 * Why:     `unshare --pid --fork` and some containers leave the outer namespace's /proc mounted:
 *          its directories have other pids than getpid, SO_PEERCRED, pidfd_open and kill.
 *          /proc/5 is another process there.
 * Shapes:  everything outside of proc/ knows pids of our own namespace only. With a /proc of our
 *          own both are the same number, found out once.
 * Errors:  0 = there is none: a process outside our namespace has no number here.
 * Source:  proc(5): `Pid` of a pidfd in /proc/self/fdinfo is that of the reader's /proc; NSpid of
 *          /proc/PID/status goes from that namespace down to the process's own.
 */
#ifndef HW_PROC_NUMBER_H
#define HW_PROC_NUMBER_H

#include <stdint.h>

/* What /proc calls the process behind a pidfd; known: its pid in our namespace. */
int32_t hw_proc_number_of(int pidfd, int32_t known);
/* From /proc's number to ours. */
int32_t hw_proc_pid_of(int32_t number);
/* The same for a thread of a process that is known to be in our namespace. */
int32_t hw_proc_tid_of(int32_t number);
/* O_PATH on its directory, -1 with errno. */
int hw_proc_open_dir(int32_t pid);

#endif
