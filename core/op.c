/* SPDX-License-Identifier: Apache-2.0 */
/* op.c - from the arguments of a call to groups of checked arrays. Checks come before anything is
 * changed, so that a list is carried out whole or not at all. */
#include "op.h"

#include "dlpack.h"
#include "rows.h"
#include "suggest.h"
#include "tensor.h"

#include <stdlib.h>
#include <string.h>

const char *kvsi_verb_name(kvs_verb_t verb)
{
    static const char *const names[] = {"",         "init",      "push",           "pull",
                                        "pushpull", "broadcast", "row_sparse_pull"};

    return names[verb];
}

/* ---- The arguments --------------------------------------------------------------------------- */

/* How many of the call's arrays belong to key `i`. */
static size_t arrays_of_key(const kvs_arrays_t *arrays, size_t n_keys, size_t i)
{
    if (arrays->per_key != NULL) {
        return arrays->per_key[i];
    }
    return n_keys == 1 ? arrays->n : 1;
}

static kvs_status_t check_list(const kvsi_request_t *request, const kvs_arrays_t *arrays,
                               const char *what)
{
    const char *verb = kvsi_verb_name(request->verb);
    size_t total = 0;

    if (arrays->n > 0 && arrays->tensors == NULL) {
        return kvs_fail(KVS_ERR_ARGUMENT, "%s: the %ss are NULL", verb, what);
    }
    if (arrays->per_key == NULL) {
        if (request->n_keys != 1 && arrays->n != request->n_keys) {
            return kvs_fail(KVS_ERR_ARGUMENT,
                            "%s: %zu keys, but %zu %ss; give one for each key, "
                            "or numbers per key",
                            verb, request->n_keys, arrays->n, what);
        }
        if (request->n_keys == 1 && arrays->n == 0) {
            return kvs_fail(KVS_ERR_ARGUMENT, "%s: key %s has no %ss", verb,
                            KVSI_KEY_TEXT(&request->keys[0]), what);
        }
        return KVS_OK;
    }
    if (arrays->n_per_key != request->n_keys) {
        return kvs_fail(KVS_ERR_ARGUMENT, "%s: %zu keys, but numbers of %ss for %zu keys", verb,
                        request->n_keys, what, arrays->n_per_key);
    }
    for (size_t i = 0; i < request->n_keys; i++) {
        if (arrays->per_key[i] == 0) {
            return kvs_fail(KVS_ERR_ARGUMENT, "%s: key %s has no %ss", verb,
                            KVSI_KEY_TEXT(&request->keys[i]), what);
        }
        if (__builtin_add_overflow(total, arrays->per_key[i], &total)) {
            total = SIZE_MAX; /* the sum that wrapped might be right */
            break;
        }
    }
    if (total != arrays->n) {
        return kvs_fail(KVS_ERR_ARGUMENT,
                        "%s: the numbers per key add up to %zu, but there are "
                        "%zu %ss",
                        verb, total, arrays->n, what);
    }
    return KVS_OK;
}

static kvs_status_t check_one_value_a_key(const kvsi_request_t *request)
{
    for (size_t i = 0; i < request->n_keys; i++) {
        size_t n = arrays_of_key(request->values, request->n_keys, i);

        if (n != 1) {
            return kvs_fail(KVS_ERR_EXISTS,
                            "%s: duplicate init of key %s: it has %zu values; one is accepted",
                            kvsi_verb_name(request->verb), KVSI_KEY_TEXT(&request->keys[i]), n);
        }
    }
    return KVS_OK;
}

static kvs_status_t check_row_id_counts(const kvsi_request_t *request)
{
    kvs_status_t status = KVS_OK;

    for (size_t i = 0; i < request->n_keys && status == KVS_OK; i++) {
        status = kvsi_rows_check_counts(kvsi_verb_name(request->verb), &request->keys[i],
                                        arrays_of_key(request->outs, request->n_keys, i),
                                        arrays_of_key(request->row_ids, request->n_keys, i));
    }
    return status;
}

