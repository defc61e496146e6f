/*
 * Heap graphs are loaded by two threads where there are two processors. What SQL shows of them must
 * be the same with one, with two, and where no thread can be made.
 */
#include <dirent.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

#include "base/error.h"
#include "base/memory/map64.h"
#include "base/side_thread.h"
#include "codec/pb.h"
#include "import/import.h"
#include "model/profile.h"
#include "schema/fields.h"
#include "sql/sql.h"
#include "trace/writer.h"

/* Of each process; more than HW_WORTH_TWO, or there is no second thread. */
enum {
    N_OBJECTS = 80000,
    N_CLASSES = 60,
    PROCESSES = 2,
    PACKET = 5000, /* objects: large enough to be read ahead */
    ZYGOTE_FROM = 70000
};

#define F(name) HW_F_HeapGraph_##name
#define O(name) HW_F_HeapGraphObject_##name
#define T(name) HW_F_HeapGraphType_##name

enum shape { RISING, SHUFFLED, FAR, SHAPES };

static uint64_t seed;

static uint64_t below(uint64_t n)
{
    seed = hw_hash_u64(seed + 0x9e3779b97f4a7c15u);
    return seed % n;
}

static uint64_t id_of(enum shape shape, uint64_t i)
{
    uint64_t shuffled = i * 48271 % 320009 /* a prime: no two are the same */;
    return shape == RISING     ? 0x12c00000 + 24 * i
           : shape == SHUFFLED ? 0x70000000 + 8 * shuffled
                               : hw_hash_mix(i, 7) | 1;
}

/* ---- writing ---- */

struct part {
    uint32_t sequence;
    int pid;
    uint64_t n, index; /* objects, packets written */
    bool is_zygote;
};

struct file {
    struct hw_trace_writer *w;
    struct hw_pb *pb;
    enum shape shape;
    struct part part[PROCESSES];
};

static void begin(struct file *f, struct part *p)
{
    f->pb = hw_trace_begin(f->w, p->sequence, 1000);
    hw_pb_begin(f->pb, HW_F_TracePacket_heap_graph);
    hw_pb_uint(f->pb, F(pid), (uint64_t)p->pid);
    hw_pb_uint(f->pb, F(index), p->index++);
}

static void end(struct file *f, bool continued)
{
    struct hw_error err = {0};
    if (continued)
        hw_pb_uint(f->pb, F(continued), 1);
    hw_pb_end(f->pb);
    assert_int_equal(hw_trace_end(f->w, &err), 0);
}

static void put_refs(struct file *f, uint64_t i, size_t n)
{
    hw_pb_begin(f->pb, O(reference_object_id));
    for (size_t k = 0; k < n; k++) {
        uint64_t kind = below(20), to = kind < 12 ? i + 1 + below(40) : below(N_OBJECTS);
        if (kind == 19)
            to = N_OBJECTS + below(500); /* never described */
        hw_pb_raw_varint(f->pb, kind == 18 ? 0 : id_of(f->shape, to));
    }
    hw_pb_end(f->pb);
}

/* One in 50 is told in full, others have what the importer reads at once. */
static void put_object(struct file *f, struct part *p, uint64_t i)
{
    uint64_t class = below(N_CLASSES), n = class < 5 ? below(9) : class < 20 ? 0 : 1 + class % 3;
    hw_pb_begin(f->pb, F(objects));
    if (below(5000))                                                        /* else it is nobody */
        hw_pb_uint(f->pb, O(id), id_of(f->shape, below(2000) ? i : i / 2)); /* one that was there */
    hw_pb_uint(f->pb, O(type_id), class + 1);
    if (class < 5 || !below(30))
        hw_pb_uint(f->pb, O(self_size), below(3000) ? 16 + below(100) : 5ull << 30);
    if (n && !below(50)) {
        hw_pb_begin(f->pb, O(reference_field_id));
        for (size_t k = 0; k < n; k++)
            hw_pb_raw_varint(f->pb, 1 + below(9)); /* the last has no name */
        hw_pb_end(f->pb);
        hw_pb_uint(f->pb, O(native_allocation_registry_size_field), below(1000));
    }
    if (n)
        put_refs(f, i, below(700) ? n : n + 1); /* not as its class says */
    if (i >= ZYGOTE_FROM && !p->is_zygote) {
        hw_pb_uint(f->pb, O(heap_type_delta), HW_HEAP_TYPE_ZYGOTE);
        p->is_zygote = true;
    }
    hw_pb_end(f->pb);
}

