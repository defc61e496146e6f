/*
 * labels.h - the labels of every profile that leaves this machine
 *
 * Shapes:  names are letters, digits and '_', not starting with a digit; other bytes become '_'.
 *          Nothing is taken from the environment implicitly.
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
/* "name=value"; a repeated name replaces the earlier value. service, host and version set these
 * members. */
int hw_fleet_labels_add(struct hw_fleet_labels *l, const char *pair, struct hw_error *err);

struct hw_file_label { /* borrowed from the profile */
    const char *name;
    struct hw_bytes value;
};

/* The labels of one process. Labels given by the user override the file's. */
struct hw_fleet_process {
    struct hw_bytes service;       /* borrowed: as given, else the unit, else the name */
    struct hw_bytes host;          /* the same; else this machine */
    struct hw_strbuf build_id;     /* of its program, as text; "" = unknown */
    struct hw_file_label more[2];  /* unit, container: if known and not given */
    struct hw_bytes unknown_since; /* start of a gap in the recording before this; empty = none */
    size_t n_more;
};
int hw_fleet_process_init(struct hw_fleet_process *f, const struct hw_profile *p, hw_upid upid,
                          const struct hw_fleet_labels *l);
void hw_fleet_process_done(struct hw_fleet_process *f);

#endif