kvs_status_t kvsi_request_check(const kvsi_request_t *request)
{
    const char *verb = kvsi_verb_name(request->verb);
    const kvs_call_t *call = request->call;
    kvs_status_t status = KVS_OK;

    if (call != NULL && call->size < sizeof(kvs_call_t)) {
        return kvs_fail(KVS_ERR_ARGUMENT,
                        "%s: the call's size is %u; begin with KVS_CALL_INIT (size %zu)", verb,
                        call->size, sizeof(kvs_call_t));
    }
    if (call != NULL && (call->flags & ~(uint32_t)KVS_CALL_KEEP_SPARSE) != 0) {
        return kvs_fail(KVS_ERR_ARGUMENT, "%s: unknown flags 0x%x", verb, call->flags);
    }
    if (call != NULL && call->reduce != 0 && request->verb != KVS_VERB_PUSHPULL) {
        return kvs_fail(KVS_ERR_ARGUMENT,
                        "%s: the call's member reduce is %u, must be 0 but in pushpull", verb,
                        call->reduce);
    }
    if (request->n_keys == 0) {
        if ((request->values != NULL && request->values->n > 0) ||
            (request->outs != NULL && request->outs->n > 0)) {
            return kvs_fail(KVS_ERR_ARGUMENT, "%s: no keys, but arrays", verb);
        }
        return KVS_OK;
    }
    if (request->keys == NULL) {
        return kvs_fail(KVS_ERR_ARGUMENT, "%s: the keys are NULL", verb);
    }
    for (size_t i = 1; i < request->n_keys; i++) {
        if ((request->keys[i].str == NULL) != (request->keys[0].str == NULL)) {
            return kvs_fail(KVS_ERR_KEY_TYPE, "%s: keys %s and %s: mixed key types are not allowed",
                            verb, KVSI_KEY_TEXT(&request->keys[0]),
                            KVSI_KEY_TEXT(&request->keys[i]));
        }
    }
    if (request->values != NULL) {
        status = check_list(request, request->values, "value");
    }
    if (status == KVS_OK && request->outs != NULL) {
        status = check_list(request, request->outs, "out");
    }
    if (status == KVS_OK && request->row_ids != NULL) {
        status = check_list(request, request->row_ids, "row id array");
        if (status == KVS_OK) {
            status = check_row_id_counts(request);
        }
    }
    if (status == KVS_OK &&
        (request->verb == KVS_VERB_INIT || request->verb == KVS_VERB_BROADCAST)) {
        status = check_one_value_a_key(request);
    }
    return status;
}

/* ---- Memory ---------------------------------------------------------------------------------- */

/* Cuts one block of memory into the parts of an op; with no memory only counts. */
typedef struct layout {
    char *base;
    size_t used;
} layout_t;

static void *take(layout_t *layout, size_t n, size_t bytes_each)
{
    size_t at = (layout->used + 15) & ~(size_t)15;

    layout->used = at + n * bytes_each;
    return layout->base == NULL ? NULL : layout->base + at;
}

static size_t n_arrays(const kvs_arrays_t *arrays)
{
    return arrays == NULL ? 0 : arrays->n;
}

static size_t n_outs_of(const kvsi_request_t *request)
{
    return request->verb == KVS_VERB_PUSHPULL && request->outs == NULL ? n_arrays(request->values)
                                                                       : n_arrays(request->outs);
}

static size_t n_dims(const kvs_arrays_t *arrays)
{
    size_t n = 0;

    for (size_t i = 0; arrays != NULL && i < arrays->n; i++) {
        int32_t ndim = arrays->tensors[i].ndim;

        n += ndim > 0 && ndim <= KVSI_MAX_NDIM ? (size_t)ndim : 0;
    }
    return n;
}

static kvsi_op_t *lay_out(layout_t *layout, const kvs_store_t *store, const kvsi_request_t *request,
                          bool on_heap, int64_t **ret_dims)
{
    size_t n_keys = request->n_keys;
    size_t n_tensors = n_arrays(request->values) + n_outs_of(request) + n_arrays(request->row_ids);
    kvsi_op_t *op = take(layout, 1, sizeof(*op));
    kvs_group_t *groups = take(layout, n_keys, sizeof(*groups));
    bool *made = take(layout, n_keys, sizeof(*made));
    size_t *group_of_key = take(layout, n_keys, sizeof(*group_of_key));
    kvsi_task_t *tasks = take(layout, n_keys, sizeof(*tasks));
    kvsi_place_t *places = take(layout, n_keys + 1, sizeof(*places));
    kvs_tensor_t *tensors = take(layout, n_tensors, sizeof(*tensors));
    char *states = take(layout, n_keys, (store->ops->group_size + 15) & ~(size_t)15);

    *ret_dims = NULL;
    if (on_heap) {
        *ret_dims =
            take(layout, n_dims(request->values) + n_dims(request->outs) + n_dims(request->row_ids),
                 sizeof(int64_t));
    }
    if (op != NULL) {
        memset(op, 0, sizeof(*op));
        memset(groups, 0, n_keys * sizeof(*groups));
        memset(made, 0, n_keys * sizeof(*made));
        memset(states, 0, layout->used - (size_t)(states - layout->base));
        op->pub.groups = groups;
        op->made = made;
        op->group_of_key = group_of_key;
        op->tasks = tasks;
        op->places = places;
        op->tensors = tensors;
        for (size_t i = 0; i < n_keys && store->ops->group_size > 0; i++) {
            groups[i].state = states + i * ((store->ops->group_size + 15) & ~(size_t)15);
        }
    }
    return op;
}

