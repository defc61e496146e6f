/* Any bytes as heaptrack's data, as folded stacks, and as what V8 and Ruby write. */
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "import/collapsed.h"
#include "import/heaptrack_reader.h"
#include "import/ruby_dump.h"
#include "import/v8/v8.h"
#include "model/profile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void read_as(const struct hw_importer *importer, struct hw_bytes file)
{
    struct hw_profile *p;
    (void)importer->probe(file);
    if (hw_profile_new(&p) < 0)
        return;
    if (importer->read(file, p, NULL) == 0)
        (void)hw_profile_freeze(p); /* fails only without memory */
    hw_profile_free(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    read_as(&hw_import_heaptrack, hw_bytes_of(data, n));
    read_as(&hw_import_collapsed, hw_bytes_of(data, n));
    read_as(&hw_import_v8_snapshot, hw_bytes_of(data, n));
    read_as(&hw_import_v8_profile, hw_bytes_of(data, n));
    read_as(&hw_import_ruby, hw_bytes_of(data, n));
    return 0;
}
