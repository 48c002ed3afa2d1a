/* SPDX-License-Identifier: Apache-2.0 */
/* dist_round.c - synchronous rounds: each worker's n-th push of a key belongs to round n, whatever the
 * others do. Parts are summed in order of rank, as soon as every worker's has come and the last
 * round's value is no longer on its way out; then the weight is replaced or updated, and the part goes
 * back to those who asked for it. So the bits depend on no order of arrival. */
#include "dist_depot.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_BYTES  2048
#define REPORT_NS   INT64_C(30000000000)
#define GRACE_MS    5000 /* a round in which parts still arrive is not over */
#define SCRATCH_MAX DIST_PART_BYTES

static const kvs_device_t host_device = {KVS_DEVICE_CPU, 0};

/* ---- Memory of rounds --------------------------------------------------------------------------------- */

dist_round_t *dist_round_new(const dist_entry_t *entry, int only)
{
    size_t n_workers = (size_t)entry->depot->n_workers, n_parts = (size_t)entry->n_parts;
    size_t n_lists = only < 0 ? n_workers : 1;
    dist_round_t *round = calloc(1, sizeof(*round) + n_workers * sizeof(dist_push_t) +
                                        n_lists * n_parts * sizeof(kvs_net_message_t *));
    kvs_net_message_t **parts;

    if (round == NULL) {
        return NULL;
    }
    round->only = only;
    parts = (kvs_net_message_t **)&round->pushes[n_workers];
    for (size_t w = 0; w < n_workers; w++) {
        round->pushes[w].parts = only < 0 ? parts + w * n_parts : parts;
    }
    return round;
}

void dist_round_free(const dist_entry_t *entry, dist_round_t *round)
{
    for (int w = 0; round != NULL && w < entry->depot->n_workers; w++) {
        dist_rows_release(&round->pushes[w]);
        for (int64_t p = 0; !round->pushes[w].is_rows && p < round->pushes[w].n_parts; p++) {
            dist_message_release(round->pushes[w].parts[p]);
        }
    }
    if (round != NULL) {
        free(round->refusal_text);
    }
    free(round);
}

void dist_round_drop_all(dist_entry_t *entry)
{
    for (int i = 0; i < 2; i++) {
        dist_round_free(entry, entry->rounds[i]);
        entry->rounds[i] = NULL;
    }
    dist_async_free(entry);
}

static void look_at_time(dist_wait_t *wait, int64_t now_ns);

void dist_round_begin(dist_entry_t *entry)
{
    entry->rounds[0]->begun_ns = entry->rounds[0]->latest_ns = dist_now_ns();
    entry->wait.look = look_at_time;
    dist_wait_begin(entry->depot->server, &entry->wait);
}

/* The next round takes the place of the current one. */
static void shift(dist_entry_t *entry)
{
    if (entry->async != NULL) {
        dist_async_end(entry);
    }
    dist_round_free(entry, entry->rounds[0]);
    entry->rounds[0] = entry->rounds[1];
    entry->rounds[1] = NULL;
    entry->n_done++;
    dist_states_exchange(entry);
    if (entry->rounds[0] != NULL) {
        dist_round_begin(entry);
    } else {
        dist_wait_end(entry->depot->server, &entry->wait);
    }
}

/* ---- Failures ----------------------------------------------------------------------------------------- */

/* "key 7, round 3: "; in an asynchronous store, whose pushes are no rounds of all, "key 7: " */
static void add_round(kvs_net_text_t *text, const dist_entry_t *entry)
{
    kvs_net_text_add(text, "%s", DIST_KEY_TEXT(&entry->record));
    if (entry->async == NULL) {
        kvs_net_text_add(text, ", round %" PRId64, entry->n_done + 1);
    }
    kvs_net_text_add(text, ": ");
}

/* Whether the current round is also this worker's. */
static bool needs(const dist_entry_t *entry, int worker)
{
    const dist_round_t *round = entry->rounds[0];

    if (round->only >= 0) {
        return round->only == worker;
    }
    return round->pushes[worker].n_parts > 0 || round->pushes[worker].refused ||
           entry->depot->joins[worker].request == 0;
}

/* The first of its workers. */
static int lowest(const dist_entry_t *entry)
{
    int w = 0;

    while (!needs(entry, w)) {
        w++;
    }
    return w;
}