static void put_text(struct hw_pb *pb, uint32_t field, uint64_t iid, const char *text)
{
    hw_pb_begin(pb, field);
    hw_pb_uint(pb, HW_F_InternedString_iid, iid);
    hw_pb_str(pb, HW_F_InternedString_str, text);
    hw_pb_end(pb);
}

static void put_types(struct file *f, uint64_t from, uint64_t to)
{
    char text[64];
    for (uint64_t c = from; c < to; c++) {
        bool is_class = c % 10 == 9;
        (void)snprintf(text, sizeof text, is_class ? "java.lang.Class<a.C%d>" : "a.C%d",
                       (int)(is_class ? c - 1 : c));
        hw_pb_begin(f->pb, F(types));
        hw_pb_uint(f->pb, T(id), c + 1);
        hw_pb_str(f->pb, T(class_name), text);
        hw_pb_uint(f->pb, T(object_size), c == 33 ? 6ull << 30 : 16 + c);
        hw_pb_uint(f->pb, T(kind), c < 5 ? HW_KIND_ARRAY : c % 7 ? 1 : HW_KIND_WEAK_REFERENCE);
        hw_pb_begin(f->pb, T(reference_field_id));
        for (uint64_t k = 0; c >= 20 && k < 1 + c % 3; k++)
            hw_pb_raw_varint(f->pb, is_class && k == 0 ? 8 : 1 + k);
        hw_pb_end(f->pb);
        hw_pb_end(f->pb);
    }
}

static void put_end(struct file *f, struct part *p)
{
    begin(f, p);
    put_types(f, N_CLASSES / 2, N_CLASSES);
    put_text(f->pb, F(field_names), 1, "java.lang.Object java.lang.ref.Reference.referent");
    for (uint64_t i = 2; i < 8; i++)
        put_text(f->pb, F(field_names), i, "a.C a.C.next");
    put_text(f->pb, F(field_names), 8, "java.lang.Class java.lang.Class.superClass");
    hw_pb_begin(f->pb, F(roots));
    hw_pb_begin(f->pb, HW_F_HeapGraphRoot_object_ids);
    for (uint64_t i = 0; i < 300; i++)
        hw_pb_raw_varint(f->pb, id_of(f->shape, below(N_OBJECTS / 2)));
    hw_pb_end(f->pb);
    hw_pb_uint(f->pb, HW_F_HeapGraphRoot_root_type, HW_ROOT_JNI_GLOBAL);
    hw_pb_end(f->pb);
    end(f, false);
}

/* Parts of two graphs in turns; packets of other kinds between them, and parts that are too small to
 * be read ahead; one part is missing. */
static int write_file(enum shape shape)
{
    struct hw_error err = {0};
    struct file f = {.shape = shape};
    int fd = memfd_create("graph", MFD_CLOEXEC);
    seed = shape;
    assert_true(fd >= 0);
    assert_int_equal(hw_trace_writer_new(fd, &f.w, &err), 0);
    for (int i = 0; i < PROCESSES; i++)
        f.part[i] = (struct part){.sequence = hw_trace_writer_sequence(f.w), .pid = 10 + i, .n = 0};
    for (size_t turn = 0, open = PROCESSES; open; turn++) {
        struct part *p = &f.part[turn % PROCESSES];
        uint64_t stop = p->n + (turn == 6 ? 10 * PACKET : turn % 7 ? PACKET : 20);
        if (p->n > N_OBJECTS)
            continue;
        if (p->n == N_OBJECTS) {
            put_end(&f, p);
            p->n++;
            open--;
            continue;
        }
        if (turn == 9)
            p->index++;
        begin(&f, p);
        if (turn == 3)
            put_types(&f, 0, N_CLASSES / 2);
        while (p->n < N_OBJECTS && p->n < stop)
            put_object(&f, p, p->n++);
        if (turn == 4) /* objects on both sides of it */
            put_types(&f, 0, N_CLASSES / 2);
        if (turn == 5)
            hw_pb_uint(f.pb, F(heap_bytes_allocated), 1 << 30);
        if (p->n < N_OBJECTS)
            put_object(&f, p, p->n++);
        if (turn == 6) /* one processor reads it by parts */
            assert_true(hw_pb_view(f.pb).n > 600 << 10);
        end(&f, true);
        if (turn % 5 == 4)
            assert_int_equal(
                hw_trace_write_event(f.w, HW_F_TracingServiceEvent_all_data_sources_started, &err),
                0);
    }
    assert_int_equal(hw_trace_writer_flush(f.w, &err), 0);
    hw_trace_writer_free(f.w);
    return fd;
}

