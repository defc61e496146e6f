/*
 * recorded.h - what a file that was just recorded holds
 *
 * Why:     the recorder counts samples of all heaps together: those of mappings alone do not make a
 *          profile of malloc, and a Java heap graph is data without any sample.
 * Errors:  a file that cannot be read holds nothing, and says nothing: whoever shows it reports that.
 * Cost:    reads the whole file; ask only when it matters.
 */
#ifndef HW_CLI_REPORT_RECORDED_H
#define HW_CLI_REPORT_RECORDED_H

#include <stdbool.h>
#include <stddef.h>

struct hw_recording;
struct hw_seen_target;

/* Mappings were sampled, and no allocation of malloc or of a heap that the program registered. */
bool hw_recorded_only_mappings(const char *path);
/* Of several programs, the one to report; only the file tells how much each allocated. NULL: none. */
const struct hw_seen_target *hw_recorded_most(const struct hw_recording *r, const char *path);
/*
 * What was found below the program and lives, or was not recorded: how many, with the names of some
 * in out (NULL: only the number).
 */
size_t hw_recorded_offspring(const struct hw_recording *r, bool living, char *out, size_t max);
/* The file of a program of that name (its last part) that was mapped; NULL: none. Free it. */
char *hw_recorded_program(const char *path, const char *name);
/* For an end without a report: one line on standard error if samples were lost. */
void hw_recorded_say_lost(const struct hw_recording *r);
/* A Java heap graph. */
bool hw_recorded_graph(const char *path);

#endif
