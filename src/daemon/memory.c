#include "daemon/memory.h"

#include <unistd.h>

#include "base/machine_memory.h"
#include "proc/pid.h"

#include "base/banned.h"

uint64_t hw_memory_of_one_target(void)
{
    return hw_memory_there_is() / 4;
}

uint64_t hw_memory_of_recorder(void)
{
    return hw_memory_there_is() / 2;
}

uint64_t hw_memory_own(void)
{
    struct hw_pid self;
    struct hw_proc_status st = {0};
    if (hw_pid_open(getpid(), &self, NULL) < 0)
        return 0;
    (void)hw_proc_status(self.dir, &st); /* unreadable: no limit is seen */
    hw_pid_done(&self);
    return (st.rss_anon_kb + st.vm_swap_kb) * 1024;
}
