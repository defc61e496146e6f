/* limits.h - numbers that several floors must agree on */
#ifndef HW_BASE_LIMITS_H
#define HW_BASE_LIMITS_H

#define HW_MAX_FRAMES 512u /* frames of one callstack; a deeper one is cut and flagged */

#endif
