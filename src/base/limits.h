/* limits.h - numbers that several floors must agree on */
#ifndef HW_BASE_LIMITS_H
#define HW_BASE_LIMITS_H

#define HW_MAX_FRAMES 512u /* frames of one callstack; a deeper one is cut and flagged */

/* The heap of Python's objects. They are drawn with malloc's blocks, so at libc.malloc's interval. */
#define HW_PYTHON_HEAP "python.alloc"

#endif
