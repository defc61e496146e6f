/*
 * control_page.h - one page per target, written by the daemon, read by the client's hooks
 *
 * Why:     a thread cannot learn from its own countdown that a session began or ended; one load of
 *          `generation` shows it. The client maps the page over one of its own static pages, so the
 *          load needs no pointer.
 * Shapes:  a memory file of 4096 bytes, sealed; the client maps it read-only and
 *          private: it sees the daemon's stores, and a later recorder can write into it from
 *          outside, through /proc/PID/mem, when the first one is gone.
 * Threads: the daemon is the only writer. generation is stored with release after the ring and the
 *          tables are ready; hooks load it relaxed, the slow path with acquire.
 */
#ifndef HW_WIRE_CONTROL_PAGE_H
#define HW_WIRE_CONTROL_PAGE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define HW_CONTROL_MAGIC 0x316c727463777768u /* "hwwctrl1" */
#define HW_CONTROL_BYTES 4096u
/* The memory file's, with the recorder's pid: forked children, too, have it in their mappings. */
#define HW_CONTROL_NAME "hw-control.%d"
/* Exported by the client: where a recorder that starts later writes path and generation. */
#define HW_CONTROL_SYMBOL "heapwise_control_page"

enum hw_sandbox {
    HW_SANDBOX_NONE = 0,
    HW_SANDBOX_FILTER = 1, /* those that malloc makes must still be allowed */
    HW_SANDBOX_STRICT = 2  /* no system calls at all */
};

struct hw_control_page {
    _Atomic uint32_t generation;  /* 0 = no session; odd or even, only equality counts */
    _Atomic uint32_t maps_wanted; /* daemon adds 1: "look for new modules" */
    _Atomic uint64_t heartbeat;   /* another number at least every 500 ms; not a time */
    _Atomic uint32_t ended;       /* 1 = recorder is leaving: hooks become pass-through */
    /* daemon adds 1: "ask your allocator for its figures"; only with HW_CC_MALLOC_INFO */
    _Atomic uint32_t malloc_info_wanted;
    uint64_t magic;
    uint32_t version;
    /* enum hw_sandbox: the target has restricted its system calls since the handshake, so we
     * make none there any more, not even to tidy up or to make another handshake. */
    _Atomic uint32_t sandbox;
    /* Where to do the handshake when generation changes: a path, or '@' + an abstract name. */
    char socket_path[108];
    /* A heap graph of the JVM's end is wanted: a JVM that ends before it was asked for one waits
     * a moment. */
    _Atomic uint32_t java_end_wanted;
    /* The process runs a JVM whose code is here, and our library is wanted in it: the client
     * loads java_library (java_entrance.h). java_hi is stored last, 0 = not wanted. If a
     * launcher of JVMs is seen before the JVM, java_library comes first, and java_lo says so. */
#define HW_JAVA_NOT_YET 1u
    _Atomic uint64_t java_lo, java_hi;
    char java_library[512];
    /* The process runs CPython: where its interpreter is. eval_hi is stored last, 0 = none, or none
     * whose frames are wanted. */
    struct hw_python_place {
        _Atomic uint64_t eval_lo, eval_hi; /* the function that runs bytecode */
        _Atomic uint64_t cold_lo, cold_hi; /* its rare part; 0 = not known */
        _Atomic uint64_t runtime;          /* _PyRuntime */
        _Atomic uint64_t code_type;        /* PyCode_Type */
        _Atomic uint32_t minor;            /* of 3.minor */
        uint32_t reserved;
    } python;
    /* How often the intervals of the session are doubled for all its processes; at most
     * HW_MAX_DOUBLINGS. A thread follows with its next sample. */
    _Atomic uint32_t doublings;
    /* System call filters (seccomp) at the handshake, plus 1; 0 = not known. For the next
     * recorder: those did not stop the handshake, additional ones could. For an armed process
     * those at its start, of which the finder knew that they allow a handshake; there is no
     * magic then. */
    uint32_t filters;
    /* The process runs CRuby, likewise; exec_hi is stored last. */
    struct hw_ruby_place {
        _Atomic uint64_t exec_lo, exec_hi; /* rb_vm_exec: each evaluation that C code began */
        _Atomic uint64_t core_lo, core_hi; /* what it calls to run bytecode; 0 = not known */
        /* The thread's context is in its thread-local memory: of this module, at this offset. Or,
         * if tls_at is not 0, both words are there: the loader stores them. */
        _Atomic uint64_t tls_at, tls_module, tls_offset;
        _Atomic uint64_t vm;      /* ruby_current_vm_ptr */
        _Atomic uint32_t version; /* as in ruby.def */
        uint32_t reserved;
    } ruby;
    /* The process runs PHP, likewise. */
    struct hw_php_place {
        _Atomic uint64_t exec_lo, exec_hi; /* execute_ex */
        _Atomic uint64_t globals;          /* executor_globals */
        _Atomic uint32_t api;              /* as in php.def */
        uint32_t reserved;
    } php;
    /* For Python's objects, stored before python.eval_hi: PyMem_GetAllocator, 0 = not known, and the
     * variables of its file that have a value from the start. */
    struct hw_python_objects_place {
        _Atomic uint64_t get_allocator, data_lo, data_hi;
    } python_objects;
    /* The code of Python's module greenlet, which gives each of its threads a part of the stack: what is below it belongs
     * to another one. hi is stored last, 0 = none. */
    struct hw_greenlet_place {
        _Atomic uint64_t lo, hi;
    } greenlet;
    uint8_t pad[4096 - 784 - 64 - 24 - 16];
};
_Static_assert(sizeof(struct hw_control_page) == HW_CONTROL_BYTES, "one page");

#endif
