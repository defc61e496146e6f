/*
 * userns.h - who owns a process's user namespace
 *
 * Why:     the creator of a user namespace may do everything in it (a container without root), also
 *          to other users' processes. Seen from the namespace that contains it, only.
 * Shapes:  a namespace is named by its inode.
 */
#ifndef HW_PROC_RIGHTS_USERNS_H
#define HW_PROC_RIGHTS_USERNS_H

#include <stdbool.h>
#include <stdint.h>

#define HW_USERNS_FIRST                                                                            \
    UINT64_C(0xEFFFFFFD)        /* the machine's, on every kernel: PROC_USER_INIT_INO */
#define HW_USERNS_NOBODY 65534u /* an id that ours has no number for */

/* Of one of its namespaces, "ns/net" or another file of that folder; 0 = may not be known. */
uint64_t hw_ns_inode(int proc_dir, const char *link);
uint64_t hw_userns_inode(int proc_dir);
/* Is the process in that one, or below it? */
bool hw_userns_is_below(int proc_dir, uint64_t ns);
/* Did this user, in namespace `ns`, make the process's user namespace, or one between the two? */
bool hw_userns_is_of(int proc_dir, uint32_t uid, uint64_t ns);
/* Does the process's namespace have a number of its own for this id of ours? map: uid_map or
 * gid_map. */
bool hw_userns_maps(int proc_dir, const char *map, uint32_t id);

#endif
