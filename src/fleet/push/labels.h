/*
 * labels.h - what is said of every profile that leaves this machine
 *
 * Shapes:  names are letters, digits and '_', not beginning with a digit; other bytes become '_'.
 *          Nothing comes from the environment by itself.
 * Owns:    its copies.
 * Errors:  HW_EINVAL (no '='), HW_ENOMEM, HW_ELIMIT (more than HW_LABELS_MAX).
 * Source:  doc/design/fleet.md, "What a dump becomes"
 */
#ifndef HW_FLEET_PUSH_LABELS_H
#define HW_FLEET_PUSH_LABELS_H

#include <stddef.h>

#include "base/memory/vec.h"
#include "base/text/strbuf.h"
#include "model/profile.h"

struct hw_error;

#define HW_LABELS_MAX      64u
#define HW_LABEL_MAX_BYTES 1024u

struct hw_label {
    char *name, *value; /* owned */
};

struct hw_fleet_labels {
    const char *service; /* borrowed; NULL = each process's name */
    const char *host;    /* borrowed; NULL = this machine's */
    const char *version; /* borrowed; NULL = "" */
    char own_host[256];
    HW_VEC(struct hw_label) more;
};

void hw_fleet_labels_init(struct hw_fleet_labels *l); /* finds this machine's name */
void hw_fleet_labels_done(struct hw_fleet_labels *l);
/* "name=value"; a later one of a name takes the place of the one before. service, host and version
 * set those. */
int hw_fleet_labels_add(struct hw_fleet_labels *l, const char *pair, struct hw_error *err);

struct hw_file_label { /* borrowed from the profile */
    const char *name;
    struct hw_bytes value;
};

/* What a profile says of one process. What is said by hand counts more than what the file says. */
struct hw_fleet_process {
    struct hw_bytes service;   /* borrowed from labels or profile: else the unit, else the name */
    struct hw_bytes host;      /* the same; else this machine */
    struct hw_strbuf build_id; /* of its program, as text; "" when not known */
    struct hw_file_label more[2];  /* unit, container: where they are known and not given */
    struct hw_bytes unknown_since; /* a time; before the period nothing is known. Empty = no gap */
    size_t n_more;
};
int hw_fleet_process_init(struct hw_fleet_process *f, const struct hw_profile *p, hw_upid upid,
                          const struct hw_fleet_labels *l);
void hw_fleet_process_done(struct hw_fleet_process *f);

#endif
