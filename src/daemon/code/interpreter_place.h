/*
 * interpreter_place.h - tells a target where its interpreter is, of Python, Ruby or PHP
 *
 * Why:     the client finds an interpreter's frames by its own loads (client/sample/python.c, client/interpreters/); which file
 *          has it, what version it is and where its functions are is read here, from
 *          the file, by a worker. So nothing is looked up in the target, even if it loads libpython
 *          later.
 * Shapes:  a version without a row in wire/python.def, ruby.def or php.def is reported once, and its stacks stay native.
 *          The first one that is found counts: a process that has two shows one's functions.
 * Threads: main thread.
 */
#ifndef HW_DAEMON_CODE_INTERPRETER_PLACE_H
#define HW_DAEMON_CODE_INTERPRETER_PLACE_H

struct hw_target;

/* Whenever its mappings, or what is known about their files, have changed. */
void hw_interpreters_tell(struct hw_target *t);

#endif
