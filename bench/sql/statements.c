/*
 * Times statements over a trace that is loaded once.
 *
 *     statements gen-smaps FILE MEGABYTES       memory maps of 40 processes, every 10 seconds
 *     statements run FILE TIMES STATEMENTS      a file of them: "name: SQL", one a line
 *
 * Each statement runs TIMES times on a connection of its own, so that what a first query makes
 * (indexes, dominators, rows of callstacks) is part of it. A line for each: name, rows, median, least
 * and most CPU (user + system) in seconds.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/error.h"
#include "codec/pb.h"
#include "import/import.h"
#include "model/profile.h"
#include "schema/fields.h"
#include "sql/sql.h"
#include "trace/writer.h"

enum { MAX_TIMES = 100, N_PROCESSES = 40, N_MAPS = 400 };

static void fail(const char *what, const struct hw_error *err)
{
    fprintf(stderr, "statements: %s%s%s\n", what, err ? ": " : "", err ? err->text : "");
    exit(1);
}

/* ---- memory maps ---- */

static void put_map(struct hw_pb *pb, unsigned process, unsigned map, unsigned time)
{
    char path[80];
    (void)snprintf(path, sizeof path, "/usr/lib/x86_64-linux-gnu/lib%u.so.%u", map, process % 7);
    hw_pb_begin(pb, HW_F_SmapsPacket_entries);
    hw_pb_str(pb, HW_F_SmapsEntry_path, path);
    hw_pb_uint(pb, HW_F_SmapsEntry_size_kb, 4 * (1 + map));
    hw_pb_uint(pb, HW_F_SmapsEntry_private_dirty_kb, (map * 7 + time) % 400);
    hw_pb_uint(pb, HW_F_SmapsEntry_swap_kb, map % 3);
    hw_pb_uint(pb, HW_F_SmapsEntry_start_address, 0x7f0000000000 + map * 0x100000ull);
    hw_pb_uint(pb, HW_F_SmapsEntry_proportional_resident_kb, map);
    hw_pb_end(pb);
}

static int gen_smaps(const char *path, uint64_t bytes)
{
    struct hw_error err = {0};
    struct hw_trace_writer *w;
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0 || hw_trace_writer_new(fd, &w, &err) < 0)
        fail("cannot create the file", NULL);
    uint32_t sequence = hw_trace_writer_sequence(w);
    for (unsigned time = 0; hw_trace_writer_bytes(w) < bytes; time++)
        for (unsigned process = 0; process < N_PROCESSES; process++) {
            struct hw_pb *pb = hw_trace_begin(w, sequence, 1000 + time * 10000000000ull);
            hw_pb_begin(pb, HW_F_TracePacket_smaps_packet);
            hw_pb_uint(pb, HW_F_SmapsPacket_pid, 100 + process);
            for (unsigned map = 0; map < N_MAPS; map++)
                put_map(pb, process, map, time);
            hw_pb_end(pb);
            if (hw_trace_end(w, &err) < 0)
                fail("cannot write", &err);
        }
    if (hw_trace_writer_flush(w, &err) < 0)
        fail("cannot write", &err);
    hw_trace_writer_free(w);
    return close(fd) < 0;
}

/* ---- statements ---- */

static double cpu_s(void)
{
    struct rusage u;
    (void)getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static int count_row(void *ctx, size_t n, const struct hw_sql_cell *cells)
{
    (void)n;
    (void)cells;
    ++*(size_t *)ctx;
    return 0;
}

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

static double run_once(const struct hw_profile *p, const char *sql, size_t *n_rows)
{
    struct hw_error err = {0};
    struct hw_sql *db;
    struct hw_sql_sink sink = {begin_rows, count_row, end_rows, n_rows};
    double since = cpu_s();
    *n_rows = 0;
    if (hw_sql_open(p, NULL, &db, &err) < 0 ||
        hw_sql_run(db, sql, strlen(sql), &sink, NULL, &err) < 0)
        fail(sql, &err);
    double taken = cpu_s() - since;
    hw_sql_close(db);
    return taken;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void time_statement(const struct hw_profile *p, char *line, int times)
{
    char *sql = strchr(line, ':');
    double taken[MAX_TIMES];
    size_t n_rows = 0;
    if (line[0] == '#' || !sql)
        return;
    *sql++ = 0;
    for (int i = 0; i < times; i++)
        taken[i] = run_once(p, sql, &n_rows);
    qsort(taken, (size_t)times, sizeof *taken, compare);
    double median = (taken[(times - 1) / 2] + taken[times / 2]) / 2;
    printf("%-24s %10zu rows %8.3f s (%.3f to %.3f)\n", line, n_rows, median, taken[0],
           taken[times - 1]);
    (void)fflush(stdout);
}

static int run(const char *path, int times, const char *statements)
{
    struct hw_error err = {0};
    struct hw_profile *p;
    char *line = NULL;
    size_t room = 0;
    FILE *f = fopen(statements, "re");
    double since = cpu_s();
    if (!f || times < 1 || times > MAX_TIMES)
        fail(statements, NULL);
    if (hw_import_file(path, &p, &err) < 0)
        fail(path, &err);
    printf("%-24s %15s %8.3f s\n", "loading", "", cpu_s() - since);
    while (getline(&line, &room, f) > 0)
        time_statement(p, line, times);
    free(line);
    (void)fclose(f);
    hw_profile_free(p);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "gen-smaps") == 0)
        return gen_smaps(argv[2], strtoull(argv[3], NULL, 10) * 1000000);
    if (argc == 5 && strcmp(argv[1], "run") == 0)
        return run(argv[2], (int)strtol(argv[3], NULL, 10), argv[4]);
    fputs("usage: statements gen-smaps FILE MB | statements run FILE TIMES STATEMENTS\n", stderr);
    return 2;
}
