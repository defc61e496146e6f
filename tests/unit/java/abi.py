#!/usr/bin/env python3
"""jvm_abi.h against the headers of each JDK that is installed: places in the function tables, numbers, structs.

Usage: abi.py SOURCE_ROOT COMPILER...
"""
import glob
import os
import re
import subprocess
import sys
import tempfile

# Each place that jvm_abi.h names, by the member's name in the JDK.
TABLES = {
    "hw_jvm_place": ("struct JNIInvokeInterface_", {
        "HW_VM_DETACH": "DetachCurrentThread", "HW_VM_GET_ENV": "GetEnv",
        "HW_VM_ATTACH_DAEMON": "AttachCurrentThreadAsDaemon"}),
    "hw_jni_place": ("struct JNINativeInterface_", {
        "HW_JNI_FIND_CLASS": "FindClass", "HW_JNI_GET_SUPERCLASS": "GetSuperclass",
        "HW_JNI_EXCEPTION_CLEAR": "ExceptionClear", "HW_JNI_PUSH_FRAME": "PushLocalFrame",
        "HW_JNI_POP_FRAME": "PopLocalFrame", "HW_JNI_NEW_GLOBAL": "NewGlobalRef",
        "HW_JNI_DELETE_GLOBAL": "DeleteGlobalRef", "HW_JNI_DELETE_LOCAL": "DeleteLocalRef",
        "HW_JNI_IS_SAME": "IsSameObject", "HW_JNI_NEW_LOCAL": "NewLocalRef",
        "HW_JNI_ALLOC_OBJECT": "AllocObject", "HW_JNI_OBJECT_CLASS": "GetObjectClass",
        "HW_JNI_METHOD_ID": "GetMethodID", "HW_JNI_CALL_OBJECT": "CallObjectMethodA",
        "HW_JNI_CALL_LONG": "CallLongMethodA", "HW_JNI_STATIC_METHOD_ID": "GetStaticMethodID",
        "HW_JNI_CALL_STATIC_OBJECT": "CallStaticObjectMethodA",
        "HW_JNI_FIELD_ID": "GetFieldID", "HW_JNI_SET_LONG": "SetLongField", "HW_JNI_SET_OBJECT": "SetObjectField",
        "HW_JNI_GET_OBJECT": "GetObjectField", "HW_JNI_GET_LONG": "GetLongField",
        "HW_JNI_STRING_BYTES": "GetStringUTFChars", "HW_JNI_STRING_BYTES_DONE": "ReleaseStringUTFChars",
        "HW_JNI_NEW_ARRAY": "NewObjectArray", "HW_JNI_SET_ELEMENT": "SetObjectArrayElement",
        "HW_JNI_NEW_WEAK": "NewWeakGlobalRef", "HW_JNI_DELETE_WEAK": "DeleteWeakGlobalRef"}),
    "hw_jvmti_place": ("jvmtiInterface_1", {
        "HW_TI_EVENT_MODE": "SetEventNotificationMode", "HW_TI_DEALLOCATE": "Deallocate",
        "HW_TI_CLASS_SIGNATURE": "GetClassSignature", "HW_TI_CLASS_STATUS": "GetClassStatus",
        "HW_TI_SOURCE_FILE": "GetSourceFileName", "HW_TI_CLASS_METHODS": "GetClassMethods",
        "HW_TI_CLASS_FIELDS": "GetClassFields", "HW_TI_INTERFACES": "GetImplementedInterfaces",
        "HW_TI_FIELD_NAME": "GetFieldName", "HW_TI_FIELD_MODIFIERS": "GetFieldModifiers",
        "HW_TI_METHOD_NAME": "GetMethodName", "HW_TI_METHOD_CLASS": "GetMethodDeclaringClass",
        "HW_TI_METHOD_LINES": "GetLineNumberTable", "HW_TI_METHOD_IS_NATIVE": "IsMethodNative", "HW_TI_THREAD_INFO": "GetThreadInfo",
        "HW_TI_ALL_THREADS": "GetAllThreads", "HW_TI_CURRENT_THREAD": "GetCurrentThread", "HW_TI_STACK": "GetStackTrace",
        "HW_TI_LOADED_CLASSES": "GetLoadedClasses", "HW_TI_GET_TAG": "GetTag", "HW_TI_SET_TAG": "SetTag",
        "HW_TI_FOLLOW": "FollowReferences", "HW_TI_EVENT_CALLBACKS": "SetEventCallbacks",
        "HW_TI_DISPOSE": "DisposeEnvironment", "HW_TI_PHASE": "GetPhase",
        "HW_TI_ADD_CAPABILITIES": "AddCapabilities", "HW_TI_OBJECT_SIZE": "GetObjectSize",
        "HW_TI_HEAP_INTERVAL": "SetHeapSamplingInterval"}),
}
SAME = {
    "HW_JNI_VERSION": "JNI_VERSION_1_6", "HW_TI_VISIT": "JVMTI_VISIT_OBJECTS", "HW_TI_ABORT": "JVMTI_VISIT_ABORT",
    "HW_TI_PREPARED": "JVMTI_CLASS_STATUS_PREPARED", "HW_TI_ARRAY": "JVMTI_CLASS_STATUS_ARRAY",
    "HW_TI_PRIMITIVE": "JVMTI_CLASS_STATUS_PRIMITIVE", "HW_REF_CLASS": "JVMTI_HEAP_REFERENCE_CLASS",
    "HW_REF_FIELD": "JVMTI_HEAP_REFERENCE_FIELD", "HW_REF_ELEMENT": "JVMTI_HEAP_REFERENCE_ARRAY_ELEMENT",
    "HW_REF_LOADER": "JVMTI_HEAP_REFERENCE_CLASS_LOADER", "HW_REF_SIGNERS": "JVMTI_HEAP_REFERENCE_SIGNERS",
    "HW_REF_DOMAIN": "JVMTI_HEAP_REFERENCE_PROTECTION_DOMAIN", "HW_REF_INTERFACE": "JVMTI_HEAP_REFERENCE_INTERFACE",
    "HW_REF_STATIC": "JVMTI_HEAP_REFERENCE_STATIC_FIELD", "HW_REF_CONSTANT": "JVMTI_HEAP_REFERENCE_CONSTANT_POOL",
    "HW_REF_SUPERCLASS": "JVMTI_HEAP_REFERENCE_SUPERCLASS", "HW_ROOT_JNI_GLOBAL": "JVMTI_HEAP_REFERENCE_JNI_GLOBAL",
    "HW_ROOT_SYSTEM_CLASS": "JVMTI_HEAP_REFERENCE_SYSTEM_CLASS", "HW_ROOT_MONITOR": "JVMTI_HEAP_REFERENCE_MONITOR",
    "HW_ROOT_STACK": "JVMTI_HEAP_REFERENCE_STACK_LOCAL", "HW_ROOT_JNI_LOCAL": "JVMTI_HEAP_REFERENCE_JNI_LOCAL",
    "HW_ROOT_THREAD": "JVMTI_HEAP_REFERENCE_THREAD", "HW_ROOT_OTHER": "JVMTI_HEAP_REFERENCE_OTHER",
    "HW_TI_EVENT_VM_DEATH": "JVMTI_EVENT_VM_DEATH", "HW_TI_EVENT_CLASS_LOAD": "JVMTI_EVENT_CLASS_LOAD",
    "HW_TI_EVENT_CLASS_PREPARE": "JVMTI_EVENT_CLASS_PREPARE", "HW_TI_FIRST_EVENT": "JVMTI_MIN_EVENT_TYPE_VAL",
    "HW_TI_EVENT_RESOURCE_EXHAUSTED": "JVMTI_EVENT_RESOURCE_EXHAUSTED",
    "HW_TI_EVENT_SAMPLED": "JVMTI_EVENT_SAMPLED_OBJECT_ALLOC", "HW_TI_EVENT_EXHAUSTED": "JVMTI_EVENT_RESOURCE_EXHAUSTED",
    "HW_TI_CAPABILITY_BYTES": "sizeof(jvmtiCapabilities)",
    "sizeof(struct hw_jvm_callbacks)": "sizeof(jvmtiHeapCallbacks)",
    "offsetof(struct hw_jvm_callbacks, reference)": "offsetof(jvmtiHeapCallbacks, heap_reference_callback)",
    "sizeof(struct hw_jvm_attach)": "sizeof(JavaVMAttachArgs)",
    "offsetof(struct hw_jvm_attach, name)": "offsetof(JavaVMAttachArgs, name)",
    "offsetof(union hw_jvm_reference_info, index)": "offsetof(jvmtiHeapReferenceInfo, field.index)",
    "offsetof(union hw_jvm_reference_info, on_stack.thread_tag)": "offsetof(jvmtiHeapReferenceInfo, jni_local.thread_tag)",
    "offsetof(union hw_jvm_reference_info, on_stack.thread_id)": "offsetof(jvmtiHeapReferenceInfo, stack_local.thread_id)",
    "offsetof(union hw_jvm_reference_info, on_stack.depth)": "offsetof(jvmtiHeapReferenceInfo, stack_local.depth)",
    "offsetof(union hw_jvm_reference_info, on_stack.method)": "offsetof(jvmtiHeapReferenceInfo, jni_local.method)",
    "offsetof(union hw_jvm_reference_info, on_stack.bci)": "offsetof(jvmtiHeapReferenceInfo, stack_local.location)",
    "offsetof(union hw_jvm_reference_info, on_stack.slot)": "offsetof(jvmtiHeapReferenceInfo, stack_local.slot)",
    "sizeof(struct hw_jvm_thread_info)": "sizeof(jvmtiThreadInfo)",
    "offsetof(struct hw_jvm_thread_info, is_daemon)": "offsetof(jvmtiThreadInfo, is_daemon)",
}
# Bits of the capabilities.
BITS = {"HW_TI_CAN_SAMPLE": "can_generate_sampled_object_alloc_events", "HW_TI_CAN_EXHAUSTED": "can_generate_resource_exhaustion_heap_events", "HW_TI_CAN_SOURCE_FILE": "can_get_source_file_name", "HW_TI_CAN_LINES": "can_get_line_numbers"}


