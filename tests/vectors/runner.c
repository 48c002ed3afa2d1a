/* SPDX-License-Identifier: Apache-2.0 */
/* runner.c - directory, files, cases. What a case does is its kind's business (program.c,
 * optimizer.c, compression.c); cases of kinds that need no store are other suites' and count as skipped. */
#include "runner.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

typedef struct kind {
    const char *name;
    const char *store; /* that its cases are for; NULL: a case names its own, in store_field */
    const char *store_field;
    void (*run)(golden_case_t *c);
} kind_t;

static const kind_t kinds[] = {
    {"program", NULL, "store", golden_run_program},
    {"optimizer", NULL, "via", golden_run_optimizer},
    {"gradient_compression", "device", NULL, golden_run_compression},
};

static const kind_t *find_kind(const char *name)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (strcmp(name, kinds[i].name) == 0) {
            return &kinds[i];
        }
    }
    return NULL;
}

/* "local" of "local" and of "kvstore local". */
static const char *store_name(const cJSON *json, const char *field)
{
    const char *text = golden_text(json, field);
    const char *space = strrchr(text, ' ');

    return space != NULL ? space + 1 : text;
}

/* The one that all cases are for, if the variable names it; a job's has the workers of the case. */
static const char *store_of(const kind_t *kind, const golden_case_t *c)
{
    const char *other = getenv("KVSTORE_VECTORS_STORE");

    const char *own = kind->store != NULL ? kind->store : store_name(c->json, kind->store_field);

    if (golden_n_devices() > 0 && strcmp(own, "local") == 0) {
        own = "device"; /* which is `local` on devices */
    }
    return other != NULL ? other : own;
}

/* In a job workers take the place of devices: there are as many, or one that has all of them. */
static int has_its_workers(golden_case_t *c)
{
    int n_wanted = (int)golden_number(c->json, "num_devices", 1), n_workers = 0;

    if (getenv("KVSTORE_VECTORS_STORE") == NULL) {
        return 1;
    }
    if (!golden_ok(c, kvs_store_num_workers(c->store, &n_workers), "num_workers")) {
        return 0;
    }
    return n_workers == n_wanted ? 1 : golden_skipped(c, "it is for %d workers", n_wanted);
}

static void run_case(const kind_t *kind, golden_case_t *c)
{
    const char *store = store_of(kind, c);
    kvs_status_t status = kvs_store_create(store, NULL, 0, &c->store);

    if (status == KVS_ERR_UNAVAILABLE) {
        golden_skipped(c, "backend %s is not installed (%s)", store, kvs_last_error());
    } else if (golden_ok(c, status, "create") && has_its_workers(c)) {
        kind->run(c);
    }
    status = kvs_store_close(c->store);
    if (status != KVS_OK) {
        golden_failed(c, "close: %s", kvs_last_error());
    }
}

static void count(const golden_case_t *c, const char *file, FILE *report, golden_counts_t *counts)
{
    static const char *const words[] = {"passed", "failed", "skipped"};

    counts->n_run += c->verdict != GOLDEN_SKIPPED;
    counts->n_passed += c->verdict == GOLDEN_PASSED;
    counts->n_failed += c->verdict == GOLDEN_FAILED;
    counts->n_skipped += c->verdict == GOLDEN_SKIPPED;
    if (c->verdict != GOLDEN_PASSED) {
        fprintf(report, "\n  %s: %s: %s: %s", file, c->name, words[c->verdict], c->reason);
    }
}

static void run_json(const cJSON *json, const char *file, FILE *report, golden_counts_t *counts)
{
    const char *kind_name = golden_text(json, "kind");
    const kind_t *kind = find_kind(kind_name);
    const cJSON *item;

    if (kind == NULL) {
        int n = cJSON_GetArraySize(golden_get(json, "cases"));

        fprintf(report, "\n  %s: %d cases of kind \"%s\" are not this suite's", file, n, kind_name);
        counts->n_skipped += n;
        return;
    }
    cJSON_ArrayForEach(item, golden_get(json, "cases"))
    {
        const cJSON *own = golden_get(item, "tolerance");
        const cJSON *tolerance = own != NULL ? own : golden_get(json, "tolerance");
        golden_case_t c = {.json = item,
                           .name = golden_text(item, "case"),
                           .rtol = golden_number(tolerance, "rtol", 0),
                           .atol = golden_number(tolerance, "atol", 0)};

        run_case(kind, &c);
        count(&c, file, report, counts);
    }
}

static char *read_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    char *text = NULL;
    size_t n = 0;
    FILE *buffer = file != NULL ? open_memstream(&text, &n) : NULL;
    char block[65536];
    size_t got;

    if (buffer != NULL) {
        while ((got = fread(block, 1, sizeof(block), file)) > 0) {
            fwrite(block, 1, got, buffer);
        }
        fclose(buffer);
    }
    if (file != NULL) {
        fclose(file);
    }
    return text;
}

static int run_file(const char *directory, const char *name, FILE *report, golden_counts_t *counts)
{
    char path[4096];
    char *text;
    cJSON *json;

    snprintf(path, sizeof(path), "%s/%s", directory, name);
    text = read_file(path);
    json = text != NULL ? cJSON_Parse(text) : NULL;
    free(text);
    if (!cJSON_IsArray(golden_get(json, "cases"))) {
        fprintf(report, "\n  %s: cannot be read, or has no list of cases", path);
        cJSON_Delete(json);
        return 0;
    }
    counts->n_files++;
    run_json(json, name, report, counts);
    cJSON_Delete(json);
    return 1;
}

static int is_json(const struct dirent *entry)
{
    size_t n = strlen(entry->d_name);

    return n > 5 && strcmp(entry->d_name + n - 5, ".json") == 0;
}

int golden_run(const char *directory, FILE *report, golden_counts_t *ret_counts)
{
    struct dirent **entries = NULL;
    int n = scandir(directory, &entries, is_json, alphasort);
    int ok = n > 0;

    *ret_counts = (golden_counts_t){0};
    if (n <= 0) {
        fprintf(report, "\n  %s: %s", directory, n < 0 ? "cannot be read" : "holds no JSON file");
    }
    for (int i = 0; i < n; i++) {
        ok &= run_file(directory, entries[i]->d_name, report, ret_counts);
        free(entries[i]);
    }
    free(entries);
    return ok;
}
