/*
 * control_group.h - the names that a process has by its control group
 *
 * Why:     a profile's unit tells whose memory it is, and what stands below a machine's own unit
 *          was named by whom it was given to: a user may call his units as he likes, and so may a
 *          container or a service with Delegate=.
 * Shapes:  text is that of /proc/PID/cgroup. The unit is the first part of a path behind its slices
 *          when that is a service: "nginx.service"; a user's own stands behind his manager:
 *          "user@1000.service/app.service", or alone where all is one user's. The container is the
 *          last number of 64 digits. NULL: there is none, or no memory for it.
 * Owns:    what is given is the caller's.
 * Source:  systemd's cg_path_get_unit and cg_path_get_user_unit
 */
#ifndef HW_RECORD_CONTROL_GROUP_H
#define HW_RECORD_CONTROL_GROUP_H

#include <stdbool.h>

char *hw_control_group_unit(const char *text, bool one_user);
char *hw_control_group_container(const char *text);

#endif
