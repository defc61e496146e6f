/*
 * protocol.h - messages between the library inside a JVM and the process that asks it
 *
 * Shapes:  one SOCK_SEQPACKET connection, made by the library to the socket named in its options.
 *          Each request is answered by messages up to DONE:
 *
 *              asker -> library   struct hw_java_request
 *              library -> asker   CLASSES   + a memory file with the class table
 *                                 ATTEMPT   + the reading end of a pipe: one walk's graph
 *                                 ENDED     how that walk went; maybe the next ATTEMPT
 *              library -> asker   HOLDERS   + a memory file: what its threads and frames are called
 *                                 DONE
 *
 *          A request to WATCH is answered by DONE alone, one to RELEASE by nothing. Between
 *          answers, and in them, the library says EVENT when a moment has come that is watched,
 *          with a memory file of texts (agent_events.c); the program is held until RELEASE.
 *
 *          Class table: n; for each class 1..n: bits, superclass (0 none), signature, interfaces
 *          (count, numbers), fields (count; each: static?, name, signature); text is length +
 *          bytes. Holders: n; for each thread 1..n: its number in Java, daemon?, name; n; for each
 *          frame 1..n: function, file, line, enum hw_java_method; how many roots lie in frames that
 *          had no room. Graph: bytes of ops, see enum hw_java_op. All numbers are LEB128. A thing's
 *          id is its address / 8 or its tag; both are of this walk only.
 * Trust:   the asker trusts nothing: the target's memory may hold anything.
 */
#ifndef HW_JAVA_PROTOCOL_H
#define HW_JAVA_PROTOCOL_H

#include <stdint.h>

#define HW_JAVA_PROTOCOL 8u

enum hw_java_mode { /* the ladder, from the best to the last */
                    HW_JAVA_FORK_ADDRESS,
                    HW_JAVA_FORK_TAGS,
                    HW_JAVA_PAUSED_ADDRESS,
                    HW_JAVA_PAUSED_TAGS,
                    HW_JAVA_OWN_DUMP, /* no walk of ours: a file that the JVM writes */
                    HW_JAVA_MODE_COUNT
};

enum hw_java_command { HW_JAVA_COMMAND_DUMP, HW_JAVA_COMMAND_WATCH, HW_JAVA_COMMAND_RELEASE };

enum hw_java_event { /* moments; each is told once */
                     HW_JAVA_OUT_OF_MEMORY,
                     HW_JAVA_END, /* of the JVM, in order */
                     HW_JAVA_EVENT_COUNT
};

struct hw_java_request {
    uint32_t version;
    uint32_t ask;
    uint32_t events;         /* bits (1 << event). WATCH: others no more */
    uint32_t hold_ms;        /* WATCH: without a message for that long the program continues */
    uint32_t modes;          /* bits (1 << mode) that may be tried */
    uint32_t fail;           /* tests: bits of modes whose walk is stopped half way */
    uint32_t stall_ms;       /* without progress for that long a child is ended */
    uint64_t min_heap_bytes; /* in use, or there is no walk */
};

enum hw_java_message_type {
    HW_JAVA_HELLO = 1,
    HW_JAVA_CLASSES,
    HW_JAVA_ATTEMPT,
    HW_JAVA_ENDED,
    HW_JAVA_DONE,
    HW_JAVA_HOLDERS,
    HW_JAVA_EVENT
};

struct hw_java_message {
    uint32_t type;
    uint32_t mode;
    int32_t reason;      /* ENDED, DONE: enum hw_java_reason; 0 = good */
    int32_t detail;      /* errno, signal, number of */
    uint32_t n;          /* CLASSES: how many; EVENT: which */
    int32_t pid;         /* HELLO: as the JVM calls itself */
    uint64_t stop_ns;    /* ENDED: for how long our code held the JVM at its safepoint */
    uint64_t fork_ns;    /* of it in fork */
    uint64_t call_ns;    /* of the whole call, the way to the safepoint included */
    uint64_t walk_ns;    /* until the child had ended */
    uint64_t age_ns;     /* of the snapshot: this JVM's clock may be another */
    uint64_t heap_bytes; /* DONE: in use before the walk, as the JVM says; 0 = unknown */
    uint64_t heap_left;  /* DONE: how much more it may be, then */
};
_Static_assert(sizeof(struct hw_java_message) == 80, "crosses processes");

/*
 * One byte: kind of reference (jvm_abi.h) or HW_JAVA_OP_*, and bits. Then, in this order:
 *   OWNER              id of the thing that the following references belong to, less that of the
 *                      owner before (zigzag)
 *   FIELD, STATIC      number of the field
 *   roots of threads   number of the thread; 0 = none that is told
 *   roots on stacks    the same; the thread's number in Java, 0 unknown; place in its stack, from
 *                      1 for the innermost, 0 none; frame, 0 none; slot + 1, 0 = none
 *   other kinds        id referred to, less the owner's (zigzag)
 *   FRESH              number of its class (0 unknown), bytes / 8; if CLASS_OBJECT, the number of
 *                      the class that it stands for
 *   VALUE              role (native.h), number: of the object that is the owner
 *   END                nothing: the walk is complete
 */
enum hw_java_op {
    HW_JAVA_OP_KIND = 0x1f,
    HW_JAVA_OP_FRESH = 0x20,
    HW_JAVA_OP_CLASS_OBJECT = 0x40,
    HW_JAVA_OP_VALUE = 29,
    HW_JAVA_OP_OWNER = 30,
    HW_JAVA_OP_END = 31
};

/* Of a frame. JVMTI calls a root JNI_LOCAL also when it is an object that the code of a compiled
 * method names; only native methods have such of their own. */
enum hw_java_method { HW_JAVA_METHOD_UNKNOWN, HW_JAVA_METHOD_JAVA, HW_JAVA_METHOD_NATIVE };
/* The number of a frame that had no room; it may be larger than the table. */
#define HW_JAVA_FRAME_LOST (UINT32_C(1) << 30)

enum hw_java_class_bits {
    HW_JAVA_CLASS_ARRAY = 1,
    HW_JAVA_CLASS_INTERFACE = 2,
    HW_JAVA_CLASS_PREPARED = 4
};

#endif
