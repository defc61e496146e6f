/*
 * root_path.h - names inside another process's root
 *
 * Why:     what a name leads to in there is the target's choice: links, also absolute ones, which
 *          the kernel would follow in our root; folders that are swapped between two looks; pipes
 *          and devices. So a name is resolved once, below a descriptor of that root, and everything
 *          after is done with the descriptor it gave. No other file builds a path with
 *          /proc/PID/root or opens "root" of a process (tools/check-homes).
 * Shapes:  a found descriptor is O_PATH: nothing was opened yet, so nothing can wait or be set off.
 * Owns:    descriptors given are the caller's.
 * Errors:  -1 with errno. ELOOP: a link where none may be. ESTALE: not what it has to be.
 * Source:  openat2(2); doc/design/service.md
 */
#ifndef HW_PROC_ROOT_PATH_H
#define HW_PROC_ROOT_PATH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

enum hw_root_links {
    HW_ROOT_NO_LINKS,  /* where we create, connect or remove */
    HW_ROOT_LAST_NONE, /* the last part is none; others stay inside */
    HW_ROOT_LINKS      /* they stay inside the root; those of /proc are never followed */
};

int hw_root_open(int proc_dir);
int hw_root_cwd(int proc_dir);
bool hw_root_is_ours(int proc_dir); /* by its name: mount namespaces are another matter */

/* root: any directory that names shall not lead out of. */
int hw_root_find(int root, const char *path, enum hw_root_links links);
/* A regular file, to be read; never waits for a pipe or a device. */
int hw_root_read(int found, struct stat *st);
/* The file of a name that we would create, connect to or remove. max: at least HW_ROOT_NAME_MAX. */
#define HW_ROOT_NAME_MAX 108
void hw_root_name(int dir, const char *name, char out[HW_ROOT_NAME_MAX]);

/* May a file of owner's be believed by a target of user uid? His, root's, or of the root of the
 * user namespace that the target is in. */
bool hw_root_trusts(int proc_dir, uint32_t owner, uint32_t uid);
/* The target's /tmp, where only the owner of a file and who is trusted can rename or remove it. */
int hw_root_tmp(int proc_dir, uint32_t uid);

#endif
