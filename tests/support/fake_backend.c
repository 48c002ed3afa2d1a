/* SPDX-License-Identifier: Apache-2.0 */
/* fake_backend.c - one table of calls, one of gates and one of failures for all fake stores, under
 * one lock. */
#include "fake_backend.h"

#include "host.h"

#include <stdlib.h>

enum { MAX_RECORDS = 4096, MAX_CALLS = 256, MAX_RULES = 32 };

typedef char name_t[80];

typedef struct gate {
    name_t call;
    bool closed;
    size_t n_inside;
} gate_t;

typedef struct failure {
    name_t call;
    kvs_status_t status;
    const char *text;
} failure_t;

/* An operation that an asynchronous store was handed. */
typedef struct handed {
    struct fake_store *store;
    kvs_op_t *op;
    struct handed *next;
} handed_t;

typedef struct fake_store {
    kvs_updater_t updater;
    void *updater_arg;
    bool keeps_weights;
} fake_store_t;

typedef struct fake_key {
    float *value;
    int64_t n_elems;
} fake_key_t;

typedef struct fake_group_state {
    float *sum;
} fake_group_state_t;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t news; /* something below has changed */
static name_t records[MAX_RECORDS];
static size_t n_records;
static fake_call_t calls[MAX_CALLS];
static size_t n_calls;
static gate_t gates[MAX_RULES];
static size_t n_gates;
static failure_t failures[MAX_RULES];
static handed_t *handed;
static bool inside;
static void (*close_hook)(void *arg);
static void *close_hook_arg;

/* ---- Tables ---------------------------------------------------------------------------------- */

static void die(const char *what, const char *call)
{
    fprintf(stderr, "\nfake backend: %s: %s\n", what, call);
    fflush(NULL);
    _Exit(1);
}

static gate_t *gate_of_locked(const char *call)
{
    for (size_t i = 0; i < n_gates; i++) {
        if (strcmp(gates[i].call, call) == 0) {
            return &gates[i];
        }
    }
    return NULL;
}

static void record_locked(const char *call)
{
    if (n_records < MAX_RECORDS) {
        snprintf(records[n_records++], sizeof(name_t), "%s", call);
    }
    pthread_cond_broadcast(&news);
}

/* Block if the call is held, then fail if it is to fail. */
static kvs_status_t obey(const char *call)
{
    int64_t deadline = kt_deadline();
    kvs_status_t status = KVS_OK;
    gate_t *gate;

    pthread_mutex_lock(&lock);
    gate = gate_of_locked(call);
    if (gate != NULL) {
        gate->n_inside++;
        pthread_cond_broadcast(&news);
        while (gate->closed) {
            kt_cond_wait(&news, &lock, deadline, call);
        }
        gate->n_inside--;
    }
    for (size_t i = 0; i < MAX_RULES && status == KVS_OK; i++) {
        if (failures[i].status != KVS_OK && strcmp(failures[i].call, call) == 0) {
            status = kvs_fail(failures[i].status, "%s", failures[i].text);
            failures[i].status = KVS_OK;
        }
    }
    pthread_mutex_unlock(&lock);
    return status;
}

static kvs_status_t record_and_obey(const char *call)
{
    pthread_mutex_lock(&lock);
    record_locked(call);
    pthread_mutex_unlock(&lock);
    return obey(call);
}

void fake_hold(const char *call)
{
    gate_t *gate;

    pthread_mutex_lock(&lock);
    gate = gate_of_locked(call);
    if (gate == NULL) {
        if (n_gates == MAX_RULES) {
            die("too many calls to hold", call);
        }
        gate = &gates[n_gates++];
        *gate = (gate_t){.closed = true};
        snprintf(gate->call, sizeof(gate->call), "%s", call);
    }
    gate->closed = true;
    pthread_mutex_unlock(&lock);
}

void fake_release(const char *call)
{
    gate_t *gate;

    pthread_mutex_lock(&lock);
    gate = gate_of_locked(call);
    if (gate == NULL) {
        die("not held", call);
    } else {
        gate->closed = false;
    }
    pthread_cond_broadcast(&news);
    pthread_mutex_unlock(&lock);
}