def enums_of(text):
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    return {name: re.findall(r"(HW_\w+)\s*=", body) for name, body in re.findall(r"enum (\w*) ?\{(.*?)\}", text, re.S)}


def program(enums):
    lines = ["#include <stddef.h>", "#include <stdio.h>", "#include <string.h>", "#include <jvmti.h>",
             '#include "java/jvm_abi.h"']
    for enum, (struct, names) in TABLES.items():
        for place in enums[enum]:
            if place not in names:
                sys.exit(f"abi.py: which function of the JDK is {place}? (jvm_abi.h, enum {enum})")
            lines.append(f'_Static_assert({place} == offsetof({struct}, {names[place]}) / sizeof(void *), "{place}");')
    known = {e for all_of in enums.values() for e in all_of}
    lines += [f'_Static_assert((long)({ours}) == (long)({theirs}), "{ours}");' for ours, theirs in SAME.items()
              if ours in known or not ours.startswith("HW_")]
    lines += ["int main(void) {", "    unsigned char bytes[sizeof(jvmtiCapabilities)];", "    jvmtiCapabilities c;",
              "    int bad = 0;"]
    for ours, theirs in {"HW_TI_CAN_TAG": "can_tag_objects", **BITS}.items():
        if ours not in known:
            continue
        mask = "HW_TI_CAN_TAG" if ours == "HW_TI_CAN_TAG" else f"(1 << ({ours} % 8))"
        place = "0" if ours == "HW_TI_CAN_TAG" else f"{ours} / 8"
        lines += [f"    memset(&c, 0, sizeof c); c.{theirs} = 1; memcpy(bytes, &c, sizeof c);",
                  f'    if (bytes[{place}] != {mask}) bad = 1, puts("{ours}: another bit in this JDK");']
    return "\n".join([*lines, "    return bad;", "}", ""])


def main():
    root, compiler = sys.argv[1], sys.argv[2:]
    with open(f"{root}/src/java/jvm_abi.h") as f:
        text = program(enums_of(f.read()))
    jdks = sorted({os.path.realpath(p) for p in glob.glob("/usr/lib/jvm/*/include/jvmti.h")})
    if not jdks:
        print("skipped: no JDK's headers in /usr/lib/jvm")
        return 77
    for header in jdks:
        include = os.path.dirname(header)
        with tempfile.TemporaryDirectory() as t:
            with open(f"{t}/abi.c", "w") as f:
                f.write(text)
            subprocess.run([*compiler, "-std=gnu17", "-I", f"{root}/src", "-I", include, "-I", f"{include}/linux",
                            "-o", f"{t}/abi", f"{t}/abi.c"], check=True)
            subprocess.run([f"{t}/abi"], check=True)
        print(f"the same as in {include}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
