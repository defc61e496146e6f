/* ids.h - row numbers of the model: one-member structs, dense from 0, so that none passes for
 * another */
#ifndef HW_MODEL_IDS_H
#define HW_MODEL_IDS_H

#include <stdint.h>

#define HW_ID_NONE UINT32_MAX

typedef struct {
    uint32_t v;
} hw_mapping_id;
typedef struct {
    uint32_t v;
} hw_frame_id;
typedef struct {
    uint32_t v;
} hw_callsite_id;
typedef struct {
    uint32_t v;
} hw_upid;

#endif
