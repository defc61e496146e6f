/* heaptrack_reader.h - see import.h */
#ifndef HW_IMPORT_HEAPTRACK_READER_H
#define HW_IMPORT_HEAPTRACK_READER_H

#include "import/import.h"

extern const struct hw_importer hw_import_heaptrack;

#endif
