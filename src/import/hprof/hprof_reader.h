/* hprof.h - see import.h */
#ifndef HW_IMPORT_HPROF_HPROF_H
#define HW_IMPORT_HPROF_HPROF_H

#include "import/import.h"

extern const struct hw_importer hw_import_hprof;

#endif