bool dist_round_is_whole(const dist_entry_t *entry, const dist_round_t *round, int worker)
{
    const dist_push_t *push = &round->pushes[worker];

    return push->is_rows ? push->n_rows == push->n_all_rows : push->n_parts == entry->n_parts;
}

static bool has_all(const dist_entry_t *entry, int worker)
{
    return dist_round_is_whole(entry, entry->rounds[0], worker);
}

/* Names the workers whose push is, or is not, there. */
static void add_workers(kvs_net_text_t *text, const dist_entry_t *entry, bool there)
{
    const char *comma = "";

    for (int w = 0; w < entry->depot->n_workers; w++) {
        if (needs(entry, w) && has_all(entry, w) == there) {
            kvs_net_text_add(text, "%s%s", comma, dist_depot_worker_label(entry->depot, w));
            comma = ", ";
        }
    }
}

bool dist_round_lacks(const dist_entry_t *entry, int worker)
{
    return needs(entry, worker) && !has_all(entry, worker);
}

static size_t n_missing(const dist_entry_t *entry)
{
    size_t n = 0;

    for (int w = 0; w < entry->depot->n_workers; w++) {
        n += needs(entry, w) && !has_all(entry, w);
    }
    return n;
}

static void fail_one(dist_entry_t *entry, kvs_status_t status, const char *text)
{
    dist_round_t *round = entry->rounds[0];

    entry->failed_round = entry->n_done + 1;
    entry->failed_status = status;
    free(entry->failed_text);
    entry->failed_text = strdup(text);
    for (int w = 0; w < entry->depot->n_workers; w++) {
        if (needs(entry, w) && (round->pushes[w].n_parts > 0 || round->pushes[w].refused)) {
            dist_depot_send_done(entry->depot, w, round->pushes[w].request, status, text);
        }
    }
    shift(entry);
    dist_entry_answer_pulls(entry);
}

void dist_round_fail(dist_entry_t *entry, kvs_status_t status, const char *text)
{
    fail_one(entry, status, text);
    dist_round_check_gone(entry);
    dist_round_go_on(entry);
}

/* A push for a round that is over without it. */
static void refuse_late(dist_entry_t *entry, const dist_header_t *header, int worker)
{
    char text[TEXT_BYTES];

    if (header->first != 0) {
        return; /* the first part was answered */
    }
    if (header->round == entry->failed_round && entry->failed_text != NULL) {
        dist_depot_send_done(entry->depot, worker, header->request, entry->failed_status,
                             entry->failed_text);
        return;
    }
    snprintf(text, sizeof(text), "%s, round %" PRId64 ": failed before this worker's push came",
             DIST_KEY_TEXT(&entry->record), header->round);
    dist_depot_send_done(entry->depot, worker, header->request, KVS_ERR_PEER, text);
}

/* One that is gone and missing makes the round fail, and the next one too. */
void dist_round_check_gone(dist_entry_t *entry)
{
    for (int w = 0; entry->rounds[0] != NULL && w < entry->depot->n_workers; w++) {
        const char *why = dist_depot_why_gone(entry->depot, w);

        if (why != NULL && needs(entry, w) && !has_all(entry, w)) {
            kvs_net_text_t text = {.n = 0};

            add_round(&text, entry);
            kvs_net_text_add(&text, "%s", why);
            fail_one(entry, KVS_ERR_PEER, text.bytes);
            w = -1;
        }
    }
}

static void report(const dist_entry_t *entry)
{
    kvs_net_text_t text = {.n = 0};

    add_round(&text, entry);
    kvs_net_text_add(&text, "has waited 30 s for ");
    add_workers(&text, entry, false);
    kvs_log(KVS_LOG_WARN, "dist", "%s", text.bytes);
}

static void fail_missing(dist_entry_t *entry)
{
    kvs_net_text_t text = {.n = 0};
    size_t n = n_missing(entry);

    add_round(&text, entry);
    if (n > 0) {
        add_workers(&text, entry, false);
        kvs_net_text_add(&text, " %s not pushed within %.3g s, unlike ", n == 1 ? "has" : "have",
                         (double)entry->rounds[0]->timeout_ms / 1000);
        add_workers(&text, entry, true);
        kvs_net_text_add(&text, "; a worker without more data calls join");
    } else {
        kvs_net_text_add(&text, "the other servers have not sent their norms within %.3g s",
                         (double)entry->rounds[0]->timeout_ms / 1000);
    }
    dist_round_fail(entry, KVS_ERR_TIMEOUT, text.bytes);
}