void fake_wait_held(const char *call)
{
    int64_t deadline = kt_deadline();
    gate_t *gate;

    pthread_mutex_lock(&lock);
    gate = gate_of_locked(call);
    if (gate == NULL) {
        die("not held", call);
    }
    while (gate != NULL && gate->n_inside == 0) {
        kt_cond_wait(&news, &lock, deadline, call);
    }
    pthread_mutex_unlock(&lock);
}

void fake_fail(const char *call, kvs_status_t status, const char *text)
{
    size_t i = 0;

    pthread_mutex_lock(&lock);
    while (i < MAX_RULES && failures[i].status != KVS_OK) {
        i++;
    }
    if (i == MAX_RULES) {
        die("too many calls to fail", call);
    }
    snprintf(failures[i].call, sizeof(name_t), "%s", call);
    failures[i].status = status;
    failures[i].text = text;
    pthread_mutex_unlock(&lock);
}

void fake_on_close(void (*fn)(void *arg), void *arg)
{
    pthread_mutex_lock(&lock);
    close_hook = fn;
    close_hook_arg = arg;
    pthread_mutex_unlock(&lock);
}

void fake_complete_inside(bool is_inside)
{
    pthread_mutex_lock(&lock);
    inside = is_inside;
    pthread_mutex_unlock(&lock);
}

const char *fake_calls(void)
{
    static char text[8192];
    size_t used = 0;

    pthread_mutex_lock(&lock);
    text[0] = '\0';
    for (size_t i = 0; i < n_calls && used < sizeof(text); i++) {
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s", i == 0 ? "" : ", ",
                                 calls[i].name);
    }
    pthread_mutex_unlock(&lock);
    return text;
}

const fake_call_t *fake_call(size_t index)
{
    pthread_mutex_lock(&lock);
    if (index >= n_calls) {
        die("fewer calls than expected, after", n_calls == 0 ? "none" : calls[n_calls - 1].name);
    }
    pthread_mutex_unlock(&lock);
    return &calls[index];
}

static size_t count_locked(const char *call)
{
    size_t n = 0;

    for (size_t i = 0; i < n_records; i++) {
        n += strcmp(records[i], call) == 0;
    }
    return n;
}

size_t fake_count(const char *call)
{
    size_t n;

    pthread_mutex_lock(&lock);
    n = count_locked(call);
    pthread_mutex_unlock(&lock);
    return n;
}

void fake_wait_count(const char *call, size_t n)
{
    int64_t deadline = kt_deadline();

    pthread_mutex_lock(&lock);
    while (count_locked(call) < n) {
        kt_cond_wait(&news, &lock, deadline, call);
    }
    pthread_mutex_unlock(&lock);
}

/* ---- Recording operations -------------------------------------------------------------------- */

static const char *verb_name(uint32_t verb)
{
    static const char *const names[] = {"?",        "init",      "push",           "pull",
                                        "pushpull", "broadcast", "row_sparse_pull"};

    return names[verb];
}

static void key_text(const kvs_key_entry_t *key, char *text, size_t n_bytes)
{
    if (key->name != NULL) {
        snprintf(text, n_bytes, "%s", key->name);
    } else {
        snprintf(text, n_bytes, "%lld", (long long)key->number);
    }
}

/* "push 3", of the first key. */
static void name_call(const char *verb, const kvs_op_t *op, name_t name)
{
    char key[64];

    key_text(op->groups[0].key, key, sizeof(key));
    snprintf(name, sizeof(name_t), "%s %s", verb, key);
}

static void record_group(const kvs_group_t *group, fake_group_t *to)
{
    key_text(group->key, to->key, sizeof(to->key));
    to->entry = group->key;
    to->number = group->key->number;
    to->n_values = group->n_values;
    to->n_outs = group->n_outs;
    to->n_row_ids = group->n_row_ids;
    to->list_index = group->list_index;
    to->is_numbered = group->out_index != NULL;
    to->was_zeroed = group->state != NULL && ((fake_group_state_t *)group->state)->sum == NULL;
    for (size_t i = 0; i < FAKE_MAX_ARRAYS; i++) {
        to->values[i] = i < group->n_values ? group->values[i].data : NULL;
        to->outs[i] = i < group->n_outs ? group->outs[i].data : NULL;
        to->row_ids[i] = i < group->n_row_ids ? group->row_ids[i].data : NULL;
        to->out_index[i] = to->is_numbered && i < group->n_outs ? group->out_index[i] : SIZE_MAX;
    }
}

