/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_host.h - what fuzzers of plugins' messages share: a host that only fails, and a check that counts in
 * every build. Include in one file of a fuzzer. */
#ifndef FUZZ_HOST_H
#define FUZZ_HOST_H

#include <kvstore/kit.h>

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static kvs_status_t fail(kvs_status_t status, const char *format, ...)
{
    (void)format;
    return status;
}

static const kvs_host_t host = {.size = sizeof(host), .fail = fail};
const kvs_host_t *kvs_plugin_host = &host;

static void require(int condition)
{
    if (!condition) {
        abort();
    }
}

#endif
