/* memory_infra_reader.h - the table's entry for Chrome's JSON traces with memory dumps */
#ifndef HW_IMPORT_MEMORY_INFRA_MEMORY_INFRA_READER_H
#define HW_IMPORT_MEMORY_INFRA_MEMORY_INFRA_READER_H

#include "import/import.h"

extern const struct hw_importer hw_import_memory_infra;

#endif
