/*
 * jvm_files.h - files and sockets that we and a JVM share, in the JVM's folders
 *
 * Why:     the JVM's user controls those folders, and may be hostile to the asker (root). So a
 *          folder is found once (proc/root_path.h), everything is created and removed in it with
 *          the rights of the JVM's user, and what lies there is checked before it is used.
 * Shapes:  dir is a descriptor of the folder; names have no slash. A path for the JVM is
 *          HW_JVM_TMP "/" name.
 * Owns:    descriptors given are the caller's.
 * Errors:  enum hw_java_reason > 0 with err; 0 = good.
 * Threads: any.
 */
#ifndef HW_JAVA_JVM_JVM_FILES_H
#define HW_JAVA_JVM_JVM_FILES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "java/jvm/jvm_attach.h"

#define HW_JVM_TMP      "/tmp"
#define HW_JVM_NAME_MAX 64

struct hw_error;

int hw_jvm_tmp(const struct hw_jvm *jvm, int *out, struct hw_error *err);
/* A name that nobody can guess. */
int hw_jvm_choose_name(char out[HW_JVM_NAME_MAX], const char *ending, struct hw_error *err);

/* A listening SOCK_SEQPACKET socket whose file is the JVM's user's. */
int hw_jvm_listen(const struct hw_jvm *jvm, int dir, const char *name, int *out,
                  struct hw_error *err);
int hw_jvm_copy(const struct hw_jvm *jvm, int dir, const char *name, const char *from,
                struct hw_error *err);
/* An empty file; -1 with errno. EEXIST: it was there. */
int hw_jvm_touch(const struct hw_jvm *jvm, int dir, const char *name);
void hw_jvm_remove(const struct hw_jvm *jvm, int dir, const char *name); /* gone already is fine */

/* Whether a socket lies there: 1, 0; HW_JAVA_NOT_OWN as -reason when something else does. */
int hw_jvm_socket(const struct hw_jvm *jvm, int dir, const char *name);
/* A stream to the JVM itself, which can neither be sent nor waited at for longer than its silence
 * may last. *refused: nobody listens. */
int hw_jvm_connect(const struct hw_jvm *jvm, int dir, const char *name, int *out, bool *refused,
                   struct hw_error *err);
/* A regular file of its own, for reading. */
int hw_jvm_read(const struct hw_jvm *jvm, int dir, const char *name, int *out,
                struct hw_error *err);

/* Whether the JVM is at the other end. */
bool hw_jvm_is_peer(const struct hw_jvm *jvm, int socket);
/* Sending to it, and connecting, wait for so long. */
void hw_jvm_set_timeouts(const struct hw_jvm *jvm, int socket);

#endif