size_t kvsi_op_bytes(const kvs_store_t *store, const kvsi_request_t *request, bool on_heap)
{
    layout_t layout = {NULL, 0};
    int64_t *dims;

    (void)lay_out(&layout, store, request, on_heap, &dims);
    return layout.used;
}

/* Check and copy the arrays of one list behind `to`, and add up their bytes. */
static kvs_status_t copy_tensors(const kvsi_request_t *request, const kvs_arrays_t *arrays,
                                 const char *what, bool is_out, kvs_tensor_t *to, int64_t **dims,
                                 uint64_t *ret_bytes)
{
    size_t at = 0;

    for (size_t i = 0; i < request->n_keys; i++) {
        for (size_t n = arrays_of_key(arrays, request->n_keys, i); n > 0; n--, at++) {
            kvs_tensor_t *tensor = &to[at];
            kvsi_size_t size;
            kvs_status_t status;

            *tensor = arrays->tensors[at];
            status = kvsi_tensor_check(tensor, what, at, &request->keys[i], is_out, &size);
            if (status != KVS_OK) {
                return status;
            }
            if (tensor->data != NULL) {
                tensor->data = (char *)tensor->data + tensor->byte_offset;
            }
            tensor->byte_offset = 0;
            tensor->strides = NULL;
            *ret_bytes += tensor->rows == NULL
                              ? (uint64_t)size.n_bytes
                              : kvsi_rows_bytes(tensor, is_out ? tensor->rows->capacity
                                                               : tensor->rows->n_rows);
            if (*dims != NULL && tensor->ndim > 0) {
                memcpy(*dims, tensor->shape, (size_t)tensor->ndim * sizeof(int64_t));
                tensor->shape = *dims;
                *dims += tensor->ndim;
            }
        }
    }
    return KVS_OK;
}

kvs_status_t kvsi_op_make(kvs_store_t *store, const kvsi_request_t *request, void *memory,
                          bool on_heap, kvsi_op_t **ret_op)
{
    layout_t layout = {memory, 0};
    int64_t *dims;
    kvsi_op_t *op = lay_out(&layout, store, request, on_heap, &dims);
    kvs_status_t status = KVS_OK;

    op->store = store;
    op->pub.size = (uint32_t)sizeof(op->pub);
    op->pub.verb = request->verb;
    op->pub.core = op;
    op->first_error = SIZE_MAX;
    op->ready_end = &op->ready;
    op->n_values = n_arrays(request->values);
    op->n_outs = n_outs_of(request);
    op->n_row_ids = n_arrays(request->row_ids);
    if (request->call != NULL) {
        op->pub.priority = request->call->priority;
        op->pub.reduce = request->call->reduce;
        op->pub.flags = (request->call->flags & KVS_CALL_KEEP_SPARSE) != 0 ? KVS_OP_KEEP_SPARSE : 0;
    }
    if (request->call == NULL || request->call->ret_event == NULL) {
        op->pub.flags |= KVS_OP_WAITS;
    }
    if (request->values != NULL) {
        status = copy_tensors(request, request->values, "value", false, op->tensors, &dims,
                              &op->bytes_read);
    }
    if (status == KVS_OK && request->outs != NULL) {
        status = copy_tensors(request, request->outs, "out", true, op->tensors + op->n_values,
                              &dims, &op->bytes_written);
    } else if (status == KVS_OK && op->n_outs > 0) {
        memcpy(op->tensors + op->n_values, op->tensors, op->n_values * sizeof(kvs_tensor_t));
        op->bytes_written = op->bytes_read;
    }
    if (status == KVS_OK && request->row_ids != NULL) {
        uint64_t unused = 0;

        status = copy_tensors(request, request->row_ids, "row id array", false,
                              op->tensors + op->n_values + op->n_outs, &dims, &unused);
    }
    if (status != KVS_OK) {
        return status;
    }
    for (size_t i = 0; i < op->n_values + op->n_outs; i++) {
        op->has_rows |= op->tensors[i].rows != NULL;
    }
    op->on_heap = on_heap;
    for (size_t i = 0; on_heap && i < op->n_values + op->n_outs + op->n_row_ids; i++) {
        kvsi_dlpack_ref(op->tensors[i].owner);
    }
    *ret_op = op;
    return KVS_OK;
}

