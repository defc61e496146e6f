#include "daemon/permission.h"

#include <unistd.h>

#include "base/error.h"
#include "proc/pid.h"

#include "base/banned.h"

static int32_t our_tracer(void)
{
    struct hw_pid self;
    struct hw_proc_status st = {0};
    if (hw_pid_open(getpid(), &self, NULL) < 0)
        return 0;
    (void)hw_proc_status(self.dir, &st); /* unreadable: none */
    hw_pid_done(&self);
    return st.tracer_pid;
}

int hw_permission_profile(uint32_t who, int32_t pid, uint32_t target_uid, uint32_t target_euid,
                          struct hw_error *err)
{
    if (pid <= 1)
        return hw_fail(err, HW_EPERM, 0, "process %d is never profiled", pid);
    if (pid == getpid() || pid == our_tracer())
        return hw_fail(err, HW_EPERM, 0, "process %d is this recorder or its debugger", pid);
    if (who != 0 && (target_uid != who || target_euid != who))
        return hw_fail(err, HW_EPERM, 0,
                       "process %d belongs to user %u; only that user and root may profile it", pid,
                       target_uid);
    return HW_OK;
}

int hw_permission_session(uint32_t who, uint32_t owner)
{
    return who == 0 || who == owner ? HW_OK : HW_EPERM;
}
