/* Any bytes as a name map. */
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "codec/pb.h"
#include "enrich/proguard.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct hw_proguard *m;
    struct hw_pb out = {0};
    if (hw_proguard_parse(hw_bytes_of(data, n), &m, NULL) < 0)
        return 0;
    (void)hw_proguard_write(m, hw_bytes_str("com.example"), &out); /* fails only without memory */
    hw_pb_done(&out);
    hw_proguard_free(m);
    return 0;
}
