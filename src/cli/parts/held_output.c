#include "cli/parts/held_output.h"

#include <stdlib.h>

#include "base/error.h"

#include "base/banned.h"

int hw_held_output_begin(struct hw_held_output *h)
{
    *h = (struct hw_held_output){.out = stdout};
    FILE *kept = open_memstream(&h->text, &h->n);
    if (!kept)
        return HW_ENOMEM;
    stdout = kept; /* an assignable variable in glibc and musl */
    return HW_OK;
}

int hw_held_output_end(struct hw_held_output *h, bool show)
{
    bool failed = ferror(stdout) != 0;
    failed |= fclose(stdout) != 0;
    stdout = h->out;
    if (show && !failed)
        (void)fwrite(h->text, 1, h->n, stdout); /* the stream remembers a failure */
    free(h->text);
    return failed ? HW_ENOMEM : HW_OK;
}