/* ---- reading ---- */

#ifdef __SANITIZE_THREAD__ /* what threads do, once: the rows are compared without it */
#define IS_TSAN true
static const char *const questions[] = {"select * from _hw_heap_graph_dominators"};
#else
#define IS_TSAN false
static const char *const questions[] = {
    "select * from heap_graph",
    "select * from heap_graph_object",
    "select * from heap_graph_class",
    "select * from heap_graph_reference",
    "select * from stats",
    "select * from process",
    "select * from _hw_heap_graph_dominators",
};
#endif

struct answer {
    uint64_t rows, hash;
};

static int begin_rows(void *ctx, size_t n, const char *const *names)
{
    (void)ctx;
    (void)n;
    (void)names;
    return 0;
}

static int end_rows(void *ctx)
{
    (void)ctx;
    return 0;
}

static int take_row(void *ctx, size_t n, const struct hw_sql_cell *cells)
{
    struct answer *a = ctx;
    a->rows++;
    for (size_t i = 0; i < n; i++) {
        uint64_t v = (uint64_t)cells[i].i;
        if (cells[i].type == HW_SQL_REAL)
            memcpy(&v, &cells[i].d, sizeof v);
        a->hash = hw_hash_mix(a->hash, cells[i].type);
        if (cells[i].type == HW_SQL_TEXT)
            for (size_t k = 0; k < cells[i].n; k++)
                a->hash = hw_hash_mix(a->hash, ((const uint8_t *)cells[i].p)[k]);
        else if (cells[i].type != HW_SQL_NULL)
            a->hash = hw_hash_mix(a->hash, v);
    }
    return 0;
}

