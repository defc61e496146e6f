/*
 * holder.h - another recorder: whether it exists, and which command it belongs to
 *
 * Why:     a process or socket name can belong to one recorder only. The second has to name the
 *          first in terms that help the user.
 * Shapes:  a recorder is named by its socket, its process by the socket's peer. An embedded one is
 *          a child of its command, and that command is reported. Of another user's process only the
 *          pid is reported, unless to root.
 */
#ifndef HW_DAEMON_CODE_HOLDER_H
#define HW_DAEMON_CODE_HOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hw_requester;
struct hw_blocking_reader;

/* Does anybody listen at this name? For names of our own choice: hw_reading_listens is for what
 * others name. pid: its process; 0 = not known, or in another namespace. */
bool hw_holder_listens(const char *socket, int32_t *pid);
/* Is it an embedded recorder whose command lives? */
bool hw_holder_has_command(int32_t pid);
/* "process 12, 'heap_profile -p 7'"; "" if nothing is known. */
void hw_holder_describe(struct hw_blocking_reader *l, const struct hw_requester *who, int32_t pid,
                        char *out, size_t max);

#endif
