/* hprof_reader.h - see import.h */
#ifndef HW_IMPORT_HPROF_HPROF_READER_H
#define HW_IMPORT_HPROF_HPROF_READER_H

#include "import/import.h"

extern const struct hw_importer hw_import_hprof;

#endif