static void record_op(const char *verb, const kvs_op_t *op)
{
    name_t name;

    name_call(verb, op, name);
    pthread_mutex_lock(&lock);
    record_locked(name);
    if (n_calls < MAX_CALLS) {
        fake_call_t *call = &calls[n_calls++];
        size_t used = (size_t)snprintf(call->name, sizeof(call->name), "%s", name);

        call->flags = op->flags;
        call->priority = op->priority;
        call->sequence = op->sequence;
        call->n_groups = op->n_groups;
        call->thread = pthread_self();
        for (size_t g = 0; g < op->n_groups && g < FAKE_MAX_GROUPS; g++) {
            record_group(&op->groups[g], &call->groups[g]);
            if (g > 0 && used < sizeof(call->name)) {
                used += (size_t)snprintf(call->name + used, sizeof(call->name) - used, "+%s",
                                         call->groups[g].key);
            }
        }
    }
    pthread_mutex_unlock(&lock);
}

/* ---- Values ---------------------------------------------------------------------------------- */

static bool has_values(const kvs_tensor_t *tensor)
{
    return tensor->rows == NULL && kvs_dtype_index(tensor->dtype) == KVS_DTYPE_float32;
}

static int64_t count_elems(const kvs_tensor_t *tensor)
{
    int64_t n = 1;

    for (int32_t i = 0; i < tensor->ndim; i++) {
        n *= tensor->shape[i];
    }
    return n;
}

static void copy(float *to, const float *from, int64_t n_elems)
{
    if (n_elems > 0 && to != from) {
        memcpy(to, from, (size_t)n_elems * sizeof(float));
    }
}

/* The sum of the group's values into its state. */
static void sum_values(const kvs_group_t *group)
{
    fake_group_state_t *state = group->state;
    int64_t n_elems = count_elems(&group->values[0]);

    if (!has_values(&group->values[0])) {
        return;
    }
    state->sum = calloc((size_t)n_elems + 1, sizeof(float));
    for (size_t v = 0; v < group->n_values && state->sum != NULL; v++) {
        const float *value = group->values[v].data;

        for (int64_t i = 0; i < n_elems; i++) {
            state->sum[i] += value[i];
        }
    }
}

static void drop_sums(const kvs_op_t *op)
{
    for (size_t g = 0; g < op->n_groups; g++) {
        fake_group_state_t *state = op->groups[g].state;

        free(state->sum);
        state->sum = NULL;
    }
}

static void write_out(const kvs_group_t *group, size_t out)
{
    const fake_group_state_t *state = group->state;
    const fake_key_t *key = group->key->state;
    const float *from = state->sum != NULL ? state->sum : key->value;

    if (from != NULL && has_values(&group->outs[out])) {
        copy(group->outs[out].data, from, count_elems(&group->outs[out]));
    }
}

/* Every out, in ascending order of out_index where there is one. */
static void write_outs(const kvs_op_t *op)
{
    size_t n_outs = 0;

    for (size_t g = 0; g < op->n_groups; g++) {
        n_outs += op->groups[g].n_outs;
        for (size_t i = 0; op->groups[g].out_index == NULL && i < op->groups[g].n_outs; i++) {
            write_out(&op->groups[g], i);
        }
    }
    for (size_t place = 0; place < n_outs; place++) {
        for (size_t g = 0; g < op->n_groups; g++) {
            const kvs_group_t *group = &op->groups[g];

            for (size_t i = 0; group->out_index != NULL && i < group->n_outs; i++) {
                if (group->out_index[i] == place) {
                    write_out(group, i);
                }
            }
        }
    }
}

static void keep_first_value(const kvs_group_t *group)
{
    fake_key_t *key = group->key->state;

    if (key->value != NULL) {
        die("init of a key that has a value", group->key->name != NULL ? group->key->name : "");
    }
    key->n_elems = count_elems(&group->values[0]);
    key->value = has_values(&group->values[0])
                     ? calloc((size_t)key->n_elems + 1, sizeof(*key->value))
                     : NULL;
    if (key->value != NULL) {
        copy(key->value, group->values[0].data, key->n_elems);
    }
}

