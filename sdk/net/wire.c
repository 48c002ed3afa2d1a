/* SPDX-License-Identifier: Apache-2.0 */
/* wire.c - each shape of body is walked by one function, which measures, writes or reads it as the
 * cursor says, so that the three can't disagree. Reading stops at the first thing that is wrong. */
#include "wire.h"

#include <string.h>

typedef enum walk_mode { MEASURE, WRITE, READ } walk_mode_t;

typedef struct cursor {
    walk_mode_t mode;
    uint8_t *at;         /* WRITE */
    const uint8_t *from; /* READ */
    size_t left;         /* READ */
    size_t n;            /* bytes so far */
    const char *wrong;   /* READ: NULL, or what is */
} cursor_t;

const char *net_wire_name(unsigned type)
{
    switch (type) {
#define NAME_OF(name, number, shape)                                                               \
    case number:                                                                                   \
        return #name;
        NET_WIRE_TYPES(NAME_OF)
#undef NAME_OF
    default:
        return "?";
    }
}

/* ---- Fields ---------------------------------------------------------------------------------- */

static void wrong(cursor_t *c, const char *what)
{
    if (c->wrong == NULL) {
        c->wrong = what;
    }
}

/* Room for `n` bytes of the frame in reading: NULL if there is not. */
static const uint8_t *take(cursor_t *c, size_t n)
{
    const uint8_t *at = c->from;

    if (c->wrong != NULL || n > c->left) {
        wrong(c, "ends too early");
        return NULL;
    }
    c->from += n;
    c->left -= n;
    c->n += n;
    return at;
}

static uint64_t get_le(const uint8_t *at, size_t n)
{
    uint64_t value = 0;

    for (size_t i = 0; i < n; i++) {
        value |= (uint64_t)at[i] << 8 * i;
    }
    return value;
}

static void put_le(uint8_t *at, uint64_t value, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        at[i] = (uint8_t)(value >> 8 * i);
    }
}

static uint64_t number(cursor_t *c, uint64_t value, size_t n)
{
    const uint8_t *at;

    if (c->mode == READ) {
        at = take(c, n);
        return at == NULL ? 0 : get_le(at, n);
    }
    if (c->mode == WRITE) {
        put_le(c->at, value, n);
        c->at += n;
    }
    c->n += n;
    return value;
}

static void u16(cursor_t *c, uint16_t *io)
{
    *io = (uint16_t)number(c, *io, 2);
}

static void u32(cursor_t *c, uint32_t *io)
{
    *io = (uint32_t)number(c, *io, 4);
}

static void i32(cursor_t *c, int32_t *io)
{
    *io = (int32_t)number(c, (uint32_t)*io, 4);
}

static void u64(cursor_t *c, uint64_t *io)
{
    *io = number(c, *io, 8);
}

static void i64(cursor_t *c, int64_t *io)
{
    *io = (int64_t)number(c, (uint64_t)*io, 8);
}

static void reserved(cursor_t *c)
{
    uint32_t zero = 0;

    u32(c, &zero);
    if (zero != 0) {
        wrong(c, "uses what is reserved");
    }
}

static bool is_plain(uint8_t byte)
{
    return byte >= 0x20 ? byte != 0x7f : byte == '\n' || byte == '\t';
}

static void read_text(cursor_t *c, const char **ret_text)
{
    uint32_t n = 0;
    const uint8_t *at;

    *ret_text = "";
    u32(c, &n);
    if (n > NET_WIRE_MAX_TEXT) {
        wrong(c, "holds a text that is too long");
    }
    at = take(c, (size_t)n + 1);
    if (at == NULL) {
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (!is_plain(at[i])) {
            wrong(c, "holds a control character in a text");
            return;
        }
    }
    if (at[n] != 0) {
        wrong(c, "holds a text without its end");
        return;
    }
    *ret_text = (const char *)at;
}

