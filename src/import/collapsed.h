/* collapsed.h - see import.h */
#ifndef HW_IMPORT_COLLAPSED_H
#define HW_IMPORT_COLLAPSED_H

#include "import/import.h"

extern const struct hw_importer hw_import_collapsed;

#endif
