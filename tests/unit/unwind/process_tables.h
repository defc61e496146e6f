/*
 * process_tables.h - the unwind tables of a live process, as the daemon would lay them out
 *
 * Why:     tests and benches of the walker need real tables without a daemon.
 * Owns:    one 256 MiB reservation; tables are appended and stay valid until done.
 * Errors:  0 or -1 with a line on stderr.
 */
#ifndef HW_TESTS_UNIT_UNWIND_PROCESS_TABLES_H
#define HW_TESTS_UNIT_UNWIND_PROCESS_TABLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct hw_module_snapshot;

struct known_file {
    char path[256];
    uint64_t table_off, load_bias;
};

struct process_tables {
    pid_t pid;
    char *dir; /* struct hw_tables_dir and what follows */
    size_t used;
    uint32_t generation;
    char *maps; /* text of the last refresh, owned */
    size_t n_maps;
    struct known_file *files;
    size_t n_files;
};

int process_tables_open(struct process_tables *p, pid_t pid);
/* Reads the maps again. *changed = a new snapshot was published. */
int process_tables_refresh(struct process_tables *p, bool *changed);
/* End of the mapping that holds an address of the last refreshed maps; 0 = none. */
uint64_t process_tables_mapping_end(const struct process_tables *p, uint64_t addr);
const struct hw_module_snapshot *process_tables_snapshot(const struct process_tables *p);
void process_tables_done(struct process_tables *p);

#endif
