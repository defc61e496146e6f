/*
 * system.h - what a trace has besides heaps: threads, installed packages, marks
 *
 * Owns:    its rows; strings belong to the profile.
 * Source:  doc/design/sql.md; doc/formats/trace.md
 */
#ifndef HW_MODEL_SYSTEM_H
#define HW_MODEL_SYSTEM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/memory/map64.h"
#include "base/memory/vec.h"
#include "base/text/strings.h"
#include "model/ids.h"

struct hw_profile;

struct hw_thread {
    int64_t tid;
    hw_str_id name; /* 0 = unknown */
    hw_upid upid;
    bool is_main;
};

struct hw_threads {
    HW_VEC(struct hw_thread) rows;
    struct hw_map64 by_tid; /* upid << 32 | tid -> row */
};

struct hw_package_row {
    hw_str_id name;
    int64_t uid, version_code;
    bool debuggable, profileable_from_shell;
};

struct hw_android_user { /* a user of Android, not a uid of the kernel */
    int64_t id;
    hw_str_id type;
};

struct hw_mark_row { /* a moment that was given a name while recording */
    int64_t ts_ns;
    hw_str_id name;
};

/* Finds or adds a thread of a process; name 0 keeps the old one. */
int hw_profile_thread(struct hw_profile *p, hw_upid upid, int64_t tid, hw_str_id name,
                      uint32_t *row /* may be NULL */);

#endif
