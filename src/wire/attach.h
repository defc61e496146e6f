/*
 * attach.h - commands to a client that was put into a running process
 *
 * Why:     if the library is preloaded, its constructor does everything. If it is injected, its
 *          constructor only finds the real functions; hooking and unhooking are commanded by one
 *          block that is written from outside, and by a lookup of HW_ATTACH_RUN: that name is an
 *          indirect function, so libc calls our code while it holds the loader's lock. The list of
 *          modules and their relocations cannot change under us then, on any version of libc.
 * Shapes:  HW_ATTACH_SYMBOL is exported and lies in the library's data. Whoever writes it has
 *          stopped the thread that will run the command.
 */
#ifndef HW_WIRE_ATTACH_H
#define HW_WIRE_ATTACH_H

#include <stdint.h>

enum hw_hooked_name {
#define X(name, kind) HW_HOOKED_##name,
#include "wire/hooked.def"
#undef X
    HW_HOOKED_COUNT
};

#define HW_ATTACH_MAGIC  0x3168637474617768u /* "hwattch1" */
#define HW_ATTACH_SYMBOL "heapwise_attach_block"
#define HW_ATTACH_RUN    "heapwise_attach_run"

enum hw_attach_command {
    HW_ATTACH_NONE = 0,
    HW_ATTACH_HOOK = 1, /* hook the allocator's functions; the next allocation does the handshake */
    HW_ATTACH_REFRESH = 2, /* the same for modules that came later */
    HW_ATTACH_UNHOOK = 3   /* remove all of them, end the recording, close everything */
};

enum hw_attach_result {
    HW_ATTACHED_OK = 0,
    HW_ATTACHED_NOT_LATE = 1,  /* it was preloaded: needs none of this */
    HW_ATTACHED_NO_MALLOC = 2, /* no module defines malloc */
    HW_ATTACHED_BUILT_IN = 3,  /* the program itself defines malloc: no table to change */
    HW_ATTACHED_MIXED = 4,     /* malloc and free are defined by different modules */
    HW_ATTACHED_BUSY = 5,      /* another recorder has it */
    HW_ATTACHED_NO_MEMORY = 6,
    HW_ATTACHED_NO_SLOT = 7, /* nothing calls the allocator through a table */
    HW_ATTACHED_UNKNOWN = 8, /* command */
    HW_ATTACHED_COUNT
};

struct hw_attach_block {
    uint64_t magic;
    uint32_t version; /* HW_WIRE_VERSION */
    uint32_t command; /* enum hw_attach_command; NONE when it is done */
    uint32_t result;  /* enum hw_attach_result */
    uint32_t hooked;  /* 1 between HOOK and UNHOOK */
    uint64_t handle;  /* of the library, for dlsym; its constructor writes it */
    uint32_t generation;
    uint32_t n_slots;   /* hooked now, by all commands together */
    uint32_t n_changed; /* by this command */
    uint32_t n_modules; /* that were examined */
    char socket_path[108];
    uint32_t left; /* 1: a thread was in a hook, so memory stays mapped until the next UNHOOK */
};
_Static_assert(sizeof(struct hw_attach_block) == 160, "attach layout");

/*
 * The bare client (client/start/injected_bare.c): a library without libc, for programs that
 * have no loader, or whose allocator is called without a table. It is mapped from outside;
 * HW_BARE_RUN is called with no arguments on a stack of ours and runs the command of its block,
 * attach.command. The caller passes it the real functions, and changes the program's code.
 */
#define HW_BARE_SYMBOL "heapwise_bare_block"
#define HW_BARE_RUN    "heapwise_bare_run"

struct hw_bare_block {
    struct hw_attach_block attach; /* hooked: set from outside */
    uint64_t near_at;              /* the page that leads to the hooks; 0 = not there yet */
    uint64_t clock;                /* the kernel's clock_gettime in this process; 0 = none */
    uint64_t main_stack_hi;
    uint64_t allocator_base;
    uint64_t real[HW_HOOKED_COUNT]; /* 0 = the program has none, or it is not hooked */
};

#endif
