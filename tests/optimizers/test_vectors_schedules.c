/* SPDX-License-Identifier: Apache-2.0 */
/* test_vectors_schedules.c - the golden cases of lr_schedulers.json. KVSTORE_VECTORS names another
 * directory that holds such a file. */
#include "rig.h"

#include "schedule.h"

#include "golden.h"
#include "spec.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int check_table(golden_case_t *c, kvs_schedule_t *schedule)
{
    const cJSON *row;

    cJSON_ArrayForEach(row, golden_get(c->json, "table"))
    {
        int64_t num_update = (int64_t)golden_number(row, "num_update", 0);
        double got = kvs_schedule_rate(schedule, num_update);
        double want = golden_number(row, "lr", 0);

        if (!(fabs(got - want) <= c->atol + c->rtol * fabs(want))) {
            return golden_failed(c, "the rate at %lld is %.17g, want %.17g", (long long)num_update,
                                 got, want);
        }
    }
    return 1;
}

/* The files keep class and args apart; the reader of specifications wants them in one object. */
static cJSON *as_spec(const cJSON *json)
{
    cJSON *object = cJSON_CreateObject();
    cJSON *schedule = cJSON_Duplicate(golden_get(json, "args"), 1);

    cJSON_AddStringToObject(schedule, "class", golden_text(json, "class"));
    cJSON_AddItemToObject(object, "lr_scheduler", schedule);
    cJSON_AddItemToObject(object, "hyper", cJSON_CreateObject());
    return object;
}

static int run_case(const cJSON *json, const cJSON *tolerance, int number)
{
    const cJSON *rate = golden_get(json, "optimizer_learning_rate");
    golden_case_t c = {.json = json, .name = golden_text(json, "class"), .kind = "lr_scheduler"};
    golden_spec_t spec = GOLDEN_SPEC_INIT;
    kvs_schedule_t *schedule = NULL;
    cJSON *object = as_spec(json);
    int ok;

    c.rtol = golden_number(tolerance, "rtol", 0);
    c.atol = golden_number(tolerance, "atol", 0);
    ok = golden_spec_read(&c, "sgd", object, &spec) &&
         golden_ok(&c,
                   kvs_schedule_new(spec.spec.schedule, spec.spec.schedule_params,
                                    spec.spec.n_schedule_params, &schedule),
                   "kvs_schedule_new");
    if (ok && cJSON_IsNumber(rate)) {
        kvs_schedule_set_rate(schedule, rate->valuedouble);
    }
    ok = ok && check_table(&c, schedule);
    if (!ok) {
        printf("case %d, %s: %s\n", number, c.name, c.reason);
    }
    kvs_schedule_free(schedule);
    golden_spec_release(&spec);
    cJSON_Delete(object);
    return ok;
}

static cJSON *read_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    char *text = NULL;
    size_t size = 0;
    cJSON *json = NULL;

    if (file != NULL && getdelim(&text, &size, '\0', file) > 0) {
        json = cJSON_Parse(text);
    }
    free(text);
    if (file != NULL) {
        fclose(file);
    }
    return json;
}

int main(void)
{
    const char *directory = getenv("KVSTORE_VECTORS");
    int n_cases = 0;
    int n_passed = 0;
    char path[4096];
    const cJSON *one;
    cJSON *json;

    rig_start();
    snprintf(path, sizeof(path), "%s/lr_schedulers.json",
             directory != NULL ? directory : KVS_VECTORS_DIR);
    json = read_file(path);
    if (json == NULL) {
        printf("%s: can't be read\n", path);
        return 1;
    }
    cJSON_ArrayForEach(one, golden_get(json, "cases"))
    {
        n_passed += run_case(one, golden_get(json, "tolerance"), n_cases++);
    }
    cJSON_Delete(json);
    printf("vectors: 1 files, %d cases, %d passed, 0 skipped\n", n_cases, n_passed);
    return n_cases == 0 || n_passed != n_cases;
}
