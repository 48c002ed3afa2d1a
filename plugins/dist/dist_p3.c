/* SPDX-License-Identifier: Apache-2.0 */
#include "dist_p3.h"

#include "dist_message.h"

#include <stdlib.h>
#include <string.h>

#define UNIT 64 /* elements: all compressors' units divide it */

/* The variable beside the option is that of transports, whose other value is the plain one. */
static const char *const yes[] = {"p3", "1", "true", "yes", "on"};
static const char *const no[] = {"", "zmq", "0", "false", "no", "off"};

static bool is_one_of(const char *value, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(value, list[i]) == 0) {
            return true;
        }
    }
    return false;
}

bool dist_p3_is_on(const char *value)
{
    return is_one_of(value, yes, sizeof(yes) / sizeof(yes[0]));
}

kvs_status_t dist_p3_check(const char *value, const char *type)
{
    if (!dist_p3_is_on(value)) {
        return is_one_of(value, no, sizeof(no) / sizeof(no[0]))
                   ? KVS_OK
                   : kvs_fail(
                         KVS_ERR_ARGUMENT,
                         "option p3 (DMLC_PS_VAN_TYPE) is '%s'; 1 or p3 is yes, 0 or zmq is no",
                         value);
    }
    return dist_type_is_async(type)
               ? kvs_fail(KVS_ERR_ARGUMENT,
                          "'%s' is asynchronous, and P3 (DMLC_PS_VAN_TYPE=p3) is for synchronous "
                          "stores only; unset it, or create 'dist_sync'",
                          type)
               : KVS_OK;
}

int64_t dist_p3_slice(const char *threshold)
{
    int64_t n = strtoll(threshold, NULL, 10) / UNIT * UNIT;

    return n > UNIT ? n : UNIT;
}

static const char *find(const kvs_net_fact_t *facts, uint32_t n_facts, const char *name)
{
    for (uint32_t i = 0; i < n_facts; i++) {
        if (strcmp(facts[i].name, name) == 0) {
            return facts[i].value;
        }
    }
    return "";
}

int64_t dist_p3_slice_of(const kvs_net_fact_t *facts, uint32_t n_facts)
{
    return dist_p3_is_on(find(facts, n_facts, "option p3"))
               ? dist_p3_slice(find(facts, n_facts, "option slice_threshold"))
               : 0;
}
