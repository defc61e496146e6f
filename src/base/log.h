/*
 * log.h - messages of daemon and commands, on standard error
 *
 * Why:     library floors return errors; only commands and the daemon's loop print.
 * Shapes:  one line per message, control bytes of quoted input escaped by the caller.
 *          HEAPWISE_LOG=level sets the level; -q, -v, -vv in commands.
 */
#ifndef HW_BASE_LOG_H
#define HW_BASE_LOG_H

enum hw_log_level {
    HW_LOG_ERROR, /* this session or file is lost */
    HW_LOG_WARN,  /* the result lacks something */
    HW_LOG_INFO,  /* milestones */
    HW_LOG_DEBUG,
    HW_LOG_LEVEL_COUNT
};

void hw_log_init(const char *program); /* reads HEAPWISE_LOG; program is kept, not copied */
void hw_log_set_level(enum hw_log_level level);
void hw_log_write(enum hw_log_level level, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* hw_log(ERROR, "cannot open '%s'", path) */
#define hw_log(LEVEL, ...) hw_log_write(HW_LOG_##LEVEL, __VA_ARGS__)

#endif