static kvs_status_t store_sum(const fake_store_t *store, const kvs_group_t *group)
{
    const fake_group_state_t *state = group->state;
    fake_key_t *key = group->key->state;
    kvs_key_t name = {group->key->name, group->key->number};
    kvs_tensor_t sum = group->values[0], stored = group->values[0];
    kvs_status_t status;

    if (state->sum == NULL || key->value == NULL) {
        return KVS_OK;
    }
    if (store->updater == NULL) {
        copy(key->value, state->sum, key->n_elems);
        return KVS_OK;
    }
    sum.data = state->sum;
    stored.data = key->value;
    status = store->updater(&name, &sum, &stored, store->updater_arg);
    return status == KVS_OK ? KVS_OK : kvs_fail(KVS_ERR_CALLBACK, "updater: %s", kvs_last_error());
}

/* The part of the operation that `verb` names: of a pushpull a push, a pull, or both. */
static kvs_status_t carry_out(const fake_store_t *store, const kvs_op_t *op, kvs_verb_t verb)
{
    bool creates = store->keeps_weights && (verb == KVS_VERB_INIT || verb == KVS_VERB_BROADCAST);
    bool stores = store->keeps_weights && (verb == KVS_VERB_PUSH || verb == KVS_VERB_PUSHPULL);
    kvs_status_t status = KVS_OK;

    for (size_t g = 0; g < op->n_groups; g++) {
        if (creates) {
            keep_first_value(&op->groups[g]);
        } else if (stores || !store->keeps_weights) {
            sum_values(&op->groups[g]);
        }
    }
    for (size_t g = 0; g < op->n_groups && stores && status == KVS_OK; g++) {
        status = store_sum(store, &op->groups[g]);
    }
    if (store->keeps_weights) {
        drop_sums(op); /* outs get the stored value */
    }
    if (status == KVS_OK && verb != KVS_VERB_INIT && verb != KVS_VERB_PUSH) {
        write_outs(op);
    }
    drop_sums(op);
    return status;
}

kvs_status_t fake_updater(const kvs_key_t *key, const kvs_tensor_t *value,
                          const kvs_tensor_t *stored, void *arg)
{
    const float *from = value->data;
    float *to = stored->data;
    name_t name;
    kvs_status_t status;

    (void)arg;
    if (key->str != NULL) {
        snprintf(name, sizeof(name), "updater %s", key->str);
    } else {
        snprintf(name, sizeof(name), "updater %lld", (long long)key->num);
    }
    status = record_and_obey(name);
    for (int64_t i = 0; i < count_elems(stored); i++) {
        to[i] += from[i];
    }
    return status;
}

/* ---- Blocking stores ------------------------------------------------------------------------- */

static kvs_status_t run_blocking(void *store, kvs_op_t *op, kvs_verb_t verb)
{
    name_t name;
    kvs_status_t status;

    record_op(verb_name(verb), op);
    name_call(verb_name(verb), op, name);
    status = obey(name);
    return status == KVS_OK ? carry_out(store, op, verb) : status;
}

static kvs_status_t blocking_init(void *store, kvs_op_t *op)
{
    return run_blocking(store, op, KVS_VERB_INIT);
}

static kvs_status_t blocking_push(void *store, kvs_op_t *op)
{
    return run_blocking(store, op, KVS_VERB_PUSH);
}

static kvs_status_t blocking_pull(void *store, kvs_op_t *op)
{
    return run_blocking(store, op, KVS_VERB_PULL);
}

static kvs_status_t blocking_any(void *store, kvs_op_t *op)
{
    return run_blocking(store, op, (kvs_verb_t)op->verb);
}

/* ---- Asynchronous stores --------------------------------------------------------------------- */

static void complete(handed_t *one, kvs_status_t status)
{
    if (status == KVS_OK) {
        status = carry_out(one->store, one->op, (kvs_verb_t)one->op->verb);
    }
    kvsi_host()->complete(one->op, status);
    free(one);
}