void kvsi_op_release_arrays(kvsi_op_t *op)
{
    size_t n = op->on_heap ? op->n_values + op->n_outs + op->n_row_ids : 0;

    for (size_t i = 0; i < n; i++) {
        kvsi_dlpack_unref(op->tensors[i].owner);
        op->tensors[i].owner = NULL;
    }
}

void kvsi_op_release(kvsi_op_t *op)
{
    kvsi_op_release_arrays(op);
    free(op->regrouped);
    free(op->out_index);
    free(op->event.text);
    if (op->on_heap) {
        free(op);
    }
}

void kvsi_op_unref(kvsi_op_t *op)
{
    if (atomic_fetch_sub_explicit(&op->refs, 1, memory_order_acq_rel) == 1) {
        kvs_store_t *store = op->store;

        kvsi_op_release(op);
        kvsi_store_unref(store);
    }
}

/* ---- Keys and groups ------------------------------------------------------------------------- */

static bool creates_keys(const kvsi_op_t *op)
{
    return op->pub.verb == KVS_VERB_INIT || op->pub.verb == KVS_VERB_BROADCAST ||
           !op->store->keeps_weights;
}

static kvsi_key_t *key_of(const kvs_group_t *group)
{
    return (kvsi_key_t *)group->key; /* kvsi_key_t begins with its entry */
}

static kvs_status_t fail_duplicate(const kvsi_op_t *op, const kvs_key_t *key, const char *where)
{
    return kvs_fail(KVS_ERR_EXISTS, "%s: duplicate init of key %s%s",
                    kvsi_verb_name((kvs_verb_t)op->pub.verb), KVSI_KEY_TEXT(key), where);
}

/* Find or make key `i` of the list and count it to its group. */
static kvs_status_t add_key(kvsi_op_t *op, const kvsi_request_t *request, size_t i)
{
    kvsi_keys_t *keys = &op->store->keys;
    const kvs_key_t *key = &request->keys[i];
    bool one_value = request->verb == KVS_VERB_INIT || request->verb == KVS_VERB_BROADCAST;
    kvsi_key_t *known = kvsi_keys_find(keys, key);
    kvs_status_t status = kvsi_keys_check_kind(keys, key);

    if (status != KVS_OK) {
        return status;
    }
    if (known != NULL && known->mark == op->pub.sequence) {
        op->group_of_key[i] = known->mark_group;
        return one_value ? fail_duplicate(op, key, ": it stands twice in the list") : KVS_OK;
    }
    if (creates_keys(op)) {
        if (known != NULL && known->live && one_value && op->store->keeps_weights) {
            return fail_duplicate(op, key, "");
        }
        status = kvsi_keys_add(keys, key, &known);
        if (status != KVS_OK) {
            return status;
        }
    } else if (known == NULL || !known->live) {
        status = kvsi_key_check(key);
        return status != KVS_OK
                   ? status
                   : kvs_fail(KVS_ERR_NOT_FOUND, "%s: key %s was never initialised; init it first",
                              kvsi_verb_name(request->verb), KVSI_KEY_TEXT(key));
    }
    known->mark = op->pub.sequence;
    known->mark_group = op->pub.n_groups;
    op->group_of_key[i] = op->pub.n_groups;
    op->made[op->pub.n_groups] = !known->live;
    op->pub.groups[op->pub.n_groups].key = &known->entry;
    op->pub.groups[op->pub.n_groups].list_index = i;
    op->pub.n_groups++;
    kvsi_keys_set_live(keys, known, true);
    return KVS_OK;
}

/* The three lists of a call and of its groups. */
enum { VALUES, OUTS, ROW_IDS, N_LISTS };

typedef struct list {
    const kvs_tensor_t **tensors;
    size_t *n;
} list_t;

static list_t list_of(kvs_group_t *group, int which)
{
    switch (which) {
    case VALUES:
        return (list_t){&group->values, &group->n_values};
    case OUTS:
        return (list_t){&group->outs, &group->n_outs};
    default:
        return (list_t){&group->row_ids, &group->n_row_ids};
    }
}

