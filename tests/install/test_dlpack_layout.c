/* SPDX-License-Identifier: Apache-2.0 */
/* kvs_tensor_t begins like DLPack's DLTensor, so that one can be copied in with memcpy. Held against
 * a copy of DLPack's documented layout and, where it is installed, against dlpack.h itself. */
#include "kt.h"

#include <stddef.h>

#if __has_include(<dlpack/dlpack.h>)
#include <dlpack/dlpack.h>
#define HAVE_DLPACK 1
#endif

/* DLTensor and what it is made of, as DLPack documents them. */
typedef struct dl_device {
    int32_t device_type;
    int32_t device_id;
} dl_device_t;

typedef struct dl_dtype {
    uint8_t code;
    uint8_t bits;
    uint16_t lanes;
} dl_dtype_t;

typedef struct dl_tensor {
    void *data;
    dl_device_t device;
    int32_t ndim;
    dl_dtype_t dtype;
    int64_t *shape;
    int64_t *strides;
    uint64_t byte_offset;
} dl_tensor_t;

#define SAME_MEMBER(ours, theirs, member)                                                          \
    do {                                                                                           \
        KT_INT(offsetof(ours, member), offsetof(theirs, member));                                  \
        KT_INT(sizeof(((ours *)0)->member), sizeof(((theirs *)0)->member));                        \
    } while (0)
#define SAME_TENSOR(theirs)                                                                        \
    do {                                                                                           \
        SAME_MEMBER(kvs_tensor_t, theirs, data);                                                   \
        SAME_MEMBER(kvs_tensor_t, theirs, device);                                                 \
        SAME_MEMBER(kvs_tensor_t, theirs, ndim);                                                   \
        SAME_MEMBER(kvs_tensor_t, theirs, dtype);                                                  \
        SAME_MEMBER(kvs_tensor_t, theirs, shape);                                                  \
        SAME_MEMBER(kvs_tensor_t, theirs, strides);                                                \
        SAME_MEMBER(kvs_tensor_t, theirs, byte_offset);                                            \
        KT_INT(offsetof(kvs_tensor_t, stream), sizeof(theirs));                                    \
    } while (0)

static void a_tensor_begins_like_the_documented_layout(void)
{
    SAME_TENSOR(dl_tensor_t);
    KT_INT(offsetof(kvs_device_t, type), offsetof(dl_device_t, device_type));
    KT_INT(offsetof(kvs_device_t, id), offsetof(dl_device_t, device_id));
    SAME_MEMBER(kvs_dtype_t, dl_dtype_t, code);
    SAME_MEMBER(kvs_dtype_t, dl_dtype_t, bits);
    SAME_MEMBER(kvs_dtype_t, dl_dtype_t, lanes);
}

static void a_tensor_begins_like_the_installed_header_says(void)
{
#ifdef HAVE_DLPACK
    SAME_TENSOR(DLTensor);
    KT_INT(offsetof(kvs_device_t, type), offsetof(DLDevice, device_type));
    KT_INT(offsetof(kvs_device_t, id), offsetof(DLDevice, device_id));
    SAME_MEMBER(kvs_dtype_t, DLDataType, code);
    SAME_MEMBER(kvs_dtype_t, DLDataType, bits);
    SAME_MEMBER(kvs_dtype_t, DLDataType, lanes);
    KT_INT(KVS_DEVICE_CPU, kDLCPU);
    KT_INT(KVS_CODE_INT, kDLInt);
    KT_INT(KVS_CODE_UINT, kDLUInt);
    KT_INT(KVS_CODE_FLOAT, kDLFloat);
    KT_INT(KVS_CODE_BFLOAT, kDLBfloat);
#else
    printf(" not compared: dlpack/dlpack.h (libdlpack-dev) is not installed ");
#endif
}

static const kt_test_t tests[] = {
    KT_TEST(a_tensor_begins_like_the_documented_layout),
    KT_TEST(a_tensor_begins_like_the_installed_header_says),
};
KT_MAIN("dlpack_layout", tests)
