/* perfetto.h - traces read from a descriptor, in windows; the table's entry reads from memory */
#ifndef HW_IMPORT_PERFETTO_PERFETTO_H
#define HW_IMPORT_PERFETTO_PERFETTO_H

#include "import/import.h"

struct hw_error;
struct hw_profile;

extern const struct hw_importer hw_import_perfetto;

/* Only the packets that name what `into` has already: symbols, original names. */
int hw_import_perfetto_names(struct hw_bytes file, struct hw_profile *into, struct hw_error *err);

#endif
