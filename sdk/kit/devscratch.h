/* SPDX-License-Identifier: Apache-2.0 */
/* devscratch.h - memory on devices that is needed until some work is over, and then given back together. */
#ifndef KVS_KIT_DEVSCRATCH_H
#define KVS_KIT_DEVSCRATCH_H

#include <kvstore/plugin.h>

typedef struct kvs_dev_scratch kvs_dev_scratch_t;

/* Allocate, and put it on the list, which begins as NULL. ERR_NO_MEMORY, or the provider's. */
kvs_status_t kvs_dev_scratch_take(kvs_dev_scratch_t **list, const kvs_provider_t *provider,
                                  kvs_device_t device, size_t n_bytes, void **ret_data);
/* Empties the list. */
void kvs_dev_scratch_release(kvs_dev_scratch_t **list, const kvs_provider_t *provider);

#endif
