/*
 * python_place.h - tells a target where its Python interpreter is
 *
 * Why:     the client finds Python's frames by its own loads (client/sample/python.c); which file
 *          has the interpreter, what version it is and where its functions are is read here, from
 *          the file, by a worker. So nothing is looked up in the target, even if it loads libpython
 *          later.
 * Shapes:  a version without a row in wire/python.def is reported once, and its stacks stay native.
 * Threads: main thread.
 */
#ifndef HW_DAEMON_CODE_PYTHON_PLACE_H
#define HW_DAEMON_CODE_PYTHON_PLACE_H

struct hw_target;

/* Whenever its mappings, or what is known about their files, have changed. */
void hw_python_tell(struct hw_target *t);

#endif
