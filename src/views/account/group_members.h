/*
 * group_members.h - a memory cgroup: its figures and those of its recorded processes
 *
 * Why:     a container is killed for what all its processes hold together. The account of each says
 *          whose memory it is, the kernel how much the group has.
 * Shapes:  a reading with figures of a group gives the moment and the group. Each process of that
 *          group that existed then is a member, with its reading nearest to the moment. Shared
 *          pages are divided among all processes that share them, recorded or not (pss), so sums
 *          over members count nothing twice.
 * Units:   bytes; -1 = the kernel did not say.
 * Errors:  HW_ENOMEM; HW_ENOTFOUND: no reading has figures of a group.
 * Cost:    that of memory_parts.h for each member.
 * Threads: pure; the profile must be frozen.
 * Source:  doc/design/accounting.md
 */
#ifndef HW_VIEWS_ACCOUNT_GROUP_MEMBERS_H
#define HW_VIEWS_ACCOUNT_GROUP_MEMBERS_H

#include <stddef.h>
#include <stdint.h>

#include "views/account/memory_parts.h"
#include "views/time/series.h"

/* What the kernel counts separately: id, counter, the kernel's word. */
#define HW_GROUP_KINDS(X)                                                                          \
    X(ANON, "cgroup.anon", "anon")                                                                 \
    X(FILE, "cgroup.file", "file")                                                                 \
    X(SHMEM, "cgroup.shmem", "shmem")                                                              \
    X(KERNEL, "cgroup.kernel", "kernel")                                                           \
    X(SOCK, "cgroup.sock", "sock")

enum hw_group_kind {
#define X(ID, counter, word) HW_GROUP_##ID,
    HW_GROUP_KINDS(X)
#undef X
        HW_GROUP_KIND_COUNT
};

struct hw_group_member {
    hw_upid upid;
    int64_t ts_ns;                     /* of its reading */
    double rss, pss;                   /* in memory, without swap */
    double kinds[HW_GROUP_KIND_COUNT]; /* pss; file: without shmem; kernel: page tables */
};

struct hw_group_members {
    int64_t ts_ns;
    double current, limit, kinds[HW_GROUP_KIND_COUNT]; /* the kernel's; file: without shmem */
    HW_VEC(struct hw_group_member) members;            /* the largest first */
    double of_members[HW_GROUP_KIND_COUNT];
    double parts[HW_PART_COUNT]; /* of all members, pss */
    size_t n_ended, n_elsewhere; /* recorded processes that did not exist then; of other groups */
};

/* At the reading nearest to *ts_ns; ts_ns NULL: the one with the most in the group. */
int hw_group_members_find(const struct hw_profile *p, const struct hw_series_list *list,
                          const int64_t *ts_ns, struct hw_group_members *out);
void hw_group_members_done(struct hw_group_members *g);
const char *hw_group_kind_name(enum hw_group_kind k);

#endif