static void look_at_time(dist_wait_t *wait, int64_t now_ns)
{
    dist_entry_t *entry = (dist_entry_t *)((char *)wait - offsetof(dist_entry_t, wait));
    dist_round_t *round = entry->rounds[0];
    int64_t timeout_ms = round->timeout_ms;
    int64_t grace_ms = timeout_ms < GRACE_MS ? timeout_ms : GRACE_MS;

    if (!round->reported && now_ns - round->begun_ns >= REPORT_NS) {
        round->reported = true;
        report(entry);
    }
    if (timeout_ms > 0 && now_ns - round->begun_ns >= timeout_ms * 1000000 &&
        now_ns - round->latest_ns >= grace_ms * 1000000) {
        fail_missing(entry);
    }
}

/* ---- What updates the weight --------------------------------------------------------------------------- */

/* Every worker's first part is there: do they mean the same optimizer? */
static bool agree_on_optimizer(dist_entry_t *entry)
{
    const dist_round_t *round = entry->rounds[0];
    int first = lowest(entry);

    for (int w = first + 1; w < entry->depot->n_workers; w++) {
        if (needs(entry, w) && round->pushes[w].optimizer != round->pushes[first].optimizer) {
            kvs_net_text_t text = {.n = 0};

            add_round(&text, entry);
            kvs_net_text_add(&text, "%s has called set_optimizer %u times, %s %u times",
                             dist_depot_worker_label(entry->depot, first),
                             round->pushes[first].optimizer,
                             dist_depot_worker_label(entry->depot, w), round->pushes[w].optimizer);
            kvs_net_text_add(&text, "; every worker calls it, between the same pushes");
            dist_round_fail(entry, KVS_ERR_STATE, text.bytes);
            return false;
        }
    }
    if (round->pushes[first].optimizer > entry->depot->n_optimizers) {
        kvs_net_text_t text = {.n = 0};

        add_round(&text, entry);
        kvs_net_text_add(&text,
                         "call %u of set_optimizer, which %s names, has not reached server %d",
                         round->pushes[first].optimizer,
                         dist_depot_worker_label(entry->depot, first), entry->depot->rank);
        dist_round_fail(entry, KVS_ERR_INTERNAL, text.bytes);
        return false;
    }
    return true;
}

/* "0.25, not 0.5" of each scalar in which they differ: a rate as it is, other attributes by what they make. */
static void add_differences(kvs_net_text_t *text, const dist_push_t *push, const dist_push_t *other)
{
    const char *comma = "";

    for (int i = 0; i < KVS_OPTIMIZER_MAX_SCALARS; i++) {
        if (memcmp(&push->scalars[i], &other->scalars[i], sizeof(double)) != 0) {
            kvs_net_text_add(text, "%s%.10g, not %.10g", comma, push->scalars[i],
                             other->scalars[i]);
            comma = "; ";
        }
    }
}

/* And with the same attributes? Counts may differ, and what depends on them: those of the lowest rank are
 * valid. But whoever has set other attributes, which make a difference, means another update. */
static bool agree_on_attrs(dist_entry_t *entry)
{
    const dist_push_t *pushes = entry->rounds[0]->pushes;
    int first = lowest(entry);

    for (int w = first + 1; w < entry->depot->n_workers; w++) {
        if (needs(entry, w) && pushes[w].attrs != pushes[first].attrs &&
            memcmp(pushes[w].scalars, pushes[first].scalars, sizeof(pushes[w].scalars)) != 0) {
            kvs_net_text_t text = {.n = 0};

            add_round(&text, entry);
            kvs_net_text_add(
                &text, "%s has set other attributes of the optimizer than %s: its update has ",
                dist_depot_worker_label(entry->depot, first),
                dist_depot_worker_label(entry->depot, w));
            add_differences(&text, &pushes[first], &pushes[w]);
            kvs_net_text_add(&text,
                             " (every worker calls set_optimizer_attr, between the same pushes)");
            dist_round_fail(entry, KVS_ERR_ARGUMENT, text.bytes);
            return false;
        }
    }
    return true;
}

