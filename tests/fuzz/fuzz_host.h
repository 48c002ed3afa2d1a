/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_host.h - what fuzzers of the SDK and of plugins share: a host that only fails, and a check that counts
 * in every build. Include in one file of a fuzzer. */
#ifndef FUZZ_HOST_H
#define FUZZ_HOST_H

#include <kvstore/kit.h>

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static char last_text[1024]; /* of what failed last */

static kvs_status_t fail(kvs_status_t status, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(last_text, sizeof(last_text), format, args);
    va_end(args);
    return status;
}

/* A fuzzer that needs more of a host adds it. */
static kvs_host_t host = {
    .size = sizeof(host),
    .abi_major = KVS_ABI_MAJOR,
    .abi_minor = KVS_ABI_MINOR,
    .version = "fuzz",
    .fail = fail,
};
const kvs_host_t *kvs_plugin_host = &host;

static void require(int condition)
{
    if (!condition) {
        abort();
    }
}

#endif
