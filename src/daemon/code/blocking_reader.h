/*
 * blocking_reader.h - reads that a target can make block
 *
 * Why:     /proc/PID/cmdline and mem are the target's memory, maps and smaps are read under its
 *          lock, and its ELF files are wherever it likes: on a file system served by the same user
 *          (FUSE), each read can block for ever. A separate thread reads, and the main thread waits
 *          for it briefly; a stuck thread is abandoned.
 * Shapes:  the calls look like those of proc/. A process with a stuck thread is refused at once, as
 *          is one that caused this three times, and every process of a user with four such threads.
 * Units:   cpu_ns: of the reading thread, for callers that limit a target's cost.
 * Owns:    what is read is the caller's; jobs own copies of what they need.
 * Errors:  HW_ETIMEOUT (or refused for that), and those of the calls in proc/.
 * Threads: main thread.
 */
#ifndef HW_DAEMON_CODE_BLOCKING_READER_H
#define HW_DAEMON_CODE_BLOCKING_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text/strings.h"
#include "daemon/code/modules.h"
#include "proc/heaps/glibc_arenas.h"
#include "proc/heaps/go_heap.h"
#include "proc/heaps/go_profile.h"
#include "proc/heaps/jvm_code.h"
#include "proc/heaps/jvm_counters.h"
#include "proc/heaps/python_heap.h"
#include "proc/heaps/v8_heap.h"
#include "proc/maps.h"
#include "proc/memory_limits.h"
#include "proc/memory_owner.h"
#include "proc/pid.h"
#include "proc/shared_maps.h"
#include "proc/smaps.h"

struct hw_error;
struct hw_blocking_reader;

int hw_blocking_reader_new(struct hw_blocking_reader **out);
void hw_blocking_reader_free(
    struct hw_blocking_reader *l); /* abandoned threads end with the process */

/* For whom; filled by hw_reading_at from a pinned process. */
struct hw_reading_who {
    int32_t pid;
    uint32_t uid;
    uint64_t start_ticks;
    int dir; /* /proc/PID; borrowed */
};
struct hw_reading_who hw_reading_at(const struct hw_pid *p, uint32_t uid);

/* A new turn of the owner's work: the command line is needed at each step of a handshake, and
 * read once per turn. Without this call, each time. */
void hw_blocking_reader_turn(struct hw_blocking_reader *l);

/* argv[0], cut at max - 1 <= 511; "" for none or a time-out. */
void hw_reading_argv0(struct hw_blocking_reader *l, struct hw_reading_who who, char *out,
                      size_t max);
int hw_reading_cmdline(struct hw_blocking_reader *l, struct hw_reading_who who, char **out,
                       size_t *n);
int hw_reading_environ(struct hw_blocking_reader *l, struct hw_reading_who who, char **out,
                       size_t *n);
int hw_reading_smaps(struct hw_blocking_reader *l, struct hw_reading_who who, int rollup,
                     struct hw_smaps *out);
int hw_reading_shared(struct hw_blocking_reader *l, struct hw_reading_who who,
                      struct hw_shared_maps *out, uint64_t *cpu_ns);
/* What an account of its memory needs: the mappings by owner, and what the kernel says beside.
 * HW_EGONE also if it executed another program meanwhile. */
struct hw_reading_map {
    uint64_t start, end, rss_bytes;
};
typedef HW_VEC(struct hw_reading_map) hw_reading_maps;
/* The samples of Go's own heap profile, with the names of its functions (reading_go.c). */
struct hw_reading_go_frame {
    hw_str_id function, file;
    uint32_t line;
};
struct hw_reading_go_site { /* one stack and one size */
    uint64_t size, allocated, freed;
    uint32_t first, n; /* of stack, innermost first */
};
struct hw_reading_go {
    enum hw_go_profile_state state;
    bool is_before_collections;
    uint64_t rate;
    char why[512];              /* HW_GO_PROFILE_UNKNOWN */
    char *path;                 /* owned; of the file that has the code */
    struct hw_strings *strings; /* owned */
    HW_VEC(struct hw_reading_go_frame) frames;
    HW_VEC(uint32_t) stack; /* frames */
    HW_VEC(struct hw_reading_go_site) sites;
};
struct hw_reading_memory {
    struct hw_smaps smaps; /* summed by name */
    hw_reading_maps maps;  /* by address: those without a file that have resident memory */
    struct hw_proc_status status;
    bool has_group;
    struct hw_memory_group group;
    bool has_jvm;
    struct hw_jvm_counters jvm;
    struct hw_reading_places *places; /* for hw_reading_heaps; owned, may be NULL */
    uint64_t heaps_ns;                /* when the next five were read; 0: they were not */
    uint64_t heaps_cpu_ns;            /* of cpu_ns */
    struct hw_glibc_arenas arenas;
    struct hw_python_heap python;
    struct hw_go_heap go;
    struct hw_reading_go *go_alloc; /* owned; NULL: no Go program */
    struct hw_jvm_code jvm_code;
    struct hw_v8_heap v8;
    uint64_t began_ns, ended_ns; /* boot time */
    uint64_t cpu_ns;
};
int hw_reading_memory(struct hw_blocking_reader *l, struct hw_reading_who who,
                      enum hw_owner_allocator allocator, const struct hw_owner_ranges *own,
                      bool wants_heaps, struct hw_reading_memory *out);
