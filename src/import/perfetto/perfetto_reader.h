/* perfetto_reader.h - traces with packets; see import.h */
#ifndef HW_IMPORT_PERFETTO_PERFETTO_READER_H
#define HW_IMPORT_PERFETTO_PERFETTO_READER_H

#include "import/import.h"

struct hw_error;
struct hw_profile;

extern const struct hw_importer hw_import_perfetto;

/* Reads only the packets that name frames of `into`: symbols, original names. */
int hw_import_perfetto_names(struct hw_bytes file, struct hw_profile *into, struct hw_error *err);

#endif
