/*
 * client_session.h - handshakes, and what a thread does about them
 */
#ifndef HW_CLIENT_SESSION_CLIENT_SESSION_H
#define HW_CLIENT_SESSION_CLIENT_SESSION_H

#include "client/client.h"

void hw_client_session_sync(struct hw_tls *t, uint32_t generation);
/* In a forked child that has no answer yet: its threads have their generation from the parent, where
 * it was settled. A sync then counts what is due as lost, unless it asks again. */
bool hw_client_session_is_unanswered(void);
bool hw_client_session_may_retry(uint32_t generation); /* and a try is due */
void hw_client_session_start(uint32_t hello_flags, uint64_t timeout_ns);
/* A sample is due that was drawn with this interval, without a session. Asks the recorder and
 * waits briefly. True: a session runs in which that draw is valid, and the thread has joined it. */
bool hw_client_session_request(struct hw_tls *t, uint64_t interval);
/* The program is about to restrict its system calls: an armed process asks now or never. */
void hw_client_session_request_last(void);
void hw_client_session_stop(struct hw_client_session *s);
void hw_client_session_forked(void); /* the live page was found wiped */
bool hw_client_session_strips(void); /* the recorder wants our children not to inherit us */
bool hw_client_session_strips_children(void);
void hw_client_session_init(const char *socket_path, const char *other_path); /* "" = no other */
/* The same for a process that already runs: its next allocation makes the handshake with the
 * recorder there. */
void hw_client_session_call(const char *socket_path, uint32_t generation);

extern HW_HIDDEN struct hw_client_session
    *hw_client_session_last; /* survives a fork, unlike the live page's pointer */

/* What we have mapped, in pieces: everything, or what goes when the session is over. Outside of
 * any visit. */
void hw_client_session_each_mapping(void (*fn)(void *arg, const void *at, uint64_t n_bytes),
                                    void *arg, bool of_session);
/* Ends the session, because the program needs the memory. false: a thread is still using it. */
bool hw_client_session_evict(void);

/* The recording is over and no hook will be called any more: unmaps the rest. false: a thread is
 * still using some of it. */
bool hw_client_session_detach(void);
bool hw_client_session_has_recorder(void); /* and it is alive */

#endif
