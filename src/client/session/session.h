/*
 * session.h - handshakes, and what a thread does about them
 */
#ifndef HW_CLIENT_SESSION_SESSION_H
#define HW_CLIENT_SESSION_SESSION_H

#include "client/client.h"

void hw_client_session_settle(struct hw_tls *t, uint32_t generation);
void hw_client_session_start(uint32_t hello_flags, uint64_t timeout_ns);
/* A sample is due that was drawn with this interval, without a session. True: one runs by now for
 * which that counts, and the thread is in it. Waits for an answer, a moment. */
bool hw_client_session_ask(struct hw_tls *t, uint64_t interval);
/* The program is about to give up its calls: whoever is armed asks now, or never can. */
void hw_client_session_ask_last(void);
void hw_client_session_stop(struct hw_client_session *s);
void hw_client_session_forked(void); /* the live page was found wiped */
bool hw_client_session_strips(void); /* the recorder wants this process not to hand us on */
bool hw_client_session_strips_children(void);
void hw_client_session_init(const char *socket_path, const char *other_path); /* "" = no other */

extern HW_HIDDEN struct hw_client_session
    *hw_client_session_last; /* survives a fork, unlike the live page's pointer */

/* What we have mapped, in pieces: all, or what goes when the session is over. Outside of any visit.
 */
void hw_client_session_each_mapping(void (*fn)(void *arg, const void *at, uint64_t n_bytes),
                                    void *arg, bool of_session);
/* Ends the session, because the program wants the room. false: somebody is using it still. */
bool hw_client_session_make_way(void);

/* The recording is over and nobody will call a hook any more: all that is left goes. */
void hw_client_session_detach(void);
bool hw_client_session_busy(void); /* a recorder has us, and is alive */

#endif
