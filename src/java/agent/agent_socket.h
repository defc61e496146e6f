/*
 * agent_socket.h - where our library in a JVM is found, once it is there
 *
 * Why:     if the client loaded the library (wire/java_entrance.h), nobody has to ask the JVM for
 *          anything: a process that wants a heap graph connects.
 * Shapes:  an abstract SOCK_SEQPACKET socket, named after the process's number and its pid
 *          namespace, since several of them may share one network namespace, and after the
 *          protocol, since a JVM may run for longer than one of our versions is installed. Behind a
 *          connection it is java/protocol.h, as with a library that was loaded by the attach
 *          protocol.
 * Errors:  none. A name proves nothing: both sides check the other's credentials.
 */
#ifndef HW_JAVA_AGENT_AGENT_SOCKET_H
#define HW_JAVA_AGENT_AGENT_SOCKET_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "java/protocol.h"

/* pid: as the process calls itself; pid_namespace: inode of /proc/PID/ns/pid. */
static inline socklen_t hw_java_agent_address(uint64_t pid_namespace, int32_t pid,
                                              struct sockaddr_un *out)
{
    memset(out, 0, sizeof *out);
    out->sun_family = AF_UNIX;
    int n = snprintf(out->sun_path + 1, sizeof out->sun_path - 1, "heapwise-java-%u-%llu-%d",
                     HW_JAVA_PROTOCOL, (unsigned long long)pid_namespace, pid);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

#endif