/* And do all push dense values, or row-sparse ones? */
static bool agree_on_storage(dist_entry_t *entry)
{
    const dist_round_t *round = entry->rounds[0];

    int first = lowest(entry);

    for (int w = first + 1; w < entry->depot->n_workers; w++) {
        if (needs(entry, w) && round->pushes[w].is_rows != round->pushes[first].is_rows) {
            kvs_net_text_t text = {.n = 0};

            add_round(&text, entry);
            kvs_net_text_add(&text, "%s pushes a %s value, %s a %s one",
                             dist_depot_worker_label(entry->depot, first),
                             round->pushes[first].is_rows ? "row-sparse" : "dense",
                             dist_depot_worker_label(entry->depot, w),
                             round->pushes[w].is_rows ? "row-sparse" : "dense");
            kvs_net_text_add(&text, "; they don't mix in one round");
            dist_round_fail(entry, KVS_ERR_STORAGE, text.bytes);
            return false;
        }
    }
    return true;
}

/* And do all pack their elements in the same way? */
static bool agree_on_codec(dist_entry_t *entry)
{
    dist_round_t *round = entry->rounds[0];
    int first = lowest(entry);
    uint16_t codec = round->pushes[first].codec;

    for (int w = first + 1; w < entry->depot->n_workers; w++) {
        if (needs(entry, w) && round->pushes[w].codec != codec) {
            kvs_net_text_t text = {.n = 0};

            add_round(&text, entry);
            kvs_net_text_add(&text, "%s has called set_gradient_compression %u times, %s %u times",
                             dist_depot_worker_label(entry->depot, first), codec,
                             dist_depot_worker_label(entry->depot, w), round->pushes[w].codec);
            kvs_net_text_add(&text, "; every worker calls it, before its first push of a key");
            dist_round_fail(entry, KVS_ERR_STATE, text.bytes);
            return false;
        }
    }
    round->compression = codec == 0 ? NULL : entry->depot->codecs[codec - 1].compression;
    return true;
}

static void fail_with_last_error(dist_entry_t *entry, kvs_status_t status)
{
    kvs_net_text_t text = {.n = 0};

    add_round(&text, entry);
    kvs_net_text_add(&text, "%s", kvs_plugin_host->last_error());
    dist_round_fail(entry, status, text.bytes);
}

/* What the workers have computed of it: the scalars of the lowest rank. */
static void copy_update(const dist_push_t *push, dist_round_t *round)
{
    round->update.states = push->states & ~DIST_LAZY;
    round->update.lazy = (push->states & DIST_LAZY) != 0;
    memcpy(round->update.scalars, push->scalars, sizeof(push->scalars));
}

/* Asynchronous pushes never replace: that would be the gradient of one worker alone. */
static bool need_optimizer(dist_entry_t *entry)
{
    kvs_net_text_t text = {.n = 0};

    add_round(&text, entry);
    kvs_net_text_add(&text, DIST_NEEDS_OPTIMIZER);
    dist_round_fail(entry, KVS_ERR_STATE, text.bytes);
    return false;
}

/* The states are made before anything changes. */
static bool begin_update(dist_entry_t *entry, dist_round_t *round)
{
    const dist_push_t *push = &round->pushes[lowest(entry)];
    kvs_status_t status;

    if (entry->optimizer != push->optimizer) {
        kvs_opt_key_release(&entry->opt);
        entry->optimizer = push->optimizer;
    }
    if (push->optimizer == 0) {
        return entry->async == NULL || need_optimizer(entry);
    }
    round->opt = entry->depot->optimizers[push->optimizer - 1].opt;
    status = kvs_opt_check_key(round->opt, &entry->view);
    if (status == KVS_OK && entry->cuts_rows && kvs_opt_has_rows(round->opt)) {
        status = kvs_fail(KVS_ERR_NOT_IMPLEMENTED,
                          "optimizer '%s' needs whole rows, but shape %s is cut within rows; call "
                          "set_optimizer before init, or raise bigarray_bound",
                          kvs_opt_name(round->opt), DIST_SHAPE_TEXT(&entry->record));
    }
    if (status == KVS_OK && entry->cuts_blocks && kvs_opt_n_phases(round->opt) > 0) {
        status = kvs_fail(KVS_ERR_NOT_IMPLEMENTED,
                          "optimizer '%s' needs norms, but shape %s is cut between their blocks; "
                          "call set_optimizer before init, or raise bigarray_bound",
                          kvs_opt_name(round->opt), DIST_SHAPE_TEXT(&entry->record));
    }
    if (status == KVS_OK && entry->async != NULL) {
        status = kvs_opt_issue(round->opt, &entry->opt, &entry->view, &round->update);
    } else if (status == KVS_OK) {
        copy_update(push, round);
    }
    if (status == KVS_OK) {
        status = kvs_opt_begin_for(round->opt, &entry->opt, &entry->view, entry->weight,
                                   round->update.states);
    }
    if (status != KVS_OK) {
        fail_with_last_error(entry, status);
        return false;
    }
    return true;
}