/* No key stands twice: group i is key i, and its arrays lie together in the call's list. */
static void point_into_list(kvsi_op_t *op, const kvsi_request_t *request,
                            const kvs_arrays_t *arrays, const kvs_tensor_t *tensors, int which)
{
    for (size_t i = 0; i < request->n_keys; i++) {
        list_t list = list_of(&op->pub.groups[i], which);

        *list.tensors = tensors;
        *list.n = arrays_of_key(arrays, request->n_keys, i);
        tensors += *list.n;
    }
}

/* How many arrays of a list the groups get for key `i`: of row ids one for each out, so that places
 * with one for all and others don't mix. */
static size_t n_collected(const kvsi_request_t *request, const kvs_arrays_t *arrays, size_t i,
                          int which)
{
    return arrays_of_key(which == ROW_IDS ? request->outs : arrays, request->n_keys, i);
}

/* Keys repeat: collect each group's arrays in `to`, in list order, and note where outs came from. */
static void collect(kvsi_op_t *op, const kvsi_request_t *request, const kvs_arrays_t *arrays,
                    const kvs_tensor_t *from, kvs_tensor_t *to, int which)
{
    size_t n_before = 0, at = 0;

    for (size_t i = 0; i < request->n_keys; i++) {
        *list_of(&op->pub.groups[op->group_of_key[i]], which).n +=
            n_collected(request, arrays, i, which);
    }
    for (size_t g = 0; g < op->pub.n_groups; g++) {
        list_t list = list_of(&op->pub.groups[g], which);

        *list.tensors = to + n_before;
        n_before += *list.n;
        *list.n = 0;
    }
    for (size_t i = 0; i < request->n_keys; i++) {
        list_t list = list_of(&op->pub.groups[op->group_of_key[i]], which);

        size_t n_given = arrays_of_key(arrays, request->n_keys, i);

        for (size_t j = 0; j < n_collected(request, arrays, i, which); j++) {
            size_t place = (size_t)(*list.tensors - to) + (*list.n)++;

            to[place] = from[at + (n_given == 1 ? 0 : j)];
            if (which == OUTS) {
                op->out_index[place] = at + j;
            }
        }
        at += n_given;
    }
}

/* Form the groups' lists of arrays. */
static kvs_status_t group_arrays(kvsi_op_t *op, const kvsi_request_t *request)
{
    const kvs_arrays_t *lists[N_LISTS] = {
        [VALUES] = request->values,
        [OUTS] = request->outs == NULL && op->n_outs > 0 ? request->values : request->outs,
        [ROW_IDS] = request->row_ids};
    size_t counts[N_LISTS] = {op->n_values, op->n_outs, op->n_row_ids};
    const kvs_tensor_t *from = op->tensors;
    kvs_tensor_t *to = NULL;

    if (op->pub.n_groups < request->n_keys) {
        size_t n_row_ids = op->n_row_ids > 0 ? op->n_outs : 0;

        to = malloc((op->n_values + op->n_outs + n_row_ids + 1) * sizeof(*to));
        op->regrouped = to;
        op->out_index = malloc((op->n_outs + 1) * sizeof(*op->out_index));
        if (to == NULL || op->out_index == NULL) {
            return kvs_fail(KVS_ERR_NO_MEMORY, "%s: no memory to group the list by key",
                            kvsi_verb_name(request->verb));
        }
    }
    for (int which = 0; which < N_LISTS; which++) {
        if (lists[which] != NULL && to == NULL) {
            point_into_list(op, request, lists[which], from, which);
        } else if (lists[which] != NULL) {
            collect(op, request, lists[which], from, to, which);
            to += counts[which];
        }
        from += counts[which];
    }
    return KVS_OK;
}

/* ---- Shapes and dtypes ----------------------------------------------------------------------- */

typedef struct expectation {
    const char *verb;
    kvs_key_t key;
    const char *of; /* "the key's" or "value 0's" */
    const int64_t *shape;
    int32_t ndim;
    kvs_dtype_t dtype;
} expectation_t;

static kvs_status_t check_array(const expectation_t *want, const kvs_tensor_t *tensor,
                                const char *what, size_t index, bool may_convert)
{
    if (!kvsi_shape_equal(tensor->shape, tensor->ndim, want->shape, want->ndim)) {
        return kvs_fail(KVS_ERR_SHAPE, "%s: key %s: %s %zu has shape %s, but %s shape is %s",
                        want->verb, KVSI_KEY_TEXT(&want->key), what, index,
                        KVSI_SHAPE_TEXT(tensor->shape, tensor->ndim), want->of,
                        KVSI_SHAPE_TEXT(want->shape, want->ndim));
    }
    if (kvsi_dtype_equal(tensor->dtype, want->dtype) ||
        (may_convert && kvsi_dtype_is_floating(tensor->dtype) &&
         kvsi_dtype_is_floating(want->dtype))) {
        return KVS_OK;
    }
    return kvs_fail(KVS_ERR_DTYPE, "%s: key %s: %s %zu is %s, but %s dtype is %s%s", want->verb,
                    KVSI_KEY_TEXT(&want->key), what, index, kvs_dtype_name(tensor->dtype), want->of,
                    kvs_dtype_name(want->dtype),
                    may_convert ? "; only floating dtypes are converted" : "");
}

