/* v8.h - see import.h */
#ifndef HW_IMPORT_V8_V8_H
#define HW_IMPORT_V8_V8_H

#include "import/import.h"

extern const struct hw_importer hw_import_v8_snapshot; /* .heapsnapshot: a graph of objects */
extern const struct hw_importer hw_import_v8_profile;  /* .heapprofile: sampled allocations */

#endif
