/* Any bytes as a pprof profile. */
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "import/pprof_reader.h"
#include "model/profile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct hw_profile *p;
    struct hw_bytes file = hw_bytes_of(data, n);
    (void)hw_import_pprof.probe(file);
    if (hw_profile_new(&p) < 0)
        return 0;
    if (hw_import_pprof.read(file, p, NULL) == 0)
        (void)hw_profile_freeze(p); /* fails only without memory */
    hw_profile_free(p);
    return 0;
}
