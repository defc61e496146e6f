/*
 * agent_stacks.h - Java frames for the client's stacks
 *
 * Why:     in a sampled malloc the client has walked the native frames down to where the JVM's
 *          generated code begins; the JVM's own call trace says what is below.
 * Shapes:  agent_stacks.c answers in the hook, with ids made of method and place in it.
 *          agent_methods.c remembers ids, and finds out their names on a thread of ours.
 * Owns:    its environment and tables stay as long as the JVM: neither library is ever unloaded.
 * Errors:  none reach the JVM: stacks stay native.
 * Threads: agent_frame_id runs in hooks (no lock, no allocation, no call into the JVM); the rest on
 *          our thread.
 */
#ifndef HW_JAVA_AGENT_AGENT_STACKS_H
#define HW_JAVA_AGENT_AGENT_STACKS_H

#include <stdbool.h>
#include <stdint.h>

#include "java/jvm_abi.h"

/* Begins it, on a thread of its own; the JVM is made. */
void agent_stacks_begin(hw_jvm_env vm);
/* The same on the thread that made the JVM: frames come when it returns. */
void agent_stacks_made(hw_jvm_env vm, hw_jvm_env jni);

/* ---- agent_methods.c ---- */

bool agent_methods_init(void);
/* The id of a frame; its name goes to the session of that generation. Without room it has none. */
uint64_t agent_frame_id(uint32_t generation, void *method, int32_t bci, bool *has_room);
/* One of the fixed texts below, the same way. number: what is shown with it. */
enum agent_text { AGENT_TEXT_GAP, AGENT_TEXT_FAILED, AGENT_TEXT_COUNT };
uint64_t agent_text_id(uint32_t generation, enum agent_text text, int32_t number);
/* A class by its signature: a slot, and in the hook its id. Not in hooks: it may allocate. */
uint32_t agent_class_slot(const char *signature);
uint64_t agent_class_id(uint32_t generation, uint32_t slot);
/* Finds the names that were requested, for ever. */
void agent_methods_serve(hw_jvm_env jni, hw_jvm_env ti) __attribute__((noreturn));
/* The JVM ends: waits a moment until everything requested has its name. */
void agent_methods_finish(void);

#endif