/* Length, bytes and a zero byte, so that the text can be used where it lies. */
static void text(cursor_t *c, const char **io)
{
    const char *value = *io == NULL ? "" : *io;
    uint32_t n;

    if (c->mode == READ) {
        read_text(c, io);
        return;
    }
    n = (uint32_t)strnlen(value, NET_WIRE_MAX_TEXT);
    u32(c, &n);
    if (c->mode == WRITE) {
        for (uint32_t i = 0; i < n; i++) {
            *c->at++ = (uint8_t)(is_plain((uint8_t)value[i]) ? value[i] : '?');
        }
        *c->at++ = 0;
    }
    c->n += (size_t)n + 1;
}

/* ---- Lists ----------------------------------------------------------------------------------- */

static void walk_fact(cursor_t *c, kvs_net_fact_t *fact)
{
    text(c, &fact->name);
    text(c, &fact->value);
}

static void walk_member(cursor_t *c, net_wire_member_t *member)
{
    i32(c, &member->role);
    i32(c, &member->rank);
    i32(c, &member->local_rank);
    i64(c, &member->pid);
    u64(c, &member->incarnation);
    u64(c, &member->host_id);
    u64(c, &member->process_id);
    text(c, &member->host);
    text(c, &member->address);
}

/* The number of a list, checked; reading remembers where its items begin. */
static uint32_t list_head(cursor_t *c, net_wire_list_t *list, size_t n_given, uint32_t max)
{
    uint32_t n = (uint32_t)n_given;

    u32(c, &n);
    if (c->mode == READ) {
        if (n > max) {
            wrong(c, "holds a list that is too long");
            n = 0;
        }
        *list = (net_wire_list_t){c->from, n};
    }
    return n;
}

static void walk_facts(cursor_t *c, net_wire_list_t *list, const net_wire_lists_t *lists)
{
    uint32_t n = list_head(c, list, lists->n_facts, NET_WIRE_MAX_FACTS);

    for (uint32_t i = 0; i < n && c->wrong == NULL; i++) {
        kvs_net_fact_t fact = c->mode == READ ? (kvs_net_fact_t){0} : lists->facts[i];

        walk_fact(c, &fact);
    }
}

static void walk_members(cursor_t *c, net_wire_list_t *list, const net_wire_lists_t *lists)
{
    uint32_t n = list_head(c, list, lists->n_members, NET_WIRE_MAX_MEMBERS);

    for (uint32_t i = 0; i < n && c->wrong == NULL; i++) {
        net_wire_member_t member = c->mode == READ ? (net_wire_member_t){0} : lists->members[i];

        walk_member(c, &member);
    }
}

/* A list that was read has been checked, so its items can be read again without an end in sight. */
static cursor_t over(const net_wire_list_t *list)
{
    return (cursor_t){.mode = READ, .from = list->at, .left = SIZE_MAX};
}

bool net_wire_next_fact(net_wire_list_t *list, kvs_net_fact_t *ret_fact)
{
    cursor_t c = over(list);

    if (list->n == 0) {
        return false;
    }
    walk_fact(&c, ret_fact);
    *list = (net_wire_list_t){c.from, list->n - 1};
    return true;
}

bool net_wire_next_member(net_wire_list_t *list, net_wire_member_t *ret_member)
{
    cursor_t c = over(list);

    if (list->n == 0) {
        return false;
    }
    walk_member(&c, ret_member);
    *list = (net_wire_list_t){c.from, list->n - 1};
    return true;
}

/* ---- Shapes ---------------------------------------------------------------------------------- */

static void walk_door(cursor_t *c, net_hello_t *hello)
{
    text(c, &hello->job_id);
    text(c, &hello->host);
    i32(c, &hello->role);
    i32(c, &hello->rank);
    i64(c, &hello->pid);
}

static void walk_hello(cursor_t *c, net_hello_t *hello, const net_wire_lists_t *lists)
{
    walk_door(c, hello);
    text(c, &hello->group);
    text(c, &hello->address);
    u64(c, &hello->incarnation);
    u64(c, &hello->host_id);
    u64(c, &hello->process_id);
    i32(c, &hello->n_workers);
    i32(c, &hello->n_servers);
    u32(c, &hello->hosts_server);
    walk_facts(c, &hello->facts, lists);
}