static kvs_status_t hand_over(void *store, kvs_op_t *op)
{
    handed_t *one = malloc(sizeof(*one)), **end = &handed;
    name_t name;
    kvs_status_t status;
    bool at_once;

    record_op(verb_name(op->verb), op);
    name_call(verb_name(op->verb), op, name);
    status = obey(name);
    if (status != KVS_OK || one == NULL) {
        free(one);
        return status;
    }
    *one = (handed_t){store, op, NULL};
    pthread_mutex_lock(&lock);
    at_once = inside;
    while (*end != NULL) {
        end = &(*end)->next;
    }
    if (!at_once) {
        *end = one;
    }
    pthread_cond_broadcast(&news);
    pthread_mutex_unlock(&lock);
    if (at_once) {
        kvsi_host()->consumed(op);
        complete(one, KVS_OK);
    }
    return KVS_OK;
}

/* The link to the oldest of this name, waiting for one. */
static handed_t **find_handed_locked(const char *call)
{
    int64_t deadline = kt_deadline();

    for (;;) {
        for (handed_t **link = &handed; *link != NULL; link = &(*link)->next) {
            name_t name;

            name_call(verb_name((*link)->op->verb), (*link)->op, name);
            if (strcmp(name, call) == 0) {
                return link;
            }
        }
        kt_cond_wait(&news, &lock, deadline, call);
    }
}

static handed_t *take_handed(const char *call)
{
    handed_t **link, *one;

    pthread_mutex_lock(&lock);
    link = find_handed_locked(call);
    one = *link;
    *link = one->next;
    pthread_mutex_unlock(&lock);
    return one;
}

void fake_wait_handed(const char *call)
{
    pthread_mutex_lock(&lock);
    (void)find_handed_locked(call);
    pthread_mutex_unlock(&lock);
}

void fake_consume(const char *call)
{
    kvs_op_t *op;

    pthread_mutex_lock(&lock);
    op = (*find_handed_locked(call))->op;
    pthread_mutex_unlock(&lock);
    kvsi_host()->consumed(op);
}

void fake_complete(const char *call)
{
    complete(take_handed(call), KVS_OK);
}

void fake_complete_failed(const char *call, kvs_status_t status, const char *text)
{
    complete(take_handed(call), kvs_fail(status, "%s", text));
}

/* ---- The backends ---------------------------------------------------------------------------- */

static kvs_status_t open_keeping(void *store, const kvs_open_args_t *args)
{
    (void)args;
    ((fake_store_t *)store)->keeps_weights = true;
    return record_and_obey("open");
}

static kvs_status_t open_plain(void *store, const kvs_open_args_t *args)
{
    (void)store;
    (void)args;
    return record_and_obey("open");
}

static kvs_status_t probe(const kvs_config_t *config)
{
    (void)config;
    return obey("probe");
}

static kvs_status_t close_store(void *store, int64_t timeout_ms)
{
    void (*hook)(void *arg);
    void *arg;

    (void)store;
    (void)timeout_ms;
    pthread_mutex_lock(&lock);
    hook = close_hook;
    arg = close_hook_arg;
    pthread_mutex_unlock(&lock);
    if (hook != NULL) {
        hook(arg);
    }
    return record_and_obey("close");
}

static void release_key(void *store, kvs_key_entry_t *entry)
{
    fake_key_t *key = entry->state;
    char text[64];
    name_t name;

    (void)store;
    free(key->value);
    key->value = NULL;
    key_text(entry, text, sizeof(text));
    snprintf(name, sizeof(name), "release %s", text);
    (void)record_and_obey(name);
}

static kvs_status_t issue(void *store, kvs_op_t *op)
{
    name_t name;

    (void)store;
    name_call("issue", op, name);
    return record_and_obey(name);
}

static kvs_status_t set_updater(void *store, kvs_updater_t fn, void *arg)
{
    fake_store_t *self = store;

    self->updater = fn;
    self->updater_arg = arg;
    return record_and_obey("set_updater");
}

static kvs_status_t set_optimizer(void *store, const kvs_optimizer_spec_t *spec)
{
    (void)store;
    (void)spec;
    return record_and_obey("set_optimizer");
}

/* What is pending ends when the test says so. Not safe in a signal handler. */
static void cancel(void *store)
{
    (void)store;
    (void)record_and_obey("cancel");
}

static uint32_t mode_of(void *store)
{
    (void)store;
    return KVS_ASYNCHRONOUS;
}