kvs_status_t kvsi_op_check_layout(const char *verb, const kvs_key_entry_t *key,
                                  const kvs_tensor_t *value, size_t index)
{
    expectation_t want = {verb, kvsi_key_of(key), "the key's", key->shape, key->ndim, key->dtype};
    kvsi_size_t size;
    kvs_status_t status = kvsi_tensor_check(value, "value", index, &want.key, false, &size);

    return status == KVS_OK ? check_array(&want, value, "value", index, false) : status;
}

static const char *device_name(int32_t type)
{
    switch (type) {
    case KVS_DEVICE_CPU:
        return "cpu";
    case KVS_DEVICE_CUDA:
        return "cuda";
    case KVS_DEVICE_CUDA_HOST:
        return "cuda_host";
    case KVS_DEVICE_CUDA_MANAGED:
        return "cuda_managed";
    default:
        return "device";
    }
}

static kvs_status_t check_device(const kvsi_op_t *op, const expectation_t *want,
                                 const kvs_tensor_t *tensor)
{
    const kvs_backend_t *backend = op->store->backend;
    char takers[KVSI_TAKERS_BYTES];

    for (uint32_t i = 0; i < backend->n_device_types; i++) {
        if (backend->device_types[i] == tensor->device.type) {
            return KVS_OK;
        }
    }
    return kvs_fail(KVS_ERR_NOT_IMPLEMENTED,
                    "%s: key %s: arrays on %s(%d) (device type %d) are not taken by %s; installed "
                    "backends that take them: %s",
                    want->verb, KVSI_KEY_TEXT(&want->key), device_name(tensor->device.type),
                    (int)tensor->device.id, (int)tensor->device.type, backend->name,
                    kvsi_suggest_takers(device_name(tensor->device.type), takers));
}

/* The backend takes arrays of this dtype, device and storage. */
static kvs_status_t check_support(const kvsi_op_t *op, const expectation_t *want,
                                  const kvs_tensor_t *tensor)
{
    const kvs_backend_t *backend = op->store->backend;
    kvs_status_t status = check_device(op, want, tensor);

    if (status != KVS_OK) {
        return status;
    }
    if ((backend->dtypes & 1u << kvs_dtype_index(tensor->dtype)) == 0) {
        return kvs_fail(KVS_ERR_NOT_IMPLEMENTED, "%s: key %s: %s arrays are not taken by %s",
                        want->verb, KVSI_KEY_TEXT(&want->key), kvs_dtype_name(tensor->dtype),
                        backend->name);
    }
    if (tensor->rows != NULL && (backend->capabilities & KVS_CAN_SPARSE) == 0 &&
        !((backend->capabilities & KVS_CAN_ROWS) != 0 && op->pub.verb == KVS_VERB_PUSHPULL)) {
        return kvs_fail(KVS_ERR_NOT_IMPLEMENTED,
                        "%s: key %s: row-sparse arrays are not taken by %s", want->verb,
                        KVSI_KEY_TEXT(&want->key), backend->name);
    }
    return KVS_OK;
}

static kvs_status_t check_group(const kvsi_op_t *op, const kvs_group_t *group, bool made)
{
    const kvs_tensor_t *first = group->n_values > 0 ? &group->values[0] : &group->outs[0];
    bool by_value = made || !op->store->keeps_weights;
    expectation_t want = {
        kvsi_verb_name((kvs_verb_t)op->pub.verb),  kvsi_key_of(group->key),
        by_value ? "value 0's" : "the key's",      by_value ? first->shape : group->key->shape,
        by_value ? first->ndim : group->key->ndim, by_value ? first->dtype : group->key->dtype};
    kvs_status_t status = KVS_OK;

    for (size_t i = 0; i < group->n_values && status == KVS_OK; i++) {
        status = check_support(op, &want, &group->values[i]);
        if (status == KVS_OK) {
            status = check_array(&want, &group->values[i], "value", i, false);
        }
    }
    for (size_t i = 0; i < group->n_outs && status == KVS_OK; i++) {
        status = check_support(op, &want, &group->outs[i]);
        if (status == KVS_OK) {
            status = check_array(&want, &group->outs[i], "out", i, true);
        }
        if (status == KVS_OK && kvsi_dlpack_is_read_only(group->outs[i].owner)) {
            status = kvs_fail(KVS_ERR_ARGUMENT,
                              "%s: key %s: out %zu is read-only, says its DLPack tensor; pass one "
                              "that may be written",
                              want.verb, KVSI_KEY_TEXT(&want.key), i);
        }
    }
    for (size_t i = 0; i < group->n_row_ids && status == KVS_OK; i++) {
        status = check_device(op, &want, &group->row_ids[i]);
    }
    return status != KVS_OK
               ? status
               : kvsi_rows_check_storage(op, group,
                                         by_value ? first->rows != NULL : group->key->row_sparse);
}