static void walk_welcome(cursor_t *c, net_welcome_t *welcome, const net_wire_lists_t *lists)
{
    u64(c, &welcome->epoch);
    u64(c, &welcome->token);
    u32(c, &welcome->self);
    walk_members(c, &welcome->members, lists);
    if (c->mode == READ && welcome->self >= welcome->members.n) {
        wrong(c, "names an addressee outside its list");
    }
}

static void walk_notice(cursor_t *c, net_notice_t *notice, const net_wire_lists_t *lists)
{
    (void)lists;
    u32(c, &notice->member);
    u32(c, &notice->store);
    i32(c, &notice->status);
    text(c, &notice->text);
}

static void walk_beat(cursor_t *c, net_beat_t *beat, const net_wire_lists_t *lists)
{
    (void)lists;
    u64(c, &beat->last);
}

static void walk_store(cursor_t *c, net_wire_store_t *store, const net_wire_lists_t *lists)
{
    u32(c, &store->ordinal);
    u32(c, &store->store);
    i64(c, &store->timeout_ms);
    text(c, &store->type);
    walk_facts(c, &store->facts, lists);
}

static void walk_request(cursor_t *c, net_request_t *request, const net_wire_lists_t *lists)
{
    (void)lists;
    u32(c, &request->number);
    u32(c, &request->store);
    u32(c, &request->mask);
    i64(c, &request->timeout_ms);
}

static void walk_answer(cursor_t *c, net_answer_t *answer, const net_wire_lists_t *lists)
{
    (void)lists;
    u32(c, &answer->type);
    u32(c, &answer->number);
    u32(c, &answer->store);
    u32(c, &answer->value);
    i32(c, &answer->status);
    text(c, &answer->text);
}

static void walk_lane(cursor_t *c, net_lane_hello_t *lane, const net_wire_lists_t *lists)
{
    (void)lists;
    u64(c, &lane->token);
    u64(c, &lane->from);
    u64(c, &lane->to);
    u32(c, &lane->lane);
    u64(c, &lane->last);
}

static void walk_ack(cursor_t *c, net_ack_t *ack, const net_wire_lists_t *lists)
{
    (void)lists;
    u32(c, &ack->lane);
}

static void walk_empty(cursor_t *c, net_empty_t *empty, const net_wire_lists_t *lists)
{
    (void)lists;
    u32(c, &empty->reserved);
}

static size_t padded(size_t n)
{
    return (n + 7) & ~(size_t)7;
}

size_t net_wire_body_offset(size_t n_header)
{
    return padded(NET_WIRE_DATA_BYTES + n_header);
}

size_t net_wire_data_size(size_t n_header, size_t n_inline)
{
    return n_inline == 0 ? NET_WIRE_DATA_BYTES + n_header
                         : net_wire_body_offset(n_header) + n_inline;
}

/* What follows the fixed part of a data message: exactly the header, and the body if it is inline. */
static void read_data_rest(cursor_t *c, net_data_t *data)
{
    if (data->n_header > KVS_NET_MAX_HEADER) {
        wrong(c, "has a header that is too long");
    } else if (data->n_inline != 0 && data->n_inline != data->n_body) {
        wrong(c, "has two sizes of its body");
    } else if (c->wrong == NULL && c->left != net_wire_data_size(data->n_header, data->n_inline) -
                                                  NET_WIRE_DATA_BYTES) {
        wrong(c, "does not hold its header and body");
    }
    if (c->wrong == NULL) {
        data->header = c->from;
        data->body = data->n_inline == 0
                         ? NULL
                         : c->from + net_wire_body_offset(data->n_header) - NET_WIRE_DATA_BYTES;
        (void)take(c, c->left); /* cannot fail: it is what is left */
    }
}

static void walk_data(cursor_t *c, net_data_t *data, const net_wire_lists_t *lists)
{
    (void)lists;
    u32(c, &data->store);
    u32(c, &data->n_header);
    u64(c, &data->n_body);
    u32(c, &data->n_inline);
    reserved(c);
    if (c->mode == READ) {
        read_data_rest(c, data);
    }
}

