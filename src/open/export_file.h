/*
 * export_file.h - an exporter's output into a file
 *
 * Shapes:  "-" is standard output; a name that ends in .gz is packed, whatever the format.
 * Errors:  HW_ESYS, and those of the exporter; what was written by then stays.
 */
#ifndef HW_OPEN_EXPORT_FILE_H
#define HW_OPEN_EXPORT_FILE_H

#include "export/export.h"

int hw_export_to(const struct hw_exporter *e, const struct hw_export_input *in,
                 const char *out_path, struct hw_error *err);
/* All processes and dumps of a file, by an exporter that writes those. */
int hw_export_file(const struct hw_exporter *e, const char *in_path, const char *out_path,
                   struct hw_error *err);

/* The format that a file's name ends in; NULL = none. */
const struct hw_exporter *hw_exporter_of_file(const char *out);

#endif
