/* SPDX-License-Identifier: Apache-2.0 */
/* conformance.h - the contract of a store as a list of rules, each with a case that tries it.
 *
 * A backend is tested by name, so an installed plugin needs no test of its own for these rules. Each
 * case runs on a store of its own and compares with a plain loop; in a job of several workers every
 * rank calls kvs_conformance_run with the same arguments. One thread at a time. */
#ifndef KVSTORE_CONFORMANCE_H
#define KVSTORE_CONFORMANCE_H

#include <kvstore/kvstore.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kvs_conformance_rule {
    const char *id;   /* "push.replaces" */
    const char *text; /* the rule as one sentence */
} kvs_conformance_rule_t;

/* All rules, in the order in which they are tried. The id is NULL if `index` is not below the count. */
size_t kvs_conformance_n_rules(void);
kvs_conformance_rule_t kvs_conformance_rule(size_t index);

typedef enum kvs_conformance_verdict {
    KVS_CONFORMANCE_PASSED,
    KVS_CONFORMANCE_FAILED,
    KVS_CONFORMANCE_NOT_APPLICABLE /* the rule says nothing about this backend */
} kvs_conformance_verdict_t;

/* "passed", "failed", "not applicable". */
const char *kvs_conformance_verdict_text(kvs_conformance_verdict_t verdict);

typedef struct kvs_conformance_result {
    kvs_conformance_rule_t rule;
    const char *device; /* "cpu": where the arrays lay */
    kvs_conformance_verdict_t verdict;
    const char *text; /* what was got and wanted, or why it does not apply; "" if passed */
} kvs_conformance_result_t;

/* Begin with KVS_CONFORMANCE_INIT. */
typedef struct kvs_conformance_options {
    uint32_t size;
    uint32_t reserved;
    /* "cpu", "cuda", or NULL: each that this machine has and the backend takes */
    const char *device;
    const char *only;                  /* a rule's id, or NULL: all rules */
    const kvs_option_t *store_options; /* for every store that is created */
    size_t n_store_options;
    /* Called after each case; the result lives for the call. May be NULL. */
    void (*on_result)(const kvs_conformance_result_t *result, void *arg);
    void *arg;
} kvs_conformance_options_t;

#define KVS_CONFORMANCE_INIT                                                                       \
    {                                                                                              \
        (uint32_t)sizeof(kvs_conformance_options_t), 0, NULL, NULL, NULL, 0, NULL, NULL            \
    }

typedef struct kvs_conformance_counts {
    size_t n_cases; /* that applied: passed and failed; counted for each kind of device */
    size_t n_passed;
    size_t n_failed;
    size_t n_not_applicable;
    char devices[64]; /* "cpu", or "cpu, cuda": where arrays lay */
} kvs_conformance_counts_t;

/* Try the rules on backend `name`. `options` NULL: the defaults. KVS_OK says that they were tried:
 * whether all passed, `ret_counts` tells. ERR_ARGUMENT: no name, no such rule; ERR_NOT_IMPLEMENTED: the
 * suite or the backend has no arrays on that device; else what kvs_store_create said. */
kvs_status_t kvs_conformance_run(const char *name, const kvs_conformance_options_t *options,
                                 kvs_conformance_counts_t *ret_counts);

#ifdef __cplusplus
}
#endif
#endif
