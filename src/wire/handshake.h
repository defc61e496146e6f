/*
 * handshake.h - the one exchange between a client and the recorder
 *
 * Why:     a client asks "shall I be profiled?", the recorder answers with a configuration and
 *          three memory files. After it nothing is read from or written to the socket: its closing
 *          only tells the recorder "exit, exec or closed".
 * Shapes:  UNIX SOCK_SEQPACKET. Client sends one struct hw_hello; the recorder answers with one
 *          struct hw_welcome and, by SCM_RIGHTS, HW_WELCOME_FDS descriptors in this order: control
 *          page, ring, tables (only the control page when status is WAIT). The recorder takes pid
 *          and uid from SO_PEERCRED, never from the hello; the client accepts only a peer with uid
 *          0 or its own (which one that is: client_session.c). Both may be shorter or longer than here,
 *          depending on the version: what was not sent reads as 0.
 * Source:  doc/architecture.md, sections 6 and 7; doc/design/client.md
 */
#ifndef HW_WIRE_HANDSHAKE_H
#define HW_WIRE_HANDSHAKE_H

#include <stddef.h>
#include <stdint.h>

#include "wire/records.h"

#define HW_HELLO_MAGIC   0x316c6c6568777768u /* "hwwhell1" */
#define HW_WELCOME_MAGIC 0x31636c6577777768u /* "hwwwelc1" */
#define HW_WELCOME_FDS   3

/* Where a client looks for a recorder without being told: root's service, then one of its own user.
 */
#define HW_SOCKET_OF_SERVICE "/run/perfetto/traced-producer.sock"
#define HW_SOCKET_OF_USER    "/tmp/perfetto-producer"

/* A recorder that one command has for itself is at '@' + a name nobody can guess, and for programs
 * in another network namespace at this + that name. */
#define HW_SOCKET_FILES "/tmp/"

enum hw_hello_flags {
    HW_HELLO_STARTUP = 1,  /* from the library's constructor: no allocation was missed */
    HW_HELLO_BLOCKING = 2, /* PERFETTO_HEAPPROFD_BLOCKING_INIT=1: answer PROFILE only when ready */
    HW_HELLO_ATTACHED = 4, /* injected into a running process */
    HW_HELLO_FORKED = 8,   /* a forked child registers again */
    HW_HELLO_HELD = 16,    /* its start waits for us, and not for long */
    HW_HELLO_BARE = 32,    /* the client without libc, which sees no scopes and types */
    /* Held at its start for one session that samples rarely, a process is armed: it draws by itself
     * and asks when a sample is due. Nothing that it allocated before was sampled. */
    HW_HELLO_ARMED = 64
};

struct hw_hello {
    uint64_t magic;
    uint32_t version; /* the newest that the client speaks (wire/version.h) */
    uint32_t arch;    /* enum hw_arch */
    uint32_t flags;   /* enum hw_hello_flags */
    uint32_t page_size;
    int32_t pid_inside;      /* in the target's own pid namespace */
    uint32_t tables_kib;     /* of the tables file that it will map, from the start; 0 = all */
    uint64_t main_stack_hi;  /* __libc_stack_end, 0 = unknown */
    uint64_t allocator_base; /* load address of the object that defines malloc behind us */
    /* since version 11: */
    uint32_t oldest; /* version that the client speaks; 0 = only the newest */
    uint32_t reserved;
    uint64_t armed_token;          /* of the session for which it was held; 0 = none */
    uint64_t armed_interval_bytes; /* of the draws */
    /* since version 12: */
    uint64_t forked_token; /* of the record that its parent wrote before the fork; 0 = none */
};
#define HW_HELLO_LEAST_BYTES 48u /* of any version */
_Static_assert(sizeof(struct hw_hello) == 80, "handshake layout");

/* A library that makes way for a sanitizer executes its program again, and says so to the
 * process that holds programs at their exec: in the fourth register of execve, which has three
 * arguments. */
#define HW_EXEC_WITHOUT_LIBRARY 0x48577770ul

/* What the process finds in its environment, HEAPWISE_HELD: "1", or hexadecimal numbers,
 * INTERVAL:TOKEN:FILTERS; filters as in the control page. Interval 0: it asks at its start, and
 * keeps the token only for what follows. The token's lowest bits say that it was held at random,
 * and stands for 2^that starts. */
