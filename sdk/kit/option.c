/* SPDX-License-Identifier: Apache-2.0 */
/* option.c - options of create as numbers. The core has checked their form. */
#include "clocale.h"

#include <kvstore/kit.h>

#include <stddef.h>

double kvs_option_real(const kvs_config_t *config, const char *name)
{
    const char *text = kvs_plugin_host->option(config, name);

    return text == NULL ? 0 : kvs_clocale_read(text, NULL);
}

int64_t kvs_option_ms(const kvs_config_t *config, const char *name)
{
    double ms = kvs_option_real(config, name) * 1000;

    return ms > 0 && ms < 1 ? 1 : (int64_t)(ms + 0.5);
}