/* ---- Frames ---------------------------------------------------------------------------------- */

static void walk_head(cursor_t *c, net_wire_t *wire)
{
    uint32_t magic = NET_WIRE_MAGIC;

    u32(c, &magic);
    u16(c, &wire->version);
    u16(c, &wire->type);
    u32(c, &wire->flags);
    reserved(c);
    u64(c, &wire->link);
    u64(c, &wire->seq);
    u64(c, &wire->ack);
    if (c->mode == READ && magic != NET_WIRE_MAGIC) {
        c->wrong = "does not begin as one of ours";
    }
}

static void walk_body(cursor_t *c, net_wire_t *wire, const net_wire_lists_t *lists)
{
    switch (wire->type) {
#define WALK(type, number, shape)                                                                  \
    case number:                                                                                   \
        walk_##shape(c, &wire->as.shape, lists);                                                   \
        break;
        NET_WIRE_TYPES(WALK)
#undef WALK
    default:
        wrong(c, "is of an unknown type");
    }
}

static kvs_status_t fail_format(const cursor_t *c, const net_wire_t *wire, size_t n_bytes)
{
    return kvs_fail(KVS_ERR_FORMAT, "a frame of %zu bytes (type %u, %s) %s, at byte %zu", n_bytes,
                    (unsigned)wire->type, net_wire_name(wire->type), c->wrong, c->n);
}

static kvs_status_t fail_version(cursor_t *c, net_wire_t *wire)
{
    if (wire->type == NET_HELLO) {
        walk_door(c, &wire->as.hello);
    }
    if (c->wrong != NULL) {
        return fail_format(c, wire, c->n + c->left);
    }
    return kvs_fail(KVS_ERR_NOT_IMPLEMENTED, "protocol version %u, not %d", (unsigned)wire->version,
                    NET_WIRE_VERSION);
}

kvs_status_t net_wire_decode(const void *frame, size_t n_bytes, net_wire_t *ret_wire)
{
    static const net_wire_lists_t none = {0};
    cursor_t c = {.mode = READ, .from = frame, .left = n_bytes};

    *ret_wire = (net_wire_t){0};
    walk_head(&c, ret_wire);
    if (c.wrong == NULL && ret_wire->version != NET_WIRE_VERSION) {
        return fail_version(&c, ret_wire);
    }
    if (c.wrong == NULL && (ret_wire->flags & ~(uint32_t)NET_ALL_FLAGS) != 0) {
        wrong(&c, "has unknown flags");
    }
    if (c.wrong == NULL) {
        walk_body(&c, ret_wire, &none);
    }
    if (c.wrong == NULL && c.left != 0) {
        wrong(&c, "is too long");
    }
    return c.wrong == NULL ? KVS_OK : fail_format(&c, ret_wire, n_bytes);
}

static size_t walk(walk_mode_t mode, const net_wire_t *wire, const net_wire_lists_t *lists,
                   void *frame)
{
    static const net_wire_lists_t none = {0};
    cursor_t c = {.mode = mode, .at = frame};
    net_wire_t copy = *wire;

    copy.version = NET_WIRE_VERSION;
    walk_head(&c, &copy);
    walk_body(&c, &copy, lists == NULL ? &none : lists);
    return c.n;
}

size_t net_wire_size(const net_wire_t *wire, const net_wire_lists_t *lists)
{
    return walk(MEASURE, wire, lists, NULL);
}

void net_wire_encode(const net_wire_t *wire, const net_wire_lists_t *lists, void *frame)
{
    (void)walk(WRITE, wire, lists, frame);
}

void net_wire_stamp(void *frame, uint64_t link, uint64_t seq, uint64_t ack)
{
    put_le((uint8_t *)frame + 16, link, 8);
    put_le((uint8_t *)frame + 24, seq, 8);
    put_le((uint8_t *)frame + 32, ack, 8);
}