#define HW_TOKEN_SHARE_MASK     UINT64_C(15)
#define HW_ARMED_MARK           "%llx:%llx:%x"
#define HW_ARMED_MARK_BYTES     48u
#define HW_ARMED_LEAST_INTERVAL (64u * 1024)

enum hw_welcome_status {
    HW_WELCOME_NO = 0,      /* not wanted: stay silent, unload nothing */
    HW_WELCOME_WAIT = 1,    /* registered: watch the control page */
    HW_WELCOME_PROFILE = 2, /* a session is running: ring and tables follow */
    HW_WELCOME_STATUS_COUNT
};

enum hw_client_config_flags {
    HW_CC_BLOCK = 1,                 /* wait when the buffer is full */
    HW_CC_DISABLE_FORK_TEARDOWN = 2, /* a forked child keeps mappings (and records nothing) */
    HW_CC_FOLLOW_FORK = 4,           /* a forked child registers again */
    /* Our variables leave the environment: at once if the answer is NO, else in forked children
     * only, since a program that executes another in its place is still the one that is meant. */
    HW_CC_STRIP_ENV = 8,
    HW_CC_ALL_HEAPS = 16,
    HW_CC_STREAM = 32, /* stream_allocations: no stacks wanted */
    HW_CC_MALLOC_INFO = 64,
    HW_CC_ADDRESSES = 128,   /* every sample with its address: no struct hw_rec_exact */
    HW_CC_NATIVE_ONLY = 256, /* no managed frames in stacks */
    HW_CC_TYPES = 512,       /* what the program says about its allocations' types */
    HW_CC_SLICES = 1024,     /* beginning and end of each of the program's scopes */
    HW_CC_ARMED = 2048,    /* it was armed for this session: what is due by its draws is a sample */
    HW_CC_MAPPINGS = 4096, /* mmap and its like, each call; since version 12 */
    HW_CC_CHUNKS = 16384,  /* the allocator is glibc's: each block says what its chunk takes... */
    HW_CC_ALIGNED = 32768  /* ...or another, whose rules need to know the alignment */
};

/* What a stack consists of. */
enum hw_stack_mode {
    HW_STACKS_NATIVE = 0,
    HW_STACKS_THREADS = 1, /* the same below the thread's name */
    HW_STACKS_PSEUDO = 2,  /* the thread's name and the scopes it is in */
    HW_STACKS_MIXED = 3,   /* native, each scope inside the function that began it */
    HW_STACKS_COUNT
};

/* One selected heap; interval 0 excludes it. */
struct hw_heap_choice {
    uint64_t interval_bytes;
    char name[HW_HEAP_NAME_MAX];
};

#define HW_MAX_HEAP_CHOICES 64u
#define HW_MAX_SCOPE_TEXT   256u

struct hw_client_config {
    uint32_t flags; /* enum hw_client_config_flags */
    uint32_t n_heaps;
    uint64_t default_interval_bytes;   /* for heaps not listed when HW_CC_ALL_HEAPS */
    uint64_t block_timeout_us;         /* 0 = until the recorder is gone or 30 s without progress */
    uint64_t adaptive_threshold_bytes; /* 0 = off */
    uint64_t adaptive_max_interval_bytes;
    uint64_t seed; /* 0 = from the kernel; else fixed, for tests */
    uint32_t max_frames;
    uint32_t stack_mode;             /* enum hw_stack_mode */
    uint32_t max_samples_per_second; /* more samples than that double the interval; 0 = no limit */
    uint32_t reserved;
    struct hw_heap_choice heaps[HW_MAX_HEAP_CHOICES];
    /* Categories of scopes that are wanted, separated by commas; a * at the end of one stands
     * for any text. "" = all. */
    char scopes[HW_MAX_SCOPE_TEXT];
};

struct hw_welcome {
    uint64_t magic;
    uint32_t version;    /* agreed on */
    uint32_t status;     /* enum hw_welcome_status */
    uint32_t generation; /* != 0 with PROFILE; equals the control page's */
    uint32_t reserved;
    uint64_t now_ns; /* the recorder's CLOCK_MONOTONIC: the target's may be another (namespace) */
    struct hw_client_config config;
};
_Static_assert(sizeof(struct hw_welcome) < 8192, "one packet");

/* What a welcome of this version has, from the start: no more and no less is sent. */
static inline size_t hw_welcome_bytes(uint32_t version)
{
    (void)version; /* none has changed it so far */
    return sizeof(struct hw_welcome);
}

#endif