static bool settle(dist_entry_t *entry)
{
    dist_round_t *round = entry->rounds[0];

    if (round->settled) {
        return true;
    }
    if ((entry->async == NULL &&
         (!agree_on_storage(entry) || !agree_on_optimizer(entry) || !agree_on_attrs(entry))) ||
        !agree_on_codec(entry) || !begin_update(entry, round)) {
        return false;
    }
    round->settled = true;
    return true;
}

/* ---- Sums ---------------------------------------------------------------------------------------------- */

/* False also where the round is nobody's: its only part did not fit, and everybody has joined. */
static bool part_is_there(const dist_entry_t *entry, int64_t part)
{
    bool is_there = false;

    for (int w = 0; w < entry->depot->n_workers; w++) {
        if (needs(entry, w) && entry->rounds[0]->pushes[w].n_parts <= part) {
            return false;
        }
        is_there |= needs(entry, w);
    }
    return is_there;
}

/* What packed parts stand for, in order of rank. */
static void unpack_part(const dist_entry_t *entry, int64_t part, void *to)
{
    const dist_round_t *round = entry->rounds[0];
    int first = lowest(entry);

    for (int w = first; w < entry->depot->n_workers; w++) {
        if (needs(entry, w)) {
            kvs_compression_unpack(round->compression, dist_entry_part_elems(entry, part),
                                   round->pushes[w].parts[part]->body, to, w > first);
        }
    }
}

/* In order of rank, to `to`. */
void dist_round_sum_part(const dist_entry_t *entry, int64_t part, void *to)
{
    const dist_round_t *round = entry->rounds[0];
    int n_workers = entry->depot->n_workers;
    const void *few[16], **sources = few;
    size_t n = 0;

    if (round->compression != NULL) {
        unpack_part(entry, part, to);
        return;
    }
    if (n_workers > 16) {
        sources = entry->depot->sources;
    }
    for (int w = 0; w < n_workers; w++) {
        if (needs(entry, w)) {
            sources[n++] = round->pushes[w].parts[part]->body;
        }
    }
    kvs_sum(entry->record.dtype, dist_entry_part_elems(entry, part), sources, n, &to, 1, 0);
}

static void release_part(const dist_entry_t *entry, int64_t part)
{
    for (int w = 0; w < entry->depot->n_workers; w++) {
        dist_push_t *push = &entry->rounds[0]->pushes[w];

        if (needs(entry, w)) {
            dist_message_release(push->parts[part]);
            push->parts[part] = NULL;
        }
    }
}

static void step_part(dist_entry_t *entry, int64_t part, const void *grad)
{
    const dist_round_t *round = entry->rounds[0];

    kvs_opt_step(round->opt, &round->update, &entry->opt, entry->record.dtype,
                 part * entry->part_elems, dist_entry_part_elems(entry, part), grad,
                 dist_entry_part(entry, entry->weight, part));
}

static void answer_part(dist_entry_t *entry, int64_t part)
{
    for (int w = 0; w < entry->depot->n_workers; w++) {
        const dist_push_t *push = &entry->rounds[0]->pushes[w];

        if (needs(entry, w) && push->wants_value) {
            dist_entry_send_part(entry, w, push->request, push->priority, part);
        }
    }
}

