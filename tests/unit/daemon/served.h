/*
 * served.h - a service in a child process, and how tests speak to it
 *
 * Why:     recorder_test.c and hostile_test.c need the same service, commands and good clients.
 * Shapes:  served_start and served_stop are set-up and tear-down of a group of tests. Clients are
 *          processes of their own: served_run begins one, served_end kills it. What served_hear
 *          heard last is in served_body, with a NUL behind it.
 */
#ifndef HW_TESTS_UNIT_DAEMON_SERVED_H
#define HW_TESTS_UNIT_DAEMON_SERVED_H

#include "test.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "wire/control.h"
#include "wire/ring.h"

extern char served_dir[64], served_producer[100], served_consumer[100];
extern pid_t served_pid;
extern unsigned served_stop_timeout_ms; /* of the next sessions; 0 = the usual one */
extern char served_body[HW_CONTROL_MAX_BYTES];
extern int served_done[2]; /* a client writes a byte when all it had to say is in its ring */

int served_start(void **state);
int served_stop(void **state);
int served_descriptors(void); /* that the service has open */
int served_dial(const char *path);

/* ---- commands ---- */
void served_tell(int fd, uint32_t type, const void *sent, size_t n, int pass);
/* Waits for a message of this type (and state, for targets). */
bool served_hear(int fd, uint32_t type, uint32_t state, int32_t pid);
/* options: of heapprofd_config, at interval 1. Gives the command's connection. */
int served_record(const char *options, int out);
int served_record_with(const char *options, uint32_t flags, int out); /* enum hw_start_flags */
void served_wait_for_no_session(void);

/* ---- clients ---- */
bool served_shake_hands(struct hw_ring_writer *w);
void served_send_allocations(struct hw_ring_writer *w, int n); /* of 10 bytes */
void served_good_client(int n);                                /* these, and then it stays */
void served_wait_until_done(void);                             /* a good one has sent them */
pid_t served_run(void (*fn)(int), int arg);
void served_end(pid_t pid);

#endif
