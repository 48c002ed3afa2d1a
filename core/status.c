/* SPDX-License-Identifier: Apache-2.0 */
/* status.c - the text lives in a fixed thread-local buffer: failing must not allocate, and a thread
 * that ends leaves nothing behind. What does not fit ends in "...",
 * and what is not for people's eyes is escaped. */
#include "status.h"

#include "cnumber.h"
#include "printable.h"

#include <stdio.h>
#include <string.h>

#define TEXT_BYTES 2048

static _Thread_local char last_text[TEXT_BYTES];

kvs_status_t kvsi_fail_v(kvs_status_t status, const char *format, va_list args)
{
    char text[TEXT_BYTES +
              8]; /* the arguments may point into last_text; longer, so that a cut shows */

    kvsi_c_vsnprintf(text, sizeof(text), format, args);
    kvsi_printable(text, last_text, sizeof(last_text));
    return status;
}

kvs_status_t kvs_fail(kvs_status_t status, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    kvsi_fail_v(status, format, args);
    va_end(args);
    return status;
}

kvs_status_t kvsi_fail_context(kvs_status_t status, const char *format, ...)
{
    char context[TEXT_BYTES];
    va_list args;

    va_start(args, format);
    kvsi_c_vsnprintf(context, sizeof(context), format, args);
    va_end(args);
    return kvs_fail(status, "%s: %s", context, last_text);
}

void kvsi_status_clear(void)
{
    last_text[0] = '\0';
}

const char *kvs_last_error(void)
{
    return last_text;
}

const char *kvs_status_name(kvs_status_t status)
{
    switch (status) {
#define NAME_OF(name, code, text)                                                                  \
    case code:                                                                                     \
        return "KVS_" #name;
        KVS_STATUS_LIST(NAME_OF)
#undef NAME_OF
    default:
        return "unknown status";
    }
}

const char *kvs_status_text(kvs_status_t status)
{
    switch (status) {
#define TEXT_OF(name, code, text)                                                                  \
    case code:                                                                                     \
        return text;
        KVS_STATUS_LIST(TEXT_OF)
#undef TEXT_OF
    default:
        return "unknown status";
    }
}

const char *kvs_version(void)
{
    return KVS_VERSION_TEXT;
}
