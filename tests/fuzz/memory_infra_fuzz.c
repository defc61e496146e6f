/* Any bytes as a JSON trace with memory dumps: read, and its addresses given names. */
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "codec/source.h"
#include "import/memory_infra/memory_infra_names.h"
#include "import/memory_infra/memory_infra_reader.h"
#include "model/profile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static int drop(void *ctx, struct hw_bytes bytes, struct hw_error *err)
{
    (void)ctx;
    (void)bytes;
    (void)err;
    return 0;
}

static void exchange_names(const uint8_t *data, size_t n)
{
    static const char *const names[] = {"inlined", "outer"};
    struct hw_infra_names *x;
    struct hw_source source;
    size_t n_addresses;
    if (hw_source_bytes(hw_bytes_of(data, n), &source) < 0)
        return;
    int rc = hw_infra_names_read(&source, &x, NULL);
    hw_source_done(&source);
    if (rc < 0)
        return;
    (void)hw_infra_names_addresses(x, &n_addresses);
    for (size_t i = 0; rc == 0 && i < n_addresses; i++)
        rc = hw_infra_names_set(x, i, names, 1 + i % 2);
    hw_infra_names_frames_as_types(x);
    if (rc == 0 && hw_source_bytes(hw_bytes_of(data, n), &source) == 0) {
        (void)hw_infra_names_write(x, &source, drop, NULL, NULL);
        hw_source_done(&source);
    }
    hw_infra_names_free(x);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct hw_profile *p;
    exchange_names(data, n);
    (void)hw_import_memory_infra.probe(hw_bytes_of(data, n));
    if (hw_profile_new(&p) < 0)
        return 0;
    if (hw_import_memory_infra.read(hw_bytes_of(data, n), p, NULL) == 0)
        (void)hw_profile_freeze(p); /* fails only without memory */
    hw_profile_free(p);
    return 0;
}
