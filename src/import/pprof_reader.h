/* pprof_reader.h - the table's entry for pprof heap profiles */
#ifndef HW_IMPORT_PPROF_READER_H
#define HW_IMPORT_PPROF_READER_H

#include "import/import.h"

extern const struct hw_importer hw_import_pprof;

#endif
