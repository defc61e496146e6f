/* Any bytes as a JSON trace with memory dumps. */
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "import/memory_infra.h"
#include "model/profile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct hw_profile *p;
    (void)hw_import_memory_infra.probe(hw_bytes_of(data, n));
    if (hw_profile_new(&p) < 0)
        return 0;
    if (hw_import_memory_infra.read(hw_bytes_of(data, n), p, NULL) == 0)
        (void)hw_profile_freeze(p); /* fails only without memory */
    hw_profile_free(p);
    return 0;
}
