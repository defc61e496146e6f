/*
 * code_packages.h - which Android package code belongs to
 *
 * Why:     two obfuscated apps use the same short names, so a name map applies to one package only.
 * Shapes:  the package is known from the installation path, else from the process in which the code
 *          was seen: callsites are visited in the order of the native samples, the CPU samples and
 *          the threads of heap graphs, and a frame keeps the first package found for it.
 * Owns:    its columns; the profile is borrowed and must not get frames or processes meanwhile.
 * Errors:  HW_ENOMEM.
 * Source:  doc/formats/reading.md
 */
#ifndef HW_IMPORT_CODE_PACKAGES_H
#define HW_IMPORT_CODE_PACKAGES_H

#include <stdbool.h>

#include "base/bytes.h"
#include "base/text/strings.h"
#include "model/ids.h"

struct hw_profile;

struct hw_code_packages {
    hw_str_id *of_process; /* by process, from the list of packages; 0 = unknown */
    hw_str_id *of_frame;   /* by frame, from a process it was seen in; 0 = unknown */
};

/* Installation paths without a package are counted in the profile. */
int hw_code_packages_init(struct hw_code_packages *c, struct hw_profile *p);
void hw_code_packages_done(struct hw_code_packages *c);

/* From the path alone; n = 0: unknown. Points into the path or to a constant. */
struct hw_bytes hw_package_of_path(struct hw_bytes path);

#endif