static int by_number(const void *a, const void *b)
{
    int64_t left = ((const kvs_group_t *)a)->key->number;
    int64_t right = ((const kvs_group_t *)b)->key->number;

    return (left > right) - (left < right);
}

/* Updaters and optimizers go by key number. `made` belongs to list order, and is all false or all
 * true for the verbs that are sorted where weights are kept, so it needs no sorting along. */
static void sort_groups(kvsi_op_t *op)
{
    kvs_group_t *groups = op->pub.groups;

    for (size_t g = 1; g < op->pub.n_groups; g++) {
        if (by_number(&groups[g - 1], &groups[g]) > 0) {
            qsort(groups, op->pub.n_groups, sizeof(*groups), by_number);
            return;
        }
    }
}

kvs_status_t kvsi_op_resolve_locked(kvsi_op_t *op, const kvsi_request_t *request)
{
    kvs_status_t status = KVS_OK;

    for (size_t i = 0; i < request->n_keys && status == KVS_OK; i++) {
        status = add_key(op, request, i);
    }
    if (status == KVS_OK) {
        status = group_arrays(op, request);
    }
    for (size_t g = 0; g < op->pub.n_groups && status == KVS_OK; g++) {
        kvs_group_t *group = &op->pub.groups[g];

        status = check_group(op, group, op->made[g]);
        if (status == KVS_OK && op->made[g] && op->store->keeps_weights) {
            status = kvsi_key_set_layout(key_of(group), group->values,
                                         kvsi_tensor_n_elems(group->values));
        }
    }
    if (status != KVS_OK) {
        kvsi_op_revert_locked(op);
        return status;
    }
    if (op->store->keeps_weights &&
        (request->verb == KVS_VERB_PUSH || request->verb == KVS_VERB_PUSHPULL)) {
        sort_groups(op);
    }
    return KVS_OK;
}

void kvsi_op_revert_locked(kvsi_op_t *op)
{
    for (size_t g = op->pub.n_groups; g-- > 0;) { /* so that strings give back all their numbers */
        if (op->made[g]) {
            kvsi_keys_set_live(&op->store->keys, key_of(&op->pub.groups[g]), false);
        }
    }
}

/* ---- Shared memory --------------------------------------------------------------------------- */

typedef struct span {
    uintptr_t begin, end;
    size_t group;
    bool out;
} span_t;

static int by_begin(const void *a, const void *b)
{
    const span_t *left = a, *right = b;

    if (left->begin != right->begin) {
        return left->begin < right->begin ? -1 : 1;
    }
    return (left->end > right->end) - (left->end < right->end);
}

/* Bytes of a row-sparse array's rows and of their ids: an out's as far as there is room. */
static void measure_rows(const kvs_tensor_t *tensor, bool out, size_t *ret_rows, size_t *ret_ids)
{
    int64_t n_rows = out ? tensor->rows->capacity : tensor->rows->n_rows;

    *ret_ids = (size_t)n_rows * sizeof(int64_t);
    *ret_rows = (size_t)kvsi_rows_bytes(tensor, n_rows) - *ret_ids;
}

static void add_span(span_t *spans, size_t *n, const void *begin, size_t n_bytes, size_t group,
                     bool out)
{
    if (n_bytes > 0) {
        spans[(*n)++] = (span_t){(uintptr_t)begin, (uintptr_t)begin + n_bytes, group, out};
    }
}