static void apply_part(dist_entry_t *entry, int64_t part)
{
    dist_round_t *round = entry->rounds[0];

    if (dist_entry_part_elems(entry, part) > 0) {
        if (round->opt == NULL) {
            dist_round_sum_part(entry, part, dist_entry_part(entry, entry->weight, part));
        } else if ((entry->depot->n_workers == 1 || round->only >= 0) &&
                   round->compression == NULL) {
            step_part(entry, part, round->pushes[lowest(entry)].parts[part]->body);
        } else {
            dist_round_sum_part(entry, part, entry->depot->scratch);
            step_part(entry, part, entry->depot->scratch);
        }
    }
    release_part(entry, part);
    round->n_applied++;
    answer_part(entry, part);
}

/* Part by part, as they come. */
static void apply_parts(dist_entry_t *entry)
{
    dist_round_t *round = entry->rounds[0];

    while (round->n_applied < entry->n_parts && part_is_there(entry, round->n_applied) &&
           entry->parts[round->n_applied].n_readers == 0) {
        apply_part(entry, round->n_applied);
    }
}

static bool pushes_rows(const dist_entry_t *entry)
{
    return entry->rounds[0]->pushes[lowest(entry)].is_rows;
}

bool dist_round_has_come(const dist_entry_t *entry)
{
    for (int w = 0; w < entry->depot->n_workers; w++) {
        if (needs(entry, w) && !has_all(entry, w)) {
            return false;
        }
    }
    return true;
}

/* ---- Optimizers that look at whole arrays ---------------------------------------------------------------- */

static void sum_parts(dist_entry_t *entry)
{
    for (int64_t part = 0; part < entry->n_parts; part++) {
        if (dist_entry_part_elems(entry, part) > 0) {
            dist_round_sum_part(entry, part, dist_entry_part(entry, entry->merge, part));
        }
        release_part(entry, part);
    }
}

static bool sum_whole(dist_entry_t *entry)
{
    dist_round_t *round = entry->rounds[0];
    kvs_status_t status = KVS_OK;

    if (round->summed) {
        return true;
    }
    if (entry->merge == NULL) {
        status = kvs_cpu_provider()->alloc(host_device, entry->n_bytes, &entry->merge);
    }
    if (status == KVS_OK && pushes_rows(entry)) {
        status = dist_rows_sum(entry, entry->merge);
    } else if (status == KVS_OK) {
        sum_parts(entry);
    }
    if (status != KVS_OK) {
        fail_with_last_error(entry, status);
        return false;
    }
    round->summed = true;
    return true;
}

static void apply_whole(dist_entry_t *entry)
{
    dist_round_t *round = entry->rounds[0];

    if (!dist_round_has_come(entry) || entry->n_readers > 0 || !sum_whole(entry)) {
        return;
    }
    if (!kvs_opt_needs_whole(round->opt)) { /* rows, in their dense form */
    } else if (entry->record.n_shards == 1) {
        kvs_opt_prepare(round->opt, &entry->opt, entry->record.dtype, entry->shard->n, entry->merge,
                        entry->weight, &round->update);
    } else if (!dist_norms_go_on(entry, entry->merge)) {
        return;
    }
    for (int64_t part = 0; part < entry->n_parts; part++) {
        if (dist_entry_part_elems(entry, part) > 0) {
            step_part(entry, part, dist_entry_part(entry, entry->merge, part));
        }
        round->n_applied++;
        answer_part(entry, part);
    }
}

/* Row-sparse pushes: the value is replaced, or some rows of it are updated. */
static void apply_rows(dist_entry_t *entry)
{
    dist_round_t *round = entry->rounds[0];
    kvs_status_t status;

    if (!dist_round_has_come(entry) || entry->n_readers > 0) {
        return;
    }
    status = round->opt == NULL ? dist_rows_sum(entry, entry->weight) : dist_rows_step(entry);
    if (status != KVS_OK) {
        fail_with_last_error(entry, status);
        return;
    }
    round->n_applied = entry->n_parts;
}

/* ---- Going on ------------------------------------------------------------------------------------------- */

static void finish(dist_entry_t *entry)
{
    const dist_round_t *round = entry->rounds[0];

    for (int w = 0; w < entry->depot->n_workers; w++) {
        if (needs(entry, w) && !round->pushes[w].wants_value) {
            dist_depot_send_done(entry->depot, w, round->pushes[w].request, KVS_OK, "");
        }
    }
    dist_profile_add(dist_server_profile(entry->depot->server), DIST_KEY_TEXT(&entry->record),
                     round->begun_ns, dist_now_ns(), entry->n_bytes);
    shift(entry);
    dist_entry_answer_pulls(entry);
}

