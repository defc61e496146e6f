/* What a push reads from outside: files of its spool, rows it takes apart, the user's address of a
 * store and labels. Everything that is read is looked at to its end. */
#include <stdlib.h>
#include <string.h>

#include "fleet/push/entry.h"
#include "fleet/push/labels.h"
#include "fleet/store/rowbinary.h"
#include "fleet/store/store.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_rows(struct hw_bytes rest, enum hw_fleet_table t)
{
    struct hw_row row;
    size_t sum = 0;
    while (hw_row_next(&rest, t, &row) == 1) {
        for (size_t i = 0; i < row.all.n; i++)
            sum += row.all.p[i];
        sum += hw_row_text(row.cell[2]).n;
    }
    if (sum == SIZE_MAX)
        abort(); /* keeps the sum */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hw_entry e;
    struct hw_store store;
    struct hw_fleet_labels labels;
    char *text = malloc(size + 1);
    if (!text)
        return 0;
    if (size)
        memcpy(text, data, size);
    text[size] = 0;
    if (hw_entry_unpack(hw_bytes_of(data, size), &e, NULL) == 0) {
        read_rows(hw_bytes_of(e.body.p, e.body.n), HW_FLEET_SAMPLES);
        read_rows(hw_bytes_of(e.stacks.p, e.stacks.n), HW_FLEET_STACKS);
        hw_entry_done(&e);
    }
    read_rows(hw_bytes_of(data, size), HW_FLEET_SAMPLES);
    read_rows(hw_bytes_of(data, size), HW_FLEET_STACKS);
    if (hw_store_init(&store, text, NULL) == 0) {
        struct hw_store_auth auth;
        if (hw_store_auth_init(&auth, &store, NULL) == 0)
            hw_store_auth_done(&auth);
        hw_store_done(&store);
    }
    hw_fleet_labels_init(&labels);
    (void)hw_fleet_labels_add(&labels, text, NULL); /* most are refused */
    hw_fleet_labels_done(&labels);
    free(text);
    return 0;
}
