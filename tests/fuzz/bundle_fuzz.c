/* Any bytes as an archive: members stay inside it, and a bundle of them is read or refused. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "codec/tar.h"
#include "import/bundle.h"
#include "import/import.h"
#include "model/profile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct hw_tar t = {.file = hw_bytes_of(data, n)};
    struct hw_tar_member m;
    struct hw_profile *p;
    uint64_t before = 0;
    while (hw_tar_next(&t, &m, NULL) == 1) {
        if (t.pos <= before || t.pos > n ||
            (m.bytes.n && (m.bytes.p < data || m.bytes.p + m.bytes.n > data + n)))
            abort();
        before = t.pos;
    }
    if (hw_profile_new(&p) < 0)
        return 0;
    if (hw_import_bundle.read(t.file, p, NULL) == 0)
        (void)hw_profile_freeze(p); /* fails only without memory */
    hw_profile_free(p);
    return 0;
}