void dist_round_end_unchanged(dist_entry_t *entry)
{
    for (int64_t part = 0; part < entry->n_parts; part++) {
        answer_part(entry, part);
    }
    entry->rounds[0]->n_applied = entry->n_parts;
}

void dist_round_text(const dist_entry_t *entry, const char *text, char *ret_text, size_t n_bytes)
{
    kvs_net_text_t whole = {.n = 0};

    add_round(&whole, entry);
    snprintf(ret_text, n_bytes, "%s%s", whole.bytes, text);
}

static void fail_refused(dist_entry_t *entry)
{
    kvs_net_text_t text = {.n = 0};

    add_round(&text, entry);
    kvs_net_text_add(&text, "%s",
                     entry->rounds[0]->refusal_text == NULL ? "refused"
                                                            : entry->rounds[0]->refusal_text);
    dist_round_fail(entry, entry->rounds[0]->refusal, text.bytes);
}

/* A refused round fails when everyone it needs has come to it: whoever refuses must not run ahead of those
 * who are still to hear why it failed. */
static bool all_have_come(const dist_entry_t *entry)
{
    for (int w = 0; w < entry->depot->n_workers; w++) {
        const dist_push_t *push = &entry->rounds[0]->pushes[w];

        if (needs(entry, w) && push->n_parts == 0 && !push->refused) {
            return false;
        }
    }
    return true;
}

/* One step; false when nothing more can be done now. */
static bool advance(dist_entry_t *entry)
{
    dist_round_t *round;

    if (entry->async != NULL && entry->rounds[0] == NULL && !dist_async_begin(entry)) {
        return false;
    }
    round = entry->rounds[0];
    if (round != NULL && round->refusal != KVS_OK) {
        if (!all_have_come(entry)) {
            return false;
        }
        fail_refused(entry);
        return true;
    }
    if (round == NULL || !part_is_there(entry, round->n_applied) || !settle(entry)) {
        return false;
    }
    if (!dist_verdict_passes(entry)) {
        /* something is missing, or the round is over */
    } else if (pushes_rows(entry) && (round->opt == NULL || round->update.lazy)) {
        apply_rows(entry);
    } else if (pushes_rows(entry) || (round->opt != NULL && kvs_opt_needs_whole(round->opt))) {
        apply_whole(entry);
    } else {
        apply_parts(entry);
    }
    if (entry->rounds[0] != round || round->n_applied < entry->n_parts) {
        return false;
    }
    finish(entry);
    dist_round_check_gone(entry);
    return true;
}

/* Not recursive: a failure within comes back here for the rounds after it. */
void dist_round_go_on(dist_entry_t *entry)
{
    if (entry->applying) {
        entry->again = true;
        return;
    }
    entry->applying = true;
    do {
        entry->again = false;
        while (advance(entry)) {
        }
    } while (entry->again);
    entry->applying = false;
}

/* ---- Pushes come ------------------------------------------------------------------------------------------ */

static bool has_packed_size(const dist_entry_t *entry, const dist_header_t *header,
                            const kvs_net_message_t *message)
{
    return header->codec <= entry->depot->n_codecs &&
           kvs_compression_bytes(entry->depot->codecs[header->codec - 1].compression, header->n) ==
               message->n_body_bytes;
}

static const char *why_misfit_dense(const dist_entry_t *entry, const dist_header_t *header,
                                    const kvs_net_message_t *message)
{
    int64_t part = header->first / entry->part_elems;

    if (header->dtype != entry->record.dtype || header->digest != entry->digest) {
        return "a push does not have the shape and dtype of its key";
    }
    if (header->first % entry->part_elems != 0 || part >= entry->n_parts ||
        header->n != dist_entry_part_elems(entry, part)) {
        return "a part of a push is not one of its key's";
    }
    if (header->codec != 0 && !has_packed_size(entry, header, message)) {
        return "a part of a push is not packed as its worker said";
    }
    return NULL;
}

const char *dist_round_why_misfit(const dist_entry_t *entry, const dist_header_t *header,
                                  const kvs_net_message_t *message)
{
    return header->kind == DIST_PUSH_ROWS ? dist_rows_why_misfit(entry, header, message)
                                          : why_misfit_dense(entry, header, message);
}

