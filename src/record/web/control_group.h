/*
 * control_group.h - systemd unit and container of a process, from its control group
 *
 * Why:     a profile's unit tells whose memory it is. Groups below a system unit are named by
 *          whoever they are delegated to: users, containers and services with Delegate= choose
 *          names freely.
 * Shapes:  text is that of /proc/PID/cgroup. The unit is the first path component after the slices
 *          if that is a service: "nginx.service"; a user's own follows its manager:
 *          "user@1000.service/app.service", or is alone if everything is one user's. The container
 *          is the last 64-digit hex number. NULL: none, or out of memory.
 * Owns:    results belong to the caller.
 * Source:  systemd's cg_path_get_unit and cg_path_get_user_unit
 */
#ifndef HW_RECORD_WEB_CONTROL_GROUP_H
#define HW_RECORD_WEB_CONTROL_GROUP_H

#include <stdbool.h>

char *hw_control_group_unit(const char *text, bool one_user);
char *hw_control_group_container(const char *text);

#endif
