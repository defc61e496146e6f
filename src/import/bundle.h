/* bundle.h - archives with a trace, its symbols and its name maps; see import.h */
#ifndef HW_IMPORT_BUNDLE_H
#define HW_IMPORT_BUNDLE_H

struct hw_importer;

extern const struct hw_importer hw_import_bundle;

#endif