#define COMMON(open_function)                                                                      \
    .size = (uint32_t)sizeof(kvs_backend_ops_t), .store_size = sizeof(fake_store_t),               \
    .key_size = sizeof(fake_key_t), .group_size = sizeof(fake_group_state_t), .probe = probe,      \
    .open = (open_function), .close = close_store, .key_release = release_key, .issue = issue,     \
    .set_updater = set_updater, .set_optimizer = set_optimizer

static const kvs_backend_ops_t blocking_ops = {
    COMMON(open_keeping),  .mode = KVS_BLOCKING,  .init = blocking_init,
    .push = blocking_push, .pull = blocking_pull, .row_sparse_pull = blocking_any};
static const kvs_backend_ops_t plain_ops = {COMMON(open_plain), .mode = KVS_BLOCKING,
                                            .pushpull = blocking_any, .broadcast = blocking_any};
static const kvs_backend_ops_t async_ops = {COMMON(open_keeping),   .mode = KVS_ASYNCHRONOUS,
                                            .init = hand_over,      .push = hand_over,
                                            .pull = hand_over,      .pushpull = hand_over,
                                            .broadcast = hand_over, .row_sparse_pull = hand_over};
static const kvs_backend_ops_t async_cancels_ops = {COMMON(open_keeping), .mode = KVS_ASYNCHRONOUS,
                                                    .init = hand_over,    .push = hand_over,
                                                    .pull = hand_over,    .cancel = cancel};
static const kvs_backend_ops_t async_bare_ops = {COMMON(open_keeping), .mode = KVS_ASYNCHRONOUS,
                                                 .init = hand_over, .push = hand_over,
                                                 .pull = hand_over};
static const kvs_backend_ops_t async_stores_ops = {COMMON(open_keeping), .mode = KVS_BLOCKING,
                                                   .init = hand_over,    .push = hand_over,
                                                   .pull = hand_over,    .store_mode = mode_of};
static const kvs_backend_ops_t async_plain_ops = {COMMON(open_plain), .mode = KVS_ASYNCHRONOUS,
                                                  .pushpull = hand_over, .broadcast = hand_over};

static const int32_t cpu[] = {KVS_DEVICE_CPU};
static const kvs_option_info_t options[] = {
    {.name = "depth", .type = "int", .preset = "3", .doc = "a number for tests of options"}};

static void add(const char *name, const kvs_backend_ops_t *ops, uint32_t capabilities,
                uint32_t dtypes)
{
    kvs_backend_t backend = {.size = (uint32_t)sizeof(backend),
                             .capabilities = capabilities,
                             .name = name,
                             .dtypes = dtypes,
                             .n_device_types = 1,
                             .device_types = cpu,
                             .ops = ops,
                             .options = options,
                             .n_options = 1};

    if (kvs_register_backend(name, &backend) != KVS_OK) {
        die(kvs_last_error(), name);
    }
}

static void register_all(void)
{
    uint32_t keeps = KVS_KEEPS_WEIGHTS | KVS_CAN_OPTIMIZER;

    kt_cond_init(&news);
    add(FAKE, &blocking_ops, keeps | KVS_CAN_SPARSE, KVS_DTYPES_ALL);
    add(FAKE_PLAIN, &plain_ops, 0, 1u << KVS_DTYPE_float32);
    add(FAKE_ASYNC, &async_ops, keeps | KVS_CAN_ASYNC, KVS_DTYPES_ALL);
    add(FAKE_ASYNC_CANCELS, &async_cancels_ops, keeps, KVS_DTYPES_ALL);
    add(FAKE_ASYNC_STORES, &async_stores_ops, keeps, KVS_DTYPES_ALL);
    add(FAKE_ASYNC_BARE, &async_bare_ops, keeps, KVS_DTYPES_ALL);
    add(FAKE_ASYNC_PLAIN, &async_plain_ops, 0, KVS_DTYPES_ALL);
}

void fake_begin(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, register_all);
    pthread_mutex_lock(&lock);
    if (handed != NULL) {
        die("the last test left an operation", verb_name(handed->op->verb));
    }
    n_records = n_calls = n_gates = 0;
    memset(failures, 0, sizeof(failures));
    inside = false;
    close_hook = NULL;
    pthread_mutex_unlock(&lock);
}

kvs_store_t *fake_open(const char *type)
{
    kvs_store_t *store = NULL;

    KT_OK(kvs_store_create(type, NULL, 0, &store));
    return store;
}
