/*
 * settings.h - options from configuration files and the environment, below the command line
 *
 * Shapes:  built in < /etc/heapwise.conf < $XDG_CONFIG_HOME/heapwise/config < ./.heapwise.conf <
 *          HEAPWISE_<OPTION> < options. INI: `key = value` with the long names of options, for
 *          every command that takes them; below `[record]` for that command only. '#' and ';' begin
 *          comments. The file in the current directory must belong to the user (or root) and cannot
 *          name programs or libraries: changing into a directory must not run somebody else's code.
 * Errors:  HW_EINVAL with file and line. Classic commands read none of these.
 */
#ifndef HW_CONFIG_COMMAND_SETTINGS_H
#define HW_CONFIG_COMMAND_SETTINGS_H

struct hw_error;
struct hw_command;
struct hw_opts;

/* The user's state directory, $XDG_STATE_HOME/heapwise; the caller frees. NULL: no home. */
char *hw_state_dir(void);
int hw_settings_apply(struct hw_opts *o, const struct hw_command *cmd, struct hw_error *err);

#endif