/* At most two for each tensor. */
static void add_spans(span_t *spans, size_t *n, const kvs_tensor_t *tensors, size_t n_tensors,
                      size_t group, bool out)
{
    for (size_t i = 0; i < n_tensors; i++) {
        const kvs_tensor_t *tensor = &tensors[i];
        size_t bytes, id_bytes;

        if (tensor->rows == NULL) {
            bytes = (size_t)kvsi_tensor_n_elems(tensor) * (tensor->dtype.bits / 8);
            add_span(spans, n, tensor->data, bytes, group, out);
        } else {
            measure_rows(tensor, out, &bytes, &id_bytes);
            add_span(spans, n, tensor->data, bytes, group, out);
            add_span(spans, n, tensor->rows->ids, id_bytes, group, out);
        }
    }
}

/* Two arrays that meet in memory matter if one is written, unless they are the very same array in
 * one group. */
static bool clash(const span_t *a, const span_t *b)
{
    bool same = a->group == b->group && a->begin == b->begin && a->end == b->end;

    return a->begin < b->end && b->begin < a->end && (a->out || b->out) && !same;
}

/* Spans sorted by begin: only those up to the farthest end so far can meet the next one. */
static bool any_clash(const span_t *spans, size_t n)
{
    uintptr_t farthest = 0;
    size_t oldest = 0; /* no span before it reaches the current one */

    for (size_t i = 0; i < n; i++) {
        if (spans[i].begin >= farthest) {
            oldest = i;
        }
        for (size_t j = oldest; j < i; j++) {
            if (clash(&spans[j], &spans[i])) {
                return true;
            }
        }
        farthest = spans[i].end > farthest ? spans[i].end : farthest;
    }
    return false;
}

/* Tell each group its outs' places in the call's list; where keys repeat, group_arrays noted them. */
static kvs_status_t number_outs(kvsi_op_t *op)
{
    const kvs_tensor_t *lists_outs =
        op->regrouped != NULL ? op->regrouped + op->n_values : op->tensors + op->n_values;

    if (op->out_index == NULL) {
        op->out_index = malloc((op->n_outs + 1) * sizeof(*op->out_index));
        if (op->out_index == NULL) {
            return kvs_fail(KVS_ERR_NO_MEMORY, "%s: no memory to number %zu outs",
                            kvsi_verb_name((kvs_verb_t)op->pub.verb), op->n_outs);
        }
        for (size_t i = 0; i < op->n_outs; i++) {
            op->out_index[i] = i;
        }
    }
    for (size_t g = 0; g < op->pub.n_groups; g++) {
        op->pub.groups[g].out_index = op->out_index + (op->pub.groups[g].outs - lists_outs);
    }
    return KVS_OK;
}

/* Insertion sorts short lists, and long ones that are in order, faster than qsort does. */
static void sort_spans(span_t *spans, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        span_t span = spans[i];
        size_t at = i;

        if (by_begin(&spans[i - 1], &span) <= 0) {
            continue;
        }
        if (n > 16) {
            qsort(spans, n, sizeof(*spans), by_begin);
            return;
        }
        for (; at > 0 && by_begin(&spans[at - 1], &span) > 0; at--) {
            spans[at] = spans[at - 1];
        }
        spans[at] = span;
    }
}

kvs_status_t kvsi_op_find_shared(kvsi_op_t *op)
{
    span_t on_stack[64], *spans = on_stack;
    size_t n_arrays_of_op = op->n_values + op->n_outs + op->n_row_ids, n = 0;
    size_t n_max = 2 * (op->n_values + op->n_outs) + (op->n_row_ids > 0 ? op->n_outs : 0);
    bool shared;

    if (op->n_outs == 0 || n_arrays_of_op == 1) {
        return KVS_OK;
    }
    if (n_max > sizeof(on_stack) / sizeof(on_stack[0])) {
        spans = malloc(n_max * sizeof(*spans));
        if (spans == NULL) {
            return kvs_fail(KVS_ERR_NO_MEMORY, "%s: no memory to compare %zu arrays",
                            kvsi_verb_name((kvs_verb_t)op->pub.verb), n_arrays_of_op);
        }
    }
    for (size_t g = 0; g < op->pub.n_groups; g++) {
        add_spans(spans, &n, op->pub.groups[g].values, op->pub.groups[g].n_values, g, false);
        add_spans(spans, &n, op->pub.groups[g].outs, op->pub.groups[g].n_outs, g, true);
        add_spans(spans, &n, op->pub.groups[g].row_ids, op->pub.groups[g].n_row_ids, g, false);
    }
    sort_spans(spans, n);
    shared = any_clash(spans, n);
    if (spans != on_stack) {
        free(spans);
    }
    if (!shared) {
        return KVS_OK;
    }
    op->pub.flags |= KVS_OP_SHARED;
    return number_outs(op);
}
