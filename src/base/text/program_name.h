/*
 * program_name.h - what a process runs, whatever it calls itself
 *
 * Why:     servers write a title over their arguments ("redis-server *:6379", "nginx: worker
 *          process"), which changes, and is another one for each of them. What is kept by name for
 *          weeks is kept by the program's.
 * Shapes:  a view into the first argument. exe: the last part of /proc/PID/exe; empty = not known.
 */
#ifndef HW_BASE_TEXT_PROGRAM_NAME_H
#define HW_BASE_TEXT_PROGRAM_NAME_H

#include "base/bytes.h"

struct hw_bytes hw_program_name(struct hw_bytes argv0, struct hw_bytes exe);

#endif
