/* Any bytes as a Java heap dump, and what is said of it. */
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "import/hprof/hprof_reader.h"
#include "model/profile.h"

#include "lib/ask_graphs.h"
#include "lib/write_hprof.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct hw_profile *p;
    struct hw_bytes file = hw_bytes_of(data, n);
    (void)hw_import_hprof.probe(file);
    if (hw_profile_new(&p) < 0)
        return 0;
    if (hw_import_hprof.read(file, p, NULL) == 0 && hw_profile_freeze(p) == 0) {
        ask_graphs(p);
        write_hprof(p);
    }
    hw_profile_free(p);
    return 0;
}
