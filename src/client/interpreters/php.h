/*
 * php.h - replaces the engine's own frames by PHP's functions
 *
 * Why:     a PHP program's native stack consists of execute_ex. Which functions each of these ran is
 *          in the engine's list of frames, which we read ourselves.
 * Shapes:  as chain.h: a process has one interpreter.
 * Errors:  if the frames do not fit the native stack, that stays as it is, and is counted.
 * Threads: as chain.h. The engine has one thread; others have no execute_ex in their stacks.
 * Source:  doc/design/php.md
 */
#ifndef HW_CLIENT_INTERPRETERS_PHP_H
#define HW_CLIENT_INTERPRETERS_PHP_H

#include <stdint.h>

struct hw_client_session;
struct hw_mixed_stack;
struct hw_chain;
struct hw_walk_out;

/* Stores PHP's part of a walked stack in *p and gives its hash, 0 = there is none. */
uint64_t hw_php_find_frames(struct hw_client_session *s, const struct hw_walk_out *o,
                            struct hw_chain *p);
/* Inserts that part into the stack. */
void hw_php_insert(const struct hw_chain *p, struct hw_mixed_stack *m);

#endif
