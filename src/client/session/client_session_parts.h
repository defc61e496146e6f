/* client_session_parts.h - what the files of this folder share */
#ifndef HW_CLIENT_SESSION_CLIENT_SESSION_PARTS_H
#define HW_CLIENT_SESSION_CLIENT_SESSION_PARTS_H

#include "client/client.h"

/* What is remembered about the newest session when it is over, also in a forked child. */
struct hw_session_newest {
    uint32_t tag;            /* 0 = there was none */
    _Atomic uint32_t flags;  /* enum hw_client_config_flags */
    uint64_t interval_bytes; /* of the C heap */
};
extern HW_HIDDEN struct hw_session_newest hw_session_newest;

extern HW_HIDDEN _Atomic uint32_t
    hw_session_known;                        /* generation of the control page; client_session.c */
extern HW_HIDDEN bool hw_session_is_started; /* our constructor has run, or the first attach */

/* Under the lock: the thread that asks, and since when; NULL and 0 = none. */
extern HW_HIDDEN _Atomic(const struct hw_tls *) hw_session_handshaking;
extern HW_HIDDEN _Atomic uint64_t hw_session_handshake_since_ns;

/* Tries once: false = another thread has it. */
bool hw_session_lock(void);
void hw_session_unlock(void);
/* Under the lock, outside of any visit: unmaps what is over and idle. */
void hw_session_reap(void);
void hw_session_unmap(struct hw_client_session *s);
void hw_session_forget_retired(void); /* in a forked child */

#endif