/* The round the push belongs to, made if need be. NULL: no memory. */
static dist_round_t *round_of(dist_entry_t *entry, int64_t number)
{
    dist_round_t **round = &entry->rounds[number - entry->n_done - 1];

    if (*round == NULL) {
        *round = dist_round_new(entry, -1);
        if (*round != NULL && round == &entry->rounds[0]) {
            dist_round_begin(entry);
        }
    }
    return *round;
}

static void note_push(dist_round_t *round, dist_push_t *push, const dist_header_t *header)
{
    push->request = header->request;
    push->priority = header->priority;
    push->wants_value = header->kind == DIST_PUSHPULL;
    push->codec = header->codec;
    push->optimizer = header->optimizer;
    push->attrs = header->attrs;
    push->states = header->states;
    memcpy(push->scalars, header->scalars, sizeof(push->scalars));
    if (header->timeout_ms > 0 &&
        (round->timeout_ms == 0 || header->timeout_ms < round->timeout_ms)) {
        round->timeout_ms = header->timeout_ms;
    }
}

bool dist_round_add_part(const dist_entry_t *entry, dist_round_t *round,
                         const dist_header_t *header, kvs_net_message_t *message)
{
    dist_push_t *push = &round->pushes[message->from->rank];
    int64_t part = header->first / entry->part_elems;

    if (push->refused ||
        (header->kind != DIST_PUSH_ROWS && (push->is_rows || push->n_parts != part))) {
        return false;
    }
    if (push->n_parts == 0) {
        note_push(round, push, header);
    }
    round->latest_ns = dist_now_ns();
    if (header->kind == DIST_PUSH_ROWS) {
        return dist_rows_add(push, header, message);
    }
    push->parts[push->n_parts++] = message;
    return true;
}

void dist_round_take_push(dist_entry_t *entry, const dist_header_t *header,
                          kvs_net_message_t *message)
{
    int worker = message->from->rank;
    const char *misfit = dist_round_why_misfit(entry, header, message);
    dist_round_t *round = NULL;

    if (misfit == NULL && header->round > entry->n_done + 2) {
        misfit = "a push is ahead by more than one round";
    }
    if (misfit == NULL && header->round <= entry->n_done) {
        refuse_late(entry, header, worker);
        dist_message_release(message);
        return;
    }
    if (misfit == NULL) {
        round = round_of(entry, header->round);
        misfit = round == NULL ? "no memory for a round"
                 : !dist_round_add_part(entry, round, header, message)
                     ? "a part of a push is out of order, or there is no memory for it"
                     : NULL;
    }
    if (misfit != NULL) {
        dist_entry_refuse(entry, worker, header->request, KVS_ERR_INTERNAL, misfit);
        dist_message_release(message);
        return;
    }
    if (round == entry->rounds[0]) {
        dist_round_check_gone(entry);
        dist_round_go_on(entry);
    }
}

void dist_round_add_refusal(const dist_entry_t *entry, dist_round_t *round,
                            const dist_header_t *header, const kvs_net_message_t *message)
{
    int worker = message->from->rank;
    char text[1024];

    if (round->pushes[worker].n_parts == 0) { /* else its worker gave up on the rest */
        note_push(round, &round->pushes[worker], header);
    }
    round->pushes[worker].refused = true;
    if (round->refusal == KVS_OK) {
        snprintf(text, sizeof(text), "%s: %.*s", dist_depot_worker_label(entry->depot, worker),
                 (int)message->n_body_bytes, (const char *)message->body);
        round->refusal = header->status;
        round->refusal_text = strdup(text);
    }
}

void dist_round_take_refusal(dist_entry_t *entry, const dist_header_t *header,
                             const kvs_net_message_t *message)
{
    int worker = message->from->rank;
    dist_round_t *round;

    if (header->round <= entry->n_done) {
        refuse_late(entry, header, worker);
        return;
    }
    round = header->round > entry->n_done + 2 ? NULL : round_of(entry, header->round);
    if (round == NULL || dist_round_is_whole(entry, round, worker)) {
        dist_entry_refuse(entry, worker, header->request, KVS_ERR_INTERNAL,
                          "a push is refused that can't be");
        return;
    }
    dist_round_add_refusal(entry, round, header, message);
    if (round == entry->rounds[0]) {
        dist_round_check_gone(entry);
        dist_round_go_on(entry);
    }
}