/* Once, soon after that, if it was wanted and its memory may be read: adds what is in its heaps. A process can make that take a tenth of a second, or hold it up, and may
 * end meanwhile: then they are not known, and the rest is what it was. */
void hw_reading_heaps(struct hw_blocking_reader *l, struct hw_reading_who who,
                      enum hw_owner_allocator allocator, struct hw_reading_memory *m);
void hw_reading_forget_heaps(struct hw_reading_memory *m);
void hw_reading_memory_done(struct hw_reading_memory *m);
/* Which pages (numbers, ascending, each once) are in memory. HW_EGONE: it has ended. */
int hw_reading_pages(struct hw_blocking_reader *l, struct hw_reading_who who, const uint64_t *pages,
                     size_t n, bool *resident, uint64_t *cpu_ns);
/*
 * What is used on pages[0..n_pages) around sampled blocks of glibc's malloc, both ascending (proc/glibc_heap.h); used:
 * HW_GLIBC_UNKNOWN where it was not found out, HW_GLIBC_UNREAD where nobody looked. Only pages that are in memory are read, at most max_pages, and
 * blocks of one 2^region_log2 bytes either all or none: which ones is up to no address. n_broken: places where
 * the chunks did not lead to the next block.
 */
struct hw_glibc_block;
int hw_reading_heap(struct hw_blocking_reader *l, struct hw_reading_who who,
                    const struct hw_glibc_block *blocks, size_t n_blocks, const uint64_t *pages,
                    size_t n_pages, unsigned region_log2, uint64_t max_pages, uint32_t *used,
                    uint64_t *n_broken, uint64_t *cpu_ns);
/* How many pages of each range [lo, hi) are in memory, in the given order, until they have
 * max_pages together. What was not counted is HW_PAGES_UNKNOWN. error: why none was counted, an
 * errno; 0: none. */
#define HW_PAGES_UNKNOWN UINT64_MAX
struct hw_reading_range {
    uint64_t lo, hi;
    uint64_t n_pages; /* out */
};
int hw_reading_present(struct hw_blocking_reader *l, struct hw_reading_who who,
                       struct hw_reading_range *ranges, size_t n, uint64_t max_pages, int *error,
                       uint64_t *cpu_ns);
/* fd >= 0: an open /proc/PID/mem; -1: it is opened, *opened is the caller's. */
int hw_reading_read_mem(struct hw_blocking_reader *l, struct hw_reading_who who, uint64_t at,
                        void *out, size_t n, int *opened);
int hw_reading_write_mem(struct hw_blocking_reader *l, struct hw_reading_who who, int mem,
                         uint64_t at, const void *p, size_t n);

/* Does anybody listen at the socket that the target names? 1 = yes, that process (0 = not
 * known), 0 = no, as far as its user can reach it. */
int hw_reading_listens(struct hw_blocking_reader *l, struct hw_reading_who who, const char *name,
                       int32_t *holder);

/* inject/inject.h: hw_inject_check, which reads all of the above. */
int hw_reading_inject(struct hw_blocking_reader *l, const struct hw_pid *p, uint32_t uid,
                      struct hw_error *err);

/* A piece of a growing file of the target: a path as the target sees it, or (path NULL) the file
 * behind a mapping. */
struct hw_reading_piece {
    const char *path; /* the last component must not be a link */
    const struct hw_map *map;
    int *fd;   /* -1: it is opened, and the caller's from then on; else the two above are unused */
    bool slow; /* of a file that is open: how it is closed (modules.h) */
    uint64_t offset;
    uint8_t *out;
    size_t max;
    size_t n;            /* out: read */
    uint64_t size;       /* out: of the whole file */
    uint64_t dev, inode; /* out */
    uint64_t cpu_ns;     /* out */
};
int hw_reading_piece(struct hw_blocking_reader *l, struct hw_reading_who who,
                     struct hw_reading_piece *p);

/* A mapping that was opened before, and need not be opened again. */
struct hw_reading_known {
    uint64_t start, end, inode, offset;
};

struct hw_reading_file {
    size_t map; /* which of maps */
    int fd;     /* the taker sets -1 */
    struct hw_module_facts facts;
};

/* Mappings of a process, and the files of those executable ones that are not known. */
struct hw_reading_image {
    struct hw_maps maps;
    struct hw_reading_file *files; /* owned */
    size_t n_files;
    uint64_t cpu_ns;
};

enum hw_reading_files {
    HW_READING_NO_FILES,
    HW_READING_ALL_FILES,
    HW_READING_ONE_FILE /* named name */
};

int hw_reading_image(struct hw_blocking_reader *l, struct hw_reading_who who,
                     enum hw_reading_files which, const char *name,
                     const struct hw_reading_known *known, size_t n_known,
                     struct hw_reading_image *out);
void hw_reading_image_done(struct hw_reading_image *i);

#endif