static void ask(int fd, struct answer *out)
{
    struct hw_error err = {0};
    struct hw_profile *p;
    struct hw_sql *db;
    if (hw_import_fd(fd, "graph", &p, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(p->graphs.n, PROCESSES);
    assert_true(p->graphs.v[0]->n_objects > HW_WORTH_TWO);
    assert_int_equal(hw_sql_open(p, NULL, &db, &err), 0);
    for (size_t i = 0; i < HW_ARRAY_LEN(questions); i++) {
        struct hw_sql_sink sink = {begin_rows, take_row, end_rows, &out[i]};
        out[i] = (struct answer){0};
        if (hw_sql_run(db, questions[i], strlen(questions[i]), &sink, NULL, &err) < 0)
            fail_msg("%s: %s", questions[i], err.text);
    }
    hw_sql_close(db);
    hw_profile_free(p);
}

static size_t count_threads(void)
{
    size_t n = 0;
    DIR *d = opendir("/proc/self/task");
    assert_non_null(d);
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

/* One that was joined is listed until the kernel is done with it. */
static bool are_threads(size_t n)
{
    for (int tries = 0; count_threads() != n; tries++) {
        if (tries == 10000)
            return false;
        (void)usleep(1000);
    }
    return true;
}

static void *nothing(void *ctx)
{
    return ctx;
}

/* Stacks that no address space has room for. */
static void refuse_threads(bool refuse, pthread_attr_t *usual)
{
    pthread_attr_t huge;
    pthread_t t;
    if (!refuse) {
        assert_int_equal(pthread_setattr_default_np(usual), 0);
        return;
    }
    assert_int_equal(pthread_getattr_default_np(usual), 0);
    assert_int_equal(pthread_getattr_default_np(&huge), 0);
    assert_int_equal(pthread_attr_setstacksize(&huge, (size_t)1 << 50), 0);
    assert_int_equal(pthread_setattr_default_np(&huge), 0);
    pthread_attr_destroy(&huge);
    assert_int_not_equal(pthread_create(&t, NULL, nothing, NULL), 0);
}

static void compare(const struct answer *got, const struct answer *want, const char *how)
{
    for (size_t i = 0; i < HW_ARRAY_LEN(questions); i++)
        if (got[i].rows != want[i].rows || got[i].hash != want[i].hash)
            fail_msg("%s: %s gives %llu rows (%llx), not %llu (%llx)", how, questions[i],
                     (unsigned long long)got[i].rows, (unsigned long long)got[i].hash,
                     (unsigned long long)want[i].rows, (unsigned long long)want[i].hash);
}

static void same_with_two_threads(void **unused)
{
    struct answer one[HW_ARRAY_LEN(questions)], two[HW_ARRAY_LEN(questions)];
    cpu_set_t all, first;
    pthread_attr_t usual;
    (void)unused;
    pthread_t t;
    assert_int_equal(pthread_create(&t, NULL, nothing, NULL), 0); /* a sanitizer's begins with it */
    assert_int_equal(pthread_join(t, NULL), 0);
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    CPU_ZERO(&first);
    for (size_t c = 0; CPU_COUNT(&first) == 0; c++)
        if (CPU_ISSET(c, &all))
            CPU_SET(c, &first);
    for (enum shape shape = 0; shape < SHAPES; shape++) {
        int fd = write_file(shape);
        size_t threads = count_threads();
        assert_int_equal(sched_setaffinity(0, sizeof first, &first), 0);
        assert_int_equal(hw_processors(), 1);
        if (!IS_TSAN) {
            ask(fd, one);
            assert_true(one[1].rows > (uint64_t)PROCESSES * N_OBJECTS);
        }
        assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
        ask(fd, two);
        if (!IS_TSAN)
            compare(two, one, "two threads");
        if (shape == RISING && !IS_TSAN) {
            refuse_threads(true, &usual);
            ask(fd, two);
            refuse_threads(false, &usual);
            compare(two, one, "no thread to be had");
        }
        assert_true(are_threads(threads));
        close(fd);
    }
}

/* ---- little memory ---- */

static uint64_t address_space(void)
{
    uint64_t pages = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%lu", &pages), 1);
    (void)fclose(f);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

enum { LOADED = 10, NO_MEMORY, WRONG, THREAD_LEFT };

static int load_within(int fd, uint64_t more)
{
    struct rlimit limit = {0, RLIM_INFINITY};
    struct hw_error err = {0};
    struct hw_profile *p = NULL;
    size_t alone = count_threads();
    (void)mallopt(M_MMAP_THRESHOLD, 1 << 16);
    (void)mallopt(M_ARENA_MAX, 1); /* a thread's would be 64 MB of room */
    limit.rlim_cur = address_space() + more;
    if (setrlimit(RLIMIT_AS, &limit) < 0)
        return WRONG;
    int rc = hw_import_fd(fd, "graph", &p, &err);
    if (rc == 0)
        hw_profile_free(p);
    limit.rlim_cur = RLIM_INFINITY;
    (void)setrlimit(RLIMIT_AS, &limit);
    if (!are_threads(alone))
        return THREAD_LEFT;
    return rc == 0 ? LOADED : rc == HW_ENOMEM ? NO_MEMORY : WRONG;
}

/* Whatever fails of memory, in either thread: an error, and no thread is left. */
static void little_memory(void **unused)
{
    size_t n[THREAD_LEFT + 1] = {0};
    (void)unused;
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    skip(); /* their shadow is most of the address space */
#endif
    int fd = write_file(RISING);
    for (uint64_t more = 1 << 20; more < 160 << 20; more += more < 24 << 20 ? 1 << 20 : 8 << 20) {
        pid_t child = fork();
        int status;
        if (child == 0)
            _exit(load_within(fd, more));
        assert_int_equal(waitpid(child, &status, 0), child);
        if (!WIFEXITED(status) || WEXITSTATUS(status) < LOADED || WEXITSTATUS(status) > NO_MEMORY)
            fail_msg("with %llu bytes: status %x", (unsigned long long)more, (unsigned)status);
        n[WEXITSTATUS(status)]++;
    }
    if (n[LOADED] < 2 || n[NO_MEMORY] < 5)
        fail_msg("%zu were loaded, %zu not", n[LOADED], n[NO_MEMORY]);
    close(fd);
}

/* The second leaves room behind that limits do not count. */
HW_TEST_MAIN(cmocka_unit_test(little_memory), cmocka_unit_test(same_with_two_threads))
