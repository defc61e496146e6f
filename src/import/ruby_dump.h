/* ruby_dump.h - see import.h */
#ifndef HW_IMPORT_RUBY_DUMP_H
#define HW_IMPORT_RUBY_DUMP_H

#include "import/import.h"

extern const struct hw_importer hw_import_ruby;

#endif
