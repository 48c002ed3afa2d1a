/* SPDX-License-Identifier: Apache-2.0 */
/* Today's headers against the table of the first plugin ABI: each member lies where it lay, and structs
 * grow at their end only, if they say their size. frozen-v1/README.md says what to do if not. */
#include "kt.h"

#include <kvstore/abi.h>

typedef struct member {
    const char *type, *name;
    size_t want_offset, want_bytes, offset, bytes;
} member_t;

#define SIZED(type, bytes)
#define FIXED(type, bytes)
#define MEMBER(type, name, offset, bytes)                                                          \
    {#type, #name, offset, bytes, offsetof(type, name), sizeof(((type *)0)->name)},
static const member_t members[] = {
#include "frozen-v1/offsets.h"
};
#undef SIZED
#undef FIXED
#undef MEMBER

typedef struct whole {
    const char *type;
    int may_grow;
    size_t want_bytes, bytes;
} whole_t;

#define SIZED(type, bytes) {#type, 1, bytes, sizeof(type)},
#define FIXED(type, bytes) {#type, 0, bytes, sizeof(type)},
#define MEMBER(type, name, offset, bytes)
static const whole_t wholes[] = {
#include "frozen-v1/offsets.h"
};

static void every_member_lies_where_it_lay(void)
{
    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
        const member_t *member = &members[i];

        if (member->offset != member->want_offset || member->bytes != member->want_bytes) {
            printf("\n  %s.%s: %zu bytes at %zu, want %zu at %zu", member->type, member->name,
                   member->bytes, member->offset, member->want_bytes, member->want_offset);
        }
        KT_TRUE(member->offset == member->want_offset && member->bytes == member->want_bytes);
    }
}

static void structs_grow_only_if_they_say_their_size(void)
{
    for (size_t i = 0; i < sizeof(wholes) / sizeof(wholes[0]); i++) {
        const whole_t *whole = &wholes[i];
        int is_right =
            whole->may_grow ? whole->bytes >= whole->want_bytes : whole->bytes == whole->want_bytes;

        if (!is_right) {
            printf("\n  %s: %zu bytes, want %zu%s", whole->type, whole->bytes, whole->want_bytes,
                   whole->may_grow ? " at least" : "");
        }
        KT_TRUE(is_right);
    }
}

static const kt_test_t tests[] = {
    KT_TEST(every_member_lies_where_it_lay),
    KT_TEST(structs_grow_only_if_they_say_their_size),
};

int main(int argc, char **argv)
{
    if (sizeof(void *) != 8 || sizeof(size_t) != 8) {
        printf("skipped: the table is that of 64-bit machines\n");
        return 77;
    }
    return kt_run("plugins.abi_offsets", tests, sizeof(tests) / sizeof(tests[0]), argc, argv);
}
