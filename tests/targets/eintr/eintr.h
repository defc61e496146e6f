/* eintr.h - what the parts of eintr.c share: a mode is a blocking call, and what it needs before and after */
#ifndef HW_TESTS_TARGETS_EINTR_H
#define HW_TESTS_TARGETS_EINTR_H

#include <signal.h>
#include <stdint.h>
#include <time.h>

#define WAIT_MS 100
#define PACE_MS 15 /* of who feeds */
#define BIG     (1u << 20)

#define NEVER_EARLY 1 /* takes WAIT_MS */
#define NO_THREAD   2 /* feeds by process, or is about signals */

struct mode {
    const char *name;
    void (*begin)(void);
    int (*once)(void); /* 0: as it should be */
    int flags;
    void (*end)(void);
};

/* Each ends with a mode without a name. */
extern const struct mode timeout_modes[], arrival_modes[], transfer_modes[];

extern const struct timespec a_wait; /* WAIT_MS */
extern __thread int fds[2];
extern __thread uint32_t sequence;
extern __thread uint8_t *big; /* BIG bytes */
extern char folder[18];       /* of this run */
extern volatile sig_atomic_t n_handled;
extern int a_status; /* of a thread */

uint64_t now_us(void);
struct timespec later(clockid_t clock);
void pace(void);
void handle(int s);
/* A child that does this for ever. */
void feeder(void (*feed)(void));
int wants(long rc, long want);
int times_out(long rc, int error);

void epoll_begin(void);
int epoll_wait_(void);
void sem_begin(void);
void sem_end(void);
void set_time(int fd, int which);

#endif
