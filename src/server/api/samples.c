#include "server/api/samples.h"

#include <string.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "samples_embedded.h"

#include "base/banned.h"

#define SAMPLE(trace)                                                                              \
    {                                                                                              \
        hw_embedded_##trace##_trace_gz, sizeof hw_embedded_##trace##_trace_gz - 1                  \
    }

const struct hw_sample hw_samples[] = {
    {"server", "a server in C that leaks", SAMPLE(server)},
    {"report", "a Python program, freed by its end", SAMPLE(report)},
    {"shop", "the heap of a JVM, three times", SAMPLE(shop)},
};
const size_t hw_n_samples = HW_ARRAY_LEN(hw_samples);

const struct hw_sample *hw_sample_find(const char *name)
{
    for (size_t i = 0; i < hw_n_samples; i++)
        if (strcmp(hw_samples[i].name, name) == 0)
            return &hw_samples[i];
    return NULL;
}

int hw_sample_open(const struct hw_sample *s, struct hw_error *err)
{
    hw_autofd int fd = hw_fd_temp("/tmp");
    if (fd < 0 || hw_fd_write_all(fd, s->packed.p, s->packed.n) < 0) {
        (void)hw_fail_sys(err, "cannot unpack the sample '%s'", s->name);
        return -1;
    }
    return hw_fd_take(&fd);
}
